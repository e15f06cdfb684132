/* Reads a tokenizer.json of Hugging Face's tokenizers library with a model of type BPE. Each part of the file
 * has a "type"; a table maps the types to functions, and a type or value that is not implemented is refused
 * by its name, since ignoring it would give other ids. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "text/bpe/read_internal.h"
#include "text/unicode.h"

typedef struct {
    BpeTokenizer *bpe;                   /* being filled */
    const char   *path;                  /* for messages */
    const char   *invalid_key;           /* the first key with a value of the wrong type; NULL: none */
    const char   *expected;              /* the right type */
    const json_t *vocab;                 /* {token: id} of the model, with which added tokens must agree */
} JsonReader;
typedef Status JsonPart(JsonReader *r, const json_t *part);
typedef struct { const char *type; JsonPart *read; } JsonField;

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "(without a type)";
}

/* Notes a value of the wrong type, which is not the same as a missing one; check_invalid reports it at the
 * end. */
static void note_invalid(JsonReader *r, const char *key, const char *expected)
{
    if (!r->invalid_key) r->invalid_key = key, r->expected = expected;
}

/* `otherwise` where the key is missing */
static bool read_bool(JsonReader *r, const json_t *part, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(part, key);
    if (value && !json_is_null(value) && !json_is_boolean(value)) note_invalid(r, key, "true or false");
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* NULL where the key is missing */
static const char *read_string(JsonReader *r, const json_t *part, const char *key)
{
    const json_t *value = json_object_get(part, key);
    if (value && !json_is_null(value) && !json_is_string(value)) note_invalid(r, key, "a text");
    return json_string_value(value);
}

static Status check_invalid(const JsonReader *r)
{
    return r->invalid_key ? fail(BAD_FILE, "%s: \"%s\" is not %s; correct the file", r->path, r->invalid_key,
                                 r->expected) : OK;
}

/* Puts the path before a message of code that does not know the file. */
static Status fail_with_path(const JsonReader *r, Status status)
{
    return fail(status, "%s: %s", r->path, fail_text());
}

static Status dispatch_by_type(JsonReader *r, const json_t *part, const char *what, const JsonField *rows,
                               int count)
{
    if (!part || json_is_null(part)) return OK;
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].type, type_of(part))) return rows[i].read ? rows[i].read(r, part) : OK;
    return fail(BAD_FILE,
                "%s: the %s %.60s is not known; encode with another program, or give another tokenizer",
                r->path, what, type_of(part));
}
#define DISPATCH(r, part, what, rows) dispatch_by_type(r, part, what, rows, COUNT(rows))

static Status for_each(JsonReader *r, const json_t *list, const char *what, JsonPart *read)
{
    size_t  i;
    json_t *part;
    if (!json_is_array(list)) return fail(BAD_FILE, "%s: %s is missing or no list", r->path, what);
    json_array_foreach((json_t *)(uintptr_t)list, i, part) TRY(read(r, part));
    return OK;
}

/* ---- normalizers ---- */

static Status step_add(JsonReader *r, Normalizer *n, NormalizerKind kind, const char *old, const char *new)
{
    size_t old_bytes = old ? strlen(old) : 0, new_bytes = new ? strlen(new) : 0;
    if (n->steps == NORMALIZER_STEPS_MAX)
        return fail(BAD_FILE, "%s: more than %d normalizers", r->path, NORMALIZER_STEPS_MAX);
    if (old_bytes > NORMALIZER_TEXT_MAX || new_bytes > NORMALIZER_TEXT_MAX ||
        (kind == NORMALIZER_REPLACE && (!old_bytes || !new)))
        return fail(BAD_FILE, "%s: a normalizer replaces or puts what is missing or longer than %d bytes",
                    r->path,
                    NORMALIZER_TEXT_MAX);
    NormalizerStep *s = &n->step[n->steps++];
    *s = (NormalizerStep){ .kind = kind, .old_bytes = (int)old_bytes, .new_bytes = (int)new_bytes };
    if (old) memcpy(s->old, old, old_bytes);
    if (new) memcpy(s->new, new, new_bytes);
    int64_t ratio, extra;
    normalizer_growth(n, &ratio, &extra);
    return ratio > 64 ? fail(BAD_FILE, "%s: normalizers that make a text more than 64 times longer", r->path)
        : OK;
}

static Status normalizer_add(JsonReader *r, NormalizerKind kind, const char *old, const char *new)
{
    return step_add(r, &r->bpe->normalizer, kind, old, new);
}

static Status normalizer_form(JsonReader *r, const json_t *part)
{
    /* In the order of NormalizerKind */
    static const char *const forms[] = { "NFC", "NFD", "NFKC", "NFKD" };
    int kind = 0;
    while (strcmp(forms[kind], type_of(part))) kind++;
    return normalizer_add(r, (NormalizerKind)kind, NULL, NULL);
}

static Status normalizer_prepend(JsonReader *r, const json_t *part)
{
    r->bpe->prepends_mark = r->bpe->strip_first_space = true;
    return normalizer_add(r, NORMALIZER_PREPEND, NULL, read_string(r, part, "prepend"));
}

static Status normalizer_replace(JsonReader *r, const json_t *part)
{
    const json_t *old = json_object_get(json_object_get(part, "pattern"), "String");
    if (!old)
        return fail(BAD_FILE, "%s: the normalizer Replace by a regular expression is not known", r->path);
    return normalizer_add(r, NORMALIZER_REPLACE, json_string_value(old), read_string(r, part, "content"));
}

static JsonPart normalizer_read;
static Status normalizer_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "normalizers"), "the \"normalizers\" of a Sequence",
                    normalizer_read);
}
static const JsonField normalizers[] = {
    { "Sequence", normalizer_list }, { "NFC", normalizer_form }, { "NFD", normalizer_form },
    { "NFKC", normalizer_form }, { "NFKD", normalizer_form },
    { "Prepend", normalizer_prepend }, { "Replace", normalizer_replace },
};
static Status normalizer_read(JsonReader *r, const json_t *part)
{
    return DISPATCH(r, part, "normalizer", normalizers);
}

/* ---- pre-tokenizers ---- */

static Status pretokenizer_add(JsonReader *r, PretokenizerStep step)
{
    Pretokenizer *cut = &r->bpe->pretokenizer;
    if (cut->steps == PRETOKENIZER_STEPS_MAX) {
        regex_close(step.regex);
        return fail(BAD_FILE, "%s: more than %d pre-tokenizers", r->path, PRETOKENIZER_STEPS_MAX);
    }
    cut->step[cut->steps++] = step;
    return OK;
}

/* For each segment of a text, not for the whole text */
static Status segment_normalizer_add(JsonReader *r, NormalizerKind kind, const char *old, const char *new)
{
    return step_add(r, &r->bpe->segment_normalizer, kind, old, new);
}

static Status pretokenizer_byte_level(JsonReader *r, const json_t *part)
{
    BpeTokenizer *m = r->bpe;
    m->byte_level = true;
    if (read_bool(r, part, "add_prefix_space", true)) {
        if (m->pretokenizer.steps)
            return fail(BAD_FILE,
                        "%s: ByteLevel with add_prefix_space after another pre-tokenizer is not known",
                        r->path);
        TRY(segment_normalizer_add(r, NORMALIZER_PREPEND_UNLESS, NULL, " "));
    }
    return read_bool(r, part, "use_regex", true)
         ? pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = PRETOKEN_GPT2 }) : OK;
}

/* In the order of SplitBehavior */
static const char *const behaviors[] = {
    "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"
};

static Status behavior_read(JsonReader *r, const json_t *part, SplitBehavior *behavior)
{
    const char *word = json_string_value(json_object_get(part, "behavior"));
    for (int i = 0; i < 5; i++)
        if (word && !strcmp(word, behaviors[i])) {
            *behavior = (SplitBehavior)i;
            return OK;
        }
    return fail(BAD_FILE, "%s: Split: behavior %.40s is not known", r->path, word ? word : "(missing)");
}

/* Writes a plain text as a regular expression that matches it. */
static void regex_quote(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 3 < size; text++) {
        if ((unsigned char)*text < 128 && strchr("\\^$.|?*+()[]{}#- ", *text)) out[used++] = '\\';
        out[used++] = *text;
    }
    out[used] = 0;
}

/* A scanner's pieces are the matches and the text between them. The expressions before DeepSeek's in
 * PretokenKind match every text completely, so for them "isolated" is the same as "removed" with invert,
 * which keeps the matches only. */
static Status pretokenizer_split(JsonReader *r, const json_t *part)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text  = json_string_value(json_object_get(pattern, "String"));
    char        plain[512], version[24];
    PretokenizerStep     step = { .kind = SPLIT_REGEX, .invert = read_bool(r, part, "invert", false) };
    TRY(behavior_read(r, part, &step.behavior));
    if ((!regex || !*regex) && (!text || !*text || strlen(text) > 200))
        return fail(BAD_FILE, "%s: Split without a pattern, or with a text above 200 bytes", r->path);
    if (!regex) regex_quote(plain, sizeof plain, text);
    PretokenKind kind = regex ? pretoken_of_pattern(regex) : PRETOKEN_KINDS;
    bool kept = step.behavior == SPLIT_REMOVED && step.invert;
    if (kind != PRETOKEN_KINDS && (step.behavior == SPLIT_ISOLATED || (kept && kind < PRETOKEN_DEEPSEEK)))
        return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = kind });
    if (kind == PRETOKEN_CLIP && kept)
        return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_SCAN_NO_SPACE, .scan = kind });
    Status status = regex_open(&step.regex, regex ? regex : plain);
    if (status != OK) return fail_with_path(r, status);
    const char *unicode = regex_unicode(regex ? regex : "", version);
    if (unicode)
        log_line("%s: the pattern %.40s... is not built in; PCRE2 matches it by Unicode %s, so characters"
                 " newer than that may be split differently than by Hugging Face's library",
                 r->path, regex, unicode);
    return pretokenizer_add(r, step);
}

static Status pretokenizer_digits(JsonReader *r, const json_t *part)
{
    return pretokenizer_add(r, (PretokenizerStep){
        .kind = read_bool(r, part, "individual_digits", false) ? SPLIT_DIGIT : SPLIT_DIGITS });
}

static Status pretokenizer_metaspace(JsonReader *r, const json_t *part)
{
    const char *mark   = read_string(r, part, "replacement");
    const char *scheme = read_string(r, part, "prepend_scheme");
    if (!scheme) scheme = read_bool(r, part, "add_prefix_space", true) ? "always" : "never";
    if (!mark || strcmp(mark, "\xE2\x96\x81"))
        return fail(BAD_FILE, "%s: Metaspace with another replacement than U+2581 is not known", r->path);
    if (r->bpe->pretokenizer.steps)
        return fail(BAD_FILE, "%s: Metaspace after another pre-tokenizer is not known", r->path);
    TRY(segment_normalizer_add(r, NORMALIZER_REPLACE, " ", mark));
    r->bpe->prepends_mark = strcmp(scheme, "never");
    if (!strcmp(scheme, "first"))       TRY(segment_normalizer_add(r, NORMALIZER_PREPEND_FIRST, NULL, mark));
    else if (!strcmp(scheme, "always")) TRY(segment_normalizer_add(r, NORMALIZER_PREPEND_UNLESS, NULL, mark));
    else if (r->bpe->prepends_mark)
        return fail(BAD_FILE, "%s: Metaspace: prepend_scheme %.40s is not known", r->path, scheme);
    return read_bool(r, part, "split", true)
         ? pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_MARK }) : OK;
}

static JsonPart pretokenizer_read;
static Status pretokenizer_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "pretokenizers"), "the \"pretokenizers\" of a Sequence",
                    pretokenizer_read);
}
static const JsonField pretokenizers[] = {
    { "Sequence", pretokenizer_list }, { "ByteLevel", pretokenizer_byte_level }, { "Split", pretokenizer_split }, { "Digits", pretokenizer_digits },
    { "Metaspace", pretokenizer_metaspace },
};
static Status pretokenizer_read(JsonReader *r, const json_t *part)
{
    return DISPATCH(r, part, "pre-tokenizer", pretokenizers);
}

/* ---- decoders: how tokens are decoded follows from the model, except for Strip ---- */

static Status decoder_strip(JsonReader *r, const json_t *part)
{
    (void)part;
    r->bpe->strip_first_space = true;
    return OK;
}

static JsonPart decoder_read;
static Status decoder_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "decoders"), "the \"decoders\" of a Sequence", decoder_read);
}
static const JsonField decoders[] = {
    { "Sequence", decoder_list }, { "ByteLevel", NULL }, { "Metaspace", NULL }, { "ByteFallback", NULL },
    { "Fuse", NULL }, { "Strip", decoder_strip }, { "Replace", NULL },
};
static Status decoder_read(JsonReader *r, const json_t *part)
{
    return DISPATCH(r, part, "decoder", decoders);
}

/* ---- the model ---- */

static Status merge_read(JsonReader *r, const json_t *merge, uint32_t rank)
{
    const char *text = json_string_value(merge), *blank = text ? strchr(text, ' ') : NULL;
    const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    if (json_is_string(a) && json_is_string(b))
        return bpe_add_encoded_merge(r->bpe, json_string_value(a), (int64_t)json_string_length(a),
                                       json_string_value(b), (int64_t)json_string_length(b), rank);
    if (!blank) return fail(BAD_FILE, "merge %" PRIu32 " is not two tokens", rank);
    return bpe_add_encoded_merge(r->bpe, text, blank - text, blank + 1, (int64_t)strlen(blank + 1), rank);
}

static Status merges_read(JsonReader *r, const json_t *merges)
{
    size_t  i;
    json_t *merge;
    if (!json_is_array(merges))
        return fail(BAD_FILE, "%s: the model has no merges; only BPE is known", r->path);
    json_array_foreach((json_t *)(uintptr_t)merges, i, merge) {
        if (merge_read(r, merge, (uint32_t)i) != OK) return fail_with_path(r, BAD_FILE);
    }
    return OK;
}

static Status unknown_read(JsonReader *r, const json_t *bpe)
{
    const char *token = read_string(r, bpe, "unk_token");
    if (!token) return OK;
    r->bpe->unknown = vocab_find(&r->bpe->vocab, token, (int64_t)strlen(token));
    return r->bpe->unknown >= 0 ? OK : fail(BAD_FILE, "%s: unk_token %.80s is no token", r->path, token);
}

static Status model_read(JsonReader *r, const json_t *bpe)
{
    static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    const json_t *type = json_object_get(bpe, "type"), *dropout = json_object_get(bpe, "dropout");
    if (type && strcmp(type_of(bpe), "BPE"))
        return fail(BAD_FILE, "%s: a model of type %.40s; only BPE is known%s", r->path, type_of(bpe),
                    !strcmp(type_of(bpe), "Unigram") ? "; give the sentencepiece .model that it was made of"
                        : "");
    if (dropout && !json_is_null(dropout) && !json_is_number(dropout)) note_invalid(r, "dropout", "a number");
    if (dropout && json_number_value(dropout) != 0)
        return fail(BAD_FILE, "%s: dropout %g; merges that are dropped at random are not known", r->path,
                    json_number_value(dropout));
    for (int i = 0; i < 2; i++) {
        const char *text = read_string(r, bpe, empty[i]);
        if (text && *text) return fail(BAD_FILE, "%s: %s %.40s is not known", r->path, empty[i], text);
    }
    r->bpe->byte_fallback = read_bool(r, bpe, "byte_fallback", false);
    r->bpe->fuse_unknown  = read_bool(r, bpe, "fuse_unk", false);
    r->bpe->ignore_merges         = read_bool(r, bpe, "ignore_merges", false);
    r->vocab = json_object_get(bpe, "vocab");
    TRY(bpe_add_vocab(r->bpe, r->vocab, r->path));
    TRY(merges_read(r, json_object_get(bpe, "merges")));
    return unknown_read(r, bpe);
}

/* ---- added tokens ---- */

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
    return bpe_add_token(m, (AddedToken){
        .text = (uint8_t *)(uintptr_t)text, .bytes = bytes, .id = (int32_t)id,
        .strip_left = read_bool(r, token, "lstrip", false),
        .strip_right = read_bool(r, token, "rstrip", false),
        .special = special, .single = read_bool(r, token, "single_word", false),
        .normalized = read_bool(r, token, "normalized", !special) });
}

static Status added_read(JsonReader *r, const json_t *token)
{
    return added_token_add(r, token, json_object_get(token, "content"), json_id(json_object_get(token, "id")),
                     read_bool(r, token, "special", false));
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

static JsonPart post_read;
static Status post_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "processors"), "the \"processors\" of a Sequence", post_read);
}
static const JsonField post_processors[] = {
    { "Sequence", post_list }, { "ByteLevel", NULL }, { "TemplateProcessing", post_template },
    { "RobertaProcessing", post_pair }, { "BertProcessing", post_pair },
};
static Status post_read(JsonReader *r, const json_t *part)
{
    if (r->bpe->before.count + r->bpe->after.count)
        return fail(BAD_FILE, "%s: a post-processor after one that adds tokens to a text is not known",
                    r->path);
    return DISPATCH(r, part, "post-processor", post_processors);
}

static Status parts_read(JsonReader *r, const json_t *json)
{
    TRY(normalizer_read(r, json_object_get(json, "normalizer")));
    TRY(pretokenizer_read(r, json_object_get(json, "pre_tokenizer")));
    TRY(decoder_read(r, json_object_get(json, "decoder")));
    if (!json_is_object(json_object_get(json, "model")))
        return fail(BAD_FILE, "%s: it has no model, so it is no tokenizer.json; of GPT-2's two files give the"
                    " directory", r->path);
    TRY(model_read(r, json_object_get(json, "model")));
    const json_t *added = json_object_get(json, "added_tokens");
    if (added && !json_is_null(added)) TRY(for_each(r, added, "\"added_tokens\"", added_read));
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
    JsonReader    r = { .bpe = m, .path = path };
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
