/* Activation functions and their gradients (ActivationKind in tensor/ops.h).
 * T rows   F hidden channels   gated: x is [T, 2F], gate columns and then up columns */
#include "tensor/cpu/cpu.h"

INLINE float sigmoid(float x) { return 1 / (1 + cpu_exp(-x)); }

/* gelu(x) = x sigmoid(2 u),   u = sqrt(2 / pi) (x + 0.044715 x^3),   since (1 + tanh u) / 2 = sigmoid(2 u) */
static const float TWO_U1 = (float)(2 * M_2_SQRTPI * M_SQRT1_2);
static const float TWO_U3 = (float)(2 * M_2_SQRTPI * M_SQRT1_2 * 0.044715);

/* (1 + erf(x / sqrt 2)) / 2, the normal distribution function, within 1.2e-7, without the C library and
 * without a branch. With t = |x| / sqrt 2: erf t = t P(t^2) up to t = 1, and above 1 - erf t = exp Q(t),
 * which is 0 from 4 on. P is within 1.3e-9 of erf t / t, exp Q within 6e-11: weighted least squares. */
INLINE float normal_below(float x)
{
    float t = (x < 0 ? -x : x) * (float)M_SQRT1_2, u = t < 4 ? t : 4, s = t < 1 ? t * t : 1;
    float p = 7.854019832e-5f, q = -2.090955587e-5f;
    p = p * s - 8.010245863e-4f, p = p * s + 5.188334317e-3f, p = p * s - 2.685381598e-2f;
    p = p * s + 0.1128358527f, p = p * s - 0.3761262584f, p = p * s + 1.128379166f;
    q = q * u + 4.323030083e-4f, q = q * u - 4.160527008e-3f, q = q * u + 2.509149682e-2f;
    q = q * u - 0.1082366184f, q = q * u - 0.6333866465f, q = q * u - 1.129495159f;
    q = q * u + 1.705520356e-4f;
    float beyond = t < 1 ? 0.5f - 0.5f * t * p : t < 4 ? 0.5f * cpu_exp(q) : 0;
    beyond = t == t ? beyond : t;                                         /* NaN stays NaN */
    return x < 0 ? beyond : 1 - beyond;
}

/* act(x); of gated activations that of the gate */
INLINE float act_value(int kind, float x)
{
    switch (kind) {
    case ACT_GELU_TANH:
    case ACT_GEGLU_TANH:   return x * sigmoid(x * (TWO_U1 + TWO_U3 * x * x));
    case ACT_GELU_ERF:
    case ACT_GEGLU_ERF:    return x * normal_below(x);
    case ACT_QUICK_GEGLU:  return x * sigmoid(1.702f * x);
    case ACT_SQUARED_RELU: return x < 0 ? 0 : x * x;
    case ACT_RELU:         return x < 0 ? 0 : x;
    default:               return x * sigmoid(x);
    }
}

/* act'(x). TWO_U1 / 4 = 1 / sqrt(2 pi), the factor of the normal density in the derivative of erf-GELU. */
INLINE float act_derivative(int kind, float x)
{
    float s;
    switch (kind) {
    case ACT_GELU_TANH:
    case ACT_GEGLU_TANH:
        s = sigmoid(x * (TWO_U1 + TWO_U3 * x * x));
        return s + x * s * (1 - s) * (TWO_U1 + 3 * TWO_U3 * x * x);
    case ACT_GELU_ERF:
    case ACT_GEGLU_ERF:
        return normal_below(x) + x * cpu_exp(-0.5f * x * x) * (TWO_U1 / 4);
    case ACT_QUICK_GEGLU:
        s = sigmoid(1.702f * x);
        return s * (1 + 1.702f * x * (1 - s));
    case ACT_SQUARED_RELU:
        return x < 0 ? 0 : 2 * x;
    case ACT_RELU:
        return x <= 0 ? 0 : 1;
    default:
        s = sigmoid(x);
        return s * (1 + x * (1 - s));
    }
}

/* A row is processed in tiles that are copied to the stack with the bias added, so that the loops below
 * have no branch and no aliasing and vectorize even when the output is the input. */
typedef struct { float x[TILE], up[TILE], dy[TILE]; TileBuffer bias, out, out_up; } ActivationTile;

INLINE void load_biased(float *tile, ActivationTile *p, Tensor x_TF, int64_t t, Tensor bias_F, int64_t first,
                        int64_t n)
{
    tile_load(tile, x_TF, t, first, n);
    if (!tensor_present(bias_F)) return;
    const float *bias = tile_read(&p->bias, bias_F, 0, first, n);
    for (int64_t i = 0; i < n; i++) tile[i] += bias[i];
}

/* y = act(x + bias);   gated: y = act(gate) up */
INLINE void forward_tile(int kind, float *y, const ActivationTile *p, int64_t n)
{
    if (ACT_GATED(kind)) for (int64_t i = 0; i < n; i++) y[i] = act_value(kind, p->x[i]) * p->up[i];
    else for (int64_t i = 0; i < n; i++) y[i] = act_value(kind, p->x[i]);
}

/* dx = dy act'(x + bias);   gated: dgate = dy up act'(gate),  dup = dy act(gate) */
INLINE void backward_tile(int kind, float *dx, float *dup, ActivationTile *p, int64_t n)
{
    for (int64_t i = 0; i < n && ACT_GATED(kind); i++) {
        dup[i]   = p->dy[i] * act_value(kind, p->x[i]);
        p->dy[i] = p->dy[i] * p->up[i];
    }
    for (int64_t i = 0; i < n; i++) dx[i] = p->dy[i] * act_derivative(kind, p->x[i]);
}

/* A switch outside of the loops: kind is a constant in each inlined call, so no loop tests it. */
#define BY_KIND(kind, function, ...)                                                      \
    switch (kind) {                                                                       \
    case ACT_GELU_TANH:    function(ACT_GELU_TANH, __VA_ARGS__); break;                   \
    case ACT_GELU_ERF:     function(ACT_GELU_ERF, __VA_ARGS__); break;                    \
    case ACT_SQUARED_RELU: function(ACT_SQUARED_RELU, __VA_ARGS__); break;                \
    case ACT_RELU:         function(ACT_RELU, __VA_ARGS__); break;                        \
    case ACT_SILU:         function(ACT_SILU, __VA_ARGS__); break;                        \
    case ACT_GEGLU_TANH:   function(ACT_GEGLU_TANH, __VA_ARGS__); break;                  \
    case ACT_GEGLU_ERF:    function(ACT_GEGLU_ERF, __VA_ARGS__); break;                   \
    case ACT_QUICK_GEGLU:  function(ACT_QUICK_GEGLU, __VA_ARGS__); break;                 \
    default:               function(ACT_SWIGLU, __VA_ARGS__);                             \
    }

typedef struct { const ActivationForward *a; int64_t column, columns; } ActivationPart;
static CLONES void activation_forward_rows(void *context, int64_t begin, int64_t end)
{
    const ActivationPart *part = context;
    const ActivationForward *a = part->a;
    int64_t F = a->y_TF.dim[1], last = part->column + part->columns;
    ActivationTile p;
    for (int64_t t = begin; t < end; t++)
        for (int64_t f = part->column; f < last; f += TILE) {
            int64_t n = tile_count(last, f);
            load_biased(p.x, &p, a->x_TF, t, a->bias_F, f, n);
            if (ACT_GATED(a->kind)) load_biased(p.up, &p, a->x_TF, t, a->bias_F, F + f, n);
            BY_KIND(a->kind, forward_tile, tile_begin(&p.out, a->y_TF, t, f), &p, n)
            tile_end(&p.out, a->y_TF, t, f, n);
        }
}

void cpu_activate_part(const ActivationForward *a, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    activation_forward_rows(&(ActivationPart){ a, column, columns }, row, row + rows);
}

static CLONES void activation_backward_rows(void *context, int64_t begin, int64_t end)
{
    const ActivationBackward *a = context;
    int64_t F = a->dy_TF.dim[1];
    ActivationTile p;
    for (int64_t t = begin; t < end; t++)
        for (int64_t f = 0; f < F; f += TILE) {
            int64_t n = tile_count(F, f);
            bool gated = ACT_GATED(a->kind);
            load_biased(p.x, &p, a->x_TF, t, a->bias_F, f, n);
            if (gated) load_biased(p.up, &p, a->x_TF, t, a->bias_F, F + f, n);
            tile_load(p.dy, a->dy_TF, t, f, n);
            float *dx = tile_begin(&p.out, a->dx_TF, t, f);
            float *dup = gated ? tile_begin(&p.out_up, a->dx_TF, t, F + f) : NULL;
            BY_KIND(a->kind, backward_tile, dx, dup, &p, n)
            tile_end(&p.out, a->dx_TF, t, f, n);
            if (gated) tile_end(&p.out_up, a->dx_TF, t, F + f, n);
        }
}

static void check_kind(int kind)
{
    CHECK(kind >= ACT_GELU_TANH && kind < ACT_KINDS, "activation kind %d is not in 0 .. %d", kind, ACT_KINDS - 1);
}

CPU(activation_forward, ActivationForward)
{
    int64_t T = a->y_TF.dim[0], F = a->y_TF.dim[1], wide = ACT_GATED(a->kind) ? 2 * F : F;
    check_kind(a->kind);
    WANT(a->y_TF, T, F);
    WANT(a->x_TF, T, wide);
    if (tensor_present(a->bias_F)) WANT(a->bias_F, wide);
    team_for(q->team, T, chunk_rows(F), activation_forward_rows, &(ActivationPart){ a, 0, F });
}

CPU(activation_backward, ActivationBackward)
{
    int64_t T = a->dy_TF.dim[0], F = a->dy_TF.dim[1], wide = ACT_GATED(a->kind) ? 2 * F : F;
    check_kind(a->kind);
    WANT(a->dx_TF, T, wide);
    WANT(a->dy_TF, T, F);
    WANT(a->x_TF, T, wide);
    if (tensor_present(a->bias_F)) WANT(a->bias_F, wide);
    team_for(q->team, T, chunk_rows(F), activation_backward_rows, (void *)a);
}
