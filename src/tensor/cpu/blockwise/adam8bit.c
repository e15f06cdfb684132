/* AdamW whose states are 8-bit codes. A block is one pass: its numbers stay in the first-level cache.
 * N elements   B blocks of the matrix */
#include "base/exponential.h"
#include "tensor/cpu/cpu.h"
#include "tensor/dynamic_code.h"

enum { BLOCKS_AT_ONCE = CHUNK_ELEMENTS / CODE_BLOCK };

/* What an update takes of a step; the tensors as in the operations, some of them absent. */
typedef struct {
    Tensor w_N, param_N, g_N, m_N, m_scale_B, v_N, v_scale_B, m_wide_N, v_wide_N, most_2B;
    ElementPlace place;
    const DynamicCode *with_signs, *without;
    float factor, beta1, beta2, epsilon, shrink, rate, unbias;     /* as in adamw; rate has no lr without w */
} Adam8bitStep;

/* Elements of a block in local memory: in runs, one for each row of which the block has some. */
typedef struct { int64_t first, count; } BlockRun;

/* The next run of block b at or behind its element *at, counted from the block's first; count 0: none. */
static BlockRun run_next(const Adam8bitStep *s, int64_t N, int64_t b, int64_t *at)
{
    const ElementPlace *p = &s->place;
    for (int64_t e; *at < CODE_BLOCK; ) {
        int64_t columns = p->columns > 0 ? p->columns : N, step = p->columns > 0 ? p->global_columns : N;
        e = b * CODE_BLOCK + *at - p->offset;                  /* from the first element that is here */
        int64_t left = CODE_BLOCK - *at;
        if (e < 0) { *at += -e < left ? -e : left; continue; }
        int64_t row = e / step, column = e % step;
        if (row >= N / columns) break;
        if (column >= columns) { *at += step - column < left ? step - column : left; continue; }
        BlockRun run = { row * columns + column, columns - column < left ? columns - column : left };
        *at += run.count;
        return run;
    }
    return (BlockRun){ 0 };
}

/* m and v of elements first .. in float, and of them the largest magnitudes. */
INLINE void block_moments(const Adam8bitStep *s, int64_t b, BlockRun run, float *restrict m,
                          float *restrict v, float most[2])
{
    const uint8_t *m_code = (const uint8_t *)s->m_N.data + run.first;
    const uint8_t *v_code = (const uint8_t *)s->v_N.data + run.first;
    const float *g = flat(s->g_N) + run.first;
    float m_scale = flat(s->m_scale_B)[b], v_scale = flat(s->v_scale_B)[b];
    float one1 = 1 - s->beta1, one2 = 1 - s->beta2;
    const float *m_value = s->with_signs->value, *v_value = s->without->value;
    int32_t m_at[CODE_BLOCK], v_at[CODE_BLOCK];      /* as wide as values, so that compilers make vectors */
    for (int64_t i = 0; i < run.count; i++) m_at[i] = m_code[i], v_at[i] = v_code[i];
    for (int64_t i = 0; i < run.count; i++) {
        float scaled = g[i] * s->factor;
        m[i] = s->beta1 * (m_value[m_at[i]] * m_scale) + one1 * scaled;
        v[i] = s->beta2 * (v_value[v_at[i]] * v_scale) + one2 * scaled * scaled;
    }
    for (int64_t i = 0; i < run.count; i++) {
        most[0] = fabsf(m[i]) > most[0] ? fabsf(m[i]) : most[0];
        most[1] = v[i] > most[1] ? v[i] : most[1];
    }
}

/* code_nearest of x / scale, a step of it at a time, as compilers make vectors of such loops alone. */
INLINE void codes_store(uint8_t *restrict code, const DynamicCode *table, const float *restrict x,
                        float scale, int64_t n)
{
    float divisor = scale > 0 ? scale : 1, ratio[CODE_BLOCK];
    int32_t at[CODE_BLOCK];
    const float *restrict middle = table->middle_float;
    const int32_t *restrict first = table->first;
    for (int64_t i = 0; i < n; i++) ratio[i] = x[i] / divisor;
    for (int64_t i = 0; i < n; i++) at[i] = code_key(ratio[i]);
    for (int64_t i = 0; i < n; i++) at[i] = first[at[i]];
    for (int64_t i = 0; i < n; i++) at[i] += middle[at[i]] < ratio[i];
    for (int64_t i = 0; i < n; i++) code[i] = (uint8_t)at[i];
}

INLINE void block_update(const Adam8bitStep *s, BlockRun run, const float *m, const float *v)
{
    float *w = tensor_present(s->w_N) ? flat(s->w_N) + run.first : NULL;
    if (!w) {
        float *g = flat(s->g_N) + run.first;
        for (int64_t i = 0; i < run.count; i++)
            g[i] = s->rate * m[i] / (sqrtf(v[i] * s->unbias) + s->epsilon);
        return;
    }
    for (int64_t i = 0; i < run.count; i++)
        w[i] = w[i] * s->shrink - s->rate * m[i] / (sqrtf(v[i] * s->unbias) + s->epsilon);
    if (tensor_present(s->param_N)) tile_store(s->param_N, 0, run.first, w, run.count);
}

INLINE void block_store(const Adam8bitStep *s, int64_t b, BlockRun run, const float *m, const float *v)
{
    uint8_t *m_code = (uint8_t *)s->m_N.data + run.first, *v_code = (uint8_t *)s->v_N.data + run.first;
    codes_store(m_code, s->with_signs, m, flat(s->m_scale_B)[b], run.count);
    codes_store(v_code, s->without, v, flat(s->v_scale_B)[b], run.count);
}

static CLONES void adam8bit_blocks(void *context, int64_t begin, int64_t end)
{
    const Adam8bitStep *s = context;
    int64_t N = s->g_N.dim[0];
    for (int64_t b = begin; b < end; b++) {
        float m[CODE_BLOCK], v[CODE_BLOCK], most[2] = { 0, 0 };
        BlockRun run = { b * CODE_BLOCK, N - b * CODE_BLOCK < CODE_BLOCK ? N - b * CODE_BLOCK : CODE_BLOCK };
        block_moments(s, b, run, m, v, most);
        flat(s->m_scale_B)[b] = most[0], flat(s->v_scale_B)[b] = most[1];
        block_update(s, run, m, v);
        block_store(s, b, run, m, v);
    }
}

static CLONES void moments_blocks(void *context, int64_t begin, int64_t end)
{
    const Adam8bitStep *s = context;
    int64_t N = s->g_N.dim[0], B = s->m_scale_B.dim[0];
    for (int64_t b = begin; b < end; b++) {
        float most[2] = { 0, 0 };
        int64_t at = 0;
        for (BlockRun run; (run = run_next(s, N, b, &at)).count > 0; )
            block_moments(s, b, run, flat(s->m_wide_N) + run.first, flat(s->v_wide_N) + run.first, most);
        flat(s->most_2B)[b] = most[0], flat(s->most_2B)[B + b] = most[1];
    }
}

static CLONES void store_blocks(void *context, int64_t begin, int64_t end)
{
    const Adam8bitStep *s = context;
    int64_t N = s->w_N.dim[0], B = s->m_scale_B.dim[0];
    for (int64_t b = begin; b < end; b++) {
        int64_t at = 0;
        flat(s->m_scale_B)[b] = flat(s->most_2B)[b], flat(s->v_scale_B)[b] = flat(s->most_2B)[B + b];
        for (BlockRun run; (run = run_next(s, N, b, &at)).count > 0; ) {
            const float *m = flat(s->m_wide_N) + run.first, *v = flat(s->v_wide_N) + run.first;
            block_update(s, run, m, v);
            block_store(s, b, run, m, v);
        }
    }
}

static void want_states(Tensor m_N, Tensor m_scale_B, Tensor v_N, Tensor v_scale_B, int64_t N, int64_t B)
{
    WANT(m_N, N);
    WANT(v_N, N);
    WANT(m_scale_B, B);
    WANT(v_scale_B, B);
}

static void betas_set(Adam8bitStep *s, const StepState *state, double beta1, double beta2)
{
    s->factor = (float)state->factor, s->beta1 = (float)beta1, s->beta2 = (float)beta2;
    s->with_signs = dynamic_code(true), s->without = dynamic_code(false);
}

static void rates_set(Adam8bitStep *s, const StepState *state, double beta1, double beta2, double epsilon,
                      double decay)
{
    double t = (double)(state->updates + 1), lr = tensor_present(s->w_N) ? state->lr : 1;
    s->epsilon = (float)epsilon;
    s->shrink = (float)(1 - lr * (decay * state->weight_decay));
    s->rate   = (float)(lr / (1 - natural_power(beta1, t)));
    s->unbias = (float)(1 / (1 - natural_power(beta2, t)));
}

CPU(adam8bit, Adam8bit)
{
    int64_t N = a->g_N.dim[0], B = code_blocks(N);
    if (tensor_present(a->w_N)) WANT(a->w_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    WANT(a->g_N, N);
    want_states(a->m_N, a->m_scale_B, a->v_N, a->v_scale_B, N, B);
    if (q->step_state->skip) return;
    Adam8bitStep s = { .w_N = a->w_N, .param_N = a->param_N, .g_N = a->g_N, .m_N = a->m_N,
        .m_scale_B = a->m_scale_B, .v_N = a->v_N, .v_scale_B = a->v_scale_B };
    betas_set(&s, q->step_state, a->beta1, a->beta2);
    rates_set(&s, q->step_state, a->beta1, a->beta2, a->epsilon, a->decay);
    team_for(q->team, B, BLOCKS_AT_ONCE, adam8bit_blocks, &s);
}

CPU(adam8bit_moments, Adam8bitMoments)
{
    int64_t N = a->g_N.dim[0], B = a->m_scale_B.dim[0];
    WANT(a->m_wide_N, N);
    WANT(a->v_wide_N, N);
    WANT(a->most_2B, 2 * B);
    WANT(a->g_N, N);
    want_states(a->m_N, a->m_scale_B, a->v_N, a->v_scale_B, N, B);
    if (q->step_state->skip) { cpu_fill_zero(q, &(FillZero){ .y = a->most_2B }); return; }
    Adam8bitStep s = { .g_N = a->g_N, .m_N = a->m_N, .m_scale_B = a->m_scale_B, .v_N = a->v_N,
        .v_scale_B = a->v_scale_B, .m_wide_N = a->m_wide_N, .v_wide_N = a->v_wide_N, .most_2B = a->most_2B,
        .place = a->place };
    betas_set(&s, q->step_state, a->beta1, a->beta2);
    team_for(q->team, B, BLOCKS_AT_ONCE, moments_blocks, &s);
}

CPU(adam8bit_store, Adam8bitStore)
{
    int64_t N = a->w_N.dim[0], B = a->m_scale_B.dim[0];
    WANT(a->w_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    WANT(a->m_wide_N, N);
    WANT(a->v_wide_N, N);
    WANT(a->most_2B, 2 * B);
    want_states(a->m_N, a->m_scale_B, a->v_N, a->v_scale_B, N, B);
    if (q->step_state->skip) return;
    Adam8bitStep s = { .w_N = a->w_N, .param_N = a->param_N, .m_N = a->m_N, .m_scale_B = a->m_scale_B,
        .v_N = a->v_N, .v_scale_B = a->v_scale_B, .m_wide_N = a->m_wide_N, .v_wide_N = a->v_wide_N,
        .most_2B = a->most_2B, .place = a->place };
    betas_set(&s, q->step_state, a->beta1, a->beta2);
    rates_set(&s, q->step_state, a->beta1, a->beta2, a->epsilon, a->decay);
    team_for(q->team, B, BLOCKS_AT_ONCE, store_blocks, &s);
}
