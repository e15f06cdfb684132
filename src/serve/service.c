/* Completions from their requests to their last tokens. */
#include "serve/service.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "base/array.h"
#include "base/random.h"
#include "base/seam.h"
#include "serve/completion.h"

/* A stream whose client reads more slowly than its text is made ends where it is so far ahead. A whole answer
 * is made of so many tokens at a time, so that other connections of the same thread wait for some
 * milliseconds alone. */
enum { UNREAD_MOST = 4 << 20, IDLE_WAIT_S = 1, PIECE_TOKENS = 256 };

/* A text that the engine makes, by the number of its request. preempted: it ends before its next token, and
 * continues later. */
typedef struct {
    int64_t     number;
    Completion *completion;
    FairClient *client;
    int         choice;
    bool        preempted;
} RunningText;

struct Service {
    const ServedModel *model;
    ServeLimits        limits;
    ModelMetrics      *metrics;
    pthread_mutex_t    lock;
    pthread_cond_t     filled;                    /* the queue has texts, or no more come */
    FairQueue          queue;
    Completion        *first;                     /* all that live */
    RunningText       *running;                   /* [texts], owned */
    int64_t            texts, room, numbers;
    uint64_t           chance;                    /* names of answers */
    bool               drains;
};

Status service_open(Service **out, const ServedModel *model, const ServeLimits *limits)
{
    pthread_condattr_t clock;
    Service *s = *out = calloc(1, sizeof *s);
    if (!s) return fail(NO_MEMORY, "no memory for a server");
    *s = (Service){ .model = model, .limits = *limits, .metrics = model->metrics,
                    .queue.most = limits->waiting };
    if (getrandom(&s->chance, sizeof s->chance, 0) < 0) s->chance = (uint64_t)seam.clock();
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->filled, &clock);
    pthread_condattr_destroy(&clock);
    return OK;
}

static void lock(Service *s)   { pthread_mutex_lock(&s->lock); }
static void unlock(Service *s) { pthread_mutex_unlock(&s->lock); }

static void counts(Service *s, int64_t waiting, int64_t running)
{
    metric_add(s->metrics, METRIC_sequences_waiting, waiting);
    metric_add(s->metrics, METRIC_sequences_running, running);
}

/* ---- completions ---- */

static void completion_free(Completion *c)
{
    Service *s = c->service;
    if (c->before) c->before->next = c->next; else s->first = c->next;
    if (c->next)   c->next->before = c->before;
    for (int i = 0; i < c->choices; i++) {
        if (c->choice[i].opened) served_text_close(&c->choice[i].text);
        free(c->choice[i].id);
        buffer_free(&c->choice[i].likely);
    }
    completion_request_free(&c->request);
    free(c->choice);
    buffer_free(&c->out);
    free(c);
}

static bool engine_has(const Completion *c) { return c->running > 0; }

static void wake(Completion *c)
{
    if (!c->asleep) return;
    c->asleep = false;
    c->wait.wake(c->wait.context);
}

/* No answer is ever owed to a client after its request is done. */
static void dequeue(Completion *c)
{
    if (!c->entry.client) return;
    counts(c->service, -c->entry.texts, 0);
    fair_queue_remove(&c->service->queue, &c->entry);
}

/* What was given out stands; where that is a part of a stream the error is its last event. */
static void completion_fail(Completion *c, const ApiError *error)
{
    if (c->done) return;
    c->failed = c->done = true;
    c->error  = *error;
    dequeue(c);
    if (c->request.stream && c->sent && completion_last_event(c, c->service->model) != OK)
        c->out.bytes = c->read;
    wake(c);
}

static void fail_with(Completion *c, int status, const char *code, const char *message)
{
    ApiError error;
    api_refuse(&error, status, "", code, "%s", message);
    completion_fail(c, &error);
}

static void fail_memory(Completion *c)
{
    fail_with(c, 503, "no_memory", "the server has no memory for the text");
}

static void completion_done(Completion *c)
{
    metric_observe(c->service->metrics, HISTOGRAM_request_seconds, seam.clock() - c->arrived);
    if (c->request.stream && completion_last_event(c, c->service->model) != OK) fail_memory(c);
    c->done = true;
    wake(c);
}

static bool completion_make(Completion **out, Service *s, CompletionRequest *r, const AnswerWait *wait)
{
    int choices = r->prompts * r->n;
    Completion *c = calloc(1, sizeof *c);
    ChoiceText *choice = c ? calloc((size_t)choices, sizeof *choice) : NULL;
    if (!choice) return free(c), false;
    int64_t now = seam.clock();
    *c = (Completion){ .service = s, .next = s->first, .choice = choice, .choices = choices, .arrived = now,
                       .deadline = now + (int64_t)(s->limits.seconds * 1e9), .wait = *wait, .request = *r,
                       .created = (int64_t)time(NULL) };
    *r = (CompletionRequest){ 0 };
    snprintf(c->id, sizeof c->id, "cmpl-%016llx",
             (unsigned long long)random_mix(s->chance, (uint64_t)++s->numbers));
    for (int i = 0; i < choices; i++) {
        uint64_t seed = c->request.sampling.seed, prompt = (uint64_t)(i / c->request.n);
        choice[i].seed   = c->request.seeded ? seed : random_mix(seed, prompt);
        choice[i].stream = (uint64_t)(i % c->request.n);
    }
    if (s->first) s->first->before = c;
    s->first = *out = c;
    return true;
}

static bool refuse_full(Service *s, ApiError *error)
{
    metric_add(s->metrics, METRIC_queue_refusals, 1);
    return api_refuse(error, 429, "", "queue_full", "the queue is full (%lld texts); try again later",
                      (long long)s->limits.waiting);
}

/* Requests that had to leave the queue, the newest of clients with many, are answered as one that did not get
 * into it. */
static void refuse_dropped(Service *s, FairEntry *dropped)
{
    for (FairEntry *e = dropped; e; ) {
        ApiError full;
        FairEntry *more = e->also_dropped;
        counts(s, -e->texts, 0);
        refuse_full(s, &full);
        completion_fail((Completion *)(void *)e, &full);
        e = more;
    }
}

static bool submit(Service *s, Completion **out, ApiError *error, CompletionRequest *r, const char *client,
                   const AnswerWait *wait)
{
    FairEntry *dropped;
    Completion *c;
    if (s->drains)
        return api_refuse(error, 503, "", "shutting_down", "the server is shutting down; try another one");
    if (!completion_make(&c, s, r, wait))
        return api_refuse(error, 503, "", "no_memory", "there is no memory for this request now");
    if (!fair_queue_put(&s->queue, &c->entry, c->choices, client, &dropped)) {
        completion_free(c);
        return refuse_full(s, error);
    }
    refuse_dropped(s, dropped);
    for (int i = 0; i < c->request.prompts; i++)
        metric_add(s->metrics, METRIC_prompt_tokens, c->request.prompt[i].count);
    counts(s, c->choices, 0);
    c->asleep = true;
    wait->sleep(wait->context);
    pthread_cond_signal(&s->filled);
    *out = c;
    return true;
}

bool service_submit(Service *s, Completion **out, ApiError *error, CompletionRequest *r, const char *client,
                    const AnswerWait *wait)
{
    lock(s);
    bool taken = submit(s, out, error, r, client, wait);
    unlock(s);
    if (!taken) completion_request_free(r);
    return taken;
}

void service_drain(Service *s)
{
    lock(s);
    s->drains = true;
    pthread_cond_signal(&s->filled);
    unlock(s);
}

void service_end(Service *s)
{
    lock(s);
    s->drains = true;
    for (Completion *c = s->first; c; c = c->next) fail_with(c, 503, "shutting_down", "the server has ended");
    unlock(s);
}

void service_tick(Service *s, int64_t now)
{
    lock(s);
    for (Completion *c = s->first; c; c = c->next) {
        if (!c->done && now > c->deadline)
            fail_with(c, 504, "timeout", "the time for a request is over; ask for fewer tokens");
    }
    unlock(s);
}

void service_close(Service *s)
{
    if (!s) return;
    while (s->first) completion_free(s->first);
    fair_queue_close(&s->queue);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->filled);
    free(s->running);
    free(s);
}

/* ---- the engine's thread ---- */

static RunningText *running_find(Service *s, int64_t number)
{
    for (int64_t i = 0; i < s->texts; i++)
        if (s->running[i].number == number) return &s->running[i];
    return NULL;
}

static bool running_add(Service *s, Completion *c, FairClient *client, int choice)
{
    if (ARRAY_RESERVE(s->running, s->room, s->texts + 1) != OK) return false;
    s->running[s->texts++] = (RunningText){ ++s->numbers, c, client, choice, false };
    return true;
}

static bool choice_open(const Service *s, const CompletionRequest *r, ChoiceText *choice,
                        const ServedPrompt *prompt)
{
    choice->opened = true;
    choice->id     = malloc((size_t)(r->most + 1) * sizeof *choice->id);
    return choice->id && served_text_open(&choice->text, s->model->tokenizer, r->stop, r->stops,
                                          r->alternatives, completion_scores(r) ? prompt : NULL) == OK;
}

/* The next text of the entry whose turn it is; the first of those that do not run, so a preempted
 * one before a new one. false: it could not be started, and its request has failed. */
static bool start(Service *s, Completion *c, FairClient *client, Request *request)
{
    int i = 0;
    const CompletionRequest *r = &c->request;
    while (c->choice[i].runs || c->choice[i].ended) i++;
    ChoiceText *choice = &c->choice[i];
    const ServedPrompt *prompt = &r->prompt[i / r->n];
    if ((!choice->opened && !choice_open(s, r, choice, prompt)) || !running_add(s, c, client, i))
        return fail_memory(c), false;
    if (choice->text.drawn == 0)
        metric_observe(s->metrics, HISTOGRAM_queue_seconds, seam.clock() - c->arrived);
    choice->runs = true;
    c->running++;
    counts(s, 0, 1);
    *request = (Request){ .number = s->numbers, .stream = choice->stream, .id = prompt->id,
                          .count = prompt->count, .most = r->most, .generated = choice->id,
                          .generated_count = choice->text.drawn, .sampling = r->sampling,
                          .alternatives = r->alternatives,
                          .scores_prompt = completion_scores(r) && choice->text.drawn == 0 };
    request->sampling.seed = choice->seed;
    return true;
}

static RequestAnswer take(Service *s, Request *request)
{
    FairEntry *e;
    FairClient *client;
    while ((e = fair_queue_take(&s->queue, &client))) {
        counts(s, -1, 0);
        if (start(s, (Completion *)(void *)e, client, request)) return REQUEST_GIVEN;
        fair_queue_end(&s->queue, client);
    }
    return REQUEST_NONE;
}

static RequestAnswer next(void *context, bool idle, Request *request)
{
    Service *s = context;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_WAIT_S;
    lock(s);
    while (idle && s->queue.texts == 0 && !s->drains &&
           pthread_cond_timedwait(&s->filled, &s->lock, &until) == 0)
        ;
    RequestAnswer answer = take(s, request);
    if (answer == REQUEST_NONE && s->drains && s->texts == 0) answer = REQUEST_CLOSED;
    unlock(s);
    return answer;
}

/* Of a client's texts the one that is computed again soonest */
static void preempt(Service *s, const FairClient *client)
{
    RunningText *shortest = NULL;
    int64_t fewest = 0;
    for (RunningText *r = s->running; r < s->running + s->texts; r++) {
        const CompletionRequest *of = &r->completion->request;
        int64_t ids = of->prompt[r->choice / of->n].count + r->completion->choice[r->choice].text.drawn;
        if (r->client != client || (shortest && ids >= fewest)) continue;
        shortest = r;
        fewest   = ids;
    }
    if (shortest) shortest->preempted = true;
}

static void use(void *context, EngineUse use)
{
    Service *s = context;
    metric_set(s->metrics, METRIC_cache_pages, use.pages);
    metric_set(s->metrics, METRIC_cache_pages_used, use.pages_used);
    lock(s);
    const FairClient *client = fair_queue_preempt(&s->queue, use.places - s->texts);
    if (client) preempt(s, client);
    unlock(s);
}

static bool has_failed(const Completion *c) { return c->left || c->failed; }

/* What is new of a stream becomes an event at once. One event may be longer than what may be unread, so that
 * is asked before it. */
static Status event(Completion *c, int i)
{
    if (c->out.bytes - c->read > UNREAD_MOST)
        fail_with(c, 408, "slow_client", "the client reads more slowly than the text is made");
    if (c->failed) return OK;
    TRY(completion_event(c, i, c->service->model));
    if (c->out.bytes > c->read) wake(c);
    return OK;
}

static Status put(Completion *c, int i, const GeneratedToken *token)
{
    ChoiceText *choice = &c->choice[i];
    int64_t now = seam.clock();
    metric_add(c->service->metrics, METRIC_generated_tokens, 1);
    if (!choice->first_token)
        metric_observe(c->service->metrics, HISTOGRAM_first_token_seconds, now - c->arrived);
    if (!choice->first_token) choice->first_token = now;
    choice->last_token = now;
    choice->id[choice->text.drawn] = token->id;
    TRY(served_text_put(&choice->text, token));
    return c->request.stream ? event(c, i) : OK;
}

static bool token(void *context, int64_t number, const GeneratedToken *token)
{
    Service *s = context;
    bool runs = false;
    lock(s);
    const RunningText *r = running_find(s, number);
    CHECK(r, "a token of text %lld, which does not run", (long long)number);
    Completion *c = r->completion;
    if (!has_failed(c) && c->choice[r->choice].text.finish == TEXT_RUNS) {
        if (put(c, r->choice, token) != OK) fail_memory(c);
        runs = !has_failed(c) && c->choice[r->choice].text.finish == TEXT_RUNS;
    }
    unlock(s);
    return runs;
}

static void prompt_token(void *context, int64_t number, int64_t position, const GeneratedToken *token)
{
    Service *s = context;
    lock(s);
    const RunningText *r = running_find(s, number);
    CHECK(r, "a token of the prompt of text %lld, which does not run", (long long)number);
    Completion *c = r->completion;
    ChoiceText *choice = &c->choice[r->choice];
    int64_t left;
    if (!has_failed(c)) {
        served_text_score(&choice->text, position, token);
        if (c->request.stream && completion_prepare(choice, position + 1, PIECE_TOKENS, &left) != OK)
            fail_memory(c);
    }
    unlock(s);
}

static bool wanted(void *context, int64_t number)
{
    Service *s = context;
    lock(s);
    const RunningText *r = running_find(s, number);
    bool wants = r && !r->preempted && !has_failed(r->completion);
    unlock(s);
    return wants;
}

static void end(Completion *c, int i, GenerationEnd reason)
{
    ChoiceText *choice = &c->choice[i];
    ServedText *text = &choice->text;
    if (reason == END_NOT_FINITE)
        fail_with(c, 500, "broken_model", "the model's logits are not finite; jotun eval perplexity tells "
                  "whether its weights are");
    if (reason == END_TOO_LONG)
        fail_with(c, 400, "context_length_exceeded", "the engine has no room for a text of this length");
    if (served_text_end(text, reason == END_LENGTH ? TEXT_LENGTH : TEXT_STOP) != OK) fail_memory(c);
    if (c->failed) return;
    if (text->drawn > 1)
        metric_observe(c->service->metrics, HISTOGRAM_token_seconds,
                       (choice->last_token - choice->first_token) / (text->drawn - 1));
    if (c->request.stream && event(c, i) != OK) fail_memory(c);
}

static void ended(void *context, int64_t number, GenerationEnd reason)
{
    Service *s = context;
    lock(s);
    RunningText *r = running_find(s, number);
    CHECK(r, "the end of text %lld, which does not run", (long long)number);
    Completion *c = r->completion;
    const RunningText of = *r;
    *r = s->running[--s->texts];
    counts(s, 0, -1);
    c->running--;
    c->choice[of.choice].runs = false;
    if (of.preempted && reason == END_CANCELLED && !has_failed(c)) {
        counts(s, 1, 0);
        metric_add(s->metrics, METRIC_preemptions, 1);
        fair_queue_return(&s->queue, &c->entry, of.client);
        unlock(s);
        return;
    }
    fair_queue_end(&s->queue, of.client);
    c->ended++;
    c->choice[of.choice].ended = true;
    if (has_failed(c)) metric_add(s->metrics, METRIC_sequences_cancelled, 1);
    else               end(c, of.choice, reason);
    if (!has_failed(c) && c->ended == c->choices) completion_done(c);
    if (c->left && !engine_has(c)) completion_free(c);
    unlock(s);
}

RequestSource service_source(Service *s)
{
    return (RequestSource){ .use = use, .next = next, .token = token, .prompt_token = prompt_token,
                            .wanted = wanted, .ended = ended, .context = s };
}

/* ---- the threads of connections ---- */

static void sleep_until_more(Completion *c)
{
    c->asleep = true;
    c->wait.sleep(c->wait.context);
}

/* A piece of a whole answer. *made: that was the last one */
static Status make_piece(Completion *c, bool *made)
{
    int64_t left = PIECE_TOKENS;
    for (int i = 0; i < c->choices && left > 0; i++) {
        ChoiceText *choice = &c->choice[i];
        TRY(completion_prepare(choice, served_text_tokens(&choice->text), left, &left));
    }
    *made = left > 0;
    return left > 0 ? completion_whole(c, c->service->model) : OK;
}

/* Without the lock: nothing else has to do with a completion that is done. The thread of its connection is
 * woken at once between two pieces. */
static AnswerKind make_whole(Completion *c, ApiError *error)
{
    bool made = false;
    if (make_piece(c, &made) != OK) {
        api_refuse(error, 503, "", "no_memory", "there is no memory for this answer now");
        return ANSWER_ERROR;
    }
    if (made) return ANSWER_WHOLE;
    lock(c->service);
    sleep_until_more(c);
    wake(c);
    unlock(c->service);
    return ANSWER_LATER;
}

AnswerKind completion_answer(Completion *c, ApiError *error)
{
    AnswerKind kind = ANSWER_LATER;
    lock(c->service);
    if (c->failed && !c->sent)                              kind = ANSWER_ERROR;
    else if (!c->request.stream && c->done)                 kind = ANSWER_WHOLE;
    else if (c->request.stream && c->out.bytes > c->read)   kind = ANSWER_EVENTS;
    if (kind == ANSWER_ERROR) *error = c->error;
    if (kind == ANSWER_LATER) sleep_until_more(c);
    else                      c->sent = true;
    unlock(c->service);
    return kind == ANSWER_WHOLE ? make_whole(c, error) : kind;
}

/* What was read makes room once it is half of all, so that each byte is moved once on average, and the memory
 * of a stream is that of what is unread however long it gets. */
static void release(Completion *c)
{
    int64_t unread = c->out.bytes - c->read;
    if (c->read < unread) return;
    if (unread) memmove(c->out.text, c->out.text + c->read, (size_t)unread);
    c->out.bytes = unread;
    c->read = 0;
}

int64_t completion_read(Completion *c, char *out, int64_t most)
{
    lock(c->service);
    int64_t bytes = c->out.bytes - c->read;
    if (bytes > most) bytes = most;
    if (bytes > 0) memcpy(out, c->out.text + c->read, (size_t)bytes);
    c->read += bytes;
    release(c);
    if (bytes == 0 && !c->done) sleep_until_more(c);
    if (bytes == 0 && c->done)  bytes = ANSWER_END;
    unlock(c->service);
    return bytes;
}

int64_t completion_bytes(Completion *c)
{
    lock(c->service);
    int64_t bytes = c->out.bytes - c->read;
    unlock(c->service);
    return bytes;
}

void completion_leave(Completion *c)
{
    Service *s = c->service;
    lock(s);
    c->left   = true;
    c->asleep = false;
    dequeue(c);
    if (!engine_has(c)) completion_free(c);
    unlock(s);
}
