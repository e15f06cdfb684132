/* Reads a tokenizer.json of Hugging Face's tokenizers library: what its parts have in common, its model, added
 * tokens and post-processor. The normalizer and the pre-tokenizer are in text/bpe/read_json_parts.c, the
 * decoder in text/bpe/read_json_decoder.c.
 *
 * Malformed files are refused, also where the library takes them in a way that the file does not say: an added
 * token with another id than the one that the library numbers it with, an id with two tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "text/bpe/read_json_internal.h"
#include "text/unicode.h"

/* ---- members ---- */

const char *json_type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "(without a type)";
}

void note_invalid(JsonReader *r, const char *key, const char *expected)
{
    if (!r->invalid_key) r->invalid_key = key, r->expected = expected;
}

Status check_invalid(const JsonReader *r)
{
    if (!r->invalid_key) return OK;
    return r->expected ? fail(BAD_FILE, "%s: \"%s\" is not %s; correct the file", r->path, r->invalid_key,
                              r->expected)
                       : fail(BAD_FILE, "%s: \"%s\" is missing; correct the file", r->path, r->invalid_key);
}

static const json_t *needed(JsonReader *r, const json_t *part, const char *key)
{
    const json_t *value = json_object_get(part, key);
    if (!value || json_is_null(value)) note_invalid(r, key, NULL);
    return value;
}

bool read_bool(JsonReader *r, const json_t *part, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(part, key);
    if (value && !json_is_null(value) && !json_is_boolean(value)) note_invalid(r, key, "true or false");
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

const char *read_string(JsonReader *r, const json_t *part, const char *key)
{
    const json_t *value = json_object_get(part, key);
    if (value && !json_is_null(value) && !json_is_string(value)) note_invalid(r, key, "a text");
    if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
        note_invalid(r, key, "a text without NUL");
    return json_string_value(value);
}

bool need_bool(JsonReader *r, const json_t *part, const char *key)
{
    needed(r, part, key);
    return read_bool(r, part, key, false);
}

const char *need_string(JsonReader *r, const json_t *part, const char *key)
{
    needed(r, part, key);
    const char *text = read_string(r, part, key);
    return text ? text : "";
}

const char *need_character(JsonReader *r, const json_t *part, const char *key)
{
    const char *text = need_string(r, part, key);
    int64_t     bytes = (int64_t)strlen(text);
    if (bytes && rune_at((const uint8_t *)text, bytes).bytes == bytes) return text;
    note_invalid(r, key, "one character");
    return "";
}

int64_t need_count(JsonReader *r, const json_t *part, const char *key)
{
    int64_t count = json_id(needed(r, part, key));
    if (count >= 0) return count;
    note_invalid(r, key, "a whole number");
    return 0;
}

Status fail_with_path(const JsonReader *r, Status status)
{
    return fail(status, "%s: %s", r->path, fail_text());
}

Status read_pattern(JsonReader *r, const json_t *part, Pattern *pattern)
{
    const json_t *kinds = json_object_get(part, "pattern");
    const json_t *regex = json_object_get(kinds, "Regex"), *text = json_object_get(kinds, "String");
    bool good = json_object_size(kinds) == 1 && (json_is_string(regex) || json_is_string(text));
    *pattern = (Pattern){ 0 };
    if (!good)
        return fail(BAD_FILE, "%s: %s without a pattern {\"String\": text} or {\"Regex\": text}", r->path,
                    json_type_of(part));
    if (text) return pattern_open_text(pattern, json_string_value(text), (int64_t)json_string_length(text));
    if (strlen(json_string_value(regex)) != json_string_length(regex))
        return fail(BAD_FILE, "%s: a regular expression with NUL is not read", r->path);
    Status status = regex_open(&pattern->regex, json_string_value(regex));
    return status == OK ? OK : fail_with_path(r, status);
}

Status dispatch_by_type(JsonReader *r, const json_t *part, const char *what, const JsonField *rows, int count)
{
    if (!part || json_is_null(part)) return OK;
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].type, json_type_of(part))) return rows[i].read ? rows[i].read(r, part) : OK;
    return fail(BAD_FILE,
                "%s: the %s %.60s is not known; encode with another program, or give another tokenizer",
                r->path, what, json_type_of(part));
}

Status for_each(JsonReader *r, const json_t *list, const char *what, JsonPart *read)
{
    size_t  i;
    json_t *part;
    if (!json_is_array(list)) return fail(BAD_FILE, "%s: %s is missing or no list", r->path, what);
    json_array_foreach((json_t *)(uintptr_t)list, i, part) TRY(read(r, part));
    return OK;
}

/* ---- the model ---- */

/* The two tokens of a merge, [left, right] or "left right"; false: it is not two tokens */
static bool merge_sides(const json_t *merge, bool pairs, const char *side[2], int64_t bytes[2])
{
    const char *text = json_string_value(merge), *blank = text ? strchr(text, ' ') : NULL;
    const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    if (pairs) {
        side[0]  = json_string_value(a);
        side[1]  = json_string_value(b);
        bytes[0] = (int64_t)json_string_length(a);
        bytes[1] = (int64_t)json_string_length(b);
        return json_array_size(merge) == 2 && side[0] && side[1];
    }
    if (!blank || strchr(blank + 1, ' ') || strlen(text) != json_string_length(merge)) return false;
    side[0]  = text;
    side[1]  = blank + 1;
    bytes[0] = blank - text;
    bytes[1] = (int64_t)strlen(blank + 1);
    return true;
}

/* A byte-level merge of tokens that are not written in letters joins nothing, as no text has them. */
static bool is_idle(const JsonReader *r, const char *side[2], const int64_t bytes[2])
{
    uint8_t raw[1024];
    for (int i = 0; i < 2 && r->bpe->byte_level; i++) {
        int64_t count = bytes[i];
        if (count > (int64_t)sizeof raw) continue;
        memcpy(raw, side[i], (size_t)count);
        if (!letters_to_bytes(raw, &count)) return true;
    }
    return false;
}

static bool is_token(const JsonReader *r, const char *text, int64_t bytes)
{
    return json_object_getn(r->vocab, text, (size_t)bytes) != NULL;
}

static Status idle_merge_check(const JsonReader *r, const char *side[2], const int64_t bytes[2], uint32_t rank)
{
    char joined[2048];
    bool fits = bytes[0] + bytes[1] < (int64_t)sizeof joined;
    if (fits) {
        memcpy(joined, side[0], (size_t)bytes[0]);
        memcpy(joined + bytes[0], side[1], (size_t)bytes[1]);
    }
    if (fits && is_token(r, side[0], bytes[0]) && is_token(r, side[1], bytes[1]) &&
        is_token(r, joined, bytes[0] + bytes[1]))
        return OK;
    return fail(BAD_FILE, "merge %" PRIu32 ", %.*s %.*s: one of them, or what they make, is no token of the"
                " vocabulary", rank, (int)bytes[0], side[0], (int)bytes[1], side[1]);
}

static Status merge_read(JsonReader *r, const json_t *merge, bool pairs, uint32_t rank)
{
    const char *side[2];
    int64_t     bytes[2];
    if (!merge_sides(merge, pairs, side, bytes)) return fail(BAD_FILE, "merge %" PRIu32 " is not two tokens", rank);
    if (is_idle(r, side, bytes)) return idle_merge_check(r, side, bytes, rank);
    return bpe_add_encoded_merge(r->bpe, side[0], bytes[0], side[1], bytes[1], rank);
}

static bool is_version(const json_t *merge)
{
    return json_is_string(merge) && !strncmp(json_string_value(merge), "#version", 8);
}

/* In the order of the file a merge has the number of its place among those that are no "#version". The last
 * merge of a pair counts, and merges_add keeps the first, so they are added from the last on. */
static Status merges_read(JsonReader *r, const json_t *merges)
{
    size_t  count = json_array_size(merges);
    bool    pairs = json_is_array(json_array_get(merges, 0));
    int64_t rank  = 0;
    if (!json_is_array(merges)) return fail(BAD_FILE, "%s: the BPE model has no list of merges", r->path);
    for (size_t i = 0; i < count && !pairs; i++) rank += !is_version(json_array_get(merges, i));
    if (pairs) rank = (int64_t)count;
    for (size_t i = count; i-- > 0; ) {
        const json_t *merge = json_array_get(merges, i);
        if (!pairs && is_version(merge)) continue;
        if (merge_read(r, merge, pairs, (uint32_t)--rank) != OK) return fail_with_path(r, BAD_FILE);
    }
    return OK;
}

/* The id that the vocabulary gives to a token, or VOCAB_NONE */
static int32_t model_id(const JsonReader *r, const char *token)
{
    const json_t *id = json_object_get(r->vocab, token);
    return id ? (int32_t)json_id(id) : VOCAB_NONE;
}

static Status affix_read(JsonReader *r, Affix *affix, const json_t *model, const char *key)
{
    const char *text = read_string(r, model, key);
    if (!text) return OK;
    if (strlen(text) > AFFIX_BYTES_MAX)
        return fail(BAD_FILE, "%s: %s has more than %d bytes", r->path, key, AFFIX_BYTES_MAX);
    memcpy(affix->text, text, strlen(text) + 1);
    affix->bytes = (int)strlen(text);
    return OK;
}

/* Whether the text can stay as it is until the model, because the last thing that happens to it is that its
 * bytes are written in letters, all of which are tokens: then the step that writes them goes. */
static void take_bytes(JsonReader *r, const json_t *model)
{
    BpeTokenizer *m = r->bpe;
    Pretokenizer *p = &m->pretokenizer;
    if (r->letters != 1 || r->last_letters < 0 || r->last_letters != p->steps - 1) return;
    if (m->prefix.bytes || m->suffix.bytes) return;
    for (int byte = 0; byte < 256; byte++) {
        char letter[3] = "";
        letters_of_bytes(letter, &(uint8_t){ (uint8_t)byte }, 1);
        if (!json_object_get(json_object_get(model, "vocab"), letter)) return;
    }
    pretokenizer_step_close(&p->step[--p->steps]);
    m->byte_level = true;
}

static Status dropout_check(JsonReader *r, const json_t *model)
{
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && !json_is_number(dropout)) note_invalid(r, "dropout", "a number");
    if (!dropout || json_number_value(dropout) == 0) return OK;
    return fail(BAD_FILE, "%s: dropout %g: merges that are dropped at random would give a text other ids each"
                " time; set it to null", r->path, json_number_value(dropout));
}

static Status unknown_read(JsonReader *r, const char *token)
{
    if (!token) return OK;
    r->bpe->unknown = model_id(r, token);
    return r->bpe->unknown >= 0 ? OK : fail(BAD_FILE, "%s: unk_token %.80s is no token", r->path, token);
}

static Status bpe_model_read(JsonReader *r, const json_t *model)
{
    BpeTokenizer *m = r->bpe;
    TRY(dropout_check(r, model));
    TRY(affix_read(r, &m->prefix, model, "continuing_subword_prefix"));
    TRY(affix_read(r, &m->suffix, model, "end_of_word_suffix"));
    m->byte_fallback = read_bool(r, model, "byte_fallback", false);
    m->fuse_unknown  = read_bool(r, model, "fuse_unk", false);
    m->ignore_merges = read_bool(r, model, "ignore_merges", false);
    if (m->byte_fallback && (m->prefix.bytes || m->suffix.bytes))
        return fail(BAD_FILE, "%s: byte_fallback with a prefix or suffix of tokens, whose bytes would become"
                    " tokens as well, is not read", r->path);
    take_bytes(r, model);
    TRY(bpe_add_vocab(m, r->vocab, r->path));
    TRY(merges_read(r, json_object_get(model, "merges")));
    return unknown_read(r, read_string(r, model, "unk_token"));
}

static Status word_level_read(JsonReader *r, const json_t *model)
{
    r->bpe->model = PIECE_MODEL_WORD_LEVEL;
    TRY(bpe_add_vocab(r->bpe, r->vocab, r->path));
    r->bpe->unknown = model_id(r, need_string(r, model, "unk_token"));
    return OK;
}

/* Opens the trie of the tokens in m->vocab. */
static Status trie_fill(JsonReader *r)
{
    const Vocab *v = &r->bpe->vocab;
    if (trie_open(&r->bpe->trie.trie, v->used) != OK) return fail_with_path(r, BAD_FILE);
    for (int32_t id = 0; id < v->ids; id++) {
        if (!vocab_has(v, id) || v->length[id] == 0) continue;
        int32_t node = trie_add(&r->bpe->trie.trie, (const char *)vocab_bytes(v, id), v->length[id]);
        if (node == TRIE_NONE)
            return fail(BAD_FILE, "%s: token %" PRId32 ": its bytes collide with those of %d others", r->path,
                        id, TRIE_PROBES_MAX);
        r->bpe->trie.trie.piece[node] = id;
    }
    return OK;
}

static Status word_piece_read(JsonReader *r, const json_t *model)
{
    r->bpe->model = PIECE_MODEL_WORD_PIECE;
    TRY(bpe_add_vocab(r->bpe, r->vocab, r->path));
    r->bpe->unknown = model_id(r, need_string(r, model, "unk_token"));
    r->bpe->max_characters = need_count(r, model, "max_input_chars_per_word");
    need_string(r, model, "continuing_subword_prefix");
    TRY(affix_read(r, &r->bpe->prefix, model, "continuing_subword_prefix"));
    return trie_fill(r);
}

static Status unigram_tokens_read(JsonReader *r, const json_t *list)
{
    TokenTrie *t = &r->bpe->trie;
    size_t     i;
    json_t    *row;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return fail(BAD_FILE, "%s: the vocabulary of a Unigram model is not a list of [token, score]", r->path);
    t->score = malloc(json_array_size(list) * sizeof *t->score);
    if (!t->score) return fail(NO_MEMORY, "%s: no memory for its scores", r->path);
    json_array_foreach((json_t *)(uintptr_t)list, i, row) {
        const json_t *text = json_array_get(row, 0), *score = json_array_get(row, 1);
        if (json_array_size(row) != 2 || !json_is_string(text) || !json_is_number(score))
            return fail(BAD_FILE, "%s: token %zu of the vocabulary is not [token, score]", r->path, i);
        if (vocab_add(&r->bpe->vocab, (int64_t)i, json_string_value(text),
                      (int64_t)json_string_length(text)) != OK)
            return fail_with_path(r, BAD_FILE);
        t->score[i] = json_number_value(score);
        if (i == 0 || t->score[i] < t->least) t->least = t->score[i];
    }
    return OK;
}

static Status unigram_read(JsonReader *r, const json_t *model)
{
    const json_t *unknown = json_object_get(model, "unk_id");
    r->bpe->model = PIECE_MODEL_UNIGRAM;
    r->bpe->byte_fallback = read_bool(r, model, "byte_fallback", false);
    TRY(unigram_tokens_read(r, json_object_get(model, "vocab")));
    if (unknown && !json_is_null(unknown)) {
        int64_t id = json_id(unknown);
        if (id < 0 || id >= r->bpe->vocab.ids)
            return fail(BAD_FILE, "%s: unk_id is not one of the ids 0 to %" PRId32, r->path,
                        r->bpe->vocab.ids - 1);
        r->bpe->unknown = (int32_t)id;
    }
    return trie_fill(r);
}

static const JsonField models[] = {
    { "BPE", bpe_model_read }, { "WordLevel", word_level_read }, { "WordPiece", word_piece_read },
    { "Unigram", unigram_read },
};

/* Files of old have no type; then it follows from the members. */
Status model_read(JsonReader *r, const json_t *model)
{
    r->model = model;
    r->vocab = json_object_get(model, "vocab");
    if (!json_is_object(r->vocab)) r->vocab = NULL;
    if (json_object_get(model, "type")) return DISPATCH(r, model, "model", models);
    if (json_object_get(model, "merges") || !r->vocab)
        return json_is_array(json_object_get(model, "vocab")) ? unigram_read(r, model) : bpe_model_read(r, model);
    return json_object_get(model, "max_input_chars_per_word") ? word_piece_read(r, model)
                                                               : word_level_read(r, model);
}

/* ---- added tokens ---- */

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

Status added_token_add(JsonReader *r, const json_t *token, const json_t *content, int64_t id, bool special)
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
        if (r->bpe->added.token[i].bytes == bytes && !memcmp(r->bpe->added.token[i].text, text, (size_t)bytes))
            return id == r->bpe->added.token[i].id ? OK
                 : fail(BAD_FILE, "%s: the added token %.80s has ids %" PRId32 " and %" PRId64, r->path, text,
                        r->bpe->added.token[i].id, id);
    if (id == (*next)++) return OK;
    return fail(BAD_FILE,
                "%s: the added token %.80s has id %" PRId64 ", and Hugging Face's library, which numbers added"
                " tokens in order from the size of the model's vocabulary on, gives it %" PRId64 "; correct"
                " the file", r->path, text, id, *next - 1);
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
        for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) need_bool(r, token, flags[k]);
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

/* ---- post-processors: ids added before and after each text ---- */

static Status template_id_add(JsonReader *r, TemplateIds *ids, const json_t *number)
{
    if (!vocab_has(&r->bpe->vocab, json_id(number)) || ids->count == TEMPLATE_IDS_MAX)
        return fail(BAD_FILE, "%s: the post_processor puts an id that is no token's, or more than %d",
                    r->path, TEMPLATE_IDS_MAX);
    ids->id[ids->count++] = (int32_t)json_id(number);
    return OK;
}

static Status post_template(JsonReader *r, const json_t *part)
{
    const json_t *single = json_object_get(part, "single"), *tokens = json_object_get(part, "special_tokens");
    TemplateIds  *ids = &r->bpe->before;
    size_t        i, k;
    json_t       *piece, *id;
    json_array_foreach((json_t *)(uintptr_t)single, i, piece) {
        const json_t *special = json_object_get(piece, "SpecialToken");
        const char   *token = json_string_value(json_object_get(special, "id"));
        const json_t *list  = token ? json_object_get(json_object_get(tokens, token), "ids") : NULL;
        if (token ? !list : ids == &r->bpe->after)
            return fail(BAD_FILE,
                        "%s: the template of the post_processor has a token that it does not define, or the"
                        " text twice", r->path);
        json_array_foreach((json_t *)(uintptr_t)list, k, id) TRY(template_id_add(r, ids, id));
        if (!token) ids = &r->bpe->after;
    }
    return ids == &r->bpe->after ? OK
         : fail(BAD_FILE, "%s: the template of the post_processor has no text in it", r->path);
}

/* RoBERTa's and BERT's: [token, id] before and after the text */
static Status post_pair(JsonReader *r, const json_t *part)
{
    TRY(template_id_add(r, &r->bpe->before, json_array_get(json_object_get(part, "cls"), 1)));
    return template_id_add(r, &r->bpe->after, json_array_get(json_object_get(part, "sep"), 1));
}

static Status post_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "processors"), "the \"processors\" of a Sequence", post_read);
}
static const JsonField post_processors[] = {
    { "Sequence", post_list }, { "ByteLevel", NULL }, { "TemplateProcessing", post_template },
    { "RobertaProcessing", post_pair }, { "BertProcessing", post_pair },
};
Status post_read(JsonReader *r, const json_t *part)
{
    if (r->bpe->before.count + r->bpe->after.count)
        return fail(BAD_FILE, "%s: a post-processor after one that adds tokens to a text is not known",
                    r->path);
    return DISPATCH(r, part, "post-processor", post_processors);
}

/* Without a decoder the library puts blanks between tokens. A BPE that is byte-level, or writes blanks as
 * marks, is decoded by that here, so that its texts come back. */
static Status chain_finish(JsonReader *r, const json_t *decoder)
{
    BpeTokenizer *m = r->bpe;
    bool marks = m->prepends_mark;
    for (int i = 0; i < m->normalizer.steps + m->segment_normalizer.steps; i++) {
        const NormalizerStep *s = i < m->normalizer.steps ? &m->normalizer.step[i]
                                                          : &m->segment_normalizer.step[i - m->normalizer.steps];
        marks |= s->kind == NORMALIZER_REPLACE && s->new_bytes == 3 && !memcmp(s->new, "\xE2\x96\x81", 3);
    }
    bool none = !decoder || json_is_null(decoder);
    if (m->chain.steps || (none && m->model == PIECE_MODEL_BPE && (m->byte_level || marks))) return OK;
    m->chain.step[m->chain.steps++] = (DecodeStep){ .kind = none ? DECODE_JOIN : DECODE_STRIP };
    return OK;
}

/* Both belong to the caller of the library, who mostly sets others. */
static void tell_cut(const JsonReader *r, const json_t *json)
{
    static const char *const keys[] = { "truncation", "padding" };
    for (int i = 0; i < 2; i++) {
        const json_t *part = json_object_get(json, keys[i]);
        if (part && !json_is_null(part))
            log_line("%s: its %s is not applied: texts keep their length", r->path, keys[i]);
    }
}

static Status parts_read(JsonReader *r, const json_t *json)
{
    const char *version = read_string(r, json, "version");
    if (version && strcmp(version, "1.0"))
        return fail(BAD_FILE, "%s: version %.20s of the format is not known; 1.0 is", r->path, version);
    TRY(normalizer_read(r, json_object_get(json, "normalizer")));
    TRY(pretokenizer_read(r, json_object_get(json, "pre_tokenizer")));
    TRY(decoder_read(r, json_object_get(json, "decoder")));
    if (!json_is_object(json_object_get(json, "model")))
        return fail(BAD_FILE, "%s: it has no model, so it is no tokenizer.json; of GPT-2's two files give the"
                    " directory", r->path);
    TRY(model_read(r, json_object_get(json, "model")));
    TRY(chain_finish(r, json_object_get(json, "decoder")));
    const json_t *added = json_object_get(json, "added_tokens");
    if (added) TRY(added_tokens_read(r, added));
    tell_cut(r, json);
    return post_read(r, json_object_get(json, "post_processor"));
}

/* The text of a part is canonical: keys sorted, no white space; a part that is null is as if missing. */
static Status rules_hash(JsonReader *r, const json_t *json)
{
    static const char *const parts[] = { "normalizer", "pre_tokenizer", "post_processor" };
    for (int i = 0; i < 3; i++) {
        const json_t *part = json_object_get(json, parts[i]);
        char *text = json_is_object(part) ? json_dumps(part, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        if (json_is_object(part) && !text) return fail(NO_MEMORY, "%s: no memory for its text", r->path);
        r->bpe->rules = tokenizer_hash(r->bpe->rules, text ? text : "", text ? (int64_t)strlen(text) : 0);
        free(text);
    }
    return OK;
}

Status bpe_read_json(BpeTokenizer *m, const char *path)
{
    json_t *json;
    JsonReader    r = { .bpe = m, .path = path, .last_letters = -1 };
    TRY(json_read(&json, m, path));
    Status status = json_is_object(json) ? parts_read(&r, json)
        : fail(BAD_FILE, "%s: it is no JSON object", path);
    if (status == OK) status = check_invalid(&r);
    if (status == OK) status = rules_hash(&r, json);
    json_decref(json);
    return status;
}

/* A token is named by its text, or by an object with its content. */
static const char *token_named(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static Status config_read(BpeTokenizer *m, const json_t *json, const char *path)
{
    const char *text = token_named(json_object_get(json, "eos_token"));
    if (!text) return OK;
    m->eod = vocab_find(&m->vocab, text, (int64_t)strlen(text));
    return m->eod >= 0 ? OK
         : fail(BAD_FILE, "%s: eos_token %.80s is no token of the tokenizer.json beside it", path, text);
}

Status bpe_read_config(BpeTokenizer *m, const char *path)
{
    json_t *json;
    TRY(json_read(&json, m, path));
    Status status = config_read(m, json, path);
    json_decref(json);
    return status;
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
            if ((name = token_named(json_is_array(value) ? json_array_get(value, i) : value)) &&
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
