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

static void continuation_free(Continuation *k)
{
    if (k->memory) fclose(k->memory);
    for (int64_t i = 0; k->logprobs && i < k->count; i++) {
        free(k->logprobs[i].id);
        free(k->logprobs[i].logprob);
    }
    free(k->logprobs);
    free(k->id);
    free(k->text);
    k->memory = NULL, k->logprobs = NULL, k->id = NULL, k->text = NULL;
}

void continuations_close(Continuations *c)
{
    for (int64_t i = 0; c->of && i < c->prompts->count * c->each; i++) continuation_free(&c->of[i]);
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
static Status logprobs_make(Buffer *line, const Continuation *k, int alternatives)
{
    TRY(buffer_format(line, ",\"logprobs\":["));
    for (int64_t n = 0; n < k->count; n++)
        TRY(buffer_format(line, n ? ",%.9g" : "%.9g", (double)k->logprobs[n].own));
    TRY(buffer_format(line, "]"));
    if (alternatives < 1) return OK;
    TRY(buffer_format(line, ",\"top_logprobs\":["));
    for (int64_t n = 0; n < k->count; n++) {
        TRY(buffer_format(line, n ? ",[" : "["));
        for (int a = 0; k->logprobs[n].id && a < alternatives && k->logprobs[n].id[a] >= 0; a++)
            TRY(buffer_format(line, a ? ",[%d,%.9g]" : "[%d,%.9g]", (int)k->logprobs[n].id[a],
                                 (double)k->logprobs[n].logprob[a]));
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
    if (!ids_only) TRY(member(line, "text", k->text ? k->text : "", (int64_t)k->bytes));
    TRY(buffer_format(line, ",\"ids\":["));
    for (int64_t n = 0; n < k->count; n++) TRY(buffer_format(line, n ? ",%d" : "%d", (int)k->id[n]));
    TRY(buffer_format(line, "]"));
    if (k->logprobs) TRY(logprobs_make(line, k, rule_of(c, i)->logprobs));
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

/* All but what may be the begin of a stop word. */
static void stream(const Continuations *c, Continuation *k, bool ends)
{
    const PromptRule *rule = rule_of(c, 0);
    int64_t longest = 1, until = (int64_t)k->bytes;
    for (int i = 0; i < rule->stops; i++)
        if ((int64_t)strlen(rule->stop[i]) > longest) longest = (int64_t)strlen(rule->stop[i]);
    if (!ends) until -= longest - 1;
    if (until > k->written) fwrite(k->text + k->written, 1, (size_t)(until - k->written), c->out);
    if (until > k->written) k->written = until;
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
    k->decoder = (Decoder){ .tokenizer = c->tokenizer, .continues = true };
    k->memory  = open_memstream(&k->text, &k->bytes);
    if (!k->memory) failed(c, fail(NO_MEMORY, "no memory for a text of %lld tokens", (long long)p->most));
    return k->memory ? REQUEST_GIVEN : REQUEST_CLOSED;
}

static bool logprobs_take(TokenLogprobs *to, const GeneratedToken *made)
{
    size_t n = (size_t)made->alternatives;
    *to = (TokenLogprobs){ .own = made->logprob };
    if (n == 0) return true;
    to->id      = malloc(n * sizeof *to->id);
    to->logprob = malloc(n * sizeof *to->logprob);
    if (!to->id || !to->logprob) return false;
    memcpy(to->id, made->alternative_id, n * sizeof *to->id);
    memcpy(to->logprob, made->alternative_logprob, n * sizeof *to->logprob);
    return true;
}

static bool token_keep(Continuation *k, const GeneratedToken *made, bool with_logprobs)
{
    if (ARRAY_RESERVE(k->id, k->room, k->count + 1) != OK) return false;
    if (with_logprobs && ARRAY_RESERVE(k->logprobs, k->logprobs_room, k->count + 1) != OK) return false;
    if (with_logprobs && !logprobs_take(&k->logprobs[k->count], made)) return false;
    k->id[k->count++] = made->id;
    return true;
}

/* Where the first stop word begins in the text; -1: there is none. The first `before` bytes have none as a
 * whole. */
static int64_t stop_place(const PromptRule *rule, const Continuation *k, size_t before)
{
    int64_t first = -1;
    for (int i = 0; i < rule->stops && k->bytes > 0; i++) {
        size_t bytes = strlen(rule->stop[i]), from = before >= bytes ? before - bytes + 1 : 0;
        const char *found = memmem(k->text + from, k->bytes - from, rule->stop[i], bytes);
        if (found && (first < 0 || found - k->text < first)) first = found - k->text;
    }
    return first;
}

static bool token(void *context, int64_t number, const GeneratedToken *made)
{
    Continuations *c = context;
    Continuation *k = &c->of[number];
    const PromptRule *rule = rule_of(c, number);
    size_t before = k->bytes;
    if (!token_keep(k, made, rule->logprobs >= 0)) failed(c, fail(NO_MEMORY, "no memory for a text"));
    decoder_put(&k->decoder, k->memory, made->id);
    fflush(k->memory);
    c->tokens++;
    int64_t stop = stop_place(rule, k, before);
    if (stop >= 0) fclose(k->memory), k->memory = NULL, k->bytes = (size_t)stop;
    else if (!c->lines) stream(c, k, false), fflush(c->out);
    return stop < 0 && c->status == OK;
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
    if (k->memory) {
        decoder_end(&k->decoder, k->memory);
        if (fclose(k->memory) != 0) failed(c, fail(NO_MEMORY, "no memory for a text"));
        k->memory = NULL;
        int64_t stop = stop_place(rule_of(c, number), k, 0);
        if (stop >= 0) k->bytes = (size_t)stop, reason = END_STOPPED;
    }
    k->reason = reason_word(reason);
    if (!c->lines) stream(c, k, true), c->next++;
    for (; c->lines && c->next < c->asked && c->of[c->next].reason; c->next++) {
        if (c->status == OK) failed(c, line_write(c, c->next));
        continuation_free(&c->of[c->next]);
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
