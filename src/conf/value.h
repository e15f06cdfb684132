#ifndef CONF_VALUE_H
#define CONF_VALUE_H
/* One value: from text to its field and back, with its source. Used by the files of this directory only. */
#include "conf/rows.h"

/* Zeroed memory of a list that held_free frees as a whole. */
void *held_bytes(void **held, size_t bytes);
void  held_free (void **held);
/* A copy of the text that is valid until options_close. */
const char *options_hold(Options *o, const char *text);
/* The same of bytes. */
const void *options_hold_bytes(Options *o, const void *bytes, size_t count);
void        options_add_word(Options *o, const char *word);  /* a positional argument */
void        text_list_add(TextList *list, const char *text);  /* not copied; the owner frees list->text */
void        text_list_copy(TextList *copy, const TextList *list);         /* the list, not its texts */
void        options_demand(Options *o, OptionDemand demand);
#define ENVIRONMENT_PREFIX "JOTUN_"
/* JOTUN_NUM_LAYERS for num-layers; returns out. */
const char *environment_name(char *out, size_t size, const char *option);
/* Whether a word is a number and nothing else. */
bool value_number (const char *word, double *value);
/* So many letters of a text as a number from 0 on. */
bool value_weight (double *weight, const char *text, size_t letters);
/* Whether a text is one to three weights with commas between, not all 0: --split. */
bool value_weights(const char *text);
/* "--tp 3", "JOTUN_LR=3", "--num-attention-heads 12 (default)": option, value, source where not typed.
 * Returns out. */
const char *options_typed(char *out, size_t size, const Options *o, OptionIndex option);
/* In messages of rules, of the Options o: an option with its value as typed; its name as typed. */
enum { SAID = 256 };
#define TYPED(option) options_typed((char[SAID]){ 0 }, SAID, o, option)  /* lives as long as its block */
#define NAMED(option) (o->source[option].name)
/* BAD_OPTION where the value is outside of its row's range. */
Status      options_range(const Options *o, OptionIndex option);
/* The number of a word of --recompute-modules: core_attn 0, layernorm 1, mlp 2, mlp_act 3, moe 4, moe_act 5,
 * shared_experts 6; -1: none of them. */
int         option_recompute_module(const char *word);
/* A value where no stronger source gave one. from: "--hidden-size", as `jotun config` shows it. */
void        options_derived_int (Options *o, OptionIndex option, int64_t value, const char *from);
void        options_derived_real(Options *o, OptionIndex option, double value, const char *from);
#endif
