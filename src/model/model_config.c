/* Numbers derived from a model configuration: its units and their kinds, and its FLOPs. */
#include "model/model_config.h"

int64_t model_units(const ModelConfig *config) { return config->layers + 2; }
int64_t model_mlp_gates(const ModelConfig *config) { return config->activation == ACT_SWIGLU ? 2 : 1; }

bool model_layer_is_moe(const ModelConfig *config, int64_t layer)
{
    return config->experts > 0 && layer >= 0 && layer < config->layers;
}

int64_t model_groups_held(const ModelConfig *config, int tp)
{
    return config->groups < tp ? 1 : config->groups / tp;
}

UnitKind model_unit(const ModelConfig *config, int64_t unit)
{
    return unit == 0 ? UNIT_EMBED : unit == config->layers + 1 ? UNIT_HEAD : UNIT_BLOCK;
}

int64_t model_vocabulary_held(const ModelConfig *config, int tp)
{
    return (config->vocabulary + tp - 1) / tp;
}

/* Layers are counted from 1 here, as in Megatron-LM (is_layer_window_attention). */
int64_t model_window(const ModelConfig *config, int64_t layer)
{
    return config->window_skip > 0 && (layer + 1) % config->window_skip == 0 ? 0 : config->window;
}

/* Weights of the matrices of one block: query, key, value, out, and the MLP's two or three. */
static int64_t block_matrices(const ModelConfig *config)
{
    int64_t query = config->heads * config->head_dim, keys_values = 2 * config->groups * config->head_dim;
    return config->hidden * (2 * query + keys_values + config->ffn * (model_mlp_gates(config) + 1));
}

/* As in the appendix of PaLM (arXiv 2204.02311): 2 FLOPs per weight and token forward and 4 backward;
 * attention 4 FLOPs per (query, key, channel) forward and 8 backward. Norms, activations and the embedding
 * lookup are not counted. */
double model_flops(const ModelConfig *config, bool causal)
{
    double matmuls   = 6.0 * ((double)config->layers * (double)block_matrices(config)
                              + (double)config->vocabulary * (double)config->hidden);
    double keys = 0, S = (double)config->sequence;               /* that a query sees, of all layers */
    for (int64_t l = 0; l < config->layers; l++) {
        double w = (double)model_window(config, l);
        if (w == 0 || w > S) w = S;
        keys += causal ? w - w * w / (2 * S) : w;
    }
    return matmuls + 12.0 * (double)(config->heads * config->head_dim) * keys;
}
