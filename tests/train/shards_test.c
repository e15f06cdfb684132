/* What shards cost and that they change nothing: bytes per parameter under every ZeRO stage and hybrid sharding against the published
 * formulas; gradients that are rounded and sent window by window; shards that end where an optimizer's granules do. */
#include "comm/data_transport.h"
#include "train/measure.h"
#include "train/harness.h"

/* ---- bytes per parameter ---- */

static int64_t tagged(const Trainer *t, const char *name)
{
    const Arena *arena = &t->arena[ARENA_PERSISTENT];
    for (int i = 0; i < arena->tags; i++)
        if (!strcmp(arena->tag[i].name, name)) return (int64_t)arena->tag[i].peak;
    return 0;
}

/* Sizes that all shards divide. The arena rounds each bucket to 256 bytes. */
static TrainConfig even_config(const Layout *layout)
{
    TrainConfig config = tiny_config(MODEL_LLAMA, "cpu", "none");
    config.model.hidden = 512, config.model.ffn = 1024, config.model.vocabulary = 128, config.model.head_dim = 128;
    config.precision = (PrecisionChoice){ .mixed = MIXED_BF16 };
    config_set_layout(&config, layout);
    return config;
}

typedef struct { const char *what; double of_all, of_shard; } Cost;        /* bytes: a parameter costs of_all + of_shard / d */

/* ZeRO (1910.02054, section 3.1) in mixed bf16 with fp32 gradients: weights 2, gradients 4, master weights 4, moments 8 */
static const Cost costs[4][4] = {
    { { "weights", 2, 0 }, { "gradients", 4, 0 }, { "master weights", 4, 0 }, { "optimizer states", 8, 0 } },       /* 18 */
    { { "weights", 2, 0 }, { "gradients", 4, 0 }, { "master weights", 0, 4 }, { "optimizer states", 0, 8 } },       /* 6 + 12 / d */
    { { "weights", 2, 0 }, { "gradients", 0, 4 }, { "master weights", 0, 4 }, { "optimizer states", 0, 8 } },       /* 2 + 16 / d */
    { { "weights", 0, 2 }, { "gradients", 0, 4 }, { "master weights", 0, 4 }, { "optimizer states", 0, 8 } },       /* 18 / d */
};

static void bytes_per_parameter(void **state)
{
    (void)state;
    static const Layout layouts[] = {
        { "dp8", 8, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },       { "dp8 zero1", 8, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
        { "dp8 zero2", 8, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B }, { "dp4 cp2 zero3", 8, 1, 2, 1, 1, 3, false, SCHEDULE_1F1B },
        { "dp8 zero1 hybrid4", 8, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B, .hybrid = 4 },
        { "dp8 zero2 hybrid2", 8, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B, .hybrid = 2 },
        { "dp8 zero3 hybrid2", 8, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 2 },
        { "dp2 cp4 zero3 hybrid4", 8, 1, 4, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 4 },
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        TrainConfig config = even_config(&layouts[i]);
        double parameters = (double)model_parameters(&config.model), all = 0;
        int d = layouts[i].hybrid ? layouts[i].hybrid : 8;
        for (int rank = 0; rank < 8; rank++) {
            Trainer t;
            Transport *transport = transport_dry_open(rank, 8);
            if (trainer_open(&t, &config, transport, NULL) != OK) fail_msg("%s", fail_text());
            all = 0;
            for (int c = 0; c < 4; c++) {
                const Cost *cost = &costs[layouts[i].zero][c];
                double bytes = (double)tagged(&t, cost->what) / parameters, want = cost->of_all + cost->of_shard / d;
                if (!(fabs(bytes - want) <= 2e-5)) fail_msg("%s, rank %d: %s take %.6f bytes a parameter, not %.6f", layouts[i].name, rank, cost->what, bytes, want);
                all += bytes;
            }
            trainer_close(&t);
            transport->close(transport);
        }
        printf("%-22s %g bytes a parameter\n", layouts[i].name, all);
    }
}

/* ---- windows ---- */

static Job job_of(const Layout *layout, const char *device, int64_t window, const char *save)
{
    Job job = { .config = tiny_config(MODEL_LLAMA, device, scratch_path("corpus")), .ranks = layout->ranks, .steps = 3, .save = save };
    config_set_layout(&job.config, layout);
    job.config.message_window = window;
    return job;
}

static const Layout sharded[] = {
    { "dp4 zero0", 4, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
    { "dp4 zero1", 4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B },
    { "dp4 zero2", 4, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B },
    { "dp4 zero3", 4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B },
    { "dp4 zero1 hybrid2", 4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B, .hybrid = 2 },
    { "dp4 zero3 hybrid2", 4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 2 },
};
enum { SHARDED = sizeof sharded / sizeof *sharded };

static void windows_change_no_bit(void **state)
{
    (void)state;
    char one[512], other[512], worst[128];
    for (int i = 0; i < SHARDED; i++) {
        snprintf(one,   sizeof one,   "%s/window-%d", scratch_folder(), i);
        snprintf(other, sizeof other, "%s/windows-%d", scratch_folder(), i);
        Job whole = job_of(&sharded[i], "cpu", 0, one), windows = job_of(&sharded[i], "cpu", 101, other);
        whole.config.precision = windows.config.precision = (PrecisionChoice){ .mixed = MIXED_BF16, .message_bf16 = true };
        job_run(&whole);
        job_run(&windows);
        assert_memory_equal(whole.loss, windows.loss, sizeof whole.loss);
        assert_memory_equal(whole.norm, windows.norm, sizeof whole.norm);
        if (checkpoints_differ(one, other, 3, true, worst) != 0) fail_msg("%s: %s differs", sharded[i].name, worst);
    }
}

/* Sums of a bucket of 16 Mi parameters take windows, in fp32 as in bf16, and no second bucket: one of the sum, two of messages that
 * are rounded. */
static void sums_take_windows(void **state)
{
    (void)state;
    for (int i = 0; i < SHARDED; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            TrainConfig config = tiny_config(MODEL_LLAMA, "cpu", "none");
            ArenaSizes sizes;
            config_set_layout(&config, &sharded[i]);
            config.model.hidden = 512, config.model.head_dim = 128, config.model.ffn = 8192, config.model.layers = 1;
            config.precision = (PrecisionChoice){ .mixed = MIXED_BF16, .message_bf16 = bf16 };
            assert_int_equal(trainer_measure(&sizes, &config, 0, 4), OK);
            size_t bucket = 4 * 3 * 512 * 8192, units = 2 << 20;
            size_t most = SUM_WINDOW + 2 * MESSAGE_WINDOW * sizeof(uint16_t) + units;
            if (sizes.bytes[ARENA_SCRATCH] > most)
                fail_msg("%s: scratch of %zu bytes, where windows are %zu and a bucket is %zu", sharded[i].name, sizes.bytes[ARENA_SCRATCH], most, bucket);
        }
}

/* ---- scratch of sums at full size ---- */

/* The formula of docs/memory.md: rows of a window of a sum over n ranks in groups of 8, each of at most 4 MiB / rows. */
static int64_t window_bytes(int64_t n, int64_t part, int64_t width)
{
    int64_t group = n < 8 ? n : 8, groups = (n + group - 1) / group, rows = 2 * group + (groups > 1 ? 2 + groups : 0);
    int64_t most = (4 << 20) / rows > 1024 ? (4 << 20) / rows : 1024;
    return rows * (part < most / width ? part : most / width) * width;
}

static int64_t peak_of(const Arena *arena, const char *name)
{
    for (int i = 0; i < arena->tags; i++)
        if (!strcmp(arena->tag[i].name, name)) return (int64_t)arena->tag[i].peak;
    return 0;
}

/* GPT of a trillion parameters (arXiv 2104.04473, table 1): 128 layers of 25,600, tp 8, pp 64, over dp data ranks. A bucket is a layer's
 * 983 million elements of a rank, 3.7 GiB of gradients in fp32; sums take four windows in the background, and a unit's two
 * sums over tensor-parallel ranks one each. */
static void scratch_at_a_trillion(void **state)
{
    (void)state;
    static const struct { int dp, zero, hybrid; } rows[] = { { 6, 1, 0 }, { 6, 3, 0 }, { 32, 1, 0 }, { 32, 2, 8 }, { 32, 0, 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int world = 8 * 64 * rows[i].dp, n = rows[i].hybrid ? rows[i].hybrid : rows[i].dp;
        Layout layout = { "1T", world, 8, 1, 64, 1, rows[i].zero, true, SCHEDULE_1F1B, .hybrid = rows[i].hybrid };
        TrainConfig config = tiny_config(MODEL_GPT, "cpu", "none");
        ArenaSizes sizes;
        Trainer t;
        config.model.hidden = 25600, config.model.ffn = 4 * 25600, config.model.layers = 128;
        config.model.heads = config.model.groups = 160, config.model.head_dim = 160;
        config.model.sequence = 2048, config.model.vocabulary = 51200;
        config_set_layout(&config, &layout);
        config.precision = (PrecisionChoice){ .mixed = MIXED_BF16 };
        config.micro = 1, config.global = 64 * rows[i].dp;
        Transport *transport = transport_dry_open(8, world);
        if (trainer_open(&t, &config, transport, NULL) != OK) fail_msg("%s", fail_text());
        int64_t want = 4 * window_bytes(n, INT64_MAX, 4), sum = peak_of(&t.arena[ARENA_GATHERED], "background reduction windows");
        trainer_count(&t, &sizes);
        int64_t foreground = peak_of(&t.arena[ARENA_SCRATCH], "reduction window");
        if (llabs(sum - want) > 1024 || foreground > 2 * SUM_WINDOW)
            fail_msg("dp %d, ZeRO %d: windows of %lld bytes, not %lld; %lld in the foreground", rows[i].dp, rows[i].zero, (long long)sum, (long long)want, (long long)foreground);
        trainer_close(&t);
        transport->close(transport);
    }
}

/* ---- granules ---- */

static int64_t granule_block(const Param *p)  { (void)p; return 256; }
static int64_t granule_tensor(const Param *p) { return p->dims == 2 ? param_elements(p) : 1; }

/* No shard begins within a granule, and the shards are one after the other. */
static void look_at_boundaries(Trainer *t, void *context)
{
    ParamGranule granule = optimizer_granule(t->config->optimizer);
    int *unequal = context;
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        int d = comm_size(k->comms.shard);
        assert_true(k->begin[0] == 0 && k->begin[d] >= k->block.count);
        for (int r = 0; r < d; r++) {
            assert_true(k->begin[r] <= k->begin[r + 1]);
            for (int p = 0; p < k->block.params; p++) {
                const Param *param = &k->block.param[p];
                int64_t in = k->begin[r] - param->at;
                if (in > 0 && in < param_elements(param)) assert_int_equal(in % granule.elements(granule.context, param), 0);
            }
        }
        if (t->mesh.rank == 0) *unequal += !k->equal;
    }
}

static void granules_are_not_cut(void **state)
{
    (void)state;
    int64_t (*granules[])(const Param *) = { granule_block, granule_tensor };
    char alone[512], folder[512], worst[128] = "";
    Layout one = { "one rank", 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B };
    snprintf(alone, sizeof alone, "%s/granule-one", scratch_folder());
    Job single = job_of(&one, "ref", 0, alone);
    job_run(&single);
    for (int g = 0; g < 2; g++)
        for (int i = 0; i < SHARDED; i++) {
            UpdateRule rule = *optimizer_named("adam")->matrices;
            Optimizer optimizer = { "adam", &rule, &rule, &rule };
            int unequal = 0;
            rule.granule = granules[g];
            snprintf(folder, sizeof folder, "%s/granule-%d-%d", scratch_folder(), g, i);
            Job job = job_of(&sharded[i], "ref", i % 2 ? 0 : 97, folder);
            job.config.optimizer = &optimizer;
            job.look = look_at_boundaries, job.context = &unequal;
            job_run(&job);
            for (int s = 0; s < 3; s++) {
                assert_true(fabs(job.loss[s] - single.loss[s]) <= 1e-12);
                assert_true(fabs(job.norm[s] - single.norm[s]) <= 1e-11);
            }
            double off = checkpoints_differ(alone, folder, 3, true, worst);
            if (!(off <= 1e-11)) fail_msg("%s: %s differs by %g", sharded[i].name, worst, off);
            assert_true(sharded[i].zero == 0 || unequal > 0);
        }
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_per_parameter), cmocka_unit_test(windows_change_no_bit), cmocka_unit_test(sums_take_windows),
        cmocka_unit_test(scratch_at_a_trillion),
        cmocka_unit_test(granules_are_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
