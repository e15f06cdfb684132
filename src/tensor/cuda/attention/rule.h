#ifndef TENSOR_CUDA_ATTENTION_RULE_H
#define TENSOR_CUDA_ATTENTION_RULE_H
/* What the attention kernels share: which keys a query sees, dropout.
 * B sequences   S queries   U keys   H query heads   G key-value heads, each shared by H / G query heads
 * D channels of q and k   E channels of v and o */
#include "tensor/cuda/random.h"
#include "tensor/cuda/vector.h"

/* The keys of a chunk that a query sees, as numbers of keys in it: first .. end - 1. */
struct KeySpan { int first, end; };

static __device__ __forceinline__ KeySpan keys_of(const AttentionRule &rule, const Tensor &key_range_i,
                                                  int64_t U, int64_t b, int64_t s)
{
    int64_t first = 0, end = rule.q0 + s + 1 - rule.k0;
    if (present(key_range_i)) {
        const int32_t *row = (const int32_t *)key_range_i.data;
        row += b * key_range_i.stride[0] + s * key_range_i.stride[1];
        first = row[0] - rule.k0, end = row[1] - rule.k0;
    }
    const int64_t window = rule.q0 + s + 1 - rule.window - rule.k0;
    if (rule.window > 0 && first < window) first = window;
    if (first < 0) first = 0;
    if (end > U) end = U;
    return first < end ? KeySpan{ (int)first, (int)end } : KeySpan{ 0, 0 };
}

/* The number of the first probability of a query in the whole attention matrix of the model; that of key u of
 * the chunk is u more. */
static __device__ __forceinline__ uint64_t dropout_row(const AttentionRule &rule, const Tensor &sample_i,
                                                       int64_t b, int64_t s, int64_t h)
{
    const int64_t sample = ((const int32_t *)sample_i.data)[b * sample_i.stride[0]];
    const int64_t row = (sample * rule.heads + rule.head0 + h) * rule.span + rule.q0 + s;
    return (uint64_t)(row * rule.span + rule.k0);
}

/* alibi_slope (tensor/ops.h) of a head of this call; 0 without ALiBi */
static __device__ __forceinline__ float slope_of(const AttentionRule &rule, int64_t h)
{
    const int64_t head = rule.head0 + h;
    int64_t n = 1;
    if (!rule.alibi) return 0;
    while (2 * n <= rule.heads) n *= 2;
    const int64_t power = head < n ? 8 * (head + 1) : 4 * (2 * (head - n) + 1);
    return exp2f(-(float)power / (float)n);
}

/* Element c of a row of a tensor whose type is F32, BF16 or F16. */
static __device__ __forceinline__ float load_as(const Tensor &x, int64_t b, int64_t s, int64_t h, int64_t c)
{
    if (x.dtype == F32)  return *(gpu_row<float>(x, b, s, h) + c);
    if (x.dtype == BF16) return load(gpu_row<Bf16>(x, b, s, h) + c);
    return load(gpu_row<Fp16>(x, b, s, h) + c);
}

static __device__ __forceinline__ void store_as(const Tensor &x, int64_t b, int64_t s, int64_t h, int64_t c,
                                                float v)
{
    if (x.dtype == F32)       *(gpu_row<float>(x, b, s, h) + c) = v;
    else if (x.dtype == BF16) store(gpu_row<Bf16>(x, b, s, h) + c, v);
    else                      store(gpu_row<Fp16>(x, b, s, h) + c, v);
}

static __device__ __forceinline__ void add_as(const Tensor &x, int64_t b, int64_t s, int64_t h, int64_t c,
                                              float v)
{
    store_as(x, b, s, h, c, load_as(x, b, s, h, c) + v);
}
#endif
