/* The HTTP server before a fake engine, for the scripts of this folder:   serve_fake [NAME=VALUE...]
 * It writes its address to standard output, and ends as jotun serve does by SIGTERM. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "serve/fake_engine.h"
#include "serve/server.h"

static volatile sig_atomic_t stop;
static void on_signal(int number) { __atomic_store_n(&stop, number, __ATOMIC_RELAXED); }

static FakeEngine engine = { .rows = 16, .step_us = 2000 };

static void *run(void *source)
{
    fake_engine_run(&engine, source);
    return NULL;
}

static const char *setting(int argc, char **argv, const char *name, const char *other)
{
    size_t bytes = strlen(name);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], name, bytes) && argv[i][bytes] == '=') return argv[i] + bytes + 1;
    return other;
}

static double number(int argc, char **argv, const char *name, double other)
{
    const char *value = setting(argc, argv, name, NULL);
    return value ? strtod(value, NULL) : other;
}

static Status work(int argc, char **argv, AccessTokens *tokens)
{
    static Tokenizer tokenizer;
    static ServerMetrics metrics;
    static ModelMetrics of_model[2];
    static ServedModel model[2];
    static Service *service[2];
    HttpServer *server;
    pthread_t thread[2];
    RequestSource source[2];
    const char *token = setting(argc, argv, "token", ""), *file = setting(argc, argv, "token_file", "");
    int models = (int)number(argc, argv, "models", 1);
    ServeLimits limits = { .body_bytes = (int64_t)number(argc, argv, "body", 65536),
        .new_tokens = (int64_t)number(argc, argv, "new", 4096), .texts = (int64_t)number(argc, argv, "texts", 8),
        .waiting = (int64_t)number(argc, argv, "waiting", 256),
        .connections = (int64_t)number(argc, argv, "connections", 256),
        .seconds = number(argc, argv, "seconds", 60), .client_seconds = number(argc, argv, "client", 10) };
    if (*token) TRY(access_tokens_add(tokens, token, (int64_t)strlen(token), "token"));
    if (*file) TRY(access_tokens_file(tokens, file));
    TRY(tokenizer_open(&tokenizer, "bytes"));
    for (int i = 0; i < models; i++) {
        model[i] = (ServedModel){ i ? "fake-2" : "fake", &tokenizer, (int64_t)number(argc, argv, "context", 2048),
                                  (int64_t)number(argc, argv, "prompt", 1 << 20), time(NULL), &of_model[i] };
        TRY(service_open(&service[i], &model[i], &limits));
        source[i] = service_source(service[i]);
    }
    engine.rows    = (int)number(argc, argv, "rows", engine.rows);
    engine.step_us = (long)number(argc, argv, "step_us", (double)engine.step_us);
    TRY(http_server_listen(&server, &(HttpServerConfig){ .host = setting(argc, argv, "host", "127.0.0.1"),
        .port = (int)number(argc, argv, "port", 0), .rules = { model, models, limits }, .service = service,
        .metrics = &metrics, .tokens = tokens, .forwarded = number(argc, argv, "forwarded", 0) > 0,
        .stop = &stop }));
    TRY(http_server_start(server));
    printf("%s\n", http_server_address(server));
    fflush(stdout);
    for (int i = 0; i < models; i++) pthread_create(&thread[i], NULL, run, &source[i]);
    for (int i = 0; i < models; i++) pthread_join(thread[i], NULL);
    http_server_close(server);
    for (int i = 0; i < models; i++) service_close(service[i]);
    tokenizer_close(&tokenizer);
    return OK;
}

int main(int argc, char **argv)
{
    AccessTokens tokens = { 0 };
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_signal);
    Status status = work(argc, argv, &tokens);
    access_tokens_close(&tokens);
    if (status != OK) fprintf(stderr, "%s\n", fail_text());
    return status_exit_code(status);
}
