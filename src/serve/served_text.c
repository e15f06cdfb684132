/* The bytes of a text as tokens come, and stop words across their borders. */
#include "serve/served_text.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"

void served_text_close(ServedText *x)
{
    if (x->memory) fclose(x->memory);
    free(x->raw);
    free(x->token);
    free(x->alternative_id);
    free(x->alternative_logprob);
    *x = (ServedText){ 0 };
}

static Status raw_flush(ServedText *x)
{
    return fflush(x->memory) == 0 ? OK : fail(NO_MEMORY, "no memory for a text of %lld tokens",
                                              (long long)x->drawn);
}

/* ---- tokens, kept for log-probabilities alone ---- */

static Status tokens_reserve(ServedText *x, int64_t tokens)
{
    TRY(ARRAY_RESERVE(x->token, x->room, tokens));
    TRY(ARRAY_RESERVE(x->alternative_id, x->id_room, tokens * x->alternatives));
    return ARRAY_RESERVE(x->alternative_logprob, x->logprob_room, tokens * x->alternatives);
}

static void token_score(ServedText *x, int64_t at, const GeneratedToken *t)
{
    ServedToken *token = &x->token[at];
    token->scored       = true;
    token->logprob      = t->logprob;
    token->alternatives = t->alternatives < x->alternatives ? t->alternatives : x->alternatives;
    for (int i = 0; i < token->alternatives; i++) {
        x->alternative_id     [at * x->alternatives + i] = t->alternative_id[i];
        x->alternative_logprob[at * x->alternatives + i] = t->alternative_logprob[i];
    }
}

static Status token_keep(ServedText *x, const GeneratedToken *t, int64_t begin)
{
    if (x->alternatives < 0) return OK;
    TRY(tokens_reserve(x, x->tokens + 1));
    x->token[x->tokens] = (ServedToken){ .id = t->id, .begin = begin, .end = (int64_t)x->raw_bytes };
    token_score(x, x->tokens++, t);
    return OK;
}

/* Where the prompt's tokens are in its text. A tokenizer that changes a text, as by a blank before it, gives
 * other bytes back; then places are those of the nearest byte that there is. */
static Status prompt_keep(ServedText *x, const ServedPrompt *p)
{
    Decoder decoder = { .tokenizer = x->tokenizer, .continues = !p->is_text };
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    Status status = out ? tokens_reserve(x, p->count) : fail(NO_MEMORY, "no memory for a prompt");
    for (int64_t i = 0, begin = 0; status == OK && i < p->count; i++) {
        decoder_put(&decoder, out, p->id[i]);
        if (fflush(out) != 0) status = fail(NO_MEMORY, "no memory for a prompt");
        int64_t end = i + 1 < p->count && (int64_t)bytes < p->bytes ? (int64_t)bytes : p->bytes;
        x->token[x->tokens++] = (ServedToken){ .id = p->id[i], .begin = begin, .end = end };
        begin = end;
    }
    if (out) fclose(out);
    free(text);
    return status;
}

Status served_text_open(ServedText *x, const Tokenizer *tokenizer, const StopWord *stop, int stops,
                        int alternatives, const ServedPrompt *echoed)
{
    *x = (ServedText){ .tokenizer = tokenizer, .stop = stop, .stops = stops, .alternatives = alternatives,
                       .decoder = { .tokenizer = tokenizer, .continues = true } };
    x->memory = open_memstream(&x->raw, &x->raw_bytes);
    if (!x->memory) return fail(NO_MEMORY, "no memory for a text");
    if (!echoed) return OK;
    fwrite(echoed->text, 1, (size_t)echoed->bytes, x->memory);
    TRY(raw_flush(x));
    x->shown = (int64_t)x->raw_bytes;                       /* no stop word is looked for in it */
    return prompt_keep(x, echoed);
}

void served_text_score(ServedText *x, int64_t position, const GeneratedToken *t)
{
    token_score(x, position, t);
}

/* A token with a byte that is shown; one without bytes once those before it are. */
int64_t served_text_tokens(const ServedText *x)
{
    int64_t at = x->tokens_taken;
    while (at < x->tokens && (x->token[at].begin < x->shown || x->token[at].end <= x->shown)) at++;
    return at;
}

/* ---- stop words ---- */

/* Where the earliest stop word begins, in what is not shown yet; -1: nowhere */
static int64_t stop_begin(const ServedText *x)
{
    int64_t first = -1;
    for (int i = 0; i < x->stops; i++) {
        const char *from = x->raw + x->shown;
        const char *found = memmem(from, x->raw_bytes - (size_t)x->shown, x->stop[i].text,
                                   (size_t)x->stop[i].bytes);
        if (found && (first < 0 || found - x->raw < first)) first = found - x->raw;
    }
    return first;
}

/* How many of the last bytes are the longest beginning of a stop word, which the next bytes may complete. */
static int64_t stop_part(const ServedText *x)
{
    int64_t most = (int64_t)x->raw_bytes - x->shown, longest = 0;
    for (int i = 0; i < x->stops; i++) {
        int64_t bytes = x->stop[i].bytes - 1 < most ? x->stop[i].bytes - 1 : most;
        while (bytes > longest && memcmp(x->raw + x->raw_bytes - bytes, x->stop[i].text, (size_t)bytes))
            bytes--;
        if (bytes > longest) longest = bytes;
    }
    return longest;
}

/* What has come is shown but for what may become a stop word. No more is, once one was found. */
static void show(ServedText *x, bool whole)
{
    int64_t begin = stop_begin(x);
    if (begin >= 0) x->finish = TEXT_STOP;
    x->shown = begin >= 0 ? begin : (int64_t)x->raw_bytes - (whole ? 0 : stop_part(x));
}

Status served_text_put(ServedText *x, const GeneratedToken *t)
{
    int64_t begin = (int64_t)x->raw_bytes;
    CHECK(x->finish == TEXT_RUNS, "a token for a text that has ended");
    x->drawn++;
    decoder_put(&x->decoder, x->memory, t->id);
    TRY(raw_flush(x));
    TRY(token_keep(x, t, begin));
    show(x, false);
    return OK;
}

Status served_text_end(ServedText *x, TextFinish finish)
{
    if (x->finish != TEXT_RUNS) return OK;
    decoder_end(&x->decoder, x->memory);
    TRY(raw_flush(x));
    if (x->tokens) x->token[x->tokens - 1].end = (int64_t)x->raw_bytes;
    show(x, true);
    if (x->finish == TEXT_RUNS) x->finish = finish;
    return OK;
}
