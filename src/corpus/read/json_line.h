#ifndef CORPUS_READ_JSON_LINE_H
#define CORPUS_READ_JSON_LINE_H
/* One JSON object in one line, of which some texts are wanted. The whole line is held to the grammar (RFC 8259) and to
 * UTF-8, but only what is wanted is decoded. Of a key that stands there twice the last one counts. \u0000 is text as any
 * other; half a surrogate pair, NaN and a byte below 0x20 are no JSON. Numbers may be of any size. Time is linear in the line;
 * no memory is taken, and brackets within brackets are refused beyond JSON_DEPTH_MOST.                                  */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { const char *text; int64_t bytes; } JsonText;
/* why NULL: the line is whole. at: byte of the line, 0: the key is missing; key: the wanted one that is
 * missing or no text, else -1 */
typedef struct { const char *why; int64_t at; int key; } JsonFault;

enum { JSON_DEPTH_MOST = 2048, JSON_KEYS_MOST = 16, JSON_PATHS_MOST = 32, JSON_PARTS_MOST = 4 };

/* A value where it stands: a text between its quotes, a number or word whole, of an object or array the bracket */
typedef struct { int64_t at, bytes; bool found, text, escaped; } JsonSpan;
/* A name, or the names of objects in objects: "meta.warc_headers.warc-date" */
typedef struct { JsonText part[JSON_PARTS_MOST]; int parts; } JsonPath;

/* text[i] is what stands under key[i]. Texts are decoded in the line itself, which changes; after a fault it has not. */
JsonFault json_line_texts(JsonText *text, const char *const *key, int keys, char *line, int64_t bytes);
/* The same for what may be there or not, also in objects in objects; nothing changes. Then one text after the other: */
JsonPath  json_path(const char *key);                                   /* which stays the caller's */
JsonFault json_line_paths(JsonSpan *span, const JsonPath *path, int paths, const char *line, int64_t bytes);
JsonText  json_span_text (char *line, JsonSpan span);                   /* decoded in the line, once */
/* The names in a line without grammar faults, as "id", "body" */
void json_line_names(char *out, size_t size, const char *line, int64_t bytes);
#endif
