/* Reading token files in Megatron-LM's format, and in the newer one of fairseq. No number in a file is
 * trusted: every count is compared with the bytes that are there before it is used, by division, so that no
 * product overflows. After token_file_open all accessors are in bounds. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/guard.h"
#include "base/random.h"
#include "data/item_file.h"
#include "data/mock_tokens.h"
#include "data/token_file.h"

enum { HEADER = 34, ITEMS_HEADER = 26, CODE_INT32 = 4, CODE_UINT16 = 8 };     /* of the formats */
/* Of the fingerprint; LIST_BLOCKS: of all files of a list together. */
enum { END_BYTES = 4096, BLOCK_BYTES = 65536, LIST_BLOCKS = 8192 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is read and written in the machine's order");
static const uint8_t magic[9] = { 'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0 };

static int64_t read_i64(const uint8_t *p) { int64_t v; memcpy(&v, p, sizeof v); return v; }
static int32_t read_i32(const uint8_t *p) { int32_t v; memcpy(&v, p, sizeof v); return v; }

int64_t token_file_length(const TokenFile *t, int64_t i)
{
    return t->mock ? MOCK_LENGTH : read_i32(t->length + 4 * i);
}

int64_t token_file_start(const TokenFile *t, int64_t i)
{
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

static Status header_read(TokenFile *token_file)
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
    int64_t version = read_i64(f->data + 9);
    if (version != 1)
        return fail(BAD_FILE,
                    "%s: byte 9: version %" PRId64 ", only version 1 is supported; prepare the text again",
                    f->path, version);
    int code = f->data[17];
    if (code != CODE_INT32 && code != CODE_UINT16)
        return fail(BAD_FILE,
                    "%s: byte 17: token type %d; only 4 (int32) and 8 (uint16) are supported: prepare the"
                    " text again",
                    f->path, code);
    token_file->width = code == CODE_INT32 ? 4 : 2;
    return OK;
}

/* Reads the counts of sequences and document entries, and places the three arrays; they must fill the file
 * to the byte. */
static Status arrays_place(TokenFile *token_file)
{
    const FileMap *f = &token_file->index;
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

static Status index_damaged(const TokenFile *token_file, const uint8_t *at, const char *what, int64_t which,
                            int64_t value, int64_t wanted)
{
    return fail(BAD_FILE, "%s: byte %td: %s %" PRId64 " begins at %" PRId64 " instead of %" PRId64
                "; the index is damaged, copy it or prepare it again", token_file->index.path,
                at - token_file->index.data, what, which, value, wanted);
}

/* Sequences must be contiguous in .bin: the loader's ranges depend on it, and every writer of the format
 * produces it. */
static Status sequences_check(TokenFile *token_file)
{
    const FileMap *f = &token_file->index;
    int64_t held = (int64_t)token_file->bin.size, end = 0;
    for (int64_t s = 0; s < token_file->sequences; s++) {
        int64_t length = token_file_length(token_file, s), pointer = read_i64(token_file->pointer + 8 * s);
        if (length < 0 || length > (held - end) / token_file->width)
            return fail(BAD_FILE,
                        "%s: byte %td: sequence %" PRId64 " has %" PRId64 " tokens, past the end of %s at %"
                        PRId64 " bytes; a file is truncated, or the two do not belong together", f->path,
                        token_file->length + 4 * s - f->data, s, length, token_file->bin.path, held);
        if (pointer != end)
            return index_damaged(token_file, token_file->pointer + 8 * s, "sequence", s, pointer, end);
        end += length * token_file->width;
    }
    if (end != held)
        return fail(BAD_FILE,
                    "%s: %" PRId64 " bytes, but %s describes %" PRId64 "; the two files do not belong"
                    " together",
                    token_file->bin.path, held, f->path, end);
    token_file->tokens = end / token_file->width;
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

/* fairseq's newer format has no documents; each of its items, a line of the text, is one. */
static Status items_place(TokenFile *token_file, const char *prefix)
{
    ItemFile f;
    TRY(item_file_open(&f, prefix));
    int code = f.code;
    int64_t items = f.items;
    item_file_close(&f);
    const FileMap *x = &token_file->index;
    if (code != CODE_INT32 && code != CODE_UINT16)
        return fail(BAD_FILE, "%s: byte 17: token type %d; training and evaluation read 4 (int32) and 8 "
                    "(uint16), which jotun data words writes: prepare the text again", x->path, code);
    token_file->width     = code == CODE_INT32 ? 4 : 2;
    token_file->words   = true;
    token_file->sequences = token_file->documents = items;
    token_file->length    = x->data + ITEMS_HEADER;
    token_file->pointer   = token_file->length + 4 * items;
    return OK;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), e = strlen(ending);
    return n > e && !strcmp(text + n - e, ending);
}

/* The prefix that was meant: that of a file (X.idx), or the same with or without what `jotun prepare`
 * adds. */
static Status missing_fail(const char *prefix, const char *path)
{
    static const char added[] = "_text_document";
    char meant[1024], index[1100];
    bool bin = ends_with(prefix, ".bin");
    snprintf(meant, sizeof meant, "%s%s", prefix, bin ? "" : ".bin");
    snprintf(index, sizeof index, "%.*s.idx", (int)(strlen(prefix) - (bin ? 4 : 0)), prefix);
    if (file_exists(meant) && !file_exists(index))
        return fail(BAD_FILE, "%s has no index %s, as token files of nanoGPT and llm.c: jotun data merge %s "
                    "--tokenizer T --output-prefix P makes the pair P.bin and P.idx", meant, index, meant);
    if (ends_with(prefix, ".idx") || bin)
        return fail(BAD_FILE, "%s: no such file; give the prefix without .bin or .idx", path);
    if (ends_with(prefix, added))
        snprintf(meant, sizeof meant, "%.*s", (int)(strlen(prefix) - strlen(added)), prefix);
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
    /* fairseq's formats first, because to Megatron's reader their index looks truncated */
    TokenFileKind kind;
    TRY(token_file_kind(&kind, prefix));
    if (kind == TOKEN_FILE_ITEMS_OLDER)
        return fail(BAD_FILE,
                    "%s: a token file of %s, which only `jotun data info` and `jotun data cat` read;"
                    " prepare the text again with --dataset-impl mmap",
                    path, token_file_kind_name(kind));
    TRY(file_map(&token_file->index, path));
    if (kind == TOKEN_FILE_ITEMS) TRY(items_place(token_file, prefix));
    else {
        TRY(header_read(token_file));
        TRY(arrays_place(token_file));
    }
    snprintf(path, sizeof path, "%s.bin", prefix);
    TRY(file_map(&token_file->bin, path));
    TRY(sequences_check(token_file));
    return token_file->document ? documents_check(token_file) : OK;
}

Status token_file_open(TokenFile *token_file, const char *prefix)
{
    *token_file = (TokenFile){ 0 };
    Status status = files_open(token_file, prefix);
    if (status != OK) token_file_close(token_file);
    return status;
}

void token_file_mock(TokenFile *token_file, int64_t vocabulary, int32_t eod)
{
    *token_file = (TokenFile){ .mock = vocabulary, .mock_eod = eod, .width = 4, .sequences = MOCK_DOCUMENTS,
        .documents = MOCK_DOCUMENTS, .tokens = (int64_t)MOCK_DOCUMENTS * MOCK_LENGTH,
        .index = { .path = "mock data" }, .bin = { .path = "mock data" } };
}

void token_file_close(TokenFile *token_file)
{
    if (token_file->bin.data)   file_unmap(&token_file->bin);
    if (token_file->index.data) file_unmap(&token_file->index);
    *token_file = (TokenFile){ 0 };
}
