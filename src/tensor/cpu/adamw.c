/* The end of a step: gradient clipping and the AdamW update.
 * N elements of a flat parameter block   R ranks */
#include "base/exponential.h"
#include "base/random.h"
#include "tensor/cpu/cpu.h"
#include "tensor/half.h"
#include "tensor/ref/ref.h"

/* A few numbers in double, by the reference's code. */
CPU(clip_and_skip, ClipAndSkip) { ref_clip_and_skip(q, a); }

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon),   param = w rounded
 * One pass: each number is read and written once. */
typedef struct {
    const Adamw *a;
    uint64_t     key;                              /* of stochastic rounding */
    float        factor, beta1, beta2, epsilon;
    float        shrink, rate, unbias;             /* 1 - lr decay,  lr / (1 - beta1^t),  1 / (1 - beta2^t) */
} AdamwUpdate;

/* Adds 16 random bits below the last bit that is kept, and cuts: rounds up with the probability of the part
 * that is cut. A carry out of the mantissa is right; infinity and NaN stay. */
static uint16_t bf16_stochastic(float x, uint32_t random)
{
    uint32_t bits = half_bits(x);
    if ((bits & 0x7f800000) == 0x7f800000) return bf16_encode(x);
    return (uint16_t)((bits + (random & 0xffff)) >> 16);
}

/* Stores the states of elements first + i; m takes the lower half of the random bits, v the upper. */
static void store_states(const AdamwUpdate *u, int64_t first, const float *m, const float *v, int64_t n)
{
    const Adamw *a = u->a;
    if (!a->stochastic || (a->m_N.dtype == F32 && a->v_N.dtype == F32)) {
        if (a->m_N.dtype != F32) tile_store(a->m_N, 0, first, m, n);
        if (a->v_N.dtype != F32) tile_store(a->v_N, 0, first, v, n);
        return;
    }
    uint32_t random[TILE];
    random_bits_of(random, u->key, (uint64_t)(a->first + first), n);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = random[i];
        uint16_t *m_at = tile_at(a->m_N, 0, first + i), *v_at = tile_at(a->v_N, 0, first + i);
        if (a->m_N.dtype == BF16) *m_at = bf16_stochastic(m[i], bits);
        if (a->v_N.dtype == BF16) *v_at = bf16_stochastic(v[i], bits >> 16);
    }
}

/* The bias corrections are in rate and unbias, which are computed once a step in double. */
static CLONES void adamw_elements(void *context, int64_t begin, int64_t end)
{
    const AdamwUpdate *u = context;
    const Adamw *a = u->a;
    float one1 = 1 - u->beta1, one2 = 1 - u->beta2;
    TileBuffer m_tile, v_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(a->w_N) + first, *m = tile_begin(&m_tile, a->m_N, 0, first);
        float *v = tile_begin(&v_tile, a->v_N, 0, first);
        const float *g = flat(a->g_N) + first;
        if (a->m_N.dtype != F32) tile_load(m, a->m_N, 0, first, n);
        if (a->v_N.dtype != F32) tile_load(v, a->v_N, 0, first, n);
        for (int64_t i = 0; i < n; i++) {
            float scaled = g[i] * u->factor;
            m[i] = u->beta1 * m[i] + one1 * scaled;
            v[i] = u->beta2 * v[i] + one2 * scaled * scaled;
            w[i] = w[i] * u->shrink - u->rate * m[i] / (sqrtf(v[i] * u->unbias) + u->epsilon);
        }
        store_states(u, first, m, v, n);
        if (tensor_present(a->param_N)) tile_store(a->param_N, 0, first, w, n);
    }
}

CPU(adamw, Adamw)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    double t = (double)(step_state->updates + 1);
    AdamwUpdate update = {
        .a = a, .key = dropout_key(step_state, a->site),
        .factor  = (float)step_state->factor,
        .beta1   = (float)a->beta1,
        .beta2   = (float)a->beta2,
        .epsilon = (float)a->epsilon,
        .shrink  = (float)(1 - step_state->lr * a->decay),
        .rate    = (float)(step_state->lr / (1 - natural_power(a->beta1, t))),
        .unbias  = (float)(1 / (1 - natural_power(a->beta2, t))) };
    team_for(q->team, N, CHUNK_ELEMENTS, adamw_elements, &update);
}
