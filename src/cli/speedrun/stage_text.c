/* The stages of a speedrun that make tokens of texts: cleaning, tokenizer, token files. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "cli/in_out.h"
#include "cli/speedrun/speedrun.h"
#include "corpus/read/inputs.h"
#include "data/token_file.h"

/* ---- cleaning ---- */

/* Bytes a second that a core cleans at least, by which it is judged whether a text is too large for the
 * minutes */
static const double clean_rate = 2e7;

Status speedrun_inputs(SpeedrunInputs *found, const Options *o)
{
    Inputs      in    = {0};
    FormatRules rules = { input_block_kind(o), text_rules(o), repairs_utf8(o) };
    *found = (SpeedrunInputs){0};
    TRY(inputs_expand(&in, o->speedrun_input.text, o->speedrun_input.count, &rules));
    Status status = inputs_check_skipped(&in, o->skip_unreadable);
    found->bytes = (double)in.bytes;
    found->files = in.paths;
    inputs_free(&in);
    TRY(status);
    double minutes = speedrun_minutes(o), bytes = found->bytes;
    double needs   = bytes / (clean_rate * speedrun_threads(o)) / 60;
    char   size[24];
    if (minutes == 0 || needs <= minutes / 2) return OK;
    return fail(BAD_OPTION, "--minutes %g: cleaning the %s of --input takes up to %.0f minutes on %d cores, "
                "and half of the time is for training; give --minutes %.0f, or a part of the texts", minutes,
                log_bytes(size, bytes), ceil(needs), speedrun_threads(o), ceil(2 * needs));
}

/* What `jotun clean` has left, and what it dropped since no text in UTF-8 looks like it. unread: bytes of the
 * documents that could not be read for that or another reason, of all bytes. */
typedef struct { int64_t documents, bytes, bytes_read, not_utf8, with_nul, broken, unread; } Cleaned;

/* Encodings of other programs look like files that are no text: UTF-16 by its NULs, others by bytes that are
 * not UTF-8. */
static void way_out(char *hint, size_t room, const Cleaned *c)
{
    if (c->not_utf8 + c->with_nul > c->documents)
        snprintf(hint, room,
                 "; %" PRId64 " were skipped since they are not UTF-8 and %" PRId64
                 " since they have bytes 0: "
                 "--input-encoding UTF-16LE or UTF-16BE reads a text with bytes 0, --input-encoding "
                 "ISO-8859-1 (Western Europe), SHIFT_JIS (Japanese) or another encoding a text without, "
                 "--invalid-utf8 repair one of which a few bytes are wrong, and a file of another format, "
                 "such as PDF or a program, is no text",
                 c->not_utf8, c->with_nul);
    else if (c->broken > c->documents)
        snprintf(hint, room,
                 "; %" PRId64 " were skipped as broken, as the lines above say: --json-keys names the key "
                 "under which JSON lines have their text, and --input-format another format",
                 c->broken);
}

static Status too_little(const Speedrun *s, const Cleaned *c)
{
    char hint[1600] = "";
    way_out(hint, sizeof hint, c);
    return fail(BAD_FILE,
                "--input %s: %" PRId64 " document%s of %" PRId64 " bytes %s left after cleaning, and a run "
                "needs 500 bytes or more; %s says what was dropped%s",
                s->o->speedrun_input.text[0], c->documents, c->documents == 1 ? "" : "s", c->bytes,
                c->documents == 1 ? "is" : "are", speedrun_path(s, "clean.html"), hint);
}

/* A text of which much could not be read is another text than its owner has in mind. */
static Status unread_check(const Speedrun *s, const Cleaned *c)
{
    if (c->not_utf8 + c->with_nul > c->documents / 10)
        log_line("speedrun: %" PRId64 " documents were skipped since they are not UTF-8 and %" PRId64
                 " since they have bytes 0, and %" PRId64 " are used; --input-encoding reads texts of "
                 "other encodings, and files that are no texts are better removed",
                 c->not_utf8, c->with_nul, c->documents);
    if (s->o->skip_unreadable || c->unread * 10 <= c->bytes_read) return OK;
    return fail(BAD_FILE, "--input %s: %.0f %% of its bytes could not be read, as %s says: %" PRId64
                " documents are not UTF-8, %" PRId64 " have bytes 0 and %" PRId64 " are broken; "
                "--input-encoding or --input-format reads them, --invalid-utf8 repair replaces single bytes "
                "that are wrong, and --skip-unreadable leaves the documents out",
                s->o->speedrun_input.text[0], 100 * (double)c->unread / (double)c->bytes_read,
                speedrun_path(s, "clean.html"), c->not_utf8, c->with_nul, c->broken);
}

/* Of the report of `jotun clean`; a run of too little text ends before this stage counts as done, so that it
 * can be begun again with more. */
static Status cleaned_check(const Speedrun *s, json_t *facts)
{
    Cleaned c      = { 0 };
    int64_t utf8 = 0, nul = 0, broken = 0;
    json_t *report = json_load_file(speedrun_path(s, "clean.json"), 0, NULL);
    json_unpack(report, "{s:{s:I}, s:{s:I, s:I}, s:{s?:{s:I, s:I}, s?:{s:I, s:I}, s?:{s:I, s:I}}}",
                "in", "bytes", &c.bytes_read,
                "written", "documents", &c.documents, "bytes", &c.bytes,
                "dropped", "not UTF-8", "documents", &c.not_utf8, "bytes", &utf8,
                "with NUL", "documents", &c.with_nul, "bytes", &nul,
                "broken", "documents", &c.broken, "bytes", &broken);
    json_decref(report);
    c.unread = utf8 + nul + broken;
    if (c.bytes < 500) return too_little(s, &c);
    TRY(unread_check(s, &c));
    json_object_set_new(facts, "documents", json_integer(c.documents));
    json_object_set_new(facts, "bytes", json_integer(c.bytes));
    json_object_set_new(facts, "not_utf8", json_integer(c.not_utf8));
    json_object_set_new(facts, "with_nul", json_integer(c.with_nul));
    return OK;
}

Status stage_clean(Speedrun *s, json_t *facts)
{
    const Options *o     = s->o;
    WordList       words = {0};
    if (s->inputs.files == 0) TRY(speedrun_inputs(&s->inputs, o));
    json_object_set_new(facts, "files", json_integer(s->inputs.files));
    json_object_set_new(facts, "input_bytes", json_real(s->inputs.bytes));
    word_list_add(&words, "clean");
    word_list_add(&words, "--input");
    for (int i = 0; i < o->speedrun_input.count; i++)
        word_list_add(&words, "%s", o->speedrun_input.text[i]);
    if (options_typed_by_person(o, OPTION_input_format))
        word_list_split(&words, "--input-format %s", o->input_format.word);
    if (o->skip_unreadable) word_list_add(&words, "--skip-unreadable");
    if (repairs_utf8(o)) word_list_split(&words, "--invalid-utf8 repair");
    if (o->input_encoding) word_list_option(&words, "--input-encoding", o->input_encoding);
    if (options_typed_by_person(o, OPTION_zstd_window))
        word_list_split(&words, "--zstd-window-log %" PRId64, o->zstd_window);
    if (options_typed_by_person(o, OPTION_clean_json_key)) word_list_add(&words, "--json-keys");
    for (int i = 0; options_typed_by_person(o, OPTION_clean_json_key) && i < o->clean_json_key.count; i++)
        word_list_add(&words, "%s", o->clean_json_key.text[i]);
    word_list_option(&words, "--output", speedrun_path(s, "clean.jsonl"));
    word_list_option(&words, "--report", speedrun_path(s, "clean.json"));
    word_list_split(&words, "--dedup exact --near-threshold 0.8");
    TRY(child_run(s, &words, NULL));
    return cleaned_check(s, facts);
}

/* ---- tokens ---- */

Status stage_tokenizer(Speedrun *s, json_t *facts)
{
    WordList words = {0};
    int64_t    ids   = recipe_vocabulary((int64_t)speedrun_number(s, "split", "train_bytes"));
    json_object_set_new(facts, "name", json_string(ids ? "tokenizer.json" : "bytes"));
    if (!ids) {
        log_line("speedrun: so little text teaches no tokenizer; its bytes are the tokens");
        return OK;
    }
    word_list_split(&words, "tokenizer train --vocab-size %" PRId64 " --input", ids);
    word_list_add(&words, "%s", speedrun_path(s, "train.jsonl"));
    word_list_option(&words, "--output", speedrun_path(s, "tokenizer.json"));
    return child_run(s, &words, NULL);
}

const char *speedrun_tokenizer(const Speedrun *s)
{
    const char *name = json_string_value(json_object_get(speedrun_facts(s, "tokenizer"), "name"));
    return name && strcmp(name, "bytes") ? speedrun_path(s, name) : "bytes";
}

static Status tokens_of(const Speedrun *s, json_t *facts, const char *side)
{
    WordList words = {0};
    char       name[64];
    TokenFile  tokens;
    word_list_split(&words, "prepare --append-eod --tokenizer");
    word_list_add(&words, "%s", speedrun_tokenizer(s));
    snprintf(name, sizeof name, "%s.jsonl", side);
    word_list_option(&words, "--input", speedrun_path(s, name));
    word_list_option(&words, "--output-prefix", speedrun_path(s, side));
    TRY(child_run(s, &words, NULL));
    snprintf(name, sizeof name, "%s_text_document", side);
    TRY(token_file_open(&tokens, speedrun_path(s, name)));
    json_object_set_new(facts, side, json_integer(tokens.tokens));
    token_file_close(&tokens);
    return OK;
}

Status stage_tokens(Speedrun *s, json_t *facts)
{
    TRY(tokens_of(s, facts, "train"));
    return tokens_of(s, facts, "heldout");
}
