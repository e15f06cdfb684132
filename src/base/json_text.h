#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H
/* Writes JSON piece by piece into a buffer; names, numbers and brackets by buffer_format. All functions
 * append, and fail only with NO_MEMORY. */
#include "base/buffer.h"

typedef struct { const char *text; int64_t bytes; } JsonText;      /* not owned, no NUL at its end */

Status json_text_string(Buffer *out, JsonText text);  /* "...", escaped; the text must be UTF-8 */
/* , "name": "..."; a NULL text writes nothing */
Status json_text_member(Buffer *out, const char *name, JsonText text);
/* "..." of a path, or a label from a model file, which may hold any bytes: what is not UTF-8 becomes
 * U+FFFD. */
Status json_text_label (Buffer *out, const char *label);
/* , "name": "..." of such a path */
Status json_text_path  (Buffer *out, const char *name, const char *path);
static inline JsonText json_text_of(const char *text, int64_t bytes) { return (JsonText){ text, bytes }; }
#endif
