#ifndef TENSOR_CUDA_RANDOM_H
#define TENSOR_CUDA_RANDOM_H
/* The random bits of base/random.h and the key of dropout on a device: the same values, for each thread that
 * asks. tensor.ops_cuda_test compares masks with those of the host. */
#include "tensor/cuda/gpu.h"
#include "tensor/step_state.h"

/* philox(key, index, 0): bits of the elements 4 index .. 4 index + 3 */
__device__ __forceinline__ uint4 gpu_philox(uint64_t key, uint64_t index)
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

__device__ __forceinline__ uint32_t word_of(const uint4 &x, uint32_t i)
{
    const uint32_t low = i & 1 ? x.y : x.x, high = i & 1 ? x.w : x.z;
    return i & 2 ? high : low;
}

/* random_bits(key, index) */
__device__ __forceinline__ uint32_t gpu_random_bits(uint64_t key, uint64_t index)
{
    return word_of(gpu_philox(key, index / 4), (uint32_t)(index % 4));
}

/* random_uniform(key, index): the top 53 of 64 bits, in two halves, which and whose sum are exact */
__device__ __forceinline__ double gpu_random_uniform(uint64_t key, uint64_t index)
{
    const uint4 bits = gpu_philox(key, index);
    return ((double)(bits.y >> 11) * 4294967296.0 + (double)(bits.y << 21 | bits.x >> 11)) * 0x1p-53;
}

__device__ __forceinline__ uint64_t gpu_random_mix(uint64_t a, uint64_t b)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    uint64_t z = a + golden;
    for (int round = 0; round < 2; round++) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z = z ^ (z >> 31);
        if (round == 0) z += b + golden;
    }
    return z;
}

/* dropout_key (tensor/ops.h) */
__device__ __forceinline__ uint64_t gpu_dropout_key(const StepState *step_state, uint64_t site)
{
    return gpu_random_mix(gpu_random_mix(step_state->seed, (uint64_t)step_state->step), site);
}

/* Elements with bits of at least `threshold` are kept and multiplied by `scale`. */
struct DropoutMask { uint64_t key; uint32_t threshold; float scale; };

__device__ __forceinline__ DropoutMask dropout_mask(const StepState *step_state, uint64_t site, double p)
{
    const uint32_t threshold = (uint32_t)(p * 4294967296.0);
    return DropoutMask{ gpu_dropout_key(step_state, site), threshold, (float)(1 / (1 - p)) };
}

__device__ __forceinline__ float dropout_factor(const DropoutMask &mask, uint64_t index)
{
    return gpu_random_bits(mask.key, index) >= mask.threshold ? mask.scale : 0.0f;
}

/* The factors of N elements from `first` on; a vector begins at a multiple of 4, so that one block of bits
 * serves four of them. */
template <int N>
__device__ __forceinline__ void dropout_factors(float (&to)[N], const DropoutMask &mask, uint64_t first)
{
    if constexpr (N == 1) {
        to[0] = dropout_factor(mask, first);
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const uint4 bits = gpu_philox(mask.key, (first + (uint64_t)i) / 4);
            to[i]     = bits.x >= mask.threshold ? mask.scale : 0.0f;
            to[i + 1] = bits.y >= mask.threshold ? mask.scale : 0.0f;
            to[i + 2] = bits.z >= mask.threshold ? mask.scale : 0.0f;
            to[i + 3] = bits.w >= mask.threshold ? mask.scale : 0.0f;
        }
    }
}
#endif
