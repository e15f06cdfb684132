/* What a tokenizer adds to the options: the size of the vocabulary; and the comparison with the fingerprint
 * that a checkpoint keeps. */
#include "cli/setup/tokenizer.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/log.h"
#include "conf/value.h"
#include "convert/weights/foreign_weights.h"
#include "store/checkpoint_tokenizer.h"
#include "text/tokenizer_file.h"

Status setup_tokenizer_facts(TokenizerFacts *facts, const char *name)
{
    Tokenizer t;
    TRY(tokenizer_open(&t, name));
    facts->vocabulary = t.vocabulary;
    facts->eod        = t.eod;
    tokenizer_fingerprint(facts->fingerprint, &t);
    tokenizer_close(&t);
    return OK;
}

const char *setup_tokenizer_path(const Options *o)
{
    bool theirs = o->source[OPTION_tokenizer].kind == SOURCE_CHECKPOINT && o->checkpoint.tokenizer_path;
    return theirs ? o->checkpoint.tokenizer_path : o->tokenizer;
}

Status setup_checkpoint_tokenizer(char path[1024], const char *folder, const TokenizerRecord *record)
{
    char copy[1024];
    *path = 0;
    if (!record->fingerprint || !record->copies) return OK;
    TRY(checkpoint_tokenizer_path(copy, folder, record));
    if (file_exists(copy)) {
        Status status = checkpoint_tokenizer_check(folder, record);
        snprintf(path, 1024, "%s", copy);
        if (status == OK) return OK;
        return fail(status, "%s; it is the tokenizer that the checkpoint carries, recorded as %s: give an "
                    "unchanged one by --tokenizer, or load another step", fail_text(),
                    *record->name ? record->name : "(no name)");
    }
    if (file_exists(record->name)) return OK;
    return fail(BAD_FILE, "%s: there is no such file, and none at %s, where the tokenizer of the checkpoint "
                "was; give it by --tokenizer", copy, record->name);
}

Status setup_tokenizer_copies(TokenizerRecord *record, Options *o, const char *name)
{
    TokenizerFile file;
    TokenizerPart part[TOKENIZER_PARTS];
    FileMap       map;
    TRY(tokenizer_file_find(&file, name));
    record->folder = *file.folder != 0;
    record->copies = tokenizer_file_parts(part, &file);
    for (int i = 0; i < record->copies; i++) {
        TokenizerCopy *copy = &record->copy[i];
        TRY(file_map(&map, part[i].path));
        *copy = (TokenizerCopy){ .bytes = (int64_t)map.size, .checksum = XXH3_64bits(map.data, map.size) };
        memcpy(copy->name, part[i].name, sizeof copy->name);
        copy->data = options_hold_bytes(o, map.data, map.size);
        file_unmap(&map);
    }
    return OK;
}

Status setup_refuse_foreign_tokenizer(Status status, const char *of, bool needed)
{
    return fail(status, "%s; the tokenizer of %s cannot be read: give another one by --tokenizer%s",
                fail_text(), of, needed ? "" : ", or --tokenizer none");
}

const char *setup_foreign_folder(const Options *o)
{
    return o->checkpoint.continued ? NULL : foreign_weights_folder(o->load);
}

/* A checkpoint has the name of its tokenizer, which may be a file that has moved; a foreign folder has the
 * tokenizer itself. */
static Status moved(const Options *o, Status status)
{
    bool needed = o->command & (FOR_GENERATE | FOR_SERVE) || (o->command == FOR_EVAL && o->text);
    if (setup_foreign_folder(o)) return setup_refuse_foreign_tokenizer(status, o->load, needed);
    return fail(status, "%s; the checkpoint of --load %s names it: say where it is now by --tokenizer",
                fail_text(), o->load);
}

/* Of a fingerprint what was found to differ: "257 ids, tokens 0123456789abcdef" */
static const char *tokens_text(char out[TOKENIZER_FINGERPRINT], const char *fingerprint)
{
    const char *ids = strchr(fingerprint, ' '), *rules = strstr(fingerprint, ", rules");
    size_t bytes = ids && rules > ids ? (size_t)(rules - ids - 1) : 0;
    snprintf(out, TOKENIZER_FINGERPRINT, "%.*s", (int)bytes, ids ? ids + 1 : "");
    return out;
}

static Status refuse_tokenizer(const Options *o, const TokenizerFacts *facts)
{
    char said[512], now[TOKENIZER_FINGERPRINT], was[TOKENIZER_FINGERPRINT];
    SourceKind kind = o->source[OPTION_tokenizer].kind;
    return fail(BAD_OPTION, "%s (%s) is not the one that %s was trained with, %s (%s); %s",
                options_typed(said, sizeof said, o, OPTION_tokenizer), tokens_text(now, facts->fingerprint),
                o->checkpoint.path, o->checkpoint.tokenizer, tokens_text(was, o->checkpoint.fingerprint),
                options_typed_by_person(o, OPTION_tokenizer) ?
                "leave --tokenizer out, or say where that one is now" :
                kind == SOURCE_CHECKPOINT ?
                "the file was changed: say by --tokenizer where an unchanged one is" :
                "give that one as --tokenizer, or give --use-checkpoint-args");
}

/* Told with the other changes of a resumed run, once it has started */
static void note_tokenizer(Options *o, const TokenizerFacts *facts)
{
    char line[4096];
    snprintf(line, sizeof line, "--tokenizer %s (%s), was %s (%s)", o->tokenizer, facts->fingerprint,
             o->checkpoint.tokenizer, o->checkpoint.fingerprint);
    o->checkpoint.change = options_hold(o, line);
}

/* The tokenizer that a checkpoint is used with is the one that it was trained with; a resumed run may have
 * another one that a person names. A checkpoint without a fingerprint may be used with fewer ids, since
 * --vocab-size may be larger than the tokenizer, and they are only reported. */
static Status compare_tokenizer(Options *o, const TokenizerFacts *facts)
{
    const char *path = o->checkpoint.path, *was = o->checkpoint.fingerprint;
    bool typed = options_typed_by_person(o, OPTION_tokenizer);
    if (path && !was && typed && !setup_trains(o) && facts->vocabulary < o->vocabulary)
        log_line("--tokenizer %s has %d ids, and the model of %s has %lld; the checkpoint does not tell "
                 "whether it was trained with this tokenizer", o->tokenizer, facts->vocabulary, path,
                 (long long)o->vocabulary);
    if (!was) return OK;
    TokenizerMatch match = tokenizer_match(was, facts->fingerprint);
    if (match == TOKENIZER_OTHER && !(typed && setup_trains(o))) return refuse_tokenizer(o, facts);
    if (match == TOKENIZER_OTHER || (match == TOKENIZER_OTHER_RULES && typed && setup_trains(o)))
        note_tokenizer(o, facts);
    else if (match == TOKENIZER_OTHER_RULES)
        log_line("--tokenizer %s (%s) has the tokens and merges of the one that %s was trained with (%s), "
                 "but another normalizer, pre-tokenizer, post-processor, end of document or other added "
                 "tokens, or is another format of file: a text may get other ids", o->tokenizer,
                 facts->fingerprint, path, was);
    else if (match == TOKENIZER_OTHER_VERSION)
        log_line("%s has the fingerprint of its tokenizer in another version (%s), so --tokenizer %s is not "
                 "compared with it", path, was, o->tokenizer);
    return OK;
}

void setup_note_other_tokenizer(const char *named, const TokenizerFacts *facts, const char *own,
                                const char *of)
{
    TokenizerFacts theirs;
    char now[TOKENIZER_FINGERPRINT], was[TOKENIZER_FINGERPRINT];
    if (tokenizer_is_none(named) && *own && !tokenizer_is_none(own)) {
        log_line("--tokenizer none: the tokenizer of %s, and the ids of its special tokens, are left out",
                 of);
        return;
    }
    if (!*own || tokenizer_is_none(own) || setup_tokenizer_facts(&theirs, own) != OK) return;
    if (tokenizer_match(theirs.fingerprint, facts->fingerprint) != TOKENIZER_OTHER) return;
    log_line("--tokenizer %s (%s) is taken instead of the tokenizer of %s (%s)", named,
             tokens_text(now, facts->fingerprint), of, tokens_text(was, theirs.fingerprint));
}

/* ---- without a tokenizer ---- */

bool setup_without_tokenizer(const Options *o)
{
    return tokenizer_is_none(o->tokenizer) || (o->mock_data && !options_said(o, OPTION_tokenizer));
}

/* Of the checkpoint's options; tokenizer "": there is no checkpoint. */
typedef struct { const char *tokenizer; int64_t vocabulary; } SavedIds;

static SavedIds saved_ids(Options *o)
{
    json_t *options = o->checkpoint.options ? json_loads(o->checkpoint.options, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(options, option_rows[OPTION_tokenizer].name));
    const json_t *vocabulary = json_object_get(options, option_rows[OPTION_vocabulary].name);
    SavedIds saved = { options_hold(o, name ? name : ""), json_integer_value(vocabulary) };
    json_decref(options);
    return saved;
}

static Status set_none(Options *o, SourceKind kind, const char *from)
{
    return options_set(o, OPTION_tokenizer, TOKENIZER_NONE,
                       option_source(kind, "--tokenizer", TOKENIZER_NONE, from));
}

/* The checkpoint's, where it has none and this run names none. */
static Status inherit_none(Options *o, SavedIds saved)
{
    bool none = tokenizer_is_none(saved.tokenizer) && !o->checkpoint.fingerprint;
    if (!none || options_typed_by_person(o, OPTION_tokenizer)) return OK;
    if (saved.vocabulary > 0) options_fill(o, OPTION_vocabulary, saved.vocabulary, o->checkpoint.path);
    return set_none(o, SOURCE_CHECKPOINT, o->checkpoint.path);
}

/* A run that resumes and names none has the checkpoint's, like one with --use-checkpoint-args. */
static Status inherit_tokenizer(Options *o)
{
    bool names = o->source[OPTION_tokenizer].kind != SOURCE_DEFAULT || o->mock_data;
    if (names || !o->checkpoint.fingerprint || !*o->checkpoint.tokenizer) return OK;
    return options_set(o, OPTION_tokenizer, o->checkpoint.tokenizer,
                       (OptionSource){ .kind = SOURCE_CHECKPOINT, .name = "--tokenizer",
                                       .value = o->checkpoint.tokenizer, .from = o->checkpoint.path });
}

/* --tokenizer none: ids alone are read and written. */
static Status take_none(Options *o, SavedIds saved)
{
    bool eval_text = o->command == FOR_EVAL && o->text;
    bool typed = options_typed_by_person(o, OPTION_tokenizer);
    bool prompts = (o->command == FOR_GENERATE && !o->prompt_jsonl) || o->command == FOR_SERVE;
    if (prompts || eval_text)
        return fail(BAD_OPTION, "%s%s has no tokenizer, and %s; give by --tokenizer the one that the tokens"
                    " of its training were made with",
                    typed ? "--tokenizer none: the run" : "the model of --load ", typed ? "" : o->load,
                    eval_text ? "--text is text; --data-path evaluates on ids"
                    : o->command == FOR_SERVE ? "prompts are text"
                    : "prompts are text; \"ids\" in lines of --prompt-jsonl do without one");
    if (setup_trains(o) && o->checkpoint.fingerprint)
        note_tokenizer(o, &(TokenizerFacts){ .fingerprint = "ids without text" });
    if (typed && setup_foreign_folder(o))
        setup_note_other_tokenizer(o->tokenizer, NULL, saved.tokenizer, o->load);
    if (!o->vocabulary && o->checkpoint.path)
        TRY(options_take_saved(o, OPTION_vocabulary, o->checkpoint.options, o->checkpoint.path));
    if (o->vocabulary > 0) return OK;
    return fail(BAD_OPTION, "--tokenizer none does not tell how many ids there are; give --vocab-size");
}

Status setup_open_tokenizer(Tokenizer *t, const Options *o)
{
    if (tokenizer_is_none(o->tokenizer)) {
        tokenizer_ids_only(t, (int32_t)o->vocabulary);
        return OK;
    }
    TRY(tokenizer_open(t, setup_tokenizer_path(o)));
    Status status = tokenizer_limit(t, o->vocabulary);
    if (status != OK) tokenizer_close(t);
    return status;
}

Status setup_limit_tokenizer(const char *path, const char *name, int32_t ids, int64_t model)
{
    Tokenizer t;
    if (ids <= model) return OK;
    TRY(tokenizer_open(&t, path));
    Status status = tokenizer_limit(&t, model);
    tokenizer_close(&t);
    TRY(status);
    log_line("--tokenizer %s has %d ids, and the model %lld: those above are special tokens that no text "
             "makes, and are not used", name, ids, (long long)model);
    return OK;
}

Status setup_take_tokenizer(Options *o)
{
    TokenizerFacts facts;
    SavedIds saved = saved_ids(o);
    bool typed = options_typed_by_person(o, OPTION_tokenizer), foreign = setup_foreign_folder(o);
    TRY(inherit_none(o, saved));
    if (tokenizer_is_none(o->tokenizer)) return take_none(o, saved);
    TRY(inherit_tokenizer(o));
    Status status = setup_tokenizer_facts(&facts, setup_tokenizer_path(o));
    if (status != OK && o->load && !options_typed_by_person(o, OPTION_tokenizer)) return moved(o, status);
    TRY(status);
    int32_t vocabulary = facts.vocabulary;
    options_fill(o, OPTION_vocabulary, vocabulary, "--tokenizer");
    if (setup_without_tokenizer(o)) return o->checkpoint.fingerprint ? OK : set_none(o, SOURCE_DEFAULT, "");
    if (typed && foreign && o->vocabulary >= vocabulary)
        setup_note_other_tokenizer(o->tokenizer, &facts, saved.tokenizer, o->load);
    if (o->vocabulary >= vocabulary || !setup_trains(o) || foreign || o->checkpoint.path) {
        TRY(setup_limit_tokenizer(setup_tokenizer_path(o), o->tokenizer, vocabulary, o->vocabulary));
        return compare_tokenizer(o, &facts);
    }
    return fail(BAD_OPTION, "--vocab-size %lld is less than the %d ids of --tokenizer %s; give %d or more",
                (long long)o->vocabulary, vocabulary, o->tokenizer, vocabulary);
}
