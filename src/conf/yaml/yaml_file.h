#ifndef CONF_YAML_YAML_FILE_H
#define CONF_YAML_YAML_FILE_H
/* A YAML file of settings as a flat list: keys of nested mappings joined by dots, each with its values as
 * text. What a value means is left to the caller. The reader is libyaml's (libyaml.c); in a build without it
 * yaml_file_open refuses every file (absent.c).
 *
 *     num-layers: 12                         "num-layers",  1 value, line 1
 *     optim:
 *       betas: [0.9, 0.95]                   "optim.betas", 2 values, list, line 3
 *
 * Anchors, aliases and merge keys (<<) are followed. A file costs at most YAML_FILE_BYTES, YAML_NODES nodes,
 * YAML_DEPTH levels and YAML_ANCHORS anchors, and after its aliases are followed YAML_ENTRIES keys and
 * YAML_VALUES values: at most about 12 MiB and half a second. What is larger is refused. */
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

enum {
    YAML_FILE_BYTES = 256 << 10,
    YAML_NODES      = 20000,
    YAML_DEPTH      = 24,
    YAML_ANCHORS    = 64,
    YAML_ENTRIES    = 2048,
    YAML_VALUES     = 16384,
    YAML_KEY        = 512 /* YAML_KEY: bytes of a joined key */
};

/* nested: a list that has other than plain values, which are not given; missing: null, ~ or nothing. */
typedef struct {
    const char  *key;
    int          line; /* of the key, from 1 */
    bool         list, nested, missing, quoted;
    int          count;
    const char **value; /* [count] */
} YamlEntry;

typedef struct {
    char       path[1024];
    YamlEntry *entry; /* [count], in the order of the file; of one key each */
    int        count;
    void      *tree; /* owns the texts */
} YamlFile;

/* BAD_FILE, with path and line, where it is no YAML, is larger than said above, has one key twice in a
 * mapping, or is not a mapping. */
Status yaml_file_open(YamlFile *file, const char *path);
/* The same with the bytes of the file, which are the caller's and not needed afterwards. */
Status yaml_text_open(YamlFile *file, const char *path, const void *text, size_t bytes);
void   yaml_file_close(YamlFile *file); /* also of a file that could not be opened */
/* The entry of this whole key; NULL: there is none. */
const YamlEntry *yaml_file_find(const YamlFile *file, const char *key);
#endif
