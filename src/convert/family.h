#ifndef CONVERT_FAMILY_H
#define CONVERT_FAMILY_H
/* The families of models of transformers: config.json to our options and back, by the rows of families.def.
 * Options are texts here, {"num-layers": 12, ...}; what they mean this module does not know. */
#include <jansson.h>
#include "base/status.h"
#include "convert/links.h"

typedef enum {
#define FAMILY(family, ...) FAMILY_##family,
#include "convert/families.def"
    FAMILIES
} Family;

Naming      family_naming(Family family);
/* The family of a config.json, and its options, which an empty object gets. BAD_FILE, naming path and key: an
 * architecture or a key that is not known, a value that is not supported. */
Status family_read (Family *family, json_t *options, const json_t *config, const char *path);
/* The config.json of a model with these options, a new reference, without types and special tokens.
 * BAD_OPTION, naming the option: models of this family have another value. */
Status family_write(json_t **config, Family family, const json_t *options);
#endif
