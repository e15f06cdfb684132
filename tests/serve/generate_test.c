/* Generation with a cache against the whole text at once, in double; drawing by hand. */
#include "serve/generate.h"
#include "train/harness.h"

enum { CAPACITY = 14, WORDS = 61 };
typedef struct { int32_t id[CAPACITY]; int64_t count; double logits[WORDS]; } Text;

static void keep(void *context, int32_t id)
{
    Text *text = context;
    text->id[text->count++] = id;
}

typedef struct { ModelName model; int64_t prompt; Text text; } Task;

/* Goes on from the first `prompt` ids to CAPACITY - 1 of them, and keeps the logits after the last that was
 * read. */
static Status go_on(Transport *transport, void *context)
{
    Task *task = context;
    Trainer t;
    Arena session;
    TrainConfig config = tiny_config(task->model, "ref", NULL);
    config.training = false;
    config.micro = config.global = 1;
    config.model.sequence = CAPACITY;
    TRY(trainer_start(&t, &config, transport));
    trainer_init(&t);
    TRY(arena_open(&session, "session", generate_bytes(&config.model, t.precision, CAPACITY)));
    Generation g = { .capacity = CAPACITY, .end = -1, .emit = keep, .context = &task->text };
    task->text.count = task->prompt;
    generate(&t.executor, &session, &g, task->text.id, task->prompt);
    assert_int_equal(session.used, session.size);
    memcpy(task->text.logits, t.executor.ctx.last_logits_1V.data, sizeof task->text.logits);
    arena_close(&session);
    trainer_close(&t);
    return OK;
}

static void test_cache(void **state)
{
    (void)state;
    for (int model = MODEL_GPT; model <= MODEL_LLAMA; model++) {
        Task first = { .model = model, .prompt = 3, .text = { .id = { 5, 40, 17 } } };
        if (transport_threads_run(1, go_on, &first) != OK) fail_msg("%s", fail_text());
        assert_int_equal(first.text.count, CAPACITY);
        /* all but the last id at once: nothing comes from a cache of one row */
        Task again = first;
        again.prompt = CAPACITY - 1;
        if (transport_threads_run(1, go_on, &again) != OK) fail_msg("%s", fail_text());
        assert_int_equal(again.text.id[CAPACITY - 1], first.text.id[CAPACITY - 1]);
        for (int v = 0; v < WORDS; v++)
            if (!(fabs(first.text.logits[v] - again.text.logits[v]) <= 1e-12))
                fail_msg("model %d: logit %d is %.17g with the cache, %.17g without", model, v, first.text.logits[v], again.text.logits[v]);
    }
}

static void test_sampling(void **state)
{
    (void)state;
    const double logits[4] = { log(0.1), log(0.4), log(0.3), log(0.2) };
    int64_t drawn[4] = { 0 };
    Sampling all = { .temperature = 1, .seed = 3 }, two = { .temperature = 1, .top_k = 2, .seed = 3 }, part = { .temperature = 1, .top_p = 0.65, .seed = 3 };
    assert_int_equal(sample_id(logits, 4, &(Sampling){ .temperature = 0 }, 9), 1);
    for (int n = 0; n < 20000; n++) {
        drawn[sample_id(logits, 4, &all, n)]++;
        int32_t of_two = sample_id(logits, 4, &two, n), of_part = sample_id(logits, 4, &part, n);
        assert_true(of_two == 1 || of_two == 2);
        assert_true(of_part == 1 || of_part == 2);                 /* 0.4 + 0.3 reach 0.65 */
        assert_int_equal(sample_id(logits, 4, &all, n), sample_id(logits, 4, &all, n));
    }
    const double share[4] = { 0.1, 0.4, 0.3, 0.2 };
    for (int i = 0; i < 4; i++) assert_true(fabs((double)drawn[i] / 20000 - share[i]) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cache), cmocka_unit_test(test_sampling) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
