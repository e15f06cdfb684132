/* Writing Megatron's .bin/.idx. Tokens stream to `prefix.bin.part`; lengths and documents (4 + 8 bytes each) are
 * kept until the index is written. At the end .bin is renamed first and .idx last; so whoever holds `prefix.idx.part`, from
 * the beginning, is the only one who writes the pair.                                                            */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/seam.h"
#include "data/token_file.h"

enum { BUFFER = 1 << 20, SLICE = 4096, NARROW_BELOW = 65500, CODE_INT32 = 4, CODE_UINT16 = 8 };

typedef struct { int fd; char path[1024]; int64_t at; size_t used; uint8_t *buffer; } Sink;   /* fd -1: not open */
typedef struct { uint8_t *data; size_t used, size; } Bytes;                                   /* grows by doubling */

struct TokenFileWriter {
    char    bin[1000], idx[1000];
    Sink    sink;
    Bytes   length, document;
    int64_t vocabulary, sequences, documents;
    int     width;
    int     claim;                                                 /* .idx.part, ours alone; -1: not ours */
};

/* ---- a buffered file ---- */

static void part_path(char part[1024], const char *path) { snprintf(part, 1024, "%s.part", path); }

static void sink_begin(Sink *sink, const char *path)
{
    part_path(sink->path, path);
    sink->fd   = -1;
    sink->at   = 0;
    sink->used = 0;
}

static Status sink_flush(Sink *sink)
{
    TRY(file_write(sink->fd, sink->path, sink->buffer, sink->used, sink->at));
    sink->at  += (int64_t)sink->used;
    sink->used = 0;
    return OK;
}

static Status sink_put(Sink *sink, const void *data, size_t bytes)
{
    if (sink->used + bytes > BUFFER) TRY(sink_flush(sink));
    memcpy(sink->buffer + sink->used, data, bytes);
    sink->used += bytes;
    return OK;
}

static Status sink_close(Sink *sink)
{
    Status status = sink_flush(sink);
    if (status == OK) status = file_finish(sink->fd, sink->path);
    else              seam.close(sink->fd);
    sink->fd = -1;
    return status;
}

/* ---- the writer ---- */

static Status bytes_put(Bytes *bytes, const void *data, size_t count)
{
    if (bytes->used + count > bytes->size) {
        size_t   size = bytes->size ? 2 * bytes->size : 4096;
        uint8_t *grown = realloc(bytes->data, size);
        if (!grown)
            return fail(NO_MEMORY, "%zu bytes of the index do not fit into memory; prepare the text in parts", size);
        bytes->data = grown;
        bytes->size = size;
    }
    memcpy(bytes->data + bytes->used, data, count);
    bytes->used += count;
    return OK;
}

static void writer_free(TokenFileWriter *w)
{
    if (w->claim >= 0) seam.close(w->claim);
    free(w->sink.buffer);
    free(w->length.data);
    free(w->document.data);
    free(w);
}

static Status parts_open(TokenFileWriter *w)
{
    char part[1024];
    part_path(part, w->idx);
    TRY(folder_make_for(part));
    TRY(file_create_alone(&w->claim, part));
    sink_begin(&w->sink, w->bin);
    return file_create(&w->sink.fd, w->sink.path);
}

Status token_file_create(TokenFileWriter **writer, const char *prefix, int64_t vocabulary)
{
    *writer = NULL;
    if (strlen(prefix) + sizeof ".bin.part" > sizeof (*writer)->bin)
        return fail(BAD_FILE, "%.80s...: the path is too long, %zu bytes is the most", prefix,
                    sizeof (*writer)->bin - sizeof ".bin.part");
    TokenFileWriter *w = calloc(1, sizeof *w);
    if (!w || !(w->sink.buffer = malloc(BUFFER))) {
        free(w);
        return fail(NO_MEMORY, "%s: no memory for a buffer of %d bytes", prefix, BUFFER);
    }
    snprintf(w->bin, sizeof w->bin, "%s.bin", prefix);
    snprintf(w->idx, sizeof w->idx, "%s.idx", prefix);
    w->vocabulary = vocabulary;
    w->width      = vocabulary < NARROW_BELOW ? 2 : 4;
    w->sink.fd = w->claim = -1;
    Status status = parts_open(w);
    if (status == OK) status = bytes_put(&w->document, &(int64_t){ 0 }, 8);
    if (status == OK) *writer = w;
    else              token_file_discard(w);
    return status;
}

static bool ids_known(const int32_t *ids, int64_t count, int64_t vocabulary)
{
    uint32_t most = 0, last = vocabulary > INT32_MAX ? INT32_MAX : (uint32_t)vocabulary - 1;
    for (int64_t i = 0; i < count; i++) most = (uint32_t)ids[i] > most ? (uint32_t)ids[i] : most;      /* below 0 is above all */
    return most <= last;
}

static void ids_narrow(uint16_t *restrict narrow, const int32_t *restrict ids, int64_t count)
{
    for (int64_t i = 0; i < count; i++) narrow[i] = (uint16_t)ids[i];
}

static Status ids_put(TokenFileWriter *w, const int32_t *ids, int64_t count)
{
    uint16_t narrow[SLICE];
    CHECK(ids_known(ids, count, w->vocabulary), "a token of %s is beyond the vocabulary of %" PRId64, w->bin, w->vocabulary);
    if (w->width == 2) ids_narrow(narrow, ids, count);
    return sink_put(&w->sink, w->width == 2 ? (const void *)narrow : ids, (size_t)(count * w->width));
}

Status token_file_add(TokenFileWriter *w, const int32_t *ids, int64_t count)
{
    if (count > INT32_MAX)
        return fail(BAD_FILE, "%s: document %" PRId64 " has %" PRId64 " tokens; 2147483647 is the most, cut it in two",
                    w->bin, w->documents, count);
    for (int64_t i = 0; i < count; i += SLICE) TRY(ids_put(w, ids + i, count - i < SLICE ? count - i : SLICE));
    w->sequences++;
    return bytes_put(&w->length, &(int32_t){ (int32_t)count }, 4);
}

Status token_file_end_document(TokenFileWriter *w)
{
    w->documents++;
    return bytes_put(&w->document, &w->sequences, 8);
}

static Status stop_check(const volatile sig_atomic_t *stop)
{
    return stop && *stop ? fail(INTERRUPTED, "stopped by a signal; nothing is written") : OK;
}

static Status tokens_merge(TokenFileWriter *w, const FileMap *bin, const volatile sig_atomic_t *stop)
{
    for (size_t at = 0; at < bin->size; at += BUFFER) {
        TRY(sink_put(&w->sink, bin->data + at, bin->size - at < BUFFER ? bin->size - at : BUFFER));
        TRY(stop_check(stop));
    }
    return stop_check(stop);
}

/* Document entries count sequences from the start of their own pair. */
Status token_file_merge(TokenFileWriter *w, const TokenFile *part, const volatile sig_atomic_t *stop)
{
    if (part->width != w->width)
        return fail(BAD_FILE, "%s: tokens of %d bytes, and those before it have %d; prepare it with the same tokenizer",
                    part->bin.path, part->width, w->width);
    int64_t before = w->sequences;
    TRY(tokens_merge(w, &part->bin, stop));
    for (int64_t s = 0; s < part->sequences; s++) TRY(bytes_put(&w->length, part->length + 4 * s, 4));
    for (int64_t d = 1; d <= part->documents; d++) TRY(bytes_put(&w->document, &(int64_t){ before + token_file_document(part, d) }, 8));
    w->sequences += part->sequences;
    w->documents += part->documents;
    return OK;
}

static Status index_write(TokenFileWriter *w)
{
    Sink   *out = &w->sink;
    int64_t version = 1, entries = w->documents + 1, pointer = 0;
    uint8_t code = w->width == 2 ? CODE_UINT16 : CODE_INT32;
    TRY(sink_put(out, "MMIDIDX\0", 9));                          /* the literal's own zero is the ninth */
    TRY(sink_put(out, &version, 8));
    TRY(sink_put(out, &code, 1));
    TRY(sink_put(out, &w->sequences, 8));
    TRY(sink_put(out, &entries, 8));
    for (size_t i = 0; i < w->length.used; i += 4) TRY(sink_put(out, w->length.data + i, 4));
    for (size_t i = 0; i < w->length.used; i += 4) {
        int32_t length;
        memcpy(&length, w->length.data + i, 4);
        TRY(sink_put(out, &pointer, 8));
        pointer += (int64_t)length * w->width;
    }
    for (size_t i = 0; i < w->document.used; i += 8) TRY(sink_put(out, w->document.data + i, 8));
    return OK;
}

/* The claim stays behind the sink, which is closed before the renames. */
static Status index_open(TokenFileWriter *w)
{
    sink_begin(&w->sink, w->idx);
    w->sink.fd = dup(w->claim);
    return w->sink.fd < 0 ? fail(IO_FAILED, "%s: cannot be written: %m", w->sink.path) : OK;
}

static Status part_rename(const char *path)
{
    char part[1024];
    part_path(part, path);
    return file_rename(part, path);
}

static Status pair_finish(TokenFileWriter *w)
{
    TRY(sink_close(&w->sink));
    TRY(index_open(w));
    TRY(index_write(w));
    TRY(sink_close(&w->sink));
    if (file_exists(w->idx) && seam.remove(w->idx) != 0)         /* an old index must not meet the new .bin */
        return fail(IO_FAILED, "%s: cannot be replaced: %m", w->idx);
    TRY(part_rename(w->bin));
    TRY(part_rename(w->idx));
    return folder_sync_for(w->idx);
}

Status token_file_finish(TokenFileWriter *w)
{
    Status status = pair_finish(w);
    if (status != OK) token_file_discard(w);
    else              writer_free(w);
    return status;
}

/* The message of what went wrong before is left as it is. */
void token_file_discard(TokenFileWriter *w)
{
    char part[1024];
    if (w->sink.fd >= 0) seam.close(w->sink.fd);
    if (w->claim >= 0) {                        /* else they are another's */
        part_path(part, w->bin);
        seam.remove(part);
        part_path(part, w->idx);
        seam.remove(part);
    }
    writer_free(w);
}
