/* Linear maps of 8-bit numbers, by conversion.   T rows   C channels in   K channels out
 * A product widens its inputs to BF16, which holds every 8-bit number, in its workspace; gemm multiplies
 * those and divides the sums by the scales. */
#include "tensor/fp8.h"

#include <stdatomic.h>
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/linear.h"

/* ---- amax and quantization, in one pass over rows ---- */

/* q absent: amax alone. The maximum of the bits of magnitudes is that of the magnitudes, in any order. */
typedef struct { Tensor q_TC, x_TC; float scale; _Atomic uint32_t amax; } Quantization;

static void amax_raise(_Atomic uint32_t *amax, uint32_t most)
{
    uint32_t seen = *amax;
    while (seen < most && !atomic_compare_exchange_weak(amax, &seen, most)) { }
}

static CLONES uint32_t tile_amax(const float *x, int64_t n)
{
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t size = (int32_t)(half_bits(x[i]) & 0x7fffffff);
        size = size > 0x7f800000 ? 0 : size;
        most = most < size ? size : most;
    }
    return (uint32_t)most;
}

static CLONES void tile_e4m3(uint8_t *restrict q, const float *restrict x, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) q[i] = e4m3_encode(x[i] * scale);
}

static CLONES void tile_e5m2(uint8_t *restrict q, const float *restrict x, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) q[i] = e5m2_encode(x[i] * scale);
}

static void quantize_rows(void *context, int64_t begin, int64_t end)
{
    Quantization *z = context;
    TileBuffer x_tile;
    uint32_t most = 0;
    for (int64_t t = begin; t < end; t++)
        for (int64_t c = 0, n; c < z->x_TC.dim[1]; c += n) {
            n = tile_count(z->x_TC.dim[1], c);
            const float *x = tile_read(&x_tile, z->x_TC, t, c, n);
            uint32_t amax = tile_amax(x, n);
            if (most < amax) most = amax;
            if (!tensor_present(z->q_TC)) continue;
            (z->q_TC.dtype == F8_E4M3 ? tile_e4m3 : tile_e5m2)(tile_at(z->q_TC, t, c), x, z->scale, n);
        }
    amax_raise(&z->amax, most);
}

static void quantize(Queue *q, Quantization *z, Tensor amax_1)
{
    WANT(z->x_TC, z->x_TC.dim[0], z->x_TC.dim[1]);
    team_for(q->team, z->x_TC.dim[0], chunk_rows(z->x_TC.dim[1]), quantize_rows, z);
    float most = half_float(z->amax);
    if (tensor_present(amax_1) && *flat(amax_1) < most) *flat(amax_1) = most;
}

CPU(fp8_amax, Fp8Amax)
{
    Quantization z = { .x_TC = a->x_TC };
    WANT(a->amax_1, 1);
    quantize(q, &z, a->amax_1);
}

CPU(fp8_quantize, Fp8Quantize)
{
    WANT(a->scale_1, 1);
    Quantization z = { .q_TC = a->q_TC, .x_TC = a->x_TC, .scale = *flat(a->scale_1) };
    WANT(a->q_TC, a->x_TC.dim[0], a->x_TC.dim[1]);
    if (tensor_present(a->amax_1)) WANT(a->amax_1, 1);
    quantize(q, &z, a->amax_1);
}

CPU(fp8_scale, Fp8Scale)
{
    int64_t N = a->scale_NK.dim[0], K = a->scale_NK.dim[1];
    CHECK(a->amax_NK.dim[0] == N && a->amax_NK.dim[1] == K, "%lld x %lld scales need as many amax",
          (long long)N, (long long)K);
    if (tensor_present(a->history_NKL) && q->step_state->unread) return;
    fp8_scale_all(a->scale_NK, a->history_NKL, a->amax_NK, a->format, a->margin, a->most_recent);
}

/* ---- products ---- */

/* The product of two 8-bit matrices, as gemm has it but for their type, and the workspace: gemm's own, then
 * the copies of a and b without gaps. */
typedef struct { Gemm g; Tensor a, b; } Fp8Product;

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
static size_t copy_bytes(Tensor x) { return aligned(2 * (size_t)tensor_count(x)); }

static size_t product_bytes(const Queue *q, Fp8Product p)
{
    return aligned(gemm_workspace_bytes(&p.g, q->threads)) + copy_bytes(p.a) + copy_bytes(p.b);
}

/* The copy of an input, without its place. */
static Tensor widened(Tensor x) { return tensor_at(NULL, BF16, x.dim, 2); }
static Fp8Product product_of(Gemm g, Tensor a, Tensor b)
{
    g.scaled = true;
    return (Fp8Product){ g, a, b };
}

/* y = x wT / scales + bias */
static Fp8Product forward_product(const Fp8MatmulForward *a)
{
    return product_of(linear_product(a->y_TK, widened(a->x_TC), widened(a->w_KC), a->bias_K), a->x_TC,
                      a->w_KC);
}

/* dx = dy w / scales */
static Fp8Product input_product(const Fp8MatmulBackwardInput *a)
{
    return product_of(linear_input_product(a->dx_TC, widened(a->dy_TK), widened(a->w_KC)), a->dy_TK, a->w_KC);
}

/* dw += dyT x / scales */
static Fp8Product weight_product(const Fp8MatmulBackwardWeight *a)
{
    return product_of(linear_weight_product(a->dw_KC, widened(a->dy_TK), widened(a->x_TC)), a->dy_TK,
                      a->x_TC);
}

size_t cpu_fp8_matmul_forward_workspace(const Queue *q, const Fp8MatmulForward *a)
{
    return product_bytes(q, forward_product(a));
}

size_t cpu_fp8_matmul_backward_input_workspace(const Queue *q, const Fp8MatmulBackwardInput *a)
{
    return product_bytes(q, input_product(a));
}

size_t cpu_fp8_matmul_backward_weight_workspace(const Queue *q, const Fp8MatmulBackwardWeight *a)
{
    return product_bytes(q, weight_product(a));
}

/* The 256 numbers of the type, in BF16, and where they go. */
typedef struct { Tensor x; uint16_t *to, number[256]; } Widening;

static void widen_rows(void *context, int64_t begin, int64_t end)
{
    const Widening *w = context;
    int64_t C = w->x.dim[1];
    for (int64_t t = begin; t < end; t++) {
        const uint8_t *from = tile_at(w->x, t, 0);
        uint16_t *to = w->to + t * C;
        for (int64_t c = 0; c < C; c++) to[c] = w->number[from[c]];
    }
}

static void widen(Queue *q, Tensor x, void *to)
{
    Widening w = { .x = x, .to = to };
    uint8_t  byte[256];
    float    number[256];
    for (int i = 0; i < 256; i++) byte[i] = (uint8_t)i;
    dtype_convert(number, F32, byte, x.dtype, 256);
    dtype_convert(w.number, BF16, number, F32, 256);
    team_for(q->team, x.dim[0], chunk_rows(x.dim[1]), widen_rows, &w);
}

/* one, two: the scales of a and b */
static void multiply(Queue *q, Fp8Product p, Tensor one, Tensor two)
{
    size_t own = aligned(gemm_workspace_bytes(&p.g, q->threads));
    char  *a = (char *)q->op_workspace + own, *b = a + copy_bytes(p.a);
    WANT(one, 1);
    WANT(two, 1);
    widen(q, p.a, a);
    widen(q, p.b, b);
    p.g.family = q->kernels;
    p.g.a.at   = a;
    p.g.b.at   = b;
    p.g.scale  = (float)(1 / ((double)*flat(one) * (double)*flat(two)));
    gemm(q->team, &p.g, q->op_workspace, own);
}

CPU(fp8_matmul_forward, Fp8MatmulForward)
{
    WANT_LINEAR(a->y_TK, a->x_TC, a->w_KC);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, a->w_KC.dim[0]);
    multiply(q, forward_product(a), a->x_scale_1, a->w_scale_1);
}

CPU(fp8_matmul_backward_input, Fp8MatmulBackwardInput)
{
    WANT_LINEAR(a->dy_TK, a->dx_TC, a->w_KC);
    multiply(q, input_product(a), a->dy_scale_1, a->w_scale_1);
}

CPU(fp8_matmul_backward_weight, Fp8MatmulBackwardWeight)
{
    WANT_LINEAR(a->dy_TK, a->x_TC, a->dw_KC);
    multiply(q, weight_product(a), a->dy_scale_1, a->x_scale_1);
}
