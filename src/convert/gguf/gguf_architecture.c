/* Which architecture of llama.cpp a model is, and the keys that say so. */
#include "convert/gguf/gguf_architecture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { NONE, LOCAL, SHARED } Windows;
typedef enum { TIED, OWN } Head;
enum { LINEAR = 1, YARN = 2, FACTORS = 4 };
typedef enum { UINT, REAL } KeyKind;
typedef enum { HIDDEN_OF_HEAD, HEADS, ROOT_OF_HIDDEN, SCALE, GEMMA_SCALE, ABOVE_0 } Formula;

/* Sets of architectures, which the rows join by |. */
enum {
#define ARCHITECTURE(id, ...) id = 1 << GGUF_IS_##id,
#include "convert/gguf/architectures.def"
    ALL = (1 << GGUF_ARCHITECTURES) - 1
};
static const struct { const char *name; Naming naming; Windows windows; int scalings; Head head; }
architectures[] = {
#define ARCHITECTURE(id, name, naming, windows, scalings, head) { name, NAMING_##naming, windows, scalings, head },
#include "convert/gguf/architectures.def"
};
static const struct { int of; const char *key; KeyKind kind; const char *option; } keys[] = {
#define KEY(architectures, key, kind, option) { architectures, key, kind, option },
#include "convert/gguf/architectures.def"
};
static const struct { int of; const char *option, *value; } has_rows[] = {
#define HAS(architectures, option, value) { architectures, option, value },
#include "convert/gguf/architectures.def"
};
static const struct { int of; const char *option; Formula formula; } equal_rows[] = {
#define EQUALS(architectures, option, formula) { architectures, option, formula },
#include "convert/gguf/architectures.def"
};
static const struct { int of; const char *option; } take_rows[] = {
#define TAKES(architectures, option) { architectures, option },
#include "convert/gguf/architectures.def"
};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

const char *gguf_architecture_name(GgufArchitecture a)   { return architectures[a].name; }
Naming      gguf_architecture_naming(GgufArchitecture a) { return architectures[a].naming; }
bool        gguf_architecture_head(GgufArchitecture a)   { return architectures[a].head == OWN; }

/* ---- whether a model is one ---- */

static void say(json_t *said, const json_t *options, const char *option)
{
    json_t *value = json_object_get(options, option);
    if (value) json_object_set(said, option, value);
}

json_t *gguf_architecture_said(GgufArchitecture a, const json_t *options)
{
    json_t *said = json_object();
    for (int i = 0; i < COUNT(keys); i++)
        if (keys[i].of >> a & 1) say(said, options, keys[i].option);
    for (int i = 0; i < COUNT(has_rows); i++)
        if (has_rows[i].of >> a & 1) say(said, options, has_rows[i].option);
    for (int i = 0; i < COUNT(equal_rows); i++)
        if (equal_rows[i].of >> a & 1) say(said, options, equal_rows[i].option);
    for (int i = 0; i < COUNT(take_rows); i++)
        if (take_rows[i].of >> a & 1) say(said, options, take_rows[i].option);
    return said;
}

/* The first of several reasons is kept. */
static int broken(char why[GGUF_WHY], const char *option, const char *wanted, const json_t *held)
{
    char *text = held ? json_dumps(held, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    if (!*why)
        snprintf(why, GGUF_WHY, "its models have --%s %s, and this one has %.60s", option, wanted,
                 text ? text : "none");
    free(text);
    return 1;
}

static bool value_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal((json_t *)a, (json_t *)b);
}

static int has_broken(char why[GGUF_WHY], const char *option, const char *value, const json_t *held)
{
    json_t *want = json_loads(value, JSON_DECODE_ANY, NULL);
    CHECK(want, "a row of architectures.def has no JSON: %s", value);
    bool same = !json_is_array(want) && value_equal(held, want);
    for (size_t i = 0; i < json_array_size(want); i++) same |= value_equal(held, json_array_get(want, i));
    json_decref(want);
    return same || !held ? 0 : broken(why, option, value, held);
}

/* llama.cpp knows the two largest models by their numbers of layers, and gives them another scale. */
static double gemma_scale(GgufArchitecture a, const ModelConfig *c)
{
    bool largest = c->layers == (a == GGUF_IS_GEMMA2 ? 46 : 62);
    return 1 / sqrt(largest ? (double)(c->hidden / c->heads) : (double)c->head_dim);
}

static int equal_broken(char why[GGUF_WHY], GgufArchitecture a, const char *option, Formula formula,
                        const json_t *held, const ModelConfig *c)
{
    char   text[32] = "above 0";
    double is = json_number_value(held), want = 0;
    switch (formula) {
    case HIDDEN_OF_HEAD: want = (double)c->hidden / (double)c->heads; break;
    case HEADS:          want = (double)c->heads; break;
    case ROOT_OF_HIDDEN: want = sqrt((double)c->hidden); break;
    case GEMMA_SCALE:    want = gemma_scale(a, c), is = model_softmax_scale(c); break;
    case SCALE:          want = 1 / sqrt((double)c->head_dim), is = model_softmax_scale(c); break;
    case ABOVE_0:        return is > 0 ? 0 : broken(why, option, text, held);
    }
    snprintf(text, sizeof text, "%.9g", want);
    return fabs(is - want) <= 1e-6 * want ? 0 : broken(why, option, text, held);
}

/* Whether a window leaves out a position of a text as long as those of the training. */
static bool window_acts(const ModelConfig *c)
{
    bool acts = false;
    for (int64_t l = 0; l < c->layers; l++)
        acts |= model_window(c, l) > 0 && model_window(c, l) < c->sequence;
    return acts;
}

static int positions_broken(char why[GGUF_WHY], GgufArchitecture a, const ModelConfig *c)
{
    const RopeConfig *r = &c->rope;
    int  scalings = architectures[a].scalings, count = 0;
    bool acts = window_acts(c), scaled = r->interpolation > 1 || r->scaling != ROPE_UNSCALED;
    if (acts && architectures[a].windows == NONE && ++count && !*why)
        snprintf(why, GGUF_WHY, "it has no sliding window, and --window-size is shorter than --seq-length");
    if (acts && scaled && (architectures[a].windows == LOCAL) != (r->local_base > 0) && ++count && !*why)
        snprintf(why, GGUF_WHY, "in layers with a window its rotary frequencies are %sscaled, and those of "
                 "this model are not so", architectures[a].windows == LOCAL ? "not " : "");
    if (r->scaling == ROPE_LLAMA3 && !(scalings & FACTORS) && ++count && !*why)
        snprintf(why, GGUF_WHY, "it does not scale rotary frequencies as --use-rope-scaling does");
    if (r->scaling == ROPE_YARN && !(scalings & YARN) && ++count && !*why)
        snprintf(why, GGUF_WHY, "it has no --position-embedding-type yarn");
    if (r->scaling == ROPE_YARN && (r->fast != 32 || r->slow != 1 || !r->rounded || r->interpolation > 1) &&
        ++count && !*why)
        snprintf(why, GGUF_WHY, "its YaRN has --yarn-beta-fast 32, --yarn-beta-slow 1, whole pairs and "
                 "--rotary-seq-len-interpolation-factor 1");
    return count;
}

int gguf_architecture_broken(GgufArchitecture a, const json_t *options, const ModelConfig *config,
                             char why[GGUF_WHY])
{
    int count = 0;
    *why = 0;
    for (int i = 0; i < COUNT(has_rows); i++)
        if (has_rows[i].of >> a & 1)
            count += has_broken(why, has_rows[i].option, has_rows[i].value,
                                json_object_get(options, has_rows[i].option));
    for (int i = 0; i < COUNT(equal_rows); i++)
        if (equal_rows[i].of >> a & 1)
            count += equal_broken(why, a, equal_rows[i].option, equal_rows[i].formula,
                                  json_object_get(options, equal_rows[i].option), config);
    return config->position == POSITION_ROPE ? count + positions_broken(why, a, config) : count;
}

/* ---- keys ---- */

typedef struct { char text[128]; } KeyName;

static const char *name_of(KeyName *name, GgufArchitecture a, const char *key)
{
    snprintf(name->text, sizeof name->text, "%s.%s", architectures[a].name, key);
    return name->text;
}

/* What YaRN multiplies cosines and sines by is t(1) of rope.h there, times a factor. */
static void scaling_keys(GgufText *out, GgufArchitecture a, const ModelConfig *c)
{
    KeyName name;
    const RopeConfig *r = &c->rope;
    bool yarn = r->scaling == ROPE_YARN && r->factor > 1;
    if (!yarn && (r->interpolation <= 1 || gguf_architecture_factors(c))) return;
    gguf_key_string(out, name_of(&name, a, "rope.scaling.type"), yarn ? "yarn" : "linear");
    gguf_key_real(out, name_of(&name, a, "rope.scaling.factor"), yarn ? r->factor : r->interpolation);
    if (!yarn) return;
    double scale = rope_rule(r, c->head_dim, false).scale, theirs = 0.1 * log(r->factor) + 1;
    gguf_key_uint(out, name_of(&name, a, "rope.scaling.original_context_length"), (int64_t)r->original);
    gguf_key_real(out, name_of(&name, a, "rope.scaling.attn_factor"), scale / theirs);
}

/* Gemma 2's architecture has windows always: those of a model without any are as long as its texts. */
static void window_keys(GgufText *out, GgufArchitecture a, const ModelConfig *c)
{
    KeyName name;
    bool acts = window_acts(c);
    if (architectures[a].windows == NONE || (!acts && a != GGUF_IS_GEMMA2)) return;
    gguf_key_uint(out, name_of(&name, a, "attention.sliding_window"), acts ? c->window : c->sequence);
    if (!acts) return;
    gguf_key_array(out, name_of(&name, a, "attention.sliding_window_pattern"), GGUF_BOOL, c->layers);
    for (int64_t l = 0; l < c->layers; l++) gguf_put_number(out, model_window(c, l) > 0, 1);
    gguf_key_real(out, name_of(&name, a, "rope.freq_base_swa"),
                  c->rope.local_base > 0 ? c->rope.local_base : c->rope.base);
}

void gguf_architecture_keys(GgufText *out, GgufArchitecture a, const json_t *options,
                            const ModelConfig *config)
{
    KeyName name;
    gguf_key_string(out, "general.architecture", architectures[a].name);
    for (int i = 0; i < COUNT(keys); i++) {
        const json_t *value = json_object_get(options, keys[i].option);
        if (!(keys[i].of >> a & 1)) continue;
        name_of(&name, a, keys[i].key);
        if (keys[i].kind == REAL) gguf_key_real(out, name.text, json_number_value(value));
        else gguf_key_uint(out, name.text, json_integer_value(value));
    }
    if (config->position != POSITION_ROPE) return;
    scaling_keys(out, a, config);
    window_keys(out, a, config);
}

bool gguf_architecture_factors(const ModelConfig *config)
{
    return config->position == POSITION_ROPE && config->rope.scaling == ROPE_LLAMA3;
}
