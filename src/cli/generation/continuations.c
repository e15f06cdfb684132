/* Texts as they are drawn, or as lines of JSON. */
#include "cli/generation/continuations.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/read/json_text.h"
#include "corpus/read/utf8.h"

Status continuations_open(Continuations *c, const Tokenizer *tokenizer, const Prompts *p, bool lines,
                          FILE *out)
{
    int64_t most = 0;
    *c = (Continuations){ .tokenizer = tokenizer, .prompts = p, .lines = lines, .out = out,
                          .decoder = { .tokenizer = tokenizer, .goes_on = true } };
    for (int64_t i = 0; i < p->count; i++) most += p->prompt[i].most;
    c->of = calloc((size_t)p->count, sizeof *c->of);
    c->id = malloc((size_t)most * sizeof *c->id);
    if (!c->of || !c->id) return fail(NO_MEMORY, "no memory for texts of %lld tokens", (long long)most);
    most = 0;
    for (int64_t i = 0; i < p->count; i++) {
        c->of[i].id = c->id + most;
        most += p->prompt[i].most;
    }
    if (!lines) fprintf(out, "%.*s", (int)p->text[0].bytes, p->text[0].text);
    return OK;
}

void continuations_close(Continuations *c)
{
    free(c->of);
    free(c->id);
}

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

static Status text_member(Buffer *line, const Tokenizer *tokenizer, const Continuation *k)
{
    Decoder decoder = { .tokenizer = tokenizer, .goes_on = true };
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return fail(NO_MEMORY, "no memory for a text of %lld tokens", (long long)k->count);
    for (int64_t i = 0; i < k->count; i++) decoder_put(&decoder, memory, k->id[i]);
    decoder_end(&decoder, memory);
    bool whole = fclose(memory) == 0;
    Status status = whole ? member(line, "text", text, (int64_t)bytes)
                          : fail(NO_MEMORY, "no memory for a text of %lld tokens", (long long)k->count);
    free(text);
    return status;
}

/* {"line":1, "prompt":"...", "text":"...", "ids":[...]} */
static Status line_make(Buffer *line, const Continuations *c, int64_t i)
{
    const Continuation *k = &c->of[i];
    const JsonText *prompt = &c->prompts->text[i];
    TRY(json_text_format(line, "{\"line\":%lld", (long long)i + 1));
    TRY(member(line, "prompt", prompt->text, prompt->bytes));
    TRY(text_member(line, c->tokenizer, k));
    TRY(json_text_format(line, ",\"ids\":["));
    for (int64_t n = 0; n < k->count; n++) TRY(json_text_format(line, n ? ",%d" : "%d", (int)k->id[n]));
    return json_text_format(line, "]}\n");
}

static Status line_write(const Continuations *c, int64_t i)
{
    Buffer line = { 0 };
    Status status = line_make(&line, c, i);
    if (status == OK) fwrite(line.text, 1, (size_t)line.bytes, c->out);
    buffer_free(&line);
    return status;
}

static void stream(Continuations *c, int32_t id)
{
    if (id == GENERATED_END) {
        decoder_end(&c->decoder, c->out);
        fputc('\n', c->out);
    } else
        decoder_put(&c->decoder, c->out, id);
}

void continuations_take(Continuations *c, int64_t prompt, int32_t id)
{
    Continuation *k = &c->of[prompt];
    if (id != GENERATED_END) k->id[k->count++] = id;
    else                     k->ended = true;
    if (!c->lines) stream(c, id);
    for (; c->lines && c->next < c->prompts->count && c->of[c->next].ended; c->next++)
        if (c->status == OK) c->status = line_write(c, c->next);
    if (fflush(c->out) != 0 && c->status == OK)
        c->status = fail(IO_FAILED, "standard output cannot be written: %s", strerror(errno));
}
