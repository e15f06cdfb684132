/* The JSON of completions, as a whole and as server-sent events. */
#include <string.h>
#include "base/json_text.h"
#include "base/utf8.h"
#include "serve/completion.h"
#include "text/unicode.h"

/* Bytes that are not UTF-8, which tokens of bytes can make, become U+FFFD. */
static Status text_string(Buffer *out, const char *text, int64_t bytes)
{
    Buffer repaired = { 0 };
    if (bytes == 0) return buffer_add(out, "\"\"", 2);
    Status status = utf8_repair(&repaired, text, bytes);
    if (status == OK) status = json_text_string(out, json_text_of(repaired.text, repaired.bytes));
    buffer_free(&repaired);
    return status;
}

/* ---- log-probabilities ---- */

/* A token that is not whole characters is named by its bytes, as OpenAI's API does. */
static Status token_string(Buffer *out, const Tokenizer *t, int32_t id)
{
    TextPiece piece = t->decode(t, id);
    if (piece.bytes == 0) return buffer_add(out, "\"\"", 2);
    if (utf8_broken(piece.text, piece.bytes) < 0)
        return json_text_string(out, json_text_of(piece.text, piece.bytes));
    TRY(buffer_format(out, "\"bytes:"));
    for (int64_t i = 0; i < piece.bytes; i++)
        TRY(buffer_format(out, "\\\\x%02x", (unsigned)(uint8_t)piece.text[i]));
    return buffer_add(out, "\"", 1);
}

/* Digits that give the float again. JSON has no infinity: a token that cannot be drawn has a log-probability
 * of -9999, as in OpenAI's API. */
static Status logprob_number(Buffer *out, float logprob)
{
    return buffer_format(out, "%.9g", logprob > -9999.0f ? (double)logprob : -9999.0);
}

/* {" a": -0.5, " b": -1.2} of token i; of two alternatives with one text the likelier one */
static Status alternatives(Buffer *out, const ServedText *x, int64_t i)
{
    const int32_t *id = x->alternative_id + i * x->alternatives;
    bool first = true;
    TRY(buffer_add(out, "{", 1));
    for (int k = 0; k < x->token[i].alternatives; k++) {
        TextPiece piece = x->tokenizer->decode(x->tokenizer, id[k]);
        bool named = false;
        for (int j = 0; j < k && !named; j++) {
            TextPiece before = x->tokenizer->decode(x->tokenizer, id[j]);
            named = before.bytes == piece.bytes && !memcmp(before.text, piece.text, (size_t)piece.bytes);
        }
        if (named) continue;
        if (!first) TRY(buffer_add(out, ",", 1));
        first = false;
        TRY(token_string(out, x->tokenizer, id[k]));
        TRY(buffer_add(out, ":", 1));
        TRY(logprob_number(out, x->alternative_logprob[i * x->alternatives + k]));
    }
    return buffer_add(out, "}", 1);
}

/* Characters of the text before each token, where a byte that is not UTF-8 counts as one. */
static Status offsets(Buffer *out, ChoiceText *c, int64_t end)
{
    const ServedText *x = &c->text;
    for (int64_t i = x->tokens_taken; i < end; i++) {
        while (c->counted < x->token[i].begin) {
            Rune rune = rune_at((const uint8_t *)x->raw + c->counted, (int64_t)x->raw_bytes - c->counted);
            c->counted += rune.bytes;
            c->offset++;
        }
        TRY(buffer_format(out, "%s%lld", i > x->tokens_taken ? "," : "", (long long)c->offset));
    }
    return OK;
}

Status completion_prepare(ChoiceText *c, int64_t end, int64_t most, int64_t *left)
{
    const ServedText *x = &c->text;
    if (c->prepared < x->tokens_taken) c->prepared = x->tokens_taken;
    for (*left = most; x->alternatives > 0 && c->prepared < end && *left > 0; c->prepared++, --*left) {
        if (c->prepared > x->tokens_taken) TRY(buffer_add(&c->likely, ",", 1));
        if (x->token[c->prepared].scored) TRY(alternatives(&c->likely, x, c->prepared));
        else                              TRY(buffer_add(&c->likely, "null", 4));
    }
    return OK;
}

/* [{" a": -0.5, " b": -1.2}, ...] of the tokens up to `end` */
static Status likely(Buffer *out, ChoiceText *c, int64_t end)
{
    int64_t left;
    TRY(completion_prepare(c, end, INT64_MAX, &left));
    TRY(buffer_add(out, "[", 1));
    TRY(buffer_add(out, c->likely.text, c->likely.bytes));
    buffer_free(&c->likely);
    return buffer_add(out, "]", 1);
}

/* The four lists of OpenAI's object, of the tokens from tokens_taken to `end`, with null for the first one of
 * a prompt, which nothing precedes */
static Status logprobs(Buffer *out, ChoiceText *c, int64_t end)
{
    ServedText *x = &c->text;
    TRY(buffer_format(out, "{\"tokens\":["));
    for (int64_t i = x->tokens_taken; i < end; i++) {
        if (i > x->tokens_taken) TRY(buffer_add(out, ",", 1));
        TRY(token_string(out, x->tokenizer, x->token[i].id));
    }
    TRY(buffer_format(out, "],\"token_logprobs\":["));
    for (int64_t i = x->tokens_taken; i < end; i++) {
        if (i > x->tokens_taken) TRY(buffer_add(out, ",", 1));
        if (x->token[i].scored) TRY(logprob_number(out, x->token[i].logprob));
        else                    TRY(buffer_add(out, "null", 4));
    }
    TRY(buffer_format(out, "],\"top_logprobs\":"));
    if (x->alternatives) TRY(likely(out, c, end));
    else                 TRY(buffer_format(out, "null"));
    TRY(buffer_format(out, ",\"text_offset\":["));
    TRY(offsets(out, c, end));
    x->tokens_taken = end;
    return buffer_format(out, "]}");
}

/* ---- choices ---- */

static Status head(Buffer *out, const Completion *x, const ServedModel *model)
{
    TRY(buffer_format(out, "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":",
                         x->id, (long long)x->created));
    TRY(json_text_label(out, model->name));
    return buffer_format(out, ",\"choices\":[");
}

/* {"text": ..., "index": ..., "logprobs": ..., "finish_reason": ...} of what was not given out */
static Status choice(Completion *x, int i)
{
    static const char *const finish[] = { "null", "\"stop\"", "\"length\"" };
    ChoiceText *c = &x->choice[i];
    ServedText *t = &c->text;
    const ServedPrompt *prompt = &x->request.prompt[i / x->request.n];
    bool begins = x->request.echo && !c->echoed && !completion_scores(&x->request);
    Buffer text = { 0 };
    Status status = begins ? buffer_add(&text, prompt->text, prompt->bytes) : OK;
    if (status == OK) status = buffer_add(&text, t->raw + t->taken, t->shown - t->taken);
    if (status == OK) status = buffer_format(&x->out, "{\"text\":");
    if (status == OK) status = text_string(&x->out, text.text, text.bytes);
    buffer_free(&text);
    TRY(status);
    t->taken = t->shown;
    TRY(buffer_format(&x->out, ",\"index\":%d,\"logprobs\":", i));
    if (t->alternatives < 0) TRY(buffer_format(&x->out, "null"));
    else                     TRY(logprobs(&x->out, c, served_text_tokens(t)));
    c->finish_given = t->finish != TEXT_RUNS;
    c->echoed = true;
    return buffer_format(&x->out, ",\"finish_reason\":%s}", finish[t->finish]);
}

static Status usage(Completion *x)
{
    long long prompts = 0, made = 0;
    for (int i = 0; i < x->request.prompts; i++) prompts += x->request.prompt[i].count;
    for (int i = 0; i < x->choices; i++) made += x->choice[i].text.drawn;
    return buffer_format(&x->out, "{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,"
                            "\"total_tokens\":%lld}", prompts, made, prompts + made);
}

Status completion_event(Completion *x, int i, const ServedModel *model)
{
    const ChoiceText *c = &x->choice[i];
    const ServedText *t = &c->text;
    bool more = t->shown > t->taken || (t->alternatives >= 0 && served_text_tokens(t) > t->tokens_taken);
    if (c->finish_given || (!more && t->finish == TEXT_RUNS)) return OK;
    TRY(buffer_add(&x->out, "data: ", 6));
    TRY(head(&x->out, x, model));
    TRY(choice(x, i));
    return buffer_format(&x->out, "]%s}\n\n", x->request.include_usage ? ",\"usage\":null" : "");
}

Status completion_last_event(Completion *x, const ServedModel *model)
{
    if (x->failed) {
        TRY(buffer_add(&x->out, "data: ", 6));
        TRY(api_error_json(&x->out, &x->error));
        return buffer_add(&x->out, "\n\n", 2);
    }
    if (x->request.include_usage) {
        TRY(buffer_add(&x->out, "data: ", 6));
        TRY(head(&x->out, x, model));
        TRY(buffer_format(&x->out, "],\"usage\":"));
        TRY(usage(x));
        TRY(buffer_add(&x->out, "}\n\n", 3));
    }
    return buffer_format(&x->out, "data: [DONE]\n\n");
}

Status completion_whole(Completion *x, const ServedModel *model)
{
    TRY(head(&x->out, x, model));
    for (int i = 0; i < x->choices; i++) {
        if (i) TRY(buffer_add(&x->out, ",", 1));
        TRY(choice(x, i));
    }
    TRY(buffer_format(&x->out, "],\"usage\":"));
    TRY(usage(x));
    return buffer_add(&x->out, "}\n", 2);
}
