/* The learning rate and the weight decay against values worked out by hand, against megatron-core's
 * OptimizerParamScheduler (tests/oracles/schedules.py made tests/golden/schedules/rates.txt) and against
 * DeepSpeed's schedulers (tests/oracles/deepspeed_schedules.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "optim/lr.h"
#include <cmocka.h>

static void want(const LrSchedule *s, int64_t done, double value)
{
    if (!(fabs(lr_at(s, done) - value) <= 1e-18 + 1e-15 * value)) fail_msg("after %d samples: %.17g, not %.17g", (int)done, lr_at(s, done), value);
}

static LrSchedule schedule_of(LrStyle style, double peak, double low, double warmup, int64_t decay)
{
    return (LrSchedule){ .style = style, .peak = peak, .low = low, .warmup = warmup, .decay = decay };
}

static void test_styles(void **state)
{
    (void)state;
    LrSchedule cosine = schedule_of(LR_COSINE, 8e-4, 2e-4, 4, 12), linear = schedule_of(LR_LINEAR, 8e-4, 2e-4, 4, 12);
    LrSchedule constant = schedule_of(LR_CONSTANT, 8e-4, 2e-4, 4, 12), none = schedule_of(LR_COSINE, 1e-3, 0, 0, 10);
    const LrSchedule *all[] = { &cosine, &linear, &constant };
    for (int i = 0; i < 3; i++) {
        want(all[i], 0, 0);                                     /* Megatron's first step under warm-up */
        want(all[i], 1, 2e-4);
        want(all[i], 4, 8e-4);
    }
    want(&cosine, 8, 5e-4);                                     /* half way: cos(pi / 2) = 0 */
    want(&cosine, 6, 2e-4 + 6e-4 * 0.5 * (1 + sqrt(0.5)));
    want(&linear, 6, 6.5e-4);
    want(&cosine, 12, 2e-4);
    want(&linear, 13, 2e-4);
    want(&constant, 1000, 8e-4);
    want(&none, 0, 1e-3);                                       /* no warm-up: the first step has the peak */
}

/* Megatron-LM 1: AnnealingLR.get_lr of its learning_rates.py, with counts of steps. */
static double annealing(int cosine, double start, double low, double warmup, double end, double n)
{
    double m = fmin(n, end - warmup);
    if (warmup > 0 && n <= warmup) return start * m / warmup;
    m -= warmup;
    double lr = cosine ? start / 2.0 * (cos(M_PI * m / end) + 1) : start * (end - m) / end;
    return fmax(lr, low);
}

static void test_megatron_1(void **state)
{
    (void)state;
    for (int cosine = 0; cosine < 2; cosine++)
        for (int n = 0; n < 150; n++) {
            LrSchedule s = schedule_of(cosine ? LR_COSINE : LR_LINEAR, 8e-4, 1e-4, 2.5 * 4, 100 * 4);
            s.rule = LR_CLIPPED, s.step = 4;
            want(&s, 4 * n, annealing(cosine, 8e-4, 1e-4, 2.5, 100, n));
            s.low = 0;                                                      /* not clipped: what the end of the decay is */
            want(&s, 4 * n, annealing(cosine, 8e-4, 0, 2.5, 100, n));
            s.warmup = 0;
            want(&s, 4 * n, annealing(cosine, 8e-4, 0, 0, 100, n));
        }
}

/* get_lr of the forks' OptimizerParamScheduler, by the tokens of the steps so far: 2 samples of 8 tokens a step, of which 2 count at first. */
static void test_tokens(void **state)
{
    (void)state;
    LrSchedule s = schedule_of(LR_LINEAR, 8e-4, 2e-4, 6, 40), plain = s;
    s.step = 2, s.count = LR_TOKENS, s.lengths = (LengthSchedule){ .least = 2, .most = 8, .multiple = 2, .steps = 12 };
    double tokens = 0, warm = 0;
    for (int n = 0; n < 30; n++) {
        double peak = 8e-4, low = 2e-4, warmup = 6 * 8, decay = 40 * 8;
        double rate = tokens <= warmup ? peak * tokens / warmup : tokens > decay ? low : low + (peak - low) * (1 - (tokens - warmup) / (decay - warmup));
        s.count = LR_TOKENS;
        want(&s, 2 * n, rate);
        s.count = LR_DECAY_TOKENS;
        if (2 * n == 6) warm = tokens;
        rate = 2 * n <= 6 ? peak * 2 * n / 6 : tokens > decay ? low : low + (peak - low) * (1 - (tokens - warm) / (decay - warm));
        want(&s, 2 * n, rate);
        tokens += 2 * (double)length_at(&s.lengths, n + 1);
    }
    s.count = LR_TOKENS, s.lengths = (LengthSchedule){ .most = 8 };                 /* whole samples: the same as samples */
    for (int n = 0; n < 50; n++) want(&s, n, lr_at(&plain, n));
}

static int word_of(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i])) return i;
    fail_msg("the word %s", word);
    return -1;
}

static void read_lr(const char *line)
{
    static const char *const styles[] = { "constant", "linear", "cosine", "inverse-square-root", "WSD" };
    static const char *const wsd_styles[] = { "exponential", "linear", "cosine", "minus_sqrt" };
    char style[32], wsd[32];
    LrSchedule s = { 0 };
    long decay, wsd_decay, n;
    double rate;
    assert_int_equal(sscanf(line, "lr %31s %31s %lf %lf %lf %lf %ld %ld %ld %lf", style, wsd, &s.peak, &s.low, &s.init, &s.warmup, &decay,
                            &wsd_decay, &n, &rate), 10);
    s.style = (LrStyle)word_of(style, styles, 5);
    s.wsd   = (WsdStyle)word_of(wsd, wsd_styles, 4);
    s.decay = decay, s.wsd_decay = wsd_decay;
    double mine = lr_at(&s, n);
    if (!(fabs(mine - rate) <= 4e-16 * s.peak)) fail_msg("%.17g, not %s", mine, line);
}

static void read_wd(const char *line)
{
    static const char *const styles[] = { "constant", "linear", "cosine" };
    char style[32];
    WeightDecaySchedule s = { 0 };
    long samples, n;
    double decay;
    assert_int_equal(sscanf(line, "wd %31s %lf %lf %ld %ld %lf", style, &s.start, &s.end, &samples, &n, &decay), 6);
    s.style = (WeightDecayStyle)word_of(style, styles, 3);
    s.samples = samples;
    double mine = weight_decay_at(&s, n);
    if (!(fabs(mine - decay) <= 4e-16 * s.end)) fail_msg("%.17g, not %s", mine, line);
}

/* Steps of 4 samples, so that a rule that counts samples for steps is seen. */
static void read_deepspeed(const char *line)
{
    static const char *const rules[] = { "megatron", "deepspeed" }, *const warmups[] = { "linear", "log" };
    static const char *const styles[] = { "constant", "linear", "cosine" };
    char rule[32], style[32], warmup[32];
    LrSchedule s = { .step = 4 };
    long decay, n;
    double rate;
    assert_int_equal(sscanf(line, "lr %31s %31s %31s %lf %lf %lf %lf %ld %ld %lf", rule, style, warmup, &s.peak, &s.low, &s.init, &s.warmup,
                            &decay, &n, &rate), 10);
    s.rule  = (LrRule)word_of(rule, rules, 2);
    s.style = (LrStyle)word_of(style, styles, 3);
    s.warmup_style = (WarmupStyle)word_of(warmup, warmups, 2);
    s.warmup *= 4, s.decay = 4 * decay;
    double mine = lr_at(&s, 4 * n);
    if (!(fabs(mine - rate) <= 4e-16 * s.peak)) fail_msg("%.17g, not %s", mine, line);
}

static int read_lines(const char *path, void (*lr)(const char *))
{
    char line[256];
    int lines = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#') continue;
        if (line[0] == 'l') lr(line);
        else                read_wd(line);
        lines++;
    }
    fclose(file);
    return lines;
}

static void test_megatron(void **state)
{
    (void)state;
    assert_true(read_lines(TESTS_DIR "/golden/schedules/rates.txt", read_lr) > 500);
}

static void test_deepspeed(void **state)
{
    (void)state;
    assert_true(read_lines(TESTS_DIR "/golden/schedules/deepspeed.txt", read_deepspeed) > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_styles), cmocka_unit_test(test_megatron),
                                       cmocka_unit_test(test_deepspeed), cmocka_unit_test(test_megatron_1),
                                       cmocka_unit_test(test_tokens) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
