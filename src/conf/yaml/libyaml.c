/* Reads a YAML file by libyaml. Its events are counted first, because the loader that follows keeps them all:
 * a file that would cost much is refused before. Then the tree is walked into a flat list. */
#include "conf/yaml/yaml_file.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>
#include "base/array.h"
#include "base/file.h"

/* What yaml_file_close frees. Texts of entries are those of the document, but for joined keys. */
typedef struct {
    yaml_document_t document;
    char          **key;
    int             keys;
    const char    **values;
    int             used;
} Tree;

typedef struct {
    YamlFile *file;
    Tree     *tree;
    int       visits;
} Reader;

static Status bad(const YamlFile *file, size_t line, const char *what)
{
    return fail(BAD_FILE, "%s:%zu: %s", file->path, line + 1, what);
}

/* ---- what the file costs ---- */

static Status parser_failed(const YamlFile *file, const yaml_parser_t *parser)
{
    const char *problem = parser->problem ? parser->problem : "it is no YAML";
    if (parser->error == YAML_MEMORY_ERROR) return fail(NO_MEMORY, "%s: no memory to read it", file->path);
    size_t line = parser->problem_mark.line ? parser->problem_mark.line : parser->mark.line;
    if (strstr(problem, "cannot start any token"))
        problem = "a tab, or a character such as @ or %, begins what should be a key or value; indent with "
                  "blanks, and put such a value in quotes";
    return bad(file, line, problem);
}

typedef struct {
    int nodes, depth, anchors, documents;
} Cost;

/* Explicit types beyond YAML's own would ask for code that makes objects of them. */
static bool foreign_tag(const yaml_char_t *tag)
{
    static const char *const known[] = {YAML_NULL_TAG,  YAML_BOOL_TAG, YAML_STR_TAG, YAML_INT_TAG,
                                        YAML_FLOAT_TAG, YAML_SEQ_TAG,  YAML_MAP_TAG, "!"};
    for (size_t i = 0; tag && i < COUNT(known); i++)
        if (!strcmp((const char *)tag, known[i])) return false;
    return tag != NULL;
}

static Status count_event(const YamlFile *file, Cost *cost, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        cost->depth--;
        return OK;
    case YAML_ALIAS_EVENT:
        break;
    case YAML_DOCUMENT_START_EVENT:
        cost->documents++;
        break;
    default:
        return OK;
    }
    size_t line = event->start_mark.line;
    cost->nodes++;
    cost->anchors += anchor != NULL;
    cost->depth += event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
    if (foreign_tag(tag)) return bad(file, line, "a type such as !name is not understood; leave it out");
    if (cost->documents > 1) return bad(file, line, "a second document begins; give one file for each");
    if (cost->nodes > YAML_NODES) return bad(file, line, "it has more than 20,000 values and keys");
    if (cost->depth > YAML_DEPTH) return bad(file, line, "it is nested more than 24 levels deep");
    if (cost->anchors > YAML_ANCHORS) return bad(file, line, "it has more than 64 anchors");
    return OK;
}

static Status count_events(const YamlFile *file, const void *text, size_t bytes)
{
    yaml_parser_t parser;
    yaml_event_t  event;
    Cost          cost   = {0};
    Status        status = OK;
    if (!yaml_parser_initialize(&parser)) return fail(NO_MEMORY, "no memory to read %s", file->path);
    yaml_parser_set_input_string(&parser, text, bytes);
    for (bool more = true; more && status == OK;) {
        if (!yaml_parser_parse(&parser, &event)) {
            status = parser_failed(file, &parser);
            break;
        }
        more   = event.type != YAML_STREAM_END_EVENT;
        status = count_event(file, &cost, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

/* ---- the tree as a list ---- */

static yaml_node_t *node_of(Reader *r, int index)
{
    return yaml_document_get_node(&r->tree->document, index);
}

static const char *text_of(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static bool plain(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const yaml_node_t *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; plain(node) && i < COUNT(nulls); i++)
        if (!strcmp(text_of(node), nulls[i])) return true;
    return false;
}

/* Aliases are followed, so that a small file can name many values: "<: [*a, *a]". */
static Status visit(Reader *r, const yaml_node_t *node)
{
    if (++r->visits > YAML_VALUES || r->file->count >= YAML_ENTRIES || r->tree->used >= YAML_VALUES)
        return bad(r->file, node->start_mark.line,
                   "it has more than 2,048 keys, or with its aliases 16,384 values");
    if (node->type == YAML_SCALAR_NODE && strlen(text_of(node)) != node->data.scalar.length)
        return bad(r->file, node->start_mark.line, "a text has a zero byte");
    return OK;
}

/* A key is there where an entry has it, or has it before a dot. from: the first entry that counts. */
static const YamlEntry *key_taken(const YamlFile *file, const char *key, int from)
{
    size_t letters = strlen(key);
    for (int i = from; i < file->count; i++) {
        const char *have = file->entry[i].key;
        if (!strncmp(have, key, letters) && (!have[letters] || have[letters] == '.')) return &file->entry[i];
    }
    return NULL;
}

static Status sequence_values(Reader *r, YamlEntry *e, const yaml_node_t *node)
{
    e->list = true;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        const yaml_node_t *item = node_of(r, *i);
        TRY(visit(r, item));
        e->nested |= item->type != YAML_SCALAR_NODE;
        if (!e->nested) r->tree->values[r->tree->used++] = text_of(item), e->count++;
    }
    if (e->nested) e->count = 0;
    return OK;
}

static Status add_entry(Reader *r, const char *key, const yaml_node_t *name, const yaml_node_t *node)
{
    YamlEntry *e    = &r->file->entry[r->file->count];
    char      *copy = strdup(key);
    if (!copy) return fail(NO_MEMORY, "no memory to read %s", r->file->path);
    r->tree->key[r->tree->keys++] = copy;
    e->key   = copy;
    e->line  = (int)name->start_mark.line + 1;
    e->value = r->tree->values + r->tree->used;
    r->file->count++;
    if (node->type == YAML_SEQUENCE_NODE) return sequence_values(r, e, node);
    e->missing = is_null(node) || node->type == YAML_MAPPING_NODE; /* an empty mapping */
    e->quoted  = node->type == YAML_SCALAR_NODE && !plain(node);
    if (!e->missing && node->type == YAML_SCALAR_NODE)
        r->tree->values[r->tree->used++] = text_of(node), e->count = 1;
    return OK;
}

static Status read_mapping(Reader *r, const yaml_node_t *node, const char *prefix, int depth, bool merged,
                           int from);

/* One pair. merged: of another mapping by <<, so that a key that is there keeps its value. from: the first
 * entry of the mapping that the pair is read into. */
static Status read_pair(Reader *r, const yaml_node_pair_t *pair, const char *prefix, int depth, bool merged,
                        int from)
{
    const yaml_node_t *name = node_of(r, pair->key), *node = node_of(r, pair->value);
    char               key[YAML_KEY];
    TRY(visit(r, name));
    TRY(visit(r, node));
    if (name->type != YAML_SCALAR_NODE) return bad(r->file, name->start_mark.line, "a key is no plain word");
    int bytes = snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", text_of(name));
    if (bytes >= YAML_KEY)
        return bad(r->file, name->start_mark.line, "a key, with those around it, has more than 511 bytes");
    const YamlEntry *had = key_taken(r->file, key, from);
    if (had && merged) return OK;
    if (had)
        return fail(BAD_FILE, "%s:%zu: %s is there twice, first in line %d; leave one out", r->file->path,
                    name->start_mark.line + 1, key, had->line);
    if (node->type == YAML_MAPPING_NODE && node->data.mapping.pairs.top > node->data.mapping.pairs.start)
        return read_mapping(r, node, key, depth + 1, false, r->file->count);
    return add_entry(r, key, name, node);
}

static bool is_merge(Reader *r, const yaml_node_pair_t *pair)
{
    const yaml_node_t *name = node_of(r, pair->key);
    return plain(name) && !strcmp(text_of(name), "<<");
}

/* "<<: *a" or "<<: [*a, *b]": of several the first counts. */
static Status read_merge(Reader *r, const yaml_node_t *node, const char *prefix, int depth, int from)
{
    TRY(visit(r, node));
    if (node->type == YAML_MAPPING_NODE) return read_mapping(r, node, prefix, depth + 1, true, from);
    if (node->type != YAML_SEQUENCE_NODE)
        return bad(r->file, node->start_mark.line, "<< takes a mapping, or a list of them");
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        const yaml_node_t *item = node_of(r, *i);
        TRY(visit(r, item));
        if (item->type != YAML_MAPPING_NODE)
            return bad(r->file, item->start_mark.line, "<< takes a mapping, or a list of them");
        TRY(read_mapping(r, item, prefix, depth + 1, true, from));
    }
    return OK;
}

/* Own keys first, since they are stronger than those of <<. An alias may name a mapping around itself. */
static Status read_mapping(Reader *r, const yaml_node_t *node, const char *prefix, int depth, bool merged,
                           int from)
{
    yaml_node_pair_t *begin = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
    if (depth > YAML_DEPTH)
        return bad(r->file, node->start_mark.line, "it is nested more than 24 levels deep, or in itself");
    for (yaml_node_pair_t *pair = begin; pair < end; pair++)
        if (!is_merge(r, pair)) TRY(read_pair(r, pair, prefix, depth, merged, from));
    for (yaml_node_pair_t *pair = begin; pair < end; pair++)
        if (is_merge(r, pair)) TRY(read_merge(r, node_of(r, pair->value), prefix, depth, from));
    return OK;
}

/* ---- the file ---- */

static Status read_document(YamlFile *file, Tree *tree)
{
    const yaml_node_t *root   = yaml_document_get_root_node(&tree->document);
    Reader             reader = {file, tree, 0};
    if (!root || is_null(root)) return OK;
    if (root->type != YAML_MAPPING_NODE)
        return bad(file, root->start_mark.line, "it is no list of keys and values, such as num-layers: 12");
    file->entry  = calloc(YAML_ENTRIES, sizeof *file->entry);
    tree->key    = calloc(YAML_ENTRIES, sizeof *tree->key);
    tree->values = calloc(YAML_VALUES, sizeof *tree->values);
    if (!file->entry || !tree->key || !tree->values)
        return fail(NO_MEMORY, "no memory to read %s", file->path);
    return read_mapping(&reader, root, "", 1, false, 0);
}

static Status load(YamlFile *file, const void *text, size_t bytes)
{
    yaml_parser_t parser;
    Tree         *tree = calloc(1, sizeof *tree);
    if (!tree || !yaml_parser_initialize(&parser)) {
        free(tree);
        return fail(NO_MEMORY, "no memory to read %s", file->path);
    }
    yaml_parser_set_input_string(&parser, text, bytes);
    bool   loaded = yaml_parser_load(&parser, &tree->document);
    Status status = loaded ? OK : parser_failed(file, &parser);
    yaml_parser_delete(&parser);
    if (!loaded) {
        free(tree);
        return status;
    }
    file->tree = tree;
    return read_document(file, tree);
}

Status yaml_text_open(YamlFile *file, const char *path, const void *text, size_t bytes)
{
    *file = (YamlFile){0};
    snprintf(file->path, sizeof file->path, "%s", path);
    Status status =
        bytes > YAML_FILE_BYTES
            ? fail(BAD_FILE, "%s: it has %zu bytes; a file of options has at most 256 KiB", path, bytes)
            : count_events(file, text, bytes);
    if (status == OK) status = load(file, text, bytes);
    if (status != OK) yaml_file_close(file);
    return status;
}

Status yaml_file_open(YamlFile *file, const char *path)
{
    FileMap map;
    *file = (YamlFile){0};
    TRY(file_map(&map, path));
    Status status = yaml_text_open(file, path, map.data, map.size);
    file_unmap(&map);
    return status;
}

void yaml_file_close(YamlFile *file)
{
    Tree *tree = file->tree;
    if (tree) {
        for (int i = 0; i < tree->keys; i++) free(tree->key[i]);
        free(tree->key);
        free(tree->values);
        yaml_document_delete(&tree->document);
        free(tree);
    }
    free(file->entry);
    *file = (YamlFile){0};
}

const YamlEntry *yaml_file_find(const YamlFile *file, const char *key)
{
    for (int i = 0; i < file->count; i++)
        if (!strcmp(file->entry[i].key, key)) return &file->entry[i];
    return NULL;
}
