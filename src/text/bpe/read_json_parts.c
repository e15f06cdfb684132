/* Reads the normalizer and the pre-tokenizer of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "text/bpe/read_json_internal.h"
#include "text/unicode.h"

static const char MARK[] = "\xE2\x96\x81";                                     /* U+2581 */
enum { CONTENT_MOST = 1024, NEEDLE_MOST = 4096 };

static int64_t length_of(const char *text) { return text ? (int64_t)strlen(text) : 0; }

static Status step_make(JsonReader *r, NormalizerStep *step, NormalizerKind kind, const char *old,
                        const char *new)
{
    if (length_of(old) > NEEDLE_MOST || length_of(new) > CONTENT_MOST)
        return fail(BAD_FILE, "%s: a %s of more than %d bytes in a normalizer or pre-tokenizer", r->path,
                    length_of(new) > CONTENT_MOST ? "text to put" : "text to look for",
                    length_of(new) > CONTENT_MOST ? CONTENT_MOST : NEEDLE_MOST);
    return normalizer_step_make(step, kind, old, length_of(old), new, length_of(new));
}

static Status normalizer_put(JsonReader *r, Normalizer *n, NormalizerStep step)
{
    if (n->steps == NORMALIZER_STEPS_MAX) {
        normalizer_step_close(&step);
        return fail(BAD_FILE, "%s: more than %d normalizers", r->path, NORMALIZER_STEPS_MAX);
    }
    n->step[n->steps++] = step;
    return OK;
}

static Status step_add(JsonReader *r, Normalizer *n, NormalizerKind kind, const char *old, const char *new)
{
    NormalizerStep step;
    TRY(step_make(r, &step, kind, old, new));
    return normalizer_put(r, n, step);
}

/* ---- normalizers ---- */

static Status normalizer_add(JsonReader *r, NormalizerKind kind, const char *new)
{
    return step_add(r, &r->bpe->normalizer, kind, NULL, new);
}

static Status form_add(JsonReader *r, NormalizerKind kind)
{
    NormalizerStep step;
    TRY(step_make(r, &step, kind, NULL, NULL));
    step.library = true;
    return normalizer_put(r, &r->bpe->normalizer, step);
}

static Status normalizer_form(JsonReader *r, const json_t *part)
{
    /* In the order of NormalizerKind */
    static const char *const forms[] = { "NFC", "NFD", "NFKC", "NFKD" };
    int kind = 0;
    while (strcmp(forms[kind], json_type_of(part))) kind++;
    return form_add(r, (NormalizerKind)kind);
}

static Status normalizer_prepend(JsonReader *r, const json_t *part)
{
    const char *text = need_string(r, part, "prepend");
    if (!*text && !r->invalid_key) note_invalid(r, "prepend", "a text that is not empty");
    if (!strcmp(text, MARK)) r->bpe->prepends_mark = r->bpe->strip_first_space = true;
    return normalizer_add(r, NORMALIZER_PREPEND, text);
}

/* A fixed text that grows little has a step of its own, which is faster. */
static Status normalizer_replace(JsonReader *r, const json_t *part)
{
    Pattern     pattern;
    const char *new = need_string(r, part, "content");
    TRY(read_pattern(r, part, &pattern));
    int64_t bytes = length_of(new);
    bool    empty = pattern.regex ? regex_matches_empty(pattern.regex) : !pattern.bytes;
    if (empty && bytes) {
        pattern_close(&pattern);
        return fail(BAD_FILE, "%s: the normalizer Replace puts \"%.40s\" where nothing is, and Hugging Face's"
                    " library then loses its place in the text; change the pattern so that each match has a"
                    " character (+ instead of *)", r->path, new);
    }
    bool    fixed = !pattern.regex && pattern.bytes && bytes <= 4 * pattern.bytes &&
                    (int64_t)strlen(pattern.text) == pattern.bytes;
    NormalizerStep step = { 0 };
    Status status = step_make(r, &step, fixed ? NORMALIZER_REPLACE : NORMALIZER_REPLACE_MATCHES,
                              fixed ? pattern.text : NULL, new);
    if (fixed || status != OK) pattern_close(&pattern);
    TRY(status);
    step.pattern = pattern;
    return normalizer_put(r, &r->bpe->normalizer, step);
}

static Status normalizer_strip(JsonReader *r, const json_t *part)
{
    NormalizerStep step;
    TRY(step_make(r, &step, NORMALIZER_STRIP, NULL, NULL));
    step.left  = need_bool(r, part, "strip_left");
    step.right = need_bool(r, part, "strip_right");
    return normalizer_put(r, &r->bpe->normalizer, step);
}

static Status normalizer_lowercase(JsonReader *r, const json_t *part)
{
    (void)part;
    return normalizer_add(r, NORMALIZER_LOWERCASE, NULL);
}

static Status normalizer_strip_accents(JsonReader *r, const json_t *part)
{
    (void)part;
    return normalizer_add(r, NORMALIZER_STRIP_MARKS, NULL);
}

static Status normalizer_nmt(JsonReader *r, const json_t *part)
{
    (void)part;
    return normalizer_add(r, NORMALIZER_NMT, NULL);
}

static Status normalizer_letters(JsonReader *r, const json_t *part)
{
    (void)part;
    r->letters++;
    return normalizer_add(r, NORMALIZER_LETTERS, NULL);
}

static Status normalizer_bert(JsonReader *r, const json_t *part)
{
    bool clean = need_bool(r, part, "clean_text"), chinese = need_bool(r, part, "handle_chinese_chars");
    bool lower = need_bool(r, part, "lowercase"), accents = read_bool(r, part, "strip_accents", lower);
    if (clean)   TRY(normalizer_add(r, NORMALIZER_CLEAN, NULL));
    if (chinese) TRY(normalizer_add(r, NORMALIZER_SPACE_CHINESE, NULL));
    if (accents) TRY(form_add(r, NORMALIZER_NFD));
    if (accents) TRY(normalizer_add(r, NORMALIZER_STRIP_NONSPACING, NULL));
    return lower ? normalizer_add(r, NORMALIZER_LOWERCASE, NULL) : OK;
}

static Status normalizer_precompiled(JsonReader *r, const json_t *part)
{
    const char *text = need_string(r, part, "precompiled_charsmap");
    int64_t     letters = length_of(text), capacity = letters / 4 * 3 + 3;
    char       *rules = malloc((size_t)capacity);
    if (!rules) return fail(NO_MEMORY, "%s: no memory for its normalizer", r->path);
    int64_t bytes = base64_decode((uint8_t *)rules, capacity, (const uint8_t *)text, letters);
    NormalizerStep step;
    Status  status = bytes < 0 ? fail(BAD_FILE, "precompiled_charsmap is not base64")
                               : precompiled_check((uint8_t *)rules, bytes);
    if (status == OK) status = normalizer_step_make(&step, NORMALIZER_PRECOMPILED, rules, bytes, NULL, 0);
    free(rules);
    return status == OK ? normalizer_put(r, &r->bpe->normalizer, step) : fail_with_path(r, status);
}

static Status normalizer_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "normalizers"), "the \"normalizers\" of a Sequence",
                    normalizer_read);
}

static const JsonField normalizers[] = {
    { "Sequence", normalizer_list },     { "NFC", normalizer_form },
    { "NFD", normalizer_form },          { "NFKC", normalizer_form },
    { "NFKD", normalizer_form },         { "Prepend", normalizer_prepend },
    { "Replace", normalizer_replace },   { "Strip", normalizer_strip },
    { "Lowercase", normalizer_lowercase }, { "StripAccents", normalizer_strip_accents },
    { "Nmt", normalizer_nmt },           { "BertNormalizer", normalizer_bert },
    { "Bert", normalizer_bert },
    { "ByteLevel", normalizer_letters }, { "Precompiled", normalizer_precompiled },
};
Status normalizer_read(JsonReader *r, const json_t *part)
{
    return DISPATCH(r, part, "normalizer", normalizers);
}

/* ---- pre-tokenizers ---- */

static Status pretokenizer_add(JsonReader *r, PretokenizerStep step)
{
    Pretokenizer *cut = &r->bpe->pretokenizer;
    if (cut->steps == PRETOKENIZER_STEPS_MAX) {
        pretokenizer_step_close(&step);
        return fail(BAD_FILE, "%s: more than %d pre-tokenizers", r->path, PRETOKENIZER_STEPS_MAX);
    }
    cut->step[cut->steps++] = step;
    return OK;
}

/* What a pre-tokenizer changes: before any is split, in the segments between added tokens */
static Status change_add(JsonReader *r, NormalizerKind kind, const char *old, const char *new)
{
    PretokenizerStep step = { .kind = CHANGE_PIECE };
    if (!r->bpe->pretokenizer.steps && kind != NORMALIZER_LETTERS)
        return step_add(r, &r->bpe->segment_normalizer, kind, old, new);
    TRY(step_make(r, &step.change, kind, old, new));
    return pretokenizer_add(r, step);
}

static Status pretokenizer_byte_level(JsonReader *r, const json_t *part)
{
    bool prefix = need_bool(r, part, "add_prefix_space"), regex = read_bool(r, part, "use_regex", true);
    need_bool(r, part, "trim_offsets");
    if (prefix) TRY(change_add(r, NORMALIZER_PREPEND_UNLESS, NULL, " "));
    if (regex)  TRY(pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = PRETOKEN_GPT2 }));
    r->letters++;
    r->last_letters = r->bpe->pretokenizer.steps;
    return change_add(r, NORMALIZER_LETTERS, NULL, NULL);
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
    return fail(BAD_FILE, "%s: %s: behavior %.40s is not known", r->path, json_type_of(part),
                word ? word : "(missing)");
}

/* A scanner's pieces are the matches and the text between them. The expressions before DeepSeek's in
 * PretokenKind match every text completely, so for them "isolated" is the same as "removed" with invert,
 * which keeps the matches only. */
static bool scanner_find(PretokenizerStep *scan, const char *regex, const PretokenizerStep *step)
{
    PretokenKind kind = regex ? pretoken_of_pattern(regex) : PRETOKEN_KINDS;
    bool kept = step->behavior == SPLIT_REMOVED && step->invert;
    *scan = (PretokenizerStep){ .kind = SPLIT_SCAN, .scan = kind };
    if (kind == PRETOKEN_CLIP && kept) scan->kind = SPLIT_SCAN_NO_SPACE;
    return kind != PRETOKEN_KINDS && (step->behavior == SPLIT_ISOLATED ||
                                      (kept && (kind < PRETOKEN_DEEPSEEK || kind == PRETOKEN_CLIP)));
}

static Status pretokenizer_split(JsonReader *r, const json_t *part)
{
    const char *regex = json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
    char        version[24];
    PretokenizerStep step = { .kind = SPLIT_REGEX, .invert = need_bool(r, part, "invert") }, scan;
    TRY(behavior_read(r, part, &step.behavior));
    if (scanner_find(&scan, regex, &step)) return pretokenizer_add(r, scan);
    TRY(read_pattern(r, part, &step.pattern));
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
        .kind = need_bool(r, part, "individual_digits") ? SPLIT_DIGIT : SPLIT_DIGITS });
}

const char *metaspace_scheme(JsonReader *r, const json_t *part)
{
    const char *scheme =
        json_object_get(part, "prepend_scheme") ? need_string(r, part, "prepend_scheme") : "always";
    bool prefix = read_bool(r, part, "add_prefix_space", true);
    if (strcmp(scheme, "always") && strcmp(scheme, "first") && strcmp(scheme, "never"))
        note_invalid(r, "prepend_scheme", "always, first or never");
    if (!prefix && strcmp(scheme, "never"))
        note_invalid(r, "add_prefix_space", "true where prepend_scheme is not never");
    return scheme;
}

static Status pretokenizer_metaspace(JsonReader *r, const json_t *part)
{
    const char *mark = need_character(r, part, "replacement"), *scheme = metaspace_scheme(r, part);
    bool usual = !strcmp(mark, MARK), split = read_bool(r, part, "split", true);
    PretokenizerStep step = { .kind = SPLIT_CHARACTER, .behavior = SPLIT_WITH_NEXT };
    if (!*mark) return OK;                                                       /* noted */
    TRY(change_add(r, NORMALIZER_REPLACE, " ", mark));
    if (usual) r->bpe->prepends_mark = strcmp(scheme, "never");
    if (!strcmp(scheme, "first"))  TRY(change_add(r, NORMALIZER_PREPEND_FIRST, NULL, mark));
    if (!strcmp(scheme, "always")) TRY(change_add(r, NORMALIZER_PREPEND_UNLESS, NULL, mark));
    if (!split) return OK;
    if (usual) return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_MARK });
    TRY(pattern_open_text(&step.pattern, mark, length_of(mark)));
    return pretokenizer_add(r, step);
}

static Status pretokenizer_punctuation(JsonReader *r, const json_t *part)
{
    PretokenizerStep step = { .kind = SPLIT_PUNCTUATION };
    if (json_object_get(part, "behavior")) TRY(behavior_read(r, part, &step.behavior));
    return pretokenizer_add(r, step);
}

static Status pretokenizer_whitespace(JsonReader *r, const json_t *part)
{
    (void)part;
    return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_WORDS });
}

static Status pretokenizer_whitespace_split(JsonReader *r, const json_t *part)
{
    (void)part;
    return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_SPACE, .behavior = SPLIT_REMOVED });
}

static Status pretokenizer_bert(JsonReader *r, const json_t *part)
{
    TRY(pretokenizer_whitespace_split(r, part));
    return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_PUNCTUATION });
}

static Status pretokenizer_delimiter(JsonReader *r, const json_t *part)
{
    const char *delimiter = need_character(r, part, "delimiter");
    PretokenizerStep step = { .kind = SPLIT_CHARACTER, .behavior = SPLIT_REMOVED };
    TRY(pattern_open_text(&step.pattern, delimiter, length_of(delimiter)));
    return pretokenizer_add(r, step);
}

static Status pretokenizer_length(JsonReader *r, const json_t *part)
{
    int64_t length = json_object_get(part, "length") ? need_count(r, part, "length") : 5;
    if (length == 0 && !r->invalid_key) note_invalid(r, "length", "1 or more");
    return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_LENGTH, .length = length ? length : 1 });
}

static Status pretokenizer_scripts(JsonReader *r, const json_t *part)
{
    (void)part;
    return pretokenizer_add(r, (PretokenizerStep){ .kind = SPLIT_SCRIPTS });
}

static Status pretokenizer_list(JsonReader *r, const json_t *p)
{
    return for_each(r, json_object_get(p, "pretokenizers"), "the \"pretokenizers\" of a Sequence",
                    pretokenizer_read);
}

static const JsonField pretokenizers[] = {
    { "Sequence", pretokenizer_list },         { "ByteLevel", pretokenizer_byte_level },
    { "Split", pretokenizer_split },           { "Digits", pretokenizer_digits },
    { "Metaspace", pretokenizer_metaspace },   { "Punctuation", pretokenizer_punctuation },
    { "Whitespace", pretokenizer_whitespace }, { "WhitespaceSplit", pretokenizer_whitespace_split },
    { "BertPreTokenizer", pretokenizer_bert }, { "CharDelimiterSplit", pretokenizer_delimiter },
    { "FixedLength", pretokenizer_length },    { "UnicodeScripts", pretokenizer_scripts },
};
Status pretokenizer_read(JsonReader *r, const json_t *part)
{
    return DISPATCH(r, part, "pre-tokenizer", pretokenizers);
}
