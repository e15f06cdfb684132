/* Updates of single elements on a GPU: Lion, ADOPT, schedule-free AdamW and SGD, Sophia.
 * N elements of a flat parameter block */
#include "tensor/cuda/update.h"

/* ---- Lion ---- */
/* w -= lr decay w,   w -= lr sign(beta1 m + (1 - beta1) g),   m = beta2 m + (1 - beta2) g */
struct LionRule : UpdateKind {
    enum { W, M, G, TENSORS, WRITTEN = G };
    float factor, beta1, rest1, beta2, rest2, lr, shrink;

    __device__ LionRule(const Lion &a, const StepState &s, const double *)
        : factor((float)s.factor), beta1((float)a.beta1), rest1((float)(1 - a.beta1)), beta2((float)a.beta2),
          rest2((float)(1 - a.beta2)), lr((float)STEP_LR(&s, a.decoupled)),
          shrink((float)(1 - STEP_LR(&s, a.decoupled) * (a.decay * s.weight_decay))) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        const float scaled = x[G] * factor, d = beta1 * x[M] + rest1 * scaled;
        x[M] = beta2 * x[M] + rest2 * scaled;
        return x[W] = x[W] * shrink - (d > 0 ? lr : d < 0 ? -lr : 0.0f);
    }
};

extern "C" void cuda_lion(Queue *q, const Lion *a)
{
    update<LionRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->m_N), FLAT(a->g_N) }, a->param_N);
}

/* ---- ADOPT ---- */
/* w -= lr decay w,   m = beta1 m + (1 - beta1) u,   w -= lr m,   v = beta2 v + (1 - beta2) g g
 * u = g / max(sqrt(v), epsilon) within +-(t - 1)^(1/4);   the first update: v = g g */
struct AdoptRule : UpdateKind {
    enum { W, M, V, G, TENSORS, WRITTEN = G };
    float factor, beta1, rest1, beta2, rest2, epsilon, bound, shrink, l2, lr;
    bool  first;

    __device__ AdoptRule(const Adopt &a, const StepState &s, const double *)
        : factor((float)s.factor), beta1((float)a.beta1), rest1((float)(1 - a.beta1)), beta2((float)a.beta2),
          rest2((float)(1 - a.beta2)), epsilon((float)a.epsilon),
          bound((float)sqrt(sqrt((double)s.updates))),
          shrink((float)(1 - STEP_LR(&s, a.decoupled) * (a.coupled ? 0 : a.decay * s.weight_decay))),
          l2((float)(a.coupled ? a.decay * s.weight_decay : 0)), lr((float)STEP_LR(&s, a.decoupled)),
          first(s.updates == 0) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        const float scaled = x[G] * factor + l2 * x[W];
        const float u = fminf(fmaxf(scaled / fmaxf(sqrtf(x[V]), epsilon), -bound), bound);
        if (first) {
            x[V] = scaled * scaled;
            return x[W];
        }
        x[V] = beta2 * x[V] + rest2 * scaled * scaled;
        x[M] = beta1 * x[M] + rest1 * u;
        return x[W] = x[W] * shrink - lr * x[M];
    }
};

extern "C" void cuda_adopt(Queue *q, const Adopt *a)
{
    update<AdoptRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->m_N), FLAT(a->v_N), FLAT(a->g_N) },
                      a->param_N);
}

/* ---- schedule-free AdamW and SGD ---- */
/* y = (1 - beta) z + beta w,   d = g / (sqrt(vhat) + epsilon) + decay y,  or  g + decay y
 * z -= lr d,   w += share (z - w),   param = y */
struct AveragedRule : UpdateKind {
    enum { W, Z, V, G, TENSORS, WRITTEN = G };
    static constexpr int CORRECTIONS = 1;
    float factor, beta, rest, beta2, rest2, epsilon, unbias, decay, lr, share;
    bool  adam;

    static __device__ double correction(const AveragedUpdate &a, const StepState &s, int)
    {
        return bias_correction(s, a.beta2);
    }
    __device__ AveragedRule(const AveragedUpdate &a, const StepState &s, const double *correct)
        : factor((float)s.factor), beta((float)a.beta), rest((float)(1 - a.beta)), beta2((float)a.beta2),
          rest2((float)(1 - a.beta2)), epsilon((float)a.epsilon), unbias((float)correct[0]),
          decay((float)(a.decay * s.weight_decay)), lr((float)s.lr), share((float)s.average_share),
          adam(present(a.v_N)) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        const float y = rest * x[Z] + beta * x[W];
        float d = x[G] * factor;
        if (adam) {
            x[V] = beta2 * x[V] + rest2 * d * d;
            d /= sqrtf(x[V] * unbias) + epsilon;
        }
        x[Z] -= lr * (d + decay * y);
        x[W] += share * (x[Z] - x[W]);
        return rest * x[Z] + beta * x[W];
    }
};

extern "C" void cuda_averaged_update(Queue *q, const AveragedUpdate *a)
{
    CHECK(a->param_N.dim[0] == a->w_N.dim[0], "param is absent");
    update<AveragedRule>(q, *a, a->w_N.dim[0],
                         { FLAT(a->w_N), FLAT(a->z_N), FLAT_OR_NONE(a->v_N), FLAT(a->g_N) }, a->param_N);
}

/* y = x_factor x + z_factor z, in the place of param */
struct PairRule : UpdateKind {
    enum { X, Z, TENSORS, WRITTEN = 0 };
    static constexpr bool ALWAYS = true;
    float of_x, of_z;

    __device__ PairRule(const WeightedPair &a, const StepState &, const double *)
        : of_x((float)a.x_factor), of_z((float)a.z_factor) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const { return of_z * x[Z] + of_x * x[X]; }
};

extern "C" void cuda_weighted_pair(Queue *q, const WeightedPair *a)
{
    update<PairRule>(q, *a, a->y_N.dim[0], { FLAT(a->x_N), FLAT(a->z_N) }, a->y_N);
}

/* ---- Sophia ---- */
/* m = beta1 m + (1 - beta1) g,   w -= lr decay w,   w -= lr sign(m) min(1, |m| / (rho h + 1e-15)) */
struct SophiaRule : UpdateKind {
    enum { W, M, H, G, TENSORS, WRITTEN = H };
    float factor, beta1, rest1, rho, lr, shrink;

    __device__ SophiaRule(const Sophia &a, const StepState &s, const double *)
        : factor((float)s.factor), beta1((float)a.beta1), rest1((float)(1 - a.beta1)), rho((float)a.rho),
          lr((float)STEP_LR(&s, a.decoupled)),
          shrink((float)(1 - STEP_LR(&s, a.decoupled) * (a.decay * s.weight_decay))) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        x[M] = beta1 * x[M] + rest1 * (x[G] * factor);
        const float step = x[M] / (rho * x[H] + 1e-15f);
        return x[W] = x[W] * shrink - lr * fminf(fmaxf(step, -1.0f), 1.0f);
    }
};

extern "C" void cuda_sophia(Queue *q, const Sophia *a)
{
    update<SophiaRule>(q, *a, a->w_N.dim[0], { FLAT(a->w_N), FLAT(a->m_N), FLAT(a->h_N), FLAT(a->g_N) },
                       a->param_N);
}

/* h = beta2 h + (1 - beta2) tokens g g */
struct HessianRule : UpdateKind {
    enum { H, G, TENSORS, WRITTEN = G };
    static constexpr RuleParam PARAM = NO_PARAM;
    float factor, beta2, rest2;

    __device__ HessianRule(const SophiaHessian &a, const StepState &s, const double *)
        : factor((float)(s.factor * sqrt(*(const double *)a.tokens_1.data))), beta2((float)a.beta2),
          rest2((float)(1 - a.beta2)) {}
    __device__ float element(float (&x)[TENSORS + 1], int64_t) const
    {
        const float scaled = x[G] * factor;
        return x[H] = beta2 * x[H] + rest2 * scaled * scaled;
    }
};

extern "C" void cuda_sophia_hessian(Queue *q, const SophiaHessian *a)
{
    GPU_WANT(a->tokens_1, F64, 1);
    update<HessianRule>(q, *a, a->g_N.dim[0], { FLAT(a->h_N), FLAT(a->g_N) }, tensor_none());
}
