/* Training on the back end `cuda`, whose kernels the shim runs on the CPU (or a GPU, where they were compiled for
 * one): losses, gradient norms and evaluations of a tiny GPT and Llama with dropout are those of `cpu` and
 * `ref`; runs repeat to the bit, also resumed or recomputed; each arena takes the bytes of its dry run
 * (job_run); what has no kernel is refused. */
#include "train/measure.h"
#include "train/step.h"
#include "train/cuda_job.h"
#include "train/layouts.h"

/* Everything that takes long: ./check --full gpu. */
static bool all(void) { return getenv("JOTUN_FULL") != NULL; }

/* Of threads, and of streams: seed 0 at once, the others as they are drawn; `other` ran as late as may be. */
static void run_in_another_order(Job *job, const Job *other, unsigned seed)
{
    gpu_cpu_order(7 * seed);
    gpu_cpu_pace(seed ? GPU_CPU_DRAWN : GPU_CPU_AT_ONCE, seed);
    job_run(job);
    same_bits("again, in another order of threads and streams", job, other, 0);
    gpu_cpu_order(0);
    gpu_cpu_pace(GPU_CPU_LATE, 0);
}

static void trains_as_other_devices(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        Job cuda = job_of(&cases[i], "cuda"), cpu = job_of(&cases[i], "cpu"), ref = job_of(&cases[i], "ref");
        gpu_cpu_order(0);
        job_run(&cuda);
        job_run(&cpu);
        job_run(&ref);
        compare(&cases[i], &cuda, &cpu, 1);
        compare(&cases[i], &cuda, &ref, 2);
        if (i % 3 > 0 && !all()) continue;
        for (unsigned seed = 0; seed < (all() ? 8 : 2); seed++) {
            Job again = job_of(&cases[i], "cuda");
            run_in_another_order(&again, &cuda, seed);
        }
    }
}

/* Recomputed layers, and a resume from a checkpoint after two steps, which `cpu` loads as well. */
static void recomputes_and_resumes(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i += 3) {
        const Case *c = &cases[i];
        const char *folder = scratch_path(c->name);
        Job whole = job_of(c, "cuda"), full = job_of(c, "cuda"), first = job_of(c, "cuda");
        Job rest = job_of(c, "cuda"), cpu = job_of(c, "cpu");
        full.config.recompute = (Recompute){ 0, RECOMPUTE_UNIFORM, 1 };
        first.steps = STEPS / 2, first.save = folder;
        rest.steps = cpu.steps = STEPS - STEPS / 2, rest.load = cpu.load = folder;
        job_run(&whole);
        job_run(&full);
        same_bits("recomputed", &full, &whole, 0);
        job_run(&first);
        job_run(&rest);
        same_bits("resumed", &rest, &whole, STEPS / 2);
        job_run(&cpu);
        if (apart(cpu.valid, whole.valid) > c->loss) fail_msg("%s: `cpu` goes on otherwise", c->name);
    }
}

/* A scale that every product overflows is halved at each step, which changes no weights; another doubles after two
 * steps. */
static void scale_of(Trainer *t, void *context) { *(double *)context = t->step_state.loss.scale; }

static void losses_are_scaled(void **state)
{
    (void)state;
    static const double first[] = { 0x1p60, 0x1p8 }, last[] = { 0x1p57, 0x1p9 };
    for (int i = 0; i < 2; i++) {
        double scale = 0;
        Job job = job_of(&cases[4], "cuda");
        job.config.loss_scale = first[i];
        job.look = scale_of, job.context = &scale;
        job_run(&job);
        if (scale != last[i]) fail_msg("the loss scale went from %g to %g, not %g", first[i], scale, last[i]);
        if ((job.first_valid == job.valid) != (i == 0)) fail_msg("with the loss scale %g weights %s", first[i], i ? "stayed" : "changed");
    }
}

/* Ranks on one device, whose messages go through the host: as on CPUs. A layout is trained in one type, with one way
 * of recomputing and one optimizer, which its place in the table draws. */
static const char *const drawn_optimizers[] = { "adam", "adam", "lion", "muon", "adam8bit", "adafactor", "lamb" };

static void draw(Job *job, int l)
{
    static const Recompute recomputes[] = { { 0, RECOMPUTE_NONE, 0 }, { 0, RECOMPUTE_UNIFORM, 1 }, { RECOMPUTE_CORE_ATTN, RECOMPUTE_NONE, 0 } };
    const Layout *layout = &layouts[l];
    int pieces = layout->pp * layout->chunks;
    config_set_layout(&job->config, layout);
    job->ranks = layout->ranks;
    job->config.optimizer = optimizer_named(drawn_optimizers[l % 7]);
    job->config.recompute = recomputes[l % 5 < 3 ? l % 5 : 0];
    job->config.model.layers = pieces > 2 || layout->layers ? 4 : 2;
    job->config.global = (layout->group ? 6 : 4) * (layout->ranks / (layout->tp * layout->cp * layout->pp));
    job->config.test_copies = l % 3 < 2;
    job->config.precision.message_bf16 = job->config.precision.mixed == MIXED_BF16 && l % 2;
}

static void layouts_train(void **state)
{
    static const int few[] = { 1, 5, 11, 13, 24, 32 };
    (void)state;
    for (int i = 0; i < (all() ? LAYOUTS : (int)(sizeof few / sizeof *few)); i++) {
        int l = all() ? i : few[i];
        const Case *c = &cases[l % CASES];
        Job cuda = job_of(c, "cuda"), cpu = job_of(c, "cpu");
        draw(&cuda, l);
        draw(&cpu, l);
        print_message("%s, %s: ", layouts[l].name, drawn_optimizers[l % 7]);
        job_run(&cuda);
        job_run(&cpu);
        compare(c, &cuda, &cpu, 1);
        if (!all()) continue;
        Job again = job_of(c, "cuda");
        draw(&again, l);
        run_in_another_order(&again, &cuda, (unsigned)l % 8);
    }
}

/* --test-mode: a bit of a copy that changes on one rank is named. */
static void change_a_copy(Trainer *t, void *context)
{
    char text[200] = "";
    Tensor weights = t->buckets.bucket[1].weights;
    if (!weight_copies_equal(&t->copies, &t->buckets, text)) fail_msg("%s", text);
    float x;
    queue_read(&t->queue, &x, weights.data, sizeof x);
    x = t->mesh.rank == 1 ? nextafterf(x, INFINITY) : x;
    queue_write(&t->queue, weights.data, &x, sizeof x);
    bool equal = weight_copies_equal(&t->copies, &t->buckets, text);
    if (equal || !strstr(text, "on 2 data-parallel ranks differ")) fail_msg("a changed copy: equal %d, %s", equal, text);
    __atomic_add_fetch((int *)context, 1, __ATOMIC_RELAXED);
}

static void a_changed_copy_is_named(void **state)
{
    (void)state;
    int found = 0;
    Job job = job_of(&cases[0], "cuda");
    config_set_layout(&job.config, &layouts[0]);
    job.ranks = 2, job.steps = 1, job.config.test_copies = true;
    job.look = change_a_copy, job.context = &found;
    job_run(&job);
    assert_int_equal(found, 2);
}

/* What a step asks of the device after the first: of 12 layers, with one micro-batch and 13 chunks of the head. The rows with
 * ranks have what their messages take besides: a copy to and one from the host for each, and a wait. */
#ifdef GPU_CPU
typedef struct { Layout layout; long launches, copies, waits; } Counted;
static const Counted counted[] = {
    { { "one rank",    1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 800, 4, 1 },
    { { "tp 2",        2, 2, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 800, 4, 1 },
    { { "pp 2",        2, 1, 1, 2, 1, 0, false, SCHEDULE_1F1B }, 800, 4, 1 },
    { { "dp 2 zero 1", 2, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B }, 800, 4, 1 },
};

static int64_t calls_of(const Trainer *t)
{
    int64_t calls = 0;
    for (int i = 0; i < t->comms.count; i++)
        for (SentVerb v = 0; v < SENT_VERBS; v++) calls += comm_size(t->comms.all[i]) > 1 ? comm_sent(t->comms.all[i], v).calls : 0;
    return calls;
}

static void count_a_step(Trainer *t, void *context)
{
    const Counted *most = context;
    int64_t calls = -calls_of(t);
    GpuCpuCounts begin = gpu_cpu_counts(), end;
    trainer_step(t);
    end = gpu_cpu_counts();
    calls += calls_of(t);
    print_message("%s, rank %d: %ld launches, %ld copies, %ld waits, %ld allocations; %lld messages\n", most->layout.name,
                  t->mesh.rank, end.launches - begin.launches, end.copies - begin.copies, end.waits - begin.waits,
                  end.allocations - begin.allocations, (long long)calls);
    assert_true(end.launches - begin.launches <= most->launches);
    assert_true(end.copies - begin.copies <= most->copies + 2 * calls);
    assert_true(end.waits - begin.waits <= most->waits + calls);
    assert_int_equal(end.allocations - begin.allocations, 0);
}

static void steps_ask_little(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        Job job = job_of(&cases[2], "cuda");
        job.config.model.layers = 12;
        job.config.model.sequence = job.config.model.positions = 26, job.config.head_chunk = 2;
        config_set_layout(&job.config, &counted[i].layout);
        job.ranks = counted[i].layout.ranks, job.config.global = job.ranks / (job.config.tp * job.config.pp);
        job.look = count_a_step, job.context = (void *)&counted[i];
        job_run(&job);
    }
}
#endif

/* What the host asks in the middle of a step: whether the device has found that the step is skipped. */
static void skipped_steps_are_seen(void **state)
{
    (void)state;
    Queue     q;
    Arena     arena;
    StepState step_state = { .lr = 1 };
    assert_int_equal(queue_open(&q, "cuda", 1, &step_state), OK);
    assert_int_equal(arena_open_on(&arena, "numbers", 4096, q.memory, NULL), OK);
    Tensor sums_3 = tensor_new(&arena, "sums", F64, 3), report_4 = tensor_new(&arena, "report", F64, 4);
    for (int skipped = 1; skipped >= 0; skipped--) {
        const double sums[] = { skipped ? NAN : 1, 1, 1 };
        queue_state_write(&q);
        queue_write(&q, sums_3.data, sums, sizeof sums);
        clip_and_skip(&q, (ClipAndSkip){ .report_4 = report_4, .sums_3 = sums_3, .clip = 1 });
        assert_int_equal(queue_skips(&q), skipped);
    }
    arena_close(&arena);
    queue_close(&q);
}

/* With two sequences in a micro-batch. */
static void sgd_trains(void **state)
{
    (void)state;
    const Case *c = &cases[3];                        /* bf16 */
    Job cuda = job_of(c, "cuda"), cpu = job_of(c, "cpu");
    cuda.config.optimizer = cpu.config.optimizer = optimizer_named("sgd");
    cuda.config.micro = cpu.config.micro = 2;
    job_run(&cuda);
    job_run(&cpu);
    compare(c, &cuda, &cpu, 1);
}

/* Two steps of the other optimizers in a smaller model: losses, and of the checkpoints after them weights and
 * states, absolute, of numbers up to about 1. 1-bit LAMB's second step is after its freeze, where elements that had
 * hardly any gradient in the first one are divided by almost 0, and the average of schedule-free AdamW is
 * evaluated; Muon iterates in BF16. There are no biases of keys, whose gradients are roundings. */
typedef struct { const char *name; double loss, weights; } Trained;
static const Trained trained[] = {
    { "lion",      2e-6, 1e-6 }, { "adopt",     2e-6, 1e-5 }, { "adamwschedulefree", 2e-6, 1e-5 },
    { "sophiag",   2e-6, 5e-5 }, { "adafactor", 2e-6, 1e-6 }, { "sgdschedulefree",   2e-6, 1e-6 },
    { "adam-mini", 2e-6, 1e-5 }, { "lamb",      2e-6, 1e-6 }, { "ds.onebitlamb",     2e-6, 5e-3 },
    { "muon",      1e-4, 5e-3 }, { "adam8bit",  2e-6, 1e-5 },
};

static Job small_job(const Trained *t, const char *device)
{
    Job job = job_of(&cases[0], device);
    job.config.optimizer = optimizer_named(t->name);
    job.config.model.layers = 1, job.config.model.qkv_bias = false;
    job.config.global = 1;
    job.config.eval_iters = strcmp(t->name, "adamwschedulefree") == 0;
    job.config.lr = (LrSchedule){ .style = LR_CONSTANT, .peak = 1e-2 };
    job.config.settings.sophia_rho = 0.04;
    job.config.settings.estimate_interval = 2;
    job.config.settings.lion_beta1 = 0.9, job.config.settings.lion_beta2 = 0.99;
    job.steps = 2;
    return job;
}

static void optimizers_train(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof trained / sizeof *trained; i++) {
        const Trained *t = &trained[i];
        Job cuda = small_job(t, "cuda"), cpu = small_job(t, "cpu");
        char of_cuda[600], of_cpu[600], worst[128] = "";
        bool codes = strcmp(t->name, "adam8bit") == 0;           /* states that are no numbers */
        snprintf(of_cuda, sizeof of_cuda, "%s-cuda", scratch_path(t->name));
        snprintf(of_cpu, sizeof of_cpu, "%s-cpu", scratch_path(t->name));
        cuda.save = of_cuda, cpu.save = of_cpu;
        job_run(&cuda);
        job_run(&cpu);
        double loss = apart(cuda.valid, cpu.valid), weights;
        for (int step = 0; step < cuda.steps; step++) loss = fmax(loss, apart(cuda.loss[step], cpu.loss[step]));
        weights = checkpoints_differ(of_cuda, of_cpu, cuda.steps, !codes, worst);
        print_message("%-17s against cpu: losses within %.1e, weights and states %.1e\n", t->name, loss, weights);
        if (loss > t->loss || !(weights <= t->weights))
            fail_msg("%s: losses within %.1e (allowed %.1e), %s %.1e (%.1e)", t->name, loss, t->loss, worst, weights,
                     t->weights);
    }
}

/* As a run does: the dry run first. */
static void refused(TrainConfig *config, int ranks, const char *reason)
{
    ArenaSizes sizes;
    assert_int_equal(trainer_measure(&sizes, config, 0, ranks), BAD_OPTION);
    if (!strstr(fail_text(), reason)) fail_msg("'%s' does not say '%s'", fail_text(), reason);
}

static void refuses_what_has_no_kernel(void **state)
{
    (void)state;
    TrainConfig config = job_of(&cases[0], "cuda").config;
    config.optimizer = optimizer_named("galoreadamw");
    refused(&config, 1, "--optimizer galoreadamw is not built for --device cuda (symmetric_eigen has no kernel)");
    config.optimizer = optimizer_named("adam");
    config.precision = (PrecisionChoice){ .mixed = MIXED_BF16, .fp8 = { .recipe = FP8_DELAYED } };
    refused(&config, 1, "--device cuda trains in fp32, or with --bf16 or --fp16; leave out --fp8-format");
    config.precision = (PrecisionChoice){ .mixed = MIXED_BF16, .state_bf16 = { true, false } };
    refused(&config, 1, "keeps the optimizer's states in fp32");
}

static int setup(void **state)
{
    (void)state;
    Queue q;
    if (queue_open(&q, "cuda", 1, NULL) != OK) {
        printf("skipped: %s\n", fail_text());
        exit(77);
    }
    queue_close(&q);
    corpus_make(scratch_path("corpus"), 61);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_as_other_devices), cmocka_unit_test(recomputes_and_resumes), cmocka_unit_test(losses_are_scaled),
        cmocka_unit_test(layouts_train), cmocka_unit_test(a_changed_copy_is_named),
#ifdef GPU_CPU
        cmocka_unit_test(steps_ask_little),
#endif
        cmocka_unit_test(skipped_steps_are_seen),  cmocka_unit_test(sgd_trains),              cmocka_unit_test(optimizers_train),
        cmocka_unit_test(refuses_what_has_no_kernel),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
