/* Activation functions and their derivatives (ActivationKind in tensor/ops.h).
 * T rows   F hidden channels   gated: x is [T, 2F], gate columns and then up columns */
#include "tensor/ref/ref.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* act(x); of gated activations that of the gate */
static double act_value(int kind, double x)
{
    switch (kind) {
    case ACT_GELU_TANH:
    case ACT_GEGLU_TANH:   return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ACT_GELU_ERF:
    case ACT_GEGLU_ERF:    return 0.5 * x * (1 + erf(x / sqrt(2)));
    case ACT_QUICK_GEGLU:  return x * sigmoid(1.702 * x);
    case ACT_SQUARED_RELU: return x < 0 ? 0 : x * x;                 /* NaN < 0 is false: NaN stays NaN */
    case ACT_RELU:         return x < 0 ? 0 : x;
    default:               return x * sigmoid(x);                    /* silu, and the gate of SwiGLU */
    }
}

/* act'(x) */
static double act_derivative(int kind, double x)
{
    double root = sqrt(2 / M_PI), t = tanh(root * (x + 0.044715 * x * x * x)), s = sigmoid(1.702 * x);
    switch (kind) {
    case ACT_GELU_TANH:
    case ACT_GEGLU_TANH:   return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
    case ACT_GELU_ERF:
    case ACT_GEGLU_ERF:    return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
    case ACT_QUICK_GEGLU:  return s * (1 + 1.702 * x * (1 - s));
    case ACT_SQUARED_RELU: return x < 0 ? 0 : 2 * x;
    case ACT_RELU:         return x <= 0 ? 0 : 1;
    default:               return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
    }
}

static double biased(Tensor x_TF, Tensor bias_F, int64_t t, int64_t f)
{
    return *at2(x_TF, t, f) + (tensor_present(bias_F) ? *at1(bias_F, f) : 0);
}

static void check_kind(int kind)
{
    CHECK(kind >= ACT_GELU_TANH && kind < ACT_KINDS, "activation kind %d is not in 0 .. %d", kind, ACT_KINDS - 1);
}

/* y = act(x + bias);   gated: y = act(gate) up */
REF(activation_forward, ActivationForward)
{
    int64_t T = a->y_TF.dim[0], F = a->y_TF.dim[1], wide = ACT_GATED(a->kind) ? 2 * F : F;
    check_kind(a->kind);
    WANT(a->y_TF, T, F);
    WANT(a->x_TF, T, wide);
    if (tensor_present(a->bias_F)) WANT(a->bias_F, wide);
    for (int64_t t = 0; t < T; t++)
        for (int64_t f = 0; f < F; f++) {
            double up = ACT_GATED(a->kind) ? biased(a->x_TF, a->bias_F, t, F + f) : 1;
            *at2(a->y_TF, t, f) = act_value(a->kind, biased(a->x_TF, a->bias_F, t, f)) * up;
        }
}

/* dx = dy act'(x + bias);   gated: dgate = dy up act'(gate),  dup = dy act(gate) */
REF(activation_backward, ActivationBackward)
{
    int64_t T = a->dy_TF.dim[0], F = a->dy_TF.dim[1], wide = ACT_GATED(a->kind) ? 2 * F : F;
    check_kind(a->kind);
    WANT(a->dx_TF, T, wide);
    WANT(a->dy_TF, T, F);
    WANT(a->x_TF, T, wide);
    if (tensor_present(a->bias_F)) WANT(a->bias_F, wide);
    for (int64_t t = 0; t < T; t++)
        for (int64_t f = 0; f < F; f++) {
            double dy = *at2(a->dy_TF, t, f), x = biased(a->x_TF, a->bias_F, t, f), up = 1;
            if (ACT_GATED(a->kind)) {
                up = biased(a->x_TF, a->bias_F, t, F + f);
                *at2(a->dx_TF, t, F + f) = dy * act_value(a->kind, x);
            }
            *at2(a->dx_TF, t, f) = dy * up * act_derivative(a->kind, x);
        }
}
