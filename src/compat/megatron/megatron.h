#ifndef COMPAT_MEGATRON_MEGATRON_H
#define COMPAT_MEGATRON_MEGATRON_H
/* What the files share that read scripts of Megatron-LM and its forks. */
#include "compat/import.h"

/* ---- beside.c ----
 * Arguments of Megatron-LM and its forks that no row of a table can answer: what they mean depends on other
 * arguments, or they have more words than the option here. And what a script has to give because the original
 * has no default for it. */

/* The value of an argument among all words of a command line; NULL where it is not given. The last one
 * counts. */
const char *given_value(const TextList *words, const char *name);
bool        given_flag(const TextList *words, const char *name);

/* One argument with its words. true: it was taken, ignored with a remark, or refused. */
bool beside_take(Import *m, Options *o, const TextList *words, const char *from, int count, char **word);

/* Names the lines of a script such as NAME=<Specify path>, which bash takes as something else. */
void placeholders_of_script(Import *m, Options *o, const char *path, const char *text);

/* Numbers as Python's int and float read them: blanks around them, and _ between two digits. Words that are
 * no numbers, and those of options that take none, stay as they are. */
void python_numbers(Options *o, int count, char **word);

/* After all arguments: defaults of the original that are not jotun's are written, where the script has what
 * they count for. */
void beside_defaults(Import *m, Options *o, const TextList *words, const char *from);

/* What the original does not start without and jotun has a default for is refused where it is not given. */
void required_check(Import *m, Options *o, const char *from);

/* Optimizers of Argonne's fork of Megatron-DeepSpeed (optimizers.c): each has options of its own, which only
 * it reads, and defaults that differ from those of the same options here. words: all of the command line. One
 * argument with its words; true: it was ignored with a remark. */
bool optimizers_take(Import *m, Options *o, const TextList *words, const char *from, int count, char **word);
/* After all arguments: that fork's defaults of the optimizer that the script gives. */
void optimizers_defaults(Import *m, Options *o, const TextList *words, const char *from);

/* ---- version1.c ----
 * Scripts of Megatron-LM 1, known by --batch-size. One argument with its words; true: it was taken. After all
 * arguments: that version's defaults, where they differ from those of later ones. */
bool version1_take(Import *m, Options *o, const TextList *words, const char *from, int count, char **word);
void version1_defaults(Import *m, Options *o, const TextList *words, const char *from);

/* ---- partition.c ----
 * --pp-partition-method of BigScience's fork: how modules are divided among pipeline stages. */

/* true: `word` is that argument, and the options with which each stage gets the same layers are taken, or it
 * is refused with the reason. words: the whole command line. */
bool partition_take(Import *m, Options *o, const TextList *words, const char *from, char **word);
/* Layers of each stage, layers[stages], by DeepSpeed's partition of that model's modules; false, and why,
 * where the method is not known or a stage would have no layer. half: --fp16 or --bf16, a module more. */
bool partition_layers(int64_t *layers, char *why, size_t size, const char *method, int64_t all, int stages,
                      bool half);

/* ---- programs.c ----
 * Which of the programs that a script starts pretrains a model as jotun train does: options of BERT have the
 * same names. */

/* A tool trains nothing: it makes data, converts, evaluates or answers. */
typedef enum { PROGRAM_UNKNOWN, PROGRAM_TRAINS_GPT, PROGRAM_IS_OTHER, PROGRAM_IS_TOOL } ProgramKind;

/* what, instead: of an other one or a tool: "pretrains BERT, which is not built", "use the program that has
 * it"; else "". */
typedef struct {
    ProgramKind kind;
    const char *what, *instead;
} Program;

Program program_of(const char *path); /* "examples/../pretrain_gpt.py" */

/* Which of these programs to take, an index; is_gpt: the user says that an unknown one pretrains GPT.
 * BAD_OPTION where none of them does: the message names each, with what it is and what does the same here. */
Status program_choose(int *chosen, int count, const char *const *path, bool is_gpt);
#endif
