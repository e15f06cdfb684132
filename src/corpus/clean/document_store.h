#ifndef CORPUS_CLEAN_DOCUMENT_STORE_H
#define CORPUS_CLEAN_DOCUMENT_STORE_H
/* The documents that passed the stages, kept on disk until duplicates are resolved, in a directory of four
 * files that only grow:
 *
 *     texts     documents in zstd blocks of about 32 KiB (or one larger document), so that any of them can
 *               be read alone
 *     rows      a StoredRow for each document: where it is, and its hash
 *     keys      the MinHash keys of each document, `keys` numbers of 64 bits
 *     dropped   JSON lines about the documents that were dropped
 *
 * The progress file (progress_file.h) says how many bytes of each file are complete; a resumed run cuts
 * off what follows. Numbers are in the machine's byte order: a run is resumed on the kind of machine where
 * it began. */
#include <zstd.h>
#include "base/buffer.h"
#include "corpus/dedup/exact.h"
#include "corpus/read/json_line.h"

enum { STORE_BLOCK = 32 << 10, STORE_LEVEL = 1 };
enum { STORE_TEXTS, STORE_ROWS, STORE_KEYS, STORE_DROPPED, STORE_FILES };

typedef struct {
    Hash128  hash;
    int64_t  block, compressed;     /* the zstd block: its first byte in `texts`, and its compressed size */
    int64_t  at;                    /* the document's first byte in the decompressed block */
    int64_t  bytes;                 /* of the text as it was read */
    uint64_t sum;                   /* XXH3 of the fields above, seeded with the document's number */
} StoredRow;

typedef struct {
    JsonText text, id, url, title, source;          /* .text NULL: the input does not have it */
    int64_t  line;                                  /* of its file, from 1 */
    int32_t  input, label;                          /* index in CleanPlan.path; language, -1: none */
    float    probability;
} StoredDocument;

/* ---- writing: any thread fills a part of its own; one thread appends the parts in order ---- */

typedef struct { Buffer part[STORE_FILES]; int64_t documents; } StorePart;         /* initialised to { 0 } */
/* Collects the documents of one block and compresses it: one for each thread, initialised to { 0 }. raw: the
 * block so far; rows: its documents. */
typedef struct { ZSTD_CCtx *context; Buffer raw; int64_t rows; } StorePacker;
/* Copies the document into the packer's block and its row and keys into the part. The block is compressed
 * into the part when the next document would make it larger than STORE_BLOCK. */
Status document_store_put       (StorePacker *packer, StorePart *part, const StoredDocument *d,
                                 StoredRow row, const uint64_t *key, int keys);
/* Compresses the last block. */
Status document_store_close_part(StorePacker *packer, StorePart *part);
/* Empties the part for its next use. Buffers of more than `most` bytes are freed, so one huge document
 * does not occupy memory for the rest of the run. */
void   document_store_clear_part(StorePart *part, int64_t most);
void   document_store_free_part (StorePart *part);
void   document_store_free_packer(StorePacker *packer);

typedef struct DocumentStore DocumentStore;
/* sum: XXH3 of the first `bytes` bytes of each file. */
typedef struct { int64_t documents, bytes[STORE_FILES]; uint64_t sum[STORE_FILES]; } StoreSize;
/* Opens or creates the files in `folder` and truncates them to `size`, after reading them once to verify
 * the checksums. BAD_FILE: a file is shorter or its checksum differs. */
Status    document_store_open (DocumentStore **store, const char *folder, int keys, StoreSize size);
/* Appends the part; its rows are completed in place first. IO_FAILED, as document_store_sync. */
Status    document_store_add  (DocumentStore *store, StorePart *part);
/* Calls fsync for all four files. */
Status    document_store_sync (DocumentStore *store);
StoreSize document_store_size (const DocumentStore *store);
void      document_store_close(DocumentStore *store);                              /* NULL is allowed */

/* ---- reading: by any number of threads, each with a reader of its own ---- */

/* One for each thread, initialised to { 0 }. raw: the block that begins at byte `block`, decompressed to
 * `bytes` bytes. */
typedef struct { ZSTD_DCtx *context; Buffer compressed, raw; int64_t block, bytes; } StoreReader;
/* Rows and keys of `count` documents from number `document` on. BAD_FILE: a row's checksum differs. */
Status document_store_rows   (const DocumentStore *store, StoredRow *row, int64_t document, int64_t count);
Status document_store_keys   (const DocumentStore *store, uint64_t *key, int64_t document, int64_t count);
/* The strings of *d point into the reader and are valid until its next use. The last block stays
 * decompressed in the reader, so documents read in order decompress each block once. */
Status document_store_read   (const DocumentStore *store, StoreReader *reader, StoredDocument *d,
                              const StoredRow *row);
Status document_store_dropped(const DocumentStore *store, char *out, int64_t at, int64_t bytes);
void   document_store_free_reader(StoreReader *reader);
#endif
