/* Reads added tokens: those of a tokenizer.json, and an added_tokens.json beside a vocab.json. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "text/bpe/read_json_internal.h"

/* Two added tokens of one text: the properties of the last one count. */
static Status added_put(JsonReader *r, AddedToken token)
{
    AddedTokens *added = &r->bpe->added;
    for (int i = 0; i < added->count; i++) {
        AddedToken *was = &added->token[i];
        if (was->bytes != token.bytes || memcmp(was->text, token.text, (size_t)token.bytes)) continue;
        added->specials += token.special && !was->special;
        token.text    = was->text;
        token.special |= was->special;
        *was = token;
        return OK;
    }
    return bpe_add_token(r->bpe, token);
}

/* token: its properties {"lstrip", ...}; NULL: defaults */
static Status added_token_add(JsonReader *r, const json_t *token, const json_t *content, int64_t id,
                              bool special)
{
    BpeTokenizer      *m = r->bpe;
    const char *text = json_string_value(content);
    int64_t     bytes = (int64_t)json_string_length(content);
    if (bytes == 0 || id < 0 || id >= VOCAB_IDS_MAX)
        return fail(BAD_FILE, "%s: an added token without content or id", r->path);
    const json_t *own = json_object_get(r->vocab, text);
    if (own && json_id(own) != id)
        return fail(BAD_FILE,
                    "%s: the added token %.80s has id %" PRId64 ", and the model's vocabulary gives it"
                    " %" PRId64 "; make them equal", r->path, text, id, json_id(own));
    if (!own && vocab_has(&m->vocab, id) && vocab_find(&m->vocab, text, bytes) != id)
        return fail(BAD_FILE,
                    "%s: the added token %.80s has id %" PRId64 ", which is another token's; give it one"
                    " of its own", r->path, text, id);
    return added_put(r, (AddedToken){
        .text = (uint8_t *)(uintptr_t)text, .bytes = bytes, .id = (int32_t)id,
        .strip_left = read_bool(r, token, "lstrip", false),
        .strip_right = read_bool(r, token, "rstrip", false),
        .special = special, .single = read_bool(r, token, "single_word", false),
        .normalized = read_bool(r, token, "normalized", !special) });
}

/* The library numbers added tokens that the model does not have by their order, from the model's size on,
 * whatever ids the file gives them. *next: the next such id */
static Status number_check(const JsonReader *r, const json_t *token, int64_t *next)
{
    const json_t *content = json_object_get(token, "content");
    const char   *text = json_string_value(content);
    int64_t       bytes = (int64_t)json_string_length(content), id = json_id(json_object_get(token, "id"));
    int32_t       known = vocab_find(&r->bpe->vocab, text, bytes);
    if (r->vocab ? json_object_get(r->vocab, text) != NULL : known >= 0) return OK;
    for (int i = 0; i < r->bpe->added.count; i++)
        if (r->bpe->added.token[i].bytes == bytes &&
            !memcmp(r->bpe->added.token[i].text, text, (size_t)bytes))
            return id == r->bpe->added.token[i].id ? OK
                 : fail(BAD_FILE, "%s: the added token %.80s has ids %" PRId32 " and %" PRId64, r->path, text,
                        r->bpe->added.token[i].id, id);
    if (id == (*next)++) return OK;
    return fail(BAD_FILE,
                "%s: the added token %.80s has id %" PRId64
                ", and Hugging Face's library, which numbers added"
                " tokens in order from the size of the model's vocabulary on, gives it %" PRId64 "; correct"
                " the file",
                r->path, text, id, *next - 1);
}

Status added_tokens_read(JsonReader *r, const json_t *list)
{
    const json_t *vocab = json_object_get(r->model, "vocab");
    int64_t       next = (int64_t)(json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab));
    size_t        i;
    json_t       *token;
    if (!json_is_array(list)) return fail(BAD_FILE, "%s: \"added_tokens\" is missing or no list", r->path);
    json_array_foreach((json_t *)(uintptr_t)list, i, token) {
        static const char *const flags[] = { "single_word", "lstrip", "rstrip", "normalized", "special" };
        for (int k = 0; k < COUNT(flags); k++) need_bool(r, token, flags[k]);
        int64_t       id = json_id(json_object_get(token, "id"));
        const json_t *content = json_object_get(token, "content");
        TRY(check_invalid(r));
        if (!json_is_string(content) || id < 0)
            return fail(BAD_FILE, "%s: an added token without content or id", r->path);
        if (json_string_length(content) == 0) continue;                    /* as the library does */
        TRY(number_check(r, token, &next));
        TRY(added_token_add(r, token, content, id, json_is_true(json_object_get(token, "special"))));
    }
    return OK;
}

/* ---- added tokens beside a vocab.json ---- */

/* Whether a special_tokens_map.json names this token. map: {"eos_token": token, "additional_special_tokens":
 * [token, ...], ...}, or NULL */
static bool names_special(const json_t *map, const char *text)
{
    const char   *key, *name;
    const json_t *value;
    size_t        i;
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        for (i = 0; i < (json_is_array(value) ? json_array_size(value) : 1); i++)
            if ((name = json_token_named(json_is_array(value) ? json_array_get(value, i) : value)) &&
                !strcmp(name, text))
                return true;
    }
    return false;
}

/* A token's properties are in the config. Without one, transformers searches for special tokens before the
 * normalizer, and so does this. */
static Status added_list(JsonReader *r, const json_t *added, const json_t *config, const json_t *map)
{
    const char   *text;
    const json_t *number;
    char          id[24];
    if (!json_is_object(added)) return fail(BAD_FILE, "%s: it is no JSON object {token: id}", r->path);
    json_object_foreach((json_t *)(uintptr_t)added, text, number) {
        snprintf(id, sizeof id, "%" PRId64, json_id(number));
        const json_t *token = json_object_get(json_object_get(config, "added_tokens_decoder"), id);
        json_t       *content = json_string(text);
        Status        status = added_token_add(r, token, content, json_id(number),
                                               read_bool(r, token, "special", names_special(map, text)));
        json_decref(content);
        TRY(status);
    }
    return check_invalid(r);
}

Status bpe_read_added(BpeTokenizer *m, const char *path, const char *vocab_path, const char *config_path,
                      const char *map_path)
{
    const char *const paths[] = { path, vocab_path, config_path, map_path };
    json_t *json[4] = { NULL };
    Status  status = OK;
    for (int i = 0; i < 4 && status == OK; i++)
        if (*paths[i]) status = json_read(&json[i], m, paths[i]);
    JsonReader r = { .bpe = m, .path = path, .vocab = json[1] };
    if (status == OK) status = added_list(&r, json[0], json[2], json[3]);
    for (int i = 0; i < 4; i++) json_decref(json[i]);
    return status;
}
