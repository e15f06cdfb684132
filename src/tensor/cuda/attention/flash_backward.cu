/* The backward pass of flash attention (flash.h). prob = exp(score - lse),   dprob = dropout (do . v), dscore
 * = prob (dprob - delta);   dv += dropout prob do,   dk += scale dscore q,   dq += scale dscore k One kernel
 * has a tile of keys in each block and meets the queries, another the other way round, so that each sum is
 * one block's, in a fixed order. Both compute all scores. */
#include "tensor/cuda/attention/flash.h"

#ifdef GPU_HAS_MMA
/* prob and dscore / scale from a score and its dprob, which they replace. `lse` is in units of log 2. */
template <bool EXTRAS>
static __device__ __forceinline__ void gradients(float &x, float &y, const AttentionRule &rule, float scale,
                                                 float lse, float delta, bool seen, float factor)
{
    float slope = 1;
    if (EXTRAS && rule.softcap > 0) x = soft_capped(rule, x, &slope);
    const float prob = seen ? gpu_exp2(x * scale - lse) : 0.0f;
    x = EXTRAS ? factor * prob : prob;
    y = prob * ((EXTRAS ? factor * y : y) - delta);
    if (EXTRAS) y *= slope;
}

/* Scores of softcap have their unit already. */
template <bool EXTRAS> static __device__ __forceinline__ float scale_of(const AttentionRule &rule)
{
    return EXTRAS && rule.softcap > 0 ? 1.0f : (float)rule.scale * LOG2_E;
}

/* ---- a tile of keys: scores are [keys, queries] ---- */

/* What the queries of a tile have in shared memory, twice: of the present tile and of the next. The mask is
 * there since registers are short. */
template <int N> struct Facts {
    DropoutMask mask;
    float    lse[2][N], delta[2][N];
    KeySpan  keys[2][N], all[2][N / 32], any[2][N / 32];   /* keys that all of 32 queries see, or any */
    uint64_t dropout[2][N];
};

/* Thread i of N begins to copy lse and delta of query s0 + i, or writes which keys it sees. */
template <int N>
static __device__ __forceinline__ void facts_copy(Facts<N> *facts, int to, const AttentionBackward &a,
                                                  int64_t b, int s0, int h)
{
    const int  i = (int)threadIdx.x, s = s0 + i;
    const bool there = s < (int)a.q.dim[1];
    if (i >= N) return;
    async_copy<4>(&facts->lse[to][i], gpu_row<float>(a.lse, b, s, h), there);
    async_copy<4>(&facts->delta[to][i], gpu_row<float>(a.delta, b, s, h), there);
}

template <bool EXTRAS, int N>
static __device__ __forceinline__ void facts_write(Facts<N> *facts, int to, const AttentionBackward &a,
                                                   int64_t b, int s0, int h)
{
    const int  i = (int)threadIdx.x, s = s0 + i;
    const bool there = s < (int)a.q.dim[1];
    if (i >= N) return;
    const KeySpan keys = there ? keys_of(a.rule, a.key_range_i, a.k.dim[1], b, s) : KeySpan{ 0, 0 };
    const KeySpan all = KeySpan{ lanes_max(keys.first, 32), -lanes_max(-keys.end, 32) };
    facts->keys[to][i]    = keys;
    if (EXTRAS && a.rule.p > 0) facts->dropout[to][i] = there ? dropout_row(a.rule, a.sample_i, b, s, h) : 0;
    const KeySpan any = KeySpan{ -lanes_max(keys.first < keys.end ? -keys.first : -INT32_MAX, 32),
                                 lanes_max(keys.end, 32) };
    if (i % 32 == 0) facts->all[to][i / 32] = all, facts->any[to][i / 32] = any;
}

/* From the first query to the last that see a key of u0 .. u1 - 1 */
static __device__ KeySpan queries_seeing(int *part, const AttentionBackward &a, int64_t b, int u0, int u1)
{
    int first = INT32_MAX, end = 0;
    for (int s = (int)threadIdx.x; s < (int)a.q.dim[1]; s += FLASH_THREADS) {
        const KeySpan keys = keys_of(a.rule, a.key_range_i, a.k.dim[1], b, s);
        if (keys.first < keys.end && keys.first < u1 && keys.end > u0) first = smaller(first, s), end = s + 1;
    }
    end   = block_max(part, end);
    first = -block_max(part, -first);
    return end > 0 ? KeySpan{ first, end } : KeySpan{ 0, 0 };
}

/* Bits of the elements of 16 keys from u on and the N queries of a tile */
template <int N>
static __device__ __forceinline__ uint32_t kept_across(const Facts<N> *facts, int now, int u)
{
    const DropoutMask mask = facts->mask;
    uint32_t kept = 0;
#pragma unroll 1
    for (int k = 0; k < N / 2; k++) {
        const uint64_t first = facts->dropout[now][k / 4 * 8 + lane_of() % 4 * 2 + k % 2];
        const uint64_t index = first + (uint64_t)(u + k % 4 / 2 * 8 + lane_of() / 4);
        kept |= (uint32_t)(gpu_random_bits(mask.key, index) >= mask.threshold) << k;
    }
    return kept;
}

/* x: products of keys and queries, y: of values and do; they become probabilities and dscores */
template <int MS, int N, bool EXTRAS>
static __device__ __forceinline__ void keys_gradients(float (&x)[MS][N / 8][4], float (&y)[MS][N / 8][4],
                                                      const AttentionRule &rule, const Facts<N> *facts,
                                                      int now, int u0)
{
    const int   lane = lane_of();
    const float scale = scale_of<EXTRAS>(rule);
    uint32_t    kept[MS] = {};
#pragma unroll
    for (int m = 0; m < MS; m++)
        if (EXTRAS && rule.p > 0) kept[m] = kept_across(facts, now, u0 + 16 * m);
#pragma unroll
    for (int n = 0; n < N / 8; n++) {
        const int     c = 8 * n + lane % 4 * 2;
        const float2  lse = *(const float2 *)&facts->lse[now][c];
        const float2  delta = *(const float2 *)&facts->delta[now][c];
        const KeySpan all = facts->all[now][n / 4];
        const bool    inside = u0 >= all.first && u0 + 16 * MS <= all.end;
        KeySpan keys[2] = { { 0, INT32_MAX }, { 0, INT32_MAX } };
        if (!inside) keys[0] = facts->keys[now][c], keys[1] = facts->keys[now][c + 1];
#pragma unroll
        for (int m = 0; m < MS; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int  u = u0 + 16 * m + i / 2 * 8 + lane / 4, e = i % 2;
                const bool seen = u >= keys[e].first && u < keys[e].end;
                gradients<EXTRAS>(x[m][n][i], y[m][n][i], rule, scale, LOG2_E * (e ? lse.y : lse.x),
                                  e ? delta.y : delta.x, seen,
                                  EXTRAS && rule.p > 0 ? factor_of(kept[m], n, i, facts->mask) : 1.0f);
            }
    }
}

template <typename T, int D, int MS, int N, bool EXTRAS> __global__ void __launch_bounds__(FLASH_THREADS)
flash_backward_keys_kernel(AttentionBackward a, const StepState *step_state)
{
    GPU_SHARED(int, part, GPU_MAX_WARPS);
    GPU_SHARED(Facts<N>, facts, 1);
    GPU_DYNAMIC(T, k_tile);
    constexpr int TILE = N * FLASH_ROW<D>;
    T *v_tile = k_tile + 64 * MS * FLASH_ROW<D>, *q_tiles = v_tile + 64 * MS * FLASH_ROW<D>;
    T *do_tiles = q_tiles + 2 * TILE;
    const int64_t G = a.k.dim[2], b = blockIdx.x / G, g = blockIdx.x % G, sharing = a.q.dim[2] / G;
    const int     u0 = (int)blockIdx.y * 64 * MS, row = (int)threadIdx.x / 32 * 16 * MS;
    if (EXTRAS && a.rule.p > 0 && threadIdx.x == 0)
        facts->mask = dropout_mask(step_state, a.rule.site, a.rule.p);
    const KeySpan seeing = queries_seeing(part, a, b, u0, u0 + 64 * MS);
    const int     begin = seeing.first / N * N, end_h = seeing.end > 0 ? (int)((g + 1) * sharing) : 0;
    float         dk[MS][D / 8][4], dv[MS][D / 8][4];
    flash_zero(dk);
    flash_zero(dv);

    const auto copy = [&](int h, int s0, int to) {
        if (h < end_h) {
            const int64_t there = a.q.dim[1] - s0;
            flash_copy<N, D>(q_tiles + to * TILE, a.q, gpu_row<T>(a.q, b, s0, h), there);
            flash_copy<N, D>(do_tiles + to * TILE, a.d_o, gpu_row<T>(a.d_o, b, s0, h), there);
            facts_copy(facts, to, a, b, s0, h);
        }
        async_commit();
    };
    int h = (int)(g * sharing), s0 = begin;
    flash_copy<64 * MS, D>(k_tile, a.k, gpu_row<T>(a.k, b, u0, g), a.k.dim[1] - u0);
    flash_copy<64 * MS, D>(v_tile, a.v, gpu_row<T>(a.v, b, u0, g), a.k.dim[1] - u0);
    copy(h, s0, 0);
    if (h < end_h) facts_write<EXTRAS>(facts, 0, a, b, s0, h);
    for (int now = 0; h < end_h; now = 1 - now) {
        float x[MS][N / 8][4], y[MS][N / 8][4];
        s0 += N;                           /* the next tile, of this head or another with these keys */
        if (s0 >= seeing.end) s0 = begin, h++;
        async_wait<0>();
        __syncthreads();                   /* the tile is there, and all have done with the other one */
        copy(h, s0, 1 - now);
        bool any = false;
#pragma unroll
        for (int n = 0; n < N / 32; n++)
            any = any || touches(facts->any[now][n], u0 + row, u0 + row + 16 * MS);
        if (any) {
            flash_scores<D, MS, N>(x, k_tile, row, q_tiles + now * TILE);
            flash_scores<D, MS, N>(y, v_tile, row, do_tiles + now * TILE);
            keys_gradients<MS, N, EXTRAS>(x, y, a.rule, facts, now, u0 + row);
            flash_apply<D, MS, N>(dv, x, do_tiles + now * TILE);
            flash_apply<D, MS, N>(dk, y, q_tiles + now * TILE);
        }
        if (h < end_h) facts_write<EXTRAS>(facts, 1 - now, a, b, s0, h);
    }
    async_wait<0>();
    add_rows<T, D, MS>(a.dv, b, u0, row, g, dv, 1);
    add_rows<T, D, MS>(a.dk, b, u0, row, g, dk, (float)a.rule.scale);
}

/* ---- a tile of queries ---- */
template <int MS, int N, bool EXTRAS>
static __device__ __forceinline__ void queries_gradients(float (&x)[MS][N / 8][4], float (&y)[MS][N / 8][4],
                                                         const AttentionRule &rule, const DropoutMask &mask,
                                                         const TileKeys<MS> &keys, const float (&lse)[MS][2],
                                                         const float (&delta)[MS][2], int u0)
{
    const bool  inside = u0 >= keys.all.first && u0 + N <= keys.all.end;
    const float scale = scale_of<EXTRAS>(rule);
#pragma unroll
    for (int m = 0; m < MS; m++) {
        const uint32_t kept = EXTRAS && rule.p > 0 ? kept_of<N>(mask, keys.dropout[m], u0) : 0;
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int  u = u0 + 8 * n + lane_of() % 4 * 2 + i % 2, r = i / 2;
                const bool seen = inside || (u >= keys.own[m][r].first && u < keys.own[m][r].end);
                gradients<EXTRAS>(x[m][n][i], y[m][n][i], rule, scale, lse[m][r], delta[m][r], seen,
                                  EXTRAS && rule.p > 0 ? factor_of(kept, n, i, mask) : 1.0f);
            }
    }
}

template <typename T, int D, int MS, int N, bool EXTRAS> __global__ void __launch_bounds__(FLASH_THREADS)
flash_backward_queries_kernel(AttentionBackward a, const StepState *step_state)
{
    GPU_SHARED(int, part, GPU_MAX_WARPS);
    GPU_DYNAMIC(T, q_tile);
    constexpr int TILE = N * FLASH_ROW<D>;
    T *do_tile = q_tile + 64 * MS * FLASH_ROW<D>, *k_tiles = do_tile + 64 * MS * FLASH_ROW<D>;
    T *v_tiles = k_tiles + 2 * TILE;
    const int64_t S = a.q.dim[1], U = a.k.dim[1], H = a.q.dim[2], b = blockIdx.x / H, h = blockIdx.x % H;
    const int64_t g = h / (H / a.k.dim[2]), s0 = (int64_t)(gridDim.y - 1 - blockIdx.y) * 64 * MS;
    const int     row = (int)threadIdx.x / 32 * 16 * MS;
    const T      *k = gpu_row<T>(a.k, b, 0, g), *v = gpu_row<T>(a.v, b, 0, g);
    float         dq[MS][D / 8][4], lse[MS][2], delta[MS][2];
    TileKeys<MS>  keys;
    DropoutMask   mask = {};
    if (EXTRAS && a.rule.p > 0) mask = dropout_mask(step_state, a.rule.site, a.rule.p);
    tile_keys<MS>(&keys, part, a, b, s0, row, h);
    flash_zero(dq);
#pragma unroll
    for (int m = 0; m < MS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t s = s0 + row + 16 * m + 8 * r + lane_of() / 4;
            lse[m][r]   = s < S ? *gpu_row<float>(a.lse, b, s, h) * LOG2_E : 0.0f;
            delta[m][r] = s < S ? *gpu_row<float>(a.delta, b, s, h) : 0.0f;
        }

    flash_copy<64 * MS, D>(q_tile, a.q, gpu_row<T>(a.q, b, s0, h), S - s0);
    flash_copy<64 * MS, D>(do_tile, a.d_o, gpu_row<T>(a.d_o, b, s0, h), S - s0);
    const auto copy = [&](int u0, int to) {
        if (u0 < keys.seen.end) {
            flash_copy<N, D>(k_tiles + to * TILE, a.k, k + u0 * a.k.stride[1], U - u0);
            flash_copy<N, D>(v_tiles + to * TILE, a.v, v + u0 * a.v.stride[1], U - u0);
        }
        async_commit();
    };
    copy(keys.seen.first / N * N, 0);
    for (int u0 = keys.seen.first / N * N, now = 0; u0 < keys.seen.end; u0 += N, now = 1 - now) {
        float x[MS][N / 8][4], y[MS][N / 8][4];
        async_wait<0>();
        __syncthreads();
        copy(u0 + N, 1 - now);
        if (!touches(keys.warp, u0, u0 + N)) continue;
        flash_scores<D, MS, N>(x, q_tile, row, k_tiles + now * TILE);
        flash_scores<D, MS, N>(y, do_tile, row, v_tiles + now * TILE);
        queries_gradients<MS, N, EXTRAS>(x, y, a.rule, mask, keys, lse, delta, u0);
        flash_apply<D, MS, N>(dq, y, k_tiles + now * TILE);
    }
    async_wait<0>();
    add_rows<T, D, MS>(a.dq, b, s0, row, h, dq, (float)a.rule.scale);
}

/* ---- launches ---- */
template <typename T, int D, int MS, int N, bool EXTRAS>
static void launch_keys(Queue *q, const AttentionBackward *a)
{
    const size_t bytes = (size_t)(2 * 64 * MS + 4 * N) * FLASH_ROW<D> * sizeof(T);
    const auto   backward_keys = flash_backward_keys_kernel<T, D, MS, N, EXTRAS>;
    const dim3   grid(blocks_for(a->q.dim[0] * a->k.dim[2], 1), blocks_for(a->k.dim[1], 64 * MS));
    GPU_LAUNCH_SHARED(backward_keys, grid, FLASH_THREADS, bytes, gpu_stream_of(q), *a, q->step_state);
}

template <typename T, int D, int MS, int N, bool EXTRAS>
static void launch_queries(Queue *q, const AttentionBackward *a)
{
    const size_t bytes = (size_t)(2 * 64 * MS + 4 * N) * FLASH_ROW<D> * sizeof(T);
    const auto   backward_queries = flash_backward_queries_kernel<T, D, MS, N, EXTRAS>;
    const dim3   grid(blocks_for(a->q.dim[0] * a->q.dim[2], 1), blocks_for(a->q.dim[1], 64 * MS));
    GPU_LAUNCH_SHARED(backward_queries, grid, FLASH_THREADS, bytes, gpu_stream_of(q), *a, q->step_state);
}

/* Measured on an H100: larger tiles leave registers for too few blocks. */
template <typename T, int D> static void launch_backward(Queue *q, const AttentionBackward *a)
{
    if (a->rule.softcap > 0 || a->rule.p > 0) {
        launch_keys<T, D, 1, 32, true>(q, a);
        launch_queries<T, D, 1, 32, true>(q, a);
    } else {
        launch_keys<T, D, 1, 32, false>(q, a);
        launch_queries<T, D, 1, 32, false>(q, a);
    }
}

template <typename T> static void by_width_backward(Queue *q, const AttentionBackward *a)
{
    const int64_t D = a->q.dim[3] > a->v.dim[3] ? a->q.dim[3] : a->v.dim[3];
    if (D <= 32)      launch_backward<T, 32>(q, a);
    else if (D <= 64) launch_backward<T, 64>(q, a);
    else              launch_backward<T, 128>(q, a);
}
#endif

const char *flash_refuses_backward(const AttentionBackward *a)
{
#ifdef GPU_HAS_MMA
    const int64_t D = a->q.dim[3], E = a->v.dim[3];
    return flash_refuses(a->q, a->v, a->rule, 128, "the backward pass of heads with more than 128 channels "
                         "is not computed by tensor cores; with up to 128 it is",
                         all_rows_aligned(D, a->q, a->k, a->dq, a->dk) &&
                         all_rows_aligned(E, a->v, a->d_o, a->dv));
#else
    (void)a;
    return "attention is not computed by matrix cores on this kind of GPU";
#endif
}

void flash_backward(Queue *q, const AttentionBackward *a)
{
#ifdef GPU_HAS_MMA
    if (a->q.dtype == BF16) by_width_backward<Bf16>(q, a);
    else                    by_width_backward<Fp16>(q, a);
#else
    (void)q, (void)a;
#endif
}
