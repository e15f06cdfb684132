#include "tensor/tensor_shard.h"

#include <inttypes.h>

/* How much of the box is consecutive in the logical tensor: its whole trailing dims, and the first cut one */
static int64_t stretch_of(const TensorShard *p)
{
    int64_t stretch = 1;
    for (int d = p->dims - 1; d >= 0; d--) {
        stretch *= p->box[d];
        if (p->box[d] != p->global[d]) break;
    }
    return stretch;
}

static int64_t global_of(const TensorShard *p, int64_t at)
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
    int64_t stretch = stretch_of(p), at = p->first + *cursor;
    CHECK(stretch > 0, "%s: a run of %" PRId64 " elements in an empty box", p->name, p->count);
    int64_t whole = stretch - at % stretch;          /* stretches never touch: a cut dim lies between them */
    *run = (TensorShardRun){ .global = global_of(p, at), .local = *cursor, .count = left < whole ? left : whole };
    *cursor += run->count;
    return true;
}
