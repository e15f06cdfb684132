/* Rotary embeddings: rope_parameters since version 5 of transformers; before it rope_theta was a key of its
 * own beside rope_scaling. Version 4 ignores the new key and computes with its defaults, so that both are
 * written; where a config has both, they have to agree. */
#include "convert/family/family_keys.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "base/array.h"

static const struct { const char *type, *key, *missing, *option; } rope_rows[] = {
#define ROPE_KEY(type, key, missing, option) { type, key, missing, option },
#include "convert/families.def"
};
static const char *const types[] = { "default", "linear", "llama3", "yarn" };
enum { ROPE_ROWS = COUNT(rope_rows), TYPES = COUNT(types) };

static const char LOCAL[] = "rotary-base-local", PARTIAL[] = "partial_rotary_factor";

static Status row_read(const KeySource *s, const json_t *rope, int row)
{
    const json_t *held = json_object_get(rope, rope_rows[row].key);
    json_t *value = held && !json_is_null(held) ? json_incref((json_t *)held)
                  : *rope_rows[row].missing ? value_row_json(rope_rows[row].missing) : NULL;
    if (!value && !strcmp(rope_rows[row].key, "original_max_position_embeddings"))
        value = json_incref(json_object_get(s->options, "seq-length"));
    if (!strcmp(rope_rows[row].key, "truncate") && json_is_boolean(value))
        return option_put(s, rope_rows[row].option, json_is_true(value) ? json_false() : json_true());
    if (json_is_number(value)) return option_put(s, rope_rows[row].option, value);
    json_decref(value);
    return fail(BAD_FILE, "%s: a rotary embedding of rope_type %s has no number %s", s->path,
                rope_rows[row].type, rope_rows[row].key);
}

/* t(m) of model/attention/rope.h */
static double yarn_t(double m, double factor) { return factor > 1 ? 0.1 * m * log(factor) + 1 : 1; }

/* Both mscale and mscale_all_dim, or neither: transformers ignores one without the other where it scales
 * cosines and sines, but not where latent attention scales scores. */
static Status yarn_read(const KeySource *s, const json_t *rope)
{
    double factor = json_number_value(json_object_get(rope, "factor"));
    double one = json_number_value(json_object_get(rope, "mscale"));
    double all = json_number_value(json_object_get(rope, "mscale_all_dim"));
    const json_t *given = json_object_get(rope, "attention_factor");
    bool   both = one != 0 && all != 0;
    double want = both ? yarn_t(one, factor) / yarn_t(all, factor) : yarn_t(1, factor);
    if (all != 0 && !both)
        return fail(BAD_FILE, "%s: mscale_all_dim of the rotary embedding is given without mscale; give "
                    "both, or neither", s->path);
    if (given && !json_is_null(given) && fabs(json_number_value(given) - want) > 1e-6 * want)
        return fail(BAD_FILE, "%s: attention_factor %g of the rotary embedding is not %.9g, which follows "
                    "from factor, mscale and mscale_all_dim; supported is that, or null", s->path,
                    json_number_value(given), want);
    TRY(option_put(s, "mscale", json_real(both ? one : 1)));
    return option_put(s, "mscale-all-dim", json_real(both ? all : 0));
}

/* The keys of one type of rotary embeddings; all others have to be null. */
static Status keys_known(const KeySource *s, const json_t *rope, const char *type)
{
    static const char *const yarn[] = { "mscale", "mscale_all_dim", "attention_factor" };
    const char *key;
    json_t     *value;
    char        now[64];
    json_object_foreach((json_t *)rope, key, value) {
        bool known = !strcmp(key, "rope_type") || !strcmp(key, "type") || !strcmp(key, "rope_theta") ||
                     json_is_null(value);
        if (!strcmp(key, PARTIAL)) known |= json_is_object(s->missing) || json_number_value(value) == 1;
        for (int i = 0; i < ROPE_ROWS; i++)
            known |= !strcmp(rope_rows[i].type, type) && !strcmp(rope_rows[i].key, key);
        for (int i = 0; i < 3; i++) known |= !strcmp(type, "yarn") && !strcmp(yarn[i], key);
        if (!known)
            return fail(BAD_FILE, "%s: %s of the rotary embedding is %s, which is not supported with "
                        "rope_type %s", s->path, key, value_text(now, value), type);
    }
    return OK;
}

static const char *type_of(const json_t *rope)
{
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    if (!type) type = json_string_value(json_object_get(rope, "type"));
    return type ? type : "default";
}

static Status scaling_read(const KeySource *s, const json_t *rope)
{
    const char *type = type_of(rope);
    bool known = false;
    for (int i = 0; i < TYPES; i++) known |= !strcmp(types[i], type);
    if (!known)
        return fail(BAD_FILE, "%s: rope_type %.40s of the rotary embedding is not supported; default, "
                    "linear, llama3 and yarn are", s->path, type);
    TRY(keys_known(s, rope, type));
    for (int i = 0; i < ROPE_ROWS; i++)
        if (!strcmp(rope_rows[i].type, type)) TRY(row_read(s, rope, i));
    if (!strcmp(type, "llama3")) TRY(option_put(s, "use-rope-scaling", json_true()));
    if (!strcmp(type, "yarn")) TRY(yarn_read(s, rope));
    return option_put(s, "position-embedding-type", json_string(strcmp(type, "yarn") ? "rope" : "yarn"));
}

/* A number that rope_parameters may have, or a key beside them, or both; else what a missing one means. */
static Status number_put(const KeySource *s, const char *option, const char *key, const json_t *held[3])
{
    bool      given = false;
    KeySource beside = *s;                 /* for messages: the key beside rope_parameters is its own */
    beside.key = key;
    for (int i = 0; i < 3 && !(given && i == 2); i++) {
        if (!held[i] || json_is_null(held[i])) continue;
        if (!json_is_number(held[i])) return fail(BAD_FILE, "%s: %s is no number", s->path, key);
        TRY(option_put(i == 1 ? &beside : s, option, json_incref((json_t *)held[i])));
        given = true;
    }
    return OK;
}

static Status base_read(const KeySource *s, const char *option, const json_t *rope, const char *key,
                        const json_t *missing)
{
    return number_put(s, option, key, (const json_t *[]){
        json_object_get(rope, "rope_theta"), json_object_get(s->config, key), missing });
}

/* Layers with a window have a base of their own, and no scaling. An option is set only where they are. */
static Status local_read(const KeySource *s, const json_t *local)
{
    const char *window = json_string_value(json_object_get(s->options, "window-size"));
    if (!window || *window == '-') return OK;
    if (strcmp(type_of(local), "default"))
        return fail(BAD_FILE, "%s: rope_type %.40s of layers with sliding_attention is not supported; "
                    "default is", s->path, type_of(local));
    TRY(keys_known(s, local, "default"));
    return base_read(s, LOCAL, local, "rope_local_base_freq", json_array_get(s->missing, 1));
}

static Status partial_read(const KeySource *s, const json_t *rope)
{
    json_t *all = json_integer(1);
    Status  status = number_put(s, "rotary-percent", PARTIAL, (const json_t *[]){
        json_object_get(rope, PARTIAL), json_object_get(s->config, PARTIAL), all });
    json_decref(all);
    return status;
}

Status rope_read(const KeySource *s)
{
    bool two = json_is_array(s->missing);
    const json_t *rope = json_object_get(s->config, "rope_parameters"), *local = NULL;
    const json_t *base = json_is_object(s->missing) ? json_object_get(s->missing, "base") : s->missing;
    if (two && json_is_object(rope)) {
        local = json_object_get(rope, "sliding_attention");
        rope  = json_object_get(rope, "full_attention");
        if (!json_is_object(rope))
            return fail(BAD_FILE, "%s: rope_parameters has no full_attention; it has rotary embeddings for "
                        "the layers without a window, and in sliding_attention for those with one", s->path);
    }
    const json_t *older = json_object_get(s->config, "rope_scaling");
    if (!json_is_object(older)) older = NULL;
    if (!json_is_object(rope)) rope = older;
    if (older && strcmp(type_of(older), type_of(rope)))
        return fail(BAD_FILE, "%s: rope_type is %.40s in rope_parameters and %.40s in rope_scaling; make "
                    "them equal, or remove the one that the model was not trained with", s->path,
                    type_of(rope), type_of(older));
    TRY(scaling_read(s, rope));
    if (older && older != rope) TRY(scaling_read(s, older));
    if (two) TRY(local_read(s, local));
    if (json_is_object(s->missing)) TRY(partial_read(s, rope));
    return base_read(s, "rotary-base", rope, "rope_theta", two ? json_array_get(s->missing, 0) : base);
}

/* ---- writing ---- */

static json_t *scaling_json(const json_t *options, const char *type)
{
    json_t *rope = json_pack("{s:s, s:O}", "rope_type", type, "rope_theta",
                             json_object_get(options, "rotary-base"));
    for (int i = 0; i < ROPE_ROWS; i++) {
        json_t *value = json_object_get(options, rope_rows[i].option);
        if (strcmp(rope_rows[i].type, type)) continue;
        if (!strcmp(rope_rows[i].key, "truncate")) value = json_is_true(value) ? json_false() : json_true();
        json_object_set(rope, rope_rows[i].key, value);
    }
    if (!strcmp(type, "yarn") && json_number_value(json_object_get(options, "mscale-all-dim")) != 0) {
        json_object_set(rope, "mscale", json_object_get(options, "mscale"));
        json_object_set(rope, "mscale_all_dim", json_object_get(options, "mscale-all-dim"));
    }
    return rope;
}

static const char *type_written(const json_t *options)
{
    const json_t *factor = json_object_get(options, "rotary-seq-len-interpolation-factor");
    const char   *position = json_string_value(json_object_get(options, "position-embedding-type"));
    if (position && !strcmp(position, "yarn")) return "yarn";
    if (json_is_true(json_object_get(options, "use-rope-scaling"))) return "llama3";
    return json_is_number(factor) && json_number_value(factor) != 1 ? "linear" : "default";
}

/* The base is beside it, and without scaling there is none. */
static json_t *older_json(const json_t *rope, const char *type)
{
    if (!strcmp(type, "default")) return json_null();
    json_t *older = json_copy((json_t *)rope);
    json_object_del(older, "rope_theta");
    return older;
}

void rope_write(json_t *config, const json_t *options, const json_t *missing)
{
    const char *type = type_written(options);
    json_t     *rope = scaling_json(options, type), *part = json_object_get(options, "rotary-percent");
    json_object_set(config, "rope_theta", json_object_get(options, "rotary-base"));
    json_object_set_new(config, "rope_scaling", older_json(rope, type));
    if (json_is_object(missing)) {
        json_object_set(rope, PARTIAL, part);
        json_object_set(config, PARTIAL, part);
    }
    if (json_is_array(missing)) {
        json_t *base = json_object_get(options, LOCAL);
        if (json_number_value(base) == 0) base = json_array_get(missing, 1);
        json_object_set(config, "rope_local_base_freq", base);
        rope = json_pack("{s:o, s:{s:s, s:O}}", "full_attention", rope, "sliding_attention", "rope_type",
                         "default", "rope_theta", base);
    }
    json_object_set_new(config, "rope_parameters", rope);
}
