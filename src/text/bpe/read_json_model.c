/* Reads the model of a tokenizer.json: its vocabulary, and the merges, scores and rules that make ids of a
 * pretoken (text/bpe/piece_models.h). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/bpe/read_json_internal.h"

/* ---- merges ---- */

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

static Status idle_merge_check(const JsonReader *r, const char *side[2], const int64_t bytes[2],
                               uint32_t rank)
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
    if (!merge_sides(merge, pairs, side, bytes))
        return fail(BAD_FILE, "merge %" PRIu32 " is not two tokens", rank);
    Status status = bpe_add_encoded_merge(r->bpe, side[0], bytes[0], side[1], bytes[1], rank);
    return status != OK && is_idle(r, side, bytes) ? idle_merge_check(r, side, bytes, rank) : status;
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

/* ---- the four models ---- */

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

/* The library's reader of JSON rounds twice, the digits and then their quotient by a power of ten, which
 * differs from the nearest number in the last bit of some that have 16 or 17 digits. Sums of scores that are
 * nearly equal are compared, so that bit counts. Files have the shortest digits that make the number. */
static double score_of(const json_t *value)
{
    char   text[40], power[16];
    double score = json_number_value(value);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, fabs(score));
        if (strtod(text, NULL) != fabs(score)) continue;
        if (digits == 15) break;                                              /* exact either way */
        char   *exponent = strchr(text, 'e');
        int64_t tens = strtol(exponent + 1, NULL, 10) - (digits - 1), whole = text[0] - '0';
        for (const char *at = text + 2; at < exponent; at++) whole = 10 * whole + (*at - '0');
        snprintf(power, sizeof power, "1e%d", abs((int)tens));
        if (tens < -308) break;
        double made = tens < 0 ? (double)whole / strtod(power, NULL) : (double)whole * strtod(power, NULL);
        return score < 0 ? -made : made;
    }
    return score;
}

static Status unigram_tokens_read(JsonReader *r, const json_t *list)
{
    TokenTrie *t = &r->bpe->trie;
    size_t     i;
    json_t    *row;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return fail(BAD_FILE, "%s: the vocabulary of a Unigram model is not a list of [token, score]",
                    r->path);
    t->score = malloc(json_array_size(list) * sizeof *t->score);
    if (!t->score) return fail(NO_MEMORY, "%s: no memory for its scores", r->path);
    json_array_foreach((json_t *)(uintptr_t)list, i, row) {
        const json_t *text = json_array_get(row, 0), *score = json_array_get(row, 1);
        if (json_array_size(row) != 2 || !json_is_string(text) || !json_is_number(score))
            return fail(BAD_FILE, "%s: token %zu of the vocabulary is not [token, score]", r->path, i);
        if (vocab_add(&r->bpe->vocab, (int64_t)i, json_string_value(text),
                      (int64_t)json_string_length(text)) != OK)
            return fail_with_path(r, BAD_FILE);
        t->score[i] = score_of(score);
        if (i == 0 || t->score[i] < t->least) t->least = t->score[i];
    }
    return OK;
}

static Status unigram_read(JsonReader *r, const json_t *model)
{
    const json_t *unknown = json_object_get(model, "unk_id");
    r->bpe->model = PIECE_MODEL_UNIGRAM;
    r->bpe->byte_fallback = json_object_get(model, "byte_fallback") && need_bool(r, model, "byte_fallback");
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
        return json_is_array(json_object_get(model, "vocab")) ? unigram_read(r, model)
                                                              : bpe_model_read(r, model);
    return json_object_get(model, "max_input_chars_per_word") ? word_piece_read(r, model)
                                                               : word_level_read(r, model);
}
