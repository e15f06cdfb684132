/* Parameter blocks from the rows of params.def: which tensors a model has, where tensor parallelism splits
 * them, where they are in their block, and their initial values. */
#include "model/params.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/random.h"

/* The words of the table's columns. KV is the width of all keys, or of all values: key-value heads times head
 * dim. */
typedef enum { ONE, C, QUERY, KV, F, V, S } ParamDim;
/* CENTRED: LayerNorm has a bias */
typedef enum { ALWAYS, BIAS, LEARNED, GATED, GATED_BIAS, UNTIED, CENTRED } ParamWhen;
typedef enum { WORD, EMBED, BLOCK, HEAD } ParamBlockKind;

static const struct {
    ParamBlockKind kind;
    const char *name;
    ParamDim d0, d1;
    TpSharding sharding;
    Init init;
    bool decay;
    ParamWhen when;
} rows[PARAM_IDS] = {
#define PARAM(id, ...) { __VA_ARGS__ },
#include "model/params.def"
#undef PARAM
};
_Static_assert((int)PARAM_IDS <= INT8_MAX,
               "ParamBlock.index_of must be able to index every row of params.def");

static int64_t dim_of(const ModelConfig *config, ParamDim dim)
{
    switch (dim) {
    case ONE:   return 1;
    case C:     return config->hidden;
    case QUERY: return config->heads * config->head_dim;
    case KV:    return config->groups * config->head_dim;
    case F:     return config->ffn;
    case V:     return config->vocabulary;
    case S:     return config->positions;
    }
    return 0;
}

static bool model_has(const ModelConfig *config, ParamWhen when)
{
    bool gated = config->activation == ACT_SWIGLU;
    switch (when) {
    case ALWAYS:     return true;
    case BIAS:       return config->bias;
    case LEARNED:    return config->position == POSITION_LEARNED;
    case GATED:      return gated;
    case GATED_BIAS: return gated && config->bias;
    case UNTIED:     return !config->tied;
    case CENTRED:    return config->norm == NORM_LAYER;
    }
    return false;
}

static ParamBlockKind block_kind(const ModelConfig *config, int64_t index)
{
    if (index == 0) return WORD;
    switch (model_unit(config, index - 1)) {
    case UNIT_EMBED: return EMBED;
    case UNIT_HEAD:  return HEAD;
    case UNIT_BLOCK: return BLOCK;
    }
    return BLOCK;
}

/* Splits one axis over tp: rank r stores `held` entries from r * held on. The box is what of them is in the
 * logical tensor; the last ranks of a padded vocabulary may hold less than `held`, or nothing. */
static void split_axis(Param *p, int axis, int64_t held, int rank)
{
    int64_t first = held * rank, left = p->global[axis] - first;
    p->local[axis]  = held;
    p->offset[axis] = first < p->global[axis] ? first : p->global[axis];
    p->box[axis]    = left < 0 ? 0 : left < held ? left : held;
}

static Param param_make(const ModelConfig *config, ParamId row, int64_t index, int tp, int tp_rank)
{
    Param p = { .id = row, .sharding = rows[row].sharding, .init = rows[row].init, .decay = rows[row].decay,
                .dims = rows[row].d1 == ONE ? 1 : 2,
                .global = { dim_of(config, rows[row].d0), dim_of(config, rows[row].d1) } };
    if (rows[row].kind == BLOCK)
        snprintf(p.name, sizeof p.name, "blocks.%lld.%s", (long long)(index - 2), rows[row].name);
    else
        snprintf(p.name, sizeof p.name, "%s", rows[row].name);
    for (int a = 0; a < 2; a++) p.local[a] = p.box[a] = p.global[a];
    if (p.sharding == TP_VOCABULARY) split_axis(&p, 0, model_vocabulary_held(config, tp), tp_rank);
    if (p.sharding == TP_ROWS)       split_axis(&p, 0, p.global[0] / tp, tp_rank);
    if (p.sharding == TP_COLUMNS)    split_axis(&p, 1, p.global[1] / tp, tp_rank);
    return p;
}

int64_t params_blocks(const ModelConfig *config) { return model_units(config) + 1; }

void params_block(ParamBlock *block, const ModelConfig *config, int64_t index, int tp, int tp_rank)
{
    *block = (ParamBlock){ .index = index, .replicated = -1 };
    ParamBlockKind kind = block_kind(config, index);
    for (ParamId row = 0; row < PARAM_IDS; row++) {
        block->index_of[row] = rows[row].kind == kind ? PARAM_ABSENT : PARAM_ELSEWHERE;
        if (rows[row].kind != kind || !model_has(config, rows[row].when)) continue;
        block->index_of[row] = (int8_t)block->params;
        Param *p = &block->param[block->params++];
        *p = param_make(config, row, index, tp, tp_rank);
        p->at = block->count;
        if (p->sharding == TP_REPLICATED && block->replicated < 0) block->replicated = p->at;
        block->count += p->local[0] * p->local[1];
    }
    if (block->replicated < 0) block->replicated = block->count;
}

int64_t model_parameters(const ModelConfig *config)
{
    int64_t sum = 0;
    for (int64_t b = 0; b < params_blocks(config); b++) {
        ParamBlock block;
        params_block(&block, config, b, 1, 0);
        sum += block.count;
    }
    return sum;
}

TensorShard params_tensor_shard(const ParamBlock *block, int index, int64_t first, int64_t count)
{
    const Param *p = &block->param[index];
    TensorShard shard = { .dims = p->dims };
    snprintf(shard.name, sizeof shard.name, "%s", p->name);
    for (int a = 0; a < 4; a++) {
        shard.global[a] = a < 2 ? p->global[a] : 1;
        shard.offset[a] = a < 2 ? p->offset[a] : 0;
        shard.box[a]    = a < 2 ? p->box[a] : 1;
    }
    /* Padding is rows after the last logical one, so the logical elements are a prefix of the stored ones.
     * Only the vocabulary is padded; tensors split by columns have box == local. */
    int64_t end = p->at + p->box[0] * p->box[1];
    int64_t from = first > p->at ? first : p->at, to = first + count < end ? first + count : end;
    shard.first = from - p->at;
    shard.count = to > from ? to - from : 0;
    return shard;
}

void params_init(Queue *q, const ModelConfig *config, const ParamBlock *block, Tensor flat, int64_t first,
                 uint64_t seed)
{
    double depth = 1 / sqrt(2.0 * (double)config->layers);
    fill_zero(q, (FillZero){ .y = flat });         /* the value of padding and of INIT_ZERO tensors */
    for (int i = 0; i < block->params; i++) {
        const Param *p = &block->param[i];
        TensorShard shard = params_tensor_shard(block, i, first, flat.dim[0]);
        if (shard.count == 0 || p->init == INIT_ZERO) continue;
        Tensor y = tensor_flat(flat, p->at + shard.first - first, shard.count);
        if (p->init == INIT_ONE) { init_value(q, (InitValue){ .y_N = y, .value = 1 }); continue; }
        init_normal(q, (InitNormal){ .y_N = y, .key = random_key(seed, p->name),
            .std = config->init_std * (p->init == INIT_DEPTH ? depth : 1), .rows = p->box[0],
            .cols = p->box[1],
            .row0 = p->offset[0], .col0 = p->offset[1], .global_cols = p->global[1], .first = shard.first });
    }
}
