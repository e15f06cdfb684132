#ifndef CORPUS_READ_JSON_LINE_H
#define CORPUS_READ_JSON_LINE_H
/* Reads some string values out of one line that holds one JSON object. The whole line is checked against
 * the grammar (RFC 8259), but only the wanted values are decoded. Of a repeated key the
 * last value counts. \u0000 is accepted as any other character; half a surrogate pair, NaN and bytes below
 * 0x20 in a string are refused. Numbers may have any size. Time is linear in the line, nothing is
 * allocated, and nesting deeper than JSON_DEPTH_MOST is refused. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/json_text.h"

typedef struct {
    const char *why;    /* a static message; NULL: no fault */
    int64_t     at;     /* byte of the line; 0 where the key is missing */
    int         key;    /* index of the wanted key that is missing or is no string; -1: a grammar fault */
} JsonFault;

enum { JSON_DEPTH_MOST = 2048, JSON_KEYS_MOST = 16, JSON_PATHS_MOST = 32, JSON_PARTS_MOST = 4 };

/* Where a value is in the line: a string between its quotes, a number or literal whole, of an object or
 * array only the opening bracket. */
typedef struct {
    int64_t at, bytes;
    bool    found, text, escaped;       /* text: a string; escaped: it has escapes, so it must be decoded */
} JsonSpan;

/* A key, or the keys of nested objects: "meta.warc_headers.warc-date" has three parts. */
typedef struct { JsonText part[JSON_PARTS_MOST]; int parts; } JsonPath;

/* text[i] becomes the string under key[i], decoded inside the line, which changes. A line that is not UTF-8
 * is a fault. After a fault the line is unchanged. */
JsonFault json_line_texts(JsonText *text, const char *const *key, int keys, char *line, int64_t bytes);

/* The same for values that may be absent and may be in nested objects, of a line that is UTF-8, which the
 * caller has checked. The line is not changed: span[i]
 * says where the value of path[i] is, and json_span_text then decodes those strings that are wanted, each
 * at most once, inside the line. json_path splits the key at dots and points into it, so `key` must outlive
 * the path. */
JsonPath  json_path(const char *key);
JsonFault json_line_paths(JsonSpan *span, const JsonPath *path, int paths, const char *line, int64_t bytes);
JsonText  json_span_text (char *line, JsonSpan span);

/* Writes the outermost keys of a valid line, as "id", "body", for messages; cut to `size` bytes, which
 * include the NUL. */
void json_line_names(char *out, size_t size, const char *line, int64_t bytes);
#endif
