#ifndef SERVE_COMPLETION_REQUEST_H
#define SERVE_COMPLETION_REQUEST_H
/* The body of a request to /v1/completions. A member that is not understood is refused by its name, since a
 * text that is made without it would not be what was asked for; null counts as absent. */
#include "generate/engine.h"
#include "serve/api_error.h"
#include "serve/served_model.h"

enum { STOPS_MOST = 4, LOGPROBS_MOST = 20, NEW_TOKENS_DEFAULT = 16 };

/* id: [count], at least one; text: of echo, [bytes], else NULL. Both owned. is_text: it was given as one */
typedef struct { int32_t *id; int64_t count; char *text; int64_t bytes; bool is_text; } ServedPrompt;
typedef struct { char *text; int64_t bytes; } StopWord;                                           /* owned */

/* A request has prompts x n texts. most: new tokens of each, 0 with echo alone; alternatives: as in Request.
 * Without a seed of the client's each prompt has one by chance. */
typedef struct {
    int           model;                        /* index in CompletionRules */
    ServedPrompt *prompt;                       /* [prompts], owned */
    int           prompts, n, stops, alternatives;
    int64_t       most;
    Sampling      sampling;
    StopWord      stop[STOPS_MOST];
    bool          seeded, echo, stream, include_usage;
} CompletionRequest;

/* What requests are read with: the models that are served, at least one, and the limits. */
typedef struct { const ServedModel *model; int models; ServeLimits limits; } CompletionRules;

/* Reads a body. false: `error` says why, and the request is empty. The parsed body takes at most 16 times the
 * limit of its bytes, and 1 MB. Threads may read at the same time. */
bool completion_request_read(CompletionRequest *request, ApiError *error, const CompletionRules *rules,
                             const char *body, int64_t bytes);
/* Whether the answer has the tokens of prompts with their log-probabilities. */
static inline bool completion_scores(const CompletionRequest *r) { return r->echo && r->alternatives >= 0; }
void completion_request_free(CompletionRequest *request);                     /* it is empty afterwards */
#endif
