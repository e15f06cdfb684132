#ifndef CORPUS_READ_CODEC_H
#define CORPUS_READ_CODEC_H
/* The compression formats that are read (gzip, zstd, bzip2): how a file is recognised, and one interface
 * over the three libraries that decompress. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* Compressed input that is left and output capacity that is left; a step advances both. */
typedef struct { const char *in; size_t in_bytes; char *out; size_t out_bytes; } CodecWindow;
/* END: one member (gzip, bzip2) or frame (zstd) is complete; the next one needs a new state. WIDE: its window
 * is above the limit. BROKEN: damaged, *why says how. */
typedef enum { CODEC_MORE, CODEC_END, CODEC_WIDE, CODEC_BROKEN } CodecStep;

typedef struct {
    const char *name, *ending, *magic;                      /* "gzip", ".gz", the first bytes of each file */
    /* State for one member; NULL: no memory. window_log: the largest window is 2^window_log bytes, for
     * formats that do not bound it themselves. */
    void       *(*open) (int window_log);
    CodecStep   (*step) (void *state, CodecWindow *window, const char **why);
    void        (*close)(void *state);
    /* Where at or after `from` a member seems to begin, by first bytes that must all be inside `bytes`; -1:
     * nowhere. NULL: the format's first bytes are too few to find members by. A wrong guess must be
     * possible to detect by decompressing. */
    int64_t     (*start)(const char *text, size_t bytes, size_t from);
} Codec;

const Codec *codec_by_ending(const char *path);                     /* NULL: not compressed */
const Codec *codec_by_magic (const char *text, size_t bytes);       /* NULL: not compressed */
/* For commands that read a file without decompression and would take compressed bytes for text: BAD_FILE
 * where both the name and the first bytes say that the file is compressed. */
Status codec_check_uncompressed(const char *path, const char *text, size_t bytes);
#endif
