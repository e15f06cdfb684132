#ifndef TENSOR_CUDA_UPDATE_H
#define TENSOR_CUDA_UPDATE_H
/* Elementwise updates of flat tensors: one kernel for the rules of all optimizers.
 *
 * A rule is a struct whose members are the numbers of a step in float. It has
 *     TENSORS, WRITTEN   how many tensors of N elements it takes, of which the first are stored. They are
 *                        F32, but where LAST_NARROW is set the last may be BF16 or F16; absent ones are zeros
 *     PARAM              what becomes of param, the copy of the weights in the parameters' type: none,
 *                        written, read and written
 *     ALWAYS             it also computes where the step is skipped
 *     CORRECTIONS        numbers in double that are too slow to be computed by each thread: correction(a,
 *                        state, k) for k = 0 ..; a thread of each block computes one
 *     Rule(a, state, corrections)
 *     float element(float (&x)[TENSORS + 1], int64_t i)    changes the elements number i of the tensors in x,
 *                        after which comes that of param where it is read; what it returns is stored there
 * All that a step changes is read from the StepState in device memory, so that a step can be replayed. */
#include "tensor/cuda/vector.h"
#include "tensor/step_state.h"

/* Enough blocks to fill a GPU; each thread strides over the elements (a grid-stride loop). In tests on the
 * CPU there are few, so that threads stride there too. */
#if defined(GPU_CPU)
constexpr int64_t MOST_BLOCKS = 6;
#else
constexpr int64_t MOST_BLOCKS = 2048;
#endif

static inline unsigned update_blocks(int64_t n, int each)
{
    const int64_t all = (n + (int64_t)GPU_THREADS * each - 1) / ((int64_t)GPU_THREADS * each);
    return (unsigned)(all < MOST_BLOCKS ? all : MOST_BLOCKS);
}

/* Stores four elements or one: by 16 bytes, or 8 of 16-bit types. */
template <typename T, int N> __device__ __forceinline__ void store_param(T *param, const float (&w)[N])
{
    if constexpr (N == 4 && sizeof(T) == 2) {
        const uint32_t low = pair_of<T>(w[0], w[1]), high = pair_of<T>(w[2], w[3]);
        *(uint64_t *)param = (uint64_t)high << 32 | low;
    } else {
        store(param, w);
    }
}

template <typename T, int N> __device__ __forceinline__ void load_param(float (&w)[N], const T *param)
{
    if constexpr (N == 4 && sizeof(T) == 2) {
        const uint64_t four = *(const uint64_t *)param;
        const uint32_t low = (uint32_t)four, high = (uint32_t)(four >> 32);
        w[0] = first_of<T>(low), w[1] = second_of<T>(low);
        w[2] = first_of<T>(high), w[3] = second_of<T>(high);
    } else {
        load(w, param);
    }
}

/* ---- rules ---- */
enum RuleParam { NO_PARAM, PARAM_WRITTEN, PARAM_CHANGED };
struct UpdateKind {
    static constexpr RuleParam PARAM = PARAM_WRITTEN;
    static constexpr bool LAST_NARROW = false, ALWAYS = false;
    static constexpr int  CORRECTIONS = 0;
};

/* The data of a rule's tensors, NULL where one is absent. */
template <int TENSORS> struct UpdateData { void *x[TENSORS], *param; int64_t count; };

/* 1 / (1 - beta^t) of the update that is made */
__device__ __forceinline__ double bias_correction(const StepState &s, double beta)
{
    return 1.0 / (1.0 - pow(beta, (double)(s.updates + 1)));
}

/* The step is skipped for all threads or none, so no barrier is left waiting. */
template <typename Rule, typename Op, typename P, typename X, int N>
__global__ void __launch_bounds__(GPU_THREADS)
update_kernel(Op a, UpdateData<Rule::TENSORS> data, const StepState *step_state)
{
    constexpr int TENSORS = Rule::TENSORS, LAST = TENSORS - 1;
    GPU_SHARED(double, correct, 2);
    if (!Rule::ALWAYS && step_state->skip) return;
    if constexpr (Rule::CORRECTIONS > 0) {
        if (threadIdx.x < Rule::CORRECTIONS)
            correct[threadIdx.x] = Rule::correction(a, *step_state, (int)threadIdx.x);
        __syncthreads();
    }
    const Rule rule(a, *step_state, correct);
    const int64_t step = (int64_t)gridDim.x * GPU_THREADS * N;
    for (int64_t i = ((int64_t)blockIdx.x * GPU_THREADS + threadIdx.x) * N; i < data.count; i += step) {
        float x[TENSORS][N] = {}, param[N] = {};
#pragma unroll
        for (int t = 0; t < LAST; t++)
            if (data.x[t]) load(x[t], (const float *)data.x[t] + i);
        if (data.x[LAST]) load_param(x[LAST], (const X *)data.x[LAST] + i);
        if (Rule::PARAM == PARAM_CHANGED) load_param(param, (const P *)data.param + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            float one[TENSORS + 1];
#pragma unroll
            for (int t = 0; t < TENSORS; t++) one[t] = x[t][k];
            one[TENSORS] = param[k];
            param[k] = rule.element(one, i + k);
#pragma unroll
            for (int t = 0; t < Rule::WRITTEN; t++) x[t][k] = one[t];
        }
#pragma unroll
        for (int t = 0; t < Rule::WRITTEN; t++)
            if (data.x[t]) store((float *)data.x[t] + i, x[t]);
        if (Rule::PARAM != NO_PARAM && data.param) store_param((P *)data.param + i, param);
    }
}

/* ---- host ---- */
static inline bool wide_flat(const Tensor &x, int64_t n)
{
    return !tensor_present(x) || (n % 4 == 0 && (uintptr_t)x.data % (4 * dtype_width(x.dtype)) == 0);
}

/* Calls f with the type of param (of w where it is absent) and the elements that a thread takes at once. */
template <typename F> static void by_param(const Tensor &param_N, bool wide, F f)
{
    by_type(tensor_present(param_N) ? param_N.dtype : F32, [&](auto zero) {
        if (wide) f(zero, Width<4>());
        else      f(zero, Width<1>());
    });
}

static inline void check_param(const Tensor &param_N, int64_t N)
{
    if (!tensor_present(param_N)) return;
    GPU_WANT(param_N, param_N.dtype, N);
}

/* A tensor of an update and its name in messages. An update takes as many as its rule has TENSORS. */
struct UpdateTensor { const char *name; Tensor x; bool optional; };
#define FLAT(tensor) (UpdateTensor{ #tensor, tensor, false })
#define FLAT_OR_NONE(tensor) (UpdateTensor{ #tensor, tensor, true })

/* Enqueues a rule for flat tensors of `count` elements. */
template <typename Rule, typename Op>
static void update(Queue *q, const Op &a, int64_t count, const UpdateTensor (&tensor)[Rule::TENSORS],
                   const Tensor &param_N)
{
    constexpr int LAST = Rule::TENSORS - 1;
    UpdateData<Rule::TENSORS> data = { {}, param_N.data, count };
    bool wide = wide_flat(param_N, count);
    for (int t = 0; t < Rule::TENSORS; t++) {
        const Tensor &x = tensor[t].x;
        if (tensor[t].optional && !tensor_present(x)) continue;
        gpu_want(tensor[t].name, x, Rule::LAST_NARROW && t == LAST ? x.dtype : F32, count);
        data.x[t] = x.data;
        wide = wide && wide_flat(x, count);
    }
    check_param(param_N, count);
    if (!tensor_present(param_N)) data.param = nullptr;
    if (count == 0) return;
    const auto launch = [&](auto param, auto last, auto n) {
        using P = decltype(param);
        using X = decltype(last);
        constexpr int N = n;
        GPU_LAUNCH((update_kernel<Rule, Op, P, X, N>), update_blocks(count, N), GPU_THREADS, gpu_stream_of(q), a,
                   data, (const StepState *)q->step_state);
    };
    by_param(Rule::PARAM == NO_PARAM ? tensor_none() : param_N, wide, [&](auto param, auto n) {
        if constexpr (Rule::LAST_NARROW) {
            by_type(tensor[LAST].x.dtype, [&](auto last) { launch(param, last, n); });
        } else {
            launch(param, 0.0f, n);
        }
    });
}
#endif
