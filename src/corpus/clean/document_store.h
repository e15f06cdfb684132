#ifndef CORPUS_CLEAN_DOCUMENT_STORE_H
#define CORPUS_CLEAN_DOCUMENT_STORE_H
/* The documents between the stages and the end, in a folder of four files that only grow:
 *
 *     texts     documents in zstd blocks of about 32 KiB (or one larger document), so that any can be read alone
 *     rows      a StoredRow a document: where it is, its hash
 *     keys      its near keys, DocumentStorePlan.keys each
 *     dropped   JSON lines about what did not come so far
 *
 * How far they are whole is told by the ledger (clean/ledger.h); what is behind that is cut off when a run goes on. Numbers
 * are this machine's: a work folder goes on where it was begun.                                                      */
#include <zstd.h>
#include "corpus/read/buffer.h"
#include "corpus/dedup/exact.h"
#include "corpus/read/json_line.h"

enum { STORE_BLOCK = 32 << 10, STORE_LEVEL = 1 };
enum { STORE_TEXTS, STORE_ROWS, STORE_KEYS, STORE_DROPPED, STORE_FILES };

/* block, packed: byte of `texts` and bytes there; at: byte in the block when it is unpacked; bytes: of the text as it came;
 * sum: of all this and the document's number, made when the row is put into the file */
typedef struct { Hash128 hash; int64_t block, packed, at, bytes; uint64_t sum; } StoredRow;

typedef struct {
    JsonText text, id, url, title, source;          /* text NULL: not told */
    int64_t  line;                                  /* of its file */
    int32_t  input, label;                          /* which file; -1: no language */
    float    probability;
} StoredDocument;

/* ---- putting in: a piece by any thread, then pieces in order by one ---- */

typedef struct { Buffer part[STORE_FILES]; int64_t documents; } StorePart;        /* begins as { 0 } */
typedef struct { ZSTD_CCtx *context; Buffer raw; int64_t rows; } StorePacker;      /* one a thread; begins as { 0 } */
Status document_store_put  (StorePacker *packer, StorePart *piece, const StoredDocument *d, StoredRow row, const uint64_t *key, int keys);
Status document_store_close_piece(StorePacker *packer, StorePart *piece);                  /* packs what is left */
void   document_store_clear_piece(StorePart *piece, int64_t most);                         /* for the next; memory above `most` goes */
void   document_store_free_piece (StorePart *piece);
void   document_store_free_packer(StorePacker *packer);

typedef struct DocumentStore DocumentStore;
/* sum: XXH3 of the first `bytes` bytes of each file */
typedef struct { int64_t documents, bytes[STORE_FILES]; uint64_t sum[STORE_FILES]; } StoreSize;
/* size: what is whole; the files are cut to that, and read once: BAD_FILE where a checksum is another */
Status    document_store_open (DocumentStore **store, const char *folder, int keys, StoreSize size);
Status    document_store_add  (DocumentStore *store, StorePart *piece);
Status    document_store_sync (DocumentStore *store);
StoreSize document_store_size (const DocumentStore *store);
void      document_store_close(DocumentStore *store);

/* ---- taking out, by any thread with a reader of its own ---- */

typedef struct { ZSTD_DCtx *context; Buffer packed, raw; int64_t block, bytes; } StoreReader;      /* begins as { 0 } */
Status document_store_rows(const DocumentStore *store, StoredRow *row, int64_t document, int64_t count);
Status document_store_keys(const DocumentStore *store, uint64_t *key, int64_t document, int64_t count);
Status document_store_read(const DocumentStore *store, StoreReader *reader, StoredDocument *d, const StoredRow *row);  /* good until the next */
Status document_store_dropped(const DocumentStore *store, char *out, int64_t at, int64_t bytes);
void   document_store_free_reader(StoreReader *reader);
#endif
