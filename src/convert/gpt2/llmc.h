#ifndef CONVERT_LLMC_H
#define CONVERT_LLMC_H
/* Models of llm.c (gpt2_124M.bin, gpt2_124M_bf16.bin): a header of 256 32-bit integers and all parameters,
 * those of one kind of all layers together. Versions 3 (fp32) and 5 (bf16) are read. Tensors have the names
 * that nanoGPT gives them, since matrices are stored as its; rows that pad the vocabulary are left out. The
 * file is mapped, and no memory is taken for it. */
#include <jansson.h>
#include "convert/foreign.h"

/* Opens *file, and *options of the model by our names, a new reference. BAD_FILE: another version, a size
 * that is not the header's; then both are empty. */
Status llmc_read(ForeignFile *file, json_t **options, const char *path);
#endif
