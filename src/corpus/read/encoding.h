#ifndef CORPUS_READ_ENCODING_H
#define CORPUS_READ_ENCODING_H
/* Texts in another encoding than UTF-8. UTF-16 and UTF-32 are known by their byte order mark, every other
 * encoding is named, in the words of iconv(3). What is read is UTF-8 or an error: nothing is replaced. */
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"
#include "base/status.h"

/* How texts are read. encoding: --input-encoding; NULL: UTF-8, or what the byte order mark says. window_log:
 * zstd windows of up to 2^window_log bytes are read, which takes as much memory; 0: 27. */
typedef struct { const char *encoding; int window_log; } TextRules;

/* BAD_OPTION where the C library cannot convert from this encoding. NULL is fine. */
Status encoding_known(const char *encoding);

typedef struct Encoding Encoding;
/* The conversion of the text whose first `bytes` bytes are at `head`, 4 or the whole text. *encoding is NULL
 * where it is UTF-8 already. *mark: bytes of the byte order mark that are to be skipped. path: for messages.
 * BAD_FILE: it looks like UTF-16 and has no mark, or has a mark and another encoding is named. */
Status encoding_open (Encoding **encoding, size_t *mark, const char *named, const char *path,
                      const char *head, size_t bytes);
/* Input and room that are left; a step advances both. */
typedef struct { const char *in; size_t in_bytes; char *out; size_t out_bytes; } EncodingWindow;
/* Converts until one of both runs out; a character that the input cuts stays in it. last: no more input
 * follows. BAD_FILE, with line and byte: bytes that are no character; what precedes them is converted. */
Status encoding_step (Encoding *encoding, EncodingWindow *window, bool last);
void   encoding_close(Encoding *encoding);             /* NULL is allowed */

/* A whole text in memory as UTF-8: *text and *bytes are moved behind a mark, or to `converted`, which the
 * caller frees. BAD_FILE, with line and byte: it is not in this encoding, or not UTF-8. */
Status text_to_utf8(const char **text, int64_t *bytes, Buffer *converted, const char *encoding,
                    const char *path);
/* The first byte that is not UTF-8, NUL being a character; -1: there is none. */
int64_t text_not_utf8(const char *text, int64_t bytes);
#endif
