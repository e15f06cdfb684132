#include "model/shape.h"

int64_t shape_units(const Shape *shape) { return shape->layers + 2; }
int64_t shape_gate (const Shape *shape) { return shape->activation == ACT_SWIGLU ? 2 : 1; }

UnitKind shape_unit(const Shape *shape, int64_t unit)
{
    return unit == 0 ? UNIT_EMBED : unit == shape->layers + 1 ? UNIT_HEAD : UNIT_BLOCK;
}

int64_t shape_vocabulary_held(const Shape *shape, int tp) { return (shape->vocabulary + tp - 1) / tp; }

/* weights of one block's matrices: query, key, value, out, and the MLP's two or three */
static int64_t block_matrices(const Shape *s)
{
    int64_t query = s->heads * s->head_dim, pair = 2 * s->groups * s->head_dim;
    return s->hidden * (2 * query + pair + s->ffn * (shape_gate(s) + 1));
}

/* forward 2 flops a weight, backward 4; attention 4 flops a (query, key, channel) forward, 8 backward */
double shape_flops(const Shape *s, bool causal)
{
    double matmuls   = 6.0 * ((double)s->layers * (double)block_matrices(s) + (double)s->vocabulary * (double)s->hidden);
    double attention = 12.0 * (double)s->layers * (double)(s->heads * s->head_dim) * (double)s->sequence;
    return matmuls + (causal ? attention / 2 : attention);
}
