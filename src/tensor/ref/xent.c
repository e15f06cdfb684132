/* Vocabulary-parallel cross entropy.
 * T rows   V columns held by this rank, of which the first `valid` are ids and the rest padding   R ranks */
#include "base/random.h"
#include "tensor/ref/ref.h"

/* stats = { max, sum of exp(x - max), logit of the target or 0 } */
REF(xent_stats, XentStats)
{
    int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    WANT(a->stats_T3, T, 3);
    WANT(a->logits_TV, T, V);
    WANT(a->target_i, T);
    CHECK(a->valid >= 0 && a->valid <= V, "%lld valid columns of %lld", (long long)a->valid, (long long)V);
    for (int64_t t = 0; t < T; t++) {
        double max = -INFINITY, sum = 0, target = 0;
        for (int64_t c = 0; c < a->valid; c++) max = fmax(max, *at2(a->logits_TV, t, c));
        for (int64_t c = 0; c < a->valid; c++) {
            sum += exp(*at2(a->logits_TV, t, c) - max);
            if (a->first + c == int1(a->target_i, t)) target = *at2(a->logits_TV, t, c);
        }
        *at2(a->stats_T3, t, 0) = max;
        *at2(a->stats_T3, t, 1) = sum;
        *at2(a->stats_T3, t, 2) = target;
    }
}

/* lse = max + log(sum over ranks of sum exp(max of the rank - max)),   loss = lse - target
 * A rank whose columns are all padding has max -infinity and sum 0, which is neutral. */
REF(xent_forward, XentForward)
{
    int64_t R = a->stats_RT3.dim[0], T = a->stats_RT3.dim[1];
    WANT(a->loss_T, T);
    WANT(a->lse_T, T);
    WANT(a->stats_RT3, R, T, 3);
    for (int64_t t = 0; t < T; t++) {
        double max = -INFINITY, sum = 0, target = 0;
        for (int64_t r = 0; r < R; r++) max = fmax(max, *at3(a->stats_RT3, r, t, 0));
        for (int64_t r = 0; r < R; r++) {
            sum += *at3(a->stats_RT3, r, t, 1) * exp(*at3(a->stats_RT3, r, t, 0) - max);
            target += *at3(a->stats_RT3, r, t, 2);
        }
        *at1(a->lse_T, t) = max + log(sum);
        *at1(a->loss_T, t) = *at1(a->lse_T, t) - target;
    }
}

/* x = softcap tanh(x / softcap) */
REF(logit_softcap, LogitSoftcap)
{
    int64_t T = a->x_TV.dim[0], V = a->x_TV.dim[1];
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < V; c++)
            *at2(a->x_TV, t, c) = a->softcap * tanh(*at2(a->x_TV, t, c) / a->softcap);
}

/* The first id whose cumulative probability exceeds a random number; on the rank that has it, of others -1 */
REF(xent_draw, XentDraw)
{
    int64_t R = a->stats_RT3.dim[0], T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    uint64_t key = dropout_key(q->step_state, a->site);
    WANT(a->target_i, T);
    WANT(a->logits_TV, T, V);
    WANT(a->stats_RT3, R, T, 3);
    WANT(a->index_i, T);
    for (int64_t t = 0; t < T; t++) {
        double max = -INFINITY, total = 0, before = 0, sum = 0;
        for (int64_t r = 0; r < R; r++) max = fmax(max, *at3(a->stats_RT3, r, t, 0));
        for (int64_t r = 0; r < R; r++) {
            if (r == a->rank) before = total;
            total += *at3(a->stats_RT3, r, t, 1) * exp(*at3(a->stats_RT3, r, t, 0) - max);
        }
        double own = *at3(a->stats_RT3, a->rank, t, 1) * exp(*at3(a->stats_RT3, a->rank, t, 0) - max);
        double wanted = random_uniform(key, (uint64_t)int1(a->index_i, t)) * total;
        *int_at(a->target_i, t) = -1;
        if (wanted < before || wanted >= before + own) continue;
        int64_t c = 0;
        for (; c + 1 < a->valid; c++) {
            sum += exp(*at2(a->logits_TV, t, c) - max);
            if (before + sum > wanted) break;
        }
        *int_at(a->target_i, t) = (int32_t)(a->first + c);
    }
}

/* dlogits = (exp(x - lse) (1 + 2 z lse) - [column is target]) weight gradient_scale (1 - (x / softcap)^2) */
REF(xent_backward, XentBackward)
{
    int64_t T = a->logits_TV.dim[0], V = a->logits_TV.dim[1];
    WANT(a->dlogits_TV, T, V);
    WANT(a->logits_TV, T, V);
    WANT(a->lse_T, T);
    WANT(a->target_i, T);
    WANT(a->loss_weight_T, T);
    CHECK(a->valid >= 0 && a->valid <= V, "%lld valid columns of %lld", (long long)a->valid, (long long)V);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < V; c++) {
            double x = *at2(a->logits_TV, t, c), hit = a->first + c == int1(a->target_i, t);
            double weight = *at1(a->loss_weight_T, t) * q->step_state->gradient_scale;
            double lse = *at1(a->lse_T, t), soft = exp(x - lse) * (a->z > 0 ? 1 + 2 * a->z * lse : 1);
            double slope = a->softcap > 0 ? 1 - x / a->softcap * (x / a->softcap) : 1;
            *at2(a->dlogits_TV, t, c) = c < a->valid ? (soft - hit) * weight * slope : 0;
        }
}
