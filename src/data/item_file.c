/* Reading fairseq's two formats. As in token_file.c no number in the file is trusted: counts are compared
 * with the bytes that are there, by division so that no product overflows, before they are used. After
 * item_file_open all accessors are in bounds. */
#include "data/item_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MMAP_HEADER = 26, TNT_HEADER = 48, CODES = 9 };
static const char mmap_magic[9] = "MMIDIDX\0", tnt_magic[8] = { 'T', 'N', 'T', 'I', 'D', 'X', 0, 0 };
static const struct { const char *name; int width; } types[CODES] = {
    [1] = { "uint8", 1 }, [2] = { "int8", 1 },  [3] = { "int16", 2 },
    [4] = { "int32", 4 }, [5] = { "int64", 8 }, [8] = { "uint16", 2 },
};

static int64_t read_i64(const uint8_t *p) { int64_t v; memcpy(&v, p, sizeof v); return v; }
static int32_t read_i32(const uint8_t *p) { int32_t v; memcpy(&v, p, sizeof v); return v; }

/* ---- recognising the format ---- */

static Status index_map(FileMap *map, const char *prefix)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s.idx", prefix) >= (int)sizeof path)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", prefix, sizeof path - 1);
    return file_map(map, path);
}

/* Both formats begin with MMIDIDX and the number of items at byte 18. Megatron's file has another count
 * and at least one document entry, 16 bytes more, so it never has exactly 12 bytes per item after the
 * header. */
static TokenFileKind index_kind(const FileMap *f)
{
    bool mmap = f->size >= MMAP_HEADER && !memcmp(f->data, mmap_magic, sizeof mmap_magic);
    uint64_t rest = f->size - MMAP_HEADER;
    if (f->size >= sizeof tnt_magic && !memcmp(f->data, tnt_magic, sizeof tnt_magic))
        return TOKEN_FILE_ITEMS_OLDER;
    if (mmap && rest % 12 == 0 && (uint64_t)read_i64(f->data + 18) == rest / 12)
        return TOKEN_FILE_ITEMS;
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
    static const char *const name[] = { "Megatron-LM", "words of a dictionary, mmap",
                                        "words of a dictionary, TNTIDX (lazy, cached)" };
    return name[kind];
}

/* ---- opening ---- */

static Status type_read(ItemFile *f, int64_t code, int64_t at)
{
    if (code < 0 || code >= CODES || !types[code].width)
        return fail(BAD_FILE,
                    "%s: byte %" PRId64 ": token type %" PRId64 "; ids are of type 1 to 5 or 8 (integers)",
                    f->index.path, at, code);
    f->code  = (int)code;
    f->width = types[code].width;
    return OK;
}

static Status version_check(const ItemFile *f, int64_t at)
{
    int64_t version = read_i64(f->index.data + at);
    if (version == 1) return OK;
    return fail(BAD_FILE, "%s: byte %" PRId64 ": version %" PRId64 "; only version 1 is supported",
                f->index.path, at, version);
}

static Status mmap_place(ItemFile *f)
{
    TRY(version_check(f, 9));
    TRY(type_read(f, f->index.data[17], 17));
    f->items  = read_i64(f->index.data + 18);           /* index_kind has compared it with the size */
    f->length = f->index.data + MMAP_HEADER;
    f->start  = f->length + 4 * f->items;
    return OK;
}

/* The arrays of the older format: [items + 1] where the dimensions of each item begin, [items + 1] where
 * its tokens begin, and the dimensions of all items. A text has one dimension per item, its length. */
static Status tnt_place(ItemFile *f)
{
    const FileMap *x = &f->index;
    if (x->size < TNT_HEADER + 16)
        return fail(BAD_FILE, "%s: %zu bytes, at least %d are needed; the file is truncated", x->path,
                    x->size, TNT_HEADER + 16);
    TRY(version_check(f, 8));
    TRY(type_read(f, read_i64(x->data + 16), 16));
    uint64_t words = (x->size - TNT_HEADER) / 8;
    uint64_t items = (uint64_t)read_i64(x->data + 32), dims = (uint64_t)read_i64(x->data + 40);
    if (read_i64(x->data + 24) != f->width)
        return fail(BAD_FILE, "%s: byte 24: tokens of %" PRId64 " bytes, and %s has %d", x->path,
                    read_i64(x->data + 24), types[f->code].name, f->width);
    if (items > words / 3 || dims != items)
        return fail(BAD_FILE,
                    "%s: byte 32: %" PRIu64 " items with %" PRIu64 " dimensions in %zu bytes; the file is"
                    " truncated or is not text", x->path, items, dims, x->size);
    if (x->size != TNT_HEADER + 8 * (3 * items + 2))
        return fail(BAD_FILE,
                    "%s: %zu bytes, and %" PRIu64 " items take %" PRIu64 "; the file is"
                    " truncated, or of Megatron-LM's older format, which is not supported: prepare the text"
                    " again", x->path, x->size, items, TNT_HEADER + 8 * (3 * items + 2));
    f->items  = (int64_t)items;
    f->start  = x->data + TNT_HEADER + 8 * (items + 1);
    f->length = f->start + 8 * (items + 1);
    for (int64_t i = 0; i <= f->items; i++)
        if (read_i64(x->data + TNT_HEADER + 8 * i) != i)
            return fail(BAD_FILE,
                        "%s: byte %" PRId64 ": item %" PRId64 " does not have one dimension; it is not text",
                        x->path, TNT_HEADER + 8 * i, i);
    return OK;
}

int64_t item_file_length(const ItemFile *f, int64_t i)
{
    return f->kind == TOKEN_FILE_ITEMS_OLDER ? read_i64(f->length + 8 * i) : read_i32(f->length + 4 * i);
}

int64_t item_file_start(const ItemFile *f, int64_t i)
{
    int64_t start = read_i64(f->start + 8 * i);
    return f->kind == TOKEN_FILE_ITEMS_OLDER ? start : start / f->width;
}

/* Items must be contiguous in .bin and fill it; both writers of fairseq produce such files. */
static Status items_check(ItemFile *f)
{
    int64_t end = 0, held = (int64_t)f->bin.size / f->width;
    int64_t unit = f->kind == TOKEN_FILE_ITEMS_OLDER ? 1 : f->width;   /* starts count tokens or bytes */
    for (int64_t i = 0; i < f->items; i++) {
        int64_t length = item_file_length(f, i), start = read_i64(f->start + 8 * i);
        if (length < 0 || length > held - end || start != end * unit)
            return fail(BAD_FILE,
                        "%s: item %" PRId64 " has %" PRId64 " tokens from %" PRId64 " instead of %" PRId64
                        " in %s of %zu bytes; a file is truncated, or the two do not belong together",
                        f->index.path, i, length, start, end * unit, f->bin.path, f->bin.size);
        end += length;
    }
    /* The older format stores the end of the last item too. */
    bool end_right = f->kind != TOKEN_FILE_ITEMS_OLDER || read_i64(f->start + 8 * f->items) == end;
    if (!end_right || end * f->width != (int64_t)f->bin.size)
        return fail(BAD_FILE,
                    "%s: %zu bytes, and the items of %s take %" PRId64 "; the two files do not belong"
                    " together", f->bin.path, f->bin.size, f->index.path, end * f->width);
    f->tokens = end;
    return OK;
}

static Status item_file_map(ItemFile *f, const char *prefix)
{
    char path[1024];
    TRY(index_map(&f->index, prefix));
    f->kind = index_kind(&f->index);
    if (f->kind == TOKEN_FILE_MEGATRON)
        return fail(BAD_FILE, "%s: is neither index format of items, or is truncated", f->index.path);
    TRY(f->kind == TOKEN_FILE_ITEMS_OLDER ? tnt_place(f) : mmap_place(f));
    snprintf(path, sizeof path, "%s.bin", prefix);
    TRY(file_map(&f->bin, path));
    return items_check(f);
}

Status item_file_open(ItemFile *f, const char *prefix)
{
    *f = (ItemFile){ 0 };
    Status status = item_file_map(f, prefix);
    if (status != OK) item_file_close(f);
    return status;
}

void item_file_close(ItemFile *f)
{
    if (f->bin.data)   file_unmap(&f->bin);
    if (f->index.data) file_unmap(&f->index);
    *f = (ItemFile){ 0 };
}

/* The arithmetic right shift extends the sign of a signed type. The subtraction is unsigned, because a
 * hostile id may be the smallest number. */
int64_t item_file_token(const ItemFile *f, int64_t at)
{
    uint64_t raw = 0;
    memcpy(&raw, f->bin.data + at * f->width, (size_t)f->width);
    int  unused    = 64 - 8 * f->width;
    bool is_signed = f->code != 1 && f->code != 8;
    int64_t token  = is_signed ? (int64_t)(raw << unused) >> unused : (int64_t)raw;
    return (int64_t)((uint64_t)token - (f->kind == TOKEN_FILE_ITEMS_OLDER));
}

const char *item_file_type(const ItemFile *f) { return types[f->code].name; }
