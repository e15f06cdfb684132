/* Linear maps and their gradients.   T rows   C channels in   K channels out   w [K, C]
 * All three products are gemm's, which says in which order an element adds its products. */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/gemm.h"

/* y = x wT + bias */
static Gemm forward_product(const MatmulForward *a)
{
    return (Gemm){ .M = a->y_TK.dim[0], .N = a->y_TK.dim[1], .K = a->x_TC.dim[1],
                   .y = a->y_TK.data, .y_row = a->y_TK.stride[0], .output = a->y_TK.dtype,
                   .a = { a->x_TC.data, a->x_TC.stride[0], 1 }, .input = a->x_TC.dtype,
                   .b = { a->w_KC.data, 1, a->w_KC.stride[0] },
                   .bias = tensor_present(a->bias_K) ? a->bias_K.data : NULL,
                   .bias_type = a->bias_K.dtype };
}

/* A product whose epilogue reads whole rows pays with enough of them for every thread. */
enum { FUSED_ROWS = 128 };

/* h = x wT, of which each part goes through the activation while it is in the cache */
static MatmulForward matmul_of(const MatmulActivationForward *a)
{
    return (MatmulForward){ .y_TK = a->h_TK, .x_TC = a->x_TC, .w_KC = a->w_KC };
}

static ActivationForward activation_of(const MatmulActivationForward *a)
{
    return (ActivationForward){ .y_TF = a->y_TF, .x_TF = a->h_TK, .bias_F = a->bias_K, .kind = a->kind };
}

/* Of a gated activation the columns of `up` complete a part; those of the gate are before them. */
static void activate(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    ActivationForward a = activation_of(context);
    int64_t gate = a.kind == ACT_SWIGLU ? a.y_TF.dim[1] : 0, end = column + columns;
    if (column < gate) column = gate;
    if (column < end) cpu_activate_part(&a, row, rows, column - gate, end - column);
}

/* y = residual + drop(x wT + bias): y holds the product first. */
typedef struct { const Queue *q; const MatmulResidualForward *a; } Residual;
static MatmulForward product_of(const MatmulResidualForward *a)
{
    return (MatmulForward){ .y_TK = a->y_TK, .x_TC = a->x_TC, .w_KC = a->w_KC };
}

static void add_residual(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const Residual *r = context;
    const MatmulResidualForward *a = r->a;
    cpu_drop_part(r->q, &(DropoutForward){ .y_TC = a->y_TK, .residual_TC = a->residual_TK, .x_TC = a->y_TK,
        .bias_C = a->bias_K, .dropout_index_i = a->dropout_index_i, .p = a->p, .site = a->site },
        row, rows, column, columns);
}

/* dx = dy w */
static Gemm input_product(const MatmulBackwardInput *a)
{
    return (Gemm){ .M = a->dx_TC.dim[0], .N = a->dx_TC.dim[1], .K = a->dy_TK.dim[1],
                   .y = a->dx_TC.data, .y_row = a->dx_TC.stride[0], .output = a->dx_TC.dtype,
                   .a = { a->dy_TK.data, a->dy_TK.stride[0], 1 }, .input = a->dy_TK.dtype,
                   .b = { a->w_KC.data, a->w_KC.stride[0], 1 } };
}

/* dw += dyT x */
static Gemm weight_product(const MatmulBackwardWeight *a)
{
    return (Gemm){ .M = a->dw_KC.dim[0], .N = a->dw_KC.dim[1], .K = a->x_TC.dim[0], .add = true,
                   .y = a->dw_KC.data, .y_row = a->dw_KC.stride[0], .output = a->dw_KC.dtype,
                   .a = { a->dy_TK.data, 1, a->dy_TK.stride[0] }, .input = a->dy_TK.dtype,
                   .b = { a->x_TC.data, a->x_TC.stride[0], 1 } };
}

static size_t workspace(const Queue *q, Gemm g) { return gemm_workspace_bytes(&g, q->threads); }
static void   multiply(Queue *q, Gemm g)
{
    g.family = q->kernels;
    gemm(q->team, &g, q->op_workspace, q->op_workspace_bytes);
}

size_t cpu_matmul_forward_workspace(const Queue *q, const MatmulForward *a)
{
    return workspace(q, forward_product(a));
}

size_t cpu_matmul_activation_forward_workspace(const Queue *q, const MatmulActivationForward *a)
{
    MatmulForward product = matmul_of(a);
    return workspace(q, forward_product(&product));
}

size_t cpu_matmul_residual_forward_workspace(const Queue *q, const MatmulResidualForward *a)
{
    MatmulForward product = product_of(a);
    return workspace(q, forward_product(&product));
}

size_t cpu_matmul_backward_input_workspace(const Queue *q, const MatmulBackwardInput *a)
{
    return workspace(q, input_product(a));
}

size_t cpu_matmul_backward_weight_workspace(const Queue *q, const MatmulBackwardWeight *a)
{
    return workspace(q, weight_product(a));
}

CPU(matmul_forward, MatmulForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1], C = a->x_TC.dim[1];
    WANT(a->y_TK, T, K);
    WANT(a->x_TC, T, C);
    WANT(a->w_KC, K, C);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    multiply(q, forward_product(a));
}

CPU(matmul_activation_forward, MatmulActivationForward)
{
    int64_t T = a->h_TK.dim[0], K = a->h_TK.dim[1], C = a->x_TC.dim[1];
    bool gated = a->kind == ACT_SWIGLU;
    WANT(a->h_TK, T, K);
    WANT(a->x_TC, T, C);
    WANT(a->w_KC, K, C);
    WANT(a->y_TF, T, gated ? K / 2 : K);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    MatmulForward product = matmul_of(a);
    Gemm g = forward_product(&product);
    bool fused = !gated || T >= FUSED_ROWS * team_size(q->team);
    if (fused) g.epilogue = (GemmEpilogue){ activate, (void *)a, gated };
    multiply(q, g);
    ActivationForward activation = activation_of(a);
    if (!fused || K == 0) cpu_activation_forward(q, &activation);
}

CPU(matmul_residual_forward, MatmulResidualForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1], C = a->x_TC.dim[1];
    WANT(a->y_TK, T, K);
    WANT(a->x_TC, T, C);
    WANT(a->w_KC, K, C);
    WANT(a->residual_TK, T, K);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    if (a->p > 0) WANT(a->dropout_index_i, T);
    CHECK(T * K == 0 || a->y_TK.data != a->residual_TK.data, "y holds the product before residual is read");
    MatmulForward product = product_of(a);
    Gemm g = forward_product(&product);
    g.epilogue = (GemmEpilogue){ add_residual, &(Residual){ q, a }, false };
    multiply(q, g);
}

CPU(matmul_backward_input, MatmulBackwardInput)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1], K = a->dy_TK.dim[1];
    WANT(a->dx_TC, T, C);
    WANT(a->dy_TK, T, K);
    WANT(a->w_KC, K, C);
    multiply(q, input_product(a));
}

CPU(matmul_backward_weight, MatmulBackwardWeight)
{
    int64_t K = a->dw_KC.dim[0], C = a->dw_KC.dim[1], T = a->x_TC.dim[0];
    WANT(a->dw_KC, K, C);
    WANT(a->dy_TK, T, K);
    WANT(a->x_TC, T, C);
    multiply(q, weight_product(a));
}

/* db += sums of the columns of dy, in double because the number of rows is large */
INLINE void bias_strip(const BiasBackward *a, int64_t first, int64_t columns)
{
    double sum[COLUMNS] = { 0 };
    TileBuffer dy_tile;
    for (int64_t t = 0; t < a->dy_TK.dim[0]; t++) {
        const float *dy = tile_read(&dy_tile, a->dy_TK, t, first, columns);
        for (int64_t k = 0; k < columns; k++) sum[k] += (double)dy[k];
    }
    for (int64_t k = 0; k < columns; k++) flat(a->db_K)[first + k] += (float)sum[k];
}

static CLONES void bias_columns(void *context, int64_t begin, int64_t end)
{
    if (end - begin == COLUMNS) bias_strip(context, begin, COLUMNS);
    else bias_strip(context, begin, end - begin);
}

CPU(bias_backward, BiasBackward)
{
    int64_t T = a->dy_TK.dim[0], K = a->dy_TK.dim[1];
    WANT(a->db_K, K);
    WANT(a->dy_TK, T, K);
    team_for(q->team, K, COLUMNS, bias_columns, (void *)a);
}
