#ifndef TENSOR_TENSOR_SHARD_H
#define TENSOR_TENSOR_SHARD_H
/* Which part of a logical tensor a rank holds. Tensor parallelism cuts the tensor into boxes, and ZeRO
 * cuts the elements of a box, in row-major order, into flat ranges. Checkpoints and optimizers see a
 * parallel layout only as such shards, so a checkpoint contains no layout and can be loaded under another
 * one. The logical tensor has no padding. */
#include "tensor/queue.h"
#include "tensor/tensor.h"

typedef struct {
    char    name[96];                  /* of the logical tensor, as checkpoints write it */
    int     dims;                      /* 1 to 4 */
    int64_t global[4];                 /* the shape of the logical tensor */
    int64_t offset[4], box[4];         /* where the box begins in it, and the box's shape */
    int64_t first, count;              /* the flat range: elements of the box in row-major order */
    Tensor  local;                     /* [count], this rank's memory, which the caller owns */
    Queue  *queue;                     /* local is in the memory of its device; NULL: in host memory */
} TensorShard;

/* Consecutive elements in both: `count` elements from `global` of the logical tensor in row-major order
 * are stored from `local` of the shard's local tensor. */
typedef struct { int64_t global, local, count; } TensorShardRun;
/* Iterates over the shard's runs in increasing order; each is as long as possible. *cursor is 0 before the
 * first call. false: there are no more. */
bool tensor_shard_next_run(const TensorShard *shard, int64_t *cursor, TensorShardRun *run);
#endif
