/* As in shard.c nothing in the file is believed: counts are held against the bytes that are there, by division, before they
 * are used; after fairseq_tokens_open all accessors are in bounds.                                                               */
#include "data/fairseq_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MMAP_HEADER = 26, TNT_HEADER = 48, CODES = 9 };
static const char mmap_magic[9] = "MMIDIDX\0", tnt_magic[8] = { 'T', 'N', 'T', 'I', 'D', 'X', 0, 0 };
static const struct { const char *name; int width; } types[CODES] = {
    [1] = { "uint8", 1 }, [2] = { "int8", 1 }, [3] = { "int16", 2 }, [4] = { "int32", 4 }, [5] = { "int64", 8 }, [8] = { "uint16", 2 },
};

static int64_t read_i64(const uint8_t *p) { int64_t v; memcpy(&v, p, sizeof v); return v; }
static int32_t read_i32(const uint8_t *p) { int32_t v; memcpy(&v, p, sizeof v); return v; }

/* ---- which ---- */

static Status index_map(FileMap *map, const char *prefix)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s.idx", prefix) >= (int)sizeof path)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", prefix, sizeof path - 1);
    return file_map(map, path);
}

/* A document entry more makes Megatron's file at least 16 bytes longer for the same count of items. */
static TokenFileKind index_kind(const FileMap *f)
{
    bool mmap = f->size >= MMAP_HEADER && !memcmp(f->data, mmap_magic, sizeof mmap_magic);
    uint64_t room = f->size - MMAP_HEADER;
    if (f->size >= sizeof tnt_magic && !memcmp(f->data, tnt_magic, sizeof tnt_magic)) return TOKEN_FILE_FAIRSEQ_TNT;
    if (mmap && room % 12 == 0 && (uint64_t)read_i64(f->data + 18) == room / 12) return TOKEN_FILE_FAIRSEQ_MMAP;
    return TOKEN_FILE_MEGATRON;
}

Status token_file_kind(TokenFileKind *kind, const char *prefix)
{
    FileMap map;
    TRY(index_map(&map, prefix));
    *kind = index_kind(&map);
    file_unmap(&map);
    return OK;
}

const char *token_file_kind_name(TokenFileKind kind)
{
    static const char *const name[] = { "Megatron-LM", "fairseq, mmap", "fairseq, TNTIDX (lazy, cached)" };
    return name[kind];
}

/* ---- opening ---- */

static Status type_read(FairseqTokens *f, int64_t code, int64_t at)
{
    if (code < 0 || code >= CODES || !types[code].width)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": token type %" PRId64 "; ids are of type 1 to 5 or 8 (whole numbers)",
                    f->index.path, at, code);
    f->code  = (int)code;
    f->width = types[code].width;
    return OK;
}

static Status version_check(const FairseqTokens *f, int64_t at)
{
    int64_t version = read_i64(f->index.data + at);
    if (version == 1) return OK;
    return fail(BAD_FILE, "%s: byte %" PRId64 ": version %" PRId64 ", only 1 is known", f->index.path, at, version);
}

static Status mmap_place(FairseqTokens *f)
{
    TRY(version_check(f, 9));
    TRY(type_read(f, f->index.data[17], 17));
    f->items  = read_i64(f->index.data + 18);           /* index_kind has held it against the size */
    f->length = f->index.data + MMAP_HEADER;
    f->start  = f->length + 4 * f->items;
    return OK;
}

/* The arrays: where the dimensions of an item begin, where its tokens do, all dimensions. A text has one dimension. */
static Status tnt_place(FairseqTokens *f)
{
    const FileMap *x = &f->index;
    if (x->size < TNT_HEADER + 16)
        return fail(BAD_FILE, "%s: %zu bytes, and %d are the least; the file is cut", x->path, x->size, TNT_HEADER + 16);
    TRY(version_check(f, 8));
    TRY(type_read(f, read_i64(x->data + 16), 16));
    uint64_t words = (x->size - TNT_HEADER) / 8, items = (uint64_t)read_i64(x->data + 32), dims = (uint64_t)read_i64(x->data + 40);
    if (read_i64(x->data + 24) != f->width)
        return fail(BAD_FILE, "%s: byte 24: tokens of %" PRId64 " bytes, and %s has %d", x->path, read_i64(x->data + 24),
                    types[f->code].name, f->width);
    if (items > words / 3 || dims != items)
        return fail(BAD_FILE, "%s: byte 32: %" PRIu64 " items with %" PRIu64 " dimensions in %zu bytes; the file is cut or is no text",
                    x->path, items, dims, x->size);
    if (x->size != TNT_HEADER + 8 * (3 * items + 2))
        return fail(BAD_FILE, "%s: %zu bytes, and %" PRIu64 " items of fairseq's make %" PRIu64 "; the file is cut, or Megatron-LM's own"
                    " old kind, which is not read: prepare the text again", x->path, x->size, items, TNT_HEADER + 8 * (3 * items + 2));
    f->items  = (int64_t)items;
    f->start  = x->data + TNT_HEADER + 8 * (items + 1);
    f->length = f->start + 8 * (items + 1);
    for (int64_t i = 0; i <= f->items; i++)
        if (read_i64(x->data + TNT_HEADER + 8 * i) != i)
            return fail(BAD_FILE, "%s: byte %" PRId64 ": item %" PRId64 " has not one dimension; it is no text", x->path,
                        TNT_HEADER + 8 * i, i);
    return OK;
}

int64_t fairseq_tokens_length(const FairseqTokens *f, int64_t i)
{
    return f->kind == TOKEN_FILE_FAIRSEQ_TNT ? read_i64(f->length + 8 * i) : read_i32(f->length + 4 * i);
}

int64_t fairseq_tokens_start(const FairseqTokens *f, int64_t i)
{
    int64_t start = read_i64(f->start + 8 * i);
    return f->kind == TOKEN_FILE_FAIRSEQ_TNT ? start : start / f->width;
}

/* Items lie end to end in .bin and fill it: both writers of fairseq do it. */
static Status items_check(FairseqTokens *f)
{
    int64_t end = 0, held = (int64_t)f->bin.size / f->width, unit = f->kind == TOKEN_FILE_FAIRSEQ_TNT ? 1 : f->width;
    for (int64_t i = 0; i < f->items; i++) {
        int64_t length = fairseq_tokens_length(f, i), start = read_i64(f->start + 8 * i);
        if (length < 0 || length > held - end || start != end * unit)
            return fail(BAD_FILE, "%s: item %" PRId64 " is said to have %" PRId64 " tokens from %" PRId64 ", and to begin at %" PRId64
                        " was due in %s of %zu bytes; the pair is cut or does not belong together", f->index.path, i, length, start,
                        end * unit, f->bin.path, f->bin.size);
        end += length;
    }
    bool whole = f->kind != TOKEN_FILE_FAIRSEQ_TNT || read_i64(f->start + 8 * f->items) == end;       /* it tells the end as well */
    if (!whole || end * f->width != (int64_t)f->bin.size)
        return fail(BAD_FILE, "%s: %zu bytes, and the items of %s are %" PRId64 "; the pair does not belong together", f->bin.path,
                    f->bin.size, f->index.path, end * f->width);
    f->tokens = end;
    return OK;
}

static Status fairseq_tokens_map(FairseqTokens *f, const char *prefix)
{
    char path[1024];
    TRY(index_map(&f->index, prefix));
    f->kind = index_kind(&f->index);
    if (f->kind == TOKEN_FILE_MEGATRON)
        return fail(BAD_FILE, "%s: neither of fairseq's indices, or cut", f->index.path);
    TRY(f->kind == TOKEN_FILE_FAIRSEQ_TNT ? tnt_place(f) : mmap_place(f));
    snprintf(path, sizeof path, "%s.bin", prefix);
    TRY(file_map(&f->bin, path));
    return items_check(f);
}

Status fairseq_tokens_open(FairseqTokens *f, const char *prefix)
{
    *f = (FairseqTokens){ 0 };
    Status status = fairseq_tokens_map(f, prefix);
    if (status != OK) fairseq_tokens_close(f);
    return status;
}

void fairseq_tokens_close(FairseqTokens *f)
{
    if (f->bin.data)   file_unmap(&f->bin);
    if (f->index.data) file_unmap(&f->index);
    *f = (FairseqTokens){ 0 };
}

int64_t fairseq_tokens_token(const FairseqTokens *f, int64_t at)
{
    uint64_t raw = 0;
    memcpy(&raw, f->bin.data + at * f->width, (size_t)f->width);
    int empty = 64 - 8 * f->width;
    bool bare = f->code == 1 || f->code == 8;                  /* without a sign */
    int64_t token = bare ? (int64_t)raw : (int64_t)(raw << empty) >> empty;
    return (int64_t)((uint64_t)token - (f->kind == TOKEN_FILE_FAIRSEQ_TNT));
}

const char *fairseq_tokens_type(const FairseqTokens *f) { return types[f->code].name; }
