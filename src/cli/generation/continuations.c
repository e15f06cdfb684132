/* Texts as they are drawn, or as lines of JSON. */
#include "cli/generation/continuations.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "base/seam.h"
#include "base/json_text.h"
#include "base/utf8.h"

Status continuations_open(Continuations *c, const Tokenizer *tokenizer, const Prompts *p, int64_t each,
                          bool lines, FILE *out)
{
    *c = (Continuations){ .tokenizer = tokenizer, .prompts = p, .each = each, .lines = lines, .out = out,
                          .begun = seam.clock(), .reported = seam.clock() };
    c->of = calloc((size_t)(p->count * each), sizeof *c->of);
    if (!c->of) return fail(NO_MEMORY, "no memory for %lld texts", (long long)(p->count * each));
    if (!lines) fprintf(out, "%.*s", (int)p->text[0].bytes, p->text[0].text);
    return OK;
}

void continuations_close(Continuations *c)
{
    for (int64_t i = 0; c->of && i < c->prompts->count * c->each; i++) served_text_close(&c->of[i].text);
    free(c->of);
}

enum { PROGRESS_SECONDS = 10 };

void continuations_tell(const Continuations *c)
{
    double seconds = seam_seconds_since(c->begun);
    log_line("%lld of %lld texts, %lld tokens in %.3f s, %.1f tokens/s", (long long)c->next,
             (long long)(c->prompts->count * c->each), (long long)c->tokens, seconds,
             (double)c->tokens / fmax(seconds, 1e-9));
}

static const PromptRule *rule_of(const Continuations *c, int64_t i) { return &c->prompts->rule[i / c->each]; }

/* ---- lines of JSON ---- */

/* Bytes that are not UTF-8, which tokens of bytes can make, become U+FFFD. */
static Status member(Buffer *line, const char *name, const char *text, int64_t bytes)
{
    Buffer repaired = { 0 };
    Status status = utf8_repair(&repaired, text, bytes);
    const char *empty = "";                               /* which has no memory */
    if (status == OK)
        status = json_text_member(line, name,
                                  json_text_of(repaired.text ? repaired.text : empty, repaired.bytes));
    buffer_free(&repaired);
    return status;
}

/* "logprobs":[-0.5,...], and where alternatives were asked for "top_logprobs":[[[id,-0.5],...],...] */
static Status logprobs_make(Buffer *line, const ServedText *x)
{
    TRY(buffer_format(line, ",\"logprobs\":["));
    for (int64_t n = 0; n < x->tokens; n++)
        TRY(buffer_format(line, n ? ",%.9g" : "%.9g", (double)x->token[n].logprob));
    TRY(buffer_format(line, "]"));
    if (x->alternatives < 1) return OK;
    TRY(buffer_format(line, ",\"top_logprobs\":["));
    for (int64_t n = 0; n < x->tokens; n++) {
        const int32_t *id = x->alternative_id + n * x->alternatives;
        TRY(buffer_format(line, n ? ",[" : "["));
        for (int a = 0; a < x->token[n].alternatives && id[a] >= 0; a++)
            TRY(buffer_format(line, a ? ",[%d,%.9g]" : "[%d,%.9g]", (int)id[a],
                              (double)x->alternative_logprob[n * x->alternatives + a]));
        TRY(buffer_format(line, "]"));
    }
    return buffer_format(line, "]");
}

/* {"line":1, "prompt":"...", "text":"...", "ids":[...], "finish_reason":"length"} and what was asked for */
static Status line_make(Buffer *line, const Continuations *c, int64_t i)
{
    const Continuation *k = &c->of[i];
    const JsonText *prompt = &c->prompts->text[i / c->each];
    TRY(buffer_format(line, "{\"line\":%lld", (long long)(i / c->each) + 1));
    if (c->each > 1) TRY(buffer_format(line, ",\"index\":%lld", (long long)(i % c->each)));
    if (prompt->text) TRY(member(line, "prompt", prompt->text, prompt->bytes));
    bool ids_only = tokenizer_is_none(c->tokenizer->name);
    if (!ids_only) TRY(member(line, "text", k->text.raw ? k->text.raw : "", k->text.shown));
    TRY(buffer_format(line, ",\"ids\":["));
    for (int64_t n = 0; n < k->text.tokens; n++)
        TRY(buffer_format(line, n ? ",%d" : "%d", (int)k->text.token[n].id));
    TRY(buffer_format(line, "]"));
    if (k->text.tokens && rule_of(c, i)->logprobs >= 0) TRY(logprobs_make(line, &k->text));
    if (k->scored) TRY(buffer_format(line, ",\"score\":%.9g", k->score));
    return buffer_format(line, ",\"finish_reason\":\"%s\"}\n", k->reason);
}

static Status line_write(const Continuations *c, int64_t i)
{
    Buffer line = { 0 };
    Status status = line_make(&line, c, i);
    if (status == OK) fwrite(line.text, 1, (size_t)line.bytes, c->out);
    buffer_free(&line);
    return status;
}

/* ---- one text ---- */

static void stream(const Continuations *c, Continuation *k, bool ends)
{
    const ServedText *x = &k->text;
    if (x->shown > k->written) fwrite(x->raw + k->written, 1, (size_t)(x->shown - k->written), c->out);
    if (x->shown > k->written) k->written = x->shown;
    if (ends) fputc('\n', c->out);
}

/* ---- the engine's calls ---- */

static void failed(Continuations *c, Status status) { if (c->status == OK) c->status = status; }

static RequestAnswer next(void *context, bool idle, Request *request)
{
    Continuations *c = context;
    (void)idle;
    if (c->asked == c->prompts->count * c->each || c->status != OK) return REQUEST_CLOSED;
    const Prompt *p = &c->prompts->prompt[c->asked / c->each];
    const PromptRule *rule = rule_of(c, c->asked);
    /* prompts have streams of their own, and so have continuations of a prompt */
    uint64_t stream_of = (uint64_t)(c->asked / c->each) + ((uint64_t)(c->asked % c->each) << 24);
    *request = (Request){ .number = c->asked, .stream = stream_of, .id = p->id, .count = p->count,
        .most = p->most, .sampling = rule->sampling, .alternatives = rule->logprobs, .beams = rule->beams,
        .length_penalty = rule->length_penalty };
    Continuation *k = &c->of[c->asked++];
    Status status = served_text_open(&k->text, c->tokenizer, rule->stop, rule->stops,
                                     rule->logprobs > 0 ? rule->logprobs : 0, NULL);
    failed(c, status);
    return status == OK ? REQUEST_GIVEN : REQUEST_CLOSED;
}

static bool token(void *context, int64_t number, const GeneratedToken *made)
{
    Continuations *c = context;
    Continuation *k = &c->of[number];
    failed(c, served_text_put(&k->text, made));
    c->tokens++;
    if (!c->lines) stream(c, k, false), fflush(c->out);
    return k->text.finish == TEXT_RUNS && c->status == OK;
}

/* Long prompts take long before the first token. The one text of --prompt shows by itself how far it is, once
 * it has begun. */
static void progress(void *context, EngineUse use)
{
    Continuations *c = context;
    int64_t all = 0;
    if (seam_seconds_since(c->reported) < PROGRESS_SECONDS || (!c->lines && c->tokens > 0)) return;
    c->reported = seam.clock();
    for (int64_t i = 0; i < c->prompts->count; i++) all += c->prompts->prompt[i].count * c->each;
    log_line("after %.0f s: %lld of %lld tokens of prompts are computed, %lld tokens made, %lld of %lld "
             "texts written", seam_seconds_since(c->begun), (long long)use.prompt_tokens, (long long)all,
             (long long)c->tokens, (long long)c->next, (long long)(c->prompts->count * c->each));
}

static const char *reason_word(GenerationEnd reason)
{
    switch (reason) {
    case END_OF_TEXT: case END_STOPPED: return "stop";
    case END_LENGTH:                    return "length";
    case END_CANCELLED:                 return "cancelled";
    case END_NOT_FINITE:                return "not_finite";
    case END_TOO_LONG:                  return "too_long";
    }
    return "";
}

static void ended(void *context, int64_t number, GenerationEnd reason)
{
    Continuations *c = context;
    Continuation *k = &c->of[number];
    if (k->text.memory) failed(c, served_text_end(&k->text, TEXT_LENGTH));
    if (k->text.finish == TEXT_STOP) reason = END_STOPPED;
    k->reason = reason_word(reason);
    if (!c->lines) stream(c, k, true), c->next++;
    for (; c->lines && c->next < c->asked && c->of[c->next].reason; c->next++) {
        if (c->status == OK) failed(c, line_write(c, c->next));
        served_text_close(&c->of[c->next].text);
    }
    if (fflush(c->out) != 0)
        failed(c, fail(IO_FAILED, "standard output cannot be written: %s", strerror(errno)));
}

static void scored(void *context, int64_t number, double score)
{
    Continuation *k = &((Continuations *)context)->of[number];
    k->scored = true;
    k->score  = score;
}

RequestSource continuations_source(Continuations *c)
{
    return (RequestSource){ .use = progress, .next = next, .token = token, .ended = ended,
                            .scored = scored, .context = c };
}
