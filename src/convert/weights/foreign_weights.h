#ifndef CONVERT_FOREIGN_WEIGHTS_H
#define CONVERT_FOREIGN_WEIGHTS_H
/* A checkpoint of another program as what a run starts from: --load hf:FOLDER, and the like. One rank
 * reads its config, index and headers; each rank opens the files with its own shards and reads these, under
 * any layout. Nothing here communicates. */
#include "convert/format.h"
#include "tensor/tensor_shard.h"

/* FOLDER of "hf:FOLDER", or "megatron:FOLDER" and the like whole (formats.h), as the functions below take it;
 * NULL: `load` is a checkpoint of this program. */
const char *foreign_weights_folder(const char *load);
/* The options of its model as one JSON object, {"num-layers": 12, ...}, with "tokenizer" where the folder has
 * one. The caller frees it. */
Status foreign_weights_options(char **options, const char *folder);
/* Which tensors it has, and where in its files, as bytes for all ranks; the caller frees *table. */
Status foreign_weights_table(char **table, size_t *bytes, const char *folder);
/* Fills the shards' memory; floating-point types are converted. Of the checksums that the files have this
 * rank of `ranks` compares its part. BAD_SHAPE: a tensor is missing, too many or of another shape than in
 * `model`. BAD_FILE: another checksum, or a file is missing or of another size. */
Status foreign_weights_load(const char *table, size_t bytes, const ModelConfig *model,
                            const TensorShard *shards, int nshards, int rank, int ranks);
#endif
