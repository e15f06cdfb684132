/* The files of a tokenizer as transformers expects them. Those it knows are copied; for `bytes` a
 * tokenizer.json is made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "convert/hf_write.h"
#include "convert/llama_pieces.h"
#include "convert/tokenizer/tokenizer_json.h"
#include "store/tensor_entry.h"
#include "text/bpe/vocab.h"
#include "text/tokenizer.h"

enum { JSON_MULTIPLE = 100 };
static const char END[] = "<|endoftext|>";

static Status file_copy(const char *folder, const char *name, const char *from)
{
    FileMap map;
    char    path[1024];
    TRY(path_join(path, folder, name));
    TRY(file_map(&map, from));
    Status status = file_write_whole(path, map.data, map.size);
    file_unmap(&map);
    return status;
}

/* Whether folder/name exists, whose path is then `path`. */
static bool has_file(char path[1024], const char *folder, const char *name)
{
    return path_join(path, folder, name) == OK && file_exists(path);
}

/* tokenizer_config.json: of `class`, with the text that ends a document and that of unknown text; NULL:
 * none. */
static Status config_write(const char *folder, const char *class, const char *end, const char *unknown,
                           int64_t positions)
{
    json_t *config = json_pack("{s:s, s:b, s:I}", "tokenizer_class", class, "clean_up_tokenization_spaces",
                               false, "model_max_length", (json_int_t)positions);
    if (end) {
        json_object_set_new(config, "bos_token", json_string(end));
        json_object_set_new(config, "eos_token", json_string(end));
    }
    if (unknown) json_object_set_new(config, "unk_token", json_string(unknown));
    return hf_json_write(folder, "tokenizer_config.json", config);
}

/* ---- bytes ---- */

static const char *letters_of_byte(char out[8], uint8_t byte)
{
    uint32_t point = letter_of_byte(byte);
    if (point < 0x80) snprintf(out, 8, "%c", (char)point);
    else snprintf(out, 8, "%c%c", (char)(0xC0 | point >> 6), (char)(0x80 | (point & 0x3F)));
    return out;
}

/* A BPE of all bytes without merges, and the end of document as a special token. */
static Status bytes_write(const char *folder, int64_t eod, int64_t positions)
{
    char    letters[8];
    json_t *vocab = json_object(), *level;
    for (int b = 0; b < 256; b++)
        json_object_set_new(vocab, letters_of_byte(letters, (uint8_t)b), json_integer(b));
    level = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", false, "trim_offsets",
                      true, "use_regex", false);
    json_t *token = json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)eod, "content", END,
                              "single_word", false, "lstrip", false, "rstrip", false, "normalized", false,
                              "special", true);
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:[]}", "type", "BPE", "dropout",
                  "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", false,
                  "byte_fallback", false, "ignore_merges", false, "vocab", vocab, "merges");
    TRY(hf_json_write(folder, "tokenizer.json",
                      json_pack("{s:s, s:n, s:n, s:[o], s:n, s:O, s:n, s:o, s:o}", "version", "1.0",
                                "truncation", "padding", "added_tokens", token, "normalizer", "pre_tokenizer",
                                level, "post_processor", "decoder", level, "model", model)));
    return config_write(folder, "PreTrainedTokenizerFast", END, END, positions);
}

/* ---- files ---- */

/* The text of an added token of a tokenizer.json; false: it has none of this id. */
static bool added_text(char out[256], const char *path, int64_t id)
{
    FileMap map;
    json_t *root = NULL, *token;
    size_t  i;
    bool    found = false;
    if (id < 0 || file_map(&map, path) != OK) return false;
    Status status = json_parse_bounded(&root, path, "", (const char *)map.data, map.size, JSON_MULTIPLE);
    file_unmap(&map);
    if (status != OK) return false;
    json_array_foreach(json_object_get(root, "added_tokens"), i, token) {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (!text || json_integer_value(json_object_get(token, "id")) != id) continue;
        found = snprintf(out, 256, "%s", text) < 256;
    }
    json_decref(root);
    return found;
}

/* path: a tokenizer.json; its config is beside it, or is made. */
static Status json_tokenizer_write(const char *folder, const char *path, const char *beside, int64_t end,
                                   int64_t positions)
{
    static const char *const more[] = {"special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};
    char other[1024], text[256];
    TRY(file_copy(folder, "tokenizer.json", path));
    for (int i = 0; i < 3; i++)
        if (has_file(other, beside, more[i])) TRY(file_copy(folder, more[i], other));
    if (has_file(other, beside, "tokenizer_config.json"))
        return file_copy(folder, "tokenizer_config.json", other);
    bool found = added_text(text, path, end);
    return config_write(folder, "PreTrainedTokenizerFast", found ? text : NULL, found ? text : NULL,
                        positions);
}

/* GPT-2's own names, or those of transformers. */
static Status gpt2_tokenizer_write(const char *folder, const char *from, int64_t positions)
{
    char vocab[1024], merges[1024], other[1024];
    bool own = has_file(vocab, from, "encoder.json") && has_file(merges, from, "vocab.bpe");
    if (!own && !(has_file(vocab, from, "vocab.json") && has_file(merges, from, "merges.txt")))
        return fail(BAD_OPTION,
                    "--tokenizer %s: the folder has no files of a tokenizer that transformers reads", from);
    TRY(file_copy(folder, "vocab.json", vocab));
    TRY(file_copy(folder, "merges.txt", merges));
    if (has_file(other, from, "added_tokens.json")) TRY(file_copy(folder, "added_tokens.json", other));
    if (has_file(other, from, "special_tokens_map.json"))
        TRY(file_copy(folder, "special_tokens_map.json", other));
    if (has_file(other, from, "tokenizer_config.json"))
        return file_copy(folder, "tokenizer_config.json", other);
    return config_write(folder, "GPT2Tokenizer", END, END, positions);
}

/* Of the added token with this id; NULL: there is none. It lives as long as root. */
static const char *special_text(const json_t *root, int64_t id)
{
    size_t  i;
    json_t *token;
    json_array_foreach(json_object_get(root, "added_tokens"), i, token)
        if (json_integer_value(json_object_get(token, "id")) == id)
            return json_string_value(json_object_get(token, "content"));
    return NULL;
}

static Status made_write(const char *folder, json_t *root, int64_t end, int64_t unknown, int64_t positions)
{
    Status status = config_write(folder, "PreTrainedTokenizerFast", special_text(root, end),
                                 special_text(root, unknown), positions);
    if (status == OK) return hf_json_write(folder, "tokenizer.json", root);
    json_decref(root);
    return status;
}

static Status tiktoken_write(const char *folder, const char *path, int64_t positions)
{
    json_t *root;
    int64_t end;
    TRY(tiktoken_json(&root, &end, path));
    return made_write(folder, root, end, end, positions);
}

static Status sentencepiece_write(const char *folder, const char *path, int64_t end, int64_t positions)
{
    json_t *root;
    int64_t unknown;
    TRY(sentencepiece_json(&root, &unknown, path));
    return made_write(folder, root, end, unknown, positions);
}

static bool has_ending(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static Status files_write(const char *folder, const char *from, int64_t end, int64_t positions)
{
    char        path[1024], beside[1024];
    struct stat about;
    if (stat(from, &about) != 0) return fail(BAD_OPTION, "--tokenizer %s: no such file", from);
    bool is_folder = S_ISDIR(about.st_mode);
    if (is_folder && has_file(path, from, "tokenizer.json"))
        return json_tokenizer_write(folder, path, from, end, positions);
    bool model =
        is_folder && has_file(path, from, "tokenizer.model") && !has_file(beside, from, "merges.txt");
    if (is_folder && !model) return gpt2_tokenizer_write(folder, from, positions);
    if (!is_folder) snprintf(path, sizeof path, "%s", from);
    snprintf(beside, sizeof beside, "%s/..", from);
    if (has_ending(path, ".json")) return json_tokenizer_write(folder, path, beside, end, positions);
    if (!llama_pieces_is(path)) return tiktoken_write(folder, path, positions);
    LlamaPieces pieces;
    if (llama_pieces_open(&pieces, path) != OK) return sentencepiece_write(folder, path, end, positions);
    llama_pieces_close(&pieces);
    TRY(file_copy(folder, "tokenizer.model", path));
    return config_write(folder, "LlamaTokenizer", NULL, NULL, positions);
}

Status hf_tokenizer_write(const char *folder, const char *tokenizer, int64_t positions, int64_t *end)
{
    Tokenizer t;
    TRY(tokenizer_open(&t, tokenizer));
    *end = t.eod;
    Status status = !strcmp(tokenizer, "bytes") ? bytes_write(folder, t.eod, positions)
                                                : files_write(folder, tokenizer, t.eod, positions);
    tokenizer_close(&t);
    return status;
}
