/* Which ids begin and end texts: from an open tokenizer and the JSON files beside it. */
#include "convert/tokenizer/special_ids.h"
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "convert/tokenizer/tokenizer_json.h"
#include "store/tensor_entry.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/bytes.h"
#include "text/sentencepiece/sentencepiece.h"

enum { JSON_MULTIPLE = 40, JSON_MOST = 16 << 20 };
static const char BYTES_END[] = "<|endoftext|>";

/* ---- texts of tokens ---- */

bool special_text(char out[SPECIAL_TEXT], const Tokenizer *t, int64_t id)
{
    const BpeTokenizer       *bpe = bpe_tokenizer_of(t);
    const SentencePieceModel *pieces = sentencepiece_model_of(t);
    ByteSpan text = { BYTES_END, sizeof BYTES_END - 1 };
    if (bpe ? !vocab_has(&bpe->vocab, id) : id < 0 || id >= t->vocabulary) return false;
    if (bpe)
        text = (ByteSpan){ (const char *)vocab_bytes(&bpe->vocab, (int32_t)id),
                           (size_t)bpe->vocab.length[id] };
    else if (pieces) text = pieces->piece[id].text;
    else if (id != BYTES_EOD) return false;
    return snprintf(out, SPECIAL_TEXT, "%.*s", (int)text.bytes, text.data) == (int)text.bytes &&
           text.bytes < SPECIAL_TEXT;
}

/* -1: there is no such token */
static int64_t id_of_text(const Tokenizer *t, const char *text, size_t bytes)
{
    const BpeTokenizer       *bpe = bpe_tokenizer_of(t);
    const SentencePieceModel *pieces = sentencepiece_model_of(t);
    if (bpe) return vocab_find(&bpe->vocab, text, (int64_t)bytes);
    for (int32_t id = 0; pieces && id < pieces->pieces; id++)
        if (pieces->piece[id].text.bytes == bytes && !memcmp(pieces->piece[id].text.data, text, bytes))
            return id;
    return -1;
}

/* ---- files beside the tokenizer ---- */

/* NULL where there is no such file. */
static Status beside_read(json_t **root, const TokenizerFile *file, const char *name, size_t flags)
{
    char path[1024];
    *root = NULL;
    if (!tokenizer_file_beside(path, file, name)) return OK;
    Status status = json_file_bounded(root, path, JSON_MOST, JSON_MULTIPLE, flags);
    if (status == OK && !json_is_object(*root)) status = fail(BAD_FILE, "%s: no JSON object", path);
    if (status != BAD_FILE) return status;
    return fail(BAD_FILE, "%s; copy or download the file again, or remove it", fail_text());
}

/* chat_template.jinja, or the chat_template of a tokenizer_config.json: a text, or a list of which one is
 * called default. */
static Status chat_find(json_t **chat, const TokenizerFile *file, const json_t *config)
{
    char    path[1024];
    FileMap map;
    size_t  i;
    json_t *item, *named = json_object_get(config, "chat_template");
    *chat = NULL;
    if (tokenizer_file_beside(path, file, "chat_template.jinja")) {
        TRY(file_map(&map, path));
        bool fits = map.size <= JSON_MOST;
        if (fits) *chat = json_stringn((const char *)map.data, map.size);
        file_unmap(&map);
        return *chat ? OK : fail(BAD_FILE, "%s: not UTF-8, or more than %d bytes; mend it, or "
                                    "remove it", path, JSON_MOST);
    }
    if (json_is_string(named)) *chat = json_incref(named);
    json_array_foreach(named, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        json_t     *text = json_object_get(item, "template");
        if (name && !strcmp(name, "default") && json_is_string(text) && !*chat) *chat = json_incref(text);
    }
    return OK;
}

typedef struct { json_t *config, *generation, *tokenizer; } Beside;

/* The values of both files in turn that a key may have; NULL: neither has one that is not null. */
static const json_t *beside_value(const Beside *b, const char *key)
{
    const json_t *value = json_object_get(b->generation, key);
    return value && !json_is_null(value) ? value : json_object_get(b->config, key);
}

/* Whether a model of the config has the id: its vocabulary may be larger than that of the tokenizer. */
static bool id_held(const Beside *b, const Tokenizer *t, const json_t *id)
{
    int64_t held = json_integer_value(json_object_get(b->config, "vocab_size"));
    return json_is_integer(id) && json_integer_value(id) < (held > t->vocabulary ? held : t->vocabulary);
}

static int64_t beside_id(const Beside *b, const Tokenizer *t, const char *key, const char *token_key)
{
    const json_t *id = beside_value(b, key), *token = json_object_get(b->tokenizer, token_key);
    const char   *text = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    if (id_held(b, t, id)) return json_integer_value(id);
    return text ? id_of_text(t, text, strlen(text)) : -1;
}

/* ---- the ids ---- */

/* A special token by its name; where there is none the end of document, as GPT-2 has it. */
static int64_t usual_bos(const Tokenizer *t)
{
    static const char *const names[] = { "<|begin_of_text|>", "<s>", "<bos>" };
    const SentencePieceModel *pieces = sentencepiece_model_of(t);
    const BpeTokenizer       *bpe = bpe_tokenizer_of(t);
    if (pieces) return id_of_text(t, pieces->bos.data, pieces->bos.bytes);
    for (int i = 0; bpe && i < bpe->added.count; i++) {
        const AddedToken *token = &bpe->added.token[i];
        for (size_t k = 0; k < COUNT(names) && token->special; k++)
            if (id_of_text(t, names[k], strlen(names[k])) == token->id) return token->id;
    }
    return t->eod;
}

static void end_add(SpecialIds *ids, int64_t id)
{
    for (int i = 0; i < ids->ends; i++)
        if (ids->end[i] == id) return;
    if (id >= 0 && ids->ends < SPECIAL_ENDS_MOST) ids->end[ids->ends++] = id;
}

static void ends_find(SpecialIds *ids, const Beside *b, const Tokenizer *t)
{
    const json_t *named = beside_value(b, "eos_token_id"), *item;
    size_t        i;
    end_add(ids, t->eod);
    if (id_held(b, t, named)) end_add(ids, json_integer_value(named));
    json_array_foreach((json_t *)named, i, item)
        if (id_held(b, t, item)) end_add(ids, json_integer_value(item));
}

/* What the tokenizer puts around each text. */
static Status frame_find(SpecialIds *ids, const Tokenizer *t, const Beside *b)
{
    const BpeTokenizer *bpe = bpe_tokenizer_of(t);
    ids->adds_bos = sentencepiece_model_of(t) && json_is_true(json_object_get(b->tokenizer, "add_bos_token"));
    if (!bpe) return OK;
    if (bpe->before.count > 1 || bpe->after.count > 1)
        return fail(BAD_OPTION,
                    "the tokenizer %s puts %d ids before each text and %d after it; other programs know one "
                    "before and one after",
                    t->name, bpe->before.count, bpe->after.count);
    ids->adds_bos = bpe->before.count == 1;
    ids->adds_end = bpe->after.count == 1;
    if (ids->adds_bos) ids->bos = bpe->before.id[0];
    if (ids->adds_end) end_add(ids, bpe->after.id[0]);
    return OK;
}

static int64_t unknown_of(const Tokenizer *t)
{
    const BpeTokenizer       *bpe = bpe_tokenizer_of(t);
    const SentencePieceModel *pieces = sentencepiece_model_of(t);
    return pieces ? pieces_unknown(pieces) : bpe ? bpe->unknown : -1;
}

/* ---- as JSON ---- */

static json_t *id_json(int64_t id) { return id >= 0 ? json_integer(id) : json_null(); }

static json_t *ends_json(const SpecialIds *ids)
{
    if (ids->ends < 2) return id_json(ids->ends ? ids->end[0] : -1);
    json_t *list = json_array();
    for (int i = 0; i < ids->ends; i++) json_array_append_new(list, json_integer(ids->end[i]));
    return list;
}

static bool ids_known(const json_t *value, const Tokenizer *t)
{
    size_t        i;
    const json_t *item;
    bool          known = value && json_integer_value(value) < t->vocabulary;
    json_array_foreach((json_t *)value, i, item) known &= json_integer_value(item) < t->vocabulary;
    return known;
}

/* Sets a key as the config.json of the folder has it, unless that is no id of the tokenizer, or to `made`,
 * which is consumed. */
static void key_set(json_t *to, const Beside *b, const Tokenizer *t, const char *key, json_t *made)
{
    json_t *value = json_object_get(b->config, key);
    json_object_set(to, key, ids_known(value, t) ? value : made);
    json_decref(made);
}

static Status texts_make(SpecialIds *ids, const Beside *b, const Tokenizer *t)
{
    ids->config = json_object();
    key_set(ids->config, b, t, "bos_token_id", id_json(ids->bos));
    key_set(ids->config, b, t, "eos_token_id", ends_json(ids));
    /* Without one some families have their own, which may be no id of the vocabulary. */
    key_set(ids->config, b, t, "pad_token_id", id_json(ids->pad));
    bool made = !b->generation;
    json_t *g = made ? json_pack("{s:b}", "_from_model_config", true) : json_copy(b->generation);
    ids->generation = g;
    json_object_del(g, "transformers_version");
    if (made && ids->bos >= 0) json_object_set_new(g, "bos_token_id", id_json(ids->bos));
    if (made && ids->ends)     json_object_set_new(g, "eos_token_id", ends_json(ids));
    if (made && ids->pad >= 0) json_object_set_new(g, "pad_token_id", id_json(ids->pad));
    return ids->config && ids->generation ? OK : fail(NO_MEMORY, "no memory for the ids of special tokens");
}

Status special_ids_find(SpecialIds *ids, const Tokenizer *t, const TokenizerFile *file)
{
    Beside b = { 0 };
    *ids = (SpecialIds){ .bos = -1 };
    Status status = beside_read(&b.config, file, "config.json", JSON_REJECT_DUPLICATES);
    if (status == OK)
        status = beside_read(&b.generation, file, "generation_config.json", JSON_REJECT_DUPLICATES);
    /* Numbers may be larger than 64 bits, as transformers writes model_max_length; all are then reals. Texts
     * may have NUL, as the reader of tokenizers allows. */
    if (status == OK)
        status = beside_read(&b.tokenizer, file, "tokenizer_config.json",
                             JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL);
    if (status == OK) status = frame_find(ids, t, &b);
    if (status == OK) {
        if (ids->bos < 0) ids->bos = beside_id(&b, t, "bos_token_id", "bos_token");
        if (ids->bos < 0) ids->bos = usual_bos(t);
        ends_find(ids, &b, t);
        ids->pad = beside_id(&b, t, "pad_token_id", "pad_token");
        ids->unknown = unknown_of(t);
        status = texts_make(ids, &b, t);
        if (status == OK) status = chat_find(&ids->chat, file, b.tokenizer);
    }
    json_decref(b.config);
    json_decref(b.generation);
    json_decref(b.tokenizer);
    return status;
}

void special_ids_free(SpecialIds *ids)
{
    json_decref(ids->config);
    json_decref(ids->generation);
    json_decref(ids->chat);
    *ids = (SpecialIds){ 0 };
}
