/* Parameter blocks from the rows of params.def: which tensors a model has, where tensor parallelism splits
 * them, where they are in their block, and their initial values. */
#include "model/params.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/random.h"

/* The words of the table's columns. KV is the width of all keys, or of all values: key-value heads times head
 * dim. */
typedef enum { ONE, C, C2, QUERY, KV, D, O, QR, KVN, KVR, KVU, F, V, S, E, FE } ParamDim;
/* What a row asks for: facts of a model or of a layer, one bit each. A row applies where all of its facts
 * hold. LAYER_NORM: norms have biases; MLP: layers with a dense MLP or a shared expert; MOE: with experts. */
typedef enum {
    ALWAYS = 0, LEARNED = 1, UNTIED = 2, QKV_BIAS = 4, OUT_BIAS = 8, MLP_BIAS = 16, LAYER_NORM = 32,
    MLP = 64, MOE = 128, GATED = 256, BEFORE = 512, AFTER = 1024,
    QK_NORM_EACH_HEAD = 2048, QK_NORM_ALL_HEADS = 4096,
    NO_LATENT = 8192, LATENT = 16384, QUERY_LATENT = 32768, NO_QUERY_LATENT = 65536,
    SHARED_GATE = 131072, EMBED_NORM = 262144
} ParamFact;
typedef unsigned ParamFacts;
typedef enum { WORD, EMBED, BLOCK, MTP, EXPERTS, HEAD } ParamBlockKind;
typedef enum { ALIGNED, JOINED } ParamPlace;

static const struct {
    ParamBlockKind kind;
    const char *name;
    ParamDim d0, d1;
    TpSharding sharding;
    ParamPlace place;
    Init init;
    bool decay;
    ParamFacts when;
} rows[PARAM_IDS] = {
#define PARAM(id, ...) { __VA_ARGS__ },
#include "model/params.def"
#undef PARAM
};
_Static_assert((int)PARAM_IDS <= INT8_MAX,
               "ParamBlock.index_of must be able to index every row of params.def");

static int64_t dim_of(const ModelConfig *config, int64_t layer, ParamDim dim)
{
    switch (dim) {
    case ONE:   return 1;
    case C:     return config->hidden;
    case C2:    return 2 * config->hidden;
    case QUERY: return config->heads * config->head_dim;
    case KV:    return config->groups * config->head_dim;
    case D:     return config->head_dim;
    case O:     return config->heads * model_value_dim(config);
    case QR:    return config->latent.query_rank;
    case KVN:   return config->latent.kv_rank;
    case KVR:   return config->latent.kv_rank + config->latent.rope_dim;
    case KVU:
        return config->heads * (config->head_dim - config->latent.rope_dim + config->latent.value_dim);
    case F:     return model_layer_ffn(config, layer);
    case V:     return config->vocabulary;
    case S:     return config->positions;
    case E:     return config->experts;
    case FE:    return config->expert_ffn;
    }
    return 0;
}

/* The layer whose parameters are in block `index`; -1: of none. */
static int64_t layer_of(const ModelConfig *config, int64_t index)
{
    return index == 0 ? -1 : model_unit_layer(config, index - 1);
}

/* The facts that hold in block `index`. */
static ParamFacts facts_of(const ModelConfig *config, int64_t index)
{
    int64_t layer = layer_of(config, index);
    const struct { ParamFact fact; bool holds; } facts[] = {
        { LEARNED,    config->position == POSITION_LEARNED },
        { UNTIED,     !config->tied },
        { QKV_BIAS,   config->qkv_bias },
        { OUT_BIAS,   config->out_bias },
        { MLP_BIAS,   config->mlp_bias },
        { LAYER_NORM, config->norm == NORM_LAYER },
        { MLP,        model_layer_ffn(config, layer) > 0 },
        { MOE,        model_layer_is_moe(config, layer) },
        { GATED,      ACT_GATED(config->activation) },
        { BEFORE,     model_norm_before(config, layer) },
        { AFTER,      model_norm_after(config, layer) },
        { QK_NORM_EACH_HEAD, config->qk_norm == QK_NORM_HEAD },
        { QK_NORM_ALL_HEADS, config->qk_norm == QK_NORM_ALL },
        { NO_LATENT,       config->latent.kv_rank == 0 },
        { LATENT,          config->latent.kv_rank > 0 },
        { QUERY_LATENT,    config->latent.query_rank > 0 },
        { NO_QUERY_LATENT, config->latent.query_rank == 0 },
        { SHARED_GATE, config->moe.shared_gate },
        { EMBED_NORM, config->embedding_norm },
    };
    ParamFacts holding = 0;
    for (size_t i = 0; i < COUNT(facts); i++)
        if (facts[i].holds) holding |= facts[i].fact;
    return holding;
}

/* Whether block `index` of a family has the parameters of a kind, if the model has them. */
static bool block_has(const ModelConfig *config, ParamFamily family, int64_t index, ParamBlockKind kind)
{
    UnitKind unit = index == 0 ? UNIT_EMBED : model_unit(config, index - 1);
    bool layer = unit == UNIT_BLOCK || unit == UNIT_MTP;
    if (family == PARAMS_EXPERTS) return kind == EXPERTS && layer;
    switch (kind) {
    case WORD:    return index == 0;
    case EMBED:   return index == 1;
    case BLOCK:   return layer;
    case MTP:     return unit == UNIT_MTP;
    case HEAD:    return unit == UNIT_HEAD;
    case EXPERTS: break;
    }
    return false;
}

/* An axis of the mesh, its size and this rank's coordinate. */
typedef struct { Axis axis; int size, at; } AxisPlace;

/* Splits dimension d: coordinate r of the axis holds `held` entries from r * held on. The box is what of them
 * is in the logical tensor; the last ranks of a padded vocabulary may hold less than `held`, or nothing. */
static void split_dim(Param *p, int d, int64_t held, AxisPlace place)
{
    int64_t first = held * place.at, left = p->global[d] - first;
    p->local[d]  = held;
    p->offset[d] = first < p->global[d] ? first : p->global[d];
    p->box[d]    = left < 0 ? 0 : left < held ? left : held;
    p->split[d]  = place.axis;
    p->part      = p->part * place.size + place.at;
    p->parts    *= place.size;
}

/* Dimension d is `heads` whole key-value heads. Where the axis has more ranks than there are heads, ranks
 * that follow each other hold copies of one head: the first of them saves it. */
static void split_heads(Param *p, int d, int64_t heads, AxisPlace place)
{
    if (heads < place.size) {
        int copies = place.size / (int)heads;
        p->sum   = GRADIENT_OVER_KV;
        p->saves = place.at % copies == 0;
        place.at   /= copies;
        place.size /= copies;
    }
    split_dim(p, d, p->global[d] / place.size, place);
}

/* Rows of the matrix in memory that a row of the table is part of: those of gate and up together, as of
 * query, key and value. */
static int64_t matrix_rows(const ModelConfig *config, ParamId row, int64_t index)
{
    ParamFacts facts = facts_of(config, index);
    ParamId first = row, end;
    int64_t sum = 0;
    int64_t layer = layer_of(config, index);
    if (rows[row].kind == EXPERTS)
        return dim_of(config, layer, rows[row].d0) * (rows[row].d0 == FE ? model_mlp_gates(config) : 1);
    while (rows[first].place == JOINED) first--;
    for (end = first + 1; end < PARAM_IDS && rows[end].place == JOINED; end++) {}
    for (ParamId i = first; i < end; i++)
        if (!(rows[i].when & ~facts)) sum += dim_of(config, layer, rows[i].d0);
    return sum;
}

/* How the random values of a parameter are distributed. */
static void param_distribution(Param *p, const ModelConfig *config, int64_t index)
{
    double depth = 1 / sqrt(2.0 * (double)config->layers);
    bool embedding = p->init == INIT_EMBEDDING && config->embedding_std > 0;
    p->std = embedding ? config->embedding_std : config->init_std * (p->init == INIT_DEPTH ? depth : 1);
    if (!config->xavier || embedding || rows[p->id].d1 == ONE) return;
    int64_t columns = dim_of(config, layer_of(config, index), rows[p->id].d1);
    p->std     = sqrt(2.0 / (double)(matrix_rows(config, p->id, index) + columns));
    p->uniform = true;
}

static bool is_qk_gain(ParamId row)
{
    return row == PARAM_ATTENTION_QUERY_GAIN || row == PARAM_ATTENTION_KEY_GAIN ||
           row == PARAM_ATTENTION_QUERY_GAINS || row == PARAM_ATTENTION_KEY_GAINS;
}

static Param param_make(const ModelConfig *config, ParamId row, int64_t index, const ParamRanks *ranks)
{
    bool experts = rows[row].kind == EXPERTS;
    int64_t layer = layer_of(config, index);
    const MeshSize *size = &ranks->size, *at = &ranks->at;
    AxisPlace tp = { AXIS_TP, size->tp, at->tp };
    if (experts) tp = (AxisPlace){ AXIS_ETP, size->etp, at->etp };
    int r = experts ? 1 : 0, c = r + 1;                               /* the dimensions of rows and columns */
    bool of_heads = rows[row].d1 != ONE && (rows[row].d0 == QUERY || row == PARAM_ATTENTION_KEY_WEIGHT);
    Param p = { .id = row, .init = rows[row].init, .decay = rows[row].decay, .parts = 1, .saves = true,
                .bias = rows[row].init == INIT_ZERO, .head_rows = of_heads ? config->head_dim : 0,
                .dims = (rows[row].d1 == ONE ? 1 : 2) + r, .global = { config->experts, 1, 1 } };
    if (config->decay_all || (config->qk_norm_decay && is_qk_gain(row))) p.decay = true;
    if (p.init == INIT_ONE && config->gains_zero_centred) p.init = INIT_ZERO;
    param_distribution(&p, config, index);
    p.global[r] = dim_of(config, layer, rows[row].d0);
    p.global[c] = dim_of(config, layer, rows[row].d1);
    if (layer >= 0)
        snprintf(p.name, sizeof p.name, "blocks.%lld.%s", (long long)layer, rows[row].name);
    else
        snprintf(p.name, sizeof p.name, "%s", rows[row].name);
    for (int d = 0; d < PARAM_DIMS; d++) p.local[d] = p.box[d] = p.global[d];
    if (experts) split_dim(&p, 0, p.global[0] / size->ep, (AxisPlace){ AXIS_EP, size->ep, at->ep });
    switch (rows[row].sharding) {
    case TP_REPLICATED:
        p.saves = tp.at == 0;
        if (ranks->sequence_parallel && tp.size > 1) p.sum = GRADIENT_OVER_TP;
        break;
    case TP_SHARED:
        p.saves = tp.at == 0;
        if (tp.size > 1) p.sum = GRADIENT_OVER_TP;
        break;
    case TP_ROWS:       split_dim(&p, r, p.global[r] / tp.size, tp); break;
    case TP_KV_HEADS:   split_heads(&p, r, config->groups, tp); break;
    case TP_COLUMNS:    split_dim(&p, c, p.global[c] / tp.size, tp); break;
    case TP_VOCABULARY: split_dim(&p, r, model_vocabulary_held(config, tp.size), tp); break;
    }
    return p;
}

int64_t params_blocks(const ModelConfig *config) { return model_units(config) + 1; }

static int64_t aligned(int64_t at) { return (at + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN; }

void params_block(ParamBlock *block, const ModelConfig *config, ParamFamily family, int64_t index,
                  const ParamRanks *ranks)
{
    static const ParamRanks one = { .size = { 1, 1, 1, 1, 1, 1, 1 } };
    ParamFacts facts = facts_of(config, index);
    *block = (ParamBlock){ .family = family, .index = index };
    for (ParamId row = 0; row < PARAM_IDS; row++) {
        bool here = block_has(config, family, index, rows[row].kind);
        block->index_of[row] = here ? PARAM_ABSENT : PARAM_ELSEWHERE;
        if (!here || rows[row].when & ~facts) continue;
        bool joined = rows[row].place == JOINED && block->index_of[row - 1] >= 0;
        block->index_of[row] = (int8_t)block->params;
        Param *p = &block->param[block->params++];
        *p = param_make(config, row, index, ranks ? ranks : &one);
        p->at = joined ? block->count : aligned(block->count);
        block->count = p->at + param_elements(p);
    }
    block->count = aligned(block->count);
}

int64_t param_elements(const Param *p)         { return p->local[0] * p->local[1] * p->local[2]; }
int64_t param_logical_elements(const Param *p) { return p->global[0] * p->global[1] * p->global[2]; }

bool param_is_layer_matrix(const Param *p)
{
    ParamBlockKind kind = rows[p->id].kind;
    return (kind == BLOCK || kind == MTP || kind == EXPERTS) && rows[p->id].d1 != ONE;
}

bool param_of_vocabulary(const Param *p) { return rows[p->id].sharding == TP_VOCABULARY; }

int64_t model_parameters(const ModelConfig *config)
{
    int64_t sum = 0;
    for (int64_t b = 0; b < params_blocks(config); b++)
        for (ParamFamily family = 0; family < PARAM_FAMILIES; family++) {
            ParamBlock block;
            params_block(&block, config, family, b, NULL);
            for (int p = 0; p < block.params; p++) sum += param_logical_elements(&block.param[p]);
        }
    return sum;
}

TensorShard params_tensor_shard(const ParamBlock *block, int index, int64_t first, int64_t count)
{
    const Param *p = &block->param[index];
    TensorShard shard = { .dims = p->dims };
    snprintf(shard.name, sizeof shard.name, "%s", p->name);
    for (int d = 0; d < 4; d++) {
        shard.global[d] = d < PARAM_DIMS ? p->global[d] : 1;
        shard.offset[d] = d < PARAM_DIMS ? p->offset[d] : 0;
        shard.box[d]    = d < PARAM_DIMS ? p->box[d] : 1;
    }
    /* Padding is rows after the last logical one, so the logical elements are a prefix of the stored ones.
     * Only the vocabulary is padded; all other tensors have box == local. */
    int64_t end = p->at + p->box[0] * p->box[1] * p->box[2];
    int64_t from = first > p->at ? first : p->at, to = first + count < end ? first + count : end;
    shard.first = from - p->at;
    shard.count = to > from ? to - from : 0;
    return shard;
}

/* Of a randomly initialised parameter the elements of `shard`, y. An element's number is its place in the
 * logical tensor; the experts' matrices are one below the other. */
static void init_matrices(Queue *q, const Param *p, const TensorShard *shard, Tensor y, uint64_t key)
{
    bool experts = p->dims == PARAM_DIMS;
    int  r = experts ? 1 : 0, c = r + 1;
    int64_t each = p->box[r] * p->box[c], end = shard->first + shard->count;
    for (int64_t e = 0; e < (experts ? p->box[0] : 1); e++) {
        int64_t from = e * each, to = from + each;
        if (from < shard->first) from = shard->first;
        if (to > end) to = end;
        if (from >= to) continue;
        init_random(q, (InitRandom){ .y_N = tensor_flat(y, from - shard->first, to - from), .key = key,
            .std = p->std, .uniform = p->uniform, .rows = p->box[r], .cols = p->box[c],
            .row0 = (experts ? (p->offset[0] + e) * p->global[1] : 0) + p->offset[r], .col0 = p->offset[c],
            .global_cols = p->global[c], .first = from - e * each });
    }
}

void params_init(Queue *q, const ParamBlock *block, Tensor flat, int64_t first, uint64_t seed)
{
    fill_zero(q, (FillZero){ .y = flat });         /* the value of padding and of INIT_ZERO tensors */
    for (int i = 0; i < block->params; i++) {
        const Param *p = &block->param[i];
        TensorShard shard = params_tensor_shard(block, i, first, flat.dim[0]);
        if (shard.count == 0 || p->init == INIT_ZERO) continue;
        Tensor y = tensor_flat(flat, p->at + shard.first - first, shard.count);
        if (p->init == INIT_ONE) init_value(q, (InitValue){ .y_N = y, .value = 1 });
        else init_matrices(q, p, &shard, y, random_key(seed, p->name));
    }
}
