#ifndef CONVERT_FAMILY_KEYS_H
#define CONVERT_FAMILY_KEYS_H
/* Rows of values, which families.def and gguf/architectures.def have, and keys of config.json that are read
 * together, as rotary embeddings and the kinds of layers. Options are JSON objects as in family.h. */
#include <jansson.h>
#include <stdbool.h>
#include "base/status.h"

/* ---- values: JSON, in rows as well as of models ---- */

/* The JSON of a row, a new reference. */
json_t *value_row_json(const char *text);
/* Whether the row's value, or one of its list, is `held`. */
bool    value_row_allows(const char *value, const json_t *held);
/* 0 and 0.0 are equal. */
bool    value_equal(const json_t *a, const json_t *b);
/* A value for messages: at most 60 bytes of its JSON. */
const char *value_text(char out[64], const json_t *value);

/* ---- keys that are read together ---- */

/* missing: the JSON of the row; the caller's, as the rest */
typedef struct {
    json_t       *options;
    const json_t *config, *missing;
    const char   *path, *key;
} KeySource;

/* Gives an option its value, of which it takes the reference. Two keys may give one option, which then has to
 * have one value: BAD_FILE. */
Status option_put(const KeySource *s, const char *option, json_t *value);

/* The positions of a sliding window, the query's own counted. */
Status window_read(const KeySource *s, const json_t *value);

/* ---- family_rope.c ---- */

/* rope_parameters, or rope_theta and rope_scaling, or both, which then have to say the same; missing: the
 * base without one, or two, of layers without and with a window ([1e6, 1e4]), which then have rotary
 * embeddings of their own; or {"base": B} in a family of which a part of the channels may turn
 * (partial_rotary_factor) */
Status  rope_read (const KeySource *s);
/* Sets all of these keys of a config. */
void    rope_write(json_t *config, const json_t *options, const json_t *missing);

/* ---- family_layers.c ---- */

/* layer_types, sliding_window and what says which layers have it. missing: {window, rule, every}: the window,
 * what decides without layer_types (max_window_layers, sliding_window_pattern, no_rope_layers), and its
 * number without that key */
Status  windows_read(const KeySource *s);
json_t *layer_types_json(const json_t *options);
json_t *window_json     (const json_t *options);
/* layers before the first with a window; NULL: none has */
json_t *full_first_json (const json_t *options);
/* no_rope_layers: a 1 for each layer with rotary embeddings */
Status  no_rope_read(const KeySource *s);
json_t *no_rope_json(const json_t *options);
/* first_k_dense_replace: layers before the first with experts */
Status  dense_read(const KeySource *s);
json_t *dense_json(const json_t *options);
/* decoder_sparse_step and mlp_only_layers; which layers have no experts */
Status  sparse_read(const KeySource *s);
json_t *mlp_only_json(const json_t *options);
#endif
