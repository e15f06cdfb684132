/* The shapes of optimizer states. */
#include "optim/state.h"
#include <stdio.h>
#include <string.h>

int64_t state_block_rows(const Param *p)
{
    if (p->dims > 1) return p->head_rows > 0 ? p->head_rows : 1;
    return p->bias ? 1 : p->global[0];
}

/* The whole state of a shape that is not the parameter's, as one box. Of experts its first dimension is
 * theirs. */
static TensorShard whole(const OptimizerState *state, const Param *p)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0;
    TensorShard shard = { .global = { 1, 1, 1, 1 } };
    if (r > 0) shard.global[shard.dims++] = p->global[0];
    switch (state->shape) {
    case PER_ROW:     shard.global[shard.dims++] = p->global[r]; break;
    case PER_COLUMN:  shard.global[shard.dims++] = p->global[r + 1]; break;
    case PER_BLOCK:   shard.global[shard.dims++] = p->global[r] / state_block_rows(p); break;
    case PER_ELEMENT: break;
    }
    shard.count = 1;
    for (int d = 0; d < 4; d++) {
        shard.box[d] = shard.global[d];
        shard.count *= shard.box[d];
    }
    return shard;
}

static TensorShard named(TensorShard shard, const OptimizerState *state, const Param *param)
{
    CHECK((size_t)snprintf(shard.name, sizeof shard.name, "%s.%s", param->name, state->name) <
          sizeof shard.name, "the name of state %s of %s is too long", state->name, param->name);
    return shard;
}

TensorShard state_held(const OptimizerState *state, const ParamBlock *block, int p, int64_t first,
                       int64_t count)
{
    const Param *param = &block->param[p];
    TensorShard own = params_tensor_shard(block, p, first, count);
    if (state->shape == PER_ELEMENT) return named(own, state, param);
    TensorShard all = whole(state, param);
    if (own.count == 0) all.count = 0;
    return named(all, state, param);
}

/* Of a whole state that is the rank which counts the first element of the logical tensor. */
TensorShard state_saved(const OptimizerState *state, const ParamBlock *block, int p, int64_t first,
                        int64_t count)
{
    const Param *param = &block->param[p];
    TensorShard part = params_tensor_shard(block, p, first, count);
    TensorShard held = state_held(state, block, p, first, count);
    bool begins = part.first == 0 && param->offset[0] == 0 && param->offset[1] == 0 && param->offset[2] == 0;
    if (state->shape != PER_ELEMENT && !begins) held.count = 0;
    return held;
}
