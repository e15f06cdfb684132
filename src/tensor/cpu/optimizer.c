/* The end of a step: gradient clipping and the updates of AdamW, SGD, Lion, LAMB and Muon. Each update is one
 * pass: a number is read and written once.
 * N elements of a flat parameter block   R ranks */
#include "base/exponential.h"
#include "tensor/cpu/states.h"
#include "tensor/ref/ref.h"

/* A few numbers in double, by the reference's code. */
CPU(sums_total, SumsTotal) { ref_sums_total(q, a); }
CPU(sums_largest, SumsLargest) { ref_sums_largest(q, a); }
CPU(clip_and_skip, ClipAndSkip) { ref_clip_and_skip(q, a); }

/* ---- AdamW ---- */
/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * w -= lr decay w,   w -= lr mhat / (sqrt(vhat) + epsilon),   param = w rounded;   coupled: g += decay w
 * instead */
typedef struct {
    const Adamw  *a;
    StateRounding rounding;
    float         factor, beta1, beta2, epsilon;
    float         shrink, rate, unbias;            /* 1 - lr decay,  lr / (1 - beta1^t),  1 / (1 - beta2^t) */
    float         l2;                              /* the decay where it is coupled */
} AdamwUpdate;

INLINE void adamw_tile(const AdamwUpdate *u, bool coupled, float *restrict w, float *restrict m,
                       float *restrict v, const float *restrict g, int64_t n)
{
    float one1 = 1 - u->beta1, one2 = 1 - u->beta2;
    for (int64_t i = 0; i < n; i++) {
        float scaled = g[i] * u->factor;
        if (coupled) scaled += u->l2 * w[i];
        m[i] = u->beta1 * m[i] + one1 * scaled;
        v[i] = u->beta2 * v[i] + one2 * scaled * scaled;
        w[i] = w[i] * u->shrink - u->rate * m[i] / (sqrtf(v[i] * u->unbias) + u->epsilon);
    }
}

/* The bias corrections are in rate and unbias, which are computed once a step in double. */
static CLONES void adamw_elements(void *context, int64_t begin, int64_t end)
{
    const AdamwUpdate *u = context;
    const Adamw *a = u->a;
    TileBuffer m_tile, v_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(a->w_N) + first, *m = state_tile(&m_tile, a->m_N, first, n);
        float *v = state_tile(&v_tile, a->v_N, first, n);
        const float *g = flat(a->g_N) + first;
        if (a->coupled) adamw_tile(u, true, w, m, v, g, n);
        else            adamw_tile(u, false, w, m, v, g, n);
        states_store(&u->rounding, first, n, a->m_N, m, a->v_N, v);
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
    double t = (double)(step_state->updates + 1), lr = STEP_LR(step_state, a->decoupled);
    double decay = a->decay * step_state->weight_decay;
    double unbias = 1 / (1 - natural_power(a->beta2, t));
    AdamwUpdate update = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor  = (float)step_state->factor,
        .beta1   = (float)a->beta1,
        .beta2   = (float)a->beta2,
        .epsilon = (float)(a->uncorrected ? a->epsilon * sqrt(unbias) : a->epsilon),
        .shrink  = (float)(1 - lr * (a->coupled ? 0 : decay)),
        .l2      = (float)decay,
        .rate    = (float)(lr / (1 - natural_power(a->beta1, t))),
        .unbias  = (float)unbias };
    team_for(q->team, N, CHUNK_ELEMENTS, adamw_elements, &update);
}

/* ---- SGD ---- */
/* d = g + decay w,   m = momentum m + d,   w -= lr m  or  lr (d + momentum m) */
typedef struct {
    const Sgd    *a;
    StateRounding rounding;
    float         factor, momentum, decay, lr;
} SgdUpdate;

INLINE void sgd_tile(const SgdUpdate *u, bool nesterov, float *restrict w, float *restrict m,
                     const float *restrict g, int64_t n)
{
    float factor = u->factor, momentum = u->momentum, decay = u->decay, lr = u->lr;
    for (int64_t i = 0; i < n; i++) {
        float d = g[i] * factor + decay * w[i];
        m[i] = momentum * m[i] + d;
        w[i] -= lr * (nesterov ? d + momentum * m[i] : m[i]);
    }
}

static CLONES void sgd_elements(void *context, int64_t begin, int64_t end)
{
    const SgdUpdate *u = context;
    const Sgd *a = u->a;
    TileBuffer m_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(a->w_N) + first, *m = state_tile(&m_tile, a->m_N, first, n);
        const float *g = flat(a->g_N) + first;
        if (a->nesterov) sgd_tile(u, true, w, m, g, n);
        else             sgd_tile(u, false, w, m, g, n);
        states_store(&u->rounding, first, n, a->m_N, m, tensor_none(), NULL);
        if (tensor_present(a->param_N)) tile_store(a->param_N, 0, first, w, n);
    }
}

CPU(sgd, Sgd)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    SgdUpdate update = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor   = (float)step_state->factor,
        .momentum = (float)a->momentum,
        .decay    = (float)(a->decay * step_state->weight_decay),
        .lr       = (float)STEP_LR(step_state, a->decoupled) };
    team_for(q->team, N, CHUNK_ELEMENTS, sgd_elements, &update);
}

/* ---- Lion ---- */
/* w -= lr decay w,   w -= lr sign(beta1 m + (1 - beta1) g),   m = beta2 m + (1 - beta2) g */
typedef struct {
    const Lion   *a;
    StateRounding rounding;
    float         factor, beta1, beta2, shrink, lr;    /* shrink = 1 - lr decay */
} LionUpdate;

static CLONES void lion_elements(void *context, int64_t begin, int64_t end)
{
    const LionUpdate *u = context;
    const Lion *a = u->a;
    float one1 = 1 - u->beta1, one2 = 1 - u->beta2;
    TileBuffer m_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(a->w_N) + first, *m = state_tile(&m_tile, a->m_N, first, n);
        const float *g = flat(a->g_N) + first;
        for (int64_t i = 0; i < n; i++) {
            float scaled = g[i] * u->factor, d = u->beta1 * m[i] + one1 * scaled;
            w[i] = w[i] * u->shrink - (d > 0 ? u->lr : d < 0 ? -u->lr : 0);
            m[i] = u->beta2 * m[i] + one2 * scaled;
        }
        states_store(&u->rounding, first, n, a->m_N, m, tensor_none(), NULL);
        if (tensor_present(a->param_N)) tile_store(a->param_N, 0, first, w, n);
    }
}

CPU(lion, Lion)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    double lr = STEP_LR(step_state, a->decoupled);
    LionUpdate update = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor = (float)step_state->factor,
        .beta1  = (float)a->beta1,
        .beta2  = (float)a->beta2,
        .shrink = (float)(1 - lr * (a->decay * step_state->weight_decay)),
        .lr     = (float)lr };
    team_for(q->team, N, CHUNK_ELEMENTS, lion_elements, &update);
}

/* ---- ADOPT ---- */
/* w -= lr decay w,   m = beta1 m + (1 - beta1) u,   w -= lr m,   v = beta2 v + (1 - beta2) g g
 * u = g / max(sqrt(v), epsilon) within +-(t - 1)^(1/4);   the first update: v = g g */
typedef struct {
    const Adopt  *a;
    StateRounding rounding;
    float         factor, beta1, rest1, beta2, rest2;      /* rest = 1 - beta, rounded once */
    float         epsilon, bound, shrink, l2, lr;
    bool          first;
} AdoptUpdate;

/* `first` is a constant of each copy of the loop: a branch within it would keep it from being vectorized. */
INLINE void adopt_tile(const AdoptUpdate *u, bool first, float *restrict w, float *restrict m,
                       float *restrict v, const float *restrict g, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float scaled = g[i] * u->factor + u->l2 * w[i], root = sqrtf(v[i]);
        float step = scaled / (root > u->epsilon ? root : u->epsilon);
        step = step > u->bound ? u->bound : step < -u->bound ? -u->bound : step;
        float moved = u->beta1 * m[i] + u->rest1 * step;
        v[i] = first ? scaled * scaled : u->beta2 * v[i] + u->rest2 * scaled * scaled;
        if (first) continue;
        m[i] = moved;
        w[i] = w[i] * u->shrink - u->lr * moved;
    }
}

static CLONES void adopt_elements(void *context, int64_t begin, int64_t end)
{
    const AdoptUpdate *u = context;
    const Adopt *a = u->a;
    TileBuffer m_tile, v_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(a->w_N) + first, *m = state_tile(&m_tile, a->m_N, first, n);
        float *v = state_tile(&v_tile, a->v_N, first, n);
        const float *g = flat(a->g_N) + first;
        if (u->first) adopt_tile(u, true, w, m, v, g, n);
        else          adopt_tile(u, false, w, m, v, g, n);
        states_store(&u->rounding, first, n, a->m_N, m, a->v_N, v);
        if (tensor_present(a->param_N)) tile_store(a->param_N, 0, first, w, n);
    }
}

CPU(adopt, Adopt)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    double lr = STEP_LR(step_state, a->decoupled), decay = a->decay * step_state->weight_decay;
    AdoptUpdate update = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor  = (float)step_state->factor,
        .beta1   = (float)a->beta1, .rest1 = (float)(1 - a->beta1),
        .beta2   = (float)a->beta2, .rest2 = (float)(1 - a->beta2),
        .epsilon = (float)a->epsilon,
        .bound   = (float)sqrt(sqrt((double)step_state->updates)),
        .shrink  = (float)(1 - lr * (a->coupled ? 0 : decay)),
        .l2      = (float)(a->coupled ? decay : 0),
        .lr      = (float)lr, .first = step_state->updates == 0 };
    team_for(q->team, N, CHUNK_ELEMENTS, adopt_elements, &update);
}

/* ---- schedule-free AdamW and SGD ---- */
/* y = (1 - beta) z + beta w,   d = g / (sqrt(vhat) + epsilon) + decay y,  or  g + decay y
 * z -= lr d,   w += share (z - w),   param = y rounded */
typedef struct {
    const AveragedUpdate *a;
    StateRounding rounding;
    float         factor, beta, rest, beta2, rest2, epsilon, unbias, decay, lr, share;         /* 1 - beta */
} AveragedElements;

INLINE void averaged_tile(const AveragedElements *u, bool adam, float *restrict y, float *restrict w,
                               float *restrict z, float *restrict v, const float *restrict g, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float d = g[i] * u->factor, at = u->rest * z[i] + u->beta * w[i];
        if (adam) {
            v[i] = u->beta2 * v[i] + u->rest2 * d * d;
            d /= sqrtf(v[i] * u->unbias) + u->epsilon;
        }
        z[i] -= u->lr * (d + u->decay * at);
        w[i] += u->share * (z[i] - w[i]);
        y[i] = u->rest * z[i] + u->beta * w[i];
    }
}

static CLONES void averaged_elements(void *context, int64_t begin, int64_t end)
{
    const AveragedElements *u = context;
    const AveragedUpdate *a = u->a;
    TileBuffer y_tile, v_tile;
    bool adam = tensor_present(a->v_N);
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(a->w_N) + first, *z = flat(a->z_N) + first;
        float *y = tile_begin(&y_tile, a->param_N, 0, first);
        float *v = adam ? state_tile(&v_tile, a->v_N, first, n) : NULL;
        const float *g = flat(a->g_N) + first;
        if (adam) averaged_tile(u, true, y, w, z, v, g, n);
        else      averaged_tile(u, false, y, w, z, v, g, n);
        if (adam) states_store(&u->rounding, first, n, a->v_N, v, tensor_none(), NULL);
        tile_end(&y_tile, a->param_N, 0, first, n);
    }
}

CPU(averaged_update, AveragedUpdate)
{
    int64_t N = a->w_N.dim[0];
    bool adam = tensor_present(a->v_N);
    WANT(a->w_N, N);
    WANT(a->z_N, N);
    WANT(a->g_N, N);
    WANT(a->param_N, N);
    if (adam) WANT(a->v_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    AveragedElements update = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor  = (float)step_state->factor,
        .beta    = (float)a->beta,
        .rest    = (float)(1 - a->beta),
        .beta2   = (float)a->beta2, .rest2 = (float)(1 - a->beta2),
        .epsilon = (float)a->epsilon,
        .unbias  = adam ? (float)(1 / (1 - natural_power(a->beta2, (double)(step_state->updates + 1)))) : 1,
        .decay   = (float)(a->decay * step_state->weight_decay),
        .lr      = (float)step_state->lr, .share = (float)step_state->average_share };
    team_for(q->team, N, CHUNK_ELEMENTS, averaged_elements, &update);
}

/* y = x_factor x + z_factor z */
static CLONES void pair_elements(void *context, int64_t begin, int64_t end)
{
    const WeightedPair *a = context;
    float of_x = (float)a->x_factor, of_z = (float)a->z_factor;
    TileBuffer y_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        const float *x = flat(a->x_N) + first, *z = flat(a->z_N) + first;
        float *y = tile_begin(&y_tile, a->y_N, 0, first);
        for (int64_t i = 0; i < n; i++) y[i] = of_z * z[i] + of_x * x[i];
        tile_end(&y_tile, a->y_N, 0, first, n);
    }
}

CPU(weighted_pair, WeightedPair)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->x_N, N);
    WANT(a->z_N, N);
    team_for(q->team, N, CHUNK_ELEMENTS, pair_elements, (void *)a);
}

/* ---- LAMB ---- */
/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * u = mhat / (sqrt(vhat) + epsilon) + decay w */
typedef struct {
    const LambDirection *a;
    StateRounding rounding;
    float         factor, beta1, beta2, epsilon, decay;
    float         unbias1, unbias2;                /* 1 / (1 - beta^t) */
} LambStep;

INLINE void lamb_tile(const LambStep *u, bool decayed, float *restrict g, float *restrict m,
                      float *restrict v, const float *restrict w, int64_t n)
{
    float one1 = 1 - u->beta1, one2 = 1 - u->beta2;
    for (int64_t i = 0; i < n; i++) {
        float scaled = g[i] * u->factor;
        m[i] = u->beta1 * m[i] + one1 * scaled;
        v[i] = u->beta2 * v[i] + one2 * scaled * scaled;
        g[i] = m[i] * u->unbias1 / (sqrtf(v[i] * u->unbias2) + u->epsilon);
        if (decayed) g[i] += u->decay * w[i];
    }
}

static CLONES void lamb_elements(void *context, int64_t begin, int64_t end)
{
    const LambStep *u = context;
    const LambDirection *a = u->a;
    TileBuffer m_tile, v_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        const float *w = tensor_present(a->w_N) ? flat(a->w_N) + first : NULL;
        float *g = flat(a->g_N) + first, *m = state_tile(&m_tile, a->m_N, first, n);
        float *v = state_tile(&v_tile, a->v_N, first, n);
        if (w) lamb_tile(u, true, g, m, v, w, n);
        else   lamb_tile(u, false, g, m, v, w, n);
        states_store(&u->rounding, first, n, a->m_N, m, a->v_N, v);
    }
}

CPU(lamb_direction, LambDirection)
{
    int64_t N = a->g_N.dim[0];
    if (tensor_present(a->w_N)) WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->g_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    double t = (double)(step_state->updates + 1), unbias2 = 1 / (1 - natural_power(a->beta2, t));
    LambStep step = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor  = (float)step_state->factor,
        .beta1   = (float)a->beta1,
        .beta2   = (float)a->beta2,
        .epsilon = (float)(a->late_correction ? a->epsilon * sqrt(unbias2) : a->epsilon),
        .decay   = (float)(a->decay * step_state->weight_decay),
        .unbias1 = (float)(1 / (1 - natural_power(a->beta1, t))),
        .unbias2 = (float)unbias2 };
    team_for(q->team, N, CHUNK_ELEMENTS, lamb_elements, &step);
}

/* ---- w = shrink w - rate u, of LAMB, Muon and Adafactor ---- */

static CLONES void step_elements(void *context, int64_t begin, int64_t end)
{
    const WeightStep *s = context;
    TileBuffer tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(s->w_N) + first;
        const float *u = tile_read(&tile, s->u_N, 0, first, n);
        for (int64_t i = 0; i < n; i++) w[i] = w[i] * s->shrink - s->rate * u[i];
        if (tensor_present(s->param_N)) tile_store(s->param_N, 0, first, w, n);
    }
}

void cpu_weight_step(Queue *q, const WeightStep *s)
{
    int64_t N = s->w_N.dim[0];
    WANT(s->w_N, N);
    WANT(s->u_N, N);
    if (tensor_present(s->param_N)) WANT(s->param_N, N);
    if (!q->step_state->skip) team_for(q->team, N, CHUNK_ELEMENTS, step_elements, (void *)s);
}

CPU(lamb_update, LambUpdate)
{
    WANT(a->squares_2, 2);
    double w = sqrt((double)flat(a->squares_2)[0]), u = sqrt((double)flat(a->squares_2)[1]);
    double ratio = w > 0 && u > 0 ? fmin(fmax(w / u, a->low), a->high) : 1;
    double lr = STEP_LR(q->step_state, a->decoupled);
    cpu_weight_step(q, &(WeightStep){ a->w_N, a->param_N, a->u_N, 1, (float)(lr * ratio) });
}

CPU(muon_update, MuonUpdate)
{
    double lr = STEP_LR(q->step_state, a->decoupled), decay = a->decay * q->step_state->weight_decay;
    double shrink = 1 - lr * decay, rate = lr * a->scale * (a->decay_last ? shrink : 1);
    cpu_weight_step(q, &(WeightStep){ a->w_N, a->param_N, a->o_N, (float)shrink, (float)rate });
}

/* ---- Muon ---- */
/* m = momentum m + (1 - momentum) g,   g = m  or  momentum m + (1 - momentum) g */
typedef struct {
    const MuonDirection *a;
    StateRounding rounding;
    float         factor, momentum, rest;
} MuonStep;

static CLONES void muon_elements(void *context, int64_t begin, int64_t end)
{
    const MuonStep *u = context;
    const MuonDirection *a = u->a;
    TileBuffer m_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *g = flat(a->g_N) + first, *m = state_tile(&m_tile, a->m_N, first, n);
        for (int64_t i = 0; i < n; i++) {
            float part = u->rest * (g[i] * u->factor);
            m[i] = u->momentum * m[i] + part;
            g[i] = a->nesterov ? u->momentum * m[i] + part : m[i];
        }
        states_store(&u->rounding, first, n, a->m_N, m, tensor_none(), NULL);
    }
}

CPU(muon_direction, MuonDirection)
{
    int64_t N = a->g_N.dim[0];
    WANT(a->g_N, N);
    WANT(a->m_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    MuonStep step = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor   = (float)step_state->factor,
        .momentum = (float)a->momentum,
        .rest     = (float)(1 - a->momentum) };
    team_for(q->team, N, CHUNK_ELEMENTS, muon_elements, &step);
}

/* y = y_factor y + x_factor x, with y_factor 0 where y is only written */
typedef struct { Tensor y_N, x_N; float y_factor, x_factor; bool reads; } ScaledTiles;

static CLONES void scaled_elements(void *context, int64_t begin, int64_t end)
{
    const ScaledTiles *s = context;
    TileBuffer y_tile, x_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *y = tile_begin(&y_tile, s->y_N, 0, first);
        const float *x = tile_read(&x_tile, s->x_N, 0, first, n);
        if (s->reads && s->y_N.dtype != F32) tile_load(y, s->y_N, 0, first, n);
        if (s->reads) for (int64_t i = 0; i < n; i++) y[i] = s->y_factor * y[i] + s->x_factor * x[i];
        else          for (int64_t i = 0; i < n; i++) y[i] = s->x_factor * x[i];
        tile_end(&y_tile, s->y_N, 0, first, n);
    }
}

CPU(scaled_sum, ScaledSum)
{
    WANT(a->y_N, a->y_N.dim[0]);
    WANT(a->x_N, a->y_N.dim[0]);
    ScaledTiles s = { a->y_N, a->x_N, (float)a->y_factor, (float)a->x_factor, true };
    team_for(q->team, a->y_N.dim[0], CHUNK_ELEMENTS, scaled_elements, &s);
}

CPU(normalize, Normalize)
{
    WANT(a->y_N, a->y_N.dim[0]);
    WANT(a->x_N, a->y_N.dim[0]);
    WANT(a->squares_1, 1);
    if (q->step_state->skip) { cpu_fill_zero(q, &(FillZero){ .y = a->y_N }); return; }
    double norm = sqrt((double)flat(a->squares_1)[0]);
    ScaledTiles s = { a->y_N, a->x_N, 0, (float)(1 / fmax(norm, a->epsilon)), false };
    team_for(q->team, a->y_N.dim[0], CHUNK_ELEMENTS, scaled_elements, &s);
}

CPU(round_sums, RoundSums)
{
    WANT(a->y_N, a->y_N.dim[0]);
    WANT(a->x_N, a->y_N.dim[0]);
    const double *x = a->x_N.data;
    for (int64_t i = 0; i < a->y_N.dim[0]; i++) flat(a->y_N)[i] = (float)x[i];
}
