/* Muon's update of single matrices: their singular values come near 1, and those of experts are updated each by
 * itself; and what each optimizer's row says. Whole runs are in train.optimizers_test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "comm/transport.h"
#include "optim/optimizer.h"
#include <cmocka.h>                     /* last: it has a macro called fail */

enum { MOST = 96 * 64 };
static const OptimizerSettings settings = { .muon = { .momentum = 0.5, .steps = 5, .scale = MUON_SPECTRAL,
                                            .extra = 2, .coefficients = MUON_QUINTIC, .narrow = true } };

typedef struct {
    const char *device;
    int64_t     rows, columns, matrices;
    double      w[2 * MOST], g[2 * MOST];             /* before the step; w is after it on return */
} Step;

static void set(Tensor x, const double *from) { dtype_convert(x.data, x.dtype, from, F64, tensor_count(x)); }

static Status step_rank(Transport *transport, void *context)
{
    Step *s = context;
    StepState state = { .lr = 0.1, .weight_decay = 0.25, .factor = 0.5 };
    Queue q;
    Arena arena, workspace;
    Comm *world;
    int64_t n = s->rows * s->columns * s->matrices;
    world = comm_world(transport);
    assert_int_equal(queue_open(&q, s->device, 1, &state), OK);
    assert_int_equal(arena_open(&arena, "all", 16 << 20), OK);
    assert_int_equal(arena_open(&workspace, "workspace", 16 << 20), OK);
    q.workspace = &workspace;
    Dtype type = q.backend->compute;
    OptimizerPiece piece = { .rule = &muon_rule, .w = tensor_new(&arena, "w", type, n), .g = tensor_new(&arena, "g", type, n),
        .state = { tensor_new(&arena, "m", type, n) }, .decayed = true, .count = n, .counted = n, .rows = s->rows,
        .columns = s->columns, .local_rows = s->rows, .local_columns = s->columns, .parts = 1, .sums = { 1 } };
    OptimizerRun run = { .queue = &q, .optimizer = optimizer_named("muon"), .settings = &settings, .stage = world, .scratch = &arena, .piece = &piece, .pieces = 1,
        .own_sums_N = tensor_new(&arena, "sums", F64, s->matrices), .sums_N = tensor_new(&arena, "sums", type, s->matrices), .sums = { s->matrices } };
    set(piece.w, s->w);
    set(piece.g, s->g);
    fill_zero(&q, (FillZero){ .y = piece.state[0] });
    optimizer_tensors(&run);
    optimizer_elements(&run, 0, 1);
    dtype_convert(s->w, F64, piece.w.data, type, n);
    arena_close(&workspace);
    arena_close(&arena);
    queue_close(&q);
    comm_close(world);
    return OK;
}

static Step *step_of(const char *device, int64_t rows, int64_t columns, int64_t matrices)
{
    Step *s = calloc(1, sizeof *s);
    *s = (Step){ .device = device, .rows = rows, .columns = columns, .matrices = matrices };
    random_normals(s->g, 5, 0, rows * columns * matrices);
    for (int64_t i = rows * columns; i < rows * columns * matrices; i++) s->g[i] *= 1e-3;
    return s;
}

static void step_run(Step *s) { assert_int_equal(transport_threads_run(1, step_rank, s), OK); }

/* w = 0 before, so that -w / (lr scale) is the matrix made orthogonal: rows, or columns of a tall one, are nearly
 * orthonormal. The polynomials leave singular values within 0.7 and 1.2. */
static void test_orthogonal(void **state)
{
    (void)state;
    static const int64_t shape[][2] = { { 32, 96 }, { 96, 32 }, { 48, 48 } };
    for (int i = 0; i < 3; i++) {
        int64_t R = shape[i][0], C = shape[i][1], A = R < C ? R : C, B = R + C - A;
        Step *s = step_of("ref", R, C, 1);
        step_run(s);
        double scale = 0.1 * 2 * sqrt((double)B), trace = 0, apart = 0;
        for (int64_t a = 0; a < A; a++)
            for (int64_t c = 0; c < A; c++) {
                double dot = 0;
                for (int64_t b = 0; b < B; b++)
                    dot += s->w[R <= C ? a * C + b : b * C + a] * s->w[R <= C ? c * C + b : b * C + c];
                dot /= scale * scale;
                if (a == c) trace += dot;
                apart += pow(dot - (a == c), 2);
            }
        if (!(fabs(trace / (double)A - 1) < 0.25)) fail_msg("%dx%d: mean of squared singular values %g", (int)R, (int)C, trace / (double)A);
        if (!(sqrt(apart / (double)A) < 0.4)) fail_msg("%dx%d: singular values are off by %g", (int)R, (int)C, sqrt(apart / (double)A));
        free(s);
    }
}

/* Two experts with gradients of sizes 1 and 1e-3: each has the update that it has alone. */
static void test_experts(void **state)
{
    (void)state;
    for (int r = 0; r < 2; r++) {
        int64_t rows = r ? 40 : 24, columns = r ? 24 : 40, n = rows * columns;
        Step *both = step_of("ref", rows, columns, 2);
        for (int e = 0; e < 2; e++) {
            Step *one = step_of("ref", rows, columns, 1), *two = step_of("ref", rows, columns, 2);
            memcpy(one->g, two->g + e * n, (size_t)n * sizeof(double));
            step_run(one);
            if (e == 0) step_run(both);
            assert_memory_equal(one->w, both->w + e * n, (size_t)n * sizeof(double));
            free(one);
            free(two);
        }
        free(both);
    }
}

/* In bf16 the update is that of double within its roundings. */
static void test_narrow(void **state)
{
    (void)state;
    Step *wide = step_of("ref", 64, 96, 1), *narrow = step_of("cpu", 64, 96, 1);
    double apart = 0, size = 0;
    step_run(wide);
    step_run(narrow);
    for (int i = 0; i < 64 * 96; i++) apart += pow(wide->w[i] - narrow->w[i], 2), size += pow(wide->w[i], 2);
    if (!(sqrt(apart / size) < 0.03 && apart > 0)) fail_msg("bf16 is off by %g", sqrt(apart / size));
    free(wide);
    free(narrow);
}

static void test_rows(void **state)
{
    (void)state;
    static const char *const name[] = { "adam", "sgd", "lion", "lamb", "muon" };
    for (int i = 0; i < 5; i++) assert_string_equal(optimizer_named(name[i])->name, name[i]);
    assert_null(optimizer_named("tiger"));
    assert_true(optimizers_share_states("adam", "lamb") && optimizers_share_states("muon", "muon"));
    assert_false(optimizers_share_states("adam", "muon") || optimizers_share_states("adam", "adopt") || optimizers_share_states("sgd", "lion") || optimizers_share_states("adam", "tiger"));
    const Optimizer *muon = optimizer_named("muon");
    ParamGranule granule = optimizer_granule(muon);
    ModelConfig config = { .layers = 1, .hidden = 8, .ffn = 16, .heads = 2, .groups = 2, .head_dim = 4, .vocabulary = 9 };
    ParamBlock block, embedding;
    params_block(&block, &config, PARAMS_DENSE, 2, NULL);
    params_block(&embedding, &config, PARAMS_DENSE, 0, NULL);
    assert_ptr_equal(optimizer_rule(muon, &block.param[block.index_of[PARAM_MLP_UP_WEIGHT]]), &muon_rule);
    assert_int_equal(granule.elements(granule.context, &block.param[block.index_of[PARAM_MLP_UP_WEIGHT]]), 8 * 16);
    assert_int_equal(granule.elements(granule.context, &block.param[block.index_of[PARAM_NORM1_GAIN]]), 1);
    assert_string_equal(optimizer_rule(muon, &block.param[block.index_of[PARAM_NORM1_GAIN]])->state[1].name, "exp_avg_sq");
    assert_ptr_not_equal(optimizer_rule(muon, &embedding.param[0]), &muon_rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_orthogonal), cmocka_unit_test(test_experts),
                                        cmocka_unit_test(test_narrow), cmocka_unit_test(test_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
