#ifndef TESTS_TENSOR_OPS_PAGED_H
#define TESTS_TENSOR_OPS_PAGED_H
/* The cases of the paged key-value cache, for ops_test.c. */
#include "ops_attention.h"

/* I sequences, and T queries of which `prompt` are of one sequence, the others of any; `ahead` of them the cache has
 * positions of the prompt. L positions of a page. */
enum { RANGED = 1, BIASED = 2, PLACED = 4 };               /* windows, ALiBi, and of keys whose positions are said */
static const struct { int64_t I, T, prompt, ahead, H, G, D, E, L; int rule; double softcap; } paged[] = {
    { 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0 },                   /* one of everything */
    { 3, 9, 0, 0, 4, 2, 16, 16, 16, 0, 0 },                /* decoding */
    { 2, 70, 70, 0, 3, 3, 20, 12, 16, 0, 0 },              /* a prompt */
    { 3, 130, 120, 57, 4, 1, 33, 40, 24, 0, 1.5 },         /* the second part of one, beside decoding */
    { 4, 40, 20, 90, 6, 2, 16, 16, 96, RANGED, 0 },        /* tiles within a page */
    { 3, 60, 50, 33, 7, 7, 16, 20, 7, BIASED, 0 },
    { 5, 60, 30, 200, 4, 2, 64, 64, 32, RANGED | BIASED, 2 },
    { 3, 40, 20, 100, 7, 7, 16, 16, 48, RANGED | BIASED | PLACED, 0 },
};
enum { PAGED = sizeof paged / sizeof *paged, PAGED_KEYS = 300 };

static int32_t *int_of(Tensor x, int64_t i) { return (int32_t *)x.data + i; }

/* Pages of all sequences in any order, with some that nobody has; what is behind a window has none. */
static Tensor pages_of(int64_t I, int64_t M)
{
    Tensor page_i = tensor_view(ints(I * M, 0, 1), I, M);
    for (int64_t i = 0; i < I * M; i++) *int_of(page_i, i) = (int32_t)(i + 2);
    for (int64_t i = I * M - 1; i > 0; i--) {
        int64_t j = (int64_t)floor(draw(0, (double)(i + 1)));
        int32_t page = *int_of(page_i, i);
        *int_of(page_i, i) = *int_of(page_i, j), *int_of(page_i, j) = page;
    }
    return page_i;
}

static bool make_paged_attention_forward(Arguments *a, int variant)
{
    if (variant >= PAGED) return false;
    int64_t I = paged[variant].I, T = paged[variant].T, H = paged[variant].H, G = paged[variant].G, D = paged[variant].D;
    int64_t E = paged[variant].E, L = paged[variant].L, M = (PAGED_KEYS + L - 1) / L, N = I * M + 3;
    int rule = paged[variant].rule;
    Tensor kv = real(N, L, 2 * G, D);
    PagedAttentionForward *f = &a->paged_attention_forward;
    *f = (PagedAttentionForward){
        .o = tensor_slice(real(T, H + 1, E), 1, 1, H), .lse = real(T, H), .q = tensor_slice(real(T, H + 2, D), 1, 2, H),
        .k = tensor_slice(kv, 2, 0, G), .v = E == D ? tensor_slice(kv, 2, G, G) : real(N, L, G, E), .page_i = pages_of(I, M),
        .sequence_i = ints(T, 0, (int)I), .key_range_i = tensor_view(ints(2 * T, 0, 1), T, 2), .position_i = ints(T, 0, PAGED_KEYS),
        .rule = { .head0 = 1, .heads = 9, .scale = 1 / sqrt((double)D), .softcap = paged[variant].softcap, .alibi = rule & BIASED } };
    if (rule & PLACED) f->key_position_i = tensor_view(ints(N * L, 0, 400), N, L);
    for (int64_t t = 0; t < T; t++) {
        bool prompt = t >= T - paged[variant].prompt;
        if (prompt) *int_of(f->sequence_i, t) = 0;
        if (prompt) *int_of(f->position_i, t) = (int32_t)(paged[variant].ahead + t - (T - paged[variant].prompt));
        int32_t end = *int_of(f->position_i, t) + 1, window = 45;
        int32_t *range = int_of(f->key_range_i, 2 * t);
        range[1] = t % 13 == 12 ? 0 : end;                 /* some see nothing */
        range[0] = rule & RANGED && end > window ? end - window : 0;
        if (range[0] > range[1]) range[0] = range[1];
    }
    if (rule & PLACED) loosen = 10;                        /* biases of hundreds have roundings of 1e-5 */
    return true;
}

static bool make_page_write(Arguments *a, int variant)
{
    int64_t T = variant ? 40 : 1, G = variant ? 3 : 1, D = variant ? 20 : 1, E = variant ? 12 : 1, N = 5, L = 16;
    Tensor kv = real(T, G, D + E + 4);
    a->page_write = (PageWrite){ .k_NLGD = tensor_slice(real(N, L, G + 1, D), 2, 1, G), .v_NLGE = real(N, L, G, E),
                                 .k_TGD = tensor_slice(kv, 2, 0, D), .v_TGE = tensor_slice(kv, 2, D + 1, E), .slot_i = ints(T, 0, 1) };
    for (int64_t t = 0; t < T; t++) *int_of(a->page_write.slot_i, t) = t % 7 == 3 ? -1 : (int32_t)((t * 29 + 5) % (N * L));
    return variant < 2;
}
#endif
