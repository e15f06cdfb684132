#ifndef TENSOR_CPU_FLASH_H
#define TENSOR_CPU_FLASH_H
/* Attention in tiles of queries and keys whose scores stay in the cache (FlashAttention: Dao et al. 2022;
 * FlashAttention-2: Dao 2023). Memory does not grow with the product of queries and keys. The arguments are
 * those of the ops in tensor/ops.def. The matrix products are those of gemm's register tiles.
 *
 * A tile holds 96 keys in the forward pass, 192 in the backward pass, counted from key 0 of the call, and in
 * the backward pass 96 queries, counted from query 0 of the call. Tiles that no query sees are skipped.
 *
 * What is promised of the bits: a query's o and lse depend on the query, the keys it sees and their places
 * in the chunk of keys, and the family alone. They depend neither on other queries, sequences and heads, nor
 * on the number of threads, nor on strides. Each score adds its products in order of channels. o adds the
 * terms of a tile in order of keys to a sum that begins at 0, and the tiles' sums in order. dq adds the
 * tiles of keys in order, dk and dv add the query heads of their group and of each the tiles of queries in
 * order, and the sum to what was there; no sum depends on the number of threads. The families with a fused
 * multiply-add (avx512-bf16, avx512, avx2, neon) agree to the bit, except in bf16: avx512-bf16 multiplies
 * pairs, for which probabilities and their gradients are rounded to bf16 as well, and adds a pair at a time.
 * This holds for finite numbers: a key that one query of a tile sees is multiplied by 0 for the others. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/team.h"
#include "tensor/kernel_family.h"
#include "tensor/ops.h"

/* B sequences   S queries   U keys   H query heads   G key-value heads   D channels of q and k, E of v and o
 * lse and delta are F32; the other floating-point tensors have one type, F32, BF16 or F16, and any strides
 * but the last; o, dq, dk and dv may be F32 in any case. Everything between loads and stores is fp32. `o`
 * and key_distance_i
 * belong to the forward pass, d_o to dv to the backward pass; the other ones to both. */
typedef struct {
    Tensor   o, d_o, delta, dq, dk, dv;
    Tensor   lse, q, k, v, key_range_i, sample_i, key_distance_i;
    /* Of a paged cache, in the forward pass alone: k and v are its pages [N, L, G, .], B is 1, and the S
     * queries belong to the sequences sequence_i [S], whose pages are rows of page_i. key_position_i may be
     * absent. */
    Tensor   page_i, sequence_i, position_i, key_position_i;
    AttentionRule rule;
    uint64_t dropout_key;
    KernelFamily family;
} Flash;

/* Bytes to work in: those of each thread depend on D and E alone; the backward pass adds 4 bytes for each
 * tile of queries and, for a 16-bit type, dq in fp32, and a paged cache 40 bytes for each query. They are
 * those of the family that needs most. */
size_t flash_forward_workspace (const Flash *x, int threads);
size_t flash_backward_workspace(const Flash *x, int threads);
/* lse = log of the sum over visible keys of exp(score),   o = sum of dropout exp(score - lse) v */
void   flash_forward (Team *team, const Flash *x, void *workspace, size_t workspace_bytes);
/* With prob = exp(score - lse) and dprob = dropout (do . v):   dv += dropout prob do
 * dscore = prob (dprob - delta),   dk += scale dscore q,   dq += scale dscore k
 * With a soft-cap, dscore is also multiplied by 1 - (score / softcap)^2, the score without ALiBi's bias. */
void   flash_backward(Team *team, const Flash *x, void *workspace, size_t workspace_bytes);
#endif
