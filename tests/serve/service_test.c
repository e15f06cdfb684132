/* The service and its queue without a server: what an answer that is read late costs, and what a queue does without memory. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/seam.h"
#include "serve/completion.h"
#include "serve/service.h"
#include <cmocka.h>             /* last: its fail() is a macro */

enum { UNREAD = 4 << 20 };                                      /* that of service.c */

static bool without_memory;
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) { return without_memory ? NULL : __real_calloc(count, bytes); }

static int slept, woken;
static void fall_asleep(void *context) { (void)context; slept++; }
static void wake_up    (void *context) { (void)context; woken++; }

/* One request before an engine that is this test */
typedef struct {
    Tokenizer     tokenizer;
    ModelMetrics  metrics;
    ServedModel   model;
    Service      *service;
    RequestSource source;
    Completion   *completion;
    Request       running;
} Asked;

static void ask(Asked *a, const char *body)
{
    ServeLimits limits = { .body_bytes = 1 << 20, .new_tokens = 1 << 20, .texts = 8, .waiting = 8, .connections = 8,
                           .seconds = 1000, .client_seconds = 10 };
    AnswerWait wait = { fall_asleep, wake_up, NULL };
    CompletionRequest request;
    ApiError error;
    *a = (Asked){ .running.number = 0 };
    assert_int_equal(tokenizer_open(&a->tokenizer, "bytes"), OK);
    a->model = (ServedModel){ "m", &a->tokenizer, 1 << 20, 1 << 20, 0, &a->metrics };
    CompletionRules rules = { &a->model, 1, limits };
    assert_int_equal(service_open(&a->service, &a->model, &limits), OK);
    assert_true(completion_request_read(&request, &error, &rules, body, (int64_t)strlen(body)));
    assert_true(service_submit(a->service, &a->completion, &error, &request, "client", &wait));
    a->source = service_source(a->service);
    assert_int_equal(a->source.next(a->source.context, false, &a->running), REQUEST_GIVEN);
}

static bool give(const Asked *a, int32_t id, int alternatives)
{
    int32_t of[20];
    float logprob[20];
    for (int i = 0; i < alternatives; i++) of[i] = id + i, logprob[i] = -(float)i;
    GeneratedToken token = { id, -0.5f, alternatives, of, logprob };
    return a->source.token(a->source.context, a->running.number, &token);
}

static void leave(Asked *a, GenerationEnd reason)
{
    a->source.ended(a->source.context, a->running.number, reason);
    completion_leave(a->completion);
    service_close(a->service);
    tokenizer_close(&a->tokenizer);
}

/* A reader that is always some events late, in a stream of more than 10 MB */
static void late_reader(void **state)
{
    Asked a;
    char part[16384];
    (void)state;
    ask(&a, "{\"prompt\": \"a\", \"max_tokens\": 100000, \"stream\": true, \"logprobs\": 20}");
    int64_t read = 0;
    for (int i = 0; i < 30000; i++) {
        assert_true(give(&a, 'a' + i % 5, 20));
        int64_t unread = completion_bytes(a.completion);
        for (int64_t more = unread - 50000; more > 0; ) {
            int64_t bytes = completion_read(a.completion, part, more < (int64_t)sizeof part ? more : (int64_t)sizeof part);
            assert_true(bytes > 0);
            read += bytes;
            more -= bytes;
        }
        assert_true(a.completion->out.capacity < 400000);
    }
    assert_true(read > 10000000);
    leave(&a, END_LENGTH);
}

/* A reader that reads nothing: its stream ends with an error, between two looks of the watcher too. */
static void no_reader(void **state)
{
    Asked a;
    (void)state;
    ask(&a, "{\"prompt\": \"a\", \"max_tokens\": 100000, \"stream\": true, \"logprobs\": 20}");
    ApiError error;
    assert_true(give(&a, 'a', 20));
    assert_int_equal(completion_answer(a.completion, &error), ANSWER_EVENTS);
    int tokens = 1;
    while (tokens < 50000 && give(&a, 'a', 20)) tokens++;
    assert_true(tokens < 50000);
    assert_true(a.completion->failed && a.completion->error.status == 408);
    assert_true(completion_bytes(a.completion) > UNREAD && completion_bytes(a.completion) < UNREAD + 10000);
    assert_false(a.source.wanted(a.source.context, a.running.number));
    leave(&a, END_STOPPED);
}

/* Of this thread */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One event that is longer than what may be unread, which no reader can have read before it comes */
static void long_event(void **state)
{
    enum { PROMPT = 8000 };
    static char body[PROMPT + 200];
    Asked a;
    (void)state;
    int at = snprintf(body, sizeof body, "{\"prompt\": \"");
    memset(body + at, 'a', PROMPT);
    strcpy(body + at + PROMPT, "\", \"max_tokens\": 10, \"stream\": true, \"logprobs\": 20, \"echo\": true}");
    ask(&a, body);
    int32_t of[20];
    float logprob[20];
    for (int i = 0; i < 20; i++) of[i] = 0x80 + i, logprob[i] = -1.2345678e-5f * (float)(i + 1);    /* bytes:\x80 */
    GeneratedToken scored = { 'a', -0.5f, 20, of, logprob };
    double begun = seconds();
    for (int i = 0; i < PROMPT; i++) a.source.prompt_token(a.source.context, a.running.number, i, &scored);
    double tokens = seconds() - begun;
    assert_true(give(&a, 'b', 20));
    double event = seconds() - begun - tokens;
    if (event > tokens / 4) fail_msg("the first event took %.3f s after %.3f s of its tokens", event, tokens);
    assert_true(completion_bytes(a.completion) > UNREAD);
    service_tick(a.service, seam.clock());
    assert_false(a.completion->failed);
    char *all = malloc(1 << 23);
    assert_true(all && completion_read(a.completion, all, 1 << 23) > UNREAD);
    free(all);
    assert_true(give(&a, 'c', 20) && !a.completion->failed);
    leave(&a, END_LENGTH);
}

/* A large answer is not made by the engine's thread, under the lock, where all texts would wait for it; nor at one go. */
static void large_answer(void **state)
{
    Asked a;
    ApiError error;
    AnswerKind kind;
    double longest = 0, whole = 0;
    (void)state;
    ask(&a, "{\"prompt\": \"a\", \"max_tokens\": 16000, \"logprobs\": 20}");
    assert_int_equal(completion_answer(a.completion, &error), ANSWER_LATER);
    for (int i = 0; i < 16000; i++) give(&a, 'a' + i % 5, 20);
    double begun = seconds();
    a.source.ended(a.source.context, a.running.number, END_LENGTH);
    double engine = seconds() - begun;
    do {
        int before = woken;
        begun = seconds();
        kind  = completion_answer(a.completion, &error);
        double took = seconds() - begun;
        whole += took;
        if (took > longest) longest = took;
        assert_true(kind == ANSWER_WHOLE || (kind == ANSWER_LATER && woken == before + 1));
    } while (kind == ANSWER_LATER);
    assert_true(completion_bytes(a.completion) > 2000000);
    if (engine > whole / 20 || longest > whole / 4)
        fail_msg("the answer took %.3f s, of these the engine %.3f s, the longest piece %.3f s", whole, engine, longest);
    completion_leave(a.completion);
    service_close(a.service);
    tokenizer_close(&a.tokenizer);
}

/* Of a text that has far fewer ids than bytes the memory of its ids alone is kept. */
static int64_t bound_of_ids(const Tokenizer *t, const char *text, int64_t bytes) { return (void)t, (void)text, 100 * bytes; }
static void prompt_memory(void **state)
{
    enum { PROMPT = 10000 };
    static char body[PROMPT + 100];
    Tokenizer tokenizer;
    CompletionRequest request;
    ApiError error;
    (void)state;
    assert_int_equal(tokenizer_open(&tokenizer, "bytes"), OK);
    tokenizer.max_ids = bound_of_ids;
    ServedModel model = { "m", &tokenizer, 1 << 20, 1 << 20, 0, NULL };
    CompletionRules rules = { &model, 1, { .body_bytes = 1 << 20, .new_tokens = 1 << 20, .texts = 8 } };
    int at = snprintf(body, sizeof body, "{\"prompt\": \"");
    memset(body + at, 'a', PROMPT);
    strcpy(body + at + PROMPT, "\"}");
    assert_true(completion_request_read(&request, &error, &rules, body, (int64_t)strlen(body)));
    assert_int_equal(request.prompt[0].count, PROMPT);
    assert_in_range(malloc_usable_size(request.prompt[0].id), PROMPT * 4, PROMPT * 8);
    completion_request_free(&request);
    tokenizer_close(&tokenizer);
}

/* Nothing leaves the queue for an entry that cannot be added. */
static void queue_without_memory(void **state)
{
    FairQueue queue = { .most = 4 };
    FairEntry entry[3], other, *dropped = &other;
    FairClient *client;
    (void)state;
    for (int i = 0; i < 2; i++) assert_true(fair_queue_put(&queue, &entry[i], 2, "one", &dropped));
    without_memory = true;
    bool put = fair_queue_put(&queue, &other, 1, "two", &dropped);
    without_memory = false;
    assert_false(put);
    assert_null(dropped);
    assert_int_equal(queue.texts, 4);
    assert_false(fair_queue_put(&queue, &other, 5, "three", &dropped));               /* larger than the queue */
    assert_null(dropped);
    assert_true(fair_queue_put(&queue, &other, 1, "two", &dropped));
    assert_ptr_equal(dropped, &entry[1]);
    for (int left = 3; left > 0; left--) {
        assert_non_null(fair_queue_take(&queue, &client));
        fair_queue_end(&queue, client);
    }
    assert_null(queue.turn);
}

/* Requests of one text of one client, or of two, make room for one of several texts of another, as long as theirs are more. */
static void queue_makes_room(void **state)
{
    enum { MOST = 8 };
    (void)state;
    for (int floods = 1; floods <= 2; floods++) {
        FairQueue queue = { .most = MOST };
        FairEntry entry[MOST], newcomer, other, *dropped;
        FairClient *client;
        static const char *const name[] = { "one", "two" };
        for (int i = 0; i < MOST; i++) assert_true(fair_queue_put(&queue, &entry[i], 1, name[i % floods], &dropped));
        int64_t fits = floods == 1 ? 4 : 2, too_many = fits + 1;
        assert_false(fair_queue_put(&queue, &newcomer, too_many, "three", &dropped));
        assert_null(dropped);
        assert_int_equal(queue.texts, MOST);
        for (int i = 0; i < MOST; i++) assert_non_null(entry[i].client);
        assert_true(fair_queue_put(&queue, &newcomer, fits, "three", &dropped));
        int left = 0;
        for (; dropped; dropped = dropped->also_dropped, left++) {
            assert_null(dropped->client);
            assert_in_range(dropped - entry, MOST - fits, MOST - 1);             /* the newest ones */
        }
        assert_int_equal(left, fits);
        assert_int_equal(queue.texts, MOST);
        assert_false(fair_queue_put(&queue, &other, 1, "three", &dropped));      /* whose share is as large now */
        for (int texts = MOST; texts > 0; texts--) {
            assert_non_null(fair_queue_take(&queue, &client));
            fair_queue_end(&queue, client);
        }
        assert_null(queue.turn);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_reader), cmocka_unit_test(no_reader), cmocka_unit_test(long_event),
        cmocka_unit_test(large_answer), cmocka_unit_test(prompt_memory), cmocka_unit_test(queue_without_memory), cmocka_unit_test(queue_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
