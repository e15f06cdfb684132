/* After the first step nothing is allocated: calls of malloc, calloc and realloc are counted while steps run,
 * on every rank and transport thread. */
#include <stdatomic.h>
#include "train/measure.h"
#include "train/step.h"
#include "train/harness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INTERPOSE 0                       /* the sanitizers' own malloc is in the way */
#else
#define INTERPOSE 1
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
static atomic_long counting, calls;
static void count(void) { if (atomic_load(&counting)) atomic_fetch_add(&calls, 1); }
void *malloc (size_t bytes)             { count(); return __libc_malloc(bytes); }
void *calloc (size_t n, size_t bytes)   { count(); return __libc_calloc(n, bytes); }
void *realloc(void *old, size_t bytes)  { count(); return __libc_realloc(old, bytes); }
#endif

#if INTERPOSE
typedef struct { TrainConfig config; } Steps;

static Status steps_rank(Transport *transport, void *context)
{
    const Steps *job = context;
    Trainer t;
    ArenaSizes sizes;
    TRY(trainer_measure(&sizes, &job->config, transport->rank, transport->size));
    TRY(trainer_open(&t, &job->config, transport, &sizes));
    trainer_init(&t);
    trainer_step(&t);
    comm_barrier(t.comms.world);
    if (transport->rank == 0) atomic_store(&counting, 1);
    comm_barrier(t.comms.world);
    for (int i = 0; i < 3; i++) trainer_step(&t);
    comm_barrier(t.comms.world);
    if (transport->rank == 0) atomic_store(&counting, 0);
    comm_barrier(t.comms.world);
    trainer_close(&t);
    return OK;
}

static void check(const Layout *layout, ModelName model, const char *device, MixedPrecision mixed,
                  Fp8Recipe recipe)
{
    Steps job = { tiny_config(model, device, scratch_path("corpus")) };
    config_set_layout(&job.config, layout);
    job.config.threads = 2;
    job.config.precision = (PrecisionChoice){ .mixed = mixed, .message_bf16 = mixed == MIXED_BF16,
        .state_bf16 = { mixed == MIXED_BF16, false }, .fp8 = { .recipe = recipe, .history = 2 } };
    if (model == MODEL_LLAMA) job.config.recompute = (Recompute){ 0, RECOMPUTE_UNIFORM, 2 };
    atomic_store(&calls, 0);
    if (transport_threads_run(layout->ranks, steps_rank, &job) != OK) fail_msg("%s", fail_text());
    if (atomic_load(&calls) != 0) fail_msg("%s: %ld allocations in 3 steps", layout->name, atomic_load(&calls));
}

static void test_steps(void **state)
{
    static const Layout layouts[] = {
        { "one rank",                 1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B },
        { "tp2 seq pp2 dp2 zero1",    8, 2, 1, 2, 1, 1, true,  SCHEDULE_1F1B },
        { "pp2 zb-h1 dp2 zero3 cp2",  8, 1, 2, 2, 1, 3, false, SCHEDULE_ZB_H1 },
        { "tp2 cp2 pp2 interleaved",  8, 2, 2, 2, 2, 0, true,  SCHEDULE_INTERLEAVED },
    };
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        check(&layouts[i], MODEL_GPT,   "cpu", MIXED_NONE, FP8_NONE);
        check(&layouts[i], MODEL_GPT,   "cpu", MIXED_BF16, FP8_DELAYED);
        check(&layouts[i], MODEL_LLAMA, "cpu", MIXED_BF16, FP8_CURRENT);
        check(&layouts[i], MODEL_LLAMA, "cpu", MIXED_F16, FP8_NONE);
        check(&layouts[i], MODEL_LLAMA, "ref", MIXED_NONE, FP8_NONE);
    }
}

static void test_counting_counts(void **state)            /* the test can fail */
{
    (void)state;
    atomic_store(&calls, 0);
    atomic_store(&counting, 1);
    void *volatile one = malloc(8);
    atomic_store(&counting, 0);
    free(one);
    assert_int_equal(atomic_load(&calls), 1);
}
#endif

int main(void)
{
#if INTERPOSE
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counting_counts), cmocka_unit_test(test_steps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    puts("skipped: the sanitizers' malloc cannot be counted");
    return 77;
#endif
}
