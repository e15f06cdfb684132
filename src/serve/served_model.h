#ifndef SERVE_SERVED_MODEL_H
#define SERVE_SERVED_MODEL_H
/* What the server knows of a model, and the limits of what it takes from clients. */
#include "serve/metrics.h"
#include "text/tokenizer.h"

/* name: by which requests name it; context: positions of a prompt and its new tokens that the engine has room
 * for; prompt_tokens: of a prompt, at most; created: seconds since 1970. The pointers are the caller's. */
typedef struct {
    const char      *name;
    const Tokenizer *tokenizer;
    int64_t          context, prompt_tokens, created;
    ModelMetrics    *metrics;
} ServedModel;

/* texts: choices of a request, prompts x n; new_tokens: of all choices of a request together. waiting: texts
 * in the queue. seconds: from the arrival of a request to its last token; client_seconds: in which a client
 * sends a request, and takes an answer that waits for it. */
typedef struct {
    int64_t body_bytes, new_tokens, texts, waiting, connections;
    double  seconds, client_seconds;
} ServeLimits;
#endif
