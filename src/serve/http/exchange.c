/* One request and its answer: which path it is, its body, and what the service has for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/array.h"
#include "base/json_text.h"
#include "serve/http/http.h"

enum { EVENT_BLOCK = 16384 };

typedef struct Route Route;

typedef struct Exchange {
    HttpServer     *server;
    HttpConnection *connection;
    RequestHead     head;
    const Route    *route;                  /* NULL: it is refused */
    ApiError        error;                  /* where it is refused by its head */
    Buffer          body;                   /* what has come of the request's */
    bool            too_large, no_memory, routed;
    char            path[512];
    Completion     *completion;             /* from its submission on; it is left at the end */
} Exchange;

typedef enum MHD_Result Answer;

/* ---- answers ---- */

static const char json_type[] = "application/json";

/* Nothing of an answer is kept by caches or shown as another type. */
static Answer respond(const Exchange *x, struct MHD_Connection *mhd, int status, const char *type,
                      struct MHD_Response *response)
{
    if (!response) return MHD_NO;
    if (type) MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    if (status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Basic realm=\"jotun\"");
    if (status == 405)
        MHD_add_response_header(response, "Allow", strcmp(x->path, "/v1/completions") ? "GET, HEAD" : "POST");
    if (status == 429 || status == 503) MHD_add_response_header(response, "Retry-After", "1");
    metric_answered(x->server->config.metrics, status);
    Answer queued = MHD_queue_response(mhd, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}

/* The answer owns the buffer's memory afterwards. */
static Answer respond_with(const Exchange *x, struct MHD_Connection *mhd, int status, const char *type,
                           Buffer *body)
{
    struct MHD_Response *r = MHD_create_response_from_buffer((size_t)body->bytes, body->text,
                                                             MHD_RESPMEM_MUST_FREE);
    if (!r) buffer_free(body);
    *body = (Buffer){ 0 };
    return respond(x, mhd, status, type, r);
}

static Answer respond_error(const Exchange *x, struct MHD_Connection *mhd, const ApiError *error)
{
    Buffer body = { 0 };
    if (api_error_json(&body, error) == OK) return respond_with(x, mhd, error->status, json_type, &body);
    buffer_free(&body);
    return MHD_NO;
}

static Answer respond_made(const Exchange *x, struct MHD_Connection *mhd, Status made, int status,
                           const char *type, Buffer *body)
{
    if (made == OK) return respond_with(x, mhd, status, type, body);
    buffer_free(body);
    return MHD_NO;
}

/* ---- paths ---- */

static Answer page(Exchange *x, struct MHD_Connection *mhd)
{
    unsigned char random[16];
    char nonce[33], policy[400];
    Buffer body = { 0 };
    if (getrandom(random, sizeof random, 0) != sizeof random) return MHD_NO;
    for (size_t i = 0; i < sizeof random; i++) snprintf(nonce + 2 * i, 3, "%02x", random[i]);
    snprintf(policy, sizeof policy, "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; "
             "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             nonce, nonce);
    if (server_page_write(&body, nonce) != OK) return buffer_free(&body), MHD_NO;
    struct MHD_Response *r = MHD_create_response_from_buffer((size_t)body.bytes, body.text,
                                                             MHD_RESPMEM_MUST_FREE);
    if (!r) buffer_free(&body);
    if (r) MHD_add_response_header(r, "Content-Security-Policy", policy);
    return respond(x, mhd, 200, "text/html; charset=utf-8", r);
}

static Answer icon(Exchange *x, struct MHD_Connection *mhd)
{
    return respond(x, mhd, 204, NULL, MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT));
}

static Answer health(Exchange *x, struct MHD_Connection *mhd)
{
    pthread_mutex_lock(&x->server->lock);
    bool drains = x->server->drains;
    pthread_mutex_unlock(&x->server->lock);
    Buffer body = { 0 };
    Status made = buffer_format(&body, "{\"status\":\"%s\"}\n", drains ? "shutting down" : "ok");
    return respond_made(x, mhd, made, drains ? 503 : 200, json_type, &body);
}

static Answer metrics(Exchange *x, struct MHD_Connection *mhd)
{
    Buffer body = { 0 };
    const HttpServerConfig *config = &x->server->config;
    NamedMetrics *of = calloc((size_t)config->rules.models, sizeof *of);
    if (!of) return MHD_NO;
    for (int i = 0; i < config->rules.models; i++)
        of[i] = (NamedMetrics){ config->rules.model[i].name, config->rules.model[i].metrics };
    Status made = metrics_write(&body, config->metrics, of, config->rules.models);
    free(of);
    return respond_made(x, mhd, made, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static Status model_json(Buffer *out, const ServedModel *m)
{
    TRY(buffer_format(out, "{\"id\":"));
    TRY(json_text_label(out, m->name));
    return buffer_format(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"jotun\","
                            "\"max_model_len\":%lld}", (long long)m->created, (long long)m->context);
}

static Status model_list(Buffer *out, const CompletionRules *rules)
{
    TRY(buffer_format(out, "{\"object\":\"list\",\"data\":["));
    for (int i = 0; i < rules->models; i++) {
        if (i) TRY(buffer_add(out, ",", 1));
        TRY(model_json(out, &rules->model[i]));
    }
    return buffer_format(out, "]}\n");
}

static Answer models(Exchange *x, struct MHD_Connection *mhd)
{
    Buffer body = { 0 };
    return respond_made(x, mhd, model_list(&body, &x->server->config.rules), 200, json_type, &body);
}

static Answer one_model(Exchange *x, struct MHD_Connection *mhd)
{
    const CompletionRules *rules = &x->server->config.rules;
    const char *name = x->path + sizeof "/v1/models/" - 1;
    ApiError error;
    Buffer body = { 0 };
    for (int i = 0; i < rules->models; i++)
        if (!strcmp(rules->model[i].name, name))
            return respond_made(x, mhd, model_json(&body, &rules->model[i]), 200, json_type, &body);
    api_refuse(&error, 404, "model", "model_not_found", "there is no model %.200s here", name);
    return respond_error(x, mhd, &error);
}

/* ---- completions ---- */

static ssize_t events(void *context, uint64_t at, char *out, size_t most)
{
    Exchange *x = context;
    (void)at;
    if (connection_gone(x->connection)) return MHD_CONTENT_READER_END_WITH_ERROR;
    int64_t bytes = completion_read(x->completion, out, (int64_t)most);
    return bytes == ANSWER_END ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)bytes;
}

static Answer whole(Exchange *x, struct MHD_Connection *mhd)
{
    Buffer body = { 0 };
    Status made = buffer_reserve(&body, completion_bytes(x->completion));
    if (made == OK) body.bytes = completion_read(x->completion, body.text, completion_bytes(x->completion));
    completion_leave(x->completion);
    x->completion = NULL;
    return respond_made(x, mhd, made, 200, json_type, &body);
}

/* Called again each time that there is something to answer with. */
static Answer completion_go_on(Exchange *x, struct MHD_Connection *mhd)
{
    ApiError error;
    if (connection_gone(x->connection)) return MHD_NO;
    switch (completion_answer(x->completion, &error)) {
    case ANSWER_LATER: return MHD_YES;
    case ANSWER_ERROR: return respond_error(x, mhd, &error);
    case ANSWER_WHOLE: return whole(x, mhd);
    case ANSWER_EVENTS: break;
    }
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK, events, x,
                                                               NULL);
    if (r) MHD_add_response_header(r, "X-Accel-Buffering", "no");        /* nginx passes events at once */
    return respond(x, mhd, 200, "text/event-stream; charset=utf-8", r);
}

static bool completion_begin(Exchange *x, struct MHD_Connection *mhd, ApiError *error)
{
    const HttpServerConfig *config = &x->server->config;
    CompletionRequest request;
    char client[CLIENT_NAME];
    AnswerWait wait = { connection_suspend, connection_resume, x->connection };
    if (!completion_request_read(&request, error, &config->rules, x->body.text, x->body.bytes)) return false;
    buffer_free(&x->body);
    request_head_client(client, &x->head, x->server, x->connection, mhd);
    return service_submit(config->service[request.model], &x->completion, error, &request, client, &wait);
}

static Answer completions(Exchange *x, struct MHD_Connection *mhd)
{
    ApiError error;
    return completion_begin(x, mhd, &error) ? MHD_YES : respond_error(x, mhd, &error);
}

/* ---- requests ---- */

/* whole: the path is all of it; else its beginning, with more behind */
struct Route {
    const char *path;
    bool        posts, whole;
    Answer    (*answer)(Exchange *, struct MHD_Connection *);
};

static const Route routes[] = {
    { "/v1/completions", true,  true,  completions }, { "/v1/models",   false, true, models },
    { "/v1/models/",     false, false, one_model },   { "/health",      false, true, health },
    { "/metrics",        false, true,  metrics },     { "/favicon.ico", false, true, icon },
    { "/",               false, true,  page },
};

/* What other servers have at these paths. */
static const struct { const char *path, *says; } not_here[] = {
    { "/v1/chat/completions", "the models here are base models, without a chat; POST the text to continue to "
                              "/v1/completions" },
    { "/v1/responses",        "the models here are base models, without a chat; POST the text to continue to "
                              "/v1/completions" },
    { "/v1/embeddings",       "the models here continue texts, and give no embeddings" },
};

/* Whether the rest of a path is its end, with a slash or without. */
static bool ends(const char *rest) { return !*rest || !strcmp(rest, "/"); }

static bool refuse_path(ApiError *error, const char *path)
{
    for (size_t i = 0; i < COUNT(not_here); i++) {
        size_t bytes = strlen(not_here[i].path);
        if (!strncmp(path, not_here[i].path, bytes) && ends(path + bytes))
            return api_refuse(error, 404, "", "not_found", "%s", not_here[i].says);
    }
    return api_refuse(error, 404, "", "not_found", "there is nothing at this path");
}

static const Route *route_find(ApiError *error, const char *path, const char *method)
{
    bool gets = !strcmp(method, "GET") || !strcmp(method, "HEAD");
    for (const Route *r = routes; r < routes + COUNT(routes); r++) {
        size_t bytes = strlen(r->path);
        if (strncmp(path, r->path, bytes)) continue;
        const char *rest = path + bytes;
        if (!(!r->whole ? *rest : bytes > 1 ? ends(rest) : !*rest)) continue;
        if (r->posts ? !strcmp(method, "POST") : gets) return r;
        api_refuse(error, 405, "", "method_not_allowed", "%s takes %s", r->path, r->posts ? "POST" : "GET");
        return NULL;
    }
    refuse_path(error, path);
    return NULL;
}

static bool refuse_large(ApiError *error, const ServeLimits *limits)
{
    return api_refuse(error, 413, "", "body_too_large", "a request has %lld bytes at most",
                      (long long)limits->body_bytes);
}

/* A browser sends other types than JSON to other sites without asking them first, so they are refused. A body
 * that is too large is refused before it is sent where its client waits for that (Expect: 100-continue). */
static bool body_wanted(Exchange *x, struct MHD_Connection *mhd)
{
    const ServeLimits *limits = &x->server->config.rules.limits;
    if (x->route->posts && !request_head_json(&x->error, mhd)) return false;
    x->too_large = x->head.declared > limits->body_bytes;
    return !x->too_large || !request_head_expects(mhd) || refuse_large(&x->error, limits);
}

/* A request is refused by its head before its body comes, and none is read behind it: libmicrohttpd closes a
 * connection whose answer is given now. Without a body the answer waits for the next call, and the connection
 * stays, except where its client may not ask. */
static Answer head_handle(Exchange *x, struct MHD_Connection *mhd, const char *method, const char *version)
{
    bool closes = !request_head_read(&x->head, &x->error, x->server, mhd, method, version);
    if (!closes) connection_set(x->connection, CONNECTION_RECEIVES);
    x->route = closes ? NULL : route_find(&x->error, x->path, method);
    if (x->route && !body_wanted(x, mhd)) x->route = NULL;
    if (x->route || !(closes || x->head.body)) return MHD_YES;
    x->routed = true;
    if (x->head.body) connection_linger(x->connection);
    return respond_error(x, mhd, &x->error);
}

static Answer request_handle(Exchange *x, struct MHD_Connection *mhd)
{
    ApiError error;
    x->routed = true;
    connection_set(x->connection, CONNECTION_ANSWERS);
    if (!x->route) return respond_error(x, mhd, &x->error);
    if (!x->too_large && !x->no_memory) return x->route->answer(x, mhd);
    if (x->too_large) refuse_large(&error, &x->server->config.rules.limits);
    else api_refuse(&error, 503, "", "no_memory", "there is no memory for this request now");
    return respond_error(x, mhd, &error);
}

static Exchange *exchange_begin(HttpServer *server, struct MHD_Connection *mhd, const char *path)
{
    HttpConnection *connection = connection_of(mhd);
    Exchange *x = connection ? calloc(1, sizeof *x) : NULL;
    if (!x) return NULL;
    *x = (Exchange){ .server = server, .connection = connection };
    snprintf(x->path, sizeof x->path, "%s", path);
    return x;
}

/* What is above the limit, or of a request that has no body, is read and dropped, so that its client reads
 * why. */
static void body_add(Exchange *x, const char *data, size_t bytes)
{
    if (!x->route || !x->route->posts) return;
    x->too_large |= x->body.bytes + (int64_t)bytes > x->server->config.rules.limits.body_bytes;
    if (!x->too_large && buffer_add(&x->body, data, (int64_t)bytes) != OK) x->no_memory = true;
    if (x->too_large || x->no_memory) buffer_free(&x->body);
}

/* MHD calls it once with the head, then with each part of the body, then without one, and once more each time
 * that a suspended connection is resumed. */
Answer exchange_handle(void *server, struct MHD_Connection *mhd, const char *path, const char *method,
                       const char *version, const char *data, size_t *bytes, void **context)
{
    Exchange *x = *context;
    if (!x) {
        x = *context = exchange_begin(server, mhd, path);
        return x ? head_handle(x, mhd, method, version) : MHD_NO;
    }
    if (*bytes) {
        body_add(x, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    if (x->completion) return completion_go_on(x, mhd);
    return x->routed ? MHD_NO : request_handle(x, mhd);
}

void exchange_end(void *server, struct MHD_Connection *mhd, void **context,
                  enum MHD_RequestTerminationCode code)
{
    Exchange *x = *context;
    (void)server;
    (void)mhd;
    (void)code;
    if (!x) return;
    if (x->completion) completion_leave(x->completion);
    connection_set(x->connection, CONNECTION_IDLE);
    buffer_free(&x->body);
    free(x);
    *context = NULL;
}
