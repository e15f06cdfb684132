#include "corpus/clean/stash.h"

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

static const char *const file_name[STASH_FILES] = { "texts", "rows", "keys", "dropped" };

struct Stash {
    int       keys, fd[STASH_FILES];
    char      path[STASH_FILES][1024];
    StashSize size;
};

/* What stands before a document's strings, in their order: text, id, url, title, source. -1: not told */
typedef struct { int64_t bytes[5], line; int32_t input, label; float probability; int32_t zero; } Head;

/* ---- pieces ---- */

/* Rows of the block get to know how long it became. */
static void rows_told(StashPiece *p, int64_t rows, int64_t packed)
{
    Buffer *b = &p->part[STASH_ROWS];
    for (int64_t i = b->bytes / (int64_t)sizeof(StashRow) - rows; i < b->bytes / (int64_t)sizeof(StashRow); i++)
        ((StashRow *)(void *)b->text)[i].packed = packed;
}

Status stash_close_piece(StashPacker *k, StashPiece *p)
{
    Buffer *out = &p->part[STASH_TEXTS];
    if (!k->raw.bytes) return OK;
    if (!k->context && !(k->context = ZSTD_createCCtx())) return fail(NO_MEMORY, "no memory to pack documents");
    ZSTD_CCtx_setParameter(k->context, ZSTD_c_compressionLevel, STASH_LEVEL);
    ZSTD_CCtx_setParameter(k->context, ZSTD_c_checksumFlag, 1);
    TRY(buffer_room(out, (int64_t)ZSTD_compressBound((size_t)k->raw.bytes)));
    size_t packed = ZSTD_compress2(k->context, out->text + out->bytes, (size_t)(out->room - out->bytes), k->raw.text,
                                   (size_t)k->raw.bytes);
    if (ZSTD_isError(packed)) return fail(NO_MEMORY, "documents cannot be packed: %s", ZSTD_getErrorName(packed));
    rows_told(p, k->rows, (int64_t)packed);
    out->bytes  += (int64_t)packed;
    k->raw.bytes = k->rows = 0;
    return OK;
}

Status stash_put(StashPacker *k, StashPiece *p, const StashDocument *d, StashRow row, const uint64_t *key, int keys)
{
    const JsonText text[5] = { d->text, d->id, d->url, d->title, d->source };
    Head head = { .line = d->line, .input = d->input, .label = d->label, .probability = d->probability };
    int64_t all = sizeof head;
    for (int i = 0; i < 5; i++) {
        head.bytes[i] = text[i].text ? text[i].bytes : -1;
        all += text[i].text ? text[i].bytes : 0;
    }
    if (k->raw.bytes && k->raw.bytes + all > STASH_BLOCK) TRY(stash_close_piece(k, p));
    row.block = p->part[STASH_TEXTS].bytes;
    row.at    = k->raw.bytes;
    TRY(buffer_add(&k->raw, (const char *)&head, sizeof head));
    for (int i = 0; i < 5; i++)
        if (text[i].text) TRY(buffer_add(&k->raw, text[i].text, text[i].bytes));
    TRY(buffer_add(&p->part[STASH_ROWS], (const char *)&row, sizeof row));
    if (keys) TRY(buffer_add(&p->part[STASH_KEYS], (const char *)key, keys * (int64_t)sizeof *key));
    k->rows++;
    p->documents++;
    return OK;
}

void stash_clear_piece(StashPiece *p, int64_t most)
{
    p->documents = 0;
    for (int i = 0; i < STASH_FILES; i++) {
        p->part[i].bytes = 0;
        if (p->part[i].room > most) buffer_free(&p->part[i]);
    }
}

void stash_free_piece(StashPiece *p)
{
    for (int i = 0; i < STASH_FILES; i++) buffer_free(&p->part[i]);
}

void stash_free_packer(StashPacker *k)
{
    ZSTD_freeCCtx(k->context);
    buffer_free(&k->raw);
}

/* ---- the files ---- */

static Status file_open(Stash *s, int i, const char *folder, int64_t bytes)
{
    char *path = s->path[i];
    if ((size_t)snprintf(path, sizeof s->path[i], "%s/%s", folder, file_name[i]) >= sizeof s->path[i])
        return fail(BAD_OPTION, "%.80s...: the path is too long", folder);
    s->fd[i] = seam.open(path, O_RDWR | O_CREAT, 0666);
    if (s->fd[i] < 0) return fail(IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
    off_t size = lseek(s->fd[i], 0, SEEK_END);
    if (size < bytes) return fail(BAD_FILE, "%s: has %lld bytes and should have %" PRId64 "; --restart begins anew", path,
                                  (long long)size, bytes);
    if (ftruncate(s->fd[i], bytes)) return fail(IO_FAILED, "%s: cannot be cut: %s", path, strerror(errno));
    return OK;
}

Status stash_open(Stash **stash, const char *folder, int keys, StashSize size)
{
    Stash *s = calloc(1, sizeof *s);
    *stash = NULL;
    if (!s) return fail(NO_MEMORY, "%s: no memory for it", folder);
    *s = (Stash){ .keys = keys, .size = size };
    for (int i = 0; i < STASH_FILES; i++) s->fd[i] = -1;
    Status status = OK;
    for (int i = 0; i < STASH_FILES && status == OK; i++) status = file_open(s, i, folder, size.bytes[i]);
    if (status == OK) *stash = s;
    else              stash_close(s);
    return status;
}

void stash_close(Stash *s)
{
    if (!s) return;
    for (int i = 0; i < STASH_FILES; i++)
        if (s->fd[i] >= 0) seam.close(s->fd[i]);
    free(s);
}

StashSize stash_size(const Stash *s) { return s->size; }

/* Places in memory follow from a row: it is believed only whole, and only in its own place. */
static uint64_t row_sum(const StashRow *row, int64_t document)
{
    return XXH3_64bits_withSeed(row, offsetof(StashRow, sum), (uint64_t)document);
}

Status stash_add(Stash *s, StashPiece *p)
{
    StashRow *row = (StashRow *)(void *)p->part[STASH_ROWS].text;
    for (int64_t i = 0; i < p->documents; i++) {
        row[i].block += s->size.bytes[STASH_TEXTS];
        row[i].sum    = row_sum(&row[i], s->size.documents + i);
    }
    for (int i = 0; i < STASH_FILES; i++) {
        TRY(file_write(s->fd[i], s->path[i], p->part[i].text, (size_t)p->part[i].bytes, s->size.bytes[i]));
        s->size.bytes[i] += p->part[i].bytes;
    }
    s->size.documents += p->documents;
    return OK;
}

Status stash_sync(Stash *s)
{
    for (int i = 0; i < STASH_FILES; i++)
        if (seam.sync(s->fd[i])) return fail(IO_FAILED, "%s: cannot be made safe on disk: %s", s->path[i], strerror(errno));
    return OK;
}

/* ---- reading ---- */

static Status file_read(const Stash *s, int i, void *out, int64_t bytes, int64_t at)
{
    for (char *to = out; bytes; ) {
        ssize_t got = pread(s->fd[i], to, (size_t)bytes, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail(IO_FAILED, "%s: byte %" PRId64 " cannot be read: %s", s->path[i], at,
                                  got ? strerror(errno) : "the file ends there");
        to    += got;
        at    += got;
        bytes -= got;
    }
    return OK;
}

Status stash_rows(const Stash *s, StashRow *row, int64_t document, int64_t count)
{
    TRY(file_read(s, STASH_ROWS, row, count * (int64_t)sizeof *row, document * (int64_t)sizeof *row));
    for (int64_t i = 0; i < count; i++)
        if (row[i].sum != row_sum(&row[i], document + i))
            return fail(BAD_FILE, "%s: damaged: row %" PRId64 " has another checksum than when it was written; --restart begins anew",
                        s->path[STASH_ROWS], document + i);
    return OK;
}

Status stash_keys(const Stash *s, uint64_t *key, int64_t document, int64_t count)
{
    int64_t each = s->keys * (int64_t)sizeof *key;
    return file_read(s, STASH_KEYS, key, count * each, document * each);
}

Status stash_dropped(const Stash *s, char *out, int64_t at, int64_t bytes)
{
    return file_read(s, STASH_DROPPED, out, bytes, at);
}

static Status broken(const Stash *s, const StashRow *row, const char *why)
{
    return fail(BAD_FILE, "%s: byte %" PRId64 ": damaged: %s; --restart begins anew", s->path[STASH_TEXTS], row->block, why);
}

static Status block_read(const Stash *s, StashReader *r, const StashRow *row)
{
    if (r->bytes && r->block == row->block) return OK;
    r->bytes = r->packed.bytes = r->raw.bytes = 0;
    if (!r->context && !(r->context = ZSTD_createDCtx())) return fail(NO_MEMORY, "no memory to unpack documents");
    TRY(buffer_room(&r->packed, row->packed));
    TRY(file_read(s, STASH_TEXTS, r->packed.text, row->packed, row->block));
    unsigned long long raw = ZSTD_getFrameContentSize(r->packed.text, (size_t)row->packed);
    if (raw == ZSTD_CONTENTSIZE_ERROR || raw == ZSTD_CONTENTSIZE_UNKNOWN) return broken(s, row, "it is no zstd frame");
    TRY(buffer_room(&r->raw, (int64_t)raw));
    size_t got = ZSTD_decompressDCtx(r->context, r->raw.text, (size_t)raw, r->packed.text, (size_t)row->packed);
    if (ZSTD_isError(got)) return broken(s, row, ZSTD_getErrorName(got));
    r->block = row->block;
    r->bytes = r->raw.bytes = (int64_t)got;
    return OK;
}

Status stash_read(const Stash *s, StashReader *r, StashDocument *d, const StashRow *row)
{
    Head head;
    TRY(block_read(s, r, row));
    if (row->at + (int64_t)sizeof head > r->bytes) return broken(s, row, "a document stands behind its end");
    memcpy(&head, r->raw.text + row->at, sizeof head);
    *d = (StashDocument){ .line = head.line, .input = head.input, .label = head.label, .probability = head.probability };
    JsonText *const text[5] = { &d->text, &d->id, &d->url, &d->title, &d->source };
    int64_t at = row->at + (int64_t)sizeof head;
    for (int i = 0; i < 5; i++) {
        if (head.bytes[i] < 0) continue;
        if (head.bytes[i] > r->bytes - at) return broken(s, row, "a text ends behind its end");
        *text[i] = (JsonText){ r->raw.text + at, head.bytes[i] };
        at += head.bytes[i];
    }
    return OK;
}

void stash_free_reader(StashReader *r)
{
    ZSTD_freeDCtx(r->context);
    buffer_free(&r->packed);
    buffer_free(&r->raw);
}
