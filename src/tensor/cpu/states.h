#ifndef TENSOR_CPU_STATES_H
#define TENSOR_CPU_STATES_H
/* How the optimizers' operations write their states: to the nearest, or in BF16 by stochastic rounding.
 * A step rounds each element by one random number of 32 bits, of which a first state takes the lower half and
 * a second one the upper. */
#include "base/random.h"
#include "tensor/cpu/cpu.h"

typedef struct { bool stochastic; uint64_t key; ElementPlace place; } StateRounding;

/* w = shrink w - rate u,   param = w rounded; not where the step is skipped */
typedef struct { Tensor w_N, param_N, u_N; float shrink, rate; } WeightStep;
void cpu_weight_step(Queue *q, const WeightStep *step);

static inline StateRounding rounding_of(const Queue *q, bool stochastic, uint64_t site,
                                        const ElementPlace *place)
{
    return (StateRounding){ stochastic, dropout_key(q->step_state, site), *place };
}

/* A tile of a state in float: the state itself, or a copy. */
INLINE float *state_tile(TileBuffer *buffer, Tensor state, int64_t first, int64_t n)
{
    float *x = tile_begin(buffer, state, 0, first);
    if (state.dtype != F32) tile_load(x, state, 0, first, n);
    return x;
}

/* Adds 16 random bits below the last bit that is kept, and cuts: rounds up with the probability of the part
 * that is cut. A carry out of the mantissa is right; infinity and NaN stay. */
static inline uint16_t bf16_stochastic(float x, uint32_t random)
{
    uint32_t bits = half_bits(x);
    if ((bits & 0x7f800000) == 0x7f800000) return bf16_encode(x);
    return (uint16_t)((bits + (random & 0xffff)) >> 16);
}

/* The random numbers of elements i .. i + n - 1 of the range: in runs, which end with a row of the part. */
static inline void element_random(uint32_t *out, uint64_t key, const ElementPlace *p, int64_t i, int64_t n)
{
    for (int64_t e = p->first + i, run; n > 0; e += run, out += run, n -= run) {
        int64_t index = p->offset + e;
        run = n;
        if (p->columns > 0) {
            int64_t row = e / p->columns, column = e % p->columns;
            row   = row / p->rows * p->global_rows + row % p->rows;
            index = p->offset + row * p->global_columns + column;
            if (run > p->columns - column) run = p->columns - column;
        }
        random_bits_of(out, key, (uint64_t)index, run);
    }
}

/* Stores elements first .. first + n - 1, n at most TILE, of one state or two (v absent); an F32 state has
 * been written in place. */
static inline void states_store(const StateRounding *r, int64_t first, int64_t n, Tensor m,
                                const float *m_new, Tensor v, const float *v_new)
{
    bool m_narrow = m.dtype != F32, v_narrow = tensor_present(v) && v.dtype != F32;
    if (!r->stochastic || !(m_narrow || v_narrow)) {
        if (m_narrow) tile_store(m, 0, first, m_new, n);
        if (v_narrow) tile_store(v, 0, first, v_new, n);
        return;
    }
    uint32_t random[TILE];
    element_random(random, r->key, &r->place, first, n);
    uint16_t *m_at = tile_at(m, 0, first), *v_at = v_narrow ? tile_at(v, 0, first) : NULL;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = random[i];
        if (m_narrow) m_at[i] = bf16_stochastic(m_new[i], bits);
        if (v_narrow) v_at[i] = bf16_stochastic(v_new[i], bits >> 16);
    }
}
#endif
