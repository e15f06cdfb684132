/* Attention over context-parallel ranks by each --cp-comm-type: whatever the key ranges reach, also forward,
 * with sliding windows, dropout and few key-value heads, all ranks together give what one rank gives, and take
 * the same scratch. Ranks are threads; a rank's rows of the global tensors are the parts r and 2 c - 1 - r of
 * each sequence.
 *
 *  B sequences   S positions of a whole one   H query, G key-value heads of D channels
 *  W = (H + 2 G) D   O = H D */
#include "base/testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/random.h"
#include "comm/transport.h"
#include "model/model_internal.h"

enum { B = 2, S = 48, D = 4, RANKS_MAX = 8, HEADS_MAX = 12, GROUPS_MAX = 8 };
enum { W_MAX = (HEADS_MAX + 2 * GROUPS_MAX) * D, O_MAX = HEADS_MAX * D };
typedef enum { CAUSAL, BIDIRECTIONAL, PREFIX, NEAR, DOCUMENTS, FAR, NONE_FOR_SOME, RANGES } Range;
static const char *const range_name[RANGES] = { "causal", "bidirectional", "prefix", "near keys", "documents",
                                                "far keys alone", "no keys for some" };

/* u ranks of Ulysses, of c in all; the others form a ring, or gather. */
typedef struct { const char *name; int c, u; bool gather; int H, G; } Split;
static const Split splits[] = {
    { "ring",                 2, 1, false, 4, 2 },  { "ring",                 3, 1, false, 4, 2 },
    { "ring",                 4, 1, false, 4, 2 },  { "ring",                 6, 1, false, 2, 1 },
    { "ring",                 8, 1, false, 2, 2 },
    { "gather",               2, 1, true,  4, 2 },  { "gather",               3, 1, true,  4, 2 },
    { "gather",               4, 1, true,  2, 1 },  { "gather",               6, 1, true,  4, 2 },
    { "gather",               8, 1, true,  2, 2 },
    { "ulysses",              2, 2, false, 4, 2 },  { "ulysses",              3, 3, false, 6, 3 },
    { "ulysses",              4, 4, false, 4, 4 },  { "ulysses",              6, 6, false, 12, 6 },
    { "ulysses",              8, 8, false, 8, 8 },
    { "ulysses, copies",      4, 4, false, 8, 2 },  { "ulysses, copies",      6, 6, false, 6, 1 },
    { "ulysses, copies",      8, 8, false, 8, 4 },
    { "ulysses, cut groups",  4, 4, false, 12, 6 }, { "ulysses, cut groups",  2, 2, false, 6, 3 },
    { "ulysses, cut groups",  3, 3, false, 12, 2 },
    { "ulysses x ring",       4, 2, false, 4, 2 },  { "ulysses x ring",       6, 2, false, 4, 1 },
    { "ulysses x ring",       6, 3, false, 6, 2 },  { "ulysses x ring",       8, 2, false, 4, 2 },
    { "ulysses x ring",       8, 4, false, 4, 4 },
    { "ulysses x gather",     4, 2, true,  4, 1 },
};
enum { SPLITS_TRIED = sizeof splits / sizeof *splits };

typedef struct {
    Split       split;
    Range       range;
    int64_t     window;
    double      dropout;
    const char *device;
    MixedPrecision mixed;
    double      qkv[B * S * W_MAX], d_out[B * S * O_MAX];          /* in */
    double      out[B * S * O_MAX], dqkv[B * S * W_MAX];           /* out */
    size_t      scratch_peak[RANKS_MAX];
    int64_t     calls[RANKS_MAX];                                  /* of attention_forward */
} Attended;

static int rows_width(const Split *s) { return (s->H + 2 * s->G) * D; }

/* The keys that query i of sequence b sees */
static void range_of(Range range, int b, int i, int32_t keys[2])
{
    int prefix = 11 + 20 * b, document = i < 13 + b ? 0 : 13 + b;
    keys[0] = 0;
    keys[1] = S;
    switch (range) {
    case PREFIX:        keys[1] = i < prefix ? prefix : i + 1; break;
    case NEAR:          keys[0] = i < 3 ? 0 : i - 3;  keys[1] = i + 6 > S ? S : i + 6; break;
    case DOCUMENTS:     keys[0] = document;  keys[1] = document ? S : 13 + b; break;
    case FAR:           keys[0] = i < S / 2 ? S - 6 : 1;  keys[1] = i < S / 2 ? S - 1 : 7; break;
    case NONE_FOR_SOME: if (i % 3 == b) keys[1] = 0; break;
    default: break;
    }
}

/* Row `row` of rank r of c ranks that have s positions, in the global tensor. */
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
    int64_t width = mine.dim[1];
    for (int64_t i = 0; i < tensor_count(mine); i++)
        set(mine, i, whole[global_row(c, r, i / width) * width + i % width]);
}
static void rows_give(double *whole, Tensor mine, int c, int r)
{
    int64_t width = mine.dim[1];
    for (int64_t i = 0; i < tensor_count(mine); i++)
        whole[global_row(c, r, i / width) * width + i % width] = get(mine, i);
}

static Batch batch_make(Arena *host, const Attended *a, int r)
{
    const Split *split = &a->split;
    LoaderConfig config = { .sequence = S, .micro = B, .cp = split->c, .cp_rank = r, .ulysses = split->u,
                            .reset_attention = a->range != CAUSAL, .loss_weight = F32 };
    Batch batch = loader_batch_new(&config, host);
    int64_t groups = split->c / split->u, s = S / groups;
    for (int b = 0; b < B; b++) ((int32_t *)batch.sample_i.data)[b] = b;
    for (int64_t row = 0; a->range != CAUSAL && row < B * s; row++) {
        int64_t to = global_row((int)groups, r / split->u, row);
        range_of(a->range, (int)(to / S), (int)(to % S), (int32_t *)batch.key_range_i.data + 2 * row);
    }
    batch_bound_keys(&batch);
    return batch;
}

static void attend(Attended *a, const ExecContext *ctx, Arena *host, int r)
{
    int c = a->split.c, O = a->split.H * D;
    Dtype type = ctx->precision.activation;
    Tensor qkv = core_qkv_new(ctx, B * S / c, rows_width(&a->split));
    Tensor dqkv = tensor_new(host, "dqkv", type, B * S / c, rows_width(&a->split));
    Tensor d_out = tensor_new(host, "d_out", type, B * S / c, O);
    AttentionSave save;
    rows_take(qkv, a->qkv, c, r);
    rows_take(d_out, a->d_out, c, r);
    qkv = core_attention_enter(ctx, qkv);                                         /* <-> cp */
    core_attention_forward(ctx, 1, &save, qkv);                                   /* <-> cp */
    arena_reset(ctx->scratch, 0);
    a->calls[r] = ctx->queue->count[OP_attention_forward].calls;
    core_attention_backward(ctx, 1, dqkv, &save, qkv, d_out);                     /* <-> cp */
    rows_give(a->out, save.out_TO, c, r);
    rows_give(a->dqkv, dqkv, c, r);
    a->scratch_peak[r] = ctx->scratch->peak;
}

static Status open_part(Comm **comm, Comm *world, const char *name, int first, int step, int count)
{
    int ranks[RANKS_MAX];
    for (int i = 0; i < count; i++) ranks[i] = first + i * step;
    *comm = comm_open(world, name, ranks, count);
    return OK;
}

static Status attend_rank(Transport *transport, void *context)
{
    Attended *a = context;
    const Split *split = &a->split;
    ModelConfig config = { .layers = 2, .heads = split->H, .groups = split->G, .head_dim = D, .sequence = S,
                           .window = a->window, .attention_dropout = a->dropout };
    Arena host, slot, scratch, workspace;
    Comm *world, *tp, *ulysses, *others;
    Queue queue;
    StepState step_state = { .seed = 3, .step = 5 };
    int r = transport->rank, u = split->u;
    world = comm_world(transport);
    tp = comm_open(world, "tp", &r, 1);
    TRY(open_part(&ulysses, world, "ulysses", r / u * u, 1, u));
    TRY(open_part(&others, world, "ring", r % u, u, split->c / u));
    TRY(queue_open(&queue, a->device, 1, &step_state));
    TRY(arena_open(&host, "host", 1 << 20));
    TRY(arena_open(&slot, "slot", 1 << 20));
    TRY(arena_open(&scratch, "scratch", 4 << 20));
    TRY(arena_open(&workspace, "workspace", 1 << 20));
    queue.workspace = &workspace;
    if (a->mixed) queue.kernels = KERNELS_PORTABLE;              /* which rounds nothing within an operation */
    Batch batch = batch_make(&host, a, r);
    ExecContext ctx = {
        .config = &config, .queue = &queue, .tp = { .comm = tp, .queue = &queue, .scratch = &scratch },
        .precision = precision_make(queue.backend->compute, &(PrecisionChoice){ .mixed = a->mixed }),
        .cp = { .ulysses = ulysses, .ring = split->gather ? NULL : others,
                .gather = split->gather ? others : NULL },
        .activations = &slot, .activations_wgrad = &slot, .wgrad_saved = &scratch, .scratch = &scratch,
        .batch = &batch, .drop = a->dropout > 0 };
    attend(a, &ctx, &host, r);
    Arena *arenas[] = { &host, &slot, &scratch, &workspace };
    for (int i = 0; i < 4; i++) arena_close(arenas[i]);
    queue_close(&queue);
    Comm *comms[] = { others, ulysses, tp, world };
    for (int i = 0; i < 4; i++) comm_close(comms[i]);
    return OK;
}

static Attended *attended(Attended setting)
{
    Attended *a = malloc(sizeof *a);
    *a = setting;
    for (int i = 0; i < B * S * rows_width(&a->split); i++)
        a->qkv[i] = random_normal(random_key(1, "qkv"), (uint64_t)i);
    for (int i = 0; i < B * S * a->split.H * D; i++)
        a->d_out[i] = random_normal(random_key(1, "d_out"), (uint64_t)i);
    if (transport_threads_run(a->split.c, attend_rank, a) != OK) fail_msg("%s", fail_text());
    return a;
}

/* The same on one rank */
static Attended *attended_alone(Attended setting)
{
    setting.split.c = setting.split.u = 1;
    setting.split.gather = false;
    return attended(setting);
}

static double furthest(const double *a, const double *b, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) if (!(fabs(a[i] - b[i]) <= most)) most = fabs(a[i] - b[i]);
    return most;
}

static double compare(Attended setting, size_t peak[RANKS_MAX], double bound)
{
    const Split *split = &setting.split;
    Attended *one = attended_alone(setting), *cut = attended(setting);
    double forward  = furthest(cut->out, one->out, B * S * split->H * D);
    double backward = furthest(cut->dqkv, one->dqkv, B * S * rows_width(split));
    if (!(forward <= bound && backward <= bound))
        fail_msg("%s, u %d of cp %d, heads %d/%d, %s, window %lld, %s: output off by %.3g, gradients by %.3g",
                 split->name, split->u, split->c, split->H, split->G, range_name[setting.range],
                 (long long)setting.window, setting.device, forward, backward);
    for (int r = 0; r < split->c; r++) {
        if (setting.range == CAUSAL) peak[r] = cut->scratch_peak[r];
        assert_int_equal(cut->scratch_peak[r], peak[r]);                 /* memory does not depend on data */
    }
    free(one);
    free(cut);
    return forward > backward ? forward : backward;
}

typedef struct { Range range; int64_t window; } Mask;
static const Mask masks[] = { { CAUSAL, 0 }, { DOCUMENTS, 0 }, { CAUSAL, 9 }, { PREFIX, 0 }, { FAR, 0 },
    { BIDIRECTIONAL, 0 }, { NEAR, 0 }, { NONE_FOR_SOME, 0 }, { DOCUMENTS, 9 }, { BIDIRECTIONAL, 9 } };
enum { MASKS = sizeof masks / sizeof *masks };

/* The first `count` masks, the first two where a sanitizer makes threads slow; the very first one is causal, by
 * which `compare` measures memory. */
static void compare_all(const char *device, double dropout, int count, double bound)
{
    double furthest_off = 0;
#if defined(__SANITIZE_THREAD__)
    if (!getenv("JOTUN_FULL")) count = 2;
#endif
    for (int i = 0; i < SPLITS_TRIED; i++) {
        size_t peak[RANKS_MAX];
        for (int m = 0; m < count; m++) {
            Attended setting = { .split = splits[i], .range = masks[m].range, .window = masks[m].window,
                                 .dropout = dropout, .device = device };
            furthest_off = fmax(furthest_off, compare(setting, peak, bound));
        }
    }
    printf("%d splits, %d masks, %s, dropout %g: at most %.2g off\n", SPLITS_TRIED, count, device, dropout,
           furthest_off);
}

static void test_double (void **state) { (void)state; compare_all("ref", 0, MASKS, 1e-13); }
static void test_dropout(void **state) { (void)state; compare_all("ref", 0.3, 5, 1e-13); }
static void test_float  (void **state) { (void)state; compare_all("cpu", 0, 4, 2e-5); }

/* ---- one rounding to 16 bits ---- */

static int differ(const double *a, const double *b, int count)
{
    int differing = 0;
    for (int i = 0; i < count; i++) differing += a[i] != b[i];
    return differing;
}

/* Outputs and all gradients are rounded to 16 bits once, after the last sum over ranks, so that nearly all of
 * them are those of one rank. */
static void rounded_once(MixedPrecision mixed)
{
    for (int i = 0; i < SPLITS_TRIED; i++) {
        const Split *split = &splits[i];
        Attended setting = { .split = *split, .range = BIDIRECTIONAL, .device = "cpu", .mixed = mixed };
        Attended *one = attended_alone(setting), *cut = attended(setting);
        int all = B * S * split->H * D, rows = B * S * rows_width(split);
        int outputs = differ(cut->out, one->out, all), gradients = differ(cut->dqkv, one->dqkv, rows);
        if (outputs > all / 50 || gradients > rows / 50)
            fail_msg("%s, u %d of cp %d: of %d outputs %d and of %d gradients %d differ from one rank's",
                     split->name, split->u, split->c, all, outputs, rows, gradients);
        free(one);
        free(cut);
    }
}

static void test_bf16(void **state) { (void)state; rounded_once(MIXED_BF16); }
static void test_fp16(void **state) { (void)state; rounded_once(MIXED_F16); }

/* ---- what it takes on scratch: the formulas of docs/memory.md ---- */

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* One allocation */
static int64_t taken(int64_t elements, int64_t width)
{
    return (elements * width + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

/* T rows with h query heads and g key-value heads; e bytes of an element, f of a statistic. sums: dk and dv come
 * in statistics. */
static int64_t ring_forward_bytes(int64_t T, int64_t h, int64_t g, int64_t e, int64_t f)
{
    return 2 * taken(T * 2 * g * D, e) + (e < f ? taken(T * h * D, f) : 0) + taken(T / 2 * h * D, f)
         + taken(T / 2 * h, f);
}
static int64_t ring_backward_bytes(int64_t T, int64_t h, int64_t g, int64_t e, int64_t f, bool sums)
{
    int64_t own = (e < f ? taken(T * h * D, f) : 0) + (e < f && !sums ? taken(T * 2 * g * D, f) : 0);
    return own + 2 * taken(T * 2 * g * D, e) + 2 * taken(T * 2 * g * D, f);
}

static int64_t scratch_bytes(const Split *s, int64_t e, int64_t f)
{
    int64_t u = s->u, T = B * S / s->c, H = s->H, G = s->G, h = H / u, g = h;
    for (int64_t shared = 1; shared <= h; shared++)
        if (h % shared == 0 && H / G % shared == 0) g = h / shared;
    bool copies = u * g != G, ring = s->c > u;
    int64_t heads = taken(u * T * h * D, e), keys = taken(u * T * 2 * g * D, copies ? f : e);
    int64_t inner  = ring ? ring_forward_bytes(u * T, h, g, e, f) : 0;
    int64_t behind = ring ? ring_backward_bytes(u * T, h, g, e, f, u > 1 && copies) : 0;
    int64_t delta = taken(T * H, f);
    if (u == 1) return most(inner, delta + behind);
    int64_t qkv = taken(T * (H + 2 * G) * D, e), exchanged = taken(u * T * (h + 2 * g) * D, e);
    int64_t forward = qkv + most(2 * exchanged, heads + most(inner, 2 * heads));
    int64_t sums = copies && e < f ? taken(T * 2 * G * D, f) : 0;
    int64_t backward = delta + heads + taken(u * T * h, f)
            + most(2 * heads, heads + keys + most(behind, sums + 2 * most(heads, keys)));
    return most(forward, backward);
}

static void test_scratch(void **state)
{
    (void)state;
    static const struct { const char *device; MixedPrecision mixed; int64_t e, f; } types[] = {
        { "ref", MIXED_NONE, 8, 8 }, { "cpu", MIXED_NONE, 4, 4 }, { "cpu", MIXED_BF16, 2, 4 } };
    for (int i = 0; i < SPLITS_TRIED; i++)
        for (int t = 0; t < 3 && !splits[i].gather; t++) {
            Attended *a = attended((Attended){ .split = splits[i], .range = DOCUMENTS,
                                               .device = types[t].device, .mixed = types[t].mixed });
            int64_t wanted = scratch_bytes(&splits[i], types[t].e, types[t].f);
            for (int r = 0; r < splits[i].c; r++)
                if ((int64_t)a->scratch_peak[r] != wanted)
                    fail_msg("%s, u %d of cp %d, heads %d/%d, %s %lld bytes: rank %d took %zu of scratch, not %lld",
                             splits[i].name, splits[i].u, splits[i].c, splits[i].H, splits[i].G, types[t].device,
                             (long long)types[t].e, r, a->scratch_peak[r], (long long)wanted);
            free(a);
        }
}

/* ---- what is not computed ---- */

/* Of 4 c pairs of parts per rank that a ring could compute, c ranks: under the causal mask three of its own
 * and two of each other rank. */
static void ring_calls(Range range, int64_t window, const int64_t wanted[4])
{
    Attended *a = attended((Attended){ .split = { "ring", 4, 1, false, 2, 1 }, .range = range,
                                       .window = window, .device = "ref" });
    for (int r = 0; r < 4; r++)
        if (a->calls[r] != wanted[r])
            fail_msg("%s, window %lld: rank %d computed %lld pairs of parts, not %lld", range_name[range],
                     (long long)window, r, (long long)a->calls[r], (long long)wanted[r]);
    free(a);
}

static void test_skipped(void **state)
{
    (void)state;
    ring_calls(CAUSAL, 0, (const int64_t[]){ 9, 9, 9, 9 });
    ring_calls(BIDIRECTIONAL, 0, (const int64_t[]){ 16, 16, 16, 16 });
    /* Parts of 6 positions: a window of 6 reaches into the part before, but the first has none. */
    ring_calls(CAUSAL, 6, (const int64_t[]){ 3, 4, 4, 4 });
    ring_calls(CAUSAL, 1, (const int64_t[]){ 2, 2, 2, 2 });
    /* Documents [0, 13) and [13, 48) of one sequence, [0, 14) and [14, 48) of the other, parts of 6: parts 0
     * and 1 see 0 to 2, part 2 sees all, the others 2 to 7. */
    ring_calls(DOCUMENTS, 0, (const int64_t[]){ 3 + 6, 3 + 6, 8 + 6, 6 + 6 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double), cmocka_unit_test(test_dropout), cmocka_unit_test(test_float),
        cmocka_unit_test(test_bf16), cmocka_unit_test(test_fp16), cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
