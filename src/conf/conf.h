#ifndef CONF_CONF_H
#define CONF_CONF_H
/* Options of a command: parse them, derive values from others, check combinations, show them, store them in a
 * checkpoint. Messages name the option as typed, its value, and what would work. */
#include <stdio.h>
#include "conf/options.h"

/* Defaults; from here on options_close has to be called. What follows sets values by options_take
 * (conf/words.h) and options_set: of each option that of the strongest source counts, whatever the order. */
Status options_begin (Options *o, CommandSet command);
/* The values of --model, weaker than all that a person gave, which is why they may come last. BAD_OPTION
 * where there is no such preset. */
Status options_take_preset(Options *o);
/* The files of --config and --json-config: read by this process (zeros); not read (none); or as rank 0 has
 * read them and sent them to all (packed, which options_config_texts has made and which is not needed
 * afterwards). */
typedef struct { bool none; const char *packed; size_t bytes; } ConfigTexts;
/* The bytes of these files, one after the other; the caller frees *packed, after a failure too. BAD_FILE. */
Status options_config_texts (char **packed, size_t *bytes, const Options *o);
void   options_close (Options *o);
Status options_expect(const Options *o, int count, const char *what);   /* exactly so many words: "PREFIX" */

/* One value; kept unless a stronger source gave one. Names in `source` are copied. */
Status options_set   (Options *o, OptionIndex option, const char *value, OptionSource source);
/* What only the program around knows (ranks from the launcher, vocabulary from the tokenizer), before
 * options_derive: where nobody gave it. from: "the launcher". */
void   options_fill  (Options *o, OptionIndex option, int64_t value, const char *from);
bool   options_said  (const Options *o, OptionIndex option);     /* given by a person, preset or checkpoint */
/* On the command line or in the environment. */
bool   options_typed_by_person(const Options *o, OptionIndex option);

/* Fills in what follows from other values; callable again after more values were set. BAD_OPTION where a
 * batch schedule cannot be read, and where samples or tokens are less than a step. */
Status  options_derive(Options *o);
/* BAD_USAGE where options are missing that the command needs, which are named all at once. Right after
 * options_parse, so that what follows finds them. */
Status  options_needed  (const Options *o);
/* The same, and BAD_OPTION where values do not fit together. */
Status  options_validate(const Options *o);
/* Of another trainer's file, which says neither on how many ranks its values are used nor what else is given:
 * BAD_OPTION where they do not fit together on any. */
Status  options_validate_file(const Options *o);
int64_t options_data_parallel(const Options *o);     /* ranks / (tp pp cp), at least 1 */
/* Of validated options (conf/attention.c): the first number of --hierarchical-context-parallel-sizes, 1 where
 * it is not given; positions that a query looks back on, its own one counted, 0 without a window. */
int     options_hierarchical(const Options *o);
int64_t options_window      (const Options *o);
/* channels of a head that RoPE rotates; 0 without RoPE */
int64_t options_rotary      (const Options *o);

/* A line for each value that has to be the same on all ranks: "--lr 0.1", between, " (JOTUN_LR)". --threads
 * is left out: hosts may have different numbers of cores. A list has a line for each word. */
void   options_show_common(FILE *out, const Options *o, char between);
void   options_show  (FILE *out, const Options *o);   /* each value of the command with its source */
/* A command line that says what sources from this one on gave: "jotun train --num-layers 2". Owned by o. */
const char *options_command(Options *o, SourceKind least);
/* The value as a person would type it; of a LIST the first word. */
const char *options_value_text (char *out, size_t size, const Options *o, OptionIndex option);
/* The shortest decimal that reads back as the same double. */
void        options_real_text  (char *out, size_t size, double value);
/* "default", "command line", "--model gpt2-124m", "derived from --hidden-size" */
const char *options_source_text(char *out, size_t size, const Options *o, OptionIndex option);

/* All options which hold a value, as one JSON object, "num-layers": 12. The text lives as long as the
 * options. */
Status options_json     (Options *o, const char **json);
/* The names of the options that a person gave, in a file of --config too, with blanks between. The text lives
 * as long as the options. */
Status options_given    (Options *o, const char **names);
/* The rows of such an object that are taken by one of `which` (FOR_CHECKPOINT_ARGS, FOR_SCHEDULE), weaker
 * than what a person typed. path: its file, for messages. BAD_FILE where it is no such object, or has an
 * option that this version does not know. */
Status options_from_json(Options *o, const char *json, const char *path, CommandSet which);
/* The value of one option, where the checkpoint has it. */
Status options_take_saved(Options *o, OptionIndex option, const char *json, const char *path);
/* --use-checkpoint-opt-param-scheduler: the schedule of o->checkpoint, also where a person gave another one,
 * which a line then names. What an imported checkpoint does not tell stays as it is given. */
Status options_take_schedule(Options *o);
/* After options_derive: lengths of that schedule in steps become what they are in samples, where
 * --global-batch-size is another one than the checkpoint's. */
Status options_keep_lengths(Options *o);
/* The options of the schedule of o->checkpoint, and what they follow from; the others, and what the
 * checkpoint does not tell, are those of `o`. The caller closes `was`, after a failure too; it points into
 * `o`. */
Status options_saved_schedule(Options *was, const Options *o);
/* A run that resumes from the checkpoint at `path`, after options_derive and with o->checkpoint filled in:
 * BAD_OPTION where a row differs that has to be the checkpoint's (conf/resume.c), with all of them, both
 * values and what to do; o->changed lists the FOR_SAME_RUN rows that differ, with what keeps them where they
 * are derived. */
Status options_match_json(Options *o, const char *json, const char *path);
#endif
