/* Attention on a GPU for all types, head dims and masks: tiles of 32 queries by 32 keys, in fp32 with the
 * probabilities in shared memory.
 * B sequences   S queries   U keys   H query heads   G key-value heads, each shared by H / G query heads
 * D channels of q and k   E channels of v and o */
#include "tensor/cuda/attention/tiled.h"

/* A tile is SIDE queries by SIDE keys; 8 threads share a row of it, each with every eighth channel. */
enum { SIDE = 32, SHARERS = GPU_THREADS / SIDE, CHANNELS = MOST_CHANNELS / SHARERS };

/* ---- tiles in shared memory: rows of `wide` floats, one more than channels, against bank conflicts ---- */

/* SIDE rows of x from s0 on; rows at and beyond `rows` are zero. */
template <typename T>
static __device__ void tile_read(float *to, const Tensor &x, int64_t b, int64_t s0, int64_t h, int64_t rows)
{
    const int channels = (int)x.dim[3], wide = channels + 1;
    for (int i = threadIdx.x; i < SIDE * channels; i += GPU_THREADS) {
        const int r = i / channels, c = i % channels;
        to[r * wide + c] = s0 + r < rows ? load(gpu_row<T>(x, b, s0 + r, h) + c) : 0.0f;
    }
}

/* product[i][j] = x[y + 16 i] . z[c + 16 j] for the thread's place (y, c) in a tile of 16 by 16 threads */
static __device__ __forceinline__ void tile_products(float (&product)[2][2], const float *x, const float *z,
                                                     int channels)
{
    const int y = threadIdx.x / 16, c = threadIdx.x % 16, wide = channels + 1;
#pragma unroll
    for (int i = 0; i < 4; i++) product[i / 2][i % 2] = 0;
    for (int d = 0; d < channels; d++) {
        const float x0 = x[y * wide + d], x1 = x[(y + 16) * wide + d];
        const float z0 = z[c * wide + d], z1 = z[(c + 16) * wide + d];
        product[0][0] += x0 * z0, product[0][1] += x0 * z1;
        product[1][0] += x1 * z0, product[1][1] += x1 * z1;
    }
}

static __device__ __forceinline__ float capped(const AttentionRule &rule, float score)
{
    return rule.softcap > 0 ? (float)rule.softcap * tanhf(score / (float)rule.softcap) : score;
}

/* How many positions a key is before a query; 0 without ALiBi */
static __device__ __forceinline__ float before(const AttentionRule &rule, const Tensor &key_distance_i,
                                               int64_t b, int64_t s, int64_t u)
{
    if (!rule.alibi) return 0;
    if (!present(key_distance_i)) return (float)(rule.q0 + s - rule.k0 - u);
    return (float)((const int32_t *)key_distance_i.data)[b * key_distance_i.stride[0] + u];
}

/* What one query has in shared memory. */
struct QueryFacts { KeySpan keys; float lse, delta; uint64_t dropout; };

/* The tiles of keys that any query of a tile sees: from `first`, a multiple of SIDE, to `end`. */
static __device__ KeySpan tiles_seen(int *part, KeySpan own)
{
    const int end   = block_max(part, own.end);
    const int first = -block_max(part, own.first < own.end ? -own.first : -INT32_MAX);
    return KeySpan{ end > 0 ? first / SIDE * SIDE : 0, end };
}

/* ---- forward: one thread block for each head of each tile of queries. Each of the 8 threads of a row has
 *      its largest score, its sum and every eighth channel of o, rescaled when a larger score is met. ---- */
template <typename T> __global__ void __launch_bounds__(GPU_THREADS)
attention_forward_kernel(AttentionForward a, const StepState *step_state)
{
    GPU_SHARED(float, prob, SIDE * (SIDE + 1));
    GPU_SHARED(int, part, GPU_MAX_WARPS);
    GPU_DYNAMIC(float, q_tile);
    const int64_t U = a.k.dim[1], S = a.q.dim[1], H = a.q.dim[2], b = blockIdx.x / H, h = blockIdx.x % H;
    const int64_t g = h / (H / a.k.dim[2]), s0 = (int64_t)blockIdx.y * SIDE;
    const int     D = (int)a.q.dim[3], E = (int)a.v.dim[3];
    const int     r = threadIdx.x / SHARERS, lane = threadIdx.x % SHARERS;
    const bool    real = s0 + r < S;
    const KeySpan own = real ? keys_of(a.rule, a.key_range_i, U, b, s0 + r) : KeySpan{ 0, 0 };
    const KeySpan all = tiles_seen(part, own);
    DropoutMask   mask = {};
    uint64_t      row = 0;
    float *keys = q_tile + SIDE * (D + 1), o[CHANNELS] = {}, max = -INFINITY, sum = 0;
    const float slope = slope_of(a.rule, h);
    if (a.rule.p > 0) mask = dropout_mask(step_state, a.rule.site, a.rule.p);
    if (a.rule.p > 0 && real) row = dropout_row(a.rule, a.sample_i, b, s0 + r, h);

    tile_read<T>(q_tile, a.q, b, s0, h, S);
    for (int64_t u0 = all.first; u0 < all.end; u0 += SIDE) {
        float score[2][2], shrink = 1, most = max, more = 0;
        __syncthreads();
        tile_read<T>(keys, a.k, b, u0, g, U);
        __syncthreads();
        tile_products(score, q_tile, keys, D);
        for (int i = 0; i < 4; i++)
            prob[(threadIdx.x / 16 + i / 2 * 16) * (SIDE + 1) + threadIdx.x % 16 + i % 2 * 16] =
                capped(a.rule, score[i / 2][i % 2] * (float)a.rule.scale);
        __syncthreads();
        tile_read<T>(keys, a.v, b, u0, g, U);
        float *p = prob + r * (SIDE + 1);
        for (int k = lane; k < SIDE; k += SHARERS)
            if (u0 + k >= own.first && u0 + k < own.end) {
                p[k] -= slope * before(a.rule, a.key_distance_i, b, s0 + r, u0 + k);
                most = larger(p[k], most);
            }
        most = lanes_max(most, SHARERS);
        for (int k = lane; k < SIDE; k += SHARERS) {
            const bool  seen = u0 + k >= own.first && u0 + k < own.end;
            const float e = seen ? expf(p[k] - most) : 0.0f;
            more += e;
            p[k] = seen && a.rule.p > 0 ? e * dropout_factor(mask, row + (uint64_t)(u0 + k)) : e;
        }
        if (most != -INFINITY) shrink = expf(max - most);
        sum = sum * shrink + lanes_sum(more, SHARERS);
        max = most;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < CHANNELS; i++) o[i] *= shrink;
        for (int k = 0; k < SIDE; k++) {
#pragma unroll
            for (int i = 0; i < CHANNELS; i++)
                if (lane + i * SHARERS < E) o[i] += p[k] * keys[k * (E + 1) + lane + i * SHARERS];
        }
    }
    if (!real) return;
#pragma unroll
    for (int i = 0; i < CHANNELS; i++)
        if (lane + i * SHARERS < E)
            store_as(a.o, b, s0 + r, h, lane + i * SHARERS, sum > 0 || sum != sum ? o[i] / sum : 0.0f);
    if (lane == 0) *gpu_row<float>(a.lse, b, s0 + r, h) = max == -INFINITY ? -INFINITY : max + logf(sum);
}

void tiled_forward(Queue *q, const AttentionForward *a)
{
    const int64_t B = a->q.dim[0], S = a->q.dim[1], H = a->q.dim[2], D = a->q.dim[3], E = a->v.dim[3];
    const dim3   grid(blocks_for(B * H, 1), blocks_for(S, SIDE));
    const size_t shared = (size_t)SIDE * (size_t)((D + 1) + (D > E ? D + 1 : E + 1)) * sizeof(float);
    by_vector(a->q.dtype, false, [&](auto zero, auto) {
        const auto attention_forward = attention_forward_kernel<decltype(zero)>;
        GPU_LAUNCH_SHARED(attention_forward, grid, GPU_THREADS, shared, gpu_stream_of(q), *a, q->step_state);
    });
}

/* ---- backward. prob = exp(score - lse),   dprob = dropout (do . v),   dscore = prob (dprob - delta)
 *      dv += dropout prob do,   dk += scale dscore q,   dq += scale dscore k
 *      One kernel has a tile of keys in each thread block and meets the queries, another the other way round,
 *      so that each sum is one thread's, in a fixed order. Both compute all scores. ---- */

/* Facts of a tile of queries; a query beyond S sees no key. */
static __device__ void facts_read(QueryFacts *facts, const AttentionBackward &a, int64_t b, int64_t s0,
                                  int64_t h)
{
    if (threadIdx.x >= SIDE) return;
    const int64_t s = s0 + threadIdx.x;
    QueryFacts f = {};
    if (s < a.q.dim[1]) {
        f.keys  = keys_of(a.rule, a.key_range_i, a.k.dim[1], b, s);
        f.lse   = *gpu_row<float>(a.lse, b, s, h);
        f.delta = *gpu_row<float>(a.delta, b, s, h);
        if (a.rule.p > 0) f.dropout = dropout_row(a.rule, a.sample_i, b, s, h);
    }
    facts[threadIdx.x] = f;
}

/* prob[q][k] = dropout prob and dscore[q][k] = scale dscore of a tile, from its rows in shared memory */
static __device__ void tile_gradients(float *prob, float *dscore, const AttentionBackward &a, int64_t h,
                                      int64_t s0,
                                      const DropoutMask &mask, const QueryFacts *facts,
                                      const float *q_tile, const float *k_tile,
                                      const float *do_tile, const float *v_tile, int64_t u0)
{
    const float slope = slope_of(a.rule, h);
    float score[2][2], dprob[2][2];
    tile_products(score, q_tile, k_tile, (int)a.q.dim[3]);
    tile_products(dprob, do_tile, v_tile, (int)a.v.dim[3]);
    for (int i = 0; i < 4; i++) {
        const int y = threadIdx.x / 16 + i / 2 * 16, c = threadIdx.x % 16 + i % 2 * 16;
        const QueryFacts &f = facts[y];
        const int64_t u = u0 + c;
        float p = 0, ds = 0, factor = 1;
        if (u >= f.keys.first && u < f.keys.end) {
            const float x = capped(a.rule, score[i / 2][i % 2] * (float)a.rule.scale);
            if (a.rule.p > 0) factor = dropout_factor(mask, f.dropout + (uint64_t)u);
            p  = expf(x - slope * before(a.rule, Tensor{}, 0, s0 + y, u) - f.lse);
            ds = (float)a.rule.scale * p * (factor * dprob[i / 2][i % 2] - f.delta);
            if (a.rule.softcap > 0) ds *= 1 - x / (float)a.rule.softcap * (x / (float)a.rule.softcap);
        }
        prob[y * (SIDE + 1) + c]   = factor * p;
        dscore[y * (SIDE + 1) + c] = ds;
    }
}

template <typename T> __global__ void __launch_bounds__(GPU_THREADS, 1)
attention_backward_keys_kernel(AttentionBackward a, const StepState *step_state)
{
    GPU_SHARED(float, prob, SIDE * (SIDE + 1));
    GPU_SHARED(float, dscore, SIDE * (SIDE + 1));
    GPU_SHARED(QueryFacts, facts, SIDE);
    GPU_DYNAMIC(float, k_tile);
    const int64_t S = a.q.dim[1], U = a.k.dim[1], G = a.k.dim[2], b = blockIdx.x / G, g = blockIdx.x % G;
    const int64_t sharing = a.q.dim[2] / G, u0 = (int64_t)blockIdx.y * SIDE;
    const int     D = (int)a.q.dim[3], E = (int)a.v.dim[3];
    const int     r = threadIdx.x / SHARERS, lane = threadIdx.x % SHARERS;
    float *v_tile = k_tile + SIDE * (D + 1), *q_tile = v_tile + SIDE * (E + 1);
    float *do_tile = q_tile + SIDE * (D + 1);
    float  dk[CHANNELS] = {}, dv[CHANNELS] = {};
    DropoutMask mask = {};
    if (a.rule.p > 0) mask = dropout_mask(step_state, a.rule.site, a.rule.p);
    /* without key ranges a query sees no later key */
    const int64_t causal = a.rule.k0 + u0 - a.rule.q0;
    const int64_t begin = present(a.key_range_i) || causal < 0 ? 0 : causal / SIDE * SIDE;

    tile_read<T>(k_tile, a.k, b, u0, g, U);
    tile_read<T>(v_tile, a.v, b, u0, g, U);
    for (int64_t h = g * sharing; h < (g + 1) * sharing; h++)
        for (int64_t s0 = begin; s0 < S; s0 += SIDE) {
            bool any = false;
            __syncthreads();
            facts_read(facts, a, b, s0, h);
            __syncthreads();
            for (int i = 0; i < SIDE; i++)
                any = any || (facts[i].keys.first < u0 + SIDE && facts[i].keys.end > u0);
            if (!any) continue;                        /* the same for all threads */
            tile_read<T>(q_tile, a.q, b, s0, h, S);
            tile_read<T>(do_tile, a.d_o, b, s0, h, S);
            __syncthreads();
            tile_gradients(prob, dscore, a, h, s0, mask, facts, q_tile, k_tile, do_tile, v_tile, u0);
            __syncthreads();
            for (int i = 0; i < SIDE; i++) {
                const float p = prob[i * (SIDE + 1) + r], ds = dscore[i * (SIDE + 1) + r];
#pragma unroll
                for (int c = 0; c < CHANNELS; c++) {
                    if (lane + c * SHARERS < E) dv[c] += p * do_tile[i * (E + 1) + lane + c * SHARERS];
                    if (lane + c * SHARERS < D) dk[c] += ds * q_tile[i * (D + 1) + lane + c * SHARERS];
                }
            }
        }
    if (u0 + r >= U) return;
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) {
        if (lane + c * SHARERS < E) add_as(a.dv, b, u0 + r, g, lane + c * SHARERS, dv[c]);
        if (lane + c * SHARERS < D) add_as(a.dk, b, u0 + r, g, lane + c * SHARERS, dk[c]);
    }
}

template <typename T> __global__ void __launch_bounds__(GPU_THREADS)
attention_backward_queries_kernel(AttentionBackward a, const StepState *step_state)
{
    GPU_SHARED(float, prob, SIDE * (SIDE + 1));
    GPU_SHARED(float, dscore, SIDE * (SIDE + 1));
    GPU_SHARED(QueryFacts, facts, SIDE);
    GPU_SHARED(int, part, GPU_MAX_WARPS);
    GPU_DYNAMIC(float, q_tile);
    const int64_t S = a.q.dim[1], U = a.k.dim[1], H = a.q.dim[2], b = blockIdx.x / H, h = blockIdx.x % H;
    const int64_t g = h / (H / a.k.dim[2]), s0 = (int64_t)blockIdx.y * SIDE;
    const int     D = (int)a.q.dim[3], E = (int)a.v.dim[3];
    const int     r = threadIdx.x / SHARERS, lane = threadIdx.x % SHARERS;
    float *do_tile = q_tile + SIDE * (D + 1), *k_tile = do_tile + SIDE * (E + 1);
    float *v_tile = k_tile + SIDE * (D + 1);
    float  dq[CHANNELS] = {};
    DropoutMask mask = {};
    if (a.rule.p > 0) mask = dropout_mask(step_state, a.rule.site, a.rule.p);

    facts_read(facts, a, b, s0, h);
    tile_read<T>(q_tile, a.q, b, s0, h, S);
    tile_read<T>(do_tile, a.d_o, b, s0, h, S);
    __syncthreads();
    const KeySpan all = tiles_seen(part, facts[r].keys);
    for (int64_t u0 = all.first; u0 < all.end; u0 += SIDE) {
        __syncthreads();
        tile_read<T>(k_tile, a.k, b, u0, g, U);
        tile_read<T>(v_tile, a.v, b, u0, g, U);
        __syncthreads();
        tile_gradients(prob, dscore, a, h, s0, mask, facts, q_tile, k_tile, do_tile, v_tile, u0);
        __syncthreads();
        for (int k = 0; k < SIDE; k++) {
            const float ds = dscore[r * (SIDE + 1) + k];
#pragma unroll
            for (int c = 0; c < CHANNELS; c++)
                if (lane + c * SHARERS < D) dq[c] += ds * k_tile[k * (D + 1) + lane + c * SHARERS];
        }
    }
    if (s0 + r >= S) return;
#pragma unroll
    for (int c = 0; c < CHANNELS; c++)
        if (lane + c * SHARERS < D) add_as(a.dq, b, s0 + r, h, lane + c * SHARERS, dq[c]);
}

void tiled_backward(Queue *q, const AttentionBackward *a)
{
    const int64_t B = a->q.dim[0], S = a->q.dim[1], H = a->q.dim[2], D = a->q.dim[3], E = a->v.dim[3];
    const int64_t U = a->k.dim[1], G = a->k.dim[2];
    const size_t shared = (size_t)(2 * SIDE * (D + 1 + E + 1)) * sizeof(float);
    by_vector(a->q.dtype, false, [&](auto zero, auto) {
        const auto backward_keys    = attention_backward_keys_kernel<decltype(zero)>;
        const auto backward_queries = attention_backward_queries_kernel<decltype(zero)>;
        const dim3 keys(blocks_for(B * G, 1), blocks_for(U, SIDE));
        const dim3 queries(blocks_for(B * H, 1), blocks_for(S, SIDE));
        GPU_LAUNCH_SHARED(backward_keys, keys, GPU_THREADS, shared, gpu_stream_of(q), *a, q->step_state);
        GPU_LAUNCH_SHARED(backward_queries, queries, GPU_THREADS, shared, gpu_stream_of(q), *a, q->step_state);
    });
}
