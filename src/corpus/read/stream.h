#ifndef CORPUS_READ_STREAM_H
#define CORPUS_READ_STREAM_H
/* The decompressed bytes of a file or of standard input. The format (gzip, zstd, bzip2 or none) follows
 * from the name's ending, on standard input from the first bytes; several members or frames in one file are
 * one text. A file that is cut or damaged gives what precedes the damage and then BAD_FILE with the byte of
 * the compressed file. bzip2 verifies the checksum of a block, of at most 900 kB, only after its text has
 * been returned. Memory: 256 KiB, or 384 for a text that is converted, and the library's, which is at most
 * 128 MiB for zstd (a frame with a larger window is refused, unless stream_texts allows it) and 4 MiB for
 * bzip2; with threads also what corpus/read/stream_ahead.h says. */
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"
#include "corpus/read/codec.h"
#include "corpus/read/encoding.h"

enum { STREAM_WINDOW_LOG = 27 };   /* the default of zstd's library for the largest window: 128 MiB */
enum { STREAM_RATIO_MOST = 400 };  /* default for the largest compression ratio; text reaches about 20 */

typedef struct Stream Stream;
/* path "-" is standard input. ratio_most: BAD_FILE where 64 MiB of text come from less than 1/ratio_most of
 * that, which protects against decompression bombs; 0 accepts any ratio. *stream is NULL after a failure. */
Status  stream_open (Stream **stream, const char *path, int64_t ratio_most);
/* The same for an open file, which the stream closes, also on failure (but not stdin). codec NULL: not
 * compressed. */
Status  stream_of   (Stream **stream, FILE *file, const char *name, const Codec *codec,
                     int64_t ratio_most);
/* Decompresses members on `threads` threads ahead of the reader (corpus/read/stream_ahead.h); called right
 * after opening. The bytes that stream_read returns are the same. Only bzip2 has members that can be found
 * without decompressing; for other formats and for one thread this does nothing. */
Status  stream_ahead(Stream *stream, int threads);
/* From here on stream_read gives the text as UTF-8 (corpus/read/encoding.h); without a call, the bytes of the
 * file. Called right after opening; the rules' texts must outlive the stream. BAD_OPTION: an unknown
 * encoding. What is UTF-8 already is not checked. */
Status  stream_texts(Stream *stream, TextRules rules);
/* Fills out; *got is less than `capacity` only at the end or before damage, which the next call reports. */
Status  stream_read (Stream *stream, char *out, size_t capacity, size_t *got);
int64_t stream_bytes_read(const Stream *stream);  /* (compressed) bytes of the file that have been used */
void    stream_close(Stream *stream);            /* closes the file too; NULL is allowed */
#endif
