#ifndef CORPUS_READ_STREAM_AHEAD_H
#define CORPUS_READ_STREAM_AHEAD_H
/* A file of many members, unpacked by several threads ahead of the one that reads: the part of a Stream that knows threads.
 *
 * The file is cut where a member seems to begin. Each piece is unpacked by itself, and comes out in order with its text
 * where that went well: whole members, from the first byte of the piece to the last. Where it did not, since the cut was
 * none, the piece is damaged, longer than PIECE_MOST or unpacks to more than TEXT_MOST, it comes without text, and who
 * asked unpacks its bytes in one line with those of the pieces around it. So a wrong guess costs time and nothing else.
 * Memory: threads + 2 pieces of at most PIECE_MOST bytes and their texts of at most 1.5 TEXT_MOST, whatever the file's size. */
#include <stdbool.h>
#include <stdio.h>
#include "base/status.h"
#include "corpus/read/packing.h"

enum { PIECE_LEAST = 128 << 10, PIECE_MOST = 4 << 20, TEXT_MOST = 24 << 20 };

typedef struct {
    const char *packed, *text;          /* text NULL: not unpacked */
    size_t      packed_bytes, text_bytes;
} AheadPiece;                           /* good until the next call */

typedef struct Ahead Ahead;
/* first: what was read of the file already; packing->start is there. The file is not read by others until ahead_close. */
Status ahead_open (Ahead **ahead, FILE *file, const Packing *packing, const char *first, size_t bytes, int threads);
bool   ahead_next (Ahead *ahead, AheadPiece *piece);    /* false: the end of the file, or of what could be read of it */
int    ahead_error(const Ahead *ahead);                 /* behind the end: why reading failed, an errno; 0: it did not */
void   ahead_close(Ahead *ahead);
#endif
