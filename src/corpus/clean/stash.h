#ifndef CORPUS_CLEAN_STASH_H
#define CORPUS_CLEAN_STASH_H
/* The documents between the stages and the end, in a folder of four files that only grow:
 *
 *     texts     documents in zstd blocks of about 32 KiB (or one larger document), so that any can be read alone
 *     rows      a StashRow a document: where it is, its hash
 *     keys      its near keys, StashPlan.keys each
 *     dropped   JSON lines about what did not come so far
 *
 * How far they are whole is told by the ledger (clean/ledger.h); what is behind that is cut off when a run goes on. Numbers
 * are this machine's: a work folder goes on where it was begun.                                                      */
#include <zstd.h>
#include "corpus/buffer.h"
#include "corpus/exact.h"
#include "corpus/json_line.h"

enum { STASH_BLOCK = 32 << 10, STASH_LEVEL = 1 };
enum { STASH_TEXTS, STASH_ROWS, STASH_KEYS, STASH_DROPPED, STASH_FILES };

/* block, packed: byte of `texts` and bytes there; at: byte in the block when it is unpacked; bytes: of the text as it came;
 * sum: of all this and the document's number, made when the row is put into the file */
typedef struct { Hash128 hash; int64_t block, packed, at, bytes; uint64_t sum; } StashRow;

typedef struct {
    JsonText text, id, url, title, source;          /* text NULL: not told */
    int64_t  line;                                  /* of its file */
    int32_t  input, label;                          /* which file; -1: no language */
    float    probability;
} StashDocument;

/* ---- putting in: a piece by any thread, then pieces in order by one ---- */

typedef struct { Buffer part[STASH_FILES]; int64_t documents; } StashPiece;        /* begins as { 0 } */
typedef struct { ZSTD_CCtx *context; Buffer raw; int64_t rows; } StashPacker;      /* one a thread; begins as { 0 } */
Status stash_put  (StashPacker *packer, StashPiece *piece, const StashDocument *d, StashRow row, const uint64_t *key, int keys);
Status stash_close_piece(StashPacker *packer, StashPiece *piece);                  /* packs what is left */
void   stash_clear_piece(StashPiece *piece, int64_t most);                         /* for the next; memory above `most` goes */
void   stash_free_piece (StashPiece *piece);
void   stash_free_packer(StashPacker *packer);

typedef struct Stash Stash;
typedef struct { int64_t documents, bytes[STASH_FILES]; } StashSize;
/* size: what is whole; the files are cut to that */
Status    stash_open (Stash **stash, const char *folder, int keys, StashSize size);
Status    stash_add  (Stash *stash, StashPiece *piece);
Status    stash_sync (Stash *stash);
StashSize stash_size (const Stash *stash);
void      stash_close(Stash *stash);

/* ---- taking out, by any thread with a reader of its own ---- */

typedef struct { ZSTD_DCtx *context; Buffer packed, raw; int64_t block, bytes; } StashReader;      /* begins as { 0 } */
Status stash_rows(const Stash *stash, StashRow *row, int64_t document, int64_t count);
Status stash_keys(const Stash *stash, uint64_t *key, int64_t document, int64_t count);
Status stash_read(const Stash *stash, StashReader *reader, StashDocument *d, const StashRow *row);  /* good until the next */
Status stash_dropped(const Stash *stash, char *out, int64_t at, int64_t bytes);
void   stash_free_reader(StashReader *reader);
#endif
