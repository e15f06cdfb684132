/* tokenizer.json of Hugging Face: models of type BPE. What is not known here is refused by its name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "text/bpe/read_internal.h"
#include "text/unicode.h"

/* odd: a key whose value is no `wanted`; NULL. vocab: {token: id} of the model, from which added tokens
 * may not differ */
typedef struct { BpeTokenizer *bpe; const char *path, *odd, *wanted; const json_t *vocab; } Read;
typedef Status JsonPart(Read *r, const json_t *part);
typedef struct { const char *type; JsonPart *read; } JsonField;

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "(without a type)";
}

/* Told at the end, by odd_check: a value of another kind is no value that is missing. */
static void odd_note(Read *r, const char *key, const char *wanted)
{
    if (!r->odd) r->odd = key, r->wanted = wanted;
}

static bool truth(Read *r, const json_t *part, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(part, key);
    if (value && !json_is_null(value) && !json_is_boolean(value)) odd_note(r, key, "true or false");
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* NULL where it is missing */
static const char *words(Read *r, const json_t *part, const char *key)
{
    const json_t *value = json_object_get(part, key);
    if (value && !json_is_null(value) && !json_is_string(value)) odd_note(r, key, "a text");
    return json_string_value(value);
}

static Status odd_check(const Read *r)
{
    return r->odd ? fail(BAD_FILE, "%s: \"%s\" is not %s; mend the file", r->path, r->odd, r->wanted) : OK;
}

/* The message of a room that knows no file, with the file before it */
static Status named(const Read *r, Status status)
{
    return fail(status, "%s: %s", r->path, fail_text());
}

static Status by_type(Read *r, const json_t *part, const char *what, const JsonField *rows, int count)
{
    if (!part || json_is_null(part)) return OK;
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].type, type_of(part))) return rows[i].read ? rows[i].read(r, part) : OK;
    return fail(BAD_FILE, "%s: the %s %.60s is not known; encode with another program, or give another tokenizer", r->path,
                what, type_of(part));
}
#define BY_TYPE(r, part, what, rows) by_type(r, part, what, rows, sizeof rows / sizeof rows[0])

static Status each(Read *r, const json_t *list, const char *what, JsonPart *read)
{
    size_t  i;
    json_t *part;
    if (!json_is_array(list)) return fail(BAD_FILE, "%s: %s is missing or no list", r->path, what);
    json_array_foreach((json_t *)(uintptr_t)list, i, part) TRY(read(r, part));
    return OK;
}

/* ---- normalizers ---- */

static Status step_add(Read *r, Normalizer *n, NormalizerKind kind, const char *old, const char *new)
{
    size_t old_bytes = old ? strlen(old) : 0, new_bytes = new ? strlen(new) : 0;
    if (n->steps == NORMALIZER_MOST) return fail(BAD_FILE, "%s: more than %d normalizers", r->path, NORMALIZER_MOST);
    if (old_bytes > NORMALIZER_TEXT || new_bytes > NORMALIZER_TEXT || (kind == NORMALIZER_REPLACE && (!old_bytes || !new)))
        return fail(BAD_FILE, "%s: a normalizer replaces or puts what is missing or longer than %d bytes", r->path,
                    NORMALIZER_TEXT);
    NormalizerStep *s = &n->step[n->steps++];
    *s = (NormalizerStep){ .kind = kind, .old_bytes = (int)old_bytes, .new_bytes = (int)new_bytes };
    if (old) memcpy(s->old, old, old_bytes);
    if (new) memcpy(s->new, new, new_bytes);
    int64_t widest, extra;
    normalizer_growth(n, &widest, &extra);
    return widest > 64 ? fail(BAD_FILE, "%s: normalizers that make a text more than 64 times longer", r->path) : OK;
}

static Status normal_add(Read *r, NormalizerKind kind, const char *old, const char *new)
{
    return step_add(r, &r->bpe->normalizer, kind, old, new);
}

static Status form_nfc (Read *r, const json_t *p) { (void)p; return normal_add(r, NORMALIZER_NFC,  NULL, NULL); }
static Status form_nfd (Read *r, const json_t *p) { (void)p; return normal_add(r, NORMALIZER_NFD,  NULL, NULL); }
static Status form_nfkc(Read *r, const json_t *p) { (void)p; return normal_add(r, NORMALIZER_NFKC, NULL, NULL); }
static Status form_nfkd(Read *r, const json_t *p) { (void)p; return normal_add(r, NORMALIZER_NFKD, NULL, NULL); }

static Status normal_prepend(Read *r, const json_t *part)
{
    r->bpe->leads = r->bpe->strips = true;
    return normal_add(r, NORMALIZER_PREPEND, NULL, words(r, part, "prepend"));
}

static Status normal_replace(Read *r, const json_t *part)
{
    const json_t *old = json_object_get(json_object_get(part, "pattern"), "String");
    if (!old) return fail(BAD_FILE, "%s: the normalizer Replace by a regular expression is not known", r->path);
    return normal_add(r, NORMALIZER_REPLACE, json_string_value(old), words(r, part, "content"));
}

static JsonPart normal_read;
static Status normal_list(Read *r, const json_t *p) { return each(r, json_object_get(p, "normalizers"), "the \"normalizers\" of a Sequence", normal_read); }
static const JsonField normals[] = {
    { "Sequence", normal_list }, { "NFC", form_nfc }, { "NFD", form_nfd }, { "NFKC", form_nfkc }, { "NFKD", form_nfkd },
    { "Prepend", normal_prepend }, { "Replace", normal_replace },
};
static Status normal_read(Read *r, const json_t *part) { return BY_TYPE(r, part, "normalizer", normals); }

/* ---- pre-tokenizers ---- */

static Status cut_add(Read *r, PretokenizerStep step)
{
    Pretokenizer *cut = &r->bpe->pretokenizer;
    if (cut->steps == PRETOKENIZER_STEPS_MAX) {
        regex_close(step.regex);
        return fail(BAD_FILE, "%s: more than %d pre-tokenizers", r->path, PRETOKENIZER_STEPS_MAX);
    }
    cut->step[cut->steps++] = step;
    return OK;
}

/* Of a part of the text, not of all */
static Status spaced_add(Read *r, NormalizerKind kind, const char *old, const char *new)
{
    return step_add(r, &r->bpe->spaced, kind, old, new);
}

static Status cut_byte_level(Read *r, const json_t *part)
{
    BpeTokenizer *m = r->bpe;
    m->byte_level = true;
    if (truth(r, part, "add_prefix_space", true)) {
        if (m->pretokenizer.steps) return fail(BAD_FILE, "%s: ByteLevel with add_prefix_space behind another pre-tokenizer is not"
                                      " known", r->path);
        TRY(spaced_add(r, NORMALIZER_PREPEND_UNLESS, NULL, " "));
    }
    return truth(r, part, "use_regex", true) ? cut_add(r, (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = PRETOKEN_GPT2 }) : OK;
}

static const char *const behaviors[] = { "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous" };

static Status behavior_read(Read *r, const json_t *part, SplitBehavior *behavior)
{
    const char *word = json_string_value(json_object_get(part, "behavior"));
    for (int i = 0; i < 5; i++)
        if (word && !strcmp(word, behaviors[i])) {
            *behavior = (SplitBehavior)i;
            return OK;
        }
    return fail(BAD_FILE, "%s: Split: behavior %.40s is not known", r->path, word ? word : "(missing)");
}

/* A plain text as a pattern */
static void quoted(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 3 < size; text++) {
        if ((unsigned char)*text < 128 && strchr("\\^$.|?*+()[]{}#- ", *text)) out[used++] = '\\';
        out[used++] = *text;
    }
    out[used] = 0;
}

/* What a scanner cuts are the matches and what lies between. The patterns up to DeepSeek's match all of a
 * text but for what the one of these is made for, so for them it is one whether matches are isolated, or
 * taken instead of what lies between them. */
static Status cut_split(Read *r, const json_t *part)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *text  = json_string_value(json_object_get(pattern, "String"));
    char        plain[512], version[24];
    PretokenizerStep     step = { .kind = SPLIT_REGEX, .invert = truth(r, part, "invert", false) };
    TRY(behavior_read(r, part, &step.behavior));
    if ((!regex || !*regex) && (!text || !*text || strlen(text) > 200))
        return fail(BAD_FILE, "%s: Split without a pattern, or with a text above 200 bytes", r->path);
    if (!regex) quoted(plain, sizeof plain, text);
    PretokenKind kind = regex ? pretoken_known(regex) : PRETOKEN_KINDS;
    bool kept = step.behavior == SPLIT_REMOVED && step.invert;
    if (kind != PRETOKEN_KINDS && (step.behavior == SPLIT_ISOLATED || (kept && kind < PRETOKEN_DEEPSEEK)))
        return cut_add(r, (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = kind });
    if (kind == PRETOKEN_CLIP && kept) return cut_add(r, (PretokenizerStep){ .kind = SPLIT_SCAN_NO_SPACE, .scan = kind });
    Status status = regex_open(&step.regex, regex ? regex : plain);
    if (status != OK) return named(r, status);
    const char *unicode = regex_unicode(regex ? regex : "", version);
    if (unicode)
        log_line("%s: the pattern %.40s... is not built in; PCRE2 matches it by Unicode %s, so characters that came later may be cut"
                 " otherwise than by Hugging Face's library", r->path, regex, unicode);
    return cut_add(r, step);
}

static Status cut_digits(Read *r, const json_t *part)
{
    return cut_add(r, (PretokenizerStep){ .kind = truth(r, part, "individual_digits", false) ? SPLIT_DIGIT : SPLIT_DIGITS });
}

static Status cut_metaspace(Read *r, const json_t *part)
{
    const char *mark   = words(r, part, "replacement");
    const char *scheme = words(r, part, "prepend_scheme");
    if (!scheme) scheme = truth(r, part, "add_prefix_space", true) ? "always" : "never";
    if (!mark || strcmp(mark, "\xE2\x96\x81"))
        return fail(BAD_FILE, "%s: Metaspace with another replacement than U+2581 is not known", r->path);
    if (r->bpe->pretokenizer.steps) return fail(BAD_FILE, "%s: Metaspace behind another pre-tokenizer is not known", r->path);
    TRY(spaced_add(r, NORMALIZER_REPLACE, " ", mark));
    r->bpe->leads = strcmp(scheme, "never");
    if (!strcmp(scheme, "first"))       TRY(spaced_add(r, NORMALIZER_PREPEND_FIRST, NULL, mark));
    else if (!strcmp(scheme, "always")) TRY(spaced_add(r, NORMALIZER_PREPEND_UNLESS, NULL, mark));
    else if (r->bpe->leads) return fail(BAD_FILE, "%s: Metaspace: prepend_scheme %.40s is not known", r->path, scheme);
    return truth(r, part, "split", true) ? cut_add(r, (PretokenizerStep){ .kind = SPLIT_MARK }) : OK;
}

static JsonPart cut_read;
static Status cut_list(Read *r, const json_t *p) { return each(r, json_object_get(p, "pretokenizers"), "the \"pretokenizers\" of a Sequence", cut_read); }
static const JsonField cuts[] = {
    { "Sequence", cut_list }, { "ByteLevel", cut_byte_level }, { "Split", cut_split }, { "Digits", cut_digits },
    { "Metaspace", cut_metaspace },
};
static Status cut_read(Read *r, const json_t *part) { return BY_TYPE(r, part, "pre-tokenizer", cuts); }

/* ---- decoders: how tokens are said follows from the model, but for Strip ---- */

static Status decoder_strip(Read *r, const json_t *part)
{
    (void)part;
    r->bpe->strips = true;
    return OK;
}

static JsonPart decoder_read;
static Status decoder_list(Read *r, const json_t *p) { return each(r, json_object_get(p, "decoders"), "the \"decoders\" of a Sequence", decoder_read); }
static const JsonField decoders[] = {
    { "Sequence", decoder_list }, { "ByteLevel", NULL }, { "Metaspace", NULL }, { "ByteFallback", NULL },
    { "Fuse", NULL }, { "Strip", decoder_strip }, { "Replace", NULL },
};
static Status decoder_read(Read *r, const json_t *part) { return BY_TYPE(r, part, "decoder", decoders); }

/* ---- the model ---- */

static Status merge_read(Read *r, const json_t *merge, uint32_t rank)
{
    const char *text = json_string_value(merge), *blank = text ? strchr(text, ' ') : NULL;
    const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    if (json_is_string(a) && json_is_string(b))
        return bpe_add_written_merge(r->bpe, json_string_value(a), (int64_t)json_string_length(a),
                                       json_string_value(b), (int64_t)json_string_length(b), rank);
    if (!blank) return fail(BAD_FILE, "merge %" PRIu32 " is not two tokens", rank);
    return bpe_add_written_merge(r->bpe, text, blank - text, blank + 1, (int64_t)strlen(blank + 1), rank);
}

static Status merges_read(Read *r, const json_t *merges)
{
    size_t  i;
    json_t *merge;
    if (!json_is_array(merges)) return fail(BAD_FILE, "%s: the model has no merges; only BPE is known", r->path);
    json_array_foreach((json_t *)(uintptr_t)merges, i, merge) {
        if (merge_read(r, merge, (uint32_t)i) != OK) return named(r, BAD_FILE);
    }
    return OK;
}

static Status unknown_read(Read *r, const json_t *bpe)
{
    const char *token = words(r, bpe, "unk_token");
    if (!token) return OK;
    r->bpe->unknown = vocab_find(&r->bpe->vocab, token, (int64_t)strlen(token));
    return r->bpe->unknown >= 0 ? OK : fail(BAD_FILE, "%s: unk_token %.80s is no token", r->path, token);
}

static Status model_part(Read *r, const json_t *bpe)
{
    static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    const json_t *type = json_object_get(bpe, "type"), *dropout = json_object_get(bpe, "dropout");
    if (type && strcmp(type_of(bpe), "BPE"))
        return fail(BAD_FILE, "%s: a model of type %.40s; only BPE is known%s", r->path, type_of(bpe),
                    !strcmp(type_of(bpe), "Unigram") ? "; give the sentencepiece .model that it was made of" : "");
    if (dropout && !json_is_null(dropout) && !json_is_number(dropout)) odd_note(r, "dropout", "a number");
    if (dropout && json_number_value(dropout) != 0)
        return fail(BAD_FILE, "%s: dropout %g; merges that are dropped at random are not known", r->path,
                    json_number_value(dropout));
    for (int i = 0; i < 2; i++) {
        const char *text = words(r, bpe, empty[i]);
        if (text && *text) return fail(BAD_FILE, "%s: %s %.40s is not known", r->path, empty[i], text);
    }
    r->bpe->byte_fallback = truth(r, bpe, "byte_fallback", false);
    r->bpe->fuse_unknown  = truth(r, bpe, "fuse_unk", false);
    r->bpe->whole         = truth(r, bpe, "ignore_merges", false);
    r->vocab = json_object_get(bpe, "vocab");
    TRY(bpe_add_vocab(r->bpe, r->vocab, r->path));
    TRY(merges_read(r, json_object_get(bpe, "merges")));
    return unknown_read(r, bpe);
}

/* ---- added tokens ---- */

/* token: {"lstrip", ...}; NULL: nothing is said of it */
static Status added_put(Read *r, const json_t *token, const json_t *content, int64_t id, bool special)
{
    BpeTokenizer      *m = r->bpe;
    const char *text = json_string_value(content);
    int64_t     bytes = (int64_t)json_string_length(content);
    if (bytes == 0 || id < 0 || id >= VOCAB_MOST) return fail(BAD_FILE, "%s: an added token without content or id", r->path);
    const json_t *own = json_object_get(r->vocab, text);
    if (own && json_id(own) != id)
        return fail(BAD_FILE, "%s: the added token %.80s has id %" PRId64 ", and the model's vocabulary gives it %" PRId64
                    "; make them one", r->path, text, id, json_id(own));
    if (!own && vocab_has(&m->vocab, id) && vocab_find(&m->vocab, text, bytes) != id)
        return fail(BAD_FILE, "%s: the added token %.80s has id %" PRId64 ", which is another token's; give it one of its own",
                    r->path, text, id);
    return bpe_add_token(m, (AddedToken){
        .text = (uint8_t *)(uintptr_t)text, .bytes = bytes, .id = (int32_t)id,
        .strip_left = truth(r, token, "lstrip", false), .strip_right = truth(r, token, "rstrip", false), .special = special,
        .single = truth(r, token, "single_word", false), .normalized = truth(r, token, "normalized", !special) });
}

static Status added_read(Read *r, const json_t *token)
{
    return added_put(r, token, json_object_get(token, "content"), json_id(json_object_get(token, "id")),
                     truth(r, token, "special", false));
}

/* ---- post-processors: ids put before and behind each text ---- */

static Status id_put(Read *r, TemplateIds *ids, const json_t *number)
{
    if (!vocab_has(&r->bpe->vocab, json_id(number)) || ids->count == TEMPLATE_MOST)
        return fail(BAD_FILE, "%s: the post_processor puts an id that is no token's, or more than %d", r->path, TEMPLATE_MOST);
    ids->id[ids->count++] = (int32_t)json_id(number);
    return OK;
}

static Status post_template(Read *r, const json_t *part)
{
    const json_t *single = json_object_get(part, "single"), *tokens = json_object_get(part, "special_tokens");
    TemplateIds  *ids = &r->bpe->before;
    size_t        i, k;
    json_t       *piece, *id;
    json_array_foreach((json_t *)(uintptr_t)single, i, piece) {
        const char   *token = json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
        const json_t *list  = token ? json_object_get(json_object_get(tokens, token), "ids") : NULL;
        if (token ? !list : ids == &r->bpe->after)
            return fail(BAD_FILE, "%s: the template of the post_processor puts a token that it does not name, or the text twice",
                        r->path);
        json_array_foreach((json_t *)(uintptr_t)list, k, id) TRY(id_put(r, ids, id));
        if (!token) ids = &r->bpe->after;
    }
    return ids == &r->bpe->after ? OK : fail(BAD_FILE, "%s: the template of the post_processor has no text in it", r->path);
}

/* RoBERTa's and BERT's: a token and its id each */
static Status post_pair(Read *r, const json_t *part)
{
    TRY(id_put(r, &r->bpe->before, json_array_get(json_object_get(part, "cls"), 1)));
    return id_put(r, &r->bpe->after, json_array_get(json_object_get(part, "sep"), 1));
}

static JsonPart post_read;
static Status post_list(Read *r, const json_t *p) { return each(r, json_object_get(p, "processors"), "the \"processors\" of a Sequence", post_read); }
static const JsonField posts[] = {
    { "Sequence", post_list }, { "ByteLevel", NULL }, { "TemplateProcessing", post_template },
    { "RobertaProcessing", post_pair }, { "BertProcessing", post_pair },
};
static Status post_read(Read *r, const json_t *part)
{
    if (r->bpe->before.count + r->bpe->after.count)
        return fail(BAD_FILE, "%s: a post-processor behind one that puts tokens around a text is not known", r->path);
    return BY_TYPE(r, part, "post-processor", posts);
}

static Status parts_read(Read *r, const json_t *json)
{
    TRY(normal_read(r, json_object_get(json, "normalizer")));
    TRY(cut_read(r, json_object_get(json, "pre_tokenizer")));
    TRY(decoder_read(r, json_object_get(json, "decoder")));
    if (!json_is_object(json_object_get(json, "model")))
        return fail(BAD_FILE, "%s: it has no model, so it is no tokenizer.json; of GPT-2's two files give the folder", r->path);
    TRY(model_part(r, json_object_get(json, "model")));
    const json_t *added = json_object_get(json, "added_tokens");
    if (added && !json_is_null(added)) TRY(each(r, added, "\"added_tokens\"", added_read));
    return post_read(r, json_object_get(json, "post_processor"));
}

Status bpe_read_json(BpeTokenizer *m, const char *path)
{
    json_t *json;
    Read    r = { .bpe = m, .path = path };
    TRY(json_read(&json, m, path));
    Status status = json_is_object(json) ? parts_read(&r, json) : fail(BAD_FILE, "%s: it is no JSON object", path);
    if (status == OK) status = odd_check(&r);
    json_decref(json);
    return status;
}

/* Files name a token by its text, or by an object with its content. */
static const char *token_named(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static Status config_read(BpeTokenizer *m, const json_t *json, const char *path)
{
    const char *text = token_named(json_object_get(json, "eos_token"));
    if (!text) return OK;
    m->eod = vocab_find(&m->vocab, text, (int64_t)strlen(text));
    return m->eod >= 0 ? OK : fail(BAD_FILE, "%s: eos_token %.80s is no token of the tokenizer.json beside it", path, text);
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

/* {"eos_token": token, "additional_special_tokens": [token, ...], ...}, or NULL */
static bool names_special(const json_t *map, const char *text)
{
    const char   *key, *name;
    const json_t *value;
    size_t        i;
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        for (i = 0; i < (json_is_array(value) ? json_array_size(value) : 1); i++)
            if ((name = token_named(json_is_array(value) ? json_array_get(value, i) : value)) && !strcmp(name, text))
                return true;
    }
    return false;
}

/* What a token may do is said by the config; else a special one is looked for before normalizers, as
 * transformers has it. */
static Status added_list(Read *r, const json_t *added, const json_t *config, const json_t *map)
{
    const char   *text;
    const json_t *number;
    char          id[24];
    if (!json_is_object(added)) return fail(BAD_FILE, "%s: it is no JSON object {token: id}", r->path);
    json_object_foreach((json_t *)(uintptr_t)added, text, number) {
        snprintf(id, sizeof id, "%" PRId64, json_id(number));
        const json_t *token = json_object_get(json_object_get(config, "added_tokens_decoder"), id);
        json_t       *content = json_string(text);
        Status        status = added_put(r, token, content, json_id(number), truth(r, token, "special", names_special(map, text)));
        json_decref(content);
        TRY(status);
    }
    return odd_check(r);
}

Status model_read_added(BpeTokenizer *m, const char *path, const char *vocab_path, const char *config_path, const char *map_path)
{
    const char *const paths[] = { path, vocab_path, config_path, map_path };
    json_t *json[4] = { NULL };
    Status  status = OK;
    for (int i = 0; i < 4 && status == OK; i++)
        if (*paths[i]) status = json_read(&json[i], m, paths[i]);
    Read r = { .bpe = m, .path = path, .vocab = json[1] };
    if (status == OK) status = added_list(&r, json[0], json[2], json[3]);
    for (int i = 0; i < 4; i++) json_decref(json[i]);
    return status;
}
