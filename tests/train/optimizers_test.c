/* Optimizers against PyTorch in float64 (tests/oracles/optimizers.py made tests/golden/optimizers.safetensors):
 * 50 losses and gradient norms of whole training runs, on one rank, and under sixteen layouts those of three of them, with JOTUN_FULL=1 of all. */
#include "train/step.h"
#include "train/trainer_checkpoint.h"
#include "train/trainer_optimizer.h"
#include "train/formula.h"

enum { COURSE = 50, LAYOUT_COUNT = 16 };

static const Layout layouts[LAYOUT_COUNT] = {
    /* name                    ranks tp cp pp chunks zero sequence schedule */
    { "dp2",                       2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp4 zero1",                 4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
    { "dp2 zero2",                 2, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B },
    { "dp4 zero3",                 4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "tp2",                       2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 sequence",              2, 2, 1, 1, 1, 0, true,  SCHEDULE_1F1B },
    { "pp2",                       2, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B },
    { "pp2 zb-h1 dp2 zero2",       4, 1, 1, 2, 1, 2, false, SCHEDULE_ZB_H1 },
    { "cp2",                       2, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq pp2 dp2 zero1",     8, 2, 1, 2, 1, 1, true,  SCHEDULE_1F1B },
    { "tp2 cp2 dp2 zero3",         8, 2, 2, 1, 1, 3, false, SCHEDULE_1F1B },
    { "tp2 pp2 cp2 zero2",         8, 2, 2, 2, 1, 2, true,  SCHEDULE_1F1B },
    { "dp4 zero2 hybrid2",         4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B, .hybrid = 2 },
    { "tp4 sequence",              4, 4, 1, 1, 1, 0, true,  SCHEDULE_1F1B },
    { "tp2 cp2",                   4, 2, 2, 1, 1, 0, false, SCHEDULE_1F1B },
    { "tp2 seq pp2",               4, 2, 1, 2, 1, 0, true,  SCHEDULE_1F1B },
};

#define ONEBIT { .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .least_ratio = 0.01, .most_ratio = 10, .freeze = 20, \
                 .onebit = { .mean_beta = 0.9, .factor_low = 0.5, .factor_high = 4, .factor_step = 0.1 } }
/* The settings of CASES in the oracle. own: no golden, and losses are compared with those of one rank. */
static const struct { const char *name, *optimizer; double peak; OptimizerSettings settings; bool own; } cases[] = {
    { "sgd", "sgd", 0.1, { .momentum = 0.8 } },
    { "lion", "lion", 2e-3, { .lion_beta1 = 0.9, .lion_beta2 = 0.98 } },
    { "lamb", "lamb", 2e-2, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .least_ratio = 0.3, .most_ratio = 0.8 } },
    { "muon_simple", "muon", 2e-2, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8,
      .muon = { .momentum = 0.95, .nesterov = true, .steps = 5, .scale = MUON_SPECTRAL, .extra = 0.2, .coefficients = MUON_SIMPLE } } },
    { "muon_quintic", "muon", 2e-2, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8,
      .muon = { .momentum = 0.9, .steps = 6, .scale = MUON_UNIT_RMS, .extra = 0.5, .coefficients = MUON_QUINTIC } } },
    { "adopt", "adopt", 1e-2, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6 } },
    { "adamwschedulefree", "adamwschedulefree", 5e-3, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 } },
    { "adafactor", "adafactor", 1e-2, { .adafactor = { .decay_rate = 0.8, .clip = 1, .epsilon1 = 0x1p-23, .epsilon2 = 1e-3 } } },
    { "adam-mini", "adam-mini", 5e-3, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 } },
    { "adam8bit", "adam8bit", 5e-3, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8 } },
    { "galoreadamw", "galoreadamw", 1e-2, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .sizes = { .rank = 5 }, .renewal = 20, .galore_scale = 0.5 } },
    { "galoreadamw8bit", "galoreadamw8bit", 1e-2, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .rank = 5 }, .renewal = 20,
                                                  .galore_scale = 0.5 } },
    { "shampoo", "shampoo", 5e-3, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .longest = 100 }, .renewal = 5, .shampoo_epsilon = 1e-6 } },
    { "soap", "soap", 5e-3, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .sizes = { .longest = 12 }, .renewal = 10, .gram_beta = 0.9 } },
    { "soap_epsilon", "soap", 5e-3, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-4, .sizes = { .longest = 12 }, .renewal = 10, .gram_beta = 0.9 },
      .own = true },
    { "onebitlamb", "ds.onebitlamb", 1e-2, ONEBIT },
    { "ipexlamb", "ipex.lamb", 2e-2, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .most_ratio = INFINITY } },
    { "adam_coupled", "adam", 5e-3, { .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .coupled = true } },
    { "sgd_nesterov", "sgd", 0.1, { .momentum = 0.8, .nesterov = true } },
    { "sgdschedulefree", "sgdschedulefree", 0.5, { .momentum = 0.9 } },
    { "sophiag", "sophiag", 3e-3, { .beta1 = 0.965, .beta2 = 0.99, .sophia_rho = 0.04, .estimate_interval = 10 } },
};
enum { CASES = sizeof cases / sizeof *cases, LAMB = 2 };
/* Of each kind one: sums over tensors, whole matrices, 8-bit blocks. The others with JOTUN_FULL=1 */
static const char *const quick[] = { "lamb", "muon_simple", "adam8bit" };
static const char *const model_name[] = { "gpt", "llama" };

/* hessian: of Sophia on one rank, the sum over all elements */
typedef struct { double loss[COURSE], norm[COURSE], hessian[COURSE]; int64_t off[RANKS_MAX]; } Course;

/* All elements of a rank that has the whole model. */
static double hessian_sum(const Trainer *t)
{
    double sum = 0;
    for (int i = 0; i < t->update.optimizer.pieces; i++)
        for (int64_t e = 0; t->update.optimizer.piece[i].saves && e < t->update.optimizer.piece[i].count; e++) sum += real_get(t->update.optimizer.piece[i].state[1], e);
    return sum;
}

static void run_course(Trainer *t, void *context)
{
    Course *course = context;
    formula_weights(t);
    trainer_optimizer_init(t);                                 /* states that begin as the weights */
    for (int i = 0; i < COURSE; i++) {
        StepReport r = trainer_step(t);
        if (t->mesh.rank == 0) course->loss[i] = r.loss, course->norm[i] = r.norm;
        if (t->mesh.world == 1 && optimizer_estimates(t->config->optimizer)) course->hessian[i] = hessian_sum(t);
    }
}

static TrainConfig config_of(ModelName model, int c, const Layout *layout, const char *device)
{
    TrainConfig config = formula_config(model, device, scratch_path("formula"));
    config.lr        = (LrSchedule){ .style = LR_COSINE, .peak = cases[c].peak, .low = cases[c].peak / 10, .warmup = (double)(3 * config.global), .decay = COURSE * config.global };
    config.steps     = COURSE;
    config.optimizer = optimizer_named(cases[c].optimizer);
    config.settings  = cases[c].settings;
    config.micro     = 1;
    if (layout) config_set_layout(&config, layout);
    return config;
}

static Course course_of(ModelName model, int c, const Layout *layout, const char *device)
{
    Course course = { 0 };
    Session session = { .config = config_of(model, c, layout, device), .ranks = layout ? layout->ranks : 1,
                        .body = run_course, .context = &course };
    session_run(&session);
    return course;
}

static Course golden_of(ModelName model, int c)
{
    SafeFile file;
    Course course = { 0 };
    char name[64];
    if (safetensors_open(&file, TESTS_DIR "/golden/optimizers.safetensors") != OK) fail_msg("%s", fail_text());
    snprintf(name, sizeof name, "%s.%s.losses", model_name[model], cases[c].name);
    golden_read(course.loss, &file, name, COURSE);
    snprintf(name, sizeof name, "%s.%s.norms", model_name[model], cases[c].name);
    golden_read(course.norm, &file, name, COURSE);
    snprintf(name, sizeof name, "%s.%s.hessians", model_name[model], cases[c].name);
    if (optimizer_estimates(optimizer_named(cases[c].optimizer))) golden_read(course.hessian, &file, name, COURSE);
    safetensors_close(&file);
    return course;
}

static double most_apart(const double *x, const double *y)
{
    double most = 0;
    for (int i = 0; i < COURSE; i++) most = larger(most, fabs(x[i] - y[i]));
    return most;
}

static bool is(int c, const char *name) { return !strcmp(cases[c].name, name); }

/* The second update has the gradient of the first, as the learning rate begins at 0: in the bases of that, where its products have eigenvalue 0, it
 * is 0 but for rounding, which SOAP divides by epsilon. With a larger epsilon, soap_epsilon, losses are as near as those of others. */
static double losses_within(int c) { return is(c, "soap") ? 1e-10 : 1e-12; }

static void test_equals_pytorch(void **state)
{
    (void)state;
    for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++)
        for (int c = 0; c < CASES; c++) {
            if (cases[c].own) continue;
            Course golden = golden_of(model, c), one = course_of(model, c, NULL, "ref");
            double off = most_apart(one.loss, golden.loss), norm = most_apart(one.norm, golden.norm);
            printf("%-5s %-12s one rank: 50 losses off by %.1e, norms by %.1e\n", model_name[model], cases[c].name, off, norm);
            assert_true(golden.loss[COURSE - 1] < golden.loss[0] - 1);
            if (!(off <= losses_within(c))) fail_msg("%s %s: losses are off by %.1e", model_name[model], cases[c].name, off);
            double hessian = most_apart(one.hessian, golden.hessian) / fmax(1, golden.hessian[COURSE - 1]);
            if (!(hessian <= losses_within(c))) fail_msg("%s %s: sums of the Hessian are off by %.1e of the last", model_name[model], cases[c].name, hessian);
            if (!(norm <= 100 * losses_within(c))) fail_msg("%s %s: norms are off by %.1e", model_name[model], cases[c].name, norm);
        }
}

static bool is_quick(int c)
{
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        if (is(c, quick[i])) return true;
    return getenv("JOTUN_FULL") != NULL;
}

/* Whether data-parallel ranks would send signs, which depend on their number (test_signs), or shard, which is refused. */
static bool sends_signs(int c, const Layout *l)
{
    return is(c, "onebitlamb") && (l->zero > 0 || l->ranks > l->tp * l->cp * l->pp);
}

/* Its largest difference over both models is the last column. */
static void test_layouts(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        if (!is_quick(c)) continue;
        Course golden[2] = { 0 };
        for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++)
            golden[model] = cases[c].own ? course_of(model, c, NULL, "ref") : golden_of(model, c);
        for (int i = 0; i < LAYOUT_COUNT; i += turns(1, 4)) {
            double off = 0;
            if (sends_signs(c, &layouts[i])) continue;
            for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
                Course course = course_of(model, c, &layouts[i], "ref");
                off = larger(off, most_apart(course.loss, golden[model].loss));
            }
            printf("%-17s %-24s 50 losses off by %.1e\n", cases[c].name, layouts[i].name, off);
            if (!(off <= losses_within(c))) fail_msg("%s, %s: losses are off by %.1e", cases[c].name, layouts[i].name, off);
        }
    }
}

/* ---- 1-bit LAMB by two data-parallel ranks ---- */

/* Of models, what they have beside those of the goldens. A key's bias shifts all scores of a query alike unless RoPE turns it, so that its gradient is 0 but
 * for rounding, and its signs are those of rounding: they count in the size of all others. */
typedef struct { const char *name; ModelName model; bool no_key_bias, rope; double within; } Signed;

static Course signed_course(const Signed *s, int c, const Layout *layout)
{
    Course course;
    Session session = { .config = config_of(s->model, c, layout, "ref"), .ranks = layout ? layout->ranks : 1, .body = run_course, .context = &course };
    if (s->no_key_bias) session.config.model.qkv_bias = false;
    if (s->rope) session.config.model.position = POSITION_ROPE;
    session_run(&session);
    return course;
}

/* With signs losses are those of two ranks under every layout that has two data-parallel ones, and they fall. */
static void test_signs(void **state)
{
    (void)state;
    static const Signed models[] = {
        { "gpt", MODEL_GPT, false, false, 1e-12 }, { "gpt, no bias of keys", MODEL_GPT, true, false, 1e-12 },
        { "gpt, RoPE", MODEL_GPT, false, true, 1e-12 }, { "llama", MODEL_LLAMA, false, false, 1e-12 },
    };
    static const Layout row[] = {
        { "tp2 dp2", 4, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B },  { "tp2 seq dp2", 4, 2, 1, 1, 1, 0, true, SCHEDULE_1F1B },
        { "pp2 dp2", 4, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B },  { "cp2 dp2", 4, 1, 2, 1, 1, 0, false, SCHEDULE_1F1B },
        { "tp2 seq pp2 dp2", 8, 2, 1, 2, 1, 0, true, SCHEDULE_1F1B },
    };
    int c = 0;
    while (!is(c, "onebitlamb")) c++;
    for (int m = 0; m < 4; m++) {
        const Signed *s = &models[m];
        Course two = signed_course(s, c, &layouts[0]), one = signed_course(s, c, NULL);
        printf("%-21s dp2: loss %.6f, %.6f at the freeze, %.6f\n", s->name, two.loss[0], two.loss[20], two.loss[COURSE - 1]);
        assert_true(most_apart(one.loss, two.loss) > 1e-6);
        for (int i = 0; i <= 20; i++) assert_true(fabs(one.loss[i] - two.loss[i]) <= 1e-12);
        assert_true(two.loss[COURSE - 1] < two.loss[20]);
        for (int i = 0; i < 5; i++) {
            Course course = signed_course(s, c, &row[i]);
            double off = most_apart(course.loss, two.loss);
            printf("%-21s onebitlamb with signs, %-20s 50 losses off by %.1e\n", s->name, row[i].name, off);
            if (!(off <= s->within)) fail_msg("%s, %s: losses are off by %.1e", s->name, row[i].name, off);
        }
    }
}

/* ---- Sophia's estimates ---- */

enum { ESTIMATED = 3 };
typedef struct { double sum[RANKS_MAX][ESTIMATED]; } Hessians;

/* Of the elements that this rank counts, after each step. */
static void watch_hessian(Trainer *t, void *context)
{
    Hessians *h = context;
    formula_weights(t);
    trainer_optimizer_init(t);
    for (int s = 0; s < ESTIMATED; s++) {
        trainer_step(t);
        h->sum[t->mesh.rank][s] = 0;
        for (int i = 0; i < t->update.optimizer.pieces; i++) {
            const OptimizerPiece *p = &t->update.optimizer.piece[i];
            const double *hessian = (const double *)p->state[1].data + p->counted_first - p->first;
            for (int64_t e = 0; e < p->counted; e++) h->sum[t->mesh.rank][s] += hessian[e];
        }
    }
}

static void hessian_of(double sum[ESTIMATED], ModelName model, const Layout *layout)
{
    Hessians h = { 0 };
    Session session = { .config = config_of(model, 0, layout, "ref"), .ranks = layout ? layout->ranks : 1, .body = watch_hessian,
                        .context = &h };
    session.config.optimizer = optimizer_named("sophiag");
    session.config.settings  = (OptimizerSettings){ .beta1 = 0.9, .beta2 = 0.95, .sophia_rho = 0.04, .estimate_interval = 2 };
    session_run(&session);
    for (int s = 0; s < ESTIMATED; s++) {
        sum[s] = 0;
        for (int r = 0; r < session.ranks; r++) sum[s] += h.sum[r][s];
    }
}

/* Before the first and the third of three steps an estimate changes the Hessian, and no layout changes the estimate. */
static void test_estimates(void **state)
{
    (void)state;
    static const int drawn[] = { 3, 5, 9, 10 };                        /* zero3; tp, sequence; pp, zero1; tp cp dp zero3 */
    for (ModelName model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
        double one[ESTIMATED], sum[ESTIMATED];
        hessian_of(one, model, NULL);
        assert_true(one[0] > 0);
        assert_true(one[1] == one[0]);
        assert_true(one[2] > 0 && fabs(one[2] - one[1]) > 1e-3 * one[1]);
        for (int i = 0; i < 4; i++) {
            if (model == MODEL_GPT && layouts[drawn[i]].pp > 1) continue;      /* first and last stage count the tied embedding */
            hessian_of(sum, model, &layouts[drawn[i]]);
            for (int s = 0; s < ESTIMATED; s++)
                if (!(fabs(sum[s] - one[s]) <= 1e-11 * one[s]))
                    fail_msg("%s, %s: the Hessian after step %d sums to %.17g, on one rank to %.17g", model_name[model],
                             layouts[drawn[i]].name, s + 1, sum[s], one[s]);
        }
    }
}

/* As after a step that was skipped: the update is tried again, with the estimate that it has, also where the run was resumed in between. Only without its
 * states a new one is taken. */
static void repeat_update(Trainer *t, void *context)
{
    const char *folder = scratch_path("estimated");
    TrainConfig *config = (TrainConfig *)t->config;
    double first, same;
    (void)context;
    trainer_step(t);
    first = hessian_sum(t);
    t->step_state.updates = 0;
    trainer_step(t);
    same = hessian_sum(t);
    assert_true(first > 0 && same == first);
    t->step_state.updates = 0;
    assert_int_equal(trainer_save(t, folder, 1), OK);
    for (int again = 0; again < 2; again++) {
        char path[1024];
        bool found;
        CheckpointState state;
        config->leave = again ? CHECKPOINT_STATES : 0;
        assert_int_equal(trainer_find(folder, path, &found, &state), OK);
        assert_int_equal(trainer_load(t, path), OK);
        trainer_step(t);
        assert_true(again ? hessian_sum(t) != first : hessian_sum(t) == first);
    }
}

/* While gradients overflow each step has its estimate left out, and says so; then it is taken once. */
static void overflow_estimates(Trainer *t, void *context)
{
    int left_out = 0;
    (void)context;
    for (int i = 0; i < 12; i++) {
        StepReport r = trainer_step(t);
        left_out += r.estimate.left_out;
        if (r.estimate.left_out) assert_true(hessian_sum(t) == 0 && t->run.estimated == 0 && !r.estimate.spike && !isfinite(r.estimate.norm));
        else assert_true(hessian_sum(t) > 0 && t->run.estimated == 1);
    }
    assert_true(left_out > 1 && left_out < 8);
}

static void test_estimated_once(void **state)
{
    (void)state;
    Session session = { .config = config_of(MODEL_LLAMA, 0, NULL, "ref"), .ranks = 1, .body = repeat_update };
    session.config.optimizer = optimizer_named("sophiag");
    session.config.settings  = (OptimizerSettings){ .beta1 = 0.9, .beta2 = 0.95, .sophia_rho = 0.04, .estimate_interval = 20 };
    session_run(&session);
    session.body = overflow_estimates;
    session.config.device = "cpu", session.config.precision.mixed = MIXED_F16;
    session.config.scaling = (LossScaling){ true, 1, 100, 1 }, session.config.loss_scale = 0x1p22;
    session_run(&session);
}

/* ---- messages of the optimizer alone, of one step ---- */

typedef struct { Sent sums[RANKS_MAX], parts[RANKS_MAX]; } Messages;

static void count_step(Trainer *t, void *context)
{
    Messages *m = context;
    comm_sent_reset(t->comms.stage);
    comm_sent_reset(t->comms.tp);
    trainer_step(t);
    m->sums[t->mesh.rank]  = comm_sent(t->comms.stage, SENT_ALL_REDUCE);
    m->parts[t->mesh.rank] = comm_sent(t->comms.tp, SENT_ALL_TO_ALL);
}

/* Messages of the second step with signs, over data-parallel ranks. */
typedef struct { Sent gradients[RANKS_MAX], out[RANKS_MAX], back[RANKS_MAX]; } SignMessages;

static void count_signs(Trainer *t, void *context)
{
    SignMessages *m = context;
    for (int i = 0; i < 2; i++) trainer_step(t);
    comm_sent_reset(t->comms.dp_cp);
    comm_sent_reset(t->comms.dp);
    trainer_step(t);
    m->gradients[t->mesh.rank] = comm_sent(t->comms.dp_cp, SENT_ALL_REDUCE);
    m->out[t->mesh.rank]  = comm_sent(t->comms.dp, SENT_ALL_TO_ALL);
    m->back[t->mesh.rank] = comm_sent(t->comms.dp, SENT_ALL_GATHER);
}

/* No gradients, only the four numbers that a step sums over 4 ranks; of each block of n elements n / 8 bytes in whole bytes for each of the ranks, of which a rank keeps its own. */
static void test_sign_messages(void **state)
{
    (void)state;
    static const Layout row = { "dp4", 4, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };
    SignMessages m = { 0 };
    Session session = { .config = config_of(MODEL_LLAMA, 0, &row, "ref"), .ranks = 4, .body = count_signs, .context = &m };
    session.config.optimizer = optimizer_named("ds.onebitlamb");
    session.config.settings  = (OptimizerSettings)ONEBIT;
    session.config.settings.freeze = 1;
    session_run(&session);
    int64_t bytes = 0, blocks = 0;
    for (int64_t b = 0; b < params_blocks(&session.config.model); b++) {
        ParamBlock block;
        int64_t n = 0;
        params_block(&block, &session.config.model, PARAMS_DENSE, b, NULL);
        for (int p = 0; p < block.params; p++) n += param_elements(&block.param[p]);
        bytes += (n + 31) / 32;
        blocks += n > 0;
    }
    for (int r = 0; r < 4; r++) {
        assert_true(m.gradients[r].calls == 1 && m.gradients[r].bytes == 2 * 3 * sizeof(double));
        assert_int_equal(m.out[r].bytes, 3 * bytes);
        assert_int_equal(m.back[r].bytes, 3 * bytes);
        assert_int_equal(m.out[r].calls, blocks);
    }
}

/* Of the whole model: tensors, matrices of layers, and elements of their parts on a rank of tp. */
static void count_tensors(const ModelConfig *model, int tp, int64_t *tensors, int64_t *matrices, int64_t *elements)
{
    ParamRanks ranks = { .size = { .tp = tp, .cp = 1, .dp = 1, .pp = 1, .etp = 1, .ep = 1, .edp = 1 } };
    *tensors = *matrices = *elements = 0;
    for (int64_t b = 0; b < params_blocks(model); b++) {
        ParamBlock block;
        params_block(&block, model, PARAMS_DENSE, b, &ranks);
        *tensors += block.params;
        for (int p = 0; p < block.params; p++) {
            if (!param_is_layer_matrix(&block.param[p])) continue;
            ++*matrices;
            *elements += param_elements(&block.param[p]);
        }
    }
}

/* The sums of all tensors of a stage are one all-reduce: over its n ranks 2 (n - 1) times their bytes. Parts of a
 * matrix go to one of the n ranks of tp and back: 2 (n - 1) parts, in two messages for each n matrices. */
static void test_messages(void **state)
{
    (void)state;
    static const Layout row[] = {
        { "tp2", 2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B }, { "tp4", 4, 4, 1, 1, 1, 0, true, SCHEDULE_1F1B },
        { "tp2 dp2", 4, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B }, { "tp2 dp2 zero3", 4, 2, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    };
    for (int i = 0; i < 4; i++)
        for (int c = LAMB; c <= LAMB + 1; c++) {                   /* LAMB; Muon */
            Messages m = { 0 };
            int64_t tensors, matrices, elements, sums = 0, parts = 0, n = row[i].ranks, tp = row[i].tp;
            Session session = { .config = config_of(MODEL_LLAMA, c, &row[i], "ref"), .ranks = row[i].ranks, .body = count_step,
                                .context = &m };
            session_run(&session);
            count_tensors(&session.config.model, row[i].tp, &tensors, &matrices, &elements);
            for (int r = 0; r < n; r++) {
                sums += m.sums[r].bytes, parts += m.parts[r].bytes;
                assert_int_equal(m.sums[r].calls, 1);
                if (row[i].zero == 0) assert_int_equal(m.parts[r].calls, c == LAMB ? 0 : 2 * ((matrices + tp - 1) / tp));
            }
            int64_t copies = row[i].zero == 0 ? n / tp : 1;         /* data ranks that iterate the same matrices */
            assert_int_equal(sums, 2 * (n - 1) * 8 * (c == LAMB ? 2 * tensors : matrices));
            assert_int_equal(parts, c == LAMB ? 0 : copies * 2 * (tp - 1) * elements * 8);
        }
}

int main(void)
{
    formula_corpus(scratch_path("formula"));
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_equals_pytorch), cmocka_unit_test(test_layouts), cmocka_unit_test(test_signs),
                                        cmocka_unit_test(test_estimates), cmocka_unit_test(test_estimated_once), cmocka_unit_test(test_messages),
                                        cmocka_unit_test(test_sign_messages) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
