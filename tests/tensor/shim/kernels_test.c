/* Kernels against the ref back end: under the CPU shim in three orders of blocks and threads, on a GPU three
 * times over. The same F32 values go to both. An error is the largest difference as a share of the tensor's
 * largest value, and the bits must be the same each time. Device rows are wider than the tensor, with NaN
 * beyond it, which must neither be used nor touched. */
#include "base/random.h"
#include "tensor/cuda/kernels.h"
#include "tensor/ref/ref.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>                                 /* last: its `fail` is a macro */
#ifdef GPU_CPU
#include "order.h"
static const unsigned ORDERS[] = { 0, 1, 7 };
#else
static const unsigned ORDERS[] = { 0, 0, 0 };
static void gpu_cpu_order(unsigned seed) { (void)seed; }
#endif

enum { REF, GPU, SIDES, MOST_TWINS = 16, PAD = 3, WORKSPACE = 1 << 20, HOST_BYTES = 16 << 20 };

/* The same values in F64 on the host and in F32 on the device, there with rows `stride` apart. */
typedef struct { Tensor side[SIDES]; int64_t rows, width, stride; } Twin;

typedef struct { Queue queue; GpuStream gpu; } CudaQueue;

typedef struct {
    Arena     arena;
    StepState      step_state, *device_tick;
    Queue     ref;
    CudaQueue gpu;
    Queue    *queue[SIDES];
    uint64_t  index, bits;                       /* of the next random value; a hash of all results so far */
    void     *memory[MOST_TWINS];
    int       twins;
} Lab;

/* ---- twins ---- */
static void *device_memory(Lab *lab, size_t bytes)
{
    assert_true(lab->twins < MOST_TWINS);
    return lab->memory[lab->twins++] = gpu_alloc(bytes);
}

static void upload(Lab *lab, Twin x)
{
    float *cell = malloc(sizeof(float) * (size_t)(x.rows * x.stride));
    for (int64_t r = 0; r < x.rows; r++)
        for (int64_t c = 0; c < x.stride; c++)
            cell[r * x.stride + c] = c < x.width ? (float)((double *)x.side[REF].data)[r * x.width + c] : NAN;
    gpu_copy(&lab->gpu.gpu, x.side[GPU].data, cell, sizeof(float) * (size_t)(x.rows * x.stride));
    gpu_stream_wait(&lab->gpu.gpu);
    free(cell);
}

/* Values shift + scale * [-1, 1) that F32 holds. */
static Twin twin_of(Lab *lab, double shift, double scale, const int64_t *dim, int dims)
{
    Twin x = { .rows = 1, .width = dim[dims - 1] };
    for (int d = 0; d < dims - 1; d++) x.rows *= dim[d];
    x.stride = dims > 1 ? x.width + PAD : x.width;
    x.side[REF] = tensor_push(&lab->arena, "twin", F64, dim, dims);
    x.side[GPU] = tensor_at(device_memory(lab, sizeof(float) * (size_t)(x.rows * x.stride)), F32, dim, dims);
    for (int d = 0; d < dims - 1; d++) x.side[GPU].stride[d] = x.side[GPU].stride[d] / x.width * x.stride;
    double *value = x.side[REF].data;
    for (int64_t i = 0; i < x.rows * x.width; i++)
        value[i] = (float)(shift + scale * (2 * random_uniform(1, lab->index++) - 1));
    upload(lab, x);
    return x;
}
#define TWIN(lab, shift, scale, ...)                            \
    twin_of(lab, shift, scale, (const int64_t[]){ __VA_ARGS__ }, \
            (int)(sizeof (int64_t[]){ __VA_ARGS__ } / sizeof(int64_t)))

static Twin twin_if(Lab *lab, bool there, int64_t n)
{
    return there ? TWIN(lab, 0, 1, n) : (Twin){ .side = { tensor_none(), tensor_none() } };
}

static Twin twin_ids(Lab *lab, int64_t below, int64_t count)
{
    Twin x = { .side[REF] = tensor_new(&lab->arena, "ids", I32, count) };
    int32_t *id = x.side[REF].data;
    for (int64_t i = 0; i < count; i++) id[i] = (int32_t)(random_uniform(2, lab->index++) * (double)below);
    size_t bytes = tensor_bytes(x.side[REF]);
    x.side[GPU] = x.side[REF];
    x.side[GPU].data = device_memory(lab, bytes);
    gpu_copy(&lab->gpu.gpu, x.side[GPU].data, x.side[REF].data, bytes);
    gpu_stream_wait(&lab->gpu.gpu);
    return x;
}

static double difference(double got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    return got == want ? 0 : isfinite(want) && isfinite(got) ? fabs(got - want) : INFINITY;
}

static void compare(Lab *lab, const char *what, Twin x, double allowed)
{
    size_t bytes = sizeof(float) * (size_t)(x.rows * x.stride);
    float *cell = malloc(bytes);
    gpu_copy(&lab->gpu.gpu, cell, x.side[GPU].data, bytes);
    gpu_stream_wait(&lab->gpu.gpu);
    double worst = 0, largest = 1e-30;
    for (int64_t i = 0; i < x.rows * x.stride; i++) {
        int64_t  r = i / x.stride, c = i % x.stride;
        double   want = c < x.width ? ((double *)x.side[REF].data)[r * x.width + c] : NAN;
        uint32_t bits;
        memcpy(&bits, &cell[i], sizeof bits);
        lab->bits = random_mix(lab->bits, bits);
        worst     = fmax(worst, difference(cell[i], want));
        if (isfinite(want)) largest = fmax(largest, fabs(want));
    }
    free(cell);
    double share = worst / largest;
    if (getenv("KERNELS_TEST_ERRORS")) print_message("%-32s %8.1e of %.0e\n", what, share, allowed);
    if (share > allowed)
        fail_msg("%s is off by %.1e of its largest value, allowed are %.1e", what, share, allowed);
}

/* ---- the lab ---- */
static void set_tick(Lab *lab, StepState step_state)
{
    lab->step_state = step_state;
    gpu_copy(&lab->gpu.gpu, lab->device_tick, &step_state, sizeof step_state);
    gpu_stream_wait(&lab->gpu.gpu);
}

static void in_each_order(const char *what, void (*experiment)(Lab *))
{
    uint64_t bits = 0;
    for (size_t k = 0; k < sizeof ORDERS / sizeof *ORDERS; k++) {
        Lab lab = { .device_tick = gpu_alloc(sizeof(StepState)) };
        lab.ref       = (Queue){ .step_state = &lab.step_state };
        lab.gpu.queue = (Queue){ .step_state = lab.device_tick, .device = &lab.gpu.gpu,
            .op_workspace = gpu_alloc(WORKSPACE), .op_workspace_bytes = WORKSPACE };
        lab.queue[REF] = &lab.ref;
        lab.queue[GPU] = &lab.gpu.queue;
        assert_int_equal(arena_open(&lab.arena, "lab", HOST_BYTES), OK);
        assert_int_equal(gpu_stream_open(&lab.gpu.gpu, 0), OK);
        gpu_cpu_order(ORDERS[k]);
        set_tick(&lab, (StepState){ .gradient_scale = 1 });
        experiment(&lab);
        if (k > 0 && lab.bits != bits) fail_msg("%s: other bits in order %u", what, ORDERS[k]);
        bits = lab.bits;
        while (lab.twins > 0) gpu_free(lab.memory[--lab.twins]);
        gpu_free(lab.device_tick);
        gpu_free(lab.gpu.queue.op_workspace);
        gpu_stream_close(&lab.gpu.gpu);
        arena_close(&lab.arena);
    }
}

/* Gives back what an experiment took, so that the next shape can start. */
static void clear(Lab *lab)
{
    while (lab->twins > 0) gpu_free(lab->memory[--lab->twins]);
    arena_reset(&lab->arena, 0);
}

#define EACH(shape, list) (size_t shape = 0; shape < sizeof(list) / sizeof *(list); shape++)
/* The op on both sides; a field is filled from the twin of its name. */
#define BOTH(name, ...) \
    for (int s = 0; s < SIDES; s++) (s == GPU ? cuda_##name : ref_##name)(lab->queue[s], &(__VA_ARGS__))
#define ARG(name) .name = name.side[s]

/* ---- norms ---- */
static void norm_experiment(Lab *lab, int64_t T, int64_t C, bool layer, float offset)
{
    Twin x_TC = TWIN(lab, 3, 2, T, C), gain_C = TWIN(lab, 1, 0.5, C), bias_C = twin_if(lab, layer, C);
    Twin y_TC = TWIN(lab, 0, 1, T, C), mean_T = twin_if(lab, layer, T), rstd_T = TWIN(lab, 0, 1, T);
    Twin dy_TC = TWIN(lab, 0, 1, T, C), dx_TC = TWIN(lab, 0, 1, T, C), residual_TC = TWIN(lab, 0, 1, T, C);
    BOTH(norm_forward, (NormForward){ ARG(y_TC), ARG(mean_T), ARG(rstd_T), ARG(x_TC), ARG(gain_C),
         ARG(bias_C), .epsilon = 1e-5, .gain_offset = offset });
    compare(lab, "norm_forward y", y_TC, 1e-6);
    compare(lab, "norm_forward rstd", rstd_T, 1e-6);
    if (layer) compare(lab, "norm_forward mean", mean_T, 5e-7);

    upload(lab, rstd_T);                            /* the backward pass starts from equal values again */
    if (layer) upload(lab, mean_T);
    BOTH(norm_backward_input, (NormBackwardInput){ ARG(dx_TC), ARG(dy_TC), ARG(x_TC), ARG(mean_T),
         ARG(rstd_T), ARG(gain_C), .residual_TC = tensor_none(), .gain_offset = offset });
    BOTH(norm_backward_input, (NormBackwardInput){ .dx_TC = residual_TC.side[s], ARG(dy_TC), ARG(x_TC),
         ARG(mean_T), ARG(rstd_T), ARG(gain_C), ARG(residual_TC), .gain_offset = offset });            /* in place */
    compare(lab, "norm_backward_input dx", dx_TC, 2e-6);
    compare(lab, "norm_backward_input dx + residual", residual_TC, 2e-6);
    clear(lab);
}

static void norm_weight_experiment(Lab *lab, int64_t T, int64_t C, bool layer)
{
    Twin x_TC = TWIN(lab, 3, 2, T, C), dy_TC = TWIN(lab, 0, 1, T, C);
    Twin mean_T = twin_if(lab, layer, T), rstd_T = TWIN(lab, 1, 0.5, T);
    Twin dgain_C = TWIN(lab, 0, 1, C), dbias_C = twin_if(lab, layer, C);
    BOTH(norm_backward_weight, (NormBackwardWeight){ ARG(dgain_C), ARG(dbias_C), ARG(dy_TC), ARG(x_TC),
         ARG(mean_T), ARG(rstd_T) });
    compare(lab, "norm_backward_weight dgain", dgain_C, 2e-6);
    if (layer) compare(lab, "norm_backward_weight dbias", dbias_C, 2e-6);
    clear(lab);
}

static void norm_experiments(Lab *lab)
{
    static const int64_t ROWS[][2]    = { { 3, 5 }, { 1, 300 }, { 5, 67 }, { 2, 1025 } };       /* T, C */
    static const int64_t COLUMNS[][2] = { { 1, 1 }, { 5, 300 }, { 70, 33 }, { 1100, 5 } };
    for (int layer = 0; layer < 2; layer++) {
        for EACH(i, ROWS) norm_experiment(lab, ROWS[i][0], ROWS[i][1], layer, (float)(i % 2));
        for EACH(i, COLUMNS) norm_weight_experiment(lab, COLUMNS[i][0], COLUMNS[i][1], layer);
    }
}

/* ---- activations ---- */
static void activation_experiment(Lab *lab, int kind, bool biased, int64_t T, int64_t F)
{
    int64_t wide = ACT_GATED(kind) ? 2 * F : F;
    Twin x_TF = TWIN(lab, 0, 5, T, wide), bias_F = twin_if(lab, biased, wide), y_TF = TWIN(lab, 0, 1, T, F);
    Twin dy_TF = TWIN(lab, 0, 1, T, F);
    Twin dx_TF = ACT_GATED(kind) ? TWIN(lab, 0, 1, T, wide) : dy_TF;      /* in place where it can be */
    BOTH(activation_forward, (ActivationForward){ ARG(y_TF), ARG(x_TF), ARG(bias_F), .kind = kind });
    BOTH(activation_backward, (ActivationBackward){ ARG(dx_TF), ARG(dy_TF), ARG(x_TF), ARG(bias_F),
         .kind = kind });
    compare(lab, "activation_forward y", y_TF, 1e-6);
    compare(lab, "activation_backward dx", dx_TF, 2e-6);
    clear(lab);
}

static void activation_experiments(Lab *lab)
{
    static const int64_t SHAPES[][2] = { { 9, 1 }, { 1, 300 }, { 7, 33 } };
    for EACH(i, SHAPES)
        for (int kind = ACT_GELU_TANH; kind < ACT_KINDS; kind++)
            for (int biased = 0; biased < 2; biased++)
                activation_experiment(lab, kind, biased, SHAPES[i][0], SHAPES[i][1]);
}

/* ---- cross entropy ---- */
enum { FIRST = 10 };

/* The columns of one rank, which holds only some of the targets, and invented stats of a second rank. */
static void xent_experiment(Lab *lab, int64_t T, int64_t V, int64_t valid, double softcap)
{
    Twin logits_TV = TWIN(lab, 0, 20, T, V), target_i = twin_ids(lab, V + 2 * FIRST, T);
    Twin loss_weight_T = TWIN(lab, 0, 1, T), stats_T3 = TWIN(lab, 0, 1, T, 3);
    Twin stats_RT3 = TWIN(lab, 2, 1, 2, T, 3);
    Twin loss_T = TWIN(lab, 0, 1, T), lse_T = TWIN(lab, 0, 1, T);
    double *logit = logits_TV.side[REF].data, *stats = stats_RT3.side[REF].data, *lse = lse_T.side[REF].data;
    for (int64_t t = 0; t < T; t++) {
        if (V > 1 && softcap == 0) logit[t * V + V / 2] = -INFINITY;
        if (valid == 0) stats[3 * t] = -INFINITY;                       /* as of a rank without words: */
        if (valid == 0) stats[3 * t + 1] = stats[3 * t + 2] = 0;        /* the whole first rank of the two */
    }
    upload(lab, logits_TV);
    upload(lab, stats_RT3);
    if (softcap > 0) {
        BOTH(logit_softcap, (LogitSoftcap){ .x_TV = logits_TV.side[s], .softcap = softcap });
        compare(lab, "logit_softcap x", logits_TV, 1e-6);
        upload(lab, logits_TV);
    }
    BOTH(xent_stats, (XentStats){ ARG(stats_T3), ARG(logits_TV), ARG(target_i), .first = FIRST,
         .valid = valid });
    BOTH(xent_forward, (XentForward){ ARG(loss_T), ARG(lse_T), ARG(stats_RT3) });
    compare(lab, "xent_stats stats", stats_T3, 1e-6);
    compare(lab, "xent_forward loss", loss_T, 1e-6);
    compare(lab, "xent_forward lse", lse_T, 5e-7);
    for (int64_t t = 0; t < T; t++) lse[t] = 22;     /* above all logits, as the lse of a whole row is */
    upload(lab, lse_T);
    BOTH(xent_backward, (XentBackward){ .dlogits_TV = logits_TV.side[s], ARG(logits_TV), ARG(lse_T), ARG(target_i), ARG(loss_weight_T),
         .first = FIRST, .valid = valid, .softcap = softcap, .z = softcap > 0 ? 1e-2 : 0 });
    compare(lab, "xent_backward dlogits", logits_TV, 1e-6);
    clear(lab);
}

static void xent_experiments(Lab *lab)
{
    static const int64_t SHAPES[][3] = { { 1, 1, 1 }, { 3, 300, 257 }, { 5, 1000, 1000 }, { 300, 7, 5 },
                                         { 2, 40, 0 } };                                /* T, V, valid */
    for EACH(i, SHAPES) xent_experiment(lab, SHAPES[i][0], SHAPES[i][1], SHAPES[i][2], 0);
    for EACH(i, SHAPES) xent_experiment(lab, SHAPES[i][0], SHAPES[i][1], SHAPES[i][2], 30);
}

/* ---- embedding ---- */
static void embed_experiments(Lab *lab)
{
    static const int64_t SHAPES[][3] = { { 1, 1, 1 }, { 40, 67, 10 }, { 300, 300, 50 }, { 130, 5, 1 } };
    for EACH(i, SHAPES) {
        int64_t T = SHAPES[i][0], C = SHAPES[i][1], V = SHAPES[i][2];
        Twin dtable_VC = TWIN(lab, 0, 1, V, C), id_i = twin_ids(lab, V + 6, T), dy_TC = TWIN(lab, 0, 1, T, C);
        BOTH(embed_backward, (EmbedBackward){ ARG(dtable_VC), ARG(id_i), ARG(dy_TC), .first = 3, .scale = i % 2 ? 27.75 : 1 });
        compare(lab, "embed_backward dtable", dtable_VC, 1e-6);
        clear(lab);
    }
}

/* ---- AdamW ---- */
static void adamw_experiments(Lab *lab)
{
    static const int64_t COUNTS[] = { 1, 1000, 262144 + 7 };    /* the last: more than one element a thread */
    static const StepState TICKS[] = { { .lr = 1e-2, .weight_decay = 1, .factor = 0.125 },
                                  { .lr = 1e-2, .weight_decay = 0.3, .factor = 3, .updates = 999 },
                                  { .lr = 1e-2, .factor = NAN, .skip = 1 } };
    for EACH(i, COUNTS)
        for EACH(k, TICKS) {
            if (COUNTS[i] > 1000 && k > 0) continue;
            Twin w_N = TWIN(lab, 0, 1, COUNTS[i]), m_N = TWIN(lab, 0, 1e-2, COUNTS[i]);
            Twin v_N = TWIN(lab, 1e-3, 1e-3, COUNTS[i]), g_N = TWIN(lab, 0, 1, COUNTS[i]);
            set_tick(lab, TICKS[k]);
            BOTH(adamw, (Adamw){ ARG(w_N), ARG(m_N), ARG(v_N), ARG(g_N), .beta1 = 0.9, .beta2 = 0.95,
                 .epsilon = 1e-8, .decay = 0.1 });
            double allowed = TICKS[k].skip ? 0 : 5e-7;
            compare(lab, "adamw w", w_N, allowed);
            compare(lab, "adamw m", m_N, allowed);
            compare(lab, "adamw v", v_N, allowed);
            clear(lab);
        }
}

static void norm_test(void **state)       { (void)state; in_each_order("norm", norm_experiments); }
static void activation_test(void **state) { (void)state; in_each_order("act", activation_experiments); }
static void xent_test(void **state)       { (void)state; in_each_order("xent", xent_experiments); }
static void embed_test(void **state)      { (void)state; in_each_order("embed", embed_experiments); }
static void adamw_test(void **state)      { (void)state; in_each_order("adamw", adamw_experiments); }

int main(void)
{
    GpuStream probe;
    if (gpu_stream_open(&probe, 0) != OK) {
        printf("skipped: %s\n", fail_text());
        return 77;
    }
    gpu_stream_close(&probe);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_test),  cmocka_unit_test(activation_test), cmocka_unit_test(xent_test),
        cmocka_unit_test(embed_test), cmocka_unit_test(adamw_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
