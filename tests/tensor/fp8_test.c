/* Scales and linear maps of 8-bit numbers on `cpu`, against NVIDIA Transformer Engine's rules in PyTorch
 * (tests/oracles/fp8_golden.py, which prints the tables below). */
#include "base/testing.h"

#include <math.h>
#include <string.h>
#include "tensor/ops.h"

enum { STEPS = 14, MOST = 16, T = 3, K = 4, C = 5 };
static const float amaxes[STEPS] = { 3.0f, 0.5f, 0, 7.25f, 1e-3f, INFINITY, 2, 2, 1e-40f, 0.1f, 0, 0, 0, 5 };
static const struct { Dtype format; int64_t length; bool most_recent; int margin; float scale[STEPS]; } delayed[] = {
    { F8_E4M3, 1, true, 0, { 149.333328, 896, 896, 61.7931023, 447999.969, 447999.969, 224, 224,
      3.40282347e+38, 4480, 4480, 4480, 4480, 89.5999985 } },
    { F8_E4M3, 4, false, 0, { 149.333328, 149.333328, 149.333328, 61.7931023, 61.7931023, 61.7931023,
      61.7931023, 61.7931023, 61.7931023, 224, 224, 4480, 4480, 89.5999985 } },
    { F8_E5M2, 4, true, 2, { 4778.6665, 28672, 28672, 1977.37927, 14335999, 14335999, 7168, 7168,
      3.40282347e+38, 143360, 143360, 143360, 143360, 2867.19995 } },
    { F8_E5M2, 2, false, 1, { 9557.33301, 9557.33301, 57344, 3954.75854, 3954.75854, 3954.75854,
      3954.75854, 14336, 14336, 286720, 286720, 286720, 286720, 5734.3999 } },
    { F8_E4M3, 16, false, 3, { 18.666666, 18.666666, 18.666666, 7.72413778, 7.72413778, 7.72413778,
      7.72413778, 7.72413778, 7.72413778, 7.72413778, 7.72413778, 7.72413778, 7.72413778, 7.72413778 } },
};

/* Of x [T, C], w [K, C] and dy [T, K]: scales and 8-bit numbers; y = x wT, dx = dy w, dw = dyT x. */
static const struct {
    Dtype   format;
    float   scale[3];
    uint8_t x[T * C], w[K * C], dy[T * K];
    double  y[T * K], dx[T * C], dw[K * C];
} linear[] = {
    { F8_E5M2, { 155.82608, 3733.3335, 1146880 },
      { 0xfc, 0xda, 0x7b, 0xf9, 0x6a, 0x7e, 0xf4, 0x73, 0xfe, 0xeb, 0x79, 0xfb, 0x52, 0x7c, 0xf8 },
      { 0xf4, 0x71, 0xfe, 0xed, 0x77, 0xfb, 0xd1, 0x7b, 0xf8, 0x6b, 0x7d, 0xf3, 0x73, 0xfd, 0xe9, 0x78,
        0xfa, 0x59, 0x7b, 0xf7 },
      { 0xfa, 0xef, 0x78, 0xf9, 0x6c, 0x7a, 0xf6, 0x74, 0xfb, 0xf3, 0x77, 0xfa },
      { -0.0647975127, 0.58447714, 0.0339939413, -0.354351084, -0.287133291, 0.0222225765, 0.762938456,
        0.073433514, -0.364142219, -0.370467952, 0.0725534119, 0.658625737 },
      { 0.00352806107, 7.62914508e-05, 0.00572831608, -0.00492857121, -0.00115752546, -0.00563265282,
        -0.000179846931, 0.00267091825, 0.000696428541, 0.000734693846, 0.00359693862, 0.000596460433,
        0.00579336709, -0.00457653041, -0.00123596933 },
      { 0.0234693888, 0.114046561, -0.0959861329, -0.0542729615, 0.0581234081, 0.115513398, -0.02376734,
        0.0334851338, -0.142466524, -0.00687579749, -0.0858099526, -0.0337372463, 0.0419423647,
        0.0704081663, -0.0143016588, 0.0498724511, 0.083793052, -0.0672911381, -0.0806760238,
        0.0440051039 },
    },
    { F8_E4M3, { 155.82608, 3733.3335, 8960 },
      { 0xfc, 0xda, 0x7b, 0xf9, 0x6a, 0x7e, 0xf4, 0x73, 0xfe, 0xeb, 0x79, 0xfb, 0x52, 0x7c, 0xf8 },
      { 0xf4, 0x71, 0xfe, 0xed, 0x77, 0xfb, 0xd1, 0x7b, 0xf8, 0x6b, 0x7d, 0xf3, 0x73, 0xfd, 0xe9, 0x78,
        0xfa, 0x59, 0x7b, 0xf7 },
      { 0xfc, 0xe5, 0x79, 0xf9, 0x61, 0x7b, 0xf5, 0x70, 0xfe, 0xef, 0x75, 0xfb },
      { -0.0647975127, 0.58447714, 0.0339939413, -0.354351084, -0.287133291, 0.0222225765, 0.762938456,
        0.073433514, -0.364142219, -0.370467952, 0.0725534119, 0.658625737 },
      { 0.00412882635, -0.000399274536, 0.00595599464, -0.00502040794, -0.00144547188, -0.0055178569,
        -6.98341806e-05, 0.00219642848, 0.00112786985, 0.000713647928, 0.00372704065, 0.000376674091,
        0.00564221914, -0.00397959166, -0.0014521683 },
      { 0.024752871, 0.113496497, -0.0954819078, -0.0555564437, 0.0578712955, 0.102495221, -0.0174072273,
        0.0304024846, -0.135224017, -0.00316286684, -0.103045285, -0.0279615764, 0.0478784698,
        0.0645408191, -0.00852598888, 0.0476721959, 0.0752670632, -0.0589943424, -0.0784757686,
        0.0399713027 },
    },
};

static Queue q;
static Arena arena;

static Tensor single(int64_t n, int64_t m) { return tensor_new(&arena, "test", F32, n, m); }
static Tensor one_scale(void)
{
    Tensor x = tensor_new(&arena, "test", F32, 1);
    *(float *)x.data = 1;
    return x;
}

static void scales_follow_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof delayed / sizeof *delayed; i++) {
        arena_reset(&arena, 0);
        float scale = 1, amax, history[MOST] = { 0 };
        int64_t one[] = { 1, 1, delayed[i].length };
        Fp8Scale a = { .scale_NK = tensor_at(&scale, F32, one, 2), .amax_NK = tensor_at(&amax, F32, one, 2),
                       .history_NKL = tensor_at(history, F32, one, 3), .format = delayed[i].format,
                       .margin = delayed[i].margin, .most_recent = delayed[i].most_recent };
        for (int s = 0; s < STEPS; s++) {
            amax = amaxes[s];
            fp8_scale(&q, a);
            if (scale != delayed[i].scale[s])
                fail_msg("run %zu, step %d: scale %.9g, wanted %.9g", i, s, (double)scale, (double)delayed[i].scale[s]);
            assert_true(history[0] == 0);
        }
    }
}

static Tensor numbers(int64_t rows, int64_t columns, int seed, float size)
{
    Tensor x = single(rows, columns);
    for (int i = 0; i < rows * columns; i++) ((float *)x.data)[i] = (float)((i * 37 + seed) % 101 - 50) / size;
    return x;
}

/* Current scaling: the scale from the amax of these very numbers. */
static Tensor quantized(Tensor x, Tensor scale_1, Dtype format, float scale, const uint8_t *bytes)
{
    Tensor amax = one_scale(), q_TC = tensor_new(&arena, "test", format, x.dim[0], x.dim[1]);
    *(float *)amax.data = 0;
    fp8_amax(&q, (Fp8Amax){ .amax_1 = amax, .x_TC = x });
    fp8_scale(&q, (Fp8Scale){ .scale_NK = tensor_view(scale_1, 1, 1), .amax_NK = tensor_view(amax, 1, 1),
                              .format = format });
    assert_true(*(float *)scale_1.data == scale);
    fp8_quantize(&q, (Fp8Quantize){ .q_TC = q_TC, .x_TC = x, .scale_1 = scale_1 });
    assert_memory_equal(q_TC.data, bytes, tensor_bytes(q_TC));
    return q_TC;
}

static void near(const char *what, Tensor x, const double *want)
{
    for (int64_t i = 0; i < tensor_count(x); i++) {
        double got = (double)((float *)x.data)[i];
        if (!(fabs(got - want[i]) <= 1e-6)) fail_msg("%s[%d] is %.9g, wanted %.9g", what, (int)i, got, want[i]);
    }
}

static void linear_layer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        arena_reset(&arena, 0);
        Tensor sx = one_scale(), sw = one_scale(), sd = one_scale();
        Tensor y = single(T, K), dx = single(T, C), dw = single(K, C);
        Tensor x = quantized(numbers(T, C, 11, 16), sx, F8_E4M3, linear[i].scale[0], linear[i].x);
        Tensor w = quantized(numbers(K, C, 29, 400), sw, F8_E4M3, linear[i].scale[1], linear[i].w);
        Tensor dy = quantized(numbers(T, K, 7, 1000), sd, linear[i].format, linear[i].scale[2], linear[i].dy);
        fill_zero(&q, (FillZero){ .y = dw });
        fp8_matmul_forward(&q, (Fp8MatmulForward){ .y_TK = y, .x_TC = x, .w_KC = w, .x_scale_1 = sx, .w_scale_1 = sw });
        fp8_matmul_backward_input(&q, (Fp8MatmulBackwardInput){ .dx_TC = dx, .dy_TK = dy, .w_KC = w,
            .dy_scale_1 = sd, .w_scale_1 = sw });
        fp8_matmul_backward_weight(&q, (Fp8MatmulBackwardWeight){ .dw_KC = dw, .dy_TK = dy, .x_TC = x,
            .dy_scale_1 = sd, .x_scale_1 = sx });
        near("y", y, linear[i].y);
        near("dx", dx, linear[i].dx);
        near("dw", dw, linear[i].dw);
    }
}

/* A NaN stays one and is no amax; an infinity becomes the largest number; current scaling takes 1 where amax
 * is 0 or infinite, whatever the scale was. */
static void not_numbers(void **state)
{
    (void)state;
    arena_reset(&arena, 0);
    static const float special[] = { NAN, 2, INFINITY, -INFINITY, -NAN };
    static const float amax[] = { 0, INFINITY };
    Tensor x = single(1, 5), most = one_scale(), scale = one_scale();
    memcpy(x.data, special, sizeof special);
    for (int e5m2 = 0; e5m2 < 2; e5m2++) {
        Dtype  format = e5m2 ? F8_E5M2 : F8_E4M3;
        Tensor q_TC = tensor_new(&arena, "test", format, 1, 5);
        float  back[5];
        fp8_quantize(&q, (Fp8Quantize){ .q_TC = q_TC, .amax_1 = most, .x_TC = x, .scale_1 = scale });
        dtype_convert(back, F32, q_TC.data, format, 5);
        assert_true(isnan(back[0]) && back[1] == 2 && isnan(back[4]));
        assert_true((double)back[2] == dtype_max(format) && (double)back[3] == -dtype_max(format));
        assert_true(*(float *)most.data == INFINITY);
    }
    *(float *)most.data = 1;
    ((float *)x.data)[2] = ((float *)x.data)[3] = 0;
    fp8_amax(&q, (Fp8Amax){ .amax_1 = most, .x_TC = x });
    assert_true(*(float *)most.data == 2);
    for (int i = 0; i < 2; i++) {
        *(float *)most.data  = amax[i];
        *(float *)scale.data = 77;
        fp8_scale(&q, (Fp8Scale){ .scale_NK = tensor_view(scale, 1, 1), .amax_NK = tensor_view(most, 1, 1),
                                  .format = F8_E4M3 });
        assert_true(*(float *)scale.data == 1);
    }
}

int main(void)
{
    static StepState step_state;
    static Arena workspace;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_follow_the_rule), cmocka_unit_test(linear_layer), cmocka_unit_test(not_numbers),
    };
    if (queue_open(&q, "cpu", 1, &step_state) != OK) return 1;
    if (arena_open(&arena, "test", 1 << 20) != OK || arena_open(&workspace, "workspace", 16 << 20) != OK) return 1;
    q.workspace = &workspace;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    queue_close(&q);
    arena_close(&workspace);
    arena_close(&arena);
    return failed;
}
