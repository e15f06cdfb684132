#ifndef TENSOR_REF_WANT_PAGED_H
#define TENSOR_REF_WANT_PAGED_H
/* The shapes of a paged key-value cache, for both back ends; the letters are those of ops.def. */
#include "tensor/ops.h"
#include "tensor/ref/want.h"

static inline void want_pages(Tensor k, Tensor v, int64_t G, int64_t D, int64_t E)
{
    WANT(k, k.dim[0], k.dim[1], G, D);
    WANT(v, k.dim[0], k.dim[1], G, E);
    CHECK(k.dim[1] > 0, "a page has %lld positions", (long long)k.dim[1]);
}

static inline void want_paged(const PagedAttentionForward *a)
{
    int64_t T = a->q.dim[0], H = a->q.dim[1], D = a->q.dim[2], G = a->k.dim[2], E = a->v.dim[3];
    const AttentionRule *rule = &a->rule;
    CHECK(G > 0 && H % G == 0, "%lld query heads cannot share %lld key-value heads evenly", (long long)H,
          (long long)G);
    CHECK(rule->window == 0 && rule->p == 0 && rule->q0 == 0 && rule->k0 == 0,
          "a window, dropout and positions are not this row's");
    want_pages(a->k, a->v, G, D, E);
    WANT(a->q, T, H, D);
    WANT(a->o, T, H, E);
    WANT(a->lse, T, H);
    WANT(a->page_i, a->page_i.dim[0], a->page_i.dim[1]);
    WANT(a->sequence_i, T);
    WANT(a->key_range_i, T, 2);
    WANT(a->position_i, T);
    CHECK(tensor_contiguous(a->page_i) && tensor_contiguous(a->key_range_i), "a table has gaps");
    if (!tensor_present(a->key_position_i)) return;
    WANT(a->key_position_i, a->k.dim[0], a->k.dim[1]);
    CHECK(tensor_contiguous(a->key_position_i), "key_position_i has gaps");
}

static inline void want_page_write(const PageWrite *a)
{
    int64_t T = a->k_TGD.dim[0], G = a->k_TGD.dim[1], D = a->k_TGD.dim[2], E = a->v_TGE.dim[2];
    want_pages(a->k_NLGD, a->v_NLGE, G, D, E);
    WANT(a->k_TGD, T, G, D);
    WANT(a->v_TGE, T, G, E);
    WANT(a->slot_i, T);
}
#endif
