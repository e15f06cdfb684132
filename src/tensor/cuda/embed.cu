/*  T tokens   C channels   V rows of the table, which starts at vocabulary row `first`.
 *  Gradients of a row are added in the order of tokens, without atomics. First each token finds the next one
 *  of its id; then the first token of each id walks the chain and adds to its row.
 *  Cost: up to T^2 comparisons of ids (T = 32768: 2^30, by whole warps, from the cache), one read of dy, and
 *  the longest chain: a word that is 5 % of T is 0.05 T reads, one after another, in each of C threads. */
#include "tensor/cuda/block.h"

enum { TOKENS_EACH = 8 };                  /* tokens a block of warps links */

__device__ __forceinline__ int warp_min(int v)
{
    for (int mask = GPU_WARP / 2; mask > 0; mask /= 2) {
        const int other = gpu_shuffle_xor(v, mask);
        v = other < v ? other : v;
    }
    return v;
}

/* next[t] = the next token of the same id, or T;   head[t] = no token before t has its id:  a warp a token */
__global__ void __launch_bounds__(GPU_THREADS) embed_link_kernel(EmbedBackward a, int *next_T, int *head_T)
{
    const int  T = (int)a.dy_TC.dim[0], warps = GPU_THREADS / GPU_WARP, lane = threadIdx.x % GPU_WARP;
    const int *id = (const int *)a.id_i.data;
    for (int t = (int)blockIdx.x * warps + threadIdx.x / GPU_WARP; t < T; t += (int)gridDim.x * warps) {
        int next = t + 1 + lane, before = lane;
        while (next < T && id[next] != id[t]) next += GPU_WARP;
        while (before < t && id[before] != id[t]) before += GPU_WARP;
        next   = warp_min(next < T ? next : T);
        before = warp_min(before < t ? before : t);
        if (lane == 0) {
            next_T[t] = next;
            head_T[t] = before == t;
        }
    }
}

/* dtable[id] += dy of the chain's tokens:  a block a token and 256 channels; only heads stay */
__global__ void __launch_bounds__(GPU_THREADS)
embed_add_kernel(EmbedBackward a, const int *next_T, const int *head_T)
{
    const int64_t T = a.dy_TC.dim[0], C = a.dy_TC.dim[1], c = (int64_t)blockIdx.y * GPU_THREADS + threadIdx.x;
    const int64_t table_row = *gpu_row<int>(a.id_i, blockIdx.x) - a.first;
    if (!head_T[blockIdx.x] || table_row < 0 || table_row >= a.dtable_VC.dim[0] || c >= C) return;
    float *dtable = gpu_row<float>(a.dtable_VC, table_row) + c, sum = *dtable;
    for (int64_t t = blockIdx.x; t < T; t = next_T[t]) sum += gpu_row<float>(a.dy_TC, t)[c];
    *dtable = sum;
}

extern "C" void cuda_embed_backward(Queue *q, const EmbedBackward *a)
{
    const int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1], V = a->dtable_VC.dim[0];
    GPU_WANT(a->dtable_VC, F32, V, C);
    GPU_WANT(a->id_i, I32, T);
    GPU_WANT(a->dy_TC, F32, T, C);
    CHECK(T < INT32_MAX / 2, "%lld tokens in one embed_backward", (long long)T);
    if (T == 0) return;
    int *next = workspace_of<int>(q, 2 * T), *head = next + T;
    const dim3 grid(blocks_for(T, 1), blocks_for(C, GPU_THREADS));
    GPU_LAUNCH(embed_link_kernel, blocks_for(T, TOKENS_EACH), GPU_THREADS, gpu_stream_of(q), *a, next, head);
    GPU_LAUNCH(embed_add_kernel, grid, GPU_THREADS, gpu_stream_of(q), *a, next, head);
}
