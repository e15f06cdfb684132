/* Linear maps on a GPU: what each operation is as matrix products (product.h), and the kernels after them.
 * T rows   C channels in   K channels out   w [K, C] */
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/product.h"

/* A matrix of rows without gaps between their elements; the rows may be apart. */
static void want_matrix(const char *name, Tensor x, int64_t rows, int64_t columns)
{
    CHECK(x.dim[0] == rows && x.dim[1] == columns && x.dim[2] == 1 && x.dim[3] == 1 &&
              (columns <= 1 || x.stride[1] == 1),
          "%s is [%lld, %lld, %lld, %lld], required are [%lld, %lld] and a last stride of 1", name,
          (long long)x.dim[0], (long long)x.dim[1], (long long)x.dim[2], (long long)x.dim[3], (long long)rows,
          (long long)columns);
}
#define WANT_MATRIX(x, rows, columns) want_matrix(#x, x, rows, columns)

/* Whether rows begin at multiples of 16 bytes. */
static bool aligned(Tensor x)
{
    return (uintptr_t)x.data % 16 == 0 && (size_t)x.stride[0] * dtype_width(x.dtype) % 16 == 0;
}

/* bias [K] as rows of x's shape, all of them the same */
static Tensor as_rows(Tensor bias_K, Tensor x)
{
    x.data = bias_K.data, x.dtype = bias_K.dtype, x.stride[0] = 0;
    return x;
}

/* y = x wT + bias + added; the last two may be absent, and `added` is of y's type. The library adds a bias to
 * rows that are not aligned in a second kernel, after rounding: there y begins as the bias. */
static void linear(Queue *q, Tensor y_TK, Tensor x_TC, Tensor w_KC, Tensor bias_K, Tensor added_TK)
{
    int64_t T = y_TK.dim[0], K = y_TK.dim[1], C = x_TC.dim[1];
    WANT_MATRIX(y_TK, T, K);
    WANT_MATRIX(x_TC, T, C);
    WANT_MATRIX(w_KC, K, C);
    bool apart = tensor_present(bias_K) && bias_K.dtype != y_TK.dtype;
    if (T == 0) return;
    if (tensor_present(bias_K) && !apart && !tensor_present(added_TK) && y_TK.dtype != F32 &&
        !(aligned(y_TK) && aligned(x_TC) && aligned(w_KC) && (uintptr_t)bias_K.data % 16 == 0)) {
        cuda_copy_strided(q, &(CopyStrided){ .y = y_TK, .x = as_rows(bias_K, y_TK) });
        added_TK = y_TK, bias_K = tensor_none();
    }
    product_enqueue(q->device, &(Product){ .d = y_TK.data, .a = x_TC.data, .b = w_KC.data, .c = added_TK.data,
        .bias = apart ? NULL : bias_K.data, .m = T, .n = K, .k = C, .d_stride = y_TK.stride[0],
        .a_stride = x_TC.stride[0], .b_stride = w_KC.stride[0], .c_stride = added_TK.stride[0],
        .b_turned = true, .in = x_TC.dtype, .out = y_TK.dtype }, q->op_workspace);
    if (apart) cuda_accumulate(q, &(Accumulate){ .y = y_TK, .x = as_rows(bias_K, y_TK) });
}

void cuda_matmul_forward(Queue *q, const MatmulForward *a)
{
    linear(q, a->y_TK, a->x_TC, a->w_KC, a->bias_K, tensor_none());
}

void cuda_matmul_activation_forward(Queue *q, const MatmulActivationForward *a)
{
    linear(q, a->h_TK, a->x_TC, a->w_KC, tensor_none(), tensor_none());
    cuda_activation_forward(q, &(ActivationForward){ .y_TF = a->y_TF, .x_TF = a->h_TK, .bias_F = a->bias_K,
        .kind = a->kind });
}

/* Without dropout the product adds bias and residual itself. */
void cuda_matmul_residual_forward(Queue *q, const MatmulResidualForward *a)
{
    CHECK(tensor_count(a->y_TK) == 0 || a->y_TK.data != a->residual_TK.data,
          "y holds the product before residual is read");
    if (a->p == 0) {
        linear(q, a->y_TK, a->x_TC, a->w_KC, a->bias_K, a->residual_TK);
        return;
    }
    linear(q, a->y_TK, a->x_TC, a->w_KC, tensor_none(), tensor_none());
    q->backend->dropout_forward(q, &(DropoutForward){ .y_TC = a->y_TK, .residual_TC = a->residual_TK,
                                .x_TC = a->y_TK,
        .bias_C = a->bias_K, .dropout_index_i = a->dropout_index_i, .p = a->p, .site = a->site });
}

/* dx = dy w */
void cuda_matmul_backward_input(Queue *q, const MatmulBackwardInput *a)
{
    int64_t T = a->dx_TC.dim[0], C = a->dx_TC.dim[1], K = a->dy_TK.dim[1];
    WANT_MATRIX(a->dx_TC, T, C);
    WANT_MATRIX(a->dy_TK, T, K);
    WANT_MATRIX(a->w_KC, K, C);
    if (T == 0) return;
    product_enqueue(q->device, &(Product){ .d = a->dx_TC.data, .a = a->dy_TK.data, .b = a->w_KC.data, .m = T,
        .n = C, .k = K, .d_stride = a->dx_TC.stride[0], .a_stride = a->dy_TK.stride[0],
        .b_stride = a->w_KC.stride[0], .in = a->dy_TK.dtype, .out = a->dx_TC.dtype }, q->op_workspace);
}

/* dw += dyT x */
void cuda_matmul_backward_weight(Queue *q, const MatmulBackwardWeight *a)
{
    int64_t T = a->dy_TK.dim[0], K = a->dw_KC.dim[0], C = a->dw_KC.dim[1];
    WANT_MATRIX(a->dw_KC, K, C);
    WANT_MATRIX(a->dy_TK, T, K);
    WANT_MATRIX(a->x_TC, T, C);
    if (T == 0) return;
    product_enqueue(q->device, &(Product){ .d = a->dw_KC.data, .c = a->dw_KC.data, .a = a->dy_TK.data,
        .b = a->x_TC.data, .m = K, .n = C, .k = T, .d_stride = a->dw_KC.stride[0],
        .c_stride = a->dw_KC.stride[0], .a_stride = a->dy_TK.stride[0], .b_stride = a->x_TC.stride[0],
        .a_turned = true, .in = a->dy_TK.dtype, .out = a->dw_KC.dtype }, q->op_workspace);
}

#define PRODUCT_MEMORY(name, Struct)                                   \
    size_t cuda_##name##_workspace(const Queue *q, const Struct *a)    \
    {                                                                  \
        (void)q, (void)a;                                              \
        return PRODUCT_WORKSPACE;                                      \
    }
PRODUCT_MEMORY(matmul_forward,            MatmulForward)
PRODUCT_MEMORY(matmul_activation_forward, MatmulActivationForward)
PRODUCT_MEMORY(matmul_residual_forward,   MatmulResidualForward)
PRODUCT_MEMORY(matmul_backward_input,     MatmulBackwardInput)
PRODUCT_MEMORY(matmul_backward_weight,    MatmulBackwardWeight)
