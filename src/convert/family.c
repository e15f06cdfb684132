/* config.json to options and back, by the rows of families.def. */
#include "convert/family.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "base/message.h"
#include "base/words.h"
#include "convert/family/family_keys.h"
#include "store/tensor_entry.h"

typedef enum {
    SAME, ALSO, NOT, FLAG, ONLY, MUST, WINDOW, USED_WINDOW, OR_ZERO, SQRT, RSQRT, FOURFOLD, GELU, ROPE,
    REFUSED, LAYER_TYPES, ITS_WINDOW, HAS_WINDOW, FULL_FIRST, NO_ROPE, DENSE, SPARSE_STEP, MLP_ONLY,
    ATTENTION_BIAS, MLP_BIAS, SHARED, EXPERT_GROUPS, TAKEN_GROUPS, GROUPS_METHOD
} KeyKind;

/* Sets of families, which the rows join by |. */
enum {
#define FAMILY(family, ...) family = 1 << FAMILY_##family,
#include "convert/families.def"
    ALL = (1 << FAMILIES) - 1
};
static const struct { const char *model_type, *architecture; Naming naming; } families[FAMILIES] = {
#define FAMILY(family, model_type, architecture, naming) { model_type, architecture, NAMING_##naming },
#include "convert/families.def"
};
typedef struct { int families; const char *key, *missing; KeyKind kind; const char *option; } KeyRow;
static const KeyRow keys[] = {
#define KEY(families, key, missing, kind, option) { families, key, missing, kind, option },
#include "convert/families.def"
};
static const struct { int families; const char *keys; } unused_rows[] = {
#define UNUSED(families, keys) { families, keys },
#include "convert/families.def"
};
static const struct { int of; const char *option, *value; } has_rows[] = {
#define HAS(families, option, value) { families, option, value },
#include "convert/families.def"
};

Naming      family_naming(Family family)     { return families[family].naming; }

/* ---- values ---- */

json_t *value_row_json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    CHECK(value, "a row of a table has no JSON: %s", text);
    return value;
}

bool value_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal((json_t *)a, (json_t *)b);
}

bool value_row_allows(const char *value, const json_t *held)
{
    json_t *want = value_row_json(value);
    bool    found = !json_is_array(want) && value_equal(want, held);
    for (size_t i = 0; i < json_array_size(want); i++) found |= value_equal(json_array_get(want, i), held);
    json_decref(want);
    return found;
}

const char *value_text(char out[64], const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    snprintf(out, 64, "%.60s", text ? text : "none");
    free(text);
    return out;
}

/* ---- reading ---- */

Status option_put(const KeySource *s, const char *option, json_t *value)
{
    char now[64], before[64];
    const json_t *held = json_object_get(s->options, option);
    bool same = !held || value_equal(held, value);
    value_text(now, value);
    if (same) json_object_set_new(s->options, option, value);
    else      json_decref(value);
    if (same) return OK;
    return fail(BAD_FILE, "%s: %s is %s, but another key gives --%s the value %s, of which a model has one; "
                "keep the key that is right", s->path, s->key, now, option, value_text(before, held));
}

/* Our window counts the positions before the query's own. */
Status window_read(const KeySource *s, const json_t *value)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return fail(BAD_FILE, "%s: %s is no number of positions", s->path, s->key);
    return option_put(s, "window-size", json_sprintf("%lld,0", (long long)json_integer_value(value) - 1));
}

/* ---- keys that are read together ---- */

/* Biases of attention's projections, and where the family may have them of the MLP. */
static Status biases_read(const KeySource *s, const json_t *attention)
{
    const json_t *mlp = json_object_get(s->config, "mlp_bias");
    bool of_attention = json_is_true(attention), of_mlp = json_is_true(mlp);
    if (!json_is_boolean(attention) || (mlp && !json_is_null(mlp) && !json_is_boolean(mlp)))
        return fail(BAD_FILE, "%s: attention_bias or mlp_bias is neither true nor false", s->path);
    bool all = of_attention && of_mlp;
    TRY(option_put(s, "disable-bias-linear", json_boolean(!all)));
    TRY(option_put(s, "add-qkv-bias", json_boolean(of_attention && !all)));
    TRY(option_put(s, "add-attention-output-bias", json_boolean(of_attention && !all)));
    return option_put(s, "add-mlp-bias", json_boolean(of_mlp && !all));
}

static bool is_true(const json_t *options, const char *option)
{
    return json_is_true(json_object_get(options, option));
}

static int64_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Shared experts are one, as wide as all of them. */
static Status shared_read(const KeySource *s, const json_t *count)
{
    int64_t each = number_of(s->config, "moe_intermediate_size"), n = json_integer_value(count);
    if (n < 1 || n > 1 << 20 || each < 1 || each > 1 << 22)
        return fail(BAD_FILE, "%s: %s is no number of experts from 1 on, of a moe_intermediate_size", s->path,
                    s->key);
    return option_put(s, "moe-shared-expert-intermediate-size", json_integer(n * each));
}

/* A token takes its experts from topk_group of n_group groups; 1 of 1 is none. missing: {groups, taken,
 * best}: what missing keys mean, and how many scores of a group rank it. */
static Status groups_read(const KeySource *s)
{
    const json_t *method = json_object_get(s->config, "topk_method");
    const json_t *held = json_object_get(s->config, "n_group");
    const json_t *taken = json_object_get(s->config, "topk_group");
    const json_t *group_method = json_object_get(s->missing, "method");
    if (!held) held = json_object_get(s->missing, "groups");
    if (!taken) taken = json_object_get(s->missing, "taken");
    if (group_method && !(method && value_equal(method, group_method))) held = NULL;
    int64_t groups = json_integer_value(held), best = number_of(s->missing, "best");
    if (group_method && number_of(s->config, "num_experts_per_tok") == 0)
        return fail(BAD_FILE, "%s: num_experts_per_tok is no number from 1 on", s->path);
    if (!group_method && number_of(s->config, "num_experts_per_tok") == 1)
        return fail(BAD_FILE, "%s: num_experts_per_tok is 1, of which the normalized weight is always 1; "
                    "supported is 2 or more", s->path);
    if (groups <= 1) return OK;
    TRY(option_put(s, "moe-router-num-groups", json_integer(groups)));
    TRY(option_put(s, "moe-router-group-topk", json_integer(json_integer_value(taken))));
    return option_put(s, "moe-router-group-best", json_integer(best));
}

static json_t *groups_json(const json_t *options, const char *option)
{
    int64_t count = number_of(options, option);
    return json_integer(count > 0 ? count : 1);
}

static json_t *shared_json(const json_t *options)
{
    int64_t all = number_of(options, "moe-shared-expert-intermediate-size");
    int64_t each = number_of(options, "moe-ffn-hidden-size");
    return json_integer(each > 0 && all % each == 0 ? all / each : 0);
}

/* ---- keys that are one option ---- */

/* gelu_new and gelu_pytorch_tanh are one function, by tanh; gelu is that by erf. */
static Status gelu_read(const KeySource *s, const json_t *value)
{
    char        now[64];
    const char *word = json_string_value(value);
    bool by_erf = word && !strcmp(word, "gelu");
    if (!by_erf && !(word && (!strcmp(word, "gelu_new") || !strcmp(word, "gelu_pytorch_tanh"))))
        return fail(BAD_FILE, "%s: %s is %s; supported are gelu_new, gelu_pytorch_tanh and gelu", s->path,
                    s->key, value_text(now, value));
    return option_put(s, "gelu-approximate", json_string(by_erf ? "none" : "tanh"));
}

/* value: not null */
static Status value_read(const KeySource *s, const KeyRow *row, json_t *value)
{
    bool boolean = row->kind == NOT || row->kind == FLAG;
    if (row->kind == GELU)           return gelu_read(s, value);
    if (row->kind == WINDOW)         return window_read(s, value);
    if (row->kind == USED_WINDOW)
        return is_true(s->config, "use_sliding_window") ? window_read(s, value) : OK;
    if (row->kind == ATTENTION_BIAS) return biases_read(s, value);
    if (row->kind == SHARED)         return shared_read(s, value);
    if (boolean && !json_is_boolean(value))
        return fail(BAD_FILE, "%s: %s is neither true nor false", s->path, row->key);
    if (boolean)
        return option_put(s, row->option, json_boolean(json_is_true(value) == (row->kind == FLAG)));
    if (!json_is_number(value)) return fail(BAD_FILE, "%s: %s is no number", s->path, row->key);
    if (row->kind == FOURFOLD)
        return option_put(s, row->option, json_integer(4 * json_integer_value(value)));
    if (row->kind != SQRT && row->kind != RSQRT) return option_put(s, row->option, json_incref(value));
    double number = json_number_value(value);
    if (!(number > 0)) return fail(BAD_FILE, "%s: %s is not above 0", s->path, row->key);
    return option_put(s, row->option, json_real(row->kind == SQRT ? sqrt(number) : 1 / sqrt(number)));
}

static Status key_read(json_t *options, const KeyRow *row, const json_t *config, const char *path)
{
    const char *other = *row->missing == '=' ? row->missing + 1 : NULL;
    json_t *held = *row->key ? json_object_get(config, row->key) : NULL, *missing = NULL;
    if (!held && other) held = json_object_get(config, other);
    if (!other && *row->missing) missing = value_row_json(row->missing);
    json_t *value = held ? held : missing;
    KeySource s = { .options = options, .config = config, .missing = missing, .path = path, .key = row->key };
    Status status = OK;
    char   now[64];
    switch (row->kind) {
    case ITS_WINDOW: case HAS_WINDOW: case FULL_FIRST: case MLP_BIAS: case TAKEN_GROUPS:
    case GROUPS_METHOD: case MLP_ONLY: break;                        /* nothing, or read with another key */
    case ROPE:          status = rope_read(&s); break;
    case LAYER_TYPES:   status = windows_read(&s); break;
    case NO_ROPE:       status = no_rope_read(&s); break;
    case DENSE:         status = dense_read(&s); break;
    case SPARSE_STEP:   status = sparse_read(&s); break;
    case EXPERT_GROUPS: status = groups_read(&s); break;
    case REFUSED:                        /* a cure, in place of the values that are supported */
        if (held && !json_is_null(held))
            status = fail(BAD_FILE, "%s: %s is %s: %s", path, row->key, value_text(now, held), row->option);
        break;
    case ONLY: case MUST:
        if (value && !value_row_allows(row->option, value))
            status = fail(BAD_FILE, "%s: %s is %s; supported is %s", path, row->key, value_text(now, value),
                          row->option);
        break;
    default:
        if (row->kind == OR_ZERO && value && json_is_null(value))
            status = option_put(&s, row->option, json_integer(0));
        else if (!value && other)
            status = fail(BAD_FILE, "%s: key %s is missing, and so is %s; add the model's", path, row->key,
                          other);
        else if (!value)
            status = fail(BAD_FILE, "%s: key %s is missing; add the model's", path, row->key);
        else if (!json_is_null(value))  status = value_read(&s, row, value);
    }
    json_decref(missing);
    return status;
}

static const struct { const char *keys, *values; } neutral_rows[] = {
#define NEUTRAL(keys, values) { keys, values },
#include "convert/families.def"
};

/* Whether a key that no row of the family names computes nothing with this value. */
static bool is_neutral(const json_t *config, const char *key, const json_t *value)
{
    bool empty = (json_is_string(value) && !json_string_length(value)) ||
                 (json_is_array(value) && !json_array_size(value)) ||
                 (json_is_object(value) && !json_object_size(value));
    bool of_unused_window = json_is_false(json_object_get(config, "use_sliding_window")) &&
                            words_have("sliding_window max_window_layers", key, strlen(key));
    if (empty || of_unused_window) return true;
    for (int i = 0; i < COUNT(neutral_rows); i++) {
        bool allowed = words_have(neutral_rows[i].keys, key, strlen(key)), all = json_array_size(value) > 0;
        if (allowed && value_row_allows(neutral_rows[i].values, value)) return true;
        for (size_t k = 0; allowed && k < json_array_size(value); k++)
            all &= value_row_allows(neutral_rows[i].values, json_array_get(value, k));
        if (allowed && all) return true;
    }
    return false;
}

static bool has_row(Family family, const char *key)
{
    for (int i = 0; i < COUNT(keys); i++)
        if (keys[i].families >> family & 1 && *key && !strcmp(keys[i].key, key)) return true;
    for (int i = 0; i < COUNT(unused_rows); i++)
        if (unused_rows[i].families >> family & 1 && words_have(unused_rows[i].keys, key, strlen(key)))
            return true;
    return !strcmp(key, "rope_theta") || !strcmp(key, "rope_scaling");
}

static Status keys_known(const json_t *config, Family family, const char *path)
{
    char        now[64], ignored[512] = "";
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)config, key, value) {
        if (json_is_null(value) || has_row(family, key)) continue;
        if (is_neutral(config, key, value)) {
            message_item(ignored, sizeof ignored, ", ", "%.60s %s", key, value_text(now, value));
            continue;
        }
        return fail(BAD_FILE, "%s: key %.60s, which is %s, is not known for %s and could change what the "
                    "model computes; remove it if transformers computes the same without it", path, key,
                    value_text(now, value), families[family].model_type);
    }
    if (*ignored) log_line("%s: ignored, since they compute nothing with these values: %s", path, ignored);
    return OK;
}

static Status family_find(Family *family, const json_t *config, const char *path)
{
    char known[256] = "";
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *architectures = json_object_get(config, "architectures");
    const char *architecture = json_string_value(json_array_get(architectures, 0));
    for (Family f = 0; f < FAMILIES; f++) {
        message_item(known, sizeof known, ", ", "%s", families[f].model_type);
        if (!type || strcmp(type, families[f].model_type)) continue;
        *family = f;
        if (!architecture || !strcmp(architecture, families[f].architecture)) return OK;
        return fail(BAD_FILE, "%s: the architecture %.80s is not supported; %s is: save the model as one, or "
                    "write it here if the weights are one's", path, architecture, families[f].architecture);
    }
    const json_t *part = json_object_get(json_object_get(config, "text_config"), "model_type");
    if (json_is_string(part))
        return fail(BAD_FILE, "%s: model_type %.60s is not of text alone; save the part that is, of "
                    "model_type %.60s, as a folder of its own; these are supported: %s", path,
                    type ? type : "(none)", json_string_value(part), known);
    return fail(BAD_FILE, "%s: model_type %.60s is not supported; these are: %s. If its weights have the "
                "names and the meaning of one of them, as many Llama models of other names do, write that "
                "one as model_type and its class into architectures; else no layer of it is built here", path,
                type ? type : "is missing,", known);
}

static Status options_fill(json_t *options, Family family, const json_t *config, const char *path)
{
    for (int i = 0; i < COUNT(keys); i++)
        if (keys[i].families >> family & 1) TRY(key_read(options, &keys[i], config, path));
    for (int i = 0; i < COUNT(has_rows); i++)
        if (has_rows[i].of >> family & 1 && !json_object_get(options, has_rows[i].option))
            json_object_set_new(options, has_rows[i].option, value_row_json(has_rows[i].value));
    return OK;
}

Status family_read(Family *family, json_t *options, const json_t *config, const char *path)
{
    if (!json_is_object(config)) return fail(BAD_FILE, "%s: not a JSON object", path);
    TRY(family_find(family, config, path));
    TRY(keys_known(config, *family, path));
    return options_fill(options, *family, config, path);
}

/* ---- writing ---- */

/* Options that are missing contradict nothing. */
static Status has_check(Family family, const json_t *options)
{
    char now[64];
    for (int i = 0; i < COUNT(has_rows); i++) {
        const json_t *held = json_object_get(options, has_rows[i].option);
        if (has_rows[i].of >> family & 1 && held && !value_row_allows(has_rows[i].value, held))
            return fail(BAD_OPTION, "models of type %s have --%s %s, and this one has %s",
                        families[family].model_type, has_rows[i].option, has_rows[i].value,
                        value_text(now, held));
    }
    return OK;
}

/* 1 / x^2, to a whole number where it is one but for rounding. */
static json_t *square_json(double root)
{
    double square = 1 / (root * root), whole = nearbyint(square);
    return fabs(square - whole) < 1e-9 * whole ? json_integer((json_int_t)whole) : json_real(square);
}

/* The value of a key, a new reference; NULL: it is not written. */
static json_t *key_json(const KeyRow *row, const json_t *options)
{
    json_t *held = json_object_get(options, row->option), *all, *first;
    switch (row->kind) {
    case ALSO: case REFUSED: case SQRT: case FOURFOLD: case MUST: case ROPE: return NULL;
    case RSQRT:  return square_json(json_number_value(held) > 0 ? json_number_value(held) : 1);
    case OR_ZERO: return json_number_value(held) > 0 ? json_incref(held) : json_null();
    case GELU: {
        const char *word = json_string_value(held);
        return json_string(word && !strcmp(word, "none") ? "gelu" : "gelu_new");
    }
    case SAME:   return held ? json_incref(held) : json_null();
    case NOT:    return json_boolean(!json_is_true(held));
    case FLAG:   return json_boolean(json_is_true(held));
    case WINDOW: case USED_WINDOW: case ITS_WINDOW: return window_json(options);
    case LAYER_TYPES: return layer_types_json(options);
    case HAS_WINDOW:
        first = window_json(options);
        all   = json_boolean(!json_is_null(first));
        json_decref(first);
        return all;
    case FULL_FIRST: return full_first_json(options);
    case NO_ROPE:    return no_rope_json(options);
    case DENSE:      return dense_json(options);
    case SPARSE_STEP: return json_integer(1);
    case MLP_ONLY:   return mlp_only_json(options);
    case ATTENTION_BIAS:
        return json_boolean(!is_true(options, "disable-bias-linear") ||
                            (is_true(options, "add-qkv-bias") &&
                             is_true(options, "add-attention-output-bias")));
    case MLP_BIAS:
        return json_boolean(!is_true(options, "disable-bias-linear") || is_true(options, "add-mlp-bias"));
    case SHARED:        return shared_json(options);
    case EXPERT_GROUPS: return groups_json(options, "moe-router-num-groups");
    case TAKEN_GROUPS:  return groups_json(options, "moe-router-group-topk");
    case GROUPS_METHOD:
        return json_string(number_of(options, "moe-router-num-groups") > 0 ? "group_limited_greedy"
                                                                           : "greedy");
    case ONLY:
        all   = value_row_json(row->option);
        first = json_incref(json_array_get(all, 0));
        json_decref(all);
        return first;
    }
    return NULL;
}

Status family_write(json_t **config, Family family, const json_t *options)
{
    TRY(has_check(family, options));
    *config = json_object();
    json_object_set_new(*config, "architectures", json_pack("[s]", families[family].architecture));
    json_object_set_new(*config, "model_type", json_string(families[family].model_type));
    for (int i = 0; i < COUNT(keys); i++) {
        if (!(keys[i].families >> family & 1)) continue;
        json_t *value = key_json(&keys[i], options);
        if (value) json_object_set_new(*config, keys[i].key, value);
        if (keys[i].kind != ROPE) continue;
        json_t *missing = value_row_json(keys[i].missing);
        rope_write(*config, options, missing);
        json_decref(missing);
    }
    return OK;
}
