#include "data/token_facts.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/array.h"
#include "base/log.h"

enum { VERSION = 1, FILE_MOST = 64 << 10 };
static const char FORMAT[] = "jotun tokens";

static Status facts_path(char path[1024], const char *prefix)
{
    if (snprintf(path, 1024, "%s.facts.json", prefix) < 1024) return OK;
    return fail(BAD_FILE, "%.80s...: the path is longer than 1023 bytes", prefix);
}

/* ---- measuring ---- */

/* The argument and result of measure_guarded: tokens from `at` on, `count` of them. */
typedef struct { const TokenFile *file; int64_t at, count; uint32_t largest; } Range;

/* As unsigned, a negative id is above all others. Two loops, so that each vectorises. */
static void measure_guarded(void *context)
{
    Range *r = context;
    const uint8_t *from = r->file->bin.data + r->at * r->file->width;
    uint32_t largest = r->largest, id = 0;
    uint16_t narrow = 0, most = 0;
    for (int64_t i = 0; r->file->width == 2 && i < r->count; i++) {
        memcpy(&narrow, from + 2 * i, 2);
        most = narrow > most ? narrow : most;
    }
    for (int64_t i = 0; r->file->width == 4 && i < r->count; i++) {
        memcpy(&id, from + 4 * i, 4);
        largest = id > largest ? id : largest;
    }
    r->largest = largest > most ? largest : (uint32_t)most;
}

Status token_facts_largest(int64_t *largest, const TokenFile *file, const volatile sig_atomic_t *stop)
{
    enum { AT_ONCE = 1 << 22 };
    Range r = { .file = file };
    for (; r.at < file->tokens; r.at += AT_ONCE) {
        r.count = file->tokens - r.at < AT_ONCE ? file->tokens - r.at : AT_ONCE;
        TRY(token_file_guarded(file, measure_guarded, &r));
        if (stop && *stop) return fail(INTERRUPTED, "stopped by a signal; nothing is written");
    }
    *largest = file->tokens ? (int64_t)r.largest : -1;
    return OK;
}

typedef struct { const TokenFile *file; uint64_t hash; } Index;

static void index_guarded(void *context)
{
    Index *x = context;
    x->hash = XXH3_64bits(x->file->index.data, x->file->index.size);
}

static Status index_hash(uint64_t *hash, const TokenFile *file)
{
    Index x = { .file = file };
    TRY(token_file_guarded(file, index_guarded, &x));
    *hash = x.hash;
    return OK;
}

Status token_facts_measure(TokenFacts *facts, const TokenFile *file, const volatile sig_atomic_t *stop)
{
    facts->tokens    = file->tokens;
    facts->sequences = file->sequences;
    facts->documents = file->documents;
    TRY(index_hash(&facts->index, file));
    return token_facts_largest(&facts->largest, file, stop);
}

/* ---- the file ---- */

Status token_facts_write(const TokenFacts *f, const char *prefix)
{
    char path[1024], sum[24];
    TRY(facts_path(path, prefix));
    snprintf(sum, sizeof sum, "%016" PRIx64, f->index);
    json_t *root = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:s}", "format", FORMAT, "version", VERSION,
                             "tokens", (json_int_t)f->tokens, "sequences", (json_int_t)f->sequences,
                             "documents", (json_int_t)f->documents, "largest", (json_int_t)f->largest,
                             "index", sum);
    json_t *options = *f->options ? json_loads(f->options, 0, NULL) : NULL;
    json_t *tokenizer = *f->fingerprint ? json_pack("{s:s}", "fingerprint", f->fingerprint) : NULL;
    /* json_string is NULL for a name that is not UTF-8, which is then left out. */
    if (tokenizer) json_object_set_new(tokenizer, "name", json_string(f->tokenizer));
    if (tokenizer) json_object_set_new(root, "tokenizer", tokenizer);
    if (options) json_object_set_new(root, "options", options);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text) return fail(NO_MEMORY, "%s: no memory for its text", path);
    Status status = file_write_whole(path, text, strlen(text));
    free(text);
    return status;
}

static Status text_take(char *out, size_t size, const char *path, const char *key, const json_t *value)
{
    const char *text = json_string_value(value);
    if (!value) return OK;
    if (text && snprintf(out, size, "%s", text) < (int)size) return OK;
    return fail(BAD_FILE, "%s: %s is not a text of up to %zu bytes", path, key, size - 1);
}

static Status root_read(TokenFacts *f, const char *path, const json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *sum = json_string_value(json_object_get(root, "index"));
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    const json_t *options = json_object_get(root, "options"), *tokenizer = json_object_get(root, "tokenizer");
    const struct { const char *key; int64_t *to, least; } number[] = {
        { "tokens", &f->tokens, 0 }, { "sequences", &f->sequences, 0 }, { "documents", &f->documents, 0 },
        { "largest", &f->largest, -1 } };
    if (!format || strcmp(format, FORMAT) != 0 || version != VERSION)
        return fail(BAD_FILE, "%s: is not a file of facts of version %d", path, VERSION);
    for (size_t i = 0; i < COUNT(number); i++) {
        const json_t *value = json_object_get(root, number[i].key);
        *number[i].to = json_integer_value(value);
        if (!json_is_integer(value) || *number[i].to < number[i].least)
            return fail(BAD_FILE, "%s: %s is not a whole number", path, number[i].key);
    }
    if (!sum || strlen(sum) != 16 || strspn(sum, "0123456789abcdef") != 16)
        return fail(BAD_FILE, "%s: index is not 16 hexadecimal digits", path);
    f->index = strtoull(sum, NULL, 16);
    char *said = options ? json_dumps(options, JSON_COMPACT) : NULL;
    snprintf(f->options, sizeof f->options, "%s", said && strlen(said) < sizeof f->options ? said : "");
    free(said);
    TRY(text_take(f->tokenizer, sizeof f->tokenizer, path, "tokenizer.name",
                  json_object_get(tokenizer, "name")));
    return text_take(f->fingerprint, sizeof f->fingerprint, path, "tokenizer.fingerprint",
                     json_object_get(tokenizer, "fingerprint"));
}

Status token_facts_read(TokenFacts *facts, bool *found, const char *prefix)
{
    char    path[1024];
    FileMap map;
    json_error_t error;
    *facts = (TokenFacts){ 0 };
    TRY(facts_path(path, prefix));
    *found = file_exists(path);
    if (!*found) return OK;
    TRY(file_map(&map, path));
    json_t *root = map.size > FILE_MOST ? NULL : json_loadb((const char *)map.data, map.size,
                                                           JSON_REJECT_DUPLICATES, &error);
    Status status = root ? root_read(facts, path, root) : map.size > FILE_MOST
        ? fail(BAD_FILE, "%s: %zu bytes; at most %d are read", path, map.size, FILE_MOST)
        : fail(BAD_FILE, "%s: line %d: %s", path, error.line, error.text);
    file_unmap(&map);
    json_decref(root);
    return status;
}

/* ---- comparing ---- */

Status token_facts_compare(const TokenFacts *f, const TokenFile *file, const char *prefix)
{
    uint64_t hash;
    const struct { const char *what; int64_t says, is; } count[] = {
        { "tokens", f->tokens, file->tokens }, { "sequences", f->sequences, file->sequences },
        { "documents", f->documents, file->documents } };
    for (int i = 0; i < 3; i++)
        if (count[i].says != count[i].is)
            return fail(BAD_FILE, "%s.facts.json: %" PRId64 " %s, and %s.idx has %" PRId64, prefix,
                        count[i].says, count[i].what, prefix, count[i].is);
    TRY(index_hash(&hash, file));
    if (hash == f->index) return OK;
    return fail(BAD_FILE, "%s.facts.json: is of another %s.idx, whose hash is %016" PRIx64 " and not %016"
                PRIx64, prefix, prefix, f->index, hash);
}

void token_facts_find(TokenFacts *facts, bool *found, const TokenFile *file, const char *prefix)
{
    *found = false;
    if (file->mock) return;
    Status status = token_facts_read(facts, found, prefix);
    if (status == OK && *found) status = token_facts_compare(facts, file, prefix);
    if (status == OK) return;
    *found = false;
    log_line("%s; it is ignored: remove it, and jotun data check %s makes it again", fail_text(), prefix);
}

static Status refuse_tokenizer(const TokenFacts *f, const char *prefix, const TokenReader *reader)
{
    return fail(BAD_OPTION, "%s was made by --tokenizer %s (%s), and this run has --tokenizer %s (%s): give "
                "the first one, or prepare the text with the second; if the tokens are right, remove "
                "%s.facts.json", prefix, *f->tokenizer ? f->tokenizer : "(no name)", f->fingerprint,
                reader->tokenizer, reader->fingerprint, prefix);
}

static Status suit(const TokenFacts *f, const char *prefix, const TokenReader *reader)
{
    bool known = reader->fingerprint && *f->fingerprint;
    TokenizerMatch match = known ? tokenizer_match(f->fingerprint, reader->fingerprint) : TOKENIZER_SAME;
    if (match == TOKENIZER_OTHER) return refuse_tokenizer(f, prefix, reader);
    if (match == TOKENIZER_OTHER_RULES)
        log_line("%s was made by --tokenizer %s (%s), which has the tokens of --tokenizer %s (%s) and other "
                 "rules: a text may have got other ids", prefix, f->tokenizer, f->fingerprint,
                 reader->tokenizer, reader->fingerprint);
    if (f->largest < reader->vocabulary) return OK;
    if (!reader->skips)
        return fail(BAD_OPTION, "%s: its largest id is %" PRId64 ", and the model's vocabulary has %" PRId64
                    " ids, 0 to %" PRId64 ": give the tokenizer of these tokens, or --vocab-size %" PRId64
                    " or more", prefix, f->largest, reader->vocabulary, reader->vocabulary - 1,
                    f->largest + 1);
    log_line("%s: its largest id is %" PRId64 ", beyond the vocabulary of %" PRId64 ": the run stops at a "
             "step that reads one, unless --iterations-to-skip names it", prefix, f->largest,
             reader->vocabulary);
    return OK;
}

Status token_facts_suit(const TokenFile *file, const char *prefix, const TokenReader *reader)
{
    TokenFacts facts;
    bool       found;
    token_facts_find(&facts, &found, file, prefix);
    return found ? suit(&facts, prefix, reader) : OK;
}
