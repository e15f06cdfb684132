#ifndef CORPUS_READ_BUFFER_H
#define CORPUS_READ_BUFFER_H
/* A text that grows; one a thread, used again for each document, never made smaller. Begin with { 0 }. */
#include <stdint.h>
#include "base/status.h"

typedef struct { char *text; int64_t bytes, room; } Buffer;

Status buffer_add (Buffer *buffer, const char *text, int64_t bytes);      /* text: not of the buffer itself */
Status buffer_room(Buffer *buffer, int64_t more);                         /* that much behind what is there; text may move */
void   buffer_free(Buffer *buffer);
#endif
