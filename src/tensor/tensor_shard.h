#ifndef TENSOR_TENSOR_SHARD_H
#define TENSOR_TENSOR_SHARD_H
/* Which part of a logical, unpadded tensor a rank holds. Store and optimizer see nothing else, so that no layout is ever
 * in a checkpoint: a box of the tensor (tensor parallelism cuts it) and of that box, seen row-major, a flat run (ZeRO cuts it). */
#include "tensor/tensor.h"

typedef struct {
    char    name[96];
    int     dims;
    int64_t global[4];                 /* the logical tensor */
    int64_t offset[4], box[4];         /* the box within it */
    int64_t first, count;              /* the flat run within the box */
    Tensor  local;                     /* 1-dim, count elements, this rank's memory (the caller owns it) */
} TensorShard;

/* A stretch of consecutive elements: `count` elements at `global` of the row-major logical tensor are at `local` of the run. */
typedef struct { int64_t global, local, count; } TensorShardRun;
/* Walks the runs in order: *cursor starts at 0; false when done. Rows that touch are joined. */
bool tensor_shard_next_run(const TensorShard *shard, int64_t *cursor, TensorShardRun *run);
#endif
