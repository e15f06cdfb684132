/* The map from a shard's local elements to the elements of the logical tensor, as runs that are
 * consecutive in both. */
#include "tensor/tensor_shard.h"

#include <inttypes.h>

/* How many elements of the box are consecutive in the logical tensor: the product of its trailing dims up
 * to and including the last one that is sharded. */
static int64_t contiguous_run(const TensorShard *p)
{
    int64_t stretch = 1;
    for (int d = p->dims - 1; d >= 0; d--) {
        stretch *= p->box[d];
        if (p->box[d] != p->global[d]) break;
    }
    return stretch;
}

/* The row-major index in the logical tensor of element `at` of the box. */
static int64_t global_index(const TensorShard *p, int64_t at)
{
    int64_t global = 0, width = 1;
    for (int d = p->dims - 1; d >= 0; d--) {
        global += (p->offset[d] + at % p->box[d]) * width;
        at     /= p->box[d];
        width  *= p->global[d];
    }
    return global;
}

bool tensor_shard_next_run(const TensorShard *p, int64_t *cursor, TensorShardRun *run)
{
    int64_t left = p->count - *cursor;
    if (left <= 0) return false;
    int64_t run_length = contiguous_run(p), at = p->first + *cursor;
    CHECK(run_length > 0, "%s: a flat range of %" PRId64 " elements in an empty box", p->name, p->count);
    /* The flat range may begin and end within a run. Two runs never join, because the rest of the sharded
     * dim is between them in the logical tensor. */
    int64_t rest = run_length - at % run_length;
    *run = (TensorShardRun){ .global = global_index(p, at), .local = *cursor,
                             .count = left < rest ? left : rest };
    *cursor += run->count;
    return true;
}
