/* Reads a tokenizer.json of Hugging Face's tokenizers library: what its parts have in common, and its
 * post-processor. The other parts are in read_json_parts.c (normalizer and pre-tokenizer),
 * read_json_model.c, read_json_added.c and read_json_decoder.c.
 *
 * Malformed files are refused, also where the library takes them in a way that the file does not say: an
 * added token with another id than the one that the library numbers it with, an id with two tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
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
    json_array_foreach((json_t *)(uintptr_t)list, i, part) {
        if (!json_is_object(part)) return fail(BAD_FILE, "%s: %s has one that is no object", r->path, what);
        TRY(read(r, part));
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
    if (!json_is_array(json_object_get(part, "pair"))) note_invalid(r, "pair", "a list");
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

/* Moves the ends of tokens in the text, not their ids. */
static Status post_byte_level(JsonReader *r, const json_t *part)
{
    need_bool(r, part, "add_prefix_space");
    need_bool(r, part, "trim_offsets");
    return OK;
}

static Status post_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "processors"), "the \"processors\" of a Sequence", post_read);
}
static const JsonField post_processors[] = {
    { "Sequence", post_list }, { "ByteLevel", post_byte_level }, { "TemplateProcessing", post_template },
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
        const NormalizerStep *s = i < m->normalizer.steps
                                      ? &m->normalizer.step[i]
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

const char *json_token_named(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static Status config_read(BpeTokenizer *m, const json_t *json, const char *path)
{
    const char *text = json_token_named(json_object_get(json, "eos_token"));
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
