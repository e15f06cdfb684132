/* Each evaluation continues after the samples of the one before: which samples it takes follows from the step
 * alone, under every layout and after a resume. And what is evaluated on may come from paths of its own. */
#include "eval/windows.h"
#include "train/evaluation.h"
#include "train/step.h"
#include "train/layouts.h"
#include "train/moe_layouts.h"

enum { TURNS = 3, EVERY = 2, BATCHES = 2 };
typedef struct { double valid[TURNS], test; int64_t from; } SplitLosses;

/* Weights stay those of step 0: losses differ by their samples alone. */
static void evaluate_turns(Trainer *t, void *context)
{
    SplitLosses *losses = context;
    for (int turn = (int)losses->from; turn < TURNS; turn++) {
        t->run.step = (turn + 1) * EVERY;
        double loss = trainer_evaluate_split(t, SPLIT_VALID);
        if (t->mesh.rank == 0) losses->valid[turn] = loss;
    }
    double loss = train_config_takes(t->config, SPLIT_TEST) ? trainer_evaluate_split(t, SPLIT_TEST) : 0;
    if (t->mesh.rank == 0) losses->test = loss;
}

/* Two more steps, with an evaluation between them where the context is given; the scales after them. */
static float scales[2][4 * FP8_TENSORS];
static void evaluate_and_go_on(Trainer *t, void *context)
{
    for (int i = 0; i < 2; i++) {
        trainer_step(t);
        if (context) trainer_evaluate_split(t, SPLIT_VALID);
    }
    memcpy(scales[context != NULL], t->fp8.scale.data, sizeof scales[0]);
}

static const char *paths[SPLITS];
static SplitLosses losses_of(const Layout *layout, OrderKind order, bool own, int64_t from)
{
    SplitLosses losses = { .from = from };
    Job  job = { .config = tiny_config(MODEL_LLAMA, "ref", own ? NULL : paths[SPLIT_TRAIN]), .ranks = layout->ranks, .look = evaluate_turns, .context = &losses };
    config_set_layout(&job.config, layout);
    job.config.model.hidden_dropout = job.config.model.attention_dropout = 0;
    job.config.split = "50,50,0";
    job.config.eval_interval = EVERY;
    job.config.eval_iters    = BATCHES;
    job.config.datasets.order = order;
    job.config.datasets.final_epoch_cut = 0.80;
    for (int kind = 0; own && kind < SPLITS; kind++) job.config.datasets.split_path[kind] = (DataPath){ .text = &paths[kind], .count = 1 };
    job_run(&job);
    return losses;
}

static const Layout one = { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };

static void evaluations_go_on(void **state)
{
    (void)state;
    static const Layout few[] = { { "dp2", 2, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, { "tp2 pp2", 4, 2, 1, 2, 1, 0, false, SCHEDULE_1F1B },
                                      { "cp2 dp2 zero 3", 4, 1, 2, 1, 1, 3, false, SCHEDULE_1F1B } };
    static const OrderKind orders[] = { ORDER_JOTUN, ORDER_MEGATRON };
    for (int o = 0; o < 2; o++) {
        SplitLosses straight = losses_of(&one, orders[o], false, 0), resumed = losses_of(&one, orders[o], false, 1);
        assert_true(straight.valid[0] != straight.valid[1] && straight.valid[1] != straight.valid[2]);
        for (int turn = 1; turn < TURNS; turn++) assert_true(straight.valid[turn] == resumed.valid[turn]);
        for (size_t l = 0; l < sizeof few / sizeof *few; l++) {
            SplitLosses other = losses_of(&few[l], orders[o], false, 0);
            for (int turn = 0; turn < TURNS; turn++)
                if (fabs(other.valid[turn] - straight.valid[turn]) > 1e-12) fail_msg("%s, evaluation %d: %.17g, not %.17g", few[l].name, turn, other.valid[turn], straight.valid[turn]);
        }
    }
}

/* Valid and test hold the same text here, and train another: so their first evaluations agree, and --split
 * cuts nothing. */
static void paths_of_their_own(void **state)
{
    (void)state;
    SplitLosses own = losses_of(&one, ORDER_MEGATRON, true, 0), cut = losses_of(&one, ORDER_MEGATRON, false, 0);
    assert_true(own.test != 0 && cut.test == 0);
    assert_true(own.test == losses_of(&one, ORDER_MEGATRON, true, 0).test);
    assert_true(own.valid[0] != cut.valid[0]);
    assert_true(fabs(own.test - own.valid[0]) < 0.2);
}

/* Batches of an evaluation of their own, before and after a step: the same losses under every layout and with every size of a
 * micro-batch, in the memory that the dry run counts; and training is as it is without them. */
typedef struct { Layout layout; int64_t micro, valid_micro; Recompute recompute; } BatchCase;
static const BatchCase batches[] = {
    { { "one rank",              1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },        1, 1, { 0 } },
    { { "one rank, larger",      1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },        1, 4, { 0 } },
    { { "one rank, smaller",     1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },        4, 1, { 0 } },
    { { "dp2 tp2 seq, larger",   4, 2, 1, 1, 1, 1, true,  SCHEDULE_1F1B },        1, 2, { 0 } },
    { { "pp2 interleaved",       2, 1, 1, 2, 2, 0, false, SCHEDULE_INTERLEAVED }, 2, 4, { 0 } },
    { { "pp2 zb-v",              2, 1, 1, 2, 2, 0, false, SCHEDULE_ZB_V },        2, 1, { 0 } },
    { { "pp2 zb-h1 dp2 zero1",   4, 1, 1, 2, 1, 1, false, SCHEDULE_ZB_H1 },       2, 1, { 0 } },
    { { "cp2 dp2 zero3",         4, 1, 2, 1, 1, 3, false, SCHEDULE_1F1B },        1, 2, { .method = RECOMPUTE_UNIFORM, .layers = 2 } },
};

static void batches_of_their_own(void **state)
{
    (void)state;
    Job straight = { 0 };
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const BatchCase *of = &batches[i];
        for (int own = 0; own < 2; own++) {
            Job job = { .config = tiny_config(MODEL_LLAMA, "ref", paths[SPLIT_TRAIN]), .ranks = of->layout.ranks, .steps = 2 };
            if (own && i == 0) break;
            config_set_layout(&job.config, &of->layout);
            job.config.split = "50,50,0", job.config.eval_interval = EVERY, job.config.eval_iters = BATCHES;
            job.config.micro = of->micro, job.config.recompute = of->recompute;
            job.config.valid_global = 4;
            job.config.valid_micro  = own ? of->valid_micro : 0;
            job_run(&job);
            if (i == 0) straight = job;
            for (int s = 0; s < 2; s++)
                if (fabs(job.loss[s] - straight.loss[s]) > 1e-12) fail_msg("%s, step %d: %.17g, not %.17g", of->layout.name, s, job.loss[s], straight.loss[s]);
            if (fabs(job.first_valid - straight.first_valid) > 1e-12 || fabs(job.valid - straight.valid) > 1e-11)
                fail_msg("%s, micro-batches of %lld: %.17g and %.17g, not %.17g and %.17g", of->layout.name, (long long)job.config.valid_micro,
                         job.first_valid, job.valid, straight.first_valid, straight.valid);
        }
    }
    Job other = straight;                                  /* as many samples as a step has are others */
    other.config.valid_global = 0;
    job_run(&other);
    assert_true(other.first_valid != straight.first_valid && other.loss[1] == straight.loss[1]);
}

/* ---- a text in windows ---- */

/* Windows of 16: a whole number of batches; a part of a window and of a batch; fewer windows than data ranks. */
enum { TEXTS = 3, TEXT_MOST = 8 * 16 + 1 };
static const int64_t text_count[TEXTS] = { TEXT_MOST, 5 * 16 + 4, 12 };
typedef struct { double loss[TEXTS]; } WindowLosses;

static void fill_windows(void *context, Batch *batch, int64_t step, int micro) { windows_fill(context, batch, step, micro); }

static void evaluate_windows(Trainer *t, void *context)
{
    WindowLosses *losses = context;
    int32_t ids[TEXT_MOST];
    for (int64_t i = 0; i < TEXT_MOST; i++) ids[i] = (int32_t)(random_bits(random_key(3, "text"), (uint64_t)i) % 61);
    for (int n = 0; n < TEXTS; n++) {
        Windows w = { .ids = ids, .count = text_count[n], .config = trainer_loader_config(t) };
        double loss = trainer_evaluate(t, windows_steps(&w), fill_windows, &w);
        if (t->mesh.rank == t->mesh.world - 1) losses->loss[n] = loss;
    }
}

/* etp, ep of 0: a model without experts */
static WindowLosses windows_of(ModelName model, const Layout *layout, int etp, int ep)
{
    WindowLosses losses = { { 0 } };
    Job job = { .config = ep ? moe_config(model, "ref", NULL) : tiny_config(model, "ref", NULL), .ranks = layout->ranks,
                .look = evaluate_windows, .context = &losses };
    config_set_layout(&job.config, layout);
    job.config.etp = etp;
    job.config.ep  = ep;
    job.config.training = job.config.reset_attention = false;
    int dp = layout->ranks / (layout->tp * layout->cp * layout->pp);
    job.config.micro  = layout->sequence ? 2 : 1;
    job.config.global = job.config.micro * dp * (layout->pp > 1 ? layout->pp : 1);
    job_run(&job);
    return losses;
}

static void windows_same(WindowLosses other, WindowLosses straight, const char *layout)
{
    for (int n = 0; n < TEXTS; n++)
        if (!(fabs(other.loss[n] - straight.loss[n]) <= 1e-12))
            fail_msg("%s, text of %lld: %.17g, not %.17g", layout, (long long)text_count[n], other.loss[n], straight.loss[n]);
}

static void windows_under_layouts(void **state)
{
    (void)state;
    for (int model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
        WindowLosses straight = windows_of(model, &one, 0, 0), experts = windows_of(model, &one, 1, 1);
        for (int l = 0; l < LAYOUTS; l++) windows_same(windows_of(model, &layouts[l], 0, 0), straight, layouts[l].name);
        for (int l = 0; l < MOE_LAYOUTS; l++) {
            const MoeLayout *m = &moe_layouts[l];
            windows_same(windows_of(model, &m->layout, m->etp, m->ep), experts, m->layout.name);
        }
    }
}

/* What is evaluated is no amax of training: the losses of steps are the same with evaluations before them. */
static void evaluations_leave_scales(void **state)
{
    (void)state;
    Job job[2];
    for (int i = 0; i < 2; i++) {
        job[i] = (Job){ .config = tiny_config(MODEL_LLAMA, "cpu", paths[SPLIT_TRAIN]), .ranks = 1, .steps = 4 };
        job[i].config.split = "50,50,0";
        job[i].config.eval_interval = EVERY;
        job[i].config.precision = (PrecisionChoice){ .mixed = MIXED_BF16,
            .fp8 = { .recipe = FP8_DELAYED, .hybrid = true, .history = 2 } };
        job[i].look = evaluate_and_go_on;
        job[i].config.eval_iters = 2;
        job[i].context = i ? &job[i] : NULL;
        job_run(&job[i]);
    }
    assert_memory_equal(scales[0], scales[1], sizeof scales[0]);
}

static double went_on[2][3];
static void go_on(Trainer *t, void *context)
{
    for (int i = 0; i < 3; i++) {
        StepReport done = trainer_step(t);
        if (t->mesh.rank == 0) went_on[context != NULL][i] = done.loss;
        if (context) trainer_evaluate_split(t, SPLIT_VALID);
    }
}

/* Nor does the average of weights, which takes the place of the parameters, change them. */
static void evaluations_leave_parameters(void **state)
{
    (void)state;
    static const struct { int ranks, zero; MixedPrecision mixed; } row[] = { { 1, 0, MIXED_NONE }, { 2, 1, MIXED_BF16 }, { 2, 3, MIXED_NONE } };
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 2; i++) {
            Job job = { .config = tiny_config(MODEL_LLAMA, "cpu", paths[SPLIT_TRAIN]), .ranks = row[k].ranks, .steps = 3, .look = go_on };
            job.config.split = "50,50,0";
            job.config.zero = row[k].zero;
            job.config.precision.mixed = row[k].mixed;
            job.config.optimizer = optimizer_named("adamwschedulefree");
            job.config.eval_interval = EVERY;
            job.config.eval_iters = 2;
            job.context = i ? &job : NULL;
            job_run(&job);
        }
        assert_memory_equal(went_on[0], went_on[1], sizeof went_on[0]);
    }
}

static const char *other;                                 /* other text than that of `paths` */

/* Losses of some data sets, each sample counted once, with global batches of `global` samples. */
static void evaluate_sets(Trainer *t, void *context)
{
    double *losses = context;
    for (int set = 0; set < DATA_SETS; set++) {
        if (set == SPLIT_TRAIN || !train_config_takes(t->config, set)) continue;
        double first = trainer_evaluate_split(t, set);
        t->run.step += EVERY;
        double again = trainer_evaluate_split(t, set);
        if (first != again) fail_msg("data set %d: loss %.17g, again %.17g %s", set, first, again, t->input.failure);      /* it begins anew each time */
        if (t->mesh.rank == 0) losses[set] = first;
    }
}

static void whole_sets(double losses[DATA_SETS], const Layout *layout, OrderKind order, int sets, int64_t global)
{
    Job job = { .config = tiny_config(MODEL_LLAMA, "ref", NULL), .ranks = layout->ranks, .look = evaluate_sets, .context = losses };
    DatasetRules *rules = &job.config.datasets;
    memset(losses, 0, DATA_SETS * sizeof *losses);
    config_set_layout(&job.config, layout);
    job.config.model.hidden_dropout = job.config.model.attention_dropout = 0;
    job.config.eval_interval = EVERY, job.config.eval_iters = 1, job.config.global = global;
    job.config.full_validation = true;
    rules->order = order, rules->final_epoch_cut = 0.80, rules->valid_sets = sets;
    rules->split_path[SPLIT_TRAIN] = (DataPath){ .text = &paths[SPLIT_TRAIN], .count = 1 };
    for (int i = 0; i < sets; i++) rules->valid_set[i] = (DataPath){ .text = i ? &paths[i] : &other, .count = 1 };
    if (sets == 0) rules->split_path[SPLIT_VALID] = (DataPath){ .text = &paths[SPLIT_VALID], .count = 1 };
    job_run(&job);
}

/* The mean over all samples does not depend on the batches in which they are read, nor on the layout; and several
 * sets have the losses that each of them has alone. */
static void each_sample_once(void **state)
{
    (void)state;
    static const Layout few[] = { { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, { "dp2 pp2", 4, 1, 1, 2, 1, 1, false, SCHEDULE_1F1B },
                                  { "cp2 tp2", 4, 2, 2, 1, 1, 0, true, SCHEDULE_1F1B } };
    double alone[DATA_SETS], losses[DATA_SETS];
    for (int order = ORDER_JOTUN; order <= ORDER_MEGATRON; order++) {            /* they cut the text into other samples */
        whole_sets(alone, &one, (OrderKind)order, 0, 8);
        assert_true(alone[SPLIT_VALID] > 0);
        for (size_t l = 0; l < sizeof few / sizeof *few; l++)
            for (int64_t global = 2; global <= 22; global += 20) {          /* 254 samples: the last batch is full, or not */
                whole_sets(losses, &few[l], (OrderKind)order, 3, global);
                assert_true(losses[SPLIT_VALID] == 0 && losses[SPLITS + 3] == 0);
                assert_true(losses[SPLITS] != losses[SPLITS + 1]);
                if (fabs(losses[SPLITS + SPLIT_VALID] - alone[SPLIT_VALID]) > 1e-12)
                    fail_msg("%s, batches of %d: %.17g, alone %.17g", few[l].name, (int)global, losses[SPLITS + SPLIT_VALID], alone[SPLIT_VALID]);
            }
    }
}

int main(void)
{
    for (int kind = 0; kind < SPLITS; kind++) {
        char name[24];
        snprintf(name, sizeof name, "corpus%d", kind);
        paths[kind] = strdup(scratch_path(name));
        corpus_make(paths[kind], 61);
    }
    other = strdup(scratch_path("other"));
    corpus_make(other, 40);
    const struct CMUnitTest tests[] = { cmocka_unit_test(evaluations_go_on), cmocka_unit_test(paths_of_their_own), cmocka_unit_test(batches_of_their_own), cmocka_unit_test(windows_under_layouts),
                                        cmocka_unit_test(evaluations_leave_scales), cmocka_unit_test(evaluations_leave_parameters), cmocka_unit_test(each_sample_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
