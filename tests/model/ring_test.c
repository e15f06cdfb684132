/* Ring attention with key ranges: whatever the ranges reach, also forward, cp ranks give what one rank gives, and take the same
 * scratch. Ranks are threads; a rank's rows of the global tensors are the parts r and 2 c - 1 - r of each sequence.
 *
 *  B sequences   S positions of a whole one   H query, G key-value heads of D channels   W = (H + 2 G) D   O = H D             */
#include "base/testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/random.h"
#include "comm/transport.h"
#include "model/model_internal.h"

enum { B = 2, S = 32, H = 4, G = 2, D = 4, W = (H + 2 * G) * D, O = H * D, RANKS_MAX = 4 };
enum { CAUSAL, BIDIRECTIONAL, PREFIX, WINDOW, DOCUMENTS, FAR, NONE_FOR_SOME, RANGES };
static const char *const range_name[RANGES] = { "causal", "bidirectional", "prefix", "window", "documents", "far keys alone", "no keys for some" };

typedef struct {
    int         range, ranks;
    double      dropout;
    const char *device;
    MixedPrecision mixed;
    double      qkv[B * S][W], d_out[B * S][O];          /* in */
    double      out[B * S][O], dqkv[B * S][W];           /* out */
    size_t      scratch_peak[RANKS_MAX];
} Attended;

/* The keys that query i of sequence b sees */
static void range_of(int range, int b, int i, int32_t keys[2])
{
    int prefix = 11 + 10 * b, document = i < 13 + b ? 0 : 13 + b;
    keys[0] = 0;
    keys[1] = S;
    switch (range) {
    case PREFIX:        keys[1] = i < prefix ? prefix : i + 1; break;
    case WINDOW:        keys[0] = i < 3 ? 0 : i - 3;  keys[1] = i + 6 > S ? S : i + 6; break;
    case DOCUMENTS:     keys[0] = document;  keys[1] = document ? S : 13 + b; break;
    case FAR:           keys[0] = i < S / 2 ? S - 6 : 1;  keys[1] = i < S / 2 ? S - 1 : 7; break;
    case NONE_FOR_SOME: if (i % 3 == b) keys[1] = 0; break;
    }
}

static int64_t global_row(int c, int r, int64_t row)
{
    int64_t s = S / c, b = row / s, i = row % s, half = s / 2;
    if (c == 1) return row;
    return b * S + (i < half ? r * half + i : (2 * c - 1 - r) * half + i - half);
}

static void *at(Tensor x, int64_t i) { return (char *)x.data + i * (int64_t)dtype_width(x.dtype); }
static double get(Tensor x, int64_t i)
{
    double value;
    dtype_convert(&value, F64, at(x, i), x.dtype, 1);
    return value;
}
static void set(Tensor x, int64_t i, double value) { dtype_convert(at(x, i), x.dtype, &value, F64, 1); }

/* This rank's rows of a global [B S, width], or those rows written back */
static void rows_take(Tensor mine, const double *whole, int c, int r)
{
    for (int64_t i = 0; i < tensor_count(mine); i++) set(mine, i, whole[global_row(c, r, i / mine.dim[1]) * mine.dim[1] + i % mine.dim[1]]);
}
static void rows_give(double *whole, Tensor mine, int c, int r)
{
    for (int64_t i = 0; i < tensor_count(mine); i++) whole[global_row(c, r, i / mine.dim[1]) * mine.dim[1] + i % mine.dim[1]] = get(mine, i);
}

static Batch batch_make(Arena *host, const Attended *ring, int r)
{
    int64_t s = S / ring->ranks;
    Batch batch = { .token_i = tensor_new(host, "ids", I32, B * s), .sample_i = tensor_new(host, "samples", I32, B) };
    for (int b = 0; b < B; b++) ((int32_t *)batch.sample_i.data)[b] = b;
    if (ring->range == CAUSAL) return batch;
    batch.key_range_i = tensor_new(host, "ranges", I32, B, s, 2);
    for (int64_t row = 0; row < B * s; row++) {
        int64_t at = global_row(ring->ranks, r, row);
        range_of(ring->range, (int)(at / S), (int)(at % S), (int32_t *)batch.key_range_i.data + 2 * row);
    }
    return batch;
}

static void attend(Attended *ring, const ExecContext *run, Arena *host, int r)
{
    int c = ring->ranks;
    Dtype type = run->precision.activation;
    Tensor qkv = tensor_new(host, "qkv", type, B * S / c, W), dqkv = tensor_new(host, "dqkv", type, B * S / c, W);
    Tensor d_out = tensor_new(host, "d_out", type, B * S / c, O);
    AttentionSave save;
    rows_take(qkv, &ring->qkv[0][0], c, r);
    rows_take(d_out, &ring->d_out[0][0], c, r);
    ring_forward(run, 1, &save, qkv);                                             /* <-> cp */
    arena_reset(run->scratch, 0);
    ring_backward(run, 1, dqkv, &save, qkv, d_out);                               /* <-> cp */
    rows_give(&ring->out[0][0], save.out_TO, c, r);
    rows_give(&ring->dqkv[0][0], dqkv, c, r);
    ring->scratch_peak[r] = run->scratch->peak;
}

static Status attend_rank(Transport *transport, void *context)
{
    Attended *ring = context;
    ModelConfig config = { .layers = 2, .heads = H, .groups = G, .head_dim = D, .sequence = S, .attention_dropout = ring->dropout };
    Arena host, flight, scratch, workspace;
    Comm *world, *tp;
    Queue queue;
    StepState step_state = { .seed = 3, .step = 5 };
    TRY(comm_world(&world, transport));
    TRY(comm_open(&tp, world, "tp", &transport->rank, 1));
    TRY(queue_open(&queue, ring->device, 1, &step_state));
    TRY(arena_open(&host, "host", 1 << 20));
    TRY(arena_open(&flight, "flight", 1 << 20));
    TRY(arena_open(&scratch, "scratch", 1 << 20));
    TRY(arena_open(&workspace, "workspace", 1 << 20));
    queue.workspace = &workspace;
    if (ring->mixed) queue.kernels = KERNELS_PORTABLE;           /* which rounds nothing within an operation */
    Batch batch = batch_make(&host, ring, transport->rank);
    ExecContext run = { .config = &config, .precision = precision_make(queue.backend->compute, &(PrecisionChoice){ .mixed = ring->mixed }), .queue = &queue, .tp = { .comm = tp, .queue = &queue, .scratch = &scratch }, .cp = world, .activations = &flight, .activations_wgrad = &flight,
                .wgrad_saved = &scratch, .scratch = &scratch, .batch = &batch, .drop = ring->dropout > 0 };
    attend(ring, &run, &host, transport->rank);
    Arena *arenas[] = { &host, &flight, &scratch, &workspace };
    for (int i = 0; i < 4; i++) arena_close(arenas[i]);
    queue_close(&queue);
    comm_close(tp);
    comm_close(world);
    return OK;
}

static Attended *ring_run(int range, int ranks, double dropout, const char *device, MixedPrecision mixed)
{
    Attended *ring = calloc(1, sizeof *ring);
    *ring = (Attended){ .range = range, .ranks = ranks, .dropout = dropout, .device = device, .mixed = mixed };
    for (int i = 0; i < B * S * W; i++) (&ring->qkv[0][0])[i] = random_normal(random_key(1, "qkv"), (uint64_t)i);
    for (int i = 0; i < B * S * O; i++) (&ring->d_out[0][0])[i] = random_normal(random_key(1, "d_out"), (uint64_t)i);
    if (transport_threads_run(ranks, attend_rank, ring) != OK) fail_msg("%s", fail_text());
    return ring;
}

static double furthest(const double *a, const double *b, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) if (!(fabs(a[i] - b[i]) <= most)) most = fabs(a[i] - b[i]);
    return most;
}

static void compare(const char *device, double dropout, double most)
{
    for (int range = 0; range < RANGES; range++) {
        Attended *one = ring_run(range, 1, dropout, device, MIXED_NONE);
        for (int c = 2; c <= 4; c *= 2) {
            Attended *cut = ring_run(range, c, dropout, device, MIXED_NONE), *causal = ring_run(CAUSAL, c, dropout, device, MIXED_NONE);
            double forward  = furthest(&cut->out[0][0], &one->out[0][0], B * S * O);
            double backward = furthest(&cut->dqkv[0][0], &one->dqkv[0][0], B * S * W);
            if (!(forward <= most && backward <= most))
                fail_msg("%s, %s, cp %d: output off by %.3g, gradients by %.3g", range_name[range], device, c, forward, backward);
            for (int r = 0; r < c; r++) assert_int_equal(cut->scratch_peak[r], causal->scratch_peak[r]);
            free(cut);
            free(causal);
        }
        free(one);
    }
}

/* Elements of `columns` columns of the rows that differ */
static int differ(const double *a, const double *b, int width, int columns)
{
    int count = 0;
    for (int i = 0; i < B * S; i++)
        for (int j = 0; j < columns; j++) count += a[i * width + j] != b[i * width + j];
    return count;
}

/* Outputs and gradients of queries are rounded to 16 bits once, after the last ring step, so that nearly all of
 * them are those of one rank. */
static void rounded_once(MixedPrecision mixed)
{
    Attended *one = ring_run(BIDIRECTIONAL, 1, 0, "cpu", mixed), *cut = ring_run(BIDIRECTIONAL, 4, 0, "cpu", mixed);
    int outputs = differ(&cut->out[0][0], &one->out[0][0], O, O), gradients = differ(&cut->dqkv[0][0], &one->dqkv[0][0], W, O);
    if (outputs > B * S * O / 50 || gradients > B * S * O / 50)
        fail_msg("of %d elements %d outputs and %d gradients of queries differ between 4 ranks and one", B * S * O, outputs, gradients);
    free(one);
    free(cut);
}

static void test_bf16   (void **state) { (void)state; rounded_once(MIXED_BF16); }
static void test_fp16   (void **state) { (void)state; rounded_once(MIXED_F16); }
static void test_double (void **state) { (void)state; compare("ref", 0, 1e-13); }
static void test_dropout(void **state) { (void)state; compare("ref", 0.3, 1e-13); }
static void test_float  (void **state) { (void)state; compare("cpu", 0, 1e-5); }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_double), cmocka_unit_test(test_dropout), cmocka_unit_test(test_float), cmocka_unit_test(test_bf16),
                                        cmocka_unit_test(test_fp16) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
