#ifndef CORPUS_READ_STREAM_AHEAD_H
#define CORPUS_READ_STREAM_AHEAD_H
/* Decompresses a file of many members on several threads ahead of the reader; the multi-threaded part of a
 * Stream.
 *
 * The file is cut into pieces where a member seems to begin. Each piece is decompressed independently, and
 * the pieces are returned in order, each with its text if it turned out to be whole members from its first
 * byte to its last. Otherwise (the cut was a false guess, the piece is damaged, longer than PIECE_MOST or
 * has more text than TEXT_MOST) it is returned without text, and the caller decompresses its bytes in
 * sequence with those of its neighbours. So a false guess costs time and never changes the result. Memory:
 * threads + 2 pieces of at most PIECE_MOST bytes with texts of at most 1.5 TEXT_MOST, whatever the file's
 * size. */
#include <stdbool.h>
#include <stdio.h>
#include "base/buffer.h"
#include "corpus/read/codec.h"

enum { PIECE_LEAST = 128 << 10, PIECE_MOST = 4 << 20, TEXT_MOST = 24 << 20 };      /* bytes */

/* text: only of one that is decompressed */
typedef struct { Buffer compressed, text; bool decompressed; } AheadPiece;

typedef struct Ahead Ahead;
/* first: bytes of the file that the caller has already read; codec->start is not NULL. Nobody else may
 * read the file until ahead_close. NO_MEMORY where memory or all threads are missing; fewer threads than
 * asked for are accepted. */
Status ahead_open (Ahead **ahead, FILE *file, const Codec *codec, const char *first, size_t bytes,
                   int threads);
/* The next piece, valid until the next call; NULL: end of the file, or a read error. */
const AheadPiece *ahead_next(Ahead *ahead);
int    ahead_error(const Ahead *ahead);                 /* after the end: the errno of the read error, or 0 */
void   ahead_close(Ahead *ahead);                       /* does not close the file; NULL is allowed */
#endif
