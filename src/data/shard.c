/* Reading Megatron's .bin/.idx. Nothing in the file is believed: every count is checked against the bytes that are
 * there before it is used, by division, so that no product can wrap. After shard_open all accessors are in bounds. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/random.h"
#include "data/foreign.h"
#include "data/shard.h"

enum { HEADER = 34, CODE_INT32 = 4, CODE_UINT16 = 8, PRINTED = 4096 };
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is read and written in the machine's order");
static const uint8_t magic[9] = { 'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0 };

static int64_t read_i64(const uint8_t *p) { int64_t v; memcpy(&v, p, sizeof v); return v; }
static int32_t read_i32(const uint8_t *p) { int32_t v; memcpy(&v, p, sizeof v); return v; }

int64_t shard_length  (const Shard *shard, int64_t i) { return read_i32(shard->length + 4 * i); }
int64_t shard_start   (const Shard *shard, int64_t i) { return read_i64(shard->pointer + 8 * i) / shard->width; }
int64_t shard_document(const Shard *shard, int64_t i) { return read_i64(shard->document + 8 * i); }

int32_t shard_token(const Shard *shard, int64_t at)
{
    if (shard->width == 4) return read_i32(shard->bin.data + 4 * at);
    uint16_t v;
    memcpy(&v, shard->bin.data + 2 * at, sizeof v);
    return v;
}

/* ---- what tells it from another ---- */

static uint64_t print_add(uint64_t print, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) print = random_mix(print, data[i]);
    return print;
}

static uint64_t file_print(uint64_t print, const FileMap *f)
{
    size_t end = f->size < PRINTED ? f->size : PRINTED;
    return print_add(print_add(random_mix(print, f->size), f->data, end), f->data + f->size - end, end);
}

void shard_print(char out[SHARD_PRINT], const Shard *shard)
{
    snprintf(out, SHARD_PRINT, ".bin %zu bytes, .idx %zu bytes, print %016" PRIx64, shard->bin.size, shard->index.size,
             file_print(file_print(0, &shard->index), &shard->bin));
}

/* ---- opening ---- */

static Status header_read(Shard *shard)
{
    const FileMap *f = &shard->index;
    if (f->size < HEADER)
        return fail(BAD_FILE, "%s: %zu bytes, but the header alone takes %d; the file is cut, prepare it again",
                    f->path, f->size, HEADER);
    if (memcmp(f->data, magic, sizeof magic) != 0)
        return fail(BAD_FILE, "%s: byte 0: not an index, which starts with MMIDIDX; give the prefix of a .bin/.idx pair",
                    f->path);
    int64_t version = read_i64(f->data + 9);
    if (version != 1)
        return fail(BAD_FILE, "%s: byte 9: version %" PRId64 ", only 1 is known; prepare the text again", f->path,
                    version);
    int code = f->data[17];
    if (code != CODE_INT32 && code != CODE_UINT16)
        return fail(BAD_FILE, "%s: byte 17: token type %d; only 4 (int32) and 8 (uint16) are read: prepare it again",
                    f->path, code);
    shard->width = code == CODE_INT32 ? 4 : 2;
    return OK;
}

/* The counts S and D, and where the three arrays begin: together they are the file to the byte. */
static Status arrays_place(Shard *shard)
{
    const FileMap *f = &shard->index;
    uint64_t room = f->size - HEADER;
    uint64_t sequences = (uint64_t)read_i64(f->data + 18), entries = (uint64_t)read_i64(f->data + 26);
    if (sequences > room / 12)
        return fail(BAD_FILE, "%s: byte 18: %" PRIu64 " sequences do not fit into %zu bytes; the file is cut, copy it"
                    " or prepare it again", f->path, sequences, f->size);
    room -= 12 * sequences;
    if (entries < 1 || entries > room / 8)
        return fail(BAD_FILE, "%s: byte 26: %" PRIu64 " document entries do not fit into %zu bytes; the file is cut,"
                    " copy it or prepare it again", f->path, entries, f->size);
    if (room != 8 * entries)
        return fail(BAD_FILE, "%s: byte %" PRIu64 ": %" PRIu64 " bytes more than the header tells of; multimodal data"
                    " is not read here", f->path, f->size - (room - 8 * entries), room - 8 * entries);
    shard->sequences = (int64_t)sequences;
    shard->documents = (int64_t)entries - 1;
    shard->length    = f->data + HEADER;
    shard->pointer   = shard->length + 4 * sequences;
    shard->document  = shard->pointer + 8 * sequences;
    return OK;
}

static Status index_damaged(const Shard *shard, const uint8_t *at, const char *what, int64_t which, int64_t value,
                            int64_t wanted)
{
    return fail(BAD_FILE, "%s: byte %td: %s %" PRId64 " is said to begin at %" PRId64 ", and %" PRId64
                " was due; the index is damaged, copy it or prepare it again", shard->index.path,
                at - shard->index.data, what, which, value, wanted);
}

/* Sequences lie end to end in .bin: the loader's ranges count on it, and every writer of the format does it. */
static Status sequences_check(Shard *shard)
{
    const FileMap *f = &shard->index;
    int64_t held = (int64_t)shard->bin.size, end = 0;
    for (int64_t s = 0; s < shard->sequences; s++) {
        int64_t length = shard_length(shard, s), pointer = read_i64(shard->pointer + 8 * s);
        if (length < 0 || length > (held - end) / shard->width)
            return fail(BAD_FILE, "%s: byte %td: sequence %" PRId64 " has %" PRId64 " tokens, past the end of %s at %"
                        PRId64 " bytes; the pair is cut or does not belong together", f->path,
                        shard->length + 4 * s - f->data, s, length, shard->bin.path, held);
        if (pointer != end) return index_damaged(shard, shard->pointer + 8 * s, "sequence", s, pointer, end);
        end += length * shard->width;
    }
    if (end != held)
        return fail(BAD_FILE, "%s: %" PRId64 " bytes, but %s tells of %" PRId64 "; the pair does not belong together",
                    shard->bin.path, held, f->path, end);
    shard->tokens = end / shard->width;
    return OK;
}

/* From 0 to the number of sequences, never falling; the last entry is where a next document would begin. */
static Status documents_check(const Shard *shard)
{
    int64_t before = 0;
    for (int64_t d = 0; d <= shard->documents; d++) {
        int64_t first = shard_document(shard, d), wanted = d == shard->documents ? shard->sequences : before;
        bool    inner = d > 0 && d < shard->documents;
        if (first < wanted || first > (inner ? shard->sequences : wanted))
            return index_damaged(shard, shard->document + 8 * d, "document", d, first, wanted);
        before = first;
    }
    return OK;
}

/* Its index would look like one that was cut */
static Status foreign_check(const char *prefix, const char *path)
{
    PairKind kind;
    TRY(pair_kind(&kind, prefix));
    if (kind == PAIR_MEGATRON) return OK;
    return fail(BAD_FILE, "%s: a pair of %s, which `jotun data info` and `data cat` look into; only Megatron-LM's is read here: "
                "prepare the text again", path, pair_kind_name(kind));
}

static Status pair_open(Shard *shard, const char *prefix)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s.idx", prefix) >= (int)sizeof path)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", prefix, sizeof path - 1);
    if (!file_exists(path)) {
        size_t n = strlen(prefix);
        bool   named = n > 4 && (!strcmp(prefix + n - 4, ".idx") || !strcmp(prefix + n - 4, ".bin"));
        return fail(BAD_FILE, "%s: no such file; %s", path, named ? "give the prefix without .bin or .idx" :
                    "a prefix names a pair, as P_text_document from `jotun prepare --output-prefix P`");
    }
    TRY(foreign_check(prefix, path));
    TRY(file_map(&shard->index, path));
    TRY(header_read(shard));
    TRY(arrays_place(shard));
    snprintf(path, sizeof path, "%s.bin", prefix);
    TRY(file_map(&shard->bin, path));
    TRY(sequences_check(shard));
    return documents_check(shard);
}

Status shard_open(Shard *shard, const char *prefix)
{
    *shard = (Shard){ 0 };
    Status status = pair_open(shard, prefix);
    if (status != OK) shard_close(shard);
    return status;
}

void shard_close(Shard *shard)
{
    if (shard->bin.data)   file_unmap(&shard->bin);
    if (shard->index.data) file_unmap(&shard->index);
    *shard = (Shard){ 0 };
}
