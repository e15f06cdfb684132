/* Reads the members of a completion request by the rows of a table. */
#include "serve/completion_request.h"
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/array.h"
#include "base/json_cost.h"

/* One body that is being read. name: of the member at hand */
typedef struct {
    CompletionRequest     *r;
    ApiError              *error;
    const CompletionRules *rules;
    const char            *name;
    bool                   most_given;
} Reading;

static const ServedModel *model_of(const Reading *x) { return &x->rules->model[x->r->model]; }

#define REFUSE(...) api_refuse(x->error, 400, x->name, "invalid_value", __VA_ARGS__)
#define NO_ROOM()   api_refuse(x->error, 503, "", "no_memory", "there is no memory for this request now")

/* ---- numbers and flags ---- */

static bool read_number(Reading *x, const json_t *value, double low, double high, double *out)
{
    if (!json_is_number(value)) return REFUSE("%s must be a number from %g to %g", x->name, low, high);
    *out = json_number_value(value);
    if (isfinite(*out) && *out >= low && *out <= high) return true;
    return REFUSE("%s is %g; it must be from %g to %g", x->name, *out, low, high);
}

static bool read_whole(Reading *x, const json_t *value, int64_t low, int64_t high, int64_t *out)
{
    if (!json_is_integer(value))
        return REFUSE("%s must be a whole number from %lld to %lld", x->name, (long long)low,
                      (long long)high);
    *out = json_integer_value(value);
    if (*out >= low && *out <= high) return true;
    return REFUSE("%s is %lld; it must be from %lld to %lld", x->name, (long long)*out, (long long)low,
                  (long long)high);
}

static bool read_flag(Reading *x, const json_t *value, bool *out)
{
    if (!json_is_boolean(value)) return REFUSE("%s must be true or false", x->name);
    *out = json_is_true(value);
    return true;
}

/* ---- members ---- */

/* A text may hold NUL. */
static bool is_text(const json_t *value, const char *text)
{
    return json_string_length(value) == strlen(text) && !memcmp(json_string_value(value), text, strlen(text));
}

static bool model(Reading *x, const json_t *value)
{
    if (!json_is_string(value)) return REFUSE("model must be the name of a model; /v1/models lists them");
    for (int i = 0; i < x->rules->models; i++)
        if (is_text(value, x->rules->model[i].name)) return x->r->model = i, true;
    return api_refuse(x->error, 404, "model", "model_not_found", "there is no model %.200s here; /v1/models "
                      "lists those there are, as %.200s", json_string_value(value), x->rules->model[0].name);
}

/* The numbers of Sampling; kind: double or int64_t */
typedef enum { SAMPLING_REAL, SAMPLING_INT } SamplingKind;
static const struct { const char *name; SamplingKind kind; size_t at; double low, high; } sampling_rows[] = {
#define SAMPLING_PARAMETER(kind, field, text, low, high, served_low, served_high, ...) \
    { #field, SAMPLING_##kind, offsetof(Sampling, field), served_low, served_high },
#include "base/generation/sampling_parameters.def"
};

static bool sampling(Reading *x, const json_t *value)
{
    int i = 0;
    while (strcmp(sampling_rows[i].name, x->name)) i++;
    double low = sampling_rows[i].low, high = sampling_rows[i].high;
    void *to = (char *)&x->r->sampling + sampling_rows[i].at;
    return sampling_rows[i].kind == SAMPLING_INT ? read_whole(x, value, (int64_t)low, (int64_t)high, to)
                                                 : read_number(x, value, low, high, to);
}

static bool seed(Reading *x, const json_t *value)
{
    if (!json_is_integer(value)) return REFUSE("seed must be a whole number");
    x->r->sampling.seed = (uint64_t)json_integer_value(value);
    return x->r->seeded = true;
}

static bool max_tokens(Reading *x, const json_t *value)
{
    x->most_given = true;
    return read_whole(x, value, 0, x->rules->limits.new_tokens, &x->r->most);
}

static bool choices(Reading *x, const json_t *value)
{
    int64_t n = 1;
    bool good = read_whole(x, value, 1, x->rules->limits.texts, &n);
    x->r->n = (int)n;
    return good;
}

static bool best_of(Reading *x, const json_t *value)
{
    int64_t best = 1;
    if (!read_whole(x, value, 1, x->rules->limits.texts, &best)) return false;
    return best == x->r->n ||
           REFUSE("best_of %lld: this server returns all texts that it makes; give n as many, and choose",
                  (long long)best);
}

static bool logprobs(Reading *x, const json_t *value)
{
    int64_t alternatives = -1;
    bool good = read_whole(x, value, 0, LOGPROBS_MOST, &alternatives);
    x->r->alternatives = (int)alternatives;
    return good;
}

static bool echo(Reading *x, const json_t *value)   { return read_flag(x, value, &x->r->echo); }
static bool stream(Reading *x, const json_t *value) { return read_flag(x, value, &x->r->stream); }

static bool stream_options(Reading *x, const json_t *value)
{
    const char *name;
    json_t *one;
    if (!json_is_object(value)) return REFUSE("stream_options must be an object, {\"include_usage\": true}");
    if (!x->r->stream) return REFUSE("stream_options has no effect without \"stream\": true");
    json_object_foreach((json_t *)value, name, one) {
        if (strcmp(name, "include_usage"))
            return api_refuse(x->error, 400, "stream_options", "unknown_parameter",
                              "stream_options.%.100s is not known here; include_usage is", name);
        if (!json_is_null(one) && !read_flag(x, one, &x->r->include_usage)) return false;
    }
    return true;
}

static bool stop_word(Reading *x, const json_t *value)
{
    size_t bytes = json_string_length(value);
    if (!json_is_string(value) || !bytes || bytes > 1024)
        return REFUSE("stop must be a text of 1 to 1,024 bytes, or a list of %d at most", STOPS_MOST);
    StopWord *stop = &x->r->stop[x->r->stops];
    *stop = (StopWord){ malloc(bytes), (int64_t)bytes };
    if (!stop->text) return NO_ROOM();
    memcpy(stop->text, json_string_value(value), bytes);
    x->r->stops++;
    return true;
}

static bool stop(Reading *x, const json_t *value)
{
    if (!json_is_array(value)) return stop_word(x, value);
    if (json_array_size(value) > STOPS_MOST)
        return REFUSE("stop has %zu texts; %d at most", json_array_size(value), STOPS_MOST);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!stop_word(x, json_array_get(value, i))) return false;
    return true;
}

static bool logit_bias(Reading *x, const json_t *value)
{
    const char *token;
    json_t     *bias;
    if (!json_is_object(value)) return REFUSE("logit_bias is not built here");
    json_object_foreach((json_t *)value, token, bias)
        if (!json_is_number(bias) || json_number_value(bias) != 0)
            return REFUSE("logit_bias is not built here");
    return true;
}

static bool suffix(Reading *x, const json_t *value)
{
    if (json_is_string(value) && !json_string_length(value)) return true;
    return REFUSE("suffix is not built here: these models continue a text and fill no gap");
}

/* Names a user for a provider's own purposes, and changes no text. */
static bool user(Reading *x, const json_t *value)
{
    return json_is_string(value) || REFUSE("user must be a text");
}

/* ---- prompts ---- */

/* Its ids are in one list of `count` numbers. */
static bool prompt_ids(Reading *x, ServedPrompt *p, const json_t *list)
{
    const Tokenizer *t = model_of(x)->tokenizer;
    size_t count = json_array_size(list);
    if (count > (size_t)model_of(x)->prompt_tokens)
        return api_refuse(x->error, 400, "prompt", "context_length_exceeded", "a prompt has %zu tokens; %lld "
                          "at most are taken", count, (long long)model_of(x)->prompt_tokens);
    p->id = malloc((count + 1) * sizeof *p->id);
    if (!p->id) return NO_ROOM();
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id))
            return REFUSE("a prompt is a text, or a list of ids, which are whole numbers");
        if (json_integer_value(id) < 0 || json_integer_value(id) >= t->vocabulary)
            return REFUSE("a prompt has the id %lld; ids of this model are from 0 to %d",
                          (long long)json_integer_value(id), (int)t->vocabulary - 1);
        p->id[p->count++] = (int32_t)json_integer_value(id);
    }
    return true;
}

/* A text may have as many ids as it has bytes, which the limit of the body bounds. Most have far fewer, and
 * wait for long: only their own memory is kept, with room for one id where there is none. */
static bool prompt_text(Reading *x, ServedPrompt *p, const json_t *value)
{
    const Tokenizer *t = model_of(x)->tokenizer;
    const char *text = json_string_value(value);
    int64_t bytes = (int64_t)json_string_length(value), most = tokenizer_max_ids(t, text, bytes) + 1;
    p->id = malloc((size_t)most * sizeof *p->id);
    if (!p->id) return NO_ROOM();
    p->count = t->encode(t, p->id, text, bytes);
    if (p->count < 0) return p->count = 0, REFUSE("the prompt cannot be encoded: %s", fail_text());
    int32_t *shrunk = realloc(p->id, (size_t)(p->count + 1) * sizeof *p->id);
    if (shrunk) p->id = shrunk;
    return true;
}

/* What echo gives back: the text as it was, or that of the ids. */
static bool prompt_echo(Reading *x, ServedPrompt *p, const json_t *value)
{
    const Tokenizer *t = model_of(x)->tokenizer;
    size_t bytes = json_is_string(value) ? json_string_length(value) : 0;
    for (int64_t i = 0; !json_is_string(value) && i < p->count; i++)
        bytes += (size_t)t->decode(t, p->id[i]).bytes;
    p->text = malloc(bytes + 1);
    if (!p->text) return NO_ROOM();
    if (json_is_string(value)) memcpy(p->text, json_string_value(value), bytes);
    p->bytes = json_is_string(value) ? (int64_t)bytes : 0;
    for (int64_t i = 0; !json_is_string(value) && i < p->count; i++) {
        TextPiece piece = t->decode(t, p->id[i]);
        memcpy(p->text + p->bytes, piece.text, (size_t)piece.bytes);
        p->bytes += piece.bytes;
    }
    return true;
}

/* An empty prompt is the beginning of a document. */
static bool prompt_one(Reading *x, const json_t *value)
{
    const ServedModel *m = model_of(x);
    ServedPrompt *p = &x->r->prompt[x->r->prompts++];
    p->is_text = json_is_string(value);
    bool good = json_is_string(value) ? prompt_text(x, p, value) : prompt_ids(x, p, value);
    if (good && p->count == 0 && m->tokenizer->eod < 0)
        return REFUSE("a prompt is empty; give a text to continue");
    if (good && p->count == 0) p->id[p->count++] = m->tokenizer->eod;
    if (good && x->r->echo && !prompt_echo(x, p, value)) return false;
    if (!good || p->count <= m->prompt_tokens) return good;
    return api_refuse(x->error, 400, "prompt", "context_length_exceeded", "a prompt has %lld tokens; %lld at "
                      "most are taken", (long long)p->count, (long long)m->prompt_tokens);
}

/* A text, a list of ids, a list of texts, or a list of lists of ids */
static bool prompt(Reading *x, const json_t *value)
{
    bool list = json_is_array(value);
    const json_t *first = list ? json_array_get(value, 0) : NULL;
    bool many = list && (json_is_string(first) || json_is_array(first));
    size_t count = many ? json_array_size(value) : 1;
    if (list && !first) return REFUSE("prompt is an empty list");
    if (!list && !json_is_string(value))
        return REFUSE("prompt must be a text, a list of texts, a list of ids or a list of such lists");
    if (count > (size_t)x->rules->limits.texts || (int64_t)count * x->r->n > x->rules->limits.texts)
        return REFUSE("%zu prompts and n %d; a request has %lld texts at most", count, x->r->n,
                      (long long)x->rules->limits.texts);
    x->r->prompt = calloc(count, sizeof *x->r->prompt);
    if (!x->r->prompt) return NO_ROOM();
    if (!many) return prompt_one(x, value);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(value, i);
        if (json_typeof(one) != json_typeof(first))
            return REFUSE("prompt has texts and lists of ids; give one kind of them");
        if (!prompt_one(x, one)) return false;
    }
    return true;
}

/* ---- the whole ---- */

/* In the order in which they are read, since some look at others. */
static const struct { const char *name; bool (*read)(Reading *, const json_t *); } members[] = {
    { "model", model }, { "user", user }, { "suffix", suffix }, { "logit_bias", logit_bias },
#define SAMPLING_PARAMETER(kind, field, ...) { #field, sampling },
#include "base/generation/sampling_parameters.def"
    { "n", choices }, { "best_of", best_of }, { "max_tokens", max_tokens }, { "seed", seed }, { "stop", stop },
    { "logprobs", logprobs }, { "echo", echo }, { "stream", stream }, { "stream_options", stream_options },
    { "prompt", prompt },
};
enum { MEMBERS = COUNT(members) };

static const struct { const char *name, *values, *why; } neutral_members[] = {
#define NEUTRAL(name, values, why) { name, values, why },
#include "serve/neutral_members.def"
};

/* 1 is 1.0 */
static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal((json_t *)a, (json_t *)b);
}

/* A member that is not read here, with the value `value`. */
static bool asks_for_nothing(Reading *x, const json_t *value)
{
    for (int i = 0; i < (int)COUNT(neutral_members); i++) {
        if (strcmp(x->name, neutral_members[i].name)) continue;
        json_t *all = json_loads(neutral_members[i].values, 0, NULL);
        bool    neutral = false;
        for (size_t k = 0; k < json_array_size(all); k++)
            neutral |= same_value(value, json_array_get(all, k));
        json_decref(all);
        return neutral || REFUSE("%s must be one of %s: %s", x->name, neutral_members[i].values,
                                 neutral_members[i].why);
    }
    return api_refuse(x->error, 400, x->name, "unknown_parameter", "%.100s is not known here; a text "
                      "made without it would not be what it asks for", x->name);
}

static bool all_known(Reading *x, json_t *body)
{
    const char *name;
    json_t *value;
    json_object_foreach(body, name, value) {
        bool known = json_is_null(value);
        for (int i = 0; i < MEMBERS; i++) known |= !strcmp(name, members[i].name);
        x->name = name;
        if (!known && !asks_for_nothing(x, value)) return false;
    }
    return true;
}

/* A default number of new tokens gives way to the limits, a given one does not. Of prompts that are scored
 * the answer has as much for each token as of a new one. */
static bool fits(Reading *x)
{
    CompletionRequest *r = x->r;
    int64_t widest = 0, context = model_of(x)->context, texts = (int64_t)r->prompts * r->n;
    int64_t limit = x->rules->limits.new_tokens, scored = 0;
    x->name = "max_tokens";
    for (int i = 0; i < r->prompts; i++) {
        if (r->prompt[i].count > widest) widest = r->prompt[i].count;
        if (completion_scores(r)) scored += r->prompt[i].count * r->n;
    }
    if (r->most == 0 && !r->echo)
        return REFUSE("max_tokens is 0; it must be from 1 to %lld, and 0 with echo alone", (long long)limit);
    if (widest + (x->most_given ? r->most : 1) > context)
        return api_refuse(x->error, 400, "prompt", "context_length_exceeded",
                          "this model has %lld positions; %lld tokens of the prompt and %lld new ones are "
                          "more", (long long)context, (long long)widest, (long long)r->most);
    if (scored > limit)
        return REFUSE("echo with logprobs of %lld tokens of prompts; a request has %lld such tokens and new "
                      "ones at most", (long long)scored, (long long)limit);
    int64_t most = (limit - scored) / texts;
    if (!x->most_given && r->most > context - widest) r->most = context - widest;
    if (!x->most_given && r->most > most) r->most = most;
    if (r->most <= most && (r->most > 0 || x->most_given)) return true;
    return REFUSE("%lld texts of %lld new tokens; a request makes %lld new tokens at most", (long long)texts,
                  (long long)r->most, (long long)(limit - scored));
}

static bool read_members(Reading *x, json_t *body)
{
    if (!all_known(x, body)) return false;
    for (int i = 0; i < MEMBERS; i++) {
        const json_t *value = json_object_get(body, members[i].name);
        x->name = members[i].name;
        if (value && !json_is_null(value) && !members[i].read(x, value)) return false;
    }
    x->name = "prompt";
    if (!x->r->prompt) return REFUSE("prompt is missing: the text to continue");
    return fits(x);
}

bool completion_request_read(CompletionRequest *r, ApiError *error, const CompletionRules *rules,
                             const char *body, int64_t bytes)
{
    Reading reading = { .r = r, .error = error, .rules = rules, .name = "" };
    json_error_t wrong;
    *r = (CompletionRequest){ .n = 1, .alternatives = -1, .most = NEW_TOKENS_DEFAULT,
                              .sampling = { .temperature = 1, .repetition_penalty = 1 } };
    if (bytes == 0)
        return api_refuse(error, 400, "", "invalid_json", "the body is empty; a JSON object is wanted");
    if (json_cost(body, (size_t)bytes) > (size_t)rules->limits.body_bytes * 16 + (1 << 20))
        return api_refuse(error, 400, "", "invalid_json", "the body has too many lists and objects");
    json_t *parsed = json_loadb(body, (size_t)bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &wrong);
    bool good = parsed && json_is_object(parsed);
    if (!good)
        api_refuse(error, 400, "", "invalid_json", "the body is not a JSON object: line %d, column %d: %s",
                   parsed ? 1 : wrong.line, parsed ? 1 : wrong.column,
                   parsed ? "no object" : wrong.text);
    else if (!r->sampling.seed && getrandom(&r->sampling.seed, sizeof r->sampling.seed, 0) < 0)
        r->sampling.seed = (uint64_t)(uintptr_t)parsed;
    good = good && read_members(&reading, parsed);
    json_decref(parsed);
    if (!good) completion_request_free(r);
    return good;
}

void completion_request_free(CompletionRequest *r)
{
    for (int i = 0; i < r->prompts; i++) free(r->prompt[i].id), free(r->prompt[i].text);
    for (int i = 0; i < r->stops; i++) free(r->stop[i].text);
    free(r->prompt);
    *r = (CompletionRequest){ 0 };
}
