#ifndef CORPUS_CLEAN_SINK_H
#define CORPUS_CLEAN_SINK_H
/* A file that comes whole or not at all: written as PATH.part, made safe, renamed. Packed where its name ends in .zst. */
#include <zstd.h>
#include "corpus/read/buffer.h"

typedef struct {
    int        fd;                  /* -1: not open */
    char       path[1024], part[1040];
    Buffer     text, packed;
    ZSTD_CCtx *zstd;                /* NULL: plain */
    int64_t    at, bytes;           /* in the file; of text so far */
} Sink;

Status sink_open   (Sink *sink, const char *path);          /* a folder that is missing is made. sink: closed or { .fd = -1 } */
Status sink_flush  (Sink *sink, int64_t most);              /* writes what stands in sink->text when it is more than that */
Status sink_finish (Sink *sink);
void   sink_discard(Sink *sink);                            /* also of a closed one: frees its memory */
#endif
