/* A byte string that grows by half its size whenever it is too small, so that appending n bytes costs O(n)
 * in all. */
#include "corpus/read/buffer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Smaller than most documents: below it, growing would cost more calls than it saves memory. */
enum { CAPACITY_LEAST = 4096 };

Status buffer_reserve(Buffer *b, int64_t more)
{
    int64_t wanted = b->bytes + more;
    if (wanted <= b->capacity) return OK;
    int64_t capacity = wanted + wanted / 2;
    if (capacity < CAPACITY_LEAST) capacity = CAPACITY_LEAST;
    char *grown = realloc(b->text, (size_t)capacity);
    if (!grown) return fail(NO_MEMORY, "no memory for a text of %" PRId64 " bytes", wanted);
    b->text = grown;
    b->capacity = capacity;
    return OK;
}

Status buffer_add(Buffer *b, const char *text, int64_t bytes)
{
    TRY(buffer_reserve(b, bytes));
    if (bytes) memcpy(b->text + b->bytes, text, (size_t)bytes);
    b->bytes += bytes;
    return OK;
}

void buffer_free(Buffer *b)
{
    free(b->text);
    *b = (Buffer){ 0 };
}
