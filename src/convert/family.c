/* config.json to options and back, by the rows of families.def. */
#include "convert/family.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/tensor_entry.h"

typedef enum {
    SAME, ALSO, NOT, ONLY, WINDOW, OR_ZERO, SQRT, RSQRT, GELU, ROPE, FULL, LAYERS, UNUSED
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
typedef struct { int families; const char *option, *value; } ValueRow;
static const ValueRow has_rows[] = {
#define HAS(families, option, value) { families, option, value },
#include "convert/families.def"
};
static const ValueRow set_rows[] = {
#define SET(families, option, value) { families, option, value },
#include "convert/families.def"
};
static const struct { const char *type, *key, *option; } rope_rows[] = {
#define ROPE_KEY(type, key, option) { type, key, option },
#include "convert/families.def"
};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

Naming      family_naming(Family family)     { return families[family].naming; }
const char *family_model_type(Family family) { return families[family].model_type; }

/* The JSON of a row, a new reference. */
static json_t *row_json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    CHECK(value, "a row of families.def has no JSON: %s", text);
    return value;
}

/* 0 and 0.0 are equal. */
static bool value_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal((json_t *)a, (json_t *)b);
}

/* A value for messages: at most 60 bytes of its JSON. */
static const char *value_text(char out[64], const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    snprintf(out, 64, "%.60s", text ? text : "none");
    free(text);
    return out;
}

/* ---- reading ---- */

/* Two keys may give one option, which then has to have one value. */
static Status option_put(json_t *options, const char *option, json_t *value, const char *path,
                         const char *key)
{
    char now[64], before[64];
    const json_t *held = json_object_get(options, option);
    if (held && !value_equal(held, value))
        return fail(BAD_FILE,
                    "%s: %s is %s, but another key gives --%s the value %s, of which a model has one", path,
                    key, value_text(now, value), option, value_text(before, held));
    json_object_set(options, option, value);
    return OK;
}

static Status only_read(const KeyRow *row, const json_t *value, const char *path)
{
    char    now[64];
    json_t *allowed = row_json(row->option);
    bool    found = false;
    for (size_t i = 0; i < json_array_size(allowed); i++)
        found |= value_equal(json_array_get(allowed, i), value);
    json_decref(allowed);
    if (found) return OK;
    return fail(BAD_FILE, "%s: %s is %s; supported is %s", path, row->key, value_text(now, value),
                row->option);
}

/* Our window counts the positions before the query's own. */
static Status window_read(json_t *options, const KeyRow *row, const json_t *value, const char *path)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return fail(BAD_FILE, "%s: %s is no number of positions", path, row->key);
    json_t *size = json_sprintf("%lld,0", (long long)json_integer_value(value) - 1);
    Status status = option_put(options, row->option, size, path, row->key);
    json_decref(size);
    return status;
}

/* The keys of one type of rotary embeddings; all others have to be null. */
static Status rope_keys_read(json_t *options, const json_t *rope, const char *type, const char *path)
{
    const char *key;
    json_t     *value;
    char        now[64];
    for (int i = 0; i < COUNT(rope_rows); i++)
        if (!strcmp(rope_rows[i].type, type) && !json_is_number(json_object_get(rope, rope_rows[i].key)))
            return fail(BAD_FILE, "%s: a rotary embedding of rope_type %s has no number %s", path, type,
                        rope_rows[i].key);
    json_object_foreach((json_t *)rope, key, value) {
        bool known = !strcmp(key, "rope_type") || !strcmp(key, "type") || !strcmp(key, "rope_theta") ||
                     json_is_null(value);
        if (!strcmp(key, "partial_rotary_factor")) known |= json_number_value(value) == 1;
        for (int i = 0; i < COUNT(rope_rows) && !known; i++) {
            known = !strcmp(rope_rows[i].type, type) && !strcmp(rope_rows[i].key, key);
            if (known) TRY(option_put(options, rope_rows[i].option, value, path, key));
        }
        if (!known)
            return fail(BAD_FILE,
                        "%s: %s of the rotary embedding is %s, which is not supported with rope_type "
                        "%s",
                        path, key, value_text(now, value), type);
    }
    return OK;
}

/* Version 5 has rope_parameters; before it rope_theta was a key of its own beside rope_scaling. */
static Status rope_read(json_t *options, const KeyRow *row, const json_t *config, const char *path)
{
    const json_t *rope = json_object_get(config, "rope_parameters"), *base;
    if (!json_is_object(rope)) rope = json_object_get(config, "rope_scaling");
    if (!json_is_object(rope)) rope = NULL;
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    if (!type) type = json_string_value(json_object_get(rope, "type"));
    if (!type) type = "default";
    if (strcmp(type, "default") && strcmp(type, "linear") && strcmp(type, "llama3"))
        return fail(BAD_FILE,
                    "%s: rope_type %.40s of the rotary embedding is not supported; default, linear and "
                    "llama3 are",
                    path, type);
    TRY(rope_keys_read(options, rope, type, path));
    if (!strcmp(type, "llama3")) json_object_set_new(options, "use-rope-scaling", json_true());
    base = json_object_get(rope, "rope_theta");
    if (!base) base = json_object_get(config, "rope_theta");
    json_t *number = base ? json_incref((json_t *)base) : json_real(10000);
    Status status = option_put(options, row->option, number, path, "rope_theta");
    json_decref(number);
    return status;
}

/* A 1 for each layer with a window: "[1,0,1,0]". */
static Status layers_read(json_t *options, const KeyRow *row, const json_t *value, const char *path)
{
    char   text[2 * 512 + 2] = "[", now[64];
    size_t i, used = 1;
    json_t *kind;
    if (json_array_size(value) == 0 || json_array_size(value) > 512)
        return fail(BAD_FILE, "%s: %s is no list of at most 512 layers", path, row->key);
    json_array_foreach((json_t *)value, i, kind) {
        const char *word = json_string_value(kind);
        bool slides = word && !strcmp(word, "sliding_attention");
        if (!slides && !(word && !strcmp(word, "full_attention")))
            return fail(BAD_FILE, "%s: %s has %s; sliding_attention and full_attention are supported", path,
                        row->key, value_text(now, kind));
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? "," : "", slides);
    }
    snprintf(text + used, sizeof text - used, "]");
    json_t *pattern = json_string(text);
    Status  status = option_put(options, row->option, pattern, path, row->key);
    json_decref(pattern);
    return status;
}

/* gelu_new and gelu_pytorch_tanh are one function, by tanh; gelu is that by erf. */
static Status gelu_read(json_t *options, const KeyRow *row, const json_t *value, const char *path)
{
    char        now[64];
    const char *word = json_string_value(value);
    bool by_erf = word && !strcmp(word, "gelu");
    if (!by_erf && !(word && (!strcmp(word, "gelu_new") || !strcmp(word, "gelu_pytorch_tanh"))))
        return fail(BAD_FILE, "%s: %s is %s; supported are gelu_new, gelu_pytorch_tanh and gelu", path,
                    row->key, value_text(now, value));
    json_object_set_new(options, row->option, json_string(by_erf ? "none" : "tanh"));
    return OK;
}

static Status root_read(json_t *options, const KeyRow *row, double value, const char *path)
{
    if (!(value > 0)) return fail(BAD_FILE, "%s: %s is not above 0", path, row->key);
    json_object_set_new(options, row->option, json_real(row->kind == SQRT ? sqrt(value) : 1 / sqrt(value)));
    return OK;
}

static Status full_read(const KeyRow *row, const json_t *value, const char *path)
{
    size_t i;
    json_t *kind;
    char now[64];
    json_array_foreach((json_t *)value, i, kind)
        if (!json_is_string(kind) || strcmp(json_string_value(kind), "full_attention"))
            return fail(BAD_FILE, "%s: %s has %s; only \"full_attention\" is supported", path, row->key,
                        value_text(now, kind));
    return OK;
}

static Status key_read(json_t *options, const KeyRow *row, const json_t *config, const char *path)
{
    json_t *value = json_incref(json_object_get(config, row->key));
    Status  status = OK;
    if (row->kind == UNUSED) return json_decref(value), OK;
    if (row->kind == ROPE) return json_decref(value), rope_read(options, row, config, path);
    if (!value && !*row->missing) return fail(BAD_FILE, "%s: key %s is missing", path, row->key);
    if (!value) value = row_json(row->missing);
    if (row->kind == ONLY)          status = only_read(row, value, path);
    else if (row->kind == OR_ZERO && json_is_null(value))
        json_object_set_new(options, row->option, json_integer(0));
    else if (json_is_null(value))   status = OK;
    else if (row->kind == LAYERS)   status = layers_read(options, row, value, path);
    else if (row->kind == GELU)     status = gelu_read(options, row, value, path);
    else if (row->kind == FULL)     status = full_read(row, value, path);
    else if (row->kind == WINDOW)   status = window_read(options, row, value, path);
    else if (row->kind == NOT && !json_is_boolean(value))
        status = fail(BAD_FILE, "%s: %s is neither true nor false", path, row->key);
    else if (row->kind == NOT)
        status = option_put(options, row->option, json_is_true(value) ? json_false() : json_true(), path,
                            row->key);
    else if (!json_is_number(value))
        status = fail(BAD_FILE, "%s: %s is no number", path, row->key);
    else if (row->kind == SQRT || row->kind == RSQRT)
        status = root_read(options, row, json_number_value(value), path);
    else status = option_put(options, row->option, value, path, row->key);
    json_decref(value);
    return status;
}

static Status keys_known(const json_t *config, Family family, const char *path)
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)config, key, value) {
        bool known = json_is_null(value) || !strcmp(key, "rope_theta") || !strcmp(key, "rope_scaling");
        for (int i = 0; i < COUNT(keys); i++)
            known |= keys[i].families >> family & 1 && !strcmp(keys[i].key, key);
        if (!known)
            return fail(BAD_FILE,
                        "%s: key %.60s is not known for %s and could change what the model computes; "
                        "remove it if it does not",
                        path, key, families[family].model_type);
    }
    return OK;
}

static Status family_find(Family *family, const json_t *config, const char *path)
{
    char known[256] = "";
    size_t used = 0;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *architectures = json_object_get(config, "architectures");
    const char *architecture = json_string_value(json_array_get(architectures, 0));
    for (Family f = 0; f < FAMILIES; f++) {
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", f ? ", " : "",
                                 families[f].model_type);
        if (!type || strcmp(type, families[f].model_type)) continue;
        *family = f;
        if (!architecture || !strcmp(architecture, families[f].architecture)) return OK;
        return fail(BAD_FILE, "%s: the architecture %.80s is not supported; %s is", path, architecture,
                    families[f].architecture);
    }
    return fail(BAD_FILE, "%s: model_type %.60s is not supported; these are: %s", path,
                type ? type : "is missing,", known);
}

static Status options_fill(json_t *options, Family family, const json_t *config, const char *path)
{
    for (int i = 0; i < COUNT(keys); i++)
        if (keys[i].families >> family & 1) TRY(key_read(options, &keys[i], config, path));
    for (int i = 0; i < COUNT(has_rows); i++)
        if (has_rows[i].families >> family & 1 && !json_object_get(options, has_rows[i].option))
            json_object_set_new(options, has_rows[i].option, row_json(has_rows[i].value));
    for (int i = 0; i < COUNT(set_rows); i++)
        if (set_rows[i].families >> family & 1)
            json_object_set_new(options, set_rows[i].option, row_json(set_rows[i].value));
    return OK;
}

Status family_read(Family *family, json_t **options, const json_t *config, const char *path)
{
    *options = NULL;
    if (!json_is_object(config)) return fail(BAD_FILE, "%s: not a JSON object", path);
    TRY(family_find(family, config, path));
    TRY(keys_known(config, *family, path));
    *options = json_object();
    Status status = options_fill(*options, *family, config, path);
    if (status == OK) return OK;
    json_decref(*options);
    *options = NULL;
    return status;
}

/* ---- writing ---- */

static Status has_check(Family family, const json_t *options)
{
    for (int i = 0; i < COUNT(has_rows); i++) {
        char now[64];
        const ValueRow *row = &has_rows[i];
        const json_t   *held = json_object_get(options, row->option);
        if (!(row->families >> family & 1)) continue;
        json_t *want = row_json(row->value);
        bool    same = !held || value_equal(held, want);
        json_decref(want);
        if (!same)
            return fail(BAD_OPTION, "models of type %s have --%s %s, and this one has %s",
                        families[family].model_type, row->option, row->value, value_text(now, held));
    }
    return OK;
}

static json_t *window_json(const json_t *value)
{
    long long before = -1;
    if (!json_is_string(value) || sscanf(json_string_value(value), "%lld,", &before) != 1 || before < 0)
        return json_null();
    return json_integer(before + 1);
}

static json_t *rope_json(const json_t *options, const char *base)
{
    const json_t *factor = json_object_get(options, "rotary-seq-len-interpolation-factor");
    const char   *type = json_is_true(json_object_get(options, "use-rope-scaling")) ? "llama3" :
                         json_is_number(factor) && json_number_value(factor) != 1 ? "linear" : "default";
    json_t *rope = json_pack("{s:s, s:O}", "rope_type", type, "rope_theta", json_object_get(options, base));
    for (int i = 0; i < COUNT(rope_rows); i++)
        if (!strcmp(rope_rows[i].type, type))
            json_object_set(rope, rope_rows[i].key, json_object_get(options, rope_rows[i].option));
    return rope;
}

/* Of a pattern as layers_read writes it; NULL for others, so that what is read back differs. */
static json_t *layers_json(const json_t *value)
{
    const char *text = json_string_value(value);
    json_t     *list = json_array();
    if (!text || *text != '[' || strspn(text, "[01,") != strlen(text) - 1) return list;
    for (; *text; text++)
        if (*text == '0' || *text == '1')
            json_array_append_new(list, json_string(*text == '1' ? "sliding_attention" : "full_attention"));
    return list;
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
    case ALSO: case FULL: case UNUSED: case SQRT: return NULL;
    case RSQRT:  return square_json(json_number_value(held) > 0 ? json_number_value(held) : 1);
    case OR_ZERO: return json_number_value(held) > 0 ? json_incref(held) : json_null();
    case GELU: {
        const char *word = json_string_value(held);
        return json_string(word && !strcmp(word, "none") ? "gelu" : "gelu_new");
    }
    case LAYERS: return layers_json(held);
    case SAME:   return held ? json_incref(held) : json_null();
    case NOT:    return json_boolean(!json_is_true(held));
    case WINDOW: return window_json(held);
    case ROPE:   return rope_json(options, row->option);
    case ONLY:
        all   = row_json(row->option);
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
    }
    return OK;
}
