/* Any bytes as the body of a completion request: refused with a status and a message, or a request within its limits. */
#include <stdlib.h>
#include <string.h>
#include "serve/completion_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void holds(bool good) { if (!good) abort(); }

static void check(const CompletionRequest *r, const CompletionRules *rules)
{
    const ServeLimits *limits = &rules->limits;
    const ServedModel *m = &rules->model[r->model];
    holds(r->model >= 0 && r->model < rules->models);
    holds(r->prompts > 0 && r->n > 0 && r->prompts * r->n <= limits->texts);
    holds((r->most > 0 || (r->most == 0 && r->echo)) && r->most * r->prompts * r->n <= limits->new_tokens);
    holds(r->stops >= 0 && r->stops <= STOPS_MOST && r->alternatives >= -1 && r->alternatives <= LOGPROBS_MOST);
    holds(r->sampling.temperature >= 0 && r->sampling.top_p >= 0 && r->sampling.top_p <= 1 && r->sampling.top_k >= -1);
    for (int i = 0; i < r->stops; i++) holds(r->stop[i].bytes > 0);
    for (int i = 0; i < r->prompts; i++) {
        holds(r->prompt[i].count > 0 && r->prompt[i].count <= m->prompt_tokens);
        holds(r->prompt[i].count + r->most <= m->context);
        for (int64_t k = 0; k < r->prompt[i].count; k++)
            holds(r->prompt[i].id[k] >= 0 && r->prompt[i].id[k] < m->tokenizer->vocabulary);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static Tokenizer tokenizer;
    CompletionRequest request;
    ApiError error = { .status = 0 };
    if (!tokenizer.vocabulary) holds(tokenizer_open(&tokenizer, "bytes") == OK);
    const ServedModel model[] = { { "one", &tokenizer, 128, 100, 0, NULL }, { "two", &tokenizer, 64, 50, 0, NULL } };
    CompletionRules rules = { model, 2, { .body_bytes = 4096, .new_tokens = 256, .texts = 8 } };
    char *body = malloc(bytes);                     /* as long as it is, so that no byte behind it can be read */
    if (bytes) memcpy(body, data, bytes);
    if (completion_request_read(&request, &error, &rules, body, (int64_t)bytes)) {
        check(&request, &rules);
        completion_request_free(&request);
    } else holds(error.status >= 400 && error.status < 600 && *error.message && *error.code && !request.prompt);
    free(body);
    return 0;
}
