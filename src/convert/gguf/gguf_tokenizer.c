/* The tokenizer inside a GGUF file: tokens, their kinds and the merges of a byte-level BPE, as llama.cpp
 * reads them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "convert/gguf/gguf.h"
#include "convert/llama_pieces.h"
#include "convert/tokenizer/tokenizer_json.h"
#include "store/tensor_entry.h"
#include "text/bpe/vocab.h"
#include "text/pretokenize/pretoken.h"
#include "text/tokenizer.h"

enum { JSON_MULTIPLE = 100, NORMAL = 1, CONTROL = 3, DEFINED = 4, UNUSED = 5 };
/* text: [count], owned; NULL: no token has this id */
typedef struct { char **text; uint8_t *kind; int64_t count; json_t *merges; const char *pattern; } Tokens;

/* llama.cpp's names of the patterns that split a text before merges. */
static const struct { PretokenKind kind; const char *name; } patterns[] = {
    { PRETOKEN_GPT2, "gpt-2" }, { PRETOKEN_LLAMA3, "llama-bpe" }, { PRETOKEN_QWEN2, "qwen2" },
};

static void tokens_free(Tokens *t)
{
    for (int64_t i = 0; t->text && i < t->count; i++) free(t->text[i]);
    free(t->text);
    free(t->kind);
    json_decref(t->merges);
}

static Status token_put(Tokens *t, int64_t id, const char *text, uint8_t kind)
{
    if (id < 0 || id >= t->count)
        return fail(BAD_OPTION, "the tokenizer has the id %lld, and the model %lld ids", (long long)id,
                    (long long)t->count);
    free(t->text[id]);
    t->text[id] = strdup(text);
    t->kind[id] = kind;
    return t->text[id] ? OK : fail(NO_MEMORY, "no memory for the tokens of a tokenizer");
}

static Status vocab_put(Tokens *t, const json_t *vocab)
{
    const char *text;
    json_t     *id;
    json_object_foreach((json_t *)vocab, text, id) TRY(token_put(t, json_integer_value(id), text, NORMAL));
    return OK;
}

static Status json_open(json_t **root, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    Status status = json_parse_bounded(root, path, "", (const char *)map.data, map.size, JSON_MULTIPLE);
    file_unmap(&map);
    return status;
}

/* "a b" or ["a", "b"] */
static json_t *merge_text(const json_t *merge)
{
    const char *left  = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    if (json_is_string(merge)) return json_incref((json_t *)merge);
    return left && right ? json_sprintf("%s %s", left, right) : NULL;
}

/* A ByteLevel that splits by GPT-2's pattern, or the two steps Split by a known pattern and ByteLevel. */
static Status pattern_find(Tokens *t, const json_t *root, const char *path)
{
    const json_t *pre   = json_object_get(root, "pre_tokenizer"),
                 *steps = json_object_get(pre, "pretokenizers");
    const json_t *split = json_array_get(steps, 0), *level = json_array_get(steps, 1);
    const char   *type = json_string_value(json_object_get(pre, "type"));
    const char   *regex = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    bool plain = type && !strcmp(type, "ByteLevel") && !json_is_false(json_object_get(pre, "use_regex"));
    bool known = json_array_size(steps) == 2 && regex && json_is_false(json_object_get(level, "use_regex"));
    if (plain && !json_is_true(json_object_get(pre, "add_prefix_space"))) return OK;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0] && known; i++)
        if (patterns[i].kind == pretoken_of_pattern(regex)) return t->pattern = patterns[i].name, OK;
    return fail(BAD_OPTION,
                "--to gguf: the pre-tokenizer of %s is not one that is known by a name of llama.cpp; "
                "those of GPT-2, Llama 3 and Qwen 2 are; --to hf writes it for transformers",
                path);
}

static Status json_tokens(Tokens *t, const json_t *root, const char *path)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    const char   *type = json_string_value(json_object_get(model, "type"));
    json_t       *item;
    size_t        i;
    if (type && strcmp(type, "BPE")) return fail(BAD_OPTION, "--to gguf: %s is no BPE", path);
    if (!json_is_null(json_object_get(root, "normalizer")) && json_object_get(root, "normalizer"))
        return fail(BAD_OPTION, "--to gguf: %s has a normalizer, which is not written", path);
    TRY(pattern_find(t, root, path));
    TRY(vocab_put(t, json_object_get(model, "vocab")));
    json_array_foreach(json_object_get(model, "merges"), i, item) {
        json_t *merge = merge_text(item);
        if (!merge) return fail(BAD_FILE, "%s: merge %zu is no pair of tokens", path, i);
        json_array_append_new(t->merges, merge);
    }
    json_array_foreach(added, i, item) {
        const char *text = json_string_value(json_object_get(item, "content"));
        bool special = json_is_true(json_object_get(item, "special"));
        if (text)
            TRY(token_put(t, json_integer_value(json_object_get(item, "id")), text,
                          special ? CONTROL : DEFINED));
    }
    return OK;
}

/* Lines of merges.txt but for its first, "#version". */
static Status merges_read(Tokens *t, const char *path)
{
    FileMap map;
    TRY(file_map(&map, path));
    const char *at = (const char *)map.data, *end = at + map.size;
    while (at < end) {
        const char *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
        at = stop ? stop + 1 : end;
        size_t bytes = (size_t)((stop ? stop : end) - line);
        if (bytes && line[bytes - 1] == '\r') bytes--;
        if (bytes && strncmp(line, "#version", 8))
            json_array_append_new(t->merges, json_stringn(line, bytes));
    }
    file_unmap(&map);
    return OK;
}

static bool in_folder(char path[1024], const char *folder, const char *name)
{
    return path_join(path, folder, name) == OK && file_exists(path);
}

static Status files_read(Tokens *t, const char *from)
{
    char        path[1024], merges[1024];
    struct stat about;
    json_t     *root = NULL;
    bool        folder = stat(from, &about) == 0 && S_ISDIR(about.st_mode);
    if (!folder) snprintf(path, sizeof path, "%s", from);
    bool json = folder ? in_folder(path, from, "tokenizer.json") : strstr(from, ".json") != NULL;
    bool ranks = !json && (!folder || (!in_folder(merges, from, "merges.txt") &&
                                       !in_folder(merges, from, "vocab.bpe") &&
                                       in_folder(path, from, "tokenizer.model")));
    int64_t end;
    if (json) TRY(json_open(&root, path));
    if (ranks) TRY(tiktoken_json(&root, &end, path));
    Status status = root ? json_tokens(t, root, path) : OK;
    json_decref(root);
    if (json || ranks) return status;
    bool pair = folder && ((in_folder(path, from, "vocab.json") && in_folder(merges, from, "merges.txt")) ||
                           (in_folder(path, from, "encoder.json") && in_folder(merges, from, "vocab.bpe")));
    if (!pair)
        return fail(BAD_OPTION,
                    "--to gguf: the tokenizer %s is neither `bytes`, a .tiktoken file, a sentencepiece model "
                    "nor a byte-level BPE in a tokenizer.json or with a vocab.json and merges.txt",
                    from);
    TRY(json_open(&root, path));
    status = vocab_put(t, root);
    json_decref(root);
    return status == OK ? merges_read(t, merges) : status;
}

static Status bytes_make(Tokens *t)
{
    for (int b = 0; b < 256; b++) {
        uint32_t point = letter_of_byte((uint8_t)b);
        char     text[4] = { (char)point, 0, 0, 0 };
        if (point >= 0x80) text[0] = (char)(0xC0 | point >> 6), text[1] = (char)(0x80 | (point & 0x3F));
        TRY(token_put(t, b, text, NORMAL));
    }
    return token_put(t, 256, "<|endoftext|>", CONTROL);
}

static void tokens_write(GgufText *out, const Tokens *t)
{
    char    unused[32];
    json_t *merge;
    size_t  i;
    gguf_key_array(out, "tokenizer.ggml.tokens", GGUF_STRING, t->count);
    for (int64_t id = 0; id < t->count; id++) {
        snprintf(unused, sizeof unused, "[PAD%lld]", (long long)id);
        const char *text = t->text[id] ? t->text[id] : unused;
        gguf_put_string(out, text, strlen(text));
    }
    gguf_key_array(out, "tokenizer.ggml.token_type", GGUF_INT32, t->count);
    for (int64_t id = 0; id < t->count; id++) gguf_put_number(out, t->text[id] ? t->kind[id] : UNUSED, 4);
    gguf_key_array(out, "tokenizer.ggml.merges", GGUF_STRING, (int64_t)json_array_size(t->merges));
    json_array_foreach(t->merges, i, merge)
        gguf_put_string(out, json_string_value(merge), json_string_length(merge));
}

/* What llama.cpp's reader of unigram models has no rule for; NULL: nothing. */
static const char *unigram_other(const SentencePieceModel *m)
{
    if (!m->escape_spaces || m->space_last) return "it marks blanks otherwise";
    if (m->byte_fallback) return "it has tokens for bytes";
    if (!m->drop_spaces)  return "it keeps a text of blanks alone";
    return NULL;
}

/* Pieces with their marks for blanks, scores, and kinds, whose numbers are the same. */
static void pieces_put(GgufText *out, const SentencePieceModel *m, int64_t vocabulary)
{
    char unused[32];
    gguf_key_array(out, "tokenizer.ggml.tokens", GGUF_STRING, vocabulary);
    for (int64_t id = 0; id < vocabulary; id++) {
        snprintf(unused, sizeof unused, "[PAD%lld]", (long long)id);
        if (id < m->pieces) gguf_put_string(out, m->piece[id].text.data, m->piece[id].text.bytes);
        else gguf_put_string(out, unused, strlen(unused));
    }
    gguf_key_array(out, "tokenizer.ggml.scores", GGUF_FLOAT32, vocabulary);
    for (int64_t id = 0; id < vocabulary; id++)
        gguf_put_real(out, id < m->pieces ? m->piece[id].score : -10000);
    gguf_key_array(out, "tokenizer.ggml.token_type", GGUF_INT32, vocabulary);
    for (int64_t id = 0; id < vocabulary; id++)
        gguf_put_number(out, id < m->pieces ? (uint64_t)m->piece[id].kind : UNUSED, 4);
    for (int64_t id = 0; id < m->pieces; id++)
        if (m->piece[id].kind == SP_PIECE_UNKNOWN) gguf_key_uint(out, "tokenizer.ggml.unknown_token_id", id);
}

/* A unigram model, with the table of its normalizer, as llama.cpp has them for T5. */
static void unigram_put(GgufText *out, const SentencePieceModel *m, int64_t vocabulary)
{
    gguf_key_string(out, "tokenizer.ggml.model", "t5");
    gguf_key_string(out, "tokenizer.ggml.pre", "default");
    pieces_put(out, m, vocabulary);
    gguf_key_bool(out, "tokenizer.ggml.add_space_prefix", m->dummy_prefix);
    gguf_key_bool(out, "tokenizer.ggml.remove_extra_whitespaces", true);
    if (!m->charsmap.bytes) return;
    gguf_key_array(out, "tokenizer.ggml.precompiled_charsmap", GGUF_UINT8, (int64_t)m->charsmap.bytes);
    gguf_put(out, m->charsmap.data, m->charsmap.bytes);
}

static Status unigram_write(GgufText *out, const FileMap *map, int64_t vocabulary)
{
    SentencePieceModel m;
    TRY(sentencepiece_model_read(&m, map->data, map->size, map->path));
    const char *why = unigram_other(&m);
    if (m.kind == SP_MODEL_UNIGRAM && !why) unigram_put(out, &m, vocabulary);
    bool other = m.kind != SP_MODEL_UNIGRAM;
    sentencepiece_model_close(&m);
    if (!other && !why) return OK;
    return fail(BAD_OPTION,
                "--to gguf: llama.cpp cannot do what the tokenizer %s does: %s; --to hf writes it for "
                "transformers",
                map->path, other ? "its BPE has other rules than Llama's" : why);
}

/* A BPE with Llama's rules, or a unigram model. */
static Status pieces_write(GgufText *out, const char *path, int64_t vocabulary)
{
    LlamaPieces pieces;
    FileMap     map;
    if (llama_pieces_open(&pieces, path) == OK) {
        gguf_key_string(out, "tokenizer.ggml.model", "llama");
        gguf_key_string(out, "tokenizer.ggml.pre", "default");
        pieces_put(out, &pieces.model, vocabulary);
        gguf_key_bool(out, "tokenizer.ggml.add_space_prefix", true);
        llama_pieces_close(&pieces);
        return OK;
    }
    TRY(file_map(&map, path));
    Status status = unigram_write(out, &map, vocabulary);
    file_unmap(&map);
    return status;
}

/* The path of a sentencepiece model that `name` means; false: it means another kind of tokenizer. */
static bool pieces_path(char path[1024], const char *name)
{
    struct stat about;
    bool folder = stat(name, &about) == 0 && S_ISDIR(about.st_mode);
    if (folder && (in_folder(path, name, "tokenizer.json") || in_folder(path, name, "merges.txt")))
        return false;
    if (!folder) snprintf(path, 1024, "%s", name);
    return (!folder || in_folder(path, name, "tokenizer.model")) && llama_pieces_is(path);
}

/* Writes the keys of a byte-level BPE. */
static Status bpe_write(GgufText *out, Tokens *tokens, const char *name)
{
    TRY(strcmp(name, "bytes") ? files_read(tokens, name) : bytes_make(tokens));
    gguf_key_string(out, "tokenizer.ggml.model", "gpt2");
    gguf_key_string(out, "tokenizer.ggml.pre", tokens->pattern);
    tokens_write(out, tokens);
    return OK;
}

Status gguf_tokenizer(GgufText *out, const char *name, int64_t vocabulary)
{
    char path[1024];
    Tokenizer tokenizer;
    Tokens    tokens = {.text   = calloc((size_t)vocabulary, sizeof(char *)),
                        .kind   = calloc((size_t)vocabulary, 1),
                        .count  = vocabulary,
                        .merges = json_array(), .pattern = "gpt-2"};
    Status    status = tokens.text && tokens.kind
                           ? tokenizer_open(&tokenizer, name)
                           : fail(NO_MEMORY, "no memory for %lld tokens", (long long)vocabulary);
    if (status == OK) {
        int32_t eod = tokenizer.eod;
        tokenizer_close(&tokenizer);
        status =
            pieces_path(path, name) ? pieces_write(out, path, vocabulary) : bpe_write(out, &tokens, name);
        if (eod >= 0) gguf_key_uint(out, "tokenizer.ggml.bos_token_id", eod);
        if (eod >= 0) gguf_key_uint(out, "tokenizer.ggml.eos_token_id", eod);
        gguf_key_bool(out, "tokenizer.ggml.add_bos_token", false);
    }
    tokens_free(&tokens);
    return status;
}
