/* Which architecture of llama.cpp a model is, and the keys that say so. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/words.h"
#include "convert/family/family_keys.h"
#include "convert/gguf/gguf_internal.h"

typedef enum { NONE, LOCAL, SHARED } Windows;
typedef enum { TIED, OWN } Head;
enum { LINEAR = 1, YARN = 2, FACTORS = 4 };
typedef enum { UINT, REAL, ROTATED, HEAD, ONE, CACHED_KEY, DENSE, SHARED_EXPERTS, SCORES } KeyKind;
typedef enum {
    NO_FORMULA, HIDDEN_OF_HEAD, HEADS, ROOT_OF_HIDDEN, SCALE, GEMMA_SCALE, ABOVE_0, FOURTH_LAYERS,
    DENSE_FIRST, WHOLE_EXPERTS, TWO_OF_GROUP, NO_QUERY_LATENT, MSCALE_ALL
} Formula;

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
/* value: of HAS; NULL */
static const struct { int of; const char *options, *value; Formula formula; } rules[] = {
#define HAS(architectures, option, value) { architectures, option, value, NO_FORMULA },
#define EQUALS(architectures, option, formula) { architectures, option, NULL, formula },
#define TAKES(architectures, options) { architectures, options, NULL, NO_FORMULA },
#include "convert/gguf/architectures.def"
};

const char *gguf_architecture_name(GgufArchitecture a)   { return architectures[a].name; }
Naming      gguf_architecture_naming(GgufArchitecture a) { return architectures[a].naming; }
bool        gguf_architecture_head(GgufArchitecture a)   { return architectures[a].head == OWN; }

/* ---- whether a model is one ---- */

static bool is_said(GgufArchitecture a, const char *option)
{
    for (int i = 0; i < COUNT(keys); i++)
        if (keys[i].of >> a & 1 && !strcmp(keys[i].option, option)) return true;
    for (int i = 0; i < COUNT(rules); i++)
        if (rules[i].of >> a & 1 && words_have(rules[i].options, option, strlen(option))) return true;
    return false;
}

json_t *gguf_architecture_said(GgufArchitecture a, const json_t *options)
{
    json_t     *said = json_object(), *value;
    const char *option;
    json_object_foreach((json_t *)options, option, value)
        if (is_said(a, option)) json_object_set(said, option, value);
    return said;
}

/* The first of several reasons is kept. */
static int broken(char why[GGUF_WHY], const char *option, const char *wanted, const json_t *held)
{
    char text[64];
    if (!*why)
        snprintf(why, GGUF_WHY, "its models have --%s %s, and this one has %s", option, wanted,
                 value_text(text, held));
    return 1;
}

/* llama.cpp knows the two largest models by their numbers of layers, and gives them another scale. */
static double gemma_scale(GgufArchitecture a, const ModelConfig *c)
{
    bool largest = c->layers == (a == GGUF_IS_GEMMA2 ? 46 : 62);
    return 1 / sqrt(largest ? (double)(c->hidden / c->heads) : (double)c->head_dim);
}

/* Layers before the first with experts. */
static int64_t dense_layers(const ModelConfig *c)
{
    int64_t l = 0;
    while (l < c->layers && !model_layer_is_moe(c, l)) l++;
    return l;
}

/* Layers for which the word is not what it is in models of the architecture: experts in all behind the first
 * that has them, rotary embeddings in all but every fourth. */
static int64_t layers_unlike(const ModelConfig *c, Formula formula)
{
    RopeRule rule;
    int64_t  count = 0, dense = dense_layers(c);
    for (int64_t l = 0; l < c->layers; l++)
        count += formula == DENSE_FIRST ? model_layer_is_moe(c, l) != (l >= dense)
                                        : model_rope(c, l, &rule) != ((l + 1) % 4 != 0);
    return count;
}

static bool near(char wanted[64], double is, double want)
{
    snprintf(wanted, 64, "%.9g", want);
    return fabs(is - want) <= 1e-6 * want;
}

static bool word(char wanted[64], const char *words, bool good)
{
    snprintf(wanted, 64, "%s", words);
    return good;
}

static int equal_broken(char why[GGUF_WHY], GgufArchitecture a, const char *option, Formula formula,
                        const json_t *held, const ModelConfig *c)
{
    char   w[64] = "";
    bool   good = true;
    double is = json_number_value(held), hidden = (double)c->hidden, heads = (double)c->heads;
    const MoeConfig *moe = &c->moe;
    ModelConfig plain = *c;
    plain.softmax_scale = 0;
    switch (formula) {
    case NO_FORMULA:      break;
    case HIDDEN_OF_HEAD:  good = near(w, is, hidden / heads); break;
    case HEADS:           good = near(w, is, heads); break;
    case ROOT_OF_HIDDEN:  good = near(w, is, sqrt(hidden)); break;
    case GEMMA_SCALE:     good = near(w, model_softmax_scale(c), gemma_scale(a, c)); break;
    case SCALE:           good = near(w, model_softmax_scale(c), model_softmax_scale(&plain)); break;
    case ABOVE_0:         good = word(w, "above 0", is > 0); break;
    case FOURTH_LAYERS:   good = word(w, "4", layers_unlike(c, formula) == 0); break;
    case DENSE_FIRST:     good = word(w, "with layers without experts first",
                                      layers_unlike(c, formula) == 0); break;
    case WHOLE_EXPERTS:   good = word(w, "a multiple of --moe-ffn-hidden-size", moe->shared_ffn > 0 &&
                                      moe->shared_ffn % c->expert_ffn == 0); break;
    case TWO_OF_GROUP:    good = word(w, "2", moe->rule.groups == 0 ||
                                      route_group_best(&moe->rule, moe->topk) == 2); break;
    case NO_QUERY_LATENT:     /* llama.cpp knows some models by their layers, and reads none for them */
        good = word(w, "0 where they have so many layers", c->latent.query_rank == 0 ||
                    (c->layers != 26 && c->layers != 27 && (c->layers != 48 || c->vocabulary != 128256)));
        break;
    case MSCALE_ALL:      good = word(w, "equal to --mscale-all-dim",
                                      c->rope.mscale == c->rope.mscale_all); break;
    }
    return good ? 0 : broken(why, option, w, held);
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
    bool acts = window_acts(c), local = architectures[a].windows == LOCAL;
    bool rope = c->position == POSITION_ROPE;
    bool linear = rope && r->interpolation > 1, yarn = rope && r->scaling == ROPE_YARN;
    bool scaled = linear || (rope && r->scaling != ROPE_UNSCALED);
    const struct { bool broken; const char *why; } positions[] = {
        { acts && architectures[a].windows == NONE, "it has no sliding window, and --window-size is shorter "
          "than --seq-length; a window of all positions works" },
        { acts && scaled && local != (r->local_base > 0), local
          ? "in layers with a window its rotary frequencies are not scaled, and those of this model are not "
            "so"
          : "in layers with a window its rotary frequencies are scaled, and those of this model are not so" },
        { linear && !(scalings & LINEAR), "it does not scale rotary frequencies; "
          "--rotary-seq-len-interpolation-factor 1 works" },
        { rope && r->scaling == ROPE_LLAMA3 && !(scalings & FACTORS),
          "it does not scale rotary frequencies as --use-rope-scaling does" },
        { yarn && !(scalings & YARN), "it has no --position-embedding-type yarn" },
        { yarn && (r->fast != 32 || r->slow != 1 || !r->rounded || linear), "its YaRN has --yarn-beta-fast "
          "32, --yarn-beta-slow 1, whole pairs and --rotary-seq-len-interpolation-factor 1" },
    };
    for (int i = 0; i < COUNT(positions); i++) {
        if (positions[i].broken && !*why) snprintf(why, GGUF_WHY, "%s", positions[i].why);
        count += positions[i].broken;
    }
    return count;
}

int gguf_architecture_broken(GgufArchitecture a, const json_t *options, const ModelConfig *config,
                             char why[GGUF_WHY])
{
    int count = 0;
    *why = 0;
    for (int i = 0; i < COUNT(rules); i++) {
        const json_t *held = json_object_get(options, rules[i].options);
        if (!(rules[i].of >> a & 1)) continue;
        count += equal_broken(why, a, rules[i].options, rules[i].formula, held, config);
        if (rules[i].value && held && !value_row_allows(rules[i].value, held))
            count += broken(why, rules[i].options, rules[i].value, held);
    }
    return count + positions_broken(why, a, config);
}

/* ---- keys ---- */

typedef struct { char text[128]; } KeyName;

static const char *name_of(KeyName *name, GgufArchitecture a, const char *key)
{
    snprintf(name->text, sizeof name->text, "%s.%s", architectures[a].name, key);
    return name->text;
}

/* What YaRN multiplies cosines and sines by is t(1) of rope.h there, times a factor; in models with latent
 * attention that have the key of mscale_all, which multiplies scores as well, it is the factor alone. */
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
    bool   latent = c->latent.kv_rank > 0 && r->mscale_all != 0;
    gguf_key_uint(out, name_of(&name, a, "rope.scaling.original_context_length"), (int64_t)r->original);
    gguf_key_real(out, name_of(&name, a, "rope.scaling.attn_factor"), latent ? scale : scale / theirs);
    if (latent)
        gguf_key_real(out, name_of(&name, a, "rope.scaling.yarn_log_multiplier"), 0.1 * r->mscale_all);
}

/* The longest texts; those of the training, where windows are left out because none acts on these. */
static int64_t context_length(const ModelConfig *c)
{
    return c->window > 0 && !window_acts(c) ? c->sequence : c->positions;
}

/* Windows of a model without any are as long as its texts, in all layers: llama.cpp wants one layer with
 * one. */
static void window_keys(GgufText *out, GgufArchitecture a, const ModelConfig *c)
{
    KeyName name;
    bool acts = window_acts(c);
    if (architectures[a].windows == NONE || (!acts && architectures[a].windows == LOCAL)) return;
    gguf_key_uint(out, name_of(&name, a, "attention.sliding_window"), acts ? c->window : context_length(c));
    gguf_key_array(out, name_of(&name, a, "attention.sliding_window_pattern"), GGUF_BOOL, c->layers);
    for (int64_t l = 0; l < c->layers; l++) gguf_put_number(out, !acts || model_window(c, l) > 0, 1);
    if (acts)
        gguf_key_real(out, name_of(&name, a, "rope.freq_base_swa"),
                      c->rope.local_base > 0 ? c->rope.local_base : c->rope.base);
}

/* A key that follows from several options. */
static int64_t size_of(KeyKind size, const ModelConfig *c)
{
    enum { BY_SOFTMAX = 1, BY_SIGMOID = 2 };            /* llama.cpp's numbers of what makes scores */
    int64_t rotated = c->rope.channels ? c->rope.channels : c->head_dim;
    switch (size) {
    case ROTATED:        return rotated;
    case HEAD:           return c->head_dim;
    case ONE:            return 1;
    case CACHED_KEY:     return c->latent.kv_rank + rotated;
    case DENSE:          return dense_layers(c);
    case SHARED_EXPERTS: return c->moe.shared_ffn / c->expert_ffn;
    case UINT: case REAL: break;
    case SCORES:         return c->moe.rule.score == ROUTE_SIGMOID ? BY_SIGMOID : BY_SOFTMAX;
    }
    return 0;
}

void gguf_architecture_keys(GgufText *out, GgufArchitecture a, const json_t *options,
                            const ModelConfig *config)
{
    KeyName name;
    gguf_key_string(out, "general.architecture", architectures[a].name);
    gguf_key_uint(out, name_of(&name, a, "context_length"), context_length(config));
    for (int i = 0; i < COUNT(keys); i++) {
        const json_t *value = json_object_get(options, keys[i].option);
        if (!(keys[i].of >> a & 1)) continue;
        name_of(&name, a, keys[i].key);
        if (keys[i].kind == REAL) gguf_key_real(out, name.text, json_number_value(value));
        else gguf_key_uint(out, name.text, keys[i].kind == UINT ? json_integer_value(value)
                                                                : size_of(keys[i].kind, config));
    }
    if (config->latent.kv_rank > 0)        /* whether weights of experts have the sum 1 before the factor */
        gguf_key_bool(out, name_of(&name, a, "expert_weights_norm"), config->moe.rule.score == ROUTE_SIGMOID
                      ? config->moe.topk > 1 : !config->moe.rule.pre_softmax);
    if (config->position != POSITION_ROPE) return;
    scaling_keys(out, a, config);
    window_keys(out, a, config);
}

bool gguf_architecture_factors(const ModelConfig *config)
{
    return config->position == POSITION_ROPE && config->rope.scaling == ROPE_LLAMA3;
}
