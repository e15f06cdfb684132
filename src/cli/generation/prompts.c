/* Prompts as text and as ids, and whether they fit the model's positions. */
#include "cli/generation/prompts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "corpus/read/encoding.h"

enum { NAME = 700 };

static const char *file_option(const PromptsAsked *asked)
{
    return asked->json ? "--prompt-jsonl" : "--prompt-file";
}

/* "--prompt", "--sample-prompt number 2", or "line 3 of --prompt-file FILE" */
static const char *prompt_name(char out[NAME], const PromptsAsked *asked, int64_t prompt)
{
    if (asked->texts == 1) return asked->option;
    if (asked->texts > 1) snprintf(out, NAME, "%s number %lld", asked->option, (long long)prompt + 1);
    if (asked->texts > 1) return out;
    snprintf(out, NAME, "line %lld of %s %.600s", (long long)prompt + 1, file_option(asked), asked->file);
    return out;
}

/* ---- texts ---- */

static bool is_blank(JsonText line)
{
    for (int64_t i = 0; i < line.bytes; i++)
        if (!memchr(" \t\r", line.text[i], 3)) return false;
    return true;
}

/* A carriage return before the newline is not of the prompt. Of JSON, blank lines at the end are none. */
static Status read_lines(Prompts *p, const PromptsAsked *asked)
{
    TRY(file_map(&p->file, asked->file));
    const char *text = (const char *)p->file.data, *next;
    int64_t bytes = (int64_t)p->file.size;
    TRY(text_to_utf8(&text, &bytes, &p->converted, asked->encoding, asked->file));
    for (const char *line = text, *end = text + bytes; line < end; line = next + 1) {
        if (!(next = memchr(line, '\n', (size_t)(end - line)))) next = end;
        TRY(ARRAY_RESERVE(p->text, p->room, p->count + 1));
        p->text[p->count++] = (JsonText){ line, next - line - (next > line && next[-1] == '\r') };
    }
    while (asked->json && p->count && is_blank(p->text[p->count - 1])) p->count--;
    if (p->count) return OK;
    return fail(BAD_FILE, asked->json ? "%s %s has no line; each line is a JSON object with \"prompt\""
                                      : "%s %s is empty; give one prompt on each line",
                file_option(asked), asked->file);
}

static Status read_json(Prompts *p, const PromptsAsked *asked)
{
    char name[NAME];
    p->line = calloc((size_t)p->count, sizeof *p->line);
    if (!p->line) return fail(NO_MEMORY, "no memory for %lld prompts", (long long)p->count);
    for (int64_t i = 0; i < p->count; i++) {
        TRY(prompt_line_read(&p->line[i], &p->rule[i], prompt_name(name, asked, i), p->text[i].text,
                             p->text[i].bytes, asked->each));
        p->text[i] = (JsonText){ p->line[i].text, p->line[i].bytes };
    }
    return OK;
}

static Status read_texts(Prompts *p, const PromptsAsked *asked)
{
    if (asked->file) TRY(read_lines(p, asked));
    for (; p->count < asked->texts; p->count++) {
        TRY(ARRAY_RESERVE(p->text, p->room, p->count + 1));
        p->text[p->count] = (JsonText){ asked->text[p->count], (int64_t)strlen(asked->text[p->count]) };
    }
    p->prompt = calloc((size_t)p->count, sizeof *p->prompt);
    p->rule   = calloc((size_t)p->count, sizeof *p->rule);
    if (!p->prompt || !p->rule)
        return fail(NO_MEMORY, "no memory for %lld prompts", (long long)p->count);
    for (int64_t i = 0; i < p->count; i++) p->rule[i] = asked->rule;
    return asked->json ? read_json(p, asked) : OK;
}

/* ---- ids ---- */

/* The ids that a line of JSON gives instead of a text. */
static Status ids_given(Prompts *p, const PromptsAsked *asked, const Tokenizer *t, int64_t i)
{
    char name[NAME];
    const PromptLine *line = &p->line[i];
    for (int64_t n = 0; n < line->count; n++)
        if (line->id[n] >= t->vocabulary)
            return fail(BAD_FILE, "%s has the id %d, which --tokenizer %s has not; ids are below %d",
                        prompt_name(name, asked, i), (int)line->id[n], t->name, (int)t->vocabulary);
    p->prompt[i].id    = line->id;
    p->prompt[i].count = line->count;
    return OK;
}

static Status refuse_text(const Prompts *p, const PromptsAsked *asked, int64_t i)
{
    char name[NAME];
    bool text = !p->line || !p->line[i].id;
    if (!text && p->rule[i].stops == 0) return OK;
    return fail(BAD_OPTION, "%s has a %s, which is text, and there is no tokenizer; give %s, or a "
                "--tokenizer", prompt_name(name, asked, i), text ? "prompt" : "stop",
                text ? "\"ids\"" : "no stop");
}

static Status encode_one(Prompts *p, const PromptsAsked *asked, const Tokenizer *t, int64_t i, int64_t *used)
{
    char name[NAME];
    p->prompt[i].most = p->line && p->line[i].most > 0 ? p->line[i].most : asked->most;
    if (tokenizer_is_none(t->name)) TRY(refuse_text(p, asked, i));
    if (p->line && p->line[i].id) return ids_given(p, asked, t, i);
    const JsonText *text = &p->text[i];
    int64_t count = t->encode(t, p->id + *used, text->text, text->bytes);
    if (count < 0) return BAD_FILE;                              /* encode has written the message */
    if (text->bytes == 0)
        return fail(BAD_OPTION, "%s is empty; give the text to continue, of at least one character",
                    prompt_name(name, asked, i));
    if (count == 0)
        return fail(BAD_OPTION, "%s \"%.*s\" has no ids in --tokenizer %s; give a text to continue",
                    prompt_name(name, asked, i), (int)text->bytes, text->text, t->name);
    p->prompt[i].id    = p->id + *used;
    p->prompt[i].count = count;
    *used += count;
    return OK;
}

static Status encode_all(Prompts *p, const PromptsAsked *asked, const Tokenizer *t)
{
    int64_t most = 0, used = 0;
    for (int64_t i = 0; i < p->count; i++)
        most += tokenizer_max_ids(t, p->text[i].text, p->text[i].bytes) + 1;
    p->id = malloc((size_t)most * sizeof *p->id);
    if (!p->id) return fail(NO_MEMORY, "no memory for prompts of %lld tokens", (long long)most);
    for (int64_t i = 0; i < p->count; i++) TRY(encode_one(p, asked, t, i, &used));
    return OK;
}

/* ---- positions ---- */

static const char *tokens_text(char out[32], int64_t count)
{
    snprintf(out, 32, "%lld token%s", (long long)count, count == 1 ? "" : "s");
    return out;
}

/* Whether a person gave the number of new tokens, and what it is named. */
static bool most_given(const Prompts *p, const PromptsAsked *asked, int64_t i, const char **option)
{
    bool line = p->line && p->line[i].most > 0;
    *option = line ? "\"max_tokens\"" : asked->most_option;
    return line || asked->most_typed;
}

/* Reports why the new tokens after prompt i exceed the learned positions, and which lengths are possible. */
static Status too_long(const Prompts *p, const PromptsAsked *asked, int64_t i, int64_t most)
{
    int64_t count = p->prompt[i].count, made = p->prompt[i].most, left = most - count;
    const char *option;
    bool    keeps   = most_given(p, asked, i, &option) && made < most;
    int64_t shorter = keeps ? most - made : most - 1;
    char prompt[32], wanted[32], said[NAME];
    const char *name = prompt_name(said, asked, i);
    tokens_text(prompt, count);
    tokens_text(wanted, shorter);
    if (left < 1)
        return fail(BAD_OPTION, "%s of %s leaves nothing of the %lld positions the model has learned; "
                    "shorten the prompt to %s or less", name, prompt, (long long)most, wanted);
    if (made >= most)
        return fail(BAD_OPTION, "%s %lld is more than the %lld positions the model has learned; beside %s "
                    "%lld or less is possible", option, (long long)made, (long long)most,
                    asked->texts == 1 ? "this prompt" : name, (long long)left);
    return fail(BAD_OPTION, "%s of %s and %s %lld are more than the %lld positions the model has learned; "
                "shorten the prompt to %s or give %s %lld", name, prompt, option,
                (long long)made, (long long)most, wanted, option, (long long)left);
}

/* Learned position embeddings limit the length. The default number of new tokens is reduced to the limit,
 * with a line in the log; a number that the user gave is an error instead. */
static Status fit_one(Prompts *p, const PromptsAsked *asked, int64_t i, int64_t positions)
{
    int64_t left = positions - p->prompt[i].count;
    char fitting[32], name[NAME];
    const char *option;
    if (p->prompt[i].most <= left) return OK;
    if (left < 1 || most_given(p, asked, i, &option)) return too_long(p, asked, i, positions);
    log_line("makes %s%s%s, not %lld (default): the model has learned no more than %lld positions",
             tokens_text(fitting, left), asked->texts != 1 ? " for " : "",
             asked->texts != 1 ? prompt_name(name, asked, i) : "", (long long)p->prompt[i].most,
             (long long)positions);
    p->prompt[i].most = left;
    return OK;
}

/* Rotary and other computed positions go on, but what the model makes of them it has never learned. */
static void tell_beyond(const Prompts *p, const PromptsAsked *asked, const ModelConfig *model)
{
    char name[NAME], tokens[32];
    int64_t beyond = 0, first = 0;
    for (int64_t i = p->count - 1; i >= 0; i--)
        if (p->prompt[i].count + p->prompt[i].most > model->sequence) beyond++, first = i;
    if (beyond == 0) return;
    log_line("warning: %lld of %lld texts may go beyond the %lld positions that the model was trained with, "
             "which are computed all the same, and may be poor: the first is %s, of %s and up to %lld new "
             "ones", (long long)beyond, (long long)p->count, (long long)model->sequence,
             prompt_name(name, asked, first), tokens_text(tokens, p->prompt[first].count),
             (long long)p->prompt[first].most);
}

static Status fit_all(Prompts *p, const PromptsAsked *asked, const ModelConfig *model)
{
    for (int64_t i = 0; i < p->count; i++) {
        if (model->position == POSITION_LEARNED) TRY(fit_one(p, asked, i, model->positions));
        int64_t count = p->prompt[i].count, end = count + p->prompt[i].most;
        if (count > p->widest)   p->widest   = count;
        if (end - count > p->most) p->most   = end - count;
        if (end   > p->capacity) p->capacity = end;
    }
    if (model->position != POSITION_LEARNED) tell_beyond(p, asked, model);
    return OK;
}

Status prompts_read(Prompts *p, const PromptsAsked *asked, const Tokenizer *tokenizer,
                    const ModelConfig *model)
{
    TRY(read_texts(p, asked));
    TRY(encode_all(p, asked, tokenizer));
    return fit_all(p, asked, model);
}

void prompts_close(Prompts *p)
{
    if (p->file.data) file_unmap(&p->file);
    for (int64_t i = 0; p->line && i < p->count; i++) prompt_line_close(&p->line[i]);
    buffer_free(&p->converted);
    free(p->line);
    free(p->rule);
    free(p->text);
    free(p->prompt);
    free(p->id);
}
