/* jotun serve: answers HTTP requests for completions with the model of a checkpoint, on one rank or many, or
 * with two models side by side, each with an engine of its own. Rank 0 of the first one has the server; the
 * others run the engine with it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/log.h"
#include "base/thread.h"
#include "cli/command.h"
#include "cli/generation/engine_setup.h"
#include "cli/setup/setup.h"
#include "cli/setup/tokenizer.h"
#include "cli/signals.h"
#include "report/run_record.h"
#include "serve/server.h"

enum { MODELS_MOST = 2 };

/* Barriers of the ranks 0 of all models, in this order: all memory is there before weights are read, and all
 * weights before requests are answered. */
typedef enum { BARRIER_MEMORY, BARRIER_WEIGHTS, BARRIERS } StartBarrier;

typedef struct Serving Serving;

/* What the ranks of a model share. */
typedef struct {
    Serving       *serving;
    int            number;
    Options        o;
    TrainConfig    config;
    Tokenizer      tokenizer;
    GenerationSize size;
    char           name[256];
    ModelMetrics   metrics;
} Task;

/* What follows `limits` is used by ranks 0 alone. */
struct Serving {
    Task           task[MODELS_MOST];
    int            models;
    ServeLimits    limits;
    AccessTokens   tokens;
    ServerMetrics  metrics;
    ServedModel    model[MODELS_MOST];
    Service       *service[MODELS_MOST];
    HttpServer    *server;
    const volatile sig_atomic_t *stop;
    pthread_mutex_t lock;                        /* of what follows */
    pthread_cond_t changed;
    int            arrived[BARRIERS];
    Failure        failure;                      /* of the first model that failed */
};

static void setup_engine(void *context, EngineSetup *setup)
{
    (void)context;
    setup->scores_prompts = true;
    setup->not_finite_ends = true;                       /* a text may break, and not the server */
}

/* ---- the models of a server ---- */

/* Beside another model the message names the one that failed. */
static void failed(const Task *task, Status status)
{
    Serving *s = task->serving;
    if (s->models > 1) fail_prefix(status, "%s: ", task->name);
    pthread_mutex_lock(&s->lock);
    failure_keep(&s->failure, status);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Answers begin once the weights of all models are there. */
static Status start(Serving *s)
{
    TRY(http_server_start(s->server));
    log_line("serves %s%s%s at %s", s->task[0].name, s->models > 1 ? " and " : "",
             s->models > 1 ? s->task[1].name : "", http_server_address(s->server));
    return OK;
}

/* Returns when all models have arrived, or one has failed. Others of this model's ranks wait meanwhile. */
static Status barrier(Serving *s, StartBarrier at, Comm *world)
{
    watchdog_work(world, "waiting for the other model");
    pthread_mutex_lock(&s->lock);
    if (++s->arrived[at] == s->models && at == BARRIER_WEIGHTS && s->failure.status == OK)
        failure_keep(&s->failure, start(s));
    pthread_cond_broadcast(&s->changed);
    while (s->failure.status == OK && s->arrived[at] < s->models) pthread_cond_wait(&s->changed, &s->lock);
    Status status = failure_report(&s->failure);
    pthread_mutex_unlock(&s->lock);
    watchdog_work(world, NULL);
    return status;
}

static Status memory_taken(void *context, Trainer *t)
{
    const Task *task = context;
    return barrier(task->serving, BARRIER_MEMORY, t->comms.world);
}

static Status serve(void *context, Trainer *t, Engine *engine)
{
    const Task *task = context;
    Serving *s = task->serving;
    bool first = t->mesh.rank == 0;
    RequestSource source = { .context = NULL };
    if (first) source = service_source(s->service[task->number]);
    TRY(agree(t->comms.world, first ? barrier(s, BARRIER_WEIGHTS, t->comms.world) : OK));
    engine_run(engine, first ? &source : NULL);                                        /* <-> all axes */
    return OK;
}

static Status on_rank(Transport *transport, void *context)
{
    Task *task = context;
    return generation_run(transport, &(GenerationRun){ .config = &task->config, .size = &task->size,
        .tokenizer = &task->tokenizer, .setup = setup_engine, .before = memory_taken, .work = serve,
        .context = task });
}

static void *run_beside(void *context)
{
    Task *task = context;
    Status status = setup_run(&task->o, NULL, on_rank, task);
    if (status != OK) failed(task, status);
    return NULL;
}

/* The port is taken before the weights are read, so that one that cannot be had is known at once. */
static Status listen_on(Serving *s)
{
    const Options *o = &s->task[0].o;
    for (int i = 0; i < s->models; i++) {
        Task *task = &s->task[i];
        int64_t capacity = task->size.capacity;
        s->model[i] = (ServedModel){ .name = task->name, .tokenizer = &task->tokenizer, .context = capacity,
            .prompt_tokens = o->max_prompt_tokens ? o->max_prompt_tokens : capacity,
            .created = (int64_t)time(NULL), .metrics = &task->metrics };
        TRY(service_open(&s->service[i], &s->model[i], &s->limits));
    }
    return http_server_listen(&s->server, &(HttpServerConfig){ .host = o->host, .port = (int)o->port,
        .rules = { s->model, s->models, s->limits }, .service = s->service, .metrics = &s->metrics,
        .tokens = &s->tokens, .forwarded = o->forwarded_for, .stop = s->stop });
}

/* The second model's ranks are threads beside those of the first one. */
static Status run_models(Serving *s, Transport *mpi)
{
    pthread_t beside;
    bool two = s->models > 1;
    if (two && thread_start(&beside, run_beside, &s->task[1]))
        return fail(NO_MEMORY, "the system gives the second model no thread");
    Status status = setup_run(&s->task[0].o, mpi, on_rank, &s->task[0]);
    if (status != OK) failed(&s->task[0], status);
    if (two) pthread_join(beside, NULL);
    return failure_report(&s->failure);
}

/* ---- options ---- */

/* Of "hf:models/run" too */
static void name_set(Task *task)
{
    const Options *o = &task->o;
    const char *path = o->load, *colon = strchr(path, ':');
    size_t bytes;
    if (colon && !memchr(path, '/', (size_t)(colon - path))) path = colon + 1;
    const char *name = run_name_of(&bytes, path);
    snprintf(task->name, sizeof task->name, "%.*s", (int)bytes, name);
    if (o->served_name && task->number == 0) snprintf(task->name, sizeof task->name, "%s", o->served_name);
}

/* Learned positions bound a text; others are bounded by memory alone. */
static Status fit(Task *task)
{
    const Options *o = &task->o;
    const ModelConfig *m = &task->config.model;
    int64_t capacity = o->max_model_len ? o->max_model_len : m->sequence;
    if (m->position == POSITION_LEARNED && capacity > m->positions)
        return fail(BAD_OPTION, "--max-model-len %lld is more than the %lld positions the model has learned",
                    (long long)capacity, (long long)m->positions);
    task->size = (GenerationSize){ .widest = capacity, .chunk = CHUNK_LATENCY, .capacity = capacity,
                                   .sequences = o->prompts_at_once * o->pipeline_parallel };
    generation_fit(&task->config, o, &task->size);
    return OK;
}

static Status tokens_read(Serving *s)
{
    const Options *o = &s->task[0].o;
    if (o->token) TRY(access_tokens_add(&s->tokens, o->token, (int64_t)strlen(o->token), "--token"));
    if (o->token_file) TRY(access_tokens_file(&s->tokens, o->token_file));
    if (o->token && o->source[OPTION_token].kind == SOURCE_COMMAND_LINE)
        log_line("--token is seen by all users of this machine; JOTUN_TOKEN and --token-file are not");
    if (!s->tokens.count && strncmp(o->host, "127.", 4) && strcmp(o->host, "localhost") &&
        strcmp(o->host, "::1"))
        log_line("--host %s without a token: whoever reaches this port is answered; --token-file asks for "
                 "one", o->host);
    return OK;
}

/* What each rank reads by itself before the ranks start. */
static Status prepare(Task *task)
{
    TRY(setup_train_config(&task->config, &task->o));
    TRY(setup_open_tokenizer(&task->tokenizer, &task->o));
    name_set(task);
    return fit(task);
}

static Status prepare_compared(Serving *s, const Transport *mpi, int argc, char **argv)
{
    Task *task = &s->task[1];
    const char *path = s->task[0].o.compare;
    if (!path) return OK;
    if (mpi)
        return fail(BAD_OPTION, "--compare %s: both models run in one process; start jotun without mpirun, "
                    "and let --ranks say how many threads are ranks of each", path);
    Status status = setup_compared(&task->o, FOR_SERVE, argc, argv);
    if (status == OK) status = prepare(task);
    if (status != OK) return fail_prefix(status, "--compare %s: ", path);
    if (!strcmp(task->name, s->task[0].name))
        return fail(BAD_OPTION, "--load %s and --compare %s are both called %s; --served-model-name NAME "
                    "calls the first one otherwise", s->task[0].o.load, path, task->name);
    s->models = 2;
    return OK;
}

static Status prepare_all(Serving *s, const Transport *mpi, int argc, char **argv)
{
    const Options *o = &s->task[0].o;
    s->limits = (ServeLimits){ .body_bytes = o->max_body_bytes, .new_tokens = o->max_request_tokens,
        .texts = o->max_request_texts, .waiting = o->max_queue, .connections = o->max_connections,
        .seconds = o->max_request_seconds, .client_seconds = o->client_timeout };
    TRY(tokens_read(s));
    TRY(prepare(&s->task[0]));
    TRY(prepare_compared(s, mpi, argc, argv));
    return mpi && mpi->rank > 0 ? OK : listen_on(s);
}

static Status run(Serving *s, int argc, char **argv)
{
    Transport *mpi;
    TRY(setup_options(&s->task[0].o, &mpi, FOR_SERVE, argc, argv));
    s->stop = signals_catch("jotun: ends when all texts that were asked for are done; again: at once\n");
    TRY(setup_agree(mpi, prepare_all(s, mpi, argc, argv)));
    return run_models(s, mpi);
}

static void serving_close(Serving *s)
{
    http_server_close(s->server);
    for (int i = 0; i < MODELS_MOST; i++) {
        service_close(s->service[i]);
        tokenizer_close(&s->task[i].tokenizer);
        options_close(&s->task[i].o);
    }
    access_tokens_close(&s->tokens);
    free(s);
}

Status cmd_serve(int argc, char **argv)
{
    TRY(http_server_built());  /* before a model is looked for that cannot be served */
    Serving *s = calloc(1, sizeof *s);                           /* metrics are large for a stack */
    if (!s) return fail(NO_MEMORY, "no memory for a server");
    s->models = 1;
    for (int i = 0; i < MODELS_MOST; i++) s->task[i].serving = s, s->task[i].number = i;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    Failure failure = { 0 };
    failure_keep(&failure, run(s, argc, argv));
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    serving_close(s);
    return failure_report(&failure);
}
