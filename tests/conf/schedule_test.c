/* Batch sizes that options say, against megatron-core's num_microbatches_calculator and the rule of
 * --step-batch-size-schedule (tests/oracles/schedules.py made tests/golden/schedules/batches.txt); durations in samples and tokens. */
#include "line.h"
#include "conf/schedule.h"

static void expect_size(const char *line, long consumed, long size)
{
    Options o;
    BatchStep step[BATCH_STEPS_MAX];
    int steps;
    assert_ok(parse_line(&o, FOR_TRAIN, line));
    assert_ok(options_derive(&o));
    assert_ok(options_batch(step, &steps, &o));
    long mine = (long)batch_schedule_at((BatchSchedule){ step, steps }, consumed);
    if (mine != size) fail_msg("%s, after %ld samples: %ld, not %ld", line, consumed, mine, size);
    options_close(&o);
}

static void sizes_are_megatrons(void **state)
{
    (void)state;
    char line[256], words[512], text[128];
    long start, more, samples, global, unit, decrease, sequence, n, size;
    int lines = 0;
    FILE *file = fopen(TESTS_DIR "/golden/schedules/batches.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#') continue;
        lines++;
        if (sscanf(line, "ramp %ld %ld %ld %ld %ld %ld %ld %ld", &start, &more, &samples, &global, &unit, &decrease, &n, &size) == 8)
            snprintf(words, sizeof words, "--rampup-batch-size %ld %ld %ld --global-batch-size %ld --micro-batch-size %ld%s", start, more,
                     samples, global, unit, decrease ? " --decrease-batch-size-if-needed" : "");
        else if (sscanf(line, "steps %127s %ld %ld %ld", text, &sequence, &n, &size) == 4)
            snprintf(words, sizeof words, "--step-batch-size-schedule %s --seq-length %ld", text, sequence);
        else fail_msg("%s", line);
        expect_size(words, n, size);
    }
    fclose(file);
    assert_true(lines > 600);
}

typedef struct { const char *line; int64_t iters, samples, global, decay; double warmup; } DurationRow;

/* decay and warmup in samples, as the schedule of the learning rate takes them */
static const DurationRow durations[] = {
    { "--train-iters 50 --global-batch-size 4 --lr-warmup-iters 5",        50, 0, 4, 200, 20 },
    { "--train-iters 50 --global-batch-size 4 --lr-warmup-samples 5",      50, 0, 4, 200, 5 },
    { "--train-iters 50 --global-batch-size 4 --lr-warmup-fraction 0.01",  50, 0, 4, 200, 2 },
    { "--train-iters 50 --global-batch-size 4 --lr-decay-iters 30 --lr-warmup-fraction 0.125", 50, 0, 4, 120, 15 },
    { "--train-iters 50 --global-batch-size 4 --lr-decay-samples 90",      50, 0, 4, 90, 0 },
    { "--train-samples 203 --global-batch-size 4 --lr-warmup-iters 5",     50, 203, 4, 203, 20 },
    { "--train-samples 203 --global-batch-size 4 --lr-decay-iters 20",     50, 203, 4, 80, 0 },
    { "--train-tokens 209919 --seq-length 1024 --global-batch-size 4",     51, 204, 4, 204, 0 },
    /* 4, 4, 8, 8, 12 ... : 2 of 4 (from 0), 1 of 8 (from 8), 12 from 20 on: then (100 - 16) / 12 steps */
    { "--train-samples 100 --global-batch-size 12 --rampup-batch-size 4 4 16", 10, 100, 12, 100, 0 },
    { "--train-iters 9 --step-batch-size-schedule 0:16,1M:320",             9, 0, 320, 9 * 320, 0 },
    { "--train-iters 9 --global-batch-size 10 --micro-batch-size 4 --decrease-batch-size-if-needed", 9, 0, 10, 90, 0 },
};

static void durations_are_derived(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        const DurationRow *r = &durations[i];
        Options o;
        assert_ok(parse_line(&o, FOR_TRAIN, r->line));
        assert_ok(options_derive(&o));
        assert_ok(options_derive(&o));                      /* again, after more was said */
        ScheduleSamples s = options_schedule_samples(&o);
        if (o.train_iters != r->iters || o.train_samples != r->samples || o.global_batch != r->global || s.decay != r->decay || s.warmup != r->warmup)
            fail_msg("%s: %ld steps, %ld samples, batch %ld, decay %ld, warm-up %g", r->line, (long)o.train_iters, (long)o.train_samples,
                     (long)o.global_batch, (long)s.decay, s.warmup);
        options_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_are_megatrons), cmocka_unit_test(durations_are_derived) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
