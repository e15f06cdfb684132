/* Each rule, 50 steps from fixed weights with fixed gradients: weights after steps 1, 10 and 50 (of 1-bit LAMB by two workers
 * after step 21 too, the first one with signs) are those of
 * tests/golden/optimizers, which tests/oracles/optimizer_goldens.py made in float64 and compared with packages. And experts are
 * each updated as if alone. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "comm/transport.h"
#include "optim/optimizer.h"
#include <cmocka.h>                     /* last: it has a macro called fail */

enum { TENSORS = 4, STEPS = 50, WEIGHTS = 0, GRADIENT = 1, MEAN = 2, REACHED = 3, SAMPLED = 4, SUM = 5, OWN = 6, WORKERS = 2 };
typedef enum { LAYER_MATRIX, TABLE, VECTOR } Kind;
typedef struct { const char *name; int64_t rows, columns; Kind kind; int64_t head_rows, experts; } Logical;
/* As parameters of a model; a head of the wide one has 6 rows, and the vector is the gain of a norm. */
static const Logical tensors[TENSORS] = {
    { "wide", 24, 40, LAYER_MATRIX, 6, 0 }, { "tall", 64, 12, TABLE, 0, 0 }, { "square", 20, 20, LAYER_MATRIX, 0, 0 }, { "vector", 40, 1, VECTOR, 0, 0 },
};
#define ONEBIT { .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .least_ratio = 0.01, .most_ratio = 10, .freeze = 20, \
                 .onebit = { .mean_beta = 0.9, .factor_low = 0.5, .factor_high = 4, .factor_step = 0.1 } }
static const struct { const char *golden, *optimizer; OptimizerSettings settings; } rules[] = {
    { "adamw", "adam", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 } },
    { "adam",  "adam", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .coupled = true } },
    { "adamw_uncorrected", "adam", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-3, .uncorrected = true } },
    { "sgd",   "sgd",  { .momentum = 0.9 } },
    { "sgd_nesterov", "sgd", { .momentum = 0.9, .nesterov = true } },
    { "adopt", "adopt", { .beta1 = 0.9, .beta2 = 0.9999, .epsilon = 1e-6, .coupled = true } },
    { "adopt_decoupled", "adopt", { .beta1 = 0.9, .beta2 = 0.9999, .epsilon = 1e-6 } },
    { "adamw_schedule_free", "adamwschedulefree", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 } },
    { "sgd_schedule_free", "sgdschedulefree", { .momentum = 0.9 } },
    { "sophia", "sophiag", { .beta1 = 0.965, .beta2 = 0.99, .sophia_rho = 0.04, .estimate_interval = 10 } },
    { "adafactor", "adafactor", { .adafactor = { .decay_rate = 0.8, .clip = 1, .epsilon1 = 0x1p-23, .epsilon2 = 1e-3 } } },
    { "adam_mini", "adam-mini", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 } },
    { "lion",  "lion", { .lion_beta1 = 0.9, .lion_beta2 = 0.99 } },
    { "lamb",  "lamb", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .least_ratio = 0, .most_ratio = INFINITY } },
    { "adam8bit", "adam8bit", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 } },
    { "galore_adamw", "galoreadamw", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .sizes = { .rank = 6 }, .renewal = 20, .galore_scale = 0.25 } },
    { "galore_adamw8bit", "galoreadamw8bit", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .rank = 6 }, .renewal = 20,
                                              .galore_scale = 0.25 } },
    { "distributed_shampoo", "shampoo", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .longest = 100 }, .renewal = 5,
                                          .shampoo_epsilon = 1e-12 } },
    { "shampoo_one_sided", "shampoo", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .longest = 32 }, .renewal = 5,
                                        .shampoo_epsilon = 1e-12 } },               /* the wide one has no factor of its columns */
    { "adamw", "shampoo", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .longest = 10 }, .renewal = 5,
                            .shampoo_epsilon = 1e-12 } },                           /* none has a factor */
    { "soap", "soap", { .beta1 = 0.95, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .longest = 32 }, .renewal = 10, .gram_beta = 0.9 } },
    { "onebit_lamb", "ds.onebitlamb", ONEBIT },
    { "onebit_lamb_masked", "ds.onebitlamb", ONEBIT },
    { "onebit_lamb_rounding", "ds.onebitlamb", ONEBIT },
    { "lamb_bounded", "lamb", { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .least_ratio = 0.25, .most_ratio = 0.3 } },
};
enum { RULES = sizeof rules / sizeof *rules };

static int64_t count_of(int k) { return tensors[k].rows * tensors[k].columns; }

/* The finalizer of MurmurHash3 */
static uint32_t mixed(uint32_t stream, uint32_t tensor, uint32_t step, uint32_t i)
{
    uint32_t x = stream * 0x9e3779b1u + tensor * 0x85ebca77u + step * 0xc2b2ae3du + i * 0x27d4eb2fu;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

static double unit(int stream, int tensor, int step, int64_t i)
{
    return ((double)(mixed((uint32_t)stream, (uint32_t)tensor, (uint32_t)step, (uint32_t)i) >> 12) - 0x1p19) / 0x1p19;
}

/* A step reaches a third of the rows of the tall matrix. The columns of the vector are its elements. */
static double gradient(int stream, int k, int step, int64_t i)
{
    int64_t columns = tensors[k].columns > 1 ? tensors[k].columns : tensors[k].rows;
    if (k == 1 && mixed(REACHED, 1, (uint32_t)step, (uint32_t)(i / columns)) % 3 != 0) return 0;
    return ldexp(unit(stream, k, step, i) + unit(MEAN, k, 0, i) / 2, (int)(-4 - i % columns % 6));
}

typedef struct { int rule; const char *device; double off; } Course;
/* Gradients of 1-bit LAMB: of so many rows of the tall matrix one has none, 0: all have one; how often the square one's is halved. */
typedef struct { int64_t unreached, halvings; } Weak;

/* A NaN is the largest. */
static double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }

/* Elements and the two sums of one tensor; returns the largest difference. */
static double compare(const json_t *golden, int k, const double *w)
{
    const char *index;
    json_t *value;
    double squares = 0, sum = 0, off = 0;
    for (int64_t i = 0; i < count_of(k); i++) squares += w[i] * w[i], sum += w[i] * unit(SUM, k, 0, i);
    json_object_foreach(json_object_get(golden, "elements"), index, value)
        off = larger(off, fabs(w[atoi(index)] - json_real_value(value)));
    off = larger(off, fabs(squares - json_real_value(json_object_get(golden, "squares"))) / (double)count_of(k));
    return larger(off, fabs(sum - json_real_value(json_object_get(golden, "sum"))) / (double)count_of(k));
}

static Param param_of(const Logical *x)
{
    Param p = { .name = "x", .dims = x->kind == VECTOR ? 1 : 2, .global = { x->rows, x->columns, 1 }, .head_rows = x->head_rows };
    if (x->experts > 0) p = (Param){ .name = "x", .dims = PARAM_DIMS, .global = { x->experts, x->rows, x->columns } };
    for (int d = 0; d < PARAM_DIMS; d++) p.local[d] = p.box[d] = p.global[d];
    return p;
}

static void pieces_make(OptimizerRun *run, Arena *arena, Dtype type, const Logical *logical)
{
    const Optimizer *o = run->optimizer;
    const UpdateRule *const rule[] = { o->matrices, o->tables, o->vectors };
    int worker = comm_rank(run->stage), workers = comm_size(run->stage);
    for (int k = 0; k < run->pieces; k++) {
        const Logical *x = &logical[k];
        int64_t matrices = x->experts > 0 ? x->experts : 1, n = matrices * x->rows * x->columns;
        ParamBlock block = { .params = 1, .param = { param_of(x) }, .count = n };
        const Param *param = &block.param[0];
        OptimizerPiece *p = &run->piece[k];
        *p = (OptimizerPiece){ .rule = rule[x->kind], .w = tensor_new(arena, "w", type, n), .g = tensor_new(arena, "g", type, n),
            .decayed = x->kind != VECTOR, .count = n, .saves = true,
            .counted_first = worker * n / workers, .counted = (worker + 1) * n / workers - worker * n / workers,
            .rows = x->rows, .columns = x->columns, .local_rows = x->rows, .local_columns = x->columns,
            .matrices = matrices, .block_rows = state_block_rows(param), .parts = 1 };
        if (optimizer_averages(o)) p->param = tensor_new(arena, "param", type, n);
        for (int s = 0; s < p->rule->states; s++)
            p->state[s] = tensor_new(arena, "state", precision_uniform(type).state[p->rule->state[s].role],
                                     state_held(&p->rule->state[s], &run->sizes, &block, 0, 0, n).count);
        for (int i = 0; i < p->rule->phases; i++) {                /* as of train/trainer_optimizer.c */
            p->sums_at[i] = run->sums[i];
            p->sums[i] = p->rule->phase[i].sums ? p->rule->phase[i].sums(param) : 0;
            run->sums[i] += matrices * p->sums[i];
        }
    }
    int64_t most = run->sums[0] > run->sums[1] ? run->sums[0] : run->sums[1];
    if (most > 0) run->own_sums_N = tensor_new(arena, "sums", F64, most), run->sums_N = tensor_new(arena, "sums", type, most);
}

/* Each tensor is a bucket. */
static void compressed_make(OptimizerRun *run, Arena *arena, Dtype type)
{
    CompressedAllReduce *x = &run->compressed;
    static int64_t at[TENSORS][WORKERS + 1];
    static CompressedPieces of[WORKERS][TENSORS];
    int worker = comm_rank(run->stage);
    *x = (CompressedAllReduce){ .world = run->stage, .of = of[worker], .count = run->pieces };
    for (int k = 0; k < run->pieces; k++) {
        const OptimizerPiece *p = &run->piece[k];
        for (int r = 0; r <= WORKERS; r++) at[k][r] = r * state_summed_part(p->count, WORKERS) / 8;
        x->elements[PARAMS_DENSE] += (double)p->count;
        x->tensors += (double)p->matrices;
        x->of[k] = (CompressedPieces){ .workers = run->stage, .first = k, .end = k + 1, .counts = true, .at = at[k],
            .error_N = p->state[optimizer_state_of(run->optimizer, PER_WORKER)],
            .summed_N = p->state[optimizer_state_of(run->optimizer, PER_SUMMED)] };
    }
    x->own_W  = tensor_new(arena, "sums", F64, 2 * WORKERS + PARAM_FAMILIES);
    x->sums_W = tensor_new(arena, "sums", type, 2 * WORKERS + PARAM_FAMILIES);
    x->most_M = tensor_new(arena, "sums", type, TENSORS);
}

/* Twice the gradient, as factor is 1/2; with worker 0 or above the share of one of the workers in their sum, with a part of its own. */
static double worker_gradient(int stream, int k, int t, int64_t i, int worker)
{
    double x = 2 * gradient(stream, k, t, i);
    return worker < 0 ? x : (x + 2 * unit(OWN + worker, k, t, i) / 64) / WORKERS;
}

/* After the freeze of the worker, before it of both together. */
static void worker_gradients_set(const OptimizerRun *run, const Weak *weak, int t, Dtype type)
{
    double x[1024];
    bool own = optimizer_compresses_now(run->optimizer, run->settings, t - 1);
    for (int k = 0; k < TENSORS; k++) {
        for (int64_t i = 0; i < count_of(k); i++) {
            x[i] = worker_gradient(GRADIENT, k, t, i, own ? comm_rank(run->stage) : 0);
            if (!own) x[i] += worker_gradient(GRADIENT, k, t, i, 1);
            if (k == 1 && weak->unreached > 0 && i / tensors[k].columns % weak->unreached == weak->unreached - 1) x[i] = 0;
            if (k == 2) x[i] = ldexp(x[i], -(int)weak->halvings);
        }
        dtype_convert(run->piece[k].g.data, type, x, F64, count_of(k));
    }
}

static void gradients_set(const OptimizerPiece *piece, int stream, int t, Dtype type)
{
    double x[1024];
    for (int k = 0; k < TENSORS; k++) {
        for (int64_t i = 0; i < count_of(k); i++) x[i] = worker_gradient(stream, k, t, i, -1);
        dtype_convert(piece[k].g.data, type, x, F64, count_of(k));
    }
}

static Status course_rank(Transport *transport, void *context)
{
    Course *c = context;
    char path[512], step[16], name[32];
    double x[TENSORS][1024];
    json_error_t error;
    snprintf(path, sizeof path, TESTS_DIR "/golden/optimizers/%s.json", rules[c->rule].golden);
    json_t *golden = json_load_file(path, 0, &error);
    if (!golden) fail_msg("%s: %s", path, error.text);
    StepState state = { .weight_decay = 0.1, .factor = 0.5 };
    Queue q;
    Arena arena;
    Comm *world;
    world = comm_world(transport);
    assert_int_equal(queue_open(&q, c->device, 1, &state), OK);
    assert_int_equal(arena_open(&arena, "all", 4 << 20), OK);
    q.workspace = &arena;
    Dtype type = q.backend->compute;
    OptimizerPiece piece[TENSORS];
    OptimizerRun run = { .queue = &q, .optimizer = optimizer_named(rules[c->rule].optimizer), .settings = &rules[c->rule].settings,
        .stage = world, .scratch = &arena, .piece = piece, .pieces = TENSORS, .sizes = rules[c->rule].settings.sizes };
    for (int f = 0; f < PARAM_FAMILIES; f++) run.sizes.workers[f] = comm_size(world), run.sizes.worker[f] = comm_rank(world);
    pieces_make(&run, &arena, type, tensors);
    if (optimizer_compresses(run.optimizer)) compressed_make(&run, &arena, type);
    Tensor tokens_1 = tensor_new(&arena, "tokens", F64, 1);
    *(double *)tokens_1.data = 4096;
    for (int k = 0; k < TENSORS; k++) {
        for (int64_t i = 0; i < count_of(k); i++) x[k][i] = unit(WEIGHTS, k, 0, i) / 2;
        dtype_convert(piece[k].w.data, type, x[k], F64, count_of(k));
        for (int s = 0; s < piece[k].rule->states; s++) fill_zero(&q, (FillZero){ .y = piece[k].state[s] });
        if (piece[k].rule->start) piece[k].rule->start(&q, &piece[k]);
    }
    AverageWeights average = { 0 };
    double peak = json_real_value(json_object_get(golden, "lr"));
    const json_t *options = json_object_get(golden, "options");
    const Weak weak = { json_integer_value(json_object_get(options, "unreached")), json_integer_value(json_object_get(options, "halvings")) };
    for (int t = 1; t <= STEPS; t++) {
        state.lr = peak * (t < 5 ? t : 5) / 5, state.updates = t - 1;
        average = average_next(&state.average_share, average, state.lr);
        if (optimizer_estimates(run.optimizer) && (t - 1) % run.settings->estimate_interval == 0) {
            gradients_set(piece, SAMPLED, t, type);
            for (int k = 0; k < TENSORS; k++) piece[k].rule->estimate(&q, run.settings, &piece[k], tokens_1);
        }
        if (optimizer_compresses(run.optimizer)) worker_gradients_set(&run, &weak, t, type);
        else gradients_set(piece, GRADIENT, t, type);
        optimizer_tensors(&run);
        optimizer_elements(&run, 0, TENSORS);
        snprintf(step, sizeof step, "%d", t);
        const json_t *at = json_object_get(json_object_get(golden, "steps"), step);
        for (int k = 0; at && comm_rank(world) == 0 && k < TENSORS; k++) {
            bool averages = tensor_present(piece[k].param);         /* goldens have the parameters, and the weights as what is evaluated */
            dtype_convert(x[k], F64, averages ? piece[k].param.data : piece[k].w.data, type, count_of(k));
            c->off = larger(c->off, compare(json_object_get(at, tensors[k].name), k, x[k]));
            snprintf(name, sizeof name, "%s.evaluated", tensors[k].name);
            dtype_convert(x[k], F64, piece[k].w.data, type, count_of(k));
            if (averages) c->off = larger(c->off, compare(json_object_get(at, name), k, x[k]));
        }
    }
    json_decref(golden);
    arena_close(&arena);
    queue_close(&q);
    comm_close(world);
    return OK;
}

static void test_rules(void **state)
{
    (void)state;
    static const struct { const char *device; double within; } device[] = { { "ref", 1e-14 }, { "cpu", 1e-6 } };
    for (int r = 0; r < RULES; r++)
        for (int d = 0; d < 2; d++) {
            Course c = { .rule = r, .device = device[d].device };
            bool signs = optimizer_compresses(optimizer_named(rules[r].optimizer));
            assert_int_equal(transport_threads_run(signs ? WORKERS : 1, course_rank, &c), OK);
            printf("%-19s %s: off by %.1e\n", rules[r].golden, c.device, c.off);
            double wider = strcmp(rules[r].golden, "soap") ? 1 : 100;      /* vectors of near eigenvalues turn: docs/numerics.md */
            if (!(c.off <= wider * device[d].within)) fail_msg("%s on %s is off by %.1e", rules[r].golden, c.device, c.off);
        }
}

/* ---- experts ---- */

/* A wide and a tall matrix, of each two experts: as parameters of experts, or each expert's matrix as a parameter of its own. */
enum { EXPERTS = 2, MATRICES = 4, EXPERT_ELEMENTS = 24 * 40, EXPERT_STEPS = 22 };
#define MATRIX(name, rows, columns, experts) { name, rows, columns, LAYER_MATRIX, 0, experts }
static const Logical together[] = { MATRIX("wide", 24, 40, EXPERTS), MATRIX("tall", 40, 24, EXPERTS) };
static const Logical apart[] = { MATRIX("wide", 24, 40, 0), MATRIX("wide", 24, 40, 0), MATRIX("tall", 40, 24, 0), MATRIX("tall", 40, 24, 0) };
typedef struct { int rule; bool apart; double w[MATRICES][EXPERT_ELEMENTS]; } Experts;

/* From element `first` of the piece; that of the second expert is a thousandth. worker: as of worker_gradient */
static void expert_gradient(Tensor g_N, int64_t first, int stream, int matrix, int t, int worker)
{
    double x[EXPERT_ELEMENTS], size = matrix % EXPERTS ? 1e-3 : 1;
    for (int64_t i = 0; i < EXPERT_ELEMENTS; i++)
        x[i] = size * (unit(stream, matrix, t, i) + unit(MEAN, matrix, 0, i) / 2 + (worker < 0 ? 0 : unit(OWN + worker, matrix, t, i) / 4));
    dtype_convert(tensor_flat(g_N, first, EXPERT_ELEMENTS).data, g_N.dtype, x, F64, EXPERT_ELEMENTS);
}

static Status experts_rank(Transport *transport, void *context)
{
    Experts *e = context;
    StepState state = { .weight_decay = 0.1, .factor = 0.5 };
    Queue q;
    Arena arena;
    Comm *world;
    world = comm_world(transport);
    assert_int_equal(queue_open(&q, "ref", 1, &state), OK);
    assert_int_equal(arena_open(&arena, "all", 8 << 20), OK);
    q.workspace = &arena;
    OptimizerPiece piece[MATRICES];
    OptimizerRun run = { .queue = &q, .optimizer = optimizer_named(rules[e->rule].optimizer), .settings = &rules[e->rule].settings, .stage = world,
        .scratch = &arena, .piece = piece, .pieces = e->apart ? MATRICES : MATRICES / EXPERTS, .sizes = rules[e->rule].settings.sizes };
    for (int f = 0; f < PARAM_FAMILIES; f++) run.sizes.workers[f] = comm_size(world), run.sizes.worker[f] = comm_rank(world);
    pieces_make(&run, &arena, F64, e->apart ? apart : together);
    if (optimizer_compresses(run.optimizer)) compressed_make(&run, &arena, F64);
    Tensor tokens_1 = tensor_new(&arena, "tokens", F64, 1), w[MATRICES], g[MATRICES];
    *(double *)tokens_1.data = 4096;
    for (int m = 0; m < MATRICES; m++) {
        const OptimizerPiece *p = &piece[e->apart ? m : m / EXPERTS];
        int64_t at = e->apart ? 0 : m % EXPERTS * EXPERT_ELEMENTS;
        w[m] = tensor_flat(p->w, at, EXPERT_ELEMENTS), g[m] = tensor_flat(p->g, at, EXPERT_ELEMENTS);
        expert_gradient(p->w, at, WEIGHTS, m, 0, -1);
    }
    for (int k = 0; k < run.pieces; k++) {
        for (int s = 0; s < piece[k].rule->states; s++) fill_zero(&q, (FillZero){ .y = piece[k].state[s] });
        if (piece[k].rule->start) piece[k].rule->start(&q, &piece[k]);
    }
    AverageWeights average = { 0 };
    for (int t = 1; t <= EXPERT_STEPS; t++) {
        state.lr = 1e-2, state.updates = t - 1;
        average = average_next(&state.average_share, average, state.lr);
        bool signs = optimizer_compresses(run.optimizer) && optimizer_compresses_now(run.optimizer, run.settings, t - 1);
        if (optimizer_estimates(run.optimizer) && (t - 1) % run.settings->estimate_interval == 0) {
            for (int m = 0; m < MATRICES; m++) expert_gradient(g[m], 0, SAMPLED, m, t, -1);
            for (int k = 0; k < run.pieces; k++) piece[k].rule->estimate(&q, run.settings, &piece[k], tokens_1);
        }
        for (int m = 0; m < MATRICES; m++) expert_gradient(g[m], 0, GRADIENT, m, t, signs ? comm_rank(world) : -1);
        optimizer_tensors(&run);
        optimizer_elements(&run, 0, run.pieces);
    }
    for (int m = 0; comm_rank(world) == 0 && m < MATRICES; m++) dtype_convert(e->w[m], F64, w[m].data, F64, EXPERT_ELEMENTS);
    arena_close(&arena);
    queue_close(&q);
    comm_close(world);
    return OK;
}

/* Gradients of sizes 1 and 1e-3: each expert has the update that its matrix has alone, to the bit; with signs, whose size is the whole model's, but for the
 * order of sums. */
static void test_experts(void **state)
{
    (void)state;
    for (int r = 0; r < RULES; r++) {
        static Experts e[2];
        bool signs = optimizer_compresses(optimizer_named(rules[r].optimizer));
        double most = 0;
        for (int i = 0; i < 2; i++) {
            e[i].rule = r, e[i].apart = i;
            assert_int_equal(transport_threads_run(signs ? WORKERS : 1, experts_rank, &e[i]), OK);
        }
        for (int m = 0; m < MATRICES; m++)
            for (int i = 0; i < EXPERT_ELEMENTS; i++) most = larger(most, fabs(e[0].w[m][i] - e[1].w[m][i]));
        if (!(most <= (signs ? 1e-13 : 0))) fail_msg("%s: an expert's weights are off by %.1e from those that it has alone", rules[r].golden, most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rules), cmocka_unit_test(test_experts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
