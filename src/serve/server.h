#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H
/* The HTTP server: completions of OpenAI's API, lists of models, health, metrics and a page to try a model.
 * Its threads are its own; the engine runs elsewhere (service_source of serve/service.h).
 *
 *     POST /v1/completions   GET /v1/models   GET /v1/models/NAME   GET /health   GET /metrics   GET / */
#include <signal.h>
#include "serve/access_tokens.h"
#include "serve/service.h"

typedef struct HttpServer HttpServer;

/* All of it is the caller's. */
typedef struct {
    const char         *host;                   /* name or address to listen at */
    int                 port;                   /* 0: any that is free */
    CompletionRules     rules;
    Service *const     *service;                /* [rules.models] */
    ServerMetrics      *metrics;                /* of the server; a model's are in `rules` */
    const AccessTokens *tokens;
    bool                forwarded;              /* a client is the last address of X-Forwarded-For */
    /* not 0: no more requests are taken, the services drain; NULL: never */
    const volatile sig_atomic_t *stop;
} HttpServerConfig;

/* BAD_OPTION in a build without libmicrohttpd, which has no server. */
Status http_server_built (void);
/* Binds the port, so that it is known to be free before a model is loaded; connections wait. BAD_OPTION where
 * it cannot be had, or where this build has no server. `config` stays the caller's. */
Status http_server_listen(HttpServer **server, const HttpServerConfig *config);
/* "http://127.0.0.1:8000/" */
const char *http_server_address(const HttpServer *server);
/* Begins to answer. NO_MEMORY */
Status http_server_start (HttpServer *server);
/* After the engines have ended: what is still asked for is refused, answers are sent as long as their clients
 * take them within the limit of a client's seconds, then all ends. NULL is allowed. */
void   http_server_close (HttpServer *server);
#endif
