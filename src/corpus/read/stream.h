#ifndef CORPUS_READ_STREAM_H
#define CORPUS_READ_STREAM_H
/* The bytes of a file or of standard input, unpacked: gzip, zstd, bzip2 by the name's ending, on standard input by the
 * first bytes; several members or frames behind each other are one text. A file that is cut or damaged gives what comes
 * before the damage and then BAD_FILE with the byte of the packed file; bzip2 checks a block, of 900 kB at most, only when it
 * has come out. Memory: 256 KiB and the library's, which is at most 128 MiB for zstd (a frame with a larger window is refused)
 * and 4 MiB for bzip2; unpacked ahead, what corpus/read/stream_ahead.h says.                                                  */
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"
#include "corpus/read/packing.h"

enum { STREAM_RATIO_MOST = 400 };

typedef struct Stream Stream;
/* ratio_most: refuse where 64 MiB come out of less than a part of that; 0 never refuses */
Status  stream_open (Stream **stream, const char *path, int64_t ratio_most);        /* "-" is standard input */
Status  stream_of   (Stream **stream, FILE *file, const char *name, const Packing *packing, int64_t ratio_most);
/* Right behind the opening: members are unpacked on so many threads ahead (corpus/read/stream_ahead.h), which changes no byte
 * that comes out. bzip2 alone has members that can be found; others, and one thread, go as before. */
Status stream_ahead(Stream *stream, int threads);
Status  stream_read (Stream *stream, char *out, size_t room, size_t *got);          /* fills out; less only at the end */
int64_t stream_behind(const Stream *stream);                                        /* bytes of the file behind us */
void    stream_close(Stream *stream);                                               /* and the file; NULL is fine */
#endif
