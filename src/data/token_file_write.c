/* Writing token files in Megatron-LM's format, or without its documents in fairseq's. Tokens stream to
 * `prefix.bin.part`; the lengths of sequences and the document entries (4 and 8 bytes each) are kept in
 * memory until the index is written. At the end .bin is renamed first and .idx last. The lock on
 * `prefix.idx.part`, held from the beginning, makes this the only writer of the prefix. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/buffer.h"
#include "base/seam.h"
#include "data/token_facts.h"

/* BUFFER: bytes of a write; SLICE: tokens narrowed at a time; NARROW_BELOW: Megatron-LM's limit for
 * uint16. */
enum { BUFFER = 1 << 20, SLICE = 4096, NARROW_BELOW = 65500, CODE_INT32 = 4, CODE_UINT16 = 8 };

/* A file written through a buffer of BUFFER bytes. at: bytes already written; fd -1: not open. */
typedef struct { int fd; char path[1024]; int64_t at; Buffer buffer; } BufferedFile;
struct TokenFileWriter {
    char         bin[1000], idx[1000];         /* final paths */
    char         prefix[1000];
    TokenFacts   facts;                        /* of the file beside them */
    bool         described;                    /* there is one */
    int64_t      largest;                      /* id; -1: no tokens */
    BufferedFile out;                          /* .bin.part, at the end .idx.part */
    Buffer       length, document;             /* i32 tokens of each sequence; i64 document entries */
    int64_t      vocabulary, sequences, documents;
    int64_t      tokens;                       /* once .bin is written */
    int          width;                        /* bytes of a token */
    bool         items;                        /* an index without documents */
    int          lock;                         /* descriptor of the locked .idx.part; -1: not locked */
};

/* ---- a buffered file ---- */

static void part_path(char part[1024], const char *path) { snprintf(part, 1024, "%s.part", path); }

static void buffered_begin(BufferedFile *out, const char *path)
{
    part_path(out->path, path);
    out->fd = -1;
    out->at = out->buffer.bytes = 0;
}

static Status buffered_flush(BufferedFile *out)
{
    TRY(file_write(out->fd, out->path, out->buffer.text, (size_t)out->buffer.bytes, out->at));
    out->at += out->buffer.bytes;
    out->buffer.bytes = 0;
    return OK;
}

/* bytes is at most BUFFER. */
static Status buffered_put(BufferedFile *out, const void *data, size_t bytes)
{
    if (out->buffer.bytes + (int64_t)bytes > BUFFER) TRY(buffered_flush(out));
    return buffer_add(&out->buffer, data, (int64_t)bytes);
}

static Status buffered_close(BufferedFile *out)
{
    Status status = buffered_flush(out);
    if (status == OK) status = file_finish(out->fd, out->path);
    else              seam.close(out->fd);
    out->fd = -1;
    return status;
}

/* ---- the writer ---- */

static Status index_add(Buffer *index, const void *entry, int64_t bytes)
{
    if (buffer_add(index, entry, bytes) == OK) return OK;
    return fail(NO_MEMORY, "%lld bytes of the index do not fit into memory; prepare the text in parts",
                (long long)(index->bytes + bytes));
}

static void writer_free(TokenFileWriter *w)
{
    if (w->lock >= 0) seam.close(w->lock);
    buffer_free(&w->out.buffer);
    buffer_free(&w->length);
    buffer_free(&w->document);
    free(w);
}

/* The lock precedes the creation of .bin.part, which truncates it. */
static Status parts_open(TokenFileWriter *w)
{
    char part[1024];
    part_path(part, w->idx);
    TRY(folder_make_for(part));
    TRY(file_create_alone(&w->lock, part));
    buffered_begin(&w->out, w->bin);
    return file_create(&w->out.fd, w->out.path);
}

Status token_file_create(TokenFileWriter **writer, const char *prefix, int64_t vocabulary)
{
    *writer = NULL;
    if (strlen(prefix) + sizeof ".facts.json.part" > sizeof (*writer)->bin)
        return fail(BAD_FILE, "%.80s...: the path is too long; at most %zu bytes are possible", prefix,
                    sizeof (*writer)->bin - sizeof ".facts.json.part");
    TokenFileWriter *w = calloc(1, sizeof *w);
    if (!w || buffer_reserve(&w->out.buffer, BUFFER) != OK) {
        free(w);
        return fail(NO_MEMORY, "%s: no memory for a buffer of %d bytes", prefix, BUFFER);
    }
    snprintf(w->bin, sizeof w->bin, "%s.bin", prefix);
    snprintf(w->idx, sizeof w->idx, "%s.idx", prefix);
    snprintf(w->prefix, sizeof w->prefix, "%s", prefix);
    w->largest    = -1;
    w->vocabulary = vocabulary;
    w->width      = vocabulary < NARROW_BELOW ? 2 : 4;
    w->out.fd     = w->lock = -1;
    Status status = parts_open(w);
    if (status == OK) status = index_add(&w->document, &(int64_t){ 0 }, 8);
    if (status == OK) *writer = w;
    else              token_file_discard(w);
    return status;
}

Status token_file_create_items(TokenFileWriter **writer, const char *prefix, int64_t vocabulary)
{
    TRY(token_file_create(writer, prefix, vocabulary));
    (*writer)->items = true;
    return OK;
}

/* A maximum instead of a comparison per id, so that the loop vectorises. As unsigned, a negative id is
 * above all others. */
static uint32_t ids_largest(const int32_t *ids, int64_t count)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; i++) largest = (uint32_t)ids[i] > largest ? (uint32_t)ids[i] : largest;
    return largest;
}

static void ids_narrow(uint16_t *restrict narrow, const int32_t *restrict ids, int64_t count)
{
    for (int64_t i = 0; i < count; i++) narrow[i] = (uint16_t)ids[i];
}

static Status ids_put(TokenFileWriter *w, const int32_t *ids, int64_t count)
{
    uint16_t narrow[SLICE];
    uint32_t largest = ids_largest(ids, count), last = w->vocabulary > INT32_MAX ? INT32_MAX
                                                     : (uint32_t)w->vocabulary - 1;
    CHECK(largest <= last, "a token of %s is beyond the vocabulary of %" PRId64, w->bin, w->vocabulary);
    if (largest > w->largest) w->largest = largest;
    if (w->width == 2) ids_narrow(narrow, ids, count);
    return buffered_put(&w->out, w->width == 2 ? (const void *)narrow : ids, (size_t)(count * w->width));
}

Status token_file_add(TokenFileWriter *w, const int32_t *ids, int64_t count)
{
    if (count > INT32_MAX)
        return fail(BAD_FILE,
                    "%s: document %" PRId64 " has %" PRId64 " tokens; 2147483647 is the most, cut it in two",
                    w->bin, w->documents, count);
    for (int64_t i = 0; i < count; i += SLICE)
        TRY(ids_put(w, ids + i, count - i < SLICE ? count - i : SLICE));
    w->sequences++;
    return index_add(&w->length, &(int32_t){ (int32_t)count }, 4);
}

Status token_file_end_document(TokenFileWriter *w)
{
    w->documents++;
    return index_add(&w->document, &w->sequences, 8);
}

static Status stop_check(const volatile sig_atomic_t *stop)
{
    return stop && *stop ? fail(INTERRUPTED, "stopped by a signal; nothing is written") : OK;
}

static Status tokens_merge(TokenFileWriter *w, const FileMap *bin, const volatile sig_atomic_t *stop)
{
    for (size_t at = 0; at < bin->size; at += BUFFER) {
        TRY(buffered_put(&w->out, bin->data + at, bin->size - at < BUFFER ? bin->size - at : BUFFER));
        TRY(stop_check(stop));
    }
    return stop_check(stop);
}

/* Bytes of tokens and lengths are copied; document entries count sequences from the start of their own
 * file, so the sequences before them are added. */
Status token_file_merge(TokenFileWriter *w, const TokenFile *part, const volatile sig_atomic_t *stop)
{
    if (part->width != w->width)
        return fail(BAD_FILE,
                    "%s: tokens of %d bytes, and the files before it have %d; prepare it with the same"
                    " tokenizer", part->bin.path, part->width, w->width);
    int64_t before = w->sequences, largest;
    TRY(token_facts_largest(&largest, part, stop));
    if (largest > w->largest) w->largest = largest;
    TRY(tokens_merge(w, &part->bin, stop));
    for (int64_t s = 0; s < part->sequences; s++) TRY(index_add(&w->length, part->length + 4 * s, 4));
    for (int64_t d = 1; d <= part->documents; d++)
        TRY(index_add(&w->document, &(int64_t){ before + token_file_document(part, d) }, 8));
    w->sequences += part->sequences;
    w->documents += part->documents;
    return OK;
}

static Status index_write(TokenFileWriter *w)
{
    BufferedFile *out = &w->out;
    int64_t version = 1, entries = w->documents + 1, pointer = 0;
    uint8_t code = w->width == 2 ? CODE_UINT16 : CODE_INT32;
    /* The literal's terminating zero is the ninth byte. */
    TRY(buffered_put(out, "MMIDIDX\0", 9));
    TRY(buffered_put(out, &version, 8));
    TRY(buffered_put(out, &code, 1));
    TRY(buffered_put(out, &w->sequences, 8));
    if (!w->items) TRY(buffered_put(out, &entries, 8));
    for (int64_t i = 0; i < w->length.bytes; i += 4) TRY(buffered_put(out, w->length.text + i, 4));
    for (int64_t i = 0; i < w->length.bytes; i += 4) {
        int32_t length;
        memcpy(&length, w->length.text + i, 4);
        TRY(buffered_put(out, &pointer, 8));
        pointer += (int64_t)length * w->width;
    }
    for (int64_t i = 0; i < w->document.bytes && !w->items; i += 8)
        TRY(buffered_put(out, w->document.text + i, 8));
    return OK;
}

/* Writes through a duplicate of the locked descriptor: `out` is closed before the renames, and a flock
 * lasts until the last duplicate is closed. */
static Status index_open(TokenFileWriter *w)
{
    buffered_begin(&w->out, w->idx);
    w->out.fd = dup(w->lock);
    return w->out.fd < 0 ? fail(IO_FAILED, "%s: cannot be written: %m", w->out.path) : OK;
}

static Status part_rename(const char *path)
{
    char part[1024];
    part_path(part, path);
    return file_rename(part, path);
}

static Status old_remove(const char *path)
{
    if (!file_exists(path) || seam.remove(path) == 0) return OK;
    return fail(IO_FAILED, "%s: cannot be replaced: %m", path);
}

/* The counts and the hash are those of the index as it reads back. */
static Status facts_write(TokenFileWriter *w)
{
    char    part[1024];
    FileMap map;
    if (!w->described) return OK;
    part_path(part, w->idx);
    TRY(file_map(&map, part));
    w->facts.index = XXH3_64bits(map.data, map.size);
    file_unmap(&map);
    w->facts.sequences = w->sequences;
    w->facts.documents = w->documents;
    w->facts.tokens    = w->tokens;
    w->facts.largest   = w->largest;
    return token_facts_write(&w->facts, w->prefix);
}

/* A previous index is removed before .bin is renamed: a kill between the renames must not leave it with
 * the new .bin. */
static Status files_finish(TokenFileWriter *w)
{
    char facts[1024];
    snprintf(facts, sizeof facts, "%s.facts.json", w->prefix);
    TRY(buffered_close(&w->out));
    w->tokens = w->out.at / w->width;
    TRY(index_open(w));
    TRY(index_write(w));
    TRY(buffered_close(&w->out));
    TRY(old_remove(w->idx));
    TRY(old_remove(facts));
    TRY(part_rename(w->bin));
    TRY(facts_write(w));
    TRY(part_rename(w->idx));
    return folder_sync_for(w->idx);
}

int64_t token_file_largest(const TokenFileWriter *w) { return w->largest; }

void token_file_describe(TokenFileWriter *w, const TokenFacts *facts)
{
    w->facts = *facts;
    w->described = true;
}

Status token_file_finish(TokenFileWriter *w)
{
    Status status = files_finish(w);
    if (status != OK) token_file_discard(w);
    else              writer_free(w);
    return status;
}

/* Errors are ignored, so that the message of the failure that led here is kept. */
void token_file_discard(TokenFileWriter *w)
{
    char part[1024];
    if (w->out.fd >= 0) seam.close(w->out.fd);
    /* Without the lock the temporary files belong to another process. */
    if (w->lock >= 0) {
        part_path(part, w->bin);
        seam.remove(part);
        part_path(part, w->idx);
        seam.remove(part);
    }
    writer_free(w);
}
