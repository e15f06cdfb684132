/* The shapes of optimizer states. */
#include "optim/state.h"
#include <stdio.h>
#include <string.h>
#include "tensor/dynamic_code.h"
#include "tensor/onebit.h"

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
    case PER_TENSOR:  shard.global[shard.dims++] = ONEBIT_NUMBERS; break;
    default: break;
    }
    shard.count = 1;
    for (int d = 0; d < 4; d++) {
        shard.box[d] = shard.global[d];
        shard.count *= shard.box[d];
    }
    return shard;
}

/* ---- blocks ---- */

CodeBlocks state_code_blocks(int64_t rows, int64_t columns, int64_t local_rows, int64_t local_columns)
{
    bool cut = local_columns < columns ? columns % CODE_BLOCK != 0 || local_columns % CODE_BLOCK != 0
             : local_rows < rows ? local_rows * columns % CODE_BLOCK != 0 : false;
    return (CodeBlocks){ cut, code_blocks(cut ? rows * columns : local_rows * local_columns) };
}

static CodeBlocks codes_of(const Param *p)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0;
    return state_code_blocks(p->global[r], p->global[r + 1], p->local[r], p->local[r + 1]);
}

int64_t state_code_granule(const Param *p)
{
    int64_t matrices = p->dims == PARAM_DIMS ? p->local[0] : 1, matrix = param_elements(p) / matrices;
    bool whole = codes_of(p).cut || (matrices > 1 && matrix % CODE_BLOCK != 0);
    return whole ? matrix : CODE_BLOCK;
}

static int64_t matrix_elements(const Param *p)
{
    return param_elements(p) / (p->dims == PARAM_DIMS ? p->local[0] : 1);
}

/* Where each matrix has so many numbers, which are its first element's: those of elements before `end` of the
 * part stored here. */
static int64_t numbers_before(const Param *p, int64_t of_matrix, int64_t end)
{
    return (end + matrix_elements(p) - 1) / matrix_elements(p) * of_matrix;
}

/* The code blocks that begin before element `end`. */
static int64_t blocks_before(const Param *p, int64_t end)
{
    CodeBlocks blocks = codes_of(p);
    int64_t matrix = matrix_elements(p);
    if (blocks.cut) return numbers_before(p, blocks.of_matrix, end);
    return end / matrix * blocks.of_matrix + code_blocks(end % matrix);
}

/* Where the columns are whole blocks a state has a row for each row of the matrix; else it is one row. */
static TensorShard per_block(const Param *p, TensorShard own)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0;
    int64_t columns = p->global[r + 1];
    CodeBlocks blocks = codes_of(p);
    TensorShard shard = { .global = { 1, 1, 1, 1 }, .box = { 1, 1, 1, 1 } };
    if (r > 0) {
        shard.global[0] = p->global[0], shard.offset[0] = p->offset[0], shard.box[0] = p->local[0];
        shard.dims++;
    }
    int d = shard.dims;
    if (columns % CODE_BLOCK == 0) {
        shard.global[d] = shard.box[d] = p->global[r];
        shard.global[d + 1] = shard.box[d + 1] = columns / CODE_BLOCK;
        if (!blocks.cut) {
            shard.offset[d] = p->offset[r], shard.box[d] = p->local[r];
            shard.offset[d + 1] = p->offset[r + 1] / CODE_BLOCK;
            shard.box[d + 1] = p->local[r + 1] / CODE_BLOCK;
        }
        shard.dims += 2;
    } else {
        shard.global[d] = code_blocks(p->global[r] * columns), shard.box[d] = blocks.of_matrix;
        if (!blocks.cut) shard.offset[d] = p->offset[r] * columns / CODE_BLOCK;
        shard.dims++;
    }
    shard.first = blocks_before(p, own.first);
    shard.count = own.count > 0 ? blocks_before(p, own.first + own.count) - shard.first : 0;
    return shard;
}

/* ---- whole matrices ---- */

int64_t state_rank(const StateSizes *sizes, int64_t rows, int64_t columns)
{
    int64_t shorter = rows < columns ? rows : columns;
    return sizes->rank < shorter ? sizes->rank : shorter;
}

/* The shape of the state of one matrix; one of 0 where there is none. */
static void whole_shape(int64_t shape[2], StateShape kind, const StateSizes *sizes, int64_t R, int64_t C)
{
    int64_t rank = state_rank(sizes, R, C), longer = R > C ? R : C;
    shape[0] = R, shape[1] = C;
    switch (kind) {
    case WHOLE_LEFT:       shape[0] = shape[1] = R <= sizes->longest ? R : 0; break;
    case WHOLE_RIGHT:      shape[0] = shape[1] = C <= sizes->longest ? C : 0; break;
    case WHOLE_SUBSPACE:   shape[0] = rank, shape[1] = R < C ? R : C; break;
    case WHOLE_PROJECTED:  shape[R >= C] = rank; break;
    case WHOLE_CODE_BLOCK: shape[0] = 1, shape[1] = code_blocks(rank * longer); break;
    default: break;
    }
}

int64_t state_whole_count(StateShape kind, const StateSizes *sizes, int64_t rows, int64_t columns)
{
    int64_t shape[2];
    whole_shape(shape, kind, sizes, rows, columns);
    return shape[0] * shape[1];
}

static TensorShard per_matrix(const OptimizerState *state, const StateSizes *sizes, const Param *p,
                              TensorShard own)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0, d = r;
    int64_t shape[2];
    whole_shape(shape, state->shape, sizes, p->global[r], p->global[r + 1]);
    TensorShard shard = { .dims = r + 2, .global = { 1, 1, 1, 1 }, .box = { 1, 1, 1, 1 } };
    if (r > 0) shard.global[0] = p->global[0], shard.offset[0] = p->offset[0], shard.box[0] = p->local[0];
    shard.global[d] = shard.box[d] = shape[0];
    shard.global[d + 1] = shard.box[d + 1] = shape[1];
    shard.first = numbers_before(p, shape[0] * shape[1], own.first);
    int64_t end = numbers_before(p, shape[0] * shape[1], own.first + own.count);
    shard.count = own.count > 0 ? end - shard.first : 0;
    return shard;
}

/* ---- workers ---- */

int64_t state_summed_part(int64_t count, int64_t workers)
{
    return (count + 8 * workers - 1) / (8 * workers) * 8;
}

bool state_of_worker(const OptimizerState *state)
{
    return state->shape == PER_WORKER || state->shape == PER_SUMMED;
}

static TensorShard per_worker(TensorShard own, int64_t workers, int64_t worker)
{
    for (int d = 3; d > 0; d--) {
        own.global[d] = own.global[d - 1], own.offset[d] = own.offset[d - 1], own.box[d] = own.box[d - 1];
    }
    own.global[0] = workers, own.offset[0] = worker, own.box[0] = 1;
    own.dims++;
    return own;
}

/* The bucket's elements are those of its parameters one after the other, without what is between them. */
static TensorShard per_summed(const ParamBlock *block, int p, int64_t workers, int64_t worker)
{
    int64_t before = 0, all = 0;
    for (int i = 0; i < block->params; i++) {
        if (i == p) before = all;
        all += params_tensor_shard(block, i, 0, block->count).count;
    }
    int64_t part = state_summed_part(all, workers), first = part * worker - before;
    int64_t from = first > 0 ? first : 0, end = first + part;
    return params_tensor_shard(block, p, block->param[p].at + from, end > from ? end - from : 0);
}

/* ---- what a rank holds and saves ---- */

static TensorShard named(TensorShard shard, const OptimizerState *state, const Param *param)
{
    CHECK((size_t)snprintf(shard.name, sizeof shard.name, "%s.%s", param->name, state->name) <
          sizeof shard.name, "the name of state %s of %s is too long", state->name, param->name);
    return shard;
}

TensorShard state_held(const OptimizerState *state, const StateSizes *sizes, const ParamBlock *block, int p,
                       int64_t first, int64_t count)
{
    const Param *param = &block->param[p];
    TensorShard own = params_tensor_shard(block, p, first, count);
    int64_t workers = sizes->workers[block->family] > 0 ? sizes->workers[block->family] : 1;
    if (state->shape == PER_ELEMENT) return named(own, state, param);
    if (state->shape == PER_WORKER)
        return named(per_worker(own, workers, sizes->worker[block->family]), state, param);
    if (state->shape == PER_SUMMED)
        return named(per_summed(block, p, workers, sizes->worker[block->family]), state, param);
    if (state->shape == PER_CODE_BLOCK) return named(per_block(param, own), state, param);
    if (state->shape >= WHOLE_MATRIX) return named(per_matrix(state, sizes, param, own), state, param);
    TensorShard all = whole(state, param);
    if (own.count == 0) all.count = 0;
    return named(all, state, param);
}

/* Of a whole state that is the rank which counts the first element of the logical tensor; of code blocks of
 * which some are cut, and of states of whole matrices, that which counts the first element of the matrix. */
TensorShard state_saved(const OptimizerState *state, const StateSizes *sizes, const ParamBlock *block, int p,
                        int64_t first, int64_t count)
{
    const Param *param = &block->param[p];
    TensorShard part = params_tensor_shard(block, p, first, count);
    TensorShard held = state_held(state, sizes, block, p, first, count);
    int  r = param->dims == PARAM_DIMS ? 1 : 0;
    if (state_of_worker(state)) return held;
    if (state->shape >= PER_CODE_BLOCK) {
        bool corner = param->offset[r] == 0 && param->offset[r + 1] == 0;
        bool cut = state->shape != PER_CODE_BLOCK || codes_of(param).cut;
        if (cut && !corner) held.count = 0;
        return held;
    }
    bool begins = part.first == 0 && param->offset[0] == 0 && param->offset[1] == 0 && param->offset[2] == 0;
    if (state->shape != PER_ELEMENT && !begins) held.count = 0;
    return held;
}
