/* Reading token files in Megatron-LM's format and in the two of fairseq. No number in a file is trusted:
 * every count is compared with the bytes that are there before it is used, by division, so that no product
 * overflows. After token_file_open all accessors are in bounds. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/array.h"
#include "base/guard.h"
#include "base/random.h"
#include "data/token_file.h"

enum { HEADER = 34, ITEMS_HEADER = 26, OLDER_HEADER = 48, CODE_INT32 = 4, CODE_UINT16 = 8 };
/* Of the fingerprint; LIST_BLOCKS: of all files of a list together. */
enum { END_BYTES = 4096, BLOCK_BYTES = 65536, LIST_BLOCKS = 8192 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is read and written in the machine's order");
static const char magic[9] = "MMIDIDX\0", older_magic[8] = { 'T', 'N', 'T', 'I', 'D', 'X', 0, 0 };
static const struct { const char *name; int width; bool has_sign; } types[] = {
    [1] = { "uint8", 1, false }, [2] = { "int8", 1, true },  [3] = { "int16", 2, true },
    [4] = { "int32", 4, true },  [5] = { "int64", 8, true }, [8] = { "uint16", 2, false },
};

static int64_t read_i64(const uint8_t *p) { int64_t v; memcpy(&v, p, sizeof v); return v; }
static int32_t read_i32(const uint8_t *p) { int32_t v; memcpy(&v, p, sizeof v); return v; }

/* ---- made tokens: documents of equal length in which each id follows the one before it, from another first
 * id in each document ---- */

/* A prime, so that documents begin with all ids in turn. */
enum { STRIDE = 7919, MOCK_DOCUMENTS = 1 << 17, MOCK_LENGTH = 1024 };

/* Token `at` of all documents: below `vocabulary`; the last one of a document is `eod`, which occurs nowhere
 * else; eod -1: there is none. */
static int32_t mock_token(int64_t vocabulary, int32_t eod, int64_t at)
{
    int64_t document = at / MOCK_LENGTH, i = at % MOCK_LENGTH, ids = vocabulary - (eod >= 0);
    if (eod >= 0 && (i == MOCK_LENGTH - 1 || ids == 0)) return eod;
    int64_t id = (document * STRIDE + i) % ids;
    return (int32_t)(eod >= 0 && id >= eod ? id + 1 : id);
}

/* ---- accessors ---- */

int64_t token_file_length(const TokenFile *t, int64_t i)
{
    if (t->kind == TOKEN_FILE_ITEMS_OLDER) return read_i64(t->length + 8 * i);
    return t->mock ? MOCK_LENGTH : read_i32(t->length + 4 * i);
}

int64_t token_file_start(const TokenFile *t, int64_t i)
{
    if (i == t->sequences) return t->tokens;
    if (t->kind == TOKEN_FILE_ITEMS_OLDER) return read_i64(t->pointer + 8 * i);
    return t->mock ? i * MOCK_LENGTH : read_i64(t->pointer + 8 * i) / t->width;
}

int64_t token_file_document(const TokenFile *t, int64_t i)
{
    return t->mock || !t->document ? i : read_i64(t->document + 8 * i);
}

int32_t token_file_token(const TokenFile *token_file, int64_t at)
{
    if (token_file->mock) return mock_token(token_file->mock, token_file->mock_eod, at);
    if (token_file->width == 4) return read_i32(token_file->bin.data + 4 * at);
    uint16_t v;
    memcpy(&v, token_file->bin.data + 2 * at, sizeof v);
    return v;
}

/* The arithmetic right shift extends the sign of a signed type. The subtraction is unsigned, because a
 * hostile id may be the smallest number. */
int64_t token_file_id(const TokenFile *t, int64_t at)
{
    uint64_t raw = 0;
    memcpy(&raw, t->bin.data + at * t->width, (size_t)t->width);
    int     unused = 64 - 8 * t->width;
    int64_t token  = types[t->code].has_sign ? (int64_t)(raw << unused) >> unused : (int64_t)raw;
    return (int64_t)((uint64_t)token - (t->kind == TOKEN_FILE_ITEMS_OLDER));
}

const char *token_file_type(const TokenFile *t) { return types[t->code].name; }

const char *token_file_kind_name(TokenFileKind kind)
{
    static const char *const name[] = { "Megatron-LM", "words of a dictionary, mmap",
                                        "words of a dictionary, TNTIDX (lazy, cached)" };
    return name[kind];
}

/* ---- the fingerprint; it is compared with those in checkpoints, so its hashes must not change ---- */

static uint64_t bytes_hash(uint64_t hash, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) hash = random_mix(hash, data[i]);
    return hash;
}

static uint64_t ends_hash(uint64_t hash, const FileMap *f)
{
    size_t end = f->size < END_BYTES ? f->size : END_BYTES;
    return bytes_hash(bytes_hash(random_mix(hash, f->size), f->data, end), f->data + f->size - end, end);
}

/* Eight bytes at a time, because this hash covers megabytes. */
static uint64_t block_hash(uint64_t hash, const uint8_t *data, size_t bytes)
{
    for (; bytes >= 8; data += 8, bytes -= 8) {
        hash = (hash ^ (uint64_t)read_i64(data)) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 29;
    }
    return bytes_hash(hash, data, bytes);
}

/* The blocks begin at equal distances from the start of the file; one more ends at its end. */
static size_t block_at(const FileMap *f, size_t blocks, size_t i)
{
    return (f->size - BLOCK_BYTES) / (blocks - 1) * i;
}

/* Each block read counts as progress for the watchdog, since a slow disk may take minutes for all of them. */
static uint64_t block_read(uint64_t hash, const uint8_t *data, size_t bytes)
{
    hash = block_hash(hash, data, bytes);
    __atomic_fetch_add(&thread_context()->file_calls, 1, __ATOMIC_RELAXED);
    return hash;
}

/* BLOCK_BYTES is a multiple of 8, so the hash is that of one block. */
static uint64_t whole_hash(uint64_t hash, const uint8_t *data, size_t bytes)
{
    for (; bytes > BLOCK_BYTES; data += BLOCK_BYTES, bytes -= BLOCK_BYTES)
        hash = block_read(hash, data, BLOCK_BYTES);
    return block_read(hash, data, bytes);
}

/* A file no longer than all blocks is hashed whole. The kernel is asked for all blocks before the first
 * one is read, so that a disk or network file system serves them in parallel. */
static uint64_t blocks_hash(uint64_t hash, const FileMap *f, size_t blocks)
{
    if (f->size <= BLOCK_BYTES * blocks) return whole_hash(hash, f->data, f->size);
    for (size_t i = 0; i < blocks; i++)
        madvise((void *)(uintptr_t)(f->data + block_at(f, blocks, i) / 4096 * 4096), BLOCK_BYTES + 4096,
                MADV_WILLNEED);
    for (size_t i = 0; i < blocks; i++)
        hash = block_read(hash, f->data + block_at(f, blocks, i), BLOCK_BYTES);
    return block_read(hash, f->data + f->size - BLOCK_BYTES, BLOCK_BYTES);
}

void token_file_fingerprint(char out[TOKEN_FILE_FINGERPRINT], const TokenFile *token_file, int blocks)
{
    const FileMap *bin = &token_file->bin, *index = &token_file->index;
    char number[16] = "";
    if (token_file->mock) {
        snprintf(out, TOKEN_FILE_FINGERPRINT, "made tokens of %" PRId64 " ids", token_file->mock);
        return;
    }
    if (blocks < TOKEN_FILE_BLOCKS) snprintf(number, sizeof number, "%d ", blocks);
    snprintf(out, TOKEN_FILE_FINGERPRINT,
             ".bin %zu bytes, .idx %zu bytes, print %016" PRIx64 ", %sblocks %016" PRIx64,
             bin->size, index->size, ends_hash(ends_hash(0, index), bin), number,
             blocks_hash(blocks_hash(0, index, (size_t)blocks), bin, (size_t)blocks));
}

int token_file_blocks(int64_t files)
{
    int blocks = TOKEN_FILE_BLOCKS;
    while (blocks > TOKEN_FILE_BLOCKS_LEAST && 2 * files * blocks > LIST_BLOCKS) blocks /= 2;
    return blocks;
}

/* ---- files that are truncated while they are read ---- */

/* The checks follow the reading: a file that is long enough after it was read was long enough before. */
Status token_file_guarded(const TokenFile *token_file, void (*body)(void *context), void *context)
{
    const FileMap *bin = &token_file->bin, *map = &token_file->index;
    const uint8_t *fault = guard_run(body, context);
    TRY(file_map_check(map));
    TRY(file_map_check(bin));
    if (!fault) return OK;
    if (fault >= bin->data && fault < bin->data + bin->size) map = bin;
    CHECK(fault >= map->data && fault < map->data + map->size, "SIGBUS at %p, which is in neither file",
          (const void *)fault);
    return fail(BAD_FILE, "%s: cannot be read at byte %zu; its disk fails, restore the file from a copy",
                map->path, (size_t)(fault - map->data));
}

/* ---- opening ---- */

/* Megatron-LM's format and fairseq's newer one begin with MMIDIDX and the number of items at byte 18.
 * Megatron's file has another count and at least one document entry, 16 bytes more, so it never has exactly
 * 12 bytes per item after the header. */
static TokenFileKind index_kind(const FileMap *f)
{
    bool     mmap = f->size >= ITEMS_HEADER && !memcmp(f->data, magic, sizeof magic);
    uint64_t rest = f->size - ITEMS_HEADER;
    if (f->size >= sizeof older_magic && !memcmp(f->data, older_magic, sizeof older_magic))
        return TOKEN_FILE_ITEMS_OLDER;
    if (mmap && rest % 12 == 0 && (uint64_t)read_i64(f->data + 18) == rest / 12) return TOKEN_FILE_ITEMS;
    return TOKEN_FILE_MEGATRON;
}

static Status version_check(const FileMap *f, int64_t at)
{
    int64_t version = read_i64(f->data + at);
    if (version == 1) return OK;
    return fail(BAD_FILE, "%s: byte %" PRId64 ": version %" PRId64 ", only version 1 is supported; prepare"
                " the text again", f->path, at, version);
}

static Status type_read(TokenFile *t, int64_t code, int64_t at)
{
    bool any = t->kind != TOKEN_FILE_MEGATRON, known = code >= 0 && code < COUNT(types) && types[code].width;
    if (!known || (!any && code != CODE_INT32 && code != CODE_UINT16))
        return fail(BAD_FILE, "%s: byte %" PRId64 ": token type %" PRId64 "; only %s are supported: prepare"
                    " the text again", t->index.path, at, code,
                    any ? "1 to 5 and 8 (integers)" : "4 (int32) and 8 (uint16)");
    t->code  = (int)code;
    t->width = types[code].width;
    return OK;
}

/* Reads the counts of sequences and document entries, and places the three arrays; they must fill the file
 * to the byte. */
static Status sequences_place(TokenFile *token_file)
{
    const FileMap *f = &token_file->index;
    if (f->size < HEADER)
        return fail(BAD_FILE,
                    "%s: %zu bytes, but the header alone takes %d; the file is truncated, prepare it again",
                    f->path, f->size, HEADER);
    if (memcmp(f->data, magic, sizeof magic) != 0)
        return fail(BAD_FILE,
                    "%s: byte 0: not an index, which starts with MMIDIDX; give the prefix of a token file",
                    f->path);
    TRY(version_check(f, 9));
    TRY(type_read(token_file, f->data[17], 17));
    uint64_t rest = f->size - HEADER;
    uint64_t sequences = (uint64_t)read_i64(f->data + 18), entries = (uint64_t)read_i64(f->data + 26);
    if (sequences > rest / 12)
        return fail(BAD_FILE,
                    "%s: byte 18: %" PRIu64 " sequences do not fit into %zu bytes; the file is truncated,"
                    " copy it or prepare it again", f->path, sequences, f->size);
    rest -= 12 * sequences;
    if (entries < 1 || entries > rest / 8)
        return fail(BAD_FILE,
                    "%s: byte 26: %" PRIu64 " document entries do not fit into %zu bytes; the file is"
                    " truncated, copy it or prepare it again", f->path, entries, f->size);
    if (rest != 8 * entries)
        return fail(BAD_FILE,
                    "%s: byte %" PRIu64 ": %" PRIu64 " bytes more than the header describes; multimodal data"
                    " is not supported, prepare the text alone", f->path, f->size - (rest - 8 * entries),
                    rest - 8 * entries);
    token_file->sequences = (int64_t)sequences;
    token_file->documents = (int64_t)entries - 1;
    token_file->length    = f->data + HEADER;
    token_file->pointer   = token_file->length + 4 * sequences;
    token_file->document  = token_file->pointer + 8 * sequences;
    return OK;
}

/* fairseq's newer format has no documents; each of its items, a line of the text, is one. */
static Status items_place(TokenFile *t)
{
    const FileMap *x = &t->index;
    TRY(version_check(x, 9));
    TRY(type_read(t, x->data[17], 17));
    t->sequences = t->documents = read_i64(x->data + 18);      /* index_kind has compared it with the size */
    t->length    = x->data + ITEMS_HEADER;
    t->pointer   = t->length + 4 * t->sequences;
    return OK;
}

/* The arrays of fairseq's older format: [items + 1] where the dimensions of each item begin, [items + 1]
 * where its tokens begin, and the dimensions of all items. A text has one dimension per item, its length. */
static Status older_place(TokenFile *t)
{
    const FileMap *x = &t->index;
    if (x->size < OLDER_HEADER + 16)
        return fail(BAD_FILE, "%s: %zu bytes, at least %d are needed; the file is truncated", x->path,
                    x->size, OLDER_HEADER + 16);
    TRY(version_check(x, 8));
    TRY(type_read(t, read_i64(x->data + 16), 16));
    uint64_t words = (x->size - OLDER_HEADER) / 8;
    uint64_t items = (uint64_t)read_i64(x->data + 32), dims = (uint64_t)read_i64(x->data + 40);
    if (read_i64(x->data + 24) != t->width)
        return fail(BAD_FILE, "%s: byte 24: tokens of %" PRId64 " bytes, and %s has %d", x->path,
                    read_i64(x->data + 24), token_file_type(t), t->width);
    if (items > words / 3 || dims != items)
        return fail(BAD_FILE,
                    "%s: byte 32: %" PRIu64 " items with %" PRIu64 " dimensions in %zu bytes; the file is"
                    " truncated or is not text", x->path, items, dims, x->size);
    if (x->size != OLDER_HEADER + 8 * (3 * items + 2))
        return fail(BAD_FILE,
                    "%s: %zu bytes, and %" PRIu64 " items take %" PRIu64 "; the file is"
                    " truncated, or of Megatron-LM's older format, which is not supported: prepare the text"
                    " again", x->path, x->size, items, OLDER_HEADER + 8 * (3 * items + 2));
    t->sequences = t->documents = (int64_t)items;
    t->pointer   = x->data + OLDER_HEADER + 8 * (items + 1);
    t->length    = t->pointer + 8 * (items + 1);
    for (int64_t i = 0; i <= t->sequences; i++)
        if (read_i64(x->data + OLDER_HEADER + 8 * i) != i)
            return fail(BAD_FILE,
                        "%s: byte %" PRId64 ": item %" PRId64 " does not have one dimension; it is not text",
                        x->path, OLDER_HEADER + 8 * i, i);
    return OK;
}

static Status index_damaged(const TokenFile *token_file, const uint8_t *at, const char *what, int64_t which,
                            int64_t value, int64_t wanted)
{
    return fail(BAD_FILE, "%s: byte %td: %s %" PRId64 " begins at %" PRId64 " instead of %" PRId64
                "; the index is damaged, copy it or prepare it again", token_file->index.path,
                at - token_file->index.data, what, which, value, wanted);
}

/* Sequences must be contiguous in .bin: the loader's ranges depend on it, and every writer of the formats
 * produces it. */
static Status sequences_check(TokenFile *t)
{
    const FileMap *f = &t->index;
    bool    older = t->kind == TOKEN_FILE_ITEMS_OLDER;              /* its starts count tokens, not bytes */
    int64_t held = (int64_t)t->bin.size / t->width, end = 0, unit = older ? 1 : t->width;
    for (int64_t s = 0; s < t->sequences; s++) {
        int64_t length = token_file_length(t, s), pointer = read_i64(t->pointer + 8 * s);
        if (length < 0 || length > held - end)
            return fail(BAD_FILE,
                        "%s: byte %td: sequence %" PRId64 " has %" PRId64 " tokens, past the end of %s at %zu"
                        " bytes; a file is truncated, or the two do not belong together", f->path,
                        t->length + (older ? 8 : 4) * s - f->data, s, length, t->bin.path, t->bin.size);
        if (pointer != end * unit)
            return index_damaged(t, t->pointer + 8 * s, "sequence", s, pointer, end * unit);
        end += length;
    }
    const uint8_t *last = t->pointer + 8 * t->sequences;        /* the older format stores the end as well */
    if (older && read_i64(last) != end)
        return index_damaged(t, last, "sequence", t->sequences, read_i64(last), end);
    if (end * t->width != (int64_t)t->bin.size)
        return fail(BAD_FILE,
                    "%s: %zu bytes, but %s describes %" PRId64 "; the two files do not belong"
                    " together", t->bin.path, t->bin.size, f->path, end * t->width);
    t->tokens = end;
    return OK;
}

/* Document entries begin at 0, never decrease and end with the number of sequences, where a next document
 * would begin. */
static Status documents_check(const TokenFile *token_file)
{
    int64_t before = 0;
    for (int64_t d = 0; d <= token_file->documents; d++) {
        int64_t first  = token_file_document(token_file, d);
        int64_t wanted = d == token_file->documents ? token_file->sequences : before;
        bool    inner  = d > 0 && d < token_file->documents;
        if (first < wanted || first > (inner ? token_file->sequences : wanted))
            return index_damaged(token_file, token_file->document + 8 * d, "document", d, first, wanted);
        before = first;
    }
    return OK;
}

/* The prefix that was meant: that of a file (X.idx), or the same with or without what `jotun prepare`
 * adds. */
static Status missing_fail(const char *prefix, const char *path)
{
    static const char added[] = "_text_document";
    char meant[1024], index[1100];
    size_t bytes = strlen(prefix);
    bool bin = path_ends(prefix, bytes, ".bin");
    snprintf(meant, sizeof meant, "%s%s", prefix, bin ? "" : ".bin");
    snprintf(index, sizeof index, "%.*s.idx", (int)(bytes - (bin ? 4 : 0)), prefix);
    if (file_exists(meant) && !file_exists(index))
        return fail(BAD_FILE, "%s has no index %s, as token files of nanoGPT and llm.c: jotun data merge %s "
                    "--tokenizer T --output-prefix P makes the pair P.bin and P.idx", meant, index, meant);
    if (path_ends(prefix, bytes, ".idx") || bin)
        return fail(BAD_FILE, "%s: no such file; give the prefix without .bin or .idx", path);
    if (path_ends(prefix, bytes, added))
        snprintf(meant, sizeof meant, "%.*s", (int)(bytes - strlen(added)), prefix);
    else snprintf(meant, sizeof meant, "%s%s", prefix, added);
    snprintf(index, sizeof index, "%s.idx", meant);
    if (file_exists(index))
        return fail(BAD_FILE, "%s: no such file, but %s is there: give the prefix %s", path, index, meant);
    return fail(BAD_FILE, "%s: no such file; give the prefix of a token file, for example P_text_document"
                " from `jotun prepare --output-prefix P`", path);
}

static Status files_open(TokenFile *token_file, const char *prefix)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s.idx", prefix) >= (int)sizeof path)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", prefix, sizeof path - 1);
    if (!file_exists(path)) return missing_fail(prefix, path);
    TRY(file_map(&token_file->index, path));
    token_file->kind = index_kind(&token_file->index);
    TRY(token_file->kind == TOKEN_FILE_MEGATRON ? sequences_place(token_file)
        : token_file->kind == TOKEN_FILE_ITEMS  ? items_place(token_file) : older_place(token_file));
    snprintf(path, sizeof path, "%s.bin", prefix);
    TRY(file_map(&token_file->bin, path));
    TRY(sequences_check(token_file));
    return token_file->document ? documents_check(token_file) : OK;
}

Status token_file_open_any(TokenFile *token_file, const char *prefix)
{
    *token_file = (TokenFile){ 0 };
    Status status = files_open(token_file, prefix);
    if (status != OK) token_file_close(token_file);
    return status;
}

Status token_file_open(TokenFile *t, const char *prefix)
{
    TRY(token_file_open_any(t, prefix));
    Status status = OK;
    if (t->kind == TOKEN_FILE_ITEMS_OLDER)
        status = fail(BAD_FILE,
                      "%s: a token file of %s, which only `jotun data info` and `jotun data cat` read;"
                      " prepare the text again with --dataset-impl mmap", t->index.path,
                      token_file_kind_name(t->kind));
    else if (t->code != CODE_INT32 && t->code != CODE_UINT16)
        status = fail(BAD_FILE, "%s: byte 17: token type %d; training and evaluation read 4 (int32) and 8 "
                      "(uint16), which jotun data words writes: prepare the text again", t->index.path,
                      t->code);
    if (status != OK) token_file_close(t);
    return status;
}

void token_file_mock(TokenFile *token_file, int64_t vocabulary, int32_t eod)
{
    *token_file = (TokenFile){ .mock = vocabulary, .mock_eod = eod, .code = CODE_INT32, .width = 4,
        .sequences = MOCK_DOCUMENTS, .documents = MOCK_DOCUMENTS,
        .tokens = (int64_t)MOCK_DOCUMENTS * MOCK_LENGTH,
        .index = { .path = "mock data" }, .bin = { .path = "mock data" } };
}

void token_file_close(TokenFile *token_file)
{
    if (token_file->bin.data)   file_unmap(&token_file->bin);
    if (token_file->index.data) file_unmap(&token_file->index);
    *token_file = (TokenFile){ 0 };
}
