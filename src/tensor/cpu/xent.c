/* Vocabulary-parallel cross entropy.
 * T rows   V columns held by this rank, of which the first `valid` are ids and the rest padding   R ranks */
#include "base/random.h"
#include "base/exponential.h"
#include "tensor/cpu/cpu.h"

typedef int32_t Lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE float largest(const float *x, int64_t n)
{
    Vec most = { 0 };
    float max = -INFINITY;
    int64_t c = 0;
    most += max;
    for (; c + LANES <= n; c += LANES) {
        Vec v = *(const Vec *)(x + c);
        Lanes more = v > most;
        most = (Vec)((more & (Lanes)v) | (~more & (Lanes)most));
    }
    for (; c < n; c++) max = x[c] > max ? x[c] : max;
    for (int l = 0; l < LANES; l++) max = most[l] > max ? most[l] : max;
    return max;
}

typedef struct { const XentDraw *a; uint64_t key; } XentDrawing;

/* stats = { max, sum of exp(x - max), logit of the target or 0 }
 * exp fills a tile first, in a loop that vectorizes; then the tile is added in double. */
static CLONES void xent_stats_rows(void *context, int64_t begin, int64_t end)
{
    enum { PART = 64 };
    const XentStats *a = context;
    for (int64_t t = begin; t < end; t++) {
        const float *x = row(a->logits_TV, t);
        float *stats = row(a->stats_T3, t), max = largest(x, a->valid), tile[PART];
        Doubles sum = { 0 };
        for (int64_t first = 0; first < a->valid; first += PART) {
            int64_t n = a->valid - first < PART ? a->valid - first : PART;
            for (int64_t c = 0; c < n; c++) tile[c] = cpu_exp(x[first + c] - max);
            int64_t c = 0;
            for (; c + LANES <= n; c += LANES) sum += doubles_of(tile + c);
            for (; c < n; c++) sum[c % LANES] += (double)tile[c];
        }
        int64_t target = ((const int32_t *)a->target_i.data)[t] - a->first;
        stats[0] = max;
        stats[1] = (float)lanes_total(&sum);
        stats[2] = target >= 0 && target < a->valid ? x[target] : 0;
    }
}

/* As ref's xent_draw, with the exponentials of xent_stats. */
static CLONES void draw_rows(void *context, int64_t begin, int64_t end)
{
    const XentDrawing *d = context;
    const XentDraw *a = d->a;
    int64_t R = a->stats_RT3.dim[0], T = a->logits_TV.dim[0];
    for (int64_t t = begin; t < end; t++) {
        const float *x = row(a->logits_TV, t), *stats = flat(a->stats_RT3) + 3 * t;
        double max = -INFINITY, total = 0, before = 0, own = 0, sum = 0;
        for (int64_t r = 0; r < R; r++) max = fmax(max, (double)stats[3 * T * r]);
        for (int64_t r = 0; r < R; r++) {
            double part = (double)stats[3 * T * r + 1] * exp((double)stats[3 * T * r] - max);
            if (r == a->rank) before = total, own = part;
            total += part;
        }
        double wanted = random_uniform(d->key, (uint64_t)((const int32_t *)a->index_i.data)[t]) * total;
        ((int32_t *)a->target_i.data)[t] = -1;
        if (wanted < before || wanted >= before + own) continue;
        int64_t c = 0;
        for (; c + 1 < a->valid; c++) {
            sum += (double)cpu_exp(x[c] - (float)max);
            if (before + sum > wanted) break;
        }
        ((int32_t *)a->target_i.data)[t] = (int32_t)(a->first + c);
    }
}

CPU(xent_draw, XentDraw)
{
    int64_t R = a->stats_RT3.dim[0], T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    WANT(a->target_i, T);
    WANT(a->logits_TV, T, V);
    WANT(a->stats_RT3, R, T, 3);
    WANT(a->index_i, T);
    XentDrawing d = { a, dropout_key(q->step_state, a->site) };
    team_for(q->team, T, 1, draw_rows, &d);
}

static void check_valid(int64_t valid, int64_t V)
{
    CHECK(valid >= 0 && valid <= V, "%lld valid columns of %lld", (long long)valid, (long long)V);
}

CPU(xent_stats, XentStats)
{
    int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    WANT(a->stats_T3, T, 3);
    WANT(a->logits_TV, T, V);
    WANT(a->target_i, T);
    check_valid(a->valid, V);
    team_for(q->team, T, chunk_rows(V), xent_stats_rows, (void *)a);
}

/* lse = max + log(sum over ranks of sum exp(max of the rank - max)),   loss = lse - target
 * A rank whose columns are all padding has max -infinity and sum 0, which is neutral. T x R numbers are
 * few, so one thread is enough. */
CPU(xent_forward, XentForward)
{
    int64_t R = a->stats_RT3.dim[0], T = a->stats_RT3.dim[1];
    WANT(a->loss_T, T);
    WANT(a->lse_T, T);
    WANT(a->stats_RT3, R, T, 3);
    for (int64_t t = 0; t < T; t++) {
        double max = -INFINITY, sum = 0, target = 0;
        /* not fmax, at which gcc 12 for AArch64 stops with an internal error */
        for (int64_t r = 0; r < R; r++) {
            double of_rank = (double)head(a->stats_RT3, r, t, 0)[0];
            if (of_rank > max) max = of_rank;
        }
        for (int64_t r = 0; r < R; r++) {
            const float *stats = head(a->stats_RT3, r, t, 0);
            sum += (double)stats[1] * natural_exp((double)stats[0] - max);
            target += (double)stats[2];
        }
        double lse = max + natural_log(sum);
        flat(a->lse_T)[t]  = (float)lse;
        flat(a->loss_T)[t] = (float)(lse - target);
    }
}

/* x = softcap tanh(x / softcap). tanh within 6 units of the last place: with z = x / 2, tanh z = p / q by the
 * seventh convergent of Lambert's continued fraction, and tanh 2z = 2 p q / (p^2 + q^2). All terms of p and q
 * are positive, so nothing cancels. Beyond |x| = 8.8 the result is +-1. */
INLINE float hyperbolic_tangent(float x)
{
    float z = x * 0.5f < -4.4f ? -4.4f : x * 0.5f > 4.4f ? 4.4f : x * 0.5f, s = z * z;
    float p = (((s + 378) * s + 17325) * s + 135135) * z, q = ((28 * s + 3150) * s + 62370) * s + 135135;
    return 2 * p * q / (p * p + q * q);
}

static CLONES void logit_softcap_rows(void *context, int64_t begin, int64_t end)
{
    const LogitSoftcap *a = context;
    float cap = (float)a->softcap;
    for (int64_t t = begin; t < end; t++) {
        float *x = row(a->x_TV, t);
        for (int64_t c = 0; c < a->x_TV.dim[1]; c++) x[c] = cap * hyperbolic_tangent(x[c] / cap);
    }
}

CPU(logit_softcap, LogitSoftcap)
{
    team_for(q->team, a->x_TV.dim[0], chunk_rows(a->x_TV.dim[1]), logit_softcap_rows, (void *)a);
}

/* dlogits = (exp(x - lse) (1 + 2 z lse) - [column is target]) weight (1 - (x / softcap)^2), where weight
 * includes the gradient scale. dlogits may be the logits, so the target's column is computed before the tile
 * that holds it is overwritten. */
typedef struct { const XentBackward *a; float scale, inverse_cap; } XentGradient;

static CLONES void xent_backward_rows(void *context, int64_t begin, int64_t end)
{
    const XentGradient *job = context;
    const XentBackward *a = job->a;
    float inverse = job->inverse_cap;
    bool capped = inverse > 0;
    TileBuffer tile;
    for (int64_t t = begin; t < end; t++) {
        const float *x = row(a->logits_TV, t);
        float lse = flat(a->lse_T)[t], weight = flat(a->loss_weight_T)[t] * job->scale;
        float more = a->z > 0 ? (float)(1 + 2 * a->z * (double)lse) : 1, soft = more * weight;
        int64_t target = ((const int32_t *)a->target_i.data)[t] - a->first;
        float of_target = target >= 0 && target < a->valid ? x[target] : 0;
        float slope = capped ? 1 - of_target * inverse * (of_target * inverse) : 1;
        float chosen = (cpu_exp(of_target - lse) * more - 1) * weight * slope;
        for (int64_t first = 0; first < a->logits_TV.dim[1]; first += TILE) {
            int64_t n = tile_count(a->logits_TV.dim[1], first), valid = a->valid - first;
            valid = valid < 0 ? 0 : valid < n ? valid : n;
            float *dx = tile_begin(&tile, a->dlogits_TV, t, first);
            for (int64_t c = 0; c < valid && !capped; c++) dx[c] = cpu_exp(x[first + c] - lse) * soft;
            for (int64_t c = 0; c < valid && capped; c++) {
                float part = x[first + c] * inverse;
                dx[c] = cpu_exp(x[first + c] - lse) * soft * (1 - part * part);
            }
            for (int64_t c = valid; c < n; c++) dx[c] = 0;
            if (target >= first && target < first + valid) dx[target - first] = chosen;
            tile_end(&tile, a->dlogits_TV, t, first, n);
        }
    }
}

CPU(xent_backward, XentBackward)
{
    int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    WANT(a->dlogits_TV, T, V);
    WANT(a->logits_TV, T, V);
    WANT(a->lse_T, T);
    WANT(a->target_i, T);
    WANT(a->loss_weight_T, T);
    check_valid(a->valid, V);
    XentGradient job = { a, (float)q->step_state->gradient_scale,
                         a->softcap > 0 ? (float)(1 / a->softcap) : 0 };
    team_for(q->team, T, chunk_rows(V), xent_backward_rows, &job);
}
