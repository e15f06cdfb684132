#ifndef COMPAT_MEGATRON_PARTITION_H
#define COMPAT_MEGATRON_PARTITION_H
/* --pp-partition-method of BigScience's fork: how modules are divided among pipeline stages. */
#include "compat/import.h"

/* true: `word` is that argument, and the options with which each stage gets the same layers are taken, or it
 * is refused with the reason. words: the whole command line. */
bool partition_take(Import *m, Options *o, const TextList *words, const char *from, char **word);
/* Layers of each stage, layers[stages], by DeepSpeed's partition of that model's modules; false, and why,
 * where the method is not known or a stage would have no layer. half: --fp16 or --bf16, a module more. */
bool partition_layers(int64_t *layers, char *why, size_t size, const char *method, int64_t all, int stages,
                      bool half);
#endif
