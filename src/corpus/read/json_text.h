#ifndef CORPUS_READ_JSON_TEXT_H
#define CORPUS_READ_JSON_TEXT_H
/* JSON put together piece by piece in a buffer. */
#include "corpus/read/buffer.h"
#include "corpus/read/json_line.h"

Status json_text_words (Buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));    /* as they are */
Status json_text_string(Buffer *out, JsonText text);                 /* "..." of UTF-8 */
Status json_text_member(Buffer *out, const char *name, JsonText text);        /* , "name": "..." where text is not NULL */
Status json_text_label (Buffer *out, const char *label);             /* "..." of a model's word, which may be any bytes */
static inline JsonText json_text_of(const char *text, int64_t bytes) { return (JsonText){ text, bytes }; }
#endif
