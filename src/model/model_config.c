#include "model/model_config.h"

int64_t model_units(const ModelConfig *config) { return config->layers + 2; }
int64_t model_mlp_gates (const ModelConfig *config) { return config->activation == ACT_SWIGLU ? 2 : 1; }

UnitKind model_unit(const ModelConfig *config, int64_t unit)
{
    return unit == 0 ? UNIT_EMBED : unit == config->layers + 1 ? UNIT_HEAD : UNIT_BLOCK;
}

int64_t model_vocabulary_held(const ModelConfig *config, int tp) { return (config->vocabulary + tp - 1) / tp; }

/* weights of one block's matrices: query, key, value, out, and the MLP's two or three */
static int64_t block_matrices(const ModelConfig *s)
{
    int64_t query = s->heads * s->head_dim, pair = 2 * s->groups * s->head_dim;
    return s->hidden * (2 * query + pair + s->ffn * (model_mlp_gates(s) + 1));
}

/* forward 2 flops a weight, backward 4; attention 4 flops a (query, key, channel) forward, 8 backward */
double model_flops(const ModelConfig *s, bool causal)
{
    double matmuls   = 6.0 * ((double)s->layers * (double)block_matrices(s) + (double)s->vocabulary * (double)s->hidden);
    double attention = 12.0 * (double)s->layers * (double)(s->heads * s->head_dim) * (double)s->sequence;
    return matmuls + (causal ? attention / 2 : attention);
}
