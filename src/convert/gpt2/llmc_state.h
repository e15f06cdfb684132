#ifndef CONVERT_LLMC_STATE_H
#define CONVERT_LLMC_STATE_H
/* llm.c's state_SSSSSSSS_RRRRR.bin, which lie beside model_SSSSSSSS.bin: AdamW's moments and the fp32 copies
 * of weights of each rank. Under ZeRO 1 each rank has a part of every tensor of every layer; else all have
 * the same. They say how many steps were done, and not how many samples that were. */
#include "convert/foreign.h"

/* Adds the states of all tensors of *file, which are those of the model file at `path` in its order, from the
 * element at `first` on, each `width` bytes. A model file of another name has no states. NO_MEMORY and
 * BAD_FILE: a file that is no state of llm.c. States that are incomplete are left out
 * (ForeignFile.states_unread). */
Status llmc_states_read(ForeignFile *file, const char *path, const char *first, size_t width);
#endif
