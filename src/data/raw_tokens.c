/* Token files of llm.c and nanoGPT. */
#include "data/raw_tokens.h"
#include <inttypes.h>
#include <sys/stat.h>
#include "base/reader.h"

/* SEQUENCE_MOST: a document is cut into sequences of at most so many tokens, which bounds the memory. */
enum { HEADER_BYTES = 1024, LLMC_MAGIC = 20240520, SEQUENCE_MOST = 1 << 16 };

bool raw_tokens_is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static Status llmc_header(RawTokens *raw)
{
    const FileMap *map     = &raw->map;
    uint32_t       version = (uint32_t)little_endian(map->data + 4, 4);
    uint32_t       tokens  = (uint32_t)little_endian(map->data + 8, 4);
    if (version != 1 && version != 2)
        return fail(BAD_FILE, "%s: version %" PRIu32 " of llm.c's token files; 1 and 2 are read", map->path,
                    version);
    raw->width  = version == 1 ? 2 : 4;
    raw->first  = map->data + HEADER_BYTES;
    raw->tokens = tokens;
    if (map->size == HEADER_BYTES + (size_t)tokens * (size_t)raw->width) return OK;
    return fail(BAD_FILE,
                "%s: its header says %" PRIu32 " tokens, its size says %zu; it is truncated or damaged",
                map->path, tokens, (map->size - HEADER_BYTES) / (size_t)raw->width);
}

static Status raw_header(RawTokens *raw)
{
    const FileMap *map = &raw->map;
    if (map->size >= HEADER_BYTES && little_endian(map->data, 4) == LLMC_MAGIC) return llmc_header(raw);
    raw->width  = 2;
    raw->first  = map->data;
    raw->tokens = (int64_t)(map->size / 2);
    if (map->size % 2 == 0) return OK;
    return fail(BAD_FILE, "%s: %zu bytes are no whole number of uint16 tokens, and it has no header of llm.c",
                map->path, map->size);
}

Status raw_tokens_open(RawTokens *raw, const char *path)
{
    *raw = (RawTokens){ 0 };
    TRY(file_map(&raw->map, path));
    Status status = raw_header(raw);
    if (status != OK) raw_tokens_close(raw);
    return status;
}

void raw_tokens_close(RawTokens *raw)
{
    file_unmap(&raw->map);
    *raw = (RawTokens){ 0 };
}

Status raw_tokens_copy(TokenFileWriter *writer, const RawTokens *raw, int32_t vocabulary, int32_t eod,
                       const volatile sig_atomic_t *stop)
{
    int32_t ids[SEQUENCE_MOST];
    int64_t held = 0;
    for (int64_t at = 0; at < raw->tokens; at++) {
        uint32_t id = (uint32_t)little_endian(raw->first + at * raw->width, raw->width);
        if (id >= (uint32_t)vocabulary)
            return fail(BAD_FILE, "%s: token %" PRId64 " is %" PRIu32 "; the tokenizer has %" PRId32 " ids",
                        raw->map.path, at, id, vocabulary);
        ids[held++] = (int32_t)id;
        bool ends = (int32_t)id == eod || at + 1 == raw->tokens;
        if (!ends && held < SEQUENCE_MOST) continue;
        if (*stop) return fail(INTERRUPTED, "stopped by a signal; nothing is written");
        TRY(token_file_add(writer, ids, held));
        if (ends) TRY(token_file_end_document(writer));
        held = 0;
    }
    return file_map_check(&raw->map);
}
