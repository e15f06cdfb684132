#ifndef COMPAT_MEGATRON_OPTIMIZERS_H
#define COMPAT_MEGATRON_OPTIMIZERS_H
/* Optimizers of Argonne's fork of Megatron-DeepSpeed: each has options of its own, which only it reads, and
 * defaults that differ from those of the same options here. Words: all of the command line. */
#include "compat/import.h"

/* One argument with its words. true: it was ignored with a remark. */
bool optimizers_take(Import *m, Options *o, const TextList *words, const char *from, int count, char **word);
/* After all arguments: that fork's defaults of the optimizer that the script gives. */
void optimizers_defaults(Import *m, Options *o, const TextList *words, const char *from);
#endif
