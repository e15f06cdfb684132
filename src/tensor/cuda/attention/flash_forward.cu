/* The forward pass of flash attention (flash.h): a block has 64 MS queries of one head, and meets the tiles
 * of N keys that any of them sees. Scores are held in units of log 2, so that exp is one instruction. */
#include "tensor/cuda/attention/flash.h"

#ifdef GPU_HAS_MMA
/* One row of scores in a thread: 2 of every 8 of the tile's N. `most` and `sum` are those of the row so far.
 * Scores become exp(score - most), and the factor for what was summed before is returned. */
template <int N>
static __device__ __forceinline__ float softmax_row(float (&x)[N / 8][4], int r, float scale, float &most,
                                                    float &sum)
{
    float now = most, more = 0;
#pragma unroll
    for (int n = 0; n < N / 8; n++) now = larger(now, larger(x[n][2 * r], x[n][2 * r + 1]));
    now = lanes_max(now, 4);
    const float base = now == -INFINITY ? 0.0f : now * scale, shrink = gpu_exp2(most * scale - base);
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; e++) {
            x[n][e] = gpu_exp2(x[n][e] * scale - base);
            more += x[n][e];
        }
    most = now;
    sum  = sum * shrink + more;
    return shrink;
}

/* Soft-cap and masks of the 16 x N scores of tile m of a warp; `inside`: all its rows see all keys. */
template <int MS, int N, bool EXTRAS>
static __device__ __forceinline__ void mask_scores(float (&x)[N / 8][4], const AttentionRule &rule,
                                                   const KeySpan (&own)[2], int u0, bool inside)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int u = u0 + 8 * n + lane_of() % 4 * 2 + i % 2;
            float slope;
            if (EXTRAS && rule.softcap > 0) x[n][i] = soft_capped(rule, x[n][i], &slope);
            if (!inside && (u < own[i / 2].first || u >= own[i / 2].end)) x[n][i] = -INFINITY;
        }
}

/* Dropout of one row of probabilities */
template <int N>
static __device__ __forceinline__ void drop_row(float (&x)[N / 8][4], int r, const DropoutMask &mask,
                                                uint32_t kept)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; e++) x[n][e] *= factor_of(kept, n, e, mask);
}

template <typename T, int D, int MS>
static __device__ __forceinline__ void write_rows(const AttentionForward &a, int64_t b, int64_t s0, int row,
                                                  int64_t h, const float (&o)[MS][D / 8][4],
                                                  const float (&most)[MS][2], const float (&sum)[MS][2],
                                                  float scale)
{
    const int lane = lane_of();
#pragma unroll
    for (int m = 0; m < MS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t s = s0 + row + 16 * m + 8 * r + lane / 4;
            const float   all = lanes_sum(sum[m][r], 4), share = all == 0 ? 0.0f : 1.0f / all;
            if (s >= a.q.dim[1]) continue;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                const int c = 8 * n + lane % 4 * 2;
                if (c < a.o.dim[3])
                    store_pair<T>(a.o, b, s, h, c, o[m][n][2 * r] * share, o[m][n][2 * r + 1] * share);
            }
            if (lane % 4 == 0)
                *gpu_row<float>(a.lse, b, s, h) =
                    all == 0 ? -INFINITY : most[m][r] * scale * LN_2 + logf(all);
        }
}

/* EXTRAS: with a soft-cap or dropout */
template <typename T, int D, int MS, int N, bool EXTRAS> __global__ void __launch_bounds__(FLASH_THREADS)
flash_forward_kernel(AttentionForward a, const StepState *step_state)
{
    GPU_SHARED(int, part, GPU_MAX_WARPS);
    GPU_DYNAMIC(T, q_tile);
    constexpr int TILE = N * FLASH_ROW<D>;
    T *k_tiles = q_tile + 64 * MS * FLASH_ROW<D>, *v_tiles = k_tiles + 2 * TILE;
    const int64_t U = a.k.dim[1], H = a.q.dim[2], b = blockIdx.x / H, h = blockIdx.x % H;
    /* the tiles that meet the most keys first */
    const int64_t g = h / (H / a.k.dim[2]), s0 = (int64_t)(gridDim.y - 1 - blockIdx.y) * 64 * MS;
    const int     row = (int)threadIdx.x / 32 * 16 * MS;
    const T      *k = gpu_row<T>(a.k, b, 0, g), *v = gpu_row<T>(a.v, b, 0, g);
    const float   scale = EXTRAS && a.rule.softcap > 0 ? 1.0f : (float)a.rule.scale * LOG2_E;
    float         o[MS][D / 8][4], most[MS][2], sum[MS][2];
    TileKeys<MS>  keys;
    DropoutMask   mask = {};
    if (EXTRAS && a.rule.p > 0) mask = dropout_mask(step_state, a.rule.site, a.rule.p);
    tile_keys<MS>(&keys, part, a, b, s0, row, h);
    flash_zero(o);
#pragma unroll
    for (int m = 0; m < MS; m++) most[m][0] = most[m][1] = -INFINITY, sum[m][0] = sum[m][1] = 0;

    flash_copy<64 * MS, D>(q_tile, a.q, gpu_row<T>(a.q, b, s0, h), a.q.dim[1] - s0);
    const auto copy = [&](int u0, int to) {
        if (u0 < keys.seen.end) {
            flash_copy<N, D>(k_tiles + to * TILE, a.k, k + u0 * a.k.stride[1], U - u0);
            flash_copy<N, D>(v_tiles + to * TILE, a.v, v + u0 * a.v.stride[1], U - u0);
        }
        async_commit();
    };
    copy(keys.seen.first / N * N, 0);
    for (int u0 = keys.seen.first / N * N, now = 0; u0 < keys.seen.end; u0 += N, now = 1 - now) {
        const bool inside = u0 >= keys.all.first && u0 + N <= keys.all.end;
        float x[MS][N / 8][4];
        async_wait<0>();
        __syncthreads();                   /* the tile is there, and all have done with the other one */
        copy(u0 + N, 1 - now);
        if (!touches(keys.warp, u0, u0 + N)) continue;
        flash_scores<D, MS, N>(x, q_tile, row, k_tiles + now * TILE);
#pragma unroll
        for (int m = 0; m < MS; m++) {
            const uint32_t kept = EXTRAS && a.rule.p > 0 ? kept_of<N>(mask, keys.dropout[m], u0) : 0;
            mask_scores<MS, N, EXTRAS>(x[m], a.rule, keys.own[m], u0, inside);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float shrink = softmax_row<N>(x[m], r, scale, most[m][r], sum[m][r]);
#pragma unroll
                for (int n = 0; n < D / 8; n++) o[m][n][2 * r] *= shrink, o[m][n][2 * r + 1] *= shrink;
                if (EXTRAS && a.rule.p > 0) drop_row<N>(x[m], r, mask, kept);
            }
        }
        flash_apply<D, MS, N>(o, x, v_tiles + now * TILE);
    }
    write_rows<T, D, MS>(a, b, s0, row, h, o, most, sum, scale);
}

template <typename T, int D, int MS, int N, bool EXTRAS>
static void launch_forward(Queue *q, const AttentionForward *a)
{
    const size_t bytes = (size_t)(64 * MS + 4 * N) * FLASH_ROW<D> * sizeof(T);
    const auto   flash_forward = flash_forward_kernel<T, D, MS, N, EXTRAS>;
    const dim3   grid(blocks_for(a->q.dim[0] * a->q.dim[2], 1), blocks_for(a->q.dim[1], 64 * MS));
    GPU_LAUNCH_SHARED(flash_forward, grid, FLASH_THREADS, bytes, gpu_stream_of(q), *a, q->step_state);
}

/* Registers are short with a soft-cap or dropout, so tiles are smaller. */
template <typename T, int D, int MS, int N> static void by_extras_forward(Queue *q, const AttentionForward *a)
{
    if (a->rule.softcap > 0 || a->rule.p > 0) launch_forward<T, D, 1, 32, true>(q, a);
    else                                      launch_forward<T, D, MS, N, false>(q, a);
}

template <typename T> static void by_width_forward(Queue *q, const AttentionForward *a)
{
    const int64_t D = a->q.dim[3] > a->v.dim[3] ? a->q.dim[3] : a->v.dim[3];
    if (D <= 32)       by_extras_forward<T, 32, 2, 64>(q, a);
    else if (D <= 64)  by_extras_forward<T, 64, 2, 64>(q, a);
    else if (D <= 128) by_extras_forward<T, 128, 1, 32>(q, a);
    else               by_extras_forward<T, 256, 1, 32>(q, a);
}
#endif

const char *flash_refuses_forward(const AttentionForward *a)
{
#ifdef GPU_HAS_MMA
    const int64_t D = a->q.dim[3], E = a->v.dim[3];
    return flash_refuses(a->q, a->v, a->rule, 256, "heads of more than 256 channels have no kernel",
                         all_rows_aligned(D, a->q, a->k) && all_rows_aligned(E, a->v, a->o));
#else
    (void)a;
    return "attention is not computed by matrix cores on this kind of GPU";
#endif
}

void flash_forward(Queue *q, const AttentionForward *a)
{
#ifdef GPU_HAS_MMA
    if (a->q.dtype == BF16) by_width_forward<Bf16>(q, a);
    else                    by_width_forward<Fp16>(q, a);
#else
    (void)q, (void)a;
#endif
}
