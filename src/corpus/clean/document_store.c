/* The document store: blocks are compressed in parts in memory, parts are appended in order, and every
 * number that is read back is checked before it is used as an offset. The texts are protected by zstd's
 * own checksums, the rows by theirs. */
#include "corpus/clean/document_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/seam.h"

static const char *const file_name[STORE_FILES] = { "texts", "rows", "keys", "dropped" };

struct DocumentStore {
    int           keys;                             /* 64-bit keys of a document */
    int           fd[STORE_FILES];                  /* -1: not open */
    char          path[STORE_FILES][1024];
    /* .sum is that of document_store_open's argument; document_store_size returns the current one. */
    StoreSize     size;
    XXH3_state_t *sum[STORE_FILES];                 /* of the bytes that are in the file so far */
};

/* Precedes a document's strings in its block. The strings are text, id, url, title and source, in this
 * order; a length of -1 means that the input does not have it. `zero` fills the struct to its alignment,
 * so that no undefined bytes are written. */
typedef struct {
    int64_t bytes[5], line;
    int32_t input, label;
    float probability;
    int32_t zero;
} DocumentHead;

/* ---- parts ---- */

/* The compressed size of a block is known only after its rows were written; they are the last ones of the
 * part. */
static void rows_set_compressed(StorePart *p, int64_t rows, int64_t compressed)
{
    Buffer *b = &p->part[STORE_ROWS];
    for (int64_t i = b->bytes / (int64_t)sizeof(StoredRow) - rows; i < b->bytes / (int64_t)sizeof(StoredRow);
         i++)
        ((StoredRow *)(void *)b->text)[i].compressed = compressed;
}

Status document_store_close_part(StorePacker *k, StorePart *p)
{
    Buffer *out = &p->part[STORE_TEXTS];
    if (!k->raw.bytes) return OK;
    if (!k->context && !(k->context = ZSTD_createCCtx()))
        return fail(NO_MEMORY, "no memory to compress documents");
    ZSTD_CCtx_setParameter(k->context, ZSTD_c_compressionLevel, STORE_LEVEL);
    ZSTD_CCtx_setParameter(k->context, ZSTD_c_checksumFlag, 1);
    TRY(buffer_reserve(out, (int64_t)ZSTD_compressBound((size_t)k->raw.bytes)));
    size_t compressed = ZSTD_compress2(k->context, out->text + out->bytes,
                                       (size_t)(out->capacity - out->bytes),
                                       k->raw.text, (size_t)k->raw.bytes);
    if (ZSTD_isError(compressed))
        return fail(NO_MEMORY, "documents cannot be compressed: %s", ZSTD_getErrorName(compressed));
    rows_set_compressed(p, k->rows, (int64_t)compressed);
    out->bytes  += (int64_t)compressed;
    k->raw.bytes = k->rows = 0;
    return OK;
}

Status document_store_put(StorePacker *k, StorePart *p, const StoredDocument *d, StoredRow row,
                          const uint64_t *key, int keys)
{
    const JsonText text[5] = { d->text, d->id, d->url, d->title, d->source };
    DocumentHead head = { .line = d->line, .input = d->input, .label = d->label,
                          .probability = d->probability };
    int64_t all = sizeof head;
    for (int i = 0; i < 5; i++) {
        head.bytes[i] = text[i].text ? text[i].bytes : -1;
        all += text[i].text ? text[i].bytes : 0;
    }
    if (k->raw.bytes && k->raw.bytes + all > STORE_BLOCK) TRY(document_store_close_part(k, p));
    row.block = p->part[STORE_TEXTS].bytes;
    row.at    = k->raw.bytes;
    TRY(buffer_add(&k->raw, (const char *)&head, sizeof head));
    for (int i = 0; i < 5; i++)
        if (text[i].text) TRY(buffer_add(&k->raw, text[i].text, text[i].bytes));
    TRY(buffer_add(&p->part[STORE_ROWS], (const char *)&row, sizeof row));
    if (keys) TRY(buffer_add(&p->part[STORE_KEYS], (const char *)key, keys * (int64_t)sizeof *key));
    k->rows++;
    p->documents++;
    return OK;
}

void document_store_clear_part(StorePart *p, int64_t most)
{
    p->documents = 0;
    for (int i = 0; i < STORE_FILES; i++) {
        p->part[i].bytes = 0;
        if (p->part[i].capacity > most) buffer_free(&p->part[i]);
    }
}

void document_store_free_part(StorePart *p)
{
    for (int i = 0; i < STORE_FILES; i++) buffer_free(&p->part[i]);
}

void document_store_free_packer(StorePacker *k)
{
    ZSTD_freeCCtx(k->context);
    buffer_free(&k->raw);
}

/* ---- the files ---- */

static Status store_read(const DocumentStore *s, int i, void *out, int64_t bytes, int64_t at)
{
    return file_read_at(s->fd[i], s->path[i], out, (size_t)bytes, at);
}

/* What was written before is read once, so that no byte of it is used that has changed since. */
static Status sum_begin(DocumentStore *s, int i)
{
    enum { AT_ONCE = 1 << 20 };
    Buffer part = { 0 };
    Status status = (s->sum[i] = XXH3_createState()) ? buffer_reserve(&part, AT_ONCE)
                                                     : fail(NO_MEMORY, "%s: no memory to check", s->path[i]);
    if (status == OK) XXH3_64bits_reset(s->sum[i]);
    for (int64_t at = 0, bytes; at < s->size.bytes[i] && status == OK; at += bytes) {
        bytes  = s->size.bytes[i] - at < AT_ONCE ? s->size.bytes[i] - at : AT_ONCE;
        status = store_read(s, i, part.text, bytes, at);
        if (status == OK) XXH3_64bits_update(s->sum[i], part.text, (size_t)bytes);
    }
    buffer_free(&part);
    if (status != OK || !s->size.bytes[i] || XXH3_64bits_digest(s->sum[i]) == s->size.sum[i]) return status;
    return fail(BAD_FILE, "%s: damaged: the checksum of its first %" PRId64 " bytes does not match; --restart"
                " starts over", s->path[i], s->size.bytes[i]);
}

static Status file_open(DocumentStore *s, int i, const char *folder, int64_t bytes)
{
    char *path = s->path[i];
    TRY(path_join(path, folder, file_name[i]));
    s->fd[i] = seam.open(path, O_RDWR | O_CREAT, 0666);
    if (s->fd[i] < 0) return fail(IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
    off_t size = lseek(s->fd[i], 0, SEEK_END);
    if (size < bytes)
        return fail(BAD_FILE, "%s: has %lld bytes and should have %" PRId64 "; --restart starts over", path,
                    (long long)size, bytes);
    if (ftruncate(s->fd[i], bytes))
        return fail(IO_FAILED, "%s: cannot be truncated: %s", path, strerror(errno));
    return OK;
}

Status document_store_open(DocumentStore **store, const char *folder, int keys, StoreSize size)
{
    DocumentStore *s = calloc(1, sizeof *s);
    *store = NULL;
    if (!s) return fail(NO_MEMORY, "%s: no memory for the document store", folder);
    *s = (DocumentStore){ .keys = keys, .size = size };
    for (int i = 0; i < STORE_FILES; i++) s->fd[i] = -1;
    Status status = OK;
    for (int i = 0; i < STORE_FILES && status == OK; i++) status = file_open(s, i, folder, size.bytes[i]);
    for (int i = 0; i < STORE_FILES && status == OK; i++) status = sum_begin(s, i);
    if (status == OK) *store = s;
    else              document_store_close(s);
    return status;
}

void document_store_close(DocumentStore *s)
{
    if (!s) return;
    for (int i = 0; i < STORE_FILES; i++) {
        if (s->fd[i] >= 0) seam.close(s->fd[i]);
        XXH3_freeState(s->sum[i]);
    }
    free(s);
}

StoreSize document_store_size(const DocumentStore *s)
{
    StoreSize size = s->size;
    for (int i = 0; i < STORE_FILES; i++) size.sum[i] = XXH3_64bits_digest(s->sum[i]);
    return size;
}

/* Offsets and lengths are taken from a row, so a damaged row would lead to reads anywhere. The seed makes
 * a row that is valid but at the wrong place differ too. */
static uint64_t row_sum(const StoredRow *row, int64_t document)
{
    return XXH3_64bits_withSeed(row, offsetof(StoredRow, sum), (uint64_t)document);
}

/* A part does not know where it will be: its block offsets become absolute here, and only then is the
 * checksum of a row known. */
Status document_store_add(DocumentStore *s, StorePart *p)
{
    StoredRow *row = (StoredRow *)(void *)p->part[STORE_ROWS].text;
    for (int64_t i = 0; i < p->documents; i++) {
        row[i].block += s->size.bytes[STORE_TEXTS];
        row[i].sum    = row_sum(&row[i], s->size.documents + i);
    }
    for (int i = 0; i < STORE_FILES; i++) {
        TRY(file_write(s->fd[i], s->path[i], p->part[i].text, (size_t)p->part[i].bytes, s->size.bytes[i]));
        XXH3_64bits_update(s->sum[i], p->part[i].text, (size_t)p->part[i].bytes);
        s->size.bytes[i] += p->part[i].bytes;
    }
    s->size.documents += p->documents;
    return OK;
}

Status document_store_sync(DocumentStore *s)
{
    for (int i = 0; i < STORE_FILES; i++)
        if (seam.sync(s->fd[i]))
            return fail(IO_FAILED, "%s: cannot be synced to disk: %s", s->path[i], strerror(errno));
    return OK;
}

/* ---- reading ---- */

Status document_store_rows(const DocumentStore *s, StoredRow *row, int64_t document, int64_t count)
{
    TRY(store_read(s, STORE_ROWS, row, count * (int64_t)sizeof *row, document * (int64_t)sizeof *row));
    for (int64_t i = 0; i < count; i++)
        if (row[i].sum != row_sum(&row[i], document + i))
            return fail(BAD_FILE,
                        "%s: damaged: the checksum of row %" PRId64 " does not match; --restart starts over",
                        s->path[STORE_ROWS], document + i);
    return OK;
}

Status document_store_keys(const DocumentStore *s, uint64_t *key, int64_t document, int64_t count)
{
    int64_t width = s->keys * (int64_t)sizeof *key;
    return store_read(s, STORE_KEYS, key, count * width, document * width);
}

Status document_store_dropped(const DocumentStore *s, char *out, int64_t at, int64_t bytes)
{
    return store_read(s, STORE_DROPPED, out, bytes, at);
}

static Status damaged(const DocumentStore *s, const StoredRow *row, const char *why)
{
    return fail(BAD_FILE, "%s: byte %" PRId64 ": damaged: %s; --restart starts over", s->path[STORE_TEXTS],
                row->block, why);
}

/* Leaves the reader empty on failure, so that a block of which only a part was decompressed is never taken
 * for a whole one. */
static Status block_read(const DocumentStore *s, StoreReader *r, const StoredRow *row)
{
    if (r->bytes && r->block == row->block) return OK;
    r->bytes = r->compressed.bytes = r->raw.bytes = 0;
    if (!r->context && !(r->context = ZSTD_createDCtx()))
        return fail(NO_MEMORY, "no memory to decompress documents");
    TRY(buffer_reserve(&r->compressed, row->compressed));
    TRY(store_read(s, STORE_TEXTS, r->compressed.text, row->compressed, row->block));
    unsigned long long raw = ZSTD_getFrameContentSize(r->compressed.text, (size_t)row->compressed);
    if (raw == ZSTD_CONTENTSIZE_ERROR || raw == ZSTD_CONTENTSIZE_UNKNOWN)
        return damaged(s, row, "it is not a zstd frame");
    TRY(buffer_reserve(&r->raw, (int64_t)raw));
    size_t got = ZSTD_decompressDCtx(r->context, r->raw.text, (size_t)raw, r->compressed.text,
                                     (size_t)row->compressed);
    if (ZSTD_isError(got)) return damaged(s, row, ZSTD_getErrorName(got));
    r->block = row->block;
    r->bytes = r->raw.bytes = (int64_t)got;
    return OK;
}

Status document_store_read(const DocumentStore *s, StoreReader *r, StoredDocument *d, const StoredRow *row)
{
    DocumentHead head;
    TRY(block_read(s, r, row));
    if (row->at + (int64_t)sizeof head > r->bytes)
        return damaged(s, row, "a document begins after the end of its block");
    memcpy(&head, r->raw.text + row->at, sizeof head);
    *d = (StoredDocument){ .line = head.line, .input = head.input, .label = head.label,
                            .probability = head.probability };
    JsonText *const text[5] = { &d->text, &d->id, &d->url, &d->title, &d->source };
    int64_t at = row->at + (int64_t)sizeof head;
    for (int i = 0; i < 5; i++) {
        if (head.bytes[i] < 0) continue;
        if (head.bytes[i] > r->bytes - at) return damaged(s, row, "a string ends after the end of its block");
        *text[i] = (JsonText){ r->raw.text + at, head.bytes[i] };
        at += head.bytes[i];
    }
    return OK;
}

void document_store_free_reader(StoreReader *r)
{
    ZSTD_freeDCtx(r->context);
    buffer_free(&r->compressed);
    buffer_free(&r->raw);
}
