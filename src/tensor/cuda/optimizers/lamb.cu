/* LAMB and Muon on a GPU: directions, and steps whose length is a number of the whole tensor, which Adafactor
 * takes too.
 * N elements of a flat parameter block */
#include "tensor/cuda/update.h"

/* ---- directions ---- */
/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g
 * g = mhat / (sqrt(vhat) + epsilon) + decay w */
struct LambRule : UpdateKind {
    enum { G, M, V, W, TENSORS, WRITTEN = W };
    static constexpr RuleParam PARAM = NO_PARAM;
    static constexpr int CORRECTIONS = 2;
    float factor, beta1, rest1, beta2, rest2, epsilon, decay, unbias1, unbias2;

    static __device__ double correction(const LambDirection &a, const StepState &s, int k)
    {
        return bias_correction(s, k ? a.beta2 : a.beta1);
    }
    __device__ LambRule(const LambDirection &a, const StepState &s, const double *correct)
        : factor((float)s.factor), beta1((float)a.beta1), rest1((float)(1 - a.beta1)), beta2((float)a.beta2),
          rest2((float)(1 - a.beta2)),
          epsilon((float)(a.late_correction ? a.epsilon * sqrt(correct[1]) : a.epsilon)),
          decay((float)(a.decay * s.weight_decay)), unbias1((float)correct[0]), unbias2((float)correct[1]) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const      /* an absent w is 0 */
    {
        const float scaled = x[G] * factor;
        x[M] = beta1 * x[M] + rest1 * scaled;
        x[V] = beta2 * x[V] + rest2 * scaled * scaled;
        return x[G] = x[M] * unbias1 / (sqrtf(x[V] * unbias2) + epsilon) + decay * x[W];
    }
};

extern "C" void cuda_lamb_direction(Queue *q, const LambDirection *a)
{
    update<LambRule>(q, *a, a->g_N.dim[0],
                     { FLAT(a->g_N), FLAT(a->m_N), FLAT(a->v_N), FLAT_OR_NONE(a->w_N) }, tensor_none());
}

/* m = momentum m + (1 - momentum) g,   g = m  or  momentum m + (1 - momentum) g */
struct MuonRule : UpdateKind {
    enum { G, M, TENSORS, WRITTEN = TENSORS };
    static constexpr RuleParam PARAM = NO_PARAM;
    float factor, momentum, rest;
    bool  nesterov;

    __device__ MuonRule(const MuonDirection &a, const StepState &s, const double *)
        : factor((float)s.factor), momentum((float)a.momentum), rest((float)(1 - a.momentum)),
          nesterov(a.nesterov) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        const float part = rest * (x[G] * factor);
        x[M] = momentum * x[M] + part;
        return x[G] = nesterov ? momentum * x[M] + part : x[M];
    }
};

extern "C" void cuda_muon_direction(Queue *q, const MuonDirection *a)
{
    update<MuonRule>(q, *a, a->g_N.dim[0], { FLAT(a->g_N), FLAT(a->m_N) }, tensor_none());
}

/* ---- steps: w = shrink w - rate u ---- */
struct StepRule : UpdateKind {
    enum { W, U, TENSORS, WRITTEN = U };
    float shrink, rate;

    /* LAMB: the rate is lr ratio, the ratio |w| / |u| within [low, high], 1 where either is 0 */
    __device__ StepRule(const LambUpdate &a, const StepState &s, const double *) : shrink(1)
    {
        const float *squares = (const float *)a.squares_2.data;
        const double w = sqrt((double)squares[0]), u = sqrt((double)squares[1]);
        const double ratio = w > 0 && u > 0 ? fmin(fmax(w / u, a.low), a.high) : 1;
        rate = (float)(STEP_LR(&s, a.decoupled) * ratio);
    }
    /* Adafactor: the rate is alpha / max(1, rms(u) / clip),
     * alpha = min(lr, 1 / sqrt(t)) max(epsilon, rms(w)) */
    __device__ StepRule(const AdafactorUpdate &a, const StepState &s, const double *)
    {
        const float *squares = (const float *)a.squares_2.data;
        const double lr = STEP_LR(&s, a.decoupled), w_rms = sqrt((double)squares[0] / a.count);
        const double u_rms = sqrt((double)squares[1] / a.count);
        const double alpha = fmin(lr, 1 / sqrt((double)(s.updates + 1))) * fmax(a.epsilon, w_rms);
        shrink = (float)(1 - lr * (a.decay * s.weight_decay));
        rate   = (float)(alpha / fmax(1.0, u_rms / a.clip));
    }
    /* 1-bit LAMB: the rate is lr ratio, or after the freeze lr times the mean ratio and its factor */
    __device__ StepRule(const OnebitUpdate &a, const StepState &s, const double *) : shrink(1)
    {
        const float *of_u = (const float *)a.squares_2.data, *number = (const float *)a.numbers_3.data;
        const double squares[2] = { (double)of_u[0], (double)of_u[1] };
        const bool   decayed = a.decay * s.weight_decay > 0;
        double step = onebit_ratio(&a.bounds, squares);
        if (present(a.most_1))
            step = (double)number[ONEBIT_MEAN] *
                   onebit_factor(&a.bounds, (double)number[ONEBIT_FACTOR], squares,
                                 (double)*(const float *)a.most_1.data, decayed);
        rate = (float)(STEP_LR(&s, a.decoupled) * step);
    }
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        return x[W] = x[W] * shrink - rate * x[U];
    }

protected:
    __device__ StepRule(float shrink_, float rate_) : shrink(shrink_), rate(rate_) {}
};

/* Muon: u may be BF16. The decay is before the step or after it. */
struct MuonStepRule : StepRule {
    static constexpr bool LAST_NARROW = true;

    __device__ MuonStepRule(const MuonUpdate &a, const StepState &s, const double *) : StepRule(1, 0)
    {
        const double lr = STEP_LR(&s, a.decoupled), left = 1 - lr * (a.decay * s.weight_decay);
        shrink = (float)left;
        rate   = (float)(lr * a.scale * (a.decay_last ? left : 1));
    }
};

extern "C" void cuda_lamb_update(Queue *q, const LambUpdate *a)
{
    GPU_WANT(a->squares_2, F32, 2);
    update<StepRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->u_N) }, a->param_N);
}

extern "C" void cuda_muon_update(Queue *q, const MuonUpdate *a)
{
    update<MuonStepRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->o_N) }, a->param_N);
}

extern "C" void cuda_adafactor_update(Queue *q, const AdafactorUpdate *a)
{
    GPU_WANT(a->squares_2, F32, 2);
    update<StepRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->u_N) }, a->param_N);
}

extern "C" void cuda_onebit_update(Queue *q, const OnebitUpdate *a)
{
    GPU_WANT(a->squares_2, F32, 2);
    GPU_WANT(a->numbers_3, F32, ONEBIT_NUMBERS);
    if (tensor_present(a->most_1)) GPU_WANT(a->most_1, F32, 1);
    update<StepRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->u_N) }, a->param_N);
}

/* ---- matrices of Muon's iterations, of F32 and BF16: y is in the place of param ---- */
/* y = x / max(sqrt(squares), epsilon), and 0 where the step is skipped, whatever x is */
struct NormalizeRule : UpdateKind {
    enum { X, TENSORS, WRITTEN = 0 };
    static constexpr bool LAST_NARROW = true, ALWAYS = true;
    float scale;
    bool  skip;

    __device__ NormalizeRule(const Normalize &a, const StepState &s, const double *)
        : scale((float)(1 / fmax(sqrt((double)*(const float *)a.squares_1.data), a.epsilon))), skip(s.skip) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const { return skip ? 0.0f : scale * x[X]; }
};

extern "C" void cuda_normalize(Queue *q, const Normalize *a)
{
    GPU_WANT(a->squares_1, F32, 1);
    update<NormalizeRule>(q, *a, a->y_N.dim[0], { FLAT(a->x_N) }, a->y_N);
}

/* y = y_factor y + x_factor x */
struct ScaledSumRule : UpdateKind {
    enum { X, TENSORS, Y = TENSORS, WRITTEN = 0 };
    static constexpr RuleParam PARAM = PARAM_CHANGED;
    static constexpr bool LAST_NARROW = true, ALWAYS = true;
    float of_y, of_x;

    __device__ ScaledSumRule(const ScaledSum &a, const StepState &, const double *)
        : of_y((float)a.y_factor), of_x((float)a.x_factor) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const { return of_y * x[Y] + of_x * x[X]; }
};

extern "C" void cuda_scaled_sum(Queue *q, const ScaledSum *a)
{
    update<ScaledSumRule>(q, *a, a->y_N.dim[0], { FLAT(a->x_N) }, a->y_N);
}

/* y = g, scaled and clipped; 0 where the step is skipped */
struct MeanRule : UpdateKind {
    enum { G, TENSORS, WRITTEN = 0 };
    static constexpr bool ALWAYS = true;
    float factor;
    bool  skip;

    __device__ MeanRule(const GradientMean &, const StepState &s, const double *)
        : factor((float)s.factor), skip(s.skip) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const { return skip ? 0.0f : factor * x[G]; }
};

extern "C" void cuda_gradient_mean(Queue *q, const GradientMean *a)
{
    update<MeanRule>(q, *a, a->y_N.dim[0], { FLAT(a->g_N) }, a->y_N);
}

/* ---- sums in double to float ---- */
__global__ void __launch_bounds__(GPU_THREADS) round_sums_kernel(float *y, const double *x, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * GPU_THREADS + threadIdx.x;
    if (i < n) y[i] = (float)x[i];
}

extern "C" void cuda_round_sums(Queue *q, const RoundSums *a)
{
    const int64_t N = a->y_N.dim[0];
    GPU_WANT(a->y_N, F32, N);
    GPU_WANT(a->x_N, F64, N);
    if (N > 0)
        GPU_LAUNCH(round_sums_kernel, blocks_for(N, GPU_THREADS), GPU_THREADS, gpu_stream_of(q),
                   (float *)a->y_N.data, (const double *)a->x_N.data, N);
}
