/* Sophia.   N elements of a flat parameter block */
#include "tensor/cpu/states.h"

/* m = beta1 m + (1 - beta1) g,   w -= lr decay w,   w -= lr sign(m) min(1, |m| / (rho h + 1e-15)) */
typedef struct {
    const Sophia *a;
    StateRounding rounding;
    float         factor, beta1, rest1, rho, shrink, lr;
} SophiaUpdate;

static CLONES void sophia_elements(void *context, int64_t begin, int64_t end)
{
    const SophiaUpdate *u = context;
    const Sophia *a = u->a;
    TileBuffer m_tile, h_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *w = flat(a->w_N) + first, *m = state_tile(&m_tile, a->m_N, first, n);
        const float *h = tile_read(&h_tile, a->h_N, 0, first, n), *g = flat(a->g_N) + first;
        for (int64_t i = 0; i < n; i++) {
            m[i] = u->beta1 * m[i] + u->rest1 * (g[i] * u->factor);
            float step = m[i] / (u->rho * h[i] + 1e-15f);
            step = step > 1 ? 1 : step < -1 ? -1 : step;
            w[i] = w[i] * u->shrink - u->lr * step;
        }
        states_store(&u->rounding, first, n, a->m_N, m, tensor_none(), NULL);
        if (tensor_present(a->param_N)) tile_store(a->param_N, 0, first, w, n);
    }
}

CPU(sophia, Sophia)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->m_N, N);
    WANT(a->h_N, N);
    WANT(a->g_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    const StepState *step_state = q->step_state;
    if (step_state->skip) return;
    double lr = STEP_LR(step_state, a->decoupled);
    SophiaUpdate update = {
        .a = a, .rounding = rounding_of(q, a->stochastic, a->site, &a->place),
        .factor = (float)step_state->factor,
        .beta1  = (float)a->beta1, .rest1 = (float)(1 - a->beta1),
        .rho    = (float)a->rho,
        .shrink = (float)(1 - lr * (a->decay * step_state->weight_decay)),
        .lr     = (float)lr };
    team_for(q->team, N, CHUNK_ELEMENTS, sophia_elements, &update);
}

/* h = beta2 h + (1 - beta2) tokens g g */
typedef struct { const SophiaHessian *a; StateRounding rounding; float factor, beta2, rest2; } HessianUpdate;

static CLONES void hessian_elements(void *context, int64_t begin, int64_t end)
{
    const HessianUpdate *u = context;
    const SophiaHessian *a = u->a;
    TileBuffer h_tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *h = state_tile(&h_tile, a->h_N, first, n);
        const float *g = flat(a->g_N) + first;
        for (int64_t i = 0; i < n; i++) {
            float scaled = g[i] * u->factor;
            h[i] = u->beta2 * h[i] + u->rest2 * scaled * scaled;
        }
        states_store(&u->rounding, first, n, a->h_N, h, tensor_none(), NULL);
    }
}

CPU(sophia_hessian, SophiaHessian)
{
    WANT(a->h_N, a->g_N.dim[0]);
    WANT(a->g_N, a->g_N.dim[0]);
    WANT(a->tokens_1, 1);
    if (q->step_state->skip) return;
    double tokens = *(const double *)a->tokens_1.data;
    HessianUpdate update = { a, rounding_of(q, a->stochastic, a->site, &a->place),
        (float)(q->step_state->factor * sqrt(tokens)), (float)a->beta2, (float)(1 - a->beta2) };
    team_for(q->team, a->g_N.dim[0], CHUNK_ELEMENTS, hessian_elements, &update);
}
