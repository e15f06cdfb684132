/* Numbers derived from a model configuration: its units and their kinds, and its FLOPs. */
#include "model/model_config.h"
#include <math.h>

int64_t model_units(const ModelConfig *config) { return config->layers + 2 + config->mtp; }
int64_t model_head(const ModelConfig *config) { return config->layers + 1; }
int64_t model_layers(const ModelConfig *config) { return config->layers + config->mtp; }
int64_t model_mlp_gates(const ModelConfig *config) { return ACT_GATED(config->activation) ? 2 : 1; }

/* The layer that a layer is built as. */
static int64_t built_as(const ModelConfig *config, int64_t layer)
{
    return layer < config->layers ? layer : config->layers - 1;
}

bool model_layer_is_moe(const ModelConfig *config, int64_t layer)
{
    if (config->experts == 0 || layer < 0 || layer >= model_layers(config)) return false;
    layer = built_as(config, layer);
    return !(layer < MOE_LAYERS_MAX && config->moe.dense_layers[layer / 64] >> layer % 64 & 1);
}

int64_t model_layer_ffn(const ModelConfig *config, int64_t layer)
{
    return model_layer_is_moe(config, layer) ? config->moe.shared_ffn : config->ffn;
}

/* The same in all layers. */
bool model_norm_before(const ModelConfig *config, int64_t layer)
{
    (void)layer;
    return config->norm_placement != NORM_AFTER;
}

bool model_norm_after(const ModelConfig *config, int64_t layer)
{
    (void)layer;
    return config->norm_placement != NORM_BEFORE;
}

float model_gain_offset(const ModelConfig *config) { return config->gains_zero_centred ? 1 : 0; }

int64_t model_groups_held(const ModelConfig *config, int tp)
{
    return config->groups < tp ? 1 : config->groups / tp;
}

UnitKind model_unit(const ModelConfig *config, int64_t unit)
{
    int64_t head = model_head(config);
    return unit == 0 ? UNIT_EMBED : unit < head ? UNIT_BLOCK : unit == head ? UNIT_HEAD : UNIT_MTP;
}

int64_t model_unit_layer(const ModelConfig *config, int64_t unit)
{
    switch (model_unit(config, unit)) {
    case UNIT_BLOCK: return unit - 1;
    case UNIT_MTP:   return unit - 2;
    case UNIT_EMBED:
    case UNIT_HEAD:  break;
    }
    return -1;
}

int64_t model_layer_unit(const ModelConfig *config, int64_t layer)
{
    return layer < config->layers ? layer + 1 : layer + 2;
}

bool model_embedding_copied(const ModelConfig *config) { return config->tied || config->mtp > 0; }

int64_t model_vocabulary_held(const ModelConfig *config, int tp)
{
    return (config->vocabulary + tp - 1) / tp;
}

bool layer_set_has(const LayerSet *set, int64_t layer)
{
    return layer >= 0 && layer < LAYER_SET_MOST && set->bits[layer / 64] >> layer % 64 & 1;
}

void layer_set_add(LayerSet *set, int64_t layer)
{
    if (layer >= 0 && layer < LAYER_SET_MOST) set->bits[layer / 64] |= (uint64_t)1 << layer % 64;
}

LayerSet layer_set_every(int64_t n)
{
    LayerSet set = { { 0 } };
    for (int64_t l = n - 1; n > 0 && l < LAYER_SET_MOST; l += n) layer_set_add(&set, l);
    return set;
}

int64_t model_window(const ModelConfig *config, int64_t layer)
{
    return layer_set_has(&config->unwindowed, built_as(config, layer)) ? 0 : config->window;
}

bool model_rope(const ModelConfig *config, int64_t layer, RopeRule *rule)
{
    if (config->position != POSITION_ROPE || layer_set_has(&config->no_rope, built_as(config, layer)))
        return false;
    int64_t channels = config->latent.kv_rank > 0 ? config->latent.rope_dim : config->head_dim;
    *rule = rope_rule(&config->rope, channels, model_window(config, layer) > 0);
    return true;
}

int64_t model_value_dim(const ModelConfig *config)
{
    return config->latent.kv_rank > 0 ? config->latent.value_dim : config->head_dim;
}

double model_softmax_scale(const ModelConfig *config)
{
    double own = config->latent.kv_rank > 0 ? rope_score_scale(&config->rope) : 1;
    return config->softmax_scale > 0 ? config->softmax_scale : own / sqrt((double)config->head_dim);
}

/* query, key, value and out */
static int64_t attention_matrices(const ModelConfig *config)
{
    const LatentConfig *l = &config->latent;
    int64_t queries = config->heads * config->head_dim, C = config->hidden;
    if (l->kv_rank == 0) return C * (2 * queries + 2 * config->groups * config->head_dim);
    int64_t kv = config->heads * (config->head_dim - l->rope_dim + l->value_dim);
    int64_t query = l->query_rank > 0 ? l->query_rank * (C + queries) : C * queries;
    return query + C * (l->kv_rank + l->rope_dim) + l->kv_rank * kv + config->heads * l->value_dim * C;
}

/* Weights that one token is multiplied with in a block: query, key, value, out, and the MLP's two or three
 * matrices; in a layer of experts those of topk experts and of the shared expert. As Megatron-LM counts, the
 * router's are not among them. */
static int64_t block_matrices(const ModelConfig *config, int64_t layer)
{
    int64_t width = model_layer_ffn(config, layer);
    if (model_layer_is_moe(config, layer)) width += config->moe.topk * config->expert_ffn;
    return attention_matrices(config) + config->hidden * width * (model_mlp_gates(config) + 1);
}

int64_t model_active_parameters(const ModelConfig *config)
{
    int64_t count = model_parameters(config), idle = config->experts - config->moe.topk;
    for (int64_t l = 0; l < model_layers(config); l++)
        if (model_layer_is_moe(config, l))
            count -= idle * config->expert_ffn * config->hidden * (model_mlp_gates(config) + 1);
    return count;
}

/* That a query of the layer sees */
static double keys_seen(const ModelConfig *config, int64_t layer, bool causal)
{
    double S = (double)config->sequence, w = (double)model_window(config, layer);
    if (w == 0 || w > S) w = S;
    return causal ? w - w * w / (2 * S) : w;
}

/* As in the appendix of PaLM (arXiv 2204.02311): 2 FLOPs per weight and token forward and 4 backward;
 * attention 4 FLOPs per (query, key, channel) forward and 8 backward. Norms, activations and the embedding
 * lookup are not counted. Each depth of multi-token prediction has a layer, a projection of 2 C channels to C
 * and the head once more. */
double model_flops(const ModelConfig *config, bool causal)
{
    double mtp = (double)config->mtp, C = (double)config->hidden;
    double weights = (1 + mtp) * (double)config->vocabulary * C + mtp * 2 * C * C;
    double keys = 0;                                             /* of all layers */
    for (int64_t l = 0; l < model_layers(config); l++) {
        keys    += keys_seen(config, l, causal);
        weights += (double)block_matrices(config, l);
    }
    int64_t channels = config->heads * (config->head_dim + model_value_dim(config));
    return 6.0 * weights + 6.0 * (double)channels * keys;
}

ForwardFlops model_forward_flops(const ModelConfig *config, int64_t layer, bool causal)
{
    ForwardFlops f = { 0 };
    double C = (double)config->hidden, gates = (double)model_mlp_gates(config);
    double channels = (double)(config->heads * (config->head_dim + model_value_dim(config)));
    double first = 2 * C * (double)model_layer_ffn(config, layer) * gates;
    bool   moe = model_layer_is_moe(config, layer);
    if (moe) f.experts = 2 * C * (double)(config->moe.topk * config->expert_ffn) * (gates + 1);
    if (moe) f.shared = first;
    else     f.mlp = first;
    if (!model_norm_after(config, layer)) f.last = first / gates;
    f.scores = 2 * channels * keys_seen(config, layer, causal);
    f.all = 2 * (double)block_matrices(config, layer) + f.scores + (layer >= config->layers ? 4 * C * C : 0);
    return f;
}
