/* Reads GPT-2's two files: a JSON object {token: id}, and a file with a line `left right` for each merge, by
 * rank. Tokens are written in byte letters. Also what this reader shares with the others: JSON with bounded
 * memory, lines. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/bpe/read_internal.h"

#define END "<|endoftext|>"                  /* the one special token of GPT-2 */

/* An upper bound of the memory of jansson's tree of this text, in bytes: each bracket, comma and colon
 * outside of strings belongs to one value or key at most. */
static int64_t json_memory(const FileMap *file)
{
    static const int cost[256] = { ['['] = 160, ['{'] = 320, [','] = 96, [':'] = 80 };
    int64_t memory = 0;
    bool    quoted = false;
    for (size_t i = 0; i < file->size; i++) {
        uint8_t c = file->data[i];
        if (c == '"') quoted = !quoted;
        if (quoted)   i += c == '\\';
        else          memory += cost[c];
    }
    return memory;
}

Status json_read(json_t **json, BpeTokenizer *m, const char *path)
{
    FileMap      file;
    json_error_t error;
    TRY(file_map(&file, path));
    int64_t bytes = (int64_t)file.size, memory = json_memory(&file);
    bool    fits  = memory <= JSON_GROWTH * bytes + (1 << 16) && memory <= JSON_MEMORY_MAX;
    *json = fits ? json_loadb((const char *)file.data, file.size, JSON_ALLOW_NUL, &error) : NULL;
    /* transformers writes model_max_length as 10^30 */
    if (fits && !*json && json_error_code(&error) == json_error_numeric_overflow)
        *json = json_loadb((const char *)file.data, file.size, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL,
                           &error);
    file_unmap(&file);
    m->vocab.file_bytes += bytes;
    if (*json) return OK;
    if (fits) return fail(BAD_FILE, "%s:%d: broken JSON: %s", path, error.line, error.text);
    return fail(BAD_FILE,
                "%s: %" PRId64 " bytes of JSON would take %" PRId64 " MB of memory; %d times the file's size"
                " and %d MB are the most, and the files of tokenizers take less", path, bytes, memory >> 20,
                JSON_GROWTH, JSON_MEMORY_MAX >> 20);
}

int64_t json_id(const json_t *value)
{
    double id = json_number_value(value);
    return json_is_number(value) && id > -1e15 && id < 1e15 && id == (double)(int64_t)id ? (int64_t)id
        : INT64_MIN;
}

/* A byte-level token as the bytes that its letters stand for; false: it has another character, or more than
 * the 4096 bytes of `raw`. */
static bool token_bytes(uint8_t *raw, int64_t *count, const char *token)
{
    if (*count > 4096) return false;
    memcpy(raw, token, (size_t)*count);
    return letters_to_bytes(raw, count);
}

/* No text has a byte-level token with a character that is no byte letter; an added token may be one. It is
 * kept as it is, behind those of letters, so that vocab_find finds these: *others counts such tokens, and
 * only the second round adds them. */
static Status token_add(BpeTokenizer *m, const char *token, int64_t id, bool second, int64_t *others)
{
    uint8_t raw[4096];
    int64_t count = (int64_t)strlen(token);
    bool    spelt = !m->byte_level || token_bytes(raw, &count, token);
    *others += !spelt && !second;
    if (spelt == second) return OK;
    TRY(vocab_add(&m->vocab, id, m->byte_level && spelt ? (const char *)raw : token, count));
    return spelt ? OK : bpe_mark_special(m, (int32_t)id);
}

Status bpe_add_vocab(BpeTokenizer *m, const json_t *tokens, const char *path)
{
    const char *token;
    json_t     *id;
    int64_t     others = 0;
    if (!json_is_object(tokens))
        return fail(BAD_FILE, "%s: the vocabulary is not a JSON object {token: id}", path);
    for (int second = 0; second < 1 + (others > 0); second++)
        json_object_foreach((json_t *)(uintptr_t)tokens, token, id) {
            if (json_id(id) == INT64_MIN)
                return fail(BAD_FILE, "%s: token %.80s: its id is not a whole number", path, token);
            if (token_add(m, token, json_id(id), second, &others) != OK)
                return fail(BAD_FILE, "%s: token %.80s: %s", path, token, fail_text());
        }
    return OK;
}

Status bpe_add_encoded_merge(BpeTokenizer *m, const char *left, int64_t left_bytes, const char *right,
                             int64_t right_bytes,
                               uint32_t rank)
{
    uint8_t a[1024], b[1024];
    if (left_bytes < 1 || right_bytes < 1 || left_bytes > (int64_t)sizeof a ||
        right_bytes > (int64_t)sizeof b)
        return fail(BAD_FILE, "merge %" PRIu32 " is not two tokens of 1 to %zu bytes", rank, sizeof a);
    memcpy(a, left, (size_t)left_bytes);
    memcpy(b, right, (size_t)right_bytes);
    if (m->byte_level && !(letters_to_bytes(a, &left_bytes) && letters_to_bytes(b, &right_bytes)))
        return fail(BAD_FILE, "merge %" PRIu32 " has a character that is no byte letter", rank);
    return bpe_add_merge(m, a, left_bytes, b, right_bytes, rank);
}

Status lines_read(BpeTokenizer *m, const char *path, LineRead *read)
{
    FileMap file;
    Status  status = OK;
    TRY(file_map(&file, path));
    int64_t size = (int64_t)file.size, rank = 0;
    m->vocab.file_bytes += size;
    for (int64_t at = 0, end, line = 1; at < size && status == OK; at = end + 1, line++) {
        const uint8_t *text = file.data + at, *found = memchr(text, '\n', (size_t)(size - at));
        end = found ? found - file.data : size;
        int64_t count = end - at - (end > at && file.data[end - 1] == '\r');
        if (count == 0 || (line == 1 && count > 8 && !memcmp(text, "#version", 8))) continue;
        if (read(m, (const char *)text, count, (uint32_t)rank++) != OK)
            status = fail(BAD_FILE, "%s:%" PRId64 ": %s", path, line, fail_text());
    }
    file_unmap(&file);
    return status;
}

static Status merge_line(BpeTokenizer *m, const char *line, int64_t count, uint32_t rank)
{
    const char *blank = memchr(line, ' ', (size_t)count);
    if (!blank) return fail(BAD_FILE, "merge %" PRIu32 " is not two tokens with a space between", rank);
    return bpe_add_encoded_merge(m, line, blank - line, blank + 1, line + count - blank - 1, rank);
}

Status bpe_read_gpt2(BpeTokenizer *m, const char *vocab_path, const char *merges_path)
{
    json_t *tokens;
    m->byte_level = true;
    m->pretokenizer.step[m->pretokenizer.steps++] =
        (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = PRETOKEN_GPT2 };
    TRY(json_read(&tokens, m, vocab_path));
    Status status = bpe_add_vocab(m, tokens, vocab_path);
    json_decref(tokens);
    TRY(status);
    TRY(lines_read(m, merges_path, merge_line));
    int32_t end = vocab_find(&m->vocab, END, sizeof END - 1);
    AddedToken token = { .text = (uint8_t *)(uintptr_t)END, .bytes = sizeof END - 1, .id = end,
                         .special = true };
    return end < 0 ? OK : bpe_add_token(m, token);
}
