#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H
/* The one text and byte string that grows. It begins as { 0 }, never shrinks, and is usually kept by a thread
 * and used again for every document, so that after a few of them nothing is allocated any more. Functions
 * that append fail only with NO_MEMORY, which leaves the buffer as it was; those named ..._or_stop end the
 * job instead. JSON is appended by base/json_text.h. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"

typedef struct {
    char   *text;                       /* owned; no NUL at its end */
    int64_t bytes, capacity;            /* bytes in use; bytes of memory */
} Buffer;

/* The general case of buffer_reserve. */
Status buffer_grow(Buffer *buffer, int64_t more);

/* Reserves memory for `more` bytes after those in use; buffer->text may move. */
static inline Status buffer_reserve(Buffer *buffer, int64_t more)
{
    return more <= buffer->capacity - buffer->bytes ? OK : buffer_grow(buffer, more);
}

/* `text` must not be inside the buffer itself, which may move. */
static inline Status buffer_add(Buffer *buffer, const void *text, int64_t bytes)
{
    TRY(buffer_reserve(buffer, bytes));
    if (bytes) memcpy(buffer->text + buffer->bytes, text, (size_t)bytes);
    buffer->bytes += bytes;
    return OK;
}

static inline Status buffer_add_text(Buffer *buffer, const char *text)
{
    return buffer_add(buffer, text, (int64_t)strlen(text));
}

/* Formatted as by printf, however long it is. */
Status buffer_format(Buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The lowest `count` bytes of the number, the lowest first. */
Status buffer_add_number(Buffer *buffer, uint64_t number, int count);
/* Text from anywhere for an HTML page or its attributes: & < > " ' become references, and what is no
 * character U+FFFD. */
Status buffer_add_html(Buffer *buffer, const char *text, int64_t bytes);
static inline void buffer_add_or_stop(Buffer *buffer, const void *data, int64_t bytes)
{
    CHECK(buffer_add(buffer, data, bytes) == OK, "%s", fail_text());
}
static inline void buffer_add_text_or_stop(Buffer *buffer, const char *text)
{
    buffer_add_or_stop(buffer, text, (int64_t)strlen(text));
}
static inline void buffer_add_number_or_stop(Buffer *buffer, uint64_t number, int count)
{
    CHECK(buffer_add_number(buffer, number, count) == OK, "%s", fail_text());
}

/* Puts a NUL after the bytes in use, which is not one of them, and returns the text; NULL without memory. */
const char *buffer_string(Buffer *buffer);
void   buffer_free(Buffer *buffer);     /* it can be used again afterwards, as { 0 } */
#endif
