/* A product with an epilogue has the bits of the product and the operation after it, in sizes of several blocks, with
 * few rows and many, with a bias and without, by every family of kernels (those that this machine has no
 * instructions for in the small sizes) and any number of threads. */
#include "base/testing.h"

#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "tensor/ops.h"

typedef struct { int64_t T, K, C; } Size;
static const Size sizes[] = { { 300, 3200, 70 }, { 33, 130, 1700 }, { 1, 3100, 40 }, { 700, 96, 800 } };
enum { SIZES = sizeof sizes / sizeof *sizes, LARGE = 10 << 20 };        /* for kernels without their instructions */
static Queue queue;
static Arena workspace;

static Tensor tensor_of(Dtype dtype, uint64_t key, int64_t rows, int64_t columns)
{
    Tensor x = tensor_at(NULL, dtype, (const int64_t[]){ rows, columns }, 2);
    x.data = malloc(tensor_bytes(x));
    assert_non_null(x.data);
    for (int64_t i = 0; i < rows * columns; i++) {
        float value = (float)(2 * random_uniform(key, (uint64_t)i) - 1);
        dtype_convert((char *)x.data + i * (int64_t)dtype_width(dtype), dtype, &value, F32, 1);
    }
    return x;
}

static void same_bits(const char *what, Size s, int kind, Tensor one, Tensor two)
{
    if (memcmp(one.data, two.data, tensor_bytes(one)))
        fail_msg("%s of [%lld, %lld] in %s, kind %d, family %s: other bits", what, (long long)s.T, (long long)s.K,
                 dtype_name(one.dtype), kind, kernel_family_name(queue.kernels));
}

static void activation_case(Size s, Dtype dtype, int kind, bool biased)
{
    int64_t F = ACT_GATED(kind) ? s.K / 2 : s.K;
    Tensor x = tensor_of(dtype, 1, s.T, s.C), w = tensor_of(dtype, 2, s.K, s.C), bias = tensor_of(dtype, 3, 1, s.K);
    Tensor h = tensor_of(dtype, 4, s.T, s.K), y = tensor_of(dtype, 5, s.T, F);
    Tensor h2 = tensor_of(dtype, 6, s.T, s.K), y2 = tensor_of(dtype, 7, s.T, F);
    Tensor bias_K = biased ? tensor_view(bias, s.K) : tensor_none();
    matmul_activation_forward(&queue, (MatmulActivationForward){ .y_TF = y, .h_TK = h, .x_TC = x, .w_KC = w,
                                                                 .bias_K = bias_K, .kind = kind });
    matmul_forward(&queue, (MatmulForward){ .y_TK = h2, .x_TC = x, .w_KC = w });
    activation_forward(&queue, (ActivationForward){ .y_TF = y2, .x_TF = h2, .bias_F = bias_K, .kind = kind });
    same_bits("h", s, kind, h, h2);
    same_bits("y", s, kind, y, y2);
    Tensor all[] = { x, w, bias, h, y, h2, y2 };
    for (int i = 0; i < 7; i++) free(all[i].data);
}

static void residual_case(Size s, Dtype dtype, double p, bool biased)
{
    Tensor x = tensor_of(dtype, 1, s.T, s.C), w = tensor_of(dtype, 2, s.K, s.C), bias = tensor_of(dtype, 3, 1, s.K);
    Tensor y = tensor_of(dtype, 4, s.T, s.K), y2 = tensor_of(dtype, 5, s.T, s.K), z = tensor_of(dtype, 6, s.T, s.K);
    int32_t *index = malloc((size_t)s.T * sizeof *index);
    assert_non_null(index);
    for (int64_t t = 0; t < s.T; t++) index[t] = (int32_t)(3 * t + 1);
    Tensor index_T = tensor_at(index, I32, (const int64_t[]){ s.T }, 1);
    Tensor bias_K = biased ? tensor_view(bias, s.K) : tensor_none();
    matmul_residual_forward(&queue, (MatmulResidualForward){ .y_TK = y, .x_TC = x, .w_KC = w, .residual_TK = z,
                                                             .bias_K = bias_K, .dropout_index_i = index_T, .p = p,
                                                             .site = 4 });
    matmul_forward(&queue, (MatmulForward){ .y_TK = y2, .x_TC = x, .w_KC = w });
    dropout_forward(&queue, (DropoutForward){ .y_TC = y2, .residual_TC = z, .x_TC = y2, .bias_C = bias_K,
                                              .dropout_index_i = index_T, .p = p, .site = 4 });
    same_bits("residual and product", s, 0, y, y2);
    Tensor all[] = { x, w, bias, y, y2, z };
    for (int i = 0; i < 6; i++) free(all[i].data);
    free(index);
}

static void fused_equals_two_operations(void **state)
{
    static const Dtype types[] = { F32, BF16, F16 };
    static const int   kinds[] = { ACT_GELU_TANH, ACT_SWIGLU };
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        StepState step_state = { .seed = 5, .step = 3 };
        assert_int_equal(queue_open(&queue, "cpu", threads, &step_state), OK);
        queue.workspace = &workspace;
        for (KernelFamily f = KERNELS_AUTO + 1; f < KERNEL_FAMILIES; f++)
            for (int i = 0; i < 2 * SIZES && kernel_family_callable(f); i++) {
                Size s = sizes[i / 2];
                bool biased = i % 2;
                if (!kernel_family_runs(f) && s.T * s.K * s.C > LARGE) continue;
                queue.kernels = f;
                Dtype dtype = types[(i / 2 + threads) % 3];
                for (int k = 0; k < 2; k++) activation_case(s, dtype, kinds[k], biased);
                residual_case(s, dtype, i / 2 % 2 ? 0.3 : 0, biased);
            }
        queue_close(&queue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fused_equals_two_operations) };
    if (arena_open(&workspace, "workspace", 64 << 20) != OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_close(&workspace);
    return failed;
}
