/* Attention over a paged key-value cache, and writing to one. The pass is flash.h's, over tiles of keys that
 * are looked up in the pages.
 * T queries or new keys   H query heads   G key-value heads   D channels of q and k   E channels of v and o
 * L positions of a page */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/flash/flash.h"
#include "tensor/ref/want_paged.h"

/* x [T, ...] as that of one sequence */
static Tensor one_sequence(Tensor x)
{
    for (int d = 3; d > 0; d--) x.dim[d] = x.dim[d - 1], x.stride[d] = x.stride[d - 1];
    x.dim[0] = 1;
    return x;
}

static Flash paged_pass(const PagedAttentionForward *a)
{
    return (Flash){ .o = one_sequence(a->o), .lse = one_sequence(a->lse), .q = one_sequence(a->q), .k = a->k,
                    .v = a->v, .key_range_i = one_sequence(a->key_range_i), .rule = a->rule,
                    .page_i = a->page_i, .sequence_i = a->sequence_i, .position_i = a->position_i,
                    .key_position_i = a->key_position_i };
}

size_t cpu_paged_attention_forward_workspace(const Queue *q, const PagedAttentionForward *a)
{
    Flash x = paged_pass(a);
    return flash_forward_workspace(&x, q->threads);
}

/* Whether the keys that query t sees are in pages that exist */
static void check_pages(const PagedAttentionForward *a, int64_t t)
{
    int64_t L = a->k.dim[1], M = a->page_i.dim[1], N = a->k.dim[0];
    int64_t sequence = ((const int32_t *)a->sequence_i.data)[t];
    const int32_t *range = (const int32_t *)a->key_range_i.data + 2 * t;
    CHECK(sequence >= 0 && sequence < a->page_i.dim[0], "query %lld is of sequence %lld of %lld",
          (long long)t, (long long)sequence, (long long)a->page_i.dim[0]);
    if (range[0] >= range[1]) return;
    CHECK(range[0] >= 0 && range[1] <= M * L, "query %lld sees keys %d to %d of %lld", (long long)t, range[0],
          range[1], (long long)(M * L));
    const int32_t *page = (const int32_t *)a->page_i.data + sequence * M;
    for (int64_t u = range[0] / L; u <= (range[1] - 1) / L; u++)
        CHECK(page[u] >= 0 && page[u] < N, "page %d of %lld", page[u], (long long)N);
}

CPU(paged_attention_forward, PagedAttentionForward)
{
    Flash x = paged_pass(a);
    want_paged(a);
    for (int64_t t = 0; t < a->q.dim[0]; t++) check_pages(a, t);
    x.family = q->kernels;
    flash_forward(q->team, &x, q->op_workspace, q->op_workspace_bytes);
}

/* The heads of row t of x to a place of a page. */
static void write_heads(Tensor page, int64_t n, int64_t l, Tensor x, int64_t t)
{
    int64_t width = (int64_t)dtype_width(x.dtype);
    for (int64_t g = 0; g < x.dim[1]; g++)
        memcpy((char *)page.data + (n * page.stride[0] + l * page.stride[1] + g * page.stride[2]) * width,
               (const char *)x.data + (t * x.stride[0] + g * x.stride[1]) * width,
               (size_t)(x.dim[2] * width));
}

static void write_rows(void *context, int64_t begin, int64_t end)
{
    const PageWrite *a = context;
    int64_t L = a->k_NLGD.dim[1];
    for (int64_t t = begin; t < end; t++) {
        int64_t slot = ((const int32_t *)a->slot_i.data)[t];
        CHECK(slot < a->k_NLGD.dim[0] * L, "slot %lld of %lld pages of %lld", (long long)slot,
              (long long)a->k_NLGD.dim[0], (long long)L);
        if (slot < 0) continue;
        write_heads(a->k_NLGD, slot / L, slot % L, a->k_TGD, t);
        write_heads(a->v_NLGE, slot / L, slot % L, a->v_TGE, t);
    }
}

CPU(page_write, PageWrite)
{
    want_page_write(a);
    int64_t width = a->k_TGD.dim[1] * (a->k_TGD.dim[2] + a->v_TGE.dim[2]);
    team_for(q->team, a->k_TGD.dim[0], chunk_rows(width), write_rows, (void *)a);
}
