#ifndef COMPAT_MEGATRON_BESIDE_H
#define COMPAT_MEGATRON_BESIDE_H
/* Arguments of Megatron-LM and its forks that no row of a table can answer: what they mean depends on other
 * arguments, or they have more words than the option here. And what a script has to give because the original
 * has no default for it. */
#include "compat/import.h"

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
#endif
