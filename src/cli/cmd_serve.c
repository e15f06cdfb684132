/* jotun serve: answers HTTP requests for completions with the model of a checkpoint, on one rank or many.
 * Rank 0 has the server; the others run the engine with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/integer.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/generation/engine_setup.h"
#include "cli/setup/setup.h"
#include "cli/signals.h"
#include "serve/server.h"

/* What the ranks of this process share. name: of the model. What follows it is used by rank 0 alone. */
typedef struct {
    const Options *o;
    TrainConfig    config;
    Tokenizer      tokenizer;
    GenerationSize size;
    char           name[256];
    ServeLimits    limits;
    AccessTokens   tokens;
    ServerMetrics  metrics;
    const volatile sig_atomic_t *stop;
} Task;

typedef struct { ServedModel model; Service *service; HttpServer *server; } Served;

/* Of one rank. source: of the service, which the engine asks by way of this */
typedef struct {
    Task         *task;
    Served        served;
    Engine       *engine;
    RequestSource source;
} Rank;

static void setup_engine(void *context, EngineSetup *setup)
{
    (void)context;
    setup->goes_on = true;                       /* a text may break, and not the server */
}

/* ---- between engine and service ---- */

static RequestAnswer next(void *context, bool idle, Request *request)
{
    Rank *rank = context;
    EngineUse use = engine_use(rank->engine);
    metric_set(&rank->task->metrics, METRIC_cache_pages, use.pages);
    metric_set(&rank->task->metrics, METRIC_cache_pages_used, use.pages_used);
    return rank->source.next(rank->source.context, idle, request);
}

static bool token(void *context, int64_t number, const GeneratedToken *token)
{
    const Rank *rank = context;
    return rank->source.token(rank->source.context, number, token);
}

static bool wanted(void *context, int64_t number)
{
    const Rank *rank = context;
    return rank->source.wanted(rank->source.context, number);
}

static void ended(void *context, int64_t number, GenerationEnd reason)
{
    const Rank *rank = context;
    rank->source.ended(rank->source.context, number, reason);
}

/* ---- the server, on rank 0 ---- */

/* The port is taken before the weights are read, so that one that cannot be had is known at once. */
static Status served_open(void *context)
{
    Rank *rank = context;
    Served *s = &rank->served;
    Task *task = rank->task;
    const Options *o = task->o;
    s->model = (ServedModel){ task->name, &task->tokenizer, task->size.capacity, (int64_t)time(NULL) };
    TRY(service_open(&s->service, &s->model, &task->limits, &task->metrics));
    return http_server_listen(&s->server, &(HttpServerConfig){ .host = o->host, .port = (int)o->port,
        .rules = { &s->model, 1, task->limits }, .service = &s->service, .metrics = &task->metrics,
        .tokens = &task->tokens, .forwarded = o->forwarded_for, .stop = task->stop });
}

static void served_close(Served *s)
{
    http_server_close(s->server);
    service_close(s->service);
}

static Status serve(void *context, Trainer *t, Engine *engine)
{
    Rank *rank = context;
    Served *s = &rank->served;
    bool first = t->mesh.rank == 0;
    RequestSource source = { .next = next, .token = token, .wanted = wanted, .ended = ended,
                             .context = rank };
    rank->engine = engine;
    TRY(agree(t->world, first ? http_server_start(s->server) : OK));
    if (first) {
        rank->source = service_source(s->service);
        log_line("serves %s at %s", rank->task->name, http_server_address(s->server));
    }
    engine_run(engine, first ? &source : NULL);                                        /* <-> all axes */
    return OK;
}

static Status on_rank(Transport *transport, void *context)
{
    Task *task = context;
    Rank rank = { .task = task };
    Status status = generation_run(transport, &(GenerationRun){ .config = &task->config, .size = &task->size,
        .tokenizer = &task->tokenizer, .setup = setup_engine, .before = served_open, .work = serve,
        .context = &rank });
    served_close(&rank.served);
    return status;
}

/* ---- options ---- */

/* "run" of "runs/run/" and of "hf:models/run" */
static void name_set(Task *task)
{
    const Options *o = task->o;
    const char *path = o->load, *colon = strchr(path, ':');
    if (colon && !memchr(path, '/', (size_t)(colon - path))) path = colon + 1;
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/') bytes--;
    const char *leaf = path_leaf(path, bytes);
    snprintf(task->name, sizeof task->name, "%.*s", (int)(path + bytes - leaf), leaf);
    if (o->served_name) snprintf(task->name, sizeof task->name, "%s", o->served_name);
}

/* Learned positions bound a text; others are bounded by memory alone. */
static Status fit(Task *task)
{
    const Options *o = task->o;
    const ModelConfig *m = &task->config.model;
    int64_t capacity = o->max_model_len ? o->max_model_len : m->sequence;
    if (m->position == POSITION_LEARNED && capacity > m->positions)
        return fail(BAD_OPTION, "--max-model-len %lld is more than the %lld positions the model has learned",
                    (long long)capacity, (long long)m->positions);
    task->size = (GenerationSize){ .widest = capacity, .capacity = capacity,
                                   .sequences = o->prompts_at_once * o->pipeline_parallel };
    task->limits = (ServeLimits){ .body_bytes = o->max_body_bytes,
        .prompt_tokens = o->max_prompt_tokens ? o->max_prompt_tokens : capacity,
        .new_tokens = o->max_request_tokens, .texts = o->max_request_texts, .waiting = o->max_queue,
        .connections = o->max_connections, .seconds = o->max_request_seconds,
        .client_seconds = o->client_timeout };
    generation_fit(&task->config, o, &task->size);
    return OK;
}

static Status tokens_read(Task *task)
{
    const Options *o = task->o;
    if (o->token) TRY(access_tokens_add(&task->tokens, o->token, (int64_t)strlen(o->token), "--token"));
    if (o->token_file) TRY(access_tokens_file(&task->tokens, o->token_file));
    if (o->token && o->source[OPTION_token].kind == SOURCE_COMMAND_LINE)
        log_line("--token is seen by all users of this machine; JOTUN_TOKEN and --token-file are not");
    if (!task->tokens.count && strncmp(o->host, "127.", 4) && strcmp(o->host, "localhost") &&
        strcmp(o->host, "::1"))
        log_line("--host %s without a token: whoever reaches this port is answered; --token-file asks for "
                 "one", o->host);
    return OK;
}

/* What each rank reads by itself before the ranks start. */
static Status prepare(Task *task, Options *o)
{
    TRY(setup_train_config(&task->config, o));
    TRY(tokenizer_open(&task->tokenizer, o->tokenizer));
    TRY(tokens_read(task));
    name_set(task);
    return fit(task);
}

static Status run(Task *task, Options *o, int argc, char **argv)
{
    Transport *mpi;
    task->o = o;
    TRY(setup_options(o, &mpi, FOR_SERVE, argc, argv));
    task->stop = signals_catch("jotun: ends when all texts that were asked for are done; again: at once\n");
    TRY(setup_agree(mpi, prepare(task, o)));
    return setup_run(o, mpi, on_rank, task);
}

Status cmd_serve(int argc, char **argv)
{
    Options o;
    TRY(http_server_built());                            /* before a model is looked for that cannot be served */
    Task *task = calloc(1, sizeof *task);                        /* metrics are large for a stack */
    if (!task) return fail(NO_MEMORY, "no memory for a server");
    Status status = run(task, &o, argc, argv);
    access_tokens_close(&task->tokens);
    tokenizer_close(&task->tokenizer);
    options_close(&o);
    free(task);
    return status;
}
