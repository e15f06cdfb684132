/* Linear maps and their gradients.   T rows   C channels in   K channels out   w [K, C]
 * All three products are gemm's, which says in which order an element adds its products. */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/linear.h"

/* A product whose epilogue reads whole rows pays with enough of them for every thread. */
enum { FUSED_ROWS = 128 };

/* h = x wT, of which each part goes through the activation while it is in the cache */
static ActivationForward activation_of(const MatmulActivationForward *a)
{
    return (ActivationForward){ .y_TF = a->y_TF, .x_TF = a->h_TK, .bias_F = a->bias_K, .kind = a->kind };
}

/* Of a gated activation the columns of `up` complete a part; those of the gate are before them. */
static void activate(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    ActivationForward a = activation_of(context);
    int64_t gate = ACT_GATED(a.kind) ? a.y_TF.dim[1] : 0, end = column + columns;
    if (column < gate) column = gate;
    if (column < end) cpu_activate_part(&a, row, rows, column - gate, end - column);
}

/* y = residual + drop(x wT + bias): y holds the product first. */
typedef struct { const Queue *q; const MatmulResidualForward *a; } Residual;
static void add_residual(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const Residual *r = context;
    const MatmulResidualForward *a = r->a;
    cpu_drop_part(r->q, &(DropoutForward){ .y_TC = a->y_TK, .residual_TC = a->residual_TK, .x_TC = a->y_TK,
        .bias_C = a->bias_K, .dropout_index_i = a->dropout_index_i, .p = a->p, .site = a->site },
        row, rows, column, columns);
}

static Gemm forward_product(const MatmulForward *a)
{
    return linear_product(a->y_TK, a->x_TC, a->w_KC, a->bias_K);
}
static Gemm activation_product(const MatmulActivationForward *a)
{
    return linear_product(a->h_TK, a->x_TC, a->w_KC, tensor_none());
}
static Gemm residual_product(const MatmulResidualForward *a)
{
    return linear_product(a->y_TK, a->x_TC, a->w_KC, tensor_none());
}
static Gemm input_product(const MatmulBackwardInput *a)
{
    return linear_input_product(a->dx_TC, a->dy_TK, a->w_KC);
}
static Gemm weight_product(const MatmulBackwardWeight *a)
{
    return linear_weight_product(a->dw_KC, a->dy_TK, a->x_TC);
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
    return workspace(q, activation_product(a));
}

size_t cpu_matmul_residual_forward_workspace(const Queue *q, const MatmulResidualForward *a)
{
    return workspace(q, residual_product(a));
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
    WANT_LINEAR(a->y_TK, a->x_TC, a->w_KC);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, a->w_KC.dim[0]);
    multiply(q, forward_product(a));
}

CPU(matmul_activation_forward, MatmulActivationForward)
{
    int64_t T = a->h_TK.dim[0], K = a->h_TK.dim[1];
    bool gated = ACT_GATED(a->kind);
    WANT_LINEAR(a->h_TK, a->x_TC, a->w_KC);
    WANT(a->y_TF, T, gated ? K / 2 : K);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    Gemm g = activation_product(a);
    bool fused = !gated || T >= FUSED_ROWS * team_size(q->team);
    if (fused) g.epilogue = (GemmEpilogue){ activate, (void *)a, gated };
    multiply(q, g);
    ActivationForward activation = activation_of(a);
    if (!fused || K == 0) cpu_activation_forward(q, &activation);
}

CPU(matmul_residual_forward, MatmulResidualForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1];
    WANT_LINEAR(a->y_TK, a->x_TC, a->w_KC);
    WANT(a->residual_TK, T, K);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    if (a->p > 0) WANT(a->dropout_index_i, T);
    CHECK(T * K == 0 || a->y_TK.data != a->residual_TK.data, "y holds the product before residual is read");
    Gemm g = residual_product(a);
    g.epilogue = (GemmEpilogue){ add_residual, &(Residual){ q, a }, false };
    multiply(q, g);
}

CPU(matmul_backward_input, MatmulBackwardInput)
{
    WANT_LINEAR(a->dy_TK, a->dx_TC, a->w_KC);
    multiply(q, input_product(a));
}

CPU(matmul_backward_weight, MatmulBackwardWeight)
{
    WANT_LINEAR(a->dy_TK, a->x_TC, a->dw_KC);
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
