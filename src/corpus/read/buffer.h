#ifndef CORPUS_READ_BUFFER_H
#define CORPUS_READ_BUFFER_H
/* A byte string that grows. Each thread has its own and uses it again for every document, so that after a
 * few documents nothing is allocated any more; it never shrinks. It begins as { 0 }. */
#include <stdint.h>
#include "base/status.h"

typedef struct {
    char   *text;                       /* owned; no NUL at its end */
    int64_t bytes, capacity;            /* bytes in use; bytes of memory */
} Buffer;

/* Appends. `text` must not be inside the buffer itself, which may move. NO_MEMORY leaves the buffer
 * unchanged. */
Status buffer_add (Buffer *buffer, const char *text, int64_t bytes);
/* Reserves capacity for `more` bytes after those in use; buffer->text may move. NO_MEMORY leaves the buffer
 * unchanged. */
Status buffer_reserve(Buffer *buffer, int64_t more);
void   buffer_free(Buffer *buffer);     /* it can be used again afterwards, as { 0 } */
#endif
