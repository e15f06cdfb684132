/* Which layers have windows, rotary embeddings and experts. Options say it by a list with a 0 or 1 for each
 * layer, "[1,0,1]", or by a word for all of them. */
#include "convert/family/family_keys.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"

enum { LAYERS_MOST = 1024 };
typedef struct { int64_t count; bool has[LAYERS_MOST]; } Layers;

static Status layers_count(Layers *layers, const KeySource *s)
{
    *layers = (Layers){ json_integer_value(json_object_get(s->config, "num_hidden_layers")), { false } };
    if (layers->count >= 1 && layers->count <= LAYERS_MOST) return OK;
    return fail(BAD_FILE, "%s: num_hidden_layers is no number from 1 to %d", s->path, LAYERS_MOST);
}

static int64_t layers_with(const Layers *layers)
{
    int64_t count = 0;
    for (int64_t l = 0; l < layers->count; l++) count += layers->has[l];
    return count;
}

/* "[1,0,1]" */
static json_t *layers_text(const Layers *layers)
{
    char text[2 * LAYERS_MOST + 2] = "[";
    for (int64_t l = 0; l < layers->count; l++)
        message_add(text, sizeof text, "%s%d", l ? "," : "", layers->has[l]);
    message_add(text, sizeof text, "]");
    return json_string(text);
}

/* The layers of an option: a list, or `all`, the word that means all of them, else none. */
static Layers layers_of(const json_t *options, const char *option, const char *all)
{
    Layers layers = { json_integer_value(json_object_get(options, "num-layers")), { false } };
    const char *text = json_string_value(json_object_get(options, option));
    if (layers.count < 0 || layers.count > LAYERS_MOST) layers.count = 0;
    bool every = text && !strcmp(text, all), list = text && *text == '[';
    for (int64_t l = 0; every && l < layers.count; l++) layers.has[l] = true;
    for (int64_t l = 0; list && *text && l < layers.count; text++)
        if (*text == '0' || *text == '1') layers.has[l++] = *text == '1';
    return layers;
}

/* A number of the config that must not be negative; `missing` where it has none. */
static Status count_read(int64_t *count, const KeySource *s, const char *key, int64_t missing)
{
    const json_t *value = json_object_get(s->config, key);
    *count = json_is_integer(value) ? json_integer_value(value) : missing;
    if (*count >= 0 && (!value || json_is_null(value) || json_is_integer(value))) return OK;
    return fail(BAD_FILE, "%s: %s is no number of layers", s->path, key);
}

/* ---- layers without rotary embeddings ---- */

/* has: rotary embeddings */
static Status rope_layers(Layers *layers, const KeySource *s)
{
    const json_t *list = json_object_get(s->config, "no_rope_layers");
    int64_t every;
    TRY(layers_count(layers, s));
    TRY(count_read(&every, s, "no_rope_layer_interval", 4));
    if (every == 0) return fail(BAD_FILE, "%s: no_rope_layer_interval is 0; it is 1 or more", s->path);
    if (json_is_array(list) && json_array_size(list) < (size_t)layers->count)
        return fail(BAD_FILE, "%s: no_rope_layers is of fewer than %lld layers", s->path,
                    (long long)layers->count);
    for (int64_t l = 0; l < layers->count; l++)
        layers->has[l] = json_is_array(list)
            ? json_integer_value(json_array_get(list, (size_t)l)) == 1 : (l + 1) % every != 0;
    return OK;
}

Status no_rope_read(const KeySource *s)
{
    Layers layers;
    TRY(rope_layers(&layers, s));
    bool all = layers_with(&layers) == layers.count;
    for (int64_t l = 0; l < layers.count; l++) layers.has[l] = !layers.has[l];
    return option_put(s, "no-rope-freq", all ? json_string("0") : layers_text(&layers));
}

json_t *no_rope_json(const json_t *options)
{
    Layers  none = layers_of(options, "no-rope-freq", "1");
    json_t *list = json_array();
    for (int64_t l = 0; l < none.count; l++) json_array_append_new(list, json_integer(!none.has[l]));
    return list;
}

/* ---- windows ---- */

static Status layer_types_read(Layers *layers, const KeySource *s, const json_t *types)
{
    char    now[64];
    size_t  l;
    json_t *kind;
    if (json_array_size(types) != (size_t)layers->count)
        return fail(BAD_FILE, "%s: layer_types is of %zu layers, and there are %lld", s->path,
                    json_array_size(types), (long long)layers->count);
    json_array_foreach((json_t *)types, l, kind) {
        const char *word = json_string_value(kind);
        layers->has[l] = word && !strcmp(word, "sliding_attention");
        if (!layers->has[l] && !(word && !strcmp(word, "full_attention")))
            return fail(BAD_FILE, "%s: layer_types has %s; sliding_attention and full_attention are "
                        "supported", s->path, value_text(now, kind));
    }
    return OK;
}

/* What transformers derives where layer_types is missing. */
static Status layer_types_derive(Layers *layers, const KeySource *s)
{
    const char *rule = json_string_value(json_object_get(s->missing, "rule"));
    int64_t     number = json_integer_value(json_object_get(s->missing, "every"));
    if (!strcmp(rule, "no_rope_layers")) {
        TRY(rope_layers(layers, s));
        for (int64_t l = 0; l < layers->count; l++) layers->has[l] = !layers->has[l];
        return OK;
    }
    TRY(count_read(&number, s, rule, number));
    bool last = !strcmp(rule, "max_window_layers");                /* the layers from this one on */
    if (!last && number == 0) return fail(BAD_FILE, "%s: %s is 0; it is 1 or more", s->path, rule);
    for (int64_t l = 0; l < layers->count; l++) layers->has[l] = last ? l >= number : (l + 1) % number != 0;
    return OK;
}

Status windows_read(const KeySource *s)
{
    Layers layers;
    const json_t *types = json_object_get(s->config, "layer_types");
    const json_t *window = json_object_get(s->config, "sliding_window");
    const json_t *optional = json_object_get(s->missing, "optional");
    if (!window) window = json_object_get(s->missing, "window");
    if (optional && !json_is_true(json_object_get(s->config, "use_sliding_window"))) window = NULL;
    TRY(layers_count(&layers, s));
    if (json_is_array(types)) TRY(layer_types_read(&layers, s, types));
    else if (window && !json_is_null(window)) TRY(layer_types_derive(&layers, s));
    if (layers_with(&layers) && window && !json_is_null(window)) {
        KeySource beside = *s;
        beside.key = "sliding_window";
        TRY(window_read(&beside, window));
        bool all = layers_with(&layers) == layers.count;
        return option_put(s, "window-attn-skip-freq", all ? json_string("0") : layers_text(&layers));
    }
    if (layers_with(&layers))
        return fail(BAD_FILE, "%s: layer_types has sliding_attention, but there is no window; give "
                    "sliding_window%s, or full_attention", s->path,
                    optional ? " and use_sliding_window" : "");
    TRY(option_put(s, "window-size", json_string("-1,0")));
    return option_put(s, "window-attn-skip-freq", json_string("0"));
}

json_t *window_json(const json_t *options)
{
    long long   before = -1;
    const char *text = json_string_value(json_object_get(options, "window-size"));
    if (!text || sscanf(text, "%lld,", &before) != 1 || before < 0) return json_null();
    return json_integer(before + 1);
}

static Layers windowed(const json_t *options)
{
    Layers  layers = layers_of(options, "window-attn-skip-freq", "0");
    json_t *window = window_json(options);
    if (json_is_null(window)) memset(layers.has, 0, sizeof layers.has);
    json_decref(window);
    return layers;
}

json_t *layer_types_json(const json_t *options)
{
    Layers  layers = windowed(options);
    json_t *list   = json_array();
    for (int64_t l = 0; l < layers.count; l++)
        json_array_append_new(list, json_string(layers.has[l] ? "sliding_attention" : "full_attention"));
    return list;
}

json_t *full_first_json(const json_t *options)
{
    Layers  layers = windowed(options);
    int64_t l = 0;
    if (layers_with(&layers) == 0) return NULL;
    while (l < layers.count && !layers.has[l]) l++;
    return json_integer(l);
}

/* ---- layers without experts ---- */

static Status experts_put(const KeySource *s, const Layers *layers)
{
    int64_t with = layers_with(layers);
    if (with == 0)
        return fail(BAD_FILE, "%s: %s leaves no layer with experts; one or more of the %lld layers has them",
                    s->path, s->key, (long long)layers->count);
    return option_put(s, "moe-layer-freq", with < layers->count ? layers_text(layers) : json_string("1"));
}

Status dense_read(const KeySource *s)
{
    Layers  layers;
    int64_t dense;
    TRY(layers_count(&layers, s));
    TRY(count_read(&dense, s, s->key, json_integer_value(s->missing)));
    for (int64_t l = dense; l < layers.count; l++) layers.has[l] = true;
    return experts_put(s, &layers);
}

json_t *dense_json(const json_t *options)
{
    Layers  layers = layers_of(options, "moe-layer-freq", "1");
    int64_t l = 0;
    while (l < layers.count && !layers.has[l]) l++;
    return json_integer(l);
}

Status sparse_read(const KeySource *s)
{
    Layers  layers;
    size_t  i;
    int64_t step;
    json_t *layer;
    const json_t *dense = json_object_get(s->config, "mlp_only_layers");
    TRY(layers_count(&layers, s));
    TRY(count_read(&step, s, s->key, 1));
    if (step == 0) return fail(BAD_FILE, "%s: %s is 0; it is 1 or more", s->path, s->key);
    if (dense && !json_is_null(dense) && !json_is_array(dense))
        return fail(BAD_FILE, "%s: mlp_only_layers is no list of layers", s->path);
    for (int64_t l = 0; l < layers.count; l++) layers.has[l] = (l + 1) % step == 0;
    json_array_foreach((json_t *)dense, i, layer) {
        int64_t l = json_integer_value(layer);
        if (json_is_integer(layer) && l >= 0 && l < layers.count) layers.has[l] = false;
    }
    return experts_put(s, &layers);
}

json_t *mlp_only_json(const json_t *options)
{
    Layers  layers = layers_of(options, "moe-layer-freq", "1");
    json_t *list   = json_array();
    for (int64_t l = 0; l < layers.count; l++)
        if (!layers.has[l]) json_array_append_new(list, json_integer(l));
    return list;
}
