/* Vocabulary-parallel cross entropy.
 * T rows   V columns held by this rank, of which the first `valid` are ids and the rest padding   R ranks */
#include "tensor/cpu/cpu.h"

/* stats = { max, sum of exp(x - max), logit of the target or 0 }
 * exp fills a tile first, in a loop that vectorizes; then the tile is added in double and in order. */
static CLONES void xent_stats_rows(void *context, int64_t begin, int64_t end)
{
    enum { TILE = 64 };
    const XentStats *a = context;
    for (int64_t t = begin; t < end; t++) {
        const float *x = row(a->logits_TV, t);
        float *stats = row(a->stats_T3, t), max = -INFINITY, tile[TILE];
        double sum = 0;
        for (int64_t c = 0; c < a->valid; c++) max = x[c] > max ? x[c] : max;
        for (int64_t first = 0; first < a->valid; first += TILE) {
            int64_t n = a->valid - first < TILE ? a->valid - first : TILE;
            for (int64_t c = 0; c < n; c++) tile[c] = cpu_exp(x[first + c] - max);
            for (int64_t c = 0; c < n; c++) sum += (double)tile[c];
        }
        int64_t target = ((const int32_t *)a->target_i.data)[t] - a->first;
        stats[0] = max;
        stats[1] = (float)sum;
        stats[2] = target >= 0 && target < a->valid ? x[target] : 0;
    }
}

static void check_valid(int64_t valid, int64_t V)
{
    CHECK(valid >= 0 && valid <= V, "%lld valid columns of %lld", (long long)valid, (long long)V);
}

CPU(xent_stats, XentStats)
{
    int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    WANT(a->stats_T3, F32, T, 3);
    WANT(a->logits_TV, F32, T, V);
    WANT(a->target_i, I32, T);
    check_valid(a->valid, V);
    team_for(q->team, T, chunk_rows(V), xent_stats_rows, (void *)a);
}

/* lse = max + log(sum over ranks of sum exp(max of the rank - max)),   loss = lse - target
 * A rank whose columns are all padding has max -infinity and sum 0, which is neutral. T x R numbers are
 * few, so one thread is enough. */
CPU(xent_forward, XentForward)
{
    int64_t R = a->stats_RT3.dim[0], T = a->stats_RT3.dim[1];
    WANT(a->loss_T, F32, T);
    WANT(a->lse_T, F32, T);
    WANT(a->stats_RT3, F32, R, T, 3);
    for (int64_t t = 0; t < T; t++) {
        double max = -INFINITY, sum = 0, target = 0;
        for (int64_t r = 0; r < R; r++) max = fmax(max, (double)head(a->stats_RT3, r, t, 0)[0]);
        for (int64_t r = 0; r < R; r++) {
            const float *stats = head(a->stats_RT3, r, t, 0);
            sum += (double)stats[1] * exp((double)stats[0] - max);
            target += (double)stats[2];
        }
        flat(a->lse_T)[t]  = (float)(max + log(sum));
        flat(a->loss_T)[t] = (float)(max + log(sum) - target);
    }
}

/* dlogits = (exp(x - lse) - [column is target]) weight
 * The target's column is computed first, since the loop overwrites its logit where both are one tensor. */
static CLONES void xent_backward_rows(void *context, int64_t begin, int64_t end)
{
    const XentBackward *a = context;
    for (int64_t t = begin; t < end; t++) {
        const float *x = row(a->logits_TV, t), lse = flat(a->lse_T)[t], weight = flat(a->loss_weight_T)[t];
        float *dx = row(a->dlogits_TV, t);
        int64_t target = ((const int32_t *)a->target_i.data)[t] - a->first;
        float chosen = target >= 0 && target < a->valid ? (cpu_exp(x[target] - lse) - 1) * weight : 0;
        for (int64_t c = 0; c < a->valid; c++) dx[c] = cpu_exp(x[c] - lse) * weight;
        for (int64_t c = a->valid; c < a->logits_TV.dim[1]; c++) dx[c] = 0;
        if (target >= 0 && target < a->valid) dx[target] = chosen;
    }
}

CPU(xent_backward, XentBackward)
{
    int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    WANT(a->dlogits_TV, F32, T, V);
    WANT(a->logits_TV, F32, T, V);
    WANT(a->lse_T, F32, T);
    WANT(a->target_i, I32, T);
    WANT(a->loss_weight_T, F32, T);
    check_valid(a->valid, V);
    team_for(q->team, T, chunk_rows(V), xent_backward_rows, (void *)a);
}
