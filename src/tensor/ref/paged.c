/* Attention over a paged key-value cache, and writing to one.
 * T queries or new keys   H query heads   G key-value heads, each shared by H / G query heads
 * D channels of q and k   E channels of v and o   N pages of L positions
 * I sequences, each with a row of M pages in page_i */
#include "tensor/ref/ref.h"
#include "tensor/ref/want_paged.h"

/* A query, and the keys that it sees */
typedef struct { const PagedAttentionForward *a; int64_t t, h, g, first, end; } Query;

/* The place of key u of the query's sequence, among those of all pages */
static int64_t place_of(const Query *x, int64_t u)
{
    const PagedAttentionForward *a = x->a;
    int64_t L = a->k.dim[1], M = a->page_i.dim[1], i = int1(a->sequence_i, x->t);
    CHECK(i >= 0 && i < a->page_i.dim[0] && u >= 0 && u < M * L, "query %lld sees key %lld of sequence %lld",
          (long long)x->t, (long long)u, (long long)i);
    int64_t page = *int_at(a->page_i, i * M + u / L);
    CHECK(page >= 0 && page < a->k.dim[0], "page %lld of %lld", (long long)page, (long long)a->k.dim[0]);
    return page * L + u % L;
}

static double score(const Query *x, int64_t u)
{
    const PagedAttentionForward *a = x->a;
    int64_t L = a->k.dim[1], place = place_of(x, u), position = u;
    double  sum = 0, cap = a->rule.softcap;
    for (int64_t d = 0; d < a->q.dim[2]; d++)
        sum += *at3(a->q, x->t, x->h, d) * *at4(a->k, place / L, place % L, x->g, d);
    sum *= a->rule.scale;
    if (cap > 0) sum = cap * tanh(sum / cap);
    if (!a->rule.alibi) return sum;
    if (tensor_present(a->key_position_i)) position = *int_at(a->key_position_i, place);
    double before = (double)(int1(a->position_i, x->t) - position);
    return sum - alibi_slope(a->rule.head0 + x->h, a->rule.heads) * before;
}

/* lse = log of the sum over its keys of exp(score),   o = sum of exp(score - lse) v */
static void attend(const Query *x)
{
    const PagedAttentionForward *a = x->a;
    int64_t L = a->k.dim[1];
    double  max = -INFINITY, sum = 0;
    for (int64_t u = x->first; u < x->end; u++) max = fmax(max, score(x, u));
    for (int64_t u = x->first; u < x->end; u++) sum += exp(score(x, u) - max);
    double lse = sum == 0 ? -INFINITY : max + log(sum);
    *at2(a->lse, x->t, x->h) = lse;
    for (int64_t e = 0; e < a->v.dim[3]; e++) *at3(a->o, x->t, x->h, e) = 0;
    for (int64_t u = x->first; u < x->end; u++) {
        double  prob = exp(score(x, u) - lse);
        int64_t place = place_of(x, u);
        for (int64_t e = 0; e < a->v.dim[3]; e++)
            *at3(a->o, x->t, x->h, e) += prob * *at4(a->v, place / L, place % L, x->g, e);
    }
}

REF(paged_attention_forward, PagedAttentionForward)
{
    int64_t T = a->q.dim[0], H = a->q.dim[1];
    want_paged(a);
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < H; h++) {
            const int32_t *range = int_at(a->key_range_i, 2 * t);
            attend(&(Query){ a, t, h, h / (H / a->k.dim[2]), range[0], range[1] });
        }
}

REF(page_write, PageWrite)
{
    int64_t T = a->k_TGD.dim[0], L = a->k_NLGD.dim[1];
    want_page_write(a);
    for (int64_t t = 0; t < T; t++) {
        int64_t slot = int1(a->slot_i, t);
        CHECK(slot < a->k_NLGD.dim[0] * L, "slot %lld of %lld pages", (long long)slot,
              (long long)a->k_NLGD.dim[0]);
        for (int64_t g = 0; g < a->k_TGD.dim[1] && slot >= 0; g++) {
            for (int64_t d = 0; d < a->k_TGD.dim[2]; d++)
                *at4(a->k_NLGD, slot / L, slot % L, g, d) = *at3(a->k_TGD, t, g, d);
            for (int64_t e = 0; e < a->v_TGE.dim[2]; e++)
                *at4(a->v_NLGE, slot / L, slot % L, g, e) = *at3(a->v_TGE, t, g, e);
        }
    }
}
