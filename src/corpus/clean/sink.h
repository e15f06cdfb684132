#ifndef CORPUS_CLEAN_SINK_H
#define CORPUS_CLEAN_SINK_H
/* An output file that appears complete or not at all: it is written as PATH.part, synced, then renamed. It
 * is compressed with zstd where its name ends in .zst. */
#include <zstd.h>
#include "base/buffer.h"

typedef struct {
    int        fd;                  /* -1: not open */
    char       path[1024], part[1040];
    Buffer     text, compressed;    /* the caller appends to `text` and calls sink_flush */
    ZSTD_CCtx *zstd;                /* NULL: not compressed */
    int64_t    at, bytes;           /* bytes in the file; bytes of text flushed so far, uncompressed */
} Sink;

/* Makes missing directories. *sink is closed or { .fd = -1 } before. BAD_OPTION: the path is too long. All
 * functions fail with IO_FAILED where writing does, and with NO_MEMORY. */
Status sink_open   (Sink *sink, const char *path);
/* Writes sink->text where it has more than `most` bytes. */
Status sink_flush  (Sink *sink, int64_t most);
/* Writes the rest, syncs, renames; discards on failure. */
Status sink_finish (Sink *sink);
/* Removes PATH.part and frees memory; allowed when closed */
void   sink_discard(Sink *sink);
#endif
