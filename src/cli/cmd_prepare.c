/* jotun prepare --input F... --tokenizer T --output-prefix P: tokenizes documents into Megatron's .bin and
 * .idx, one token file for each key of --json-keys. data/tokenize runs the threads; this file writes them and
 * reports the progress. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/seam.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/setup/setup.h"
#include "cli/signals.h"
#include "conf/conf.h"
#include "corpus/read/json_line.h"
#include "data/tokenize.h"
#include "corpus/read/source.h"
#include "data/token_facts.h"

enum { FAULTS_REPORTED = 20 };                      /* skipped lines or files that the log names */

typedef struct {
    const Options *options;
    Tokenizer        tokenizer;
    TokenFileWriter *writer[JSON_KEYS_MOST];    /* one for each key */
    int              keys;
    int64_t          documents, tokens, faults;
    int64_t          empty;                     /* documents without tokens, under the first key */
    int64_t          begun, last_report;        /* clock in nanoseconds: start, last line of progress */
    int64_t          bytes_read, total;         /* bytes of the inputs: read, in all; -1: unknown (pipe) */
    const volatile sig_atomic_t *stop;
} Prepare;

/* ---- progress ---- */

static void progress_report(Prepare *p)
{
    char done[24], all[24], left[24];
    double bytes = (double)p->bytes_read, seconds = seam_seconds_since(p->begun), rate = bytes / seconds;
    if (seam_seconds_since(p->last_report) < (log_terminal() ? 0.2 : 10)) return;
    p->last_report = seam.clock();
    if (p->total < 0) log_progress("prepare: %s, %.1f MB/s", log_bytes(done, bytes), rate * 1e-6);
    else log_progress("prepare: %s of %s, %.1f MB/s, %s left", log_bytes(done, bytes),
                      log_bytes(all, (double)p->total), rate * 1e-6,
                      log_time(left, ((double)p->total - bytes) / rate));
}

static int64_t inputs_size(const TextList *input)
{
    int64_t total = 0;
    for (int i = 0; i < input->count; i++) {
        int64_t size = source_size(input->text[i]);
        if (size < 0) return -1;
        total += size;
    }
    return total;
}

static void faults_report(Prepare *p, const TokenizeBatch *batch)
{
    for (int64_t i = 0; i < batch->faults; i++)
        if (i < TOKENIZE_MESSAGES && p->faults + i < FAULTS_REPORTED)
            log_line("skipped: %s", batch->messages[i]);
    if (p->faults < FAULTS_REPORTED && p->faults + batch->faults >= FAULTS_REPORTED)
        log_line("further skipped lines and files are counted, not named");
    p->faults += batch->faults;
}

/* ---- documents ---- */

/* As Megatron writes it, a document without tokens has no sequence, and no end-of-document token either; its
 * index is counted nevertheless, so that document numbers agree with the input. */
static Status batch_add(Prepare *p, const TokenizeBatch *batch)
{
    int64_t begin = 0;
    for (int64_t i = 0; i < batch->documents * p->keys; i++) {
        int     key   = (int)(i % p->keys);
        int64_t count = batch->end[i] - begin;
        p->tokens += count;
        p->empty  += count == 0 && key == 0;
        if (count) TRY(token_file_add(p->writer[key], batch->ids + begin, count));
        TRY(token_file_end_document(p->writer[key]));
        begin = batch->end[i];
    }
    p->documents += batch->documents;
    p->bytes_read = batch->bytes_read;
    faults_report(p, batch);
    progress_report(p);
    return OK;
}

static Status inputs_add(Prepare *p)
{
    TokenizeRun *run;
    TokenizePlan plan = setup_tokenize(p->options, &p->tokenizer);
    TRY(tokenize_open(&run, &plan));
    const TokenizeBatch *batch;
    Status status = tokenize_next(run, &batch);
    while (status == OK && batch && !*p->stop) {
        status = batch_add(p, batch);
        if (status == OK) status = tokenize_next(run, &batch);
    }
    tokenize_close(run);
    /* A signal counts even where the input has ended: it may have ended the process that feeds a pipe too,
     * and what was read is then incomplete. */
    if (status == OK && *p->stop) return fail(INTERRUPTED, "stopped by a signal; nothing is written");
    return status;
}

/* ---- token files, one for each key ---- */

static Status token_files_open(Prepare *p)
{
    char prefix[900];
    const Options *o = p->options;
    for (int k = 0; k < p->keys; k++) {
        const char *key = o->json_keys.text[k];
        if (snprintf(prefix, sizeof prefix, "%s_%s_document", o->output_prefix, key) >= (int)sizeof prefix)
            return fail(BAD_OPTION, "--output-prefix %.80s...: longer than a path may be", o->output_prefix);
        TRY(token_file_create(&p->writer[k], prefix, p->tokenizer.vocabulary));
    }
    return OK;
}

/* What the pair of a key does not say of itself. */
static TokenFacts facts_of(const Prepare *p, const char *key)
{
    TokenFacts facts = { 0 };
    const Options *o = p->options;
    json_t *options = json_pack("{s:s, s:b, s:b}", "json-key", key, "append-eod", o->append_eod,
                                "parse-special-tokens", o->parse_special);
    char *text = options ? json_dumps(options, JSON_COMPACT) : NULL;
    bool fits = text && strlen(text) < sizeof facts.options;
    snprintf(facts.options, sizeof facts.options, "%s", fits ? text : "");
    free(text);
    json_decref(options);
    snprintf(facts.tokenizer, sizeof facts.tokenizer, "%s", o->tokenizer);
    tokenizer_fingerprint(facts.fingerprint, &p->tokenizer);
    return facts;
}

static Status pairs_finish(Prepare *p)
{
    for (int k = 0; k < p->keys; k++) {
        TokenFileWriter *writer = p->writer[k];
        TokenFacts facts = facts_of(p, p->options->json_keys.text[k]);
        token_file_describe(writer, &facts);
        p->writer[k] = NULL;                    /* token_file_finish frees it even where it fails */
        TRY(token_file_finish(writer));
    }
    return OK;
}

/* ---- the command ---- */

static Status options_check(const Options *o, const Tokenizer *tokenizer)
{
    const TextList *keys = &o->json_keys;
    if (keys->count > JSON_KEYS_MOST)
        return fail(BAD_OPTION, "--json-keys: %d keys, and %d are the most; prepare the others in a second "
                    "run", keys->count, JSON_KEYS_MOST);
    for (int k = 0; k < keys->count; k++) {
        if (!*keys->text[k] || strchr(keys->text[k], '/'))
            return fail(BAD_OPTION, "--json-keys \"%s\": the key becomes part of a file's name, which it "
                        "cannot", keys->text[k]);
        for (int j = 0; j < k; j++)
            if (!strcmp(keys->text[j], keys->text[k]))
                return fail(BAD_OPTION, "--json-keys: %s is named twice; name it once", keys->text[k]);
    }
    if (o->append_eod && tokenizer->eod < 0)
        return fail(BAD_OPTION, "--append-eod: --tokenizer %s has no end of document; leave it out",
                    o->tokenizer);
    return OK;
}

static void prepare_report(const Prepare *p)
{
    char bytes[24], time[24], more[64] = "";
    const Options *o = p->options;
    double seconds = seam_seconds_since(p->begun);
    if (p->keys > 1) snprintf(more, sizeof more, " and %d more token files", p->keys - 1);
    if (p->faults) log_line("prepare: %" PRId64 " lines or files were skipped", p->faults);
    log_line("prepare: %" PRId64 " documents (%" PRId64 " empty), %" PRId64 " tokens of --tokenizer %s%s, %s "
             "in %s, %.1f MB/s: %s_%s_document.bin, .idx%s", p->documents, p->empty, p->tokens, o->tokenizer,
             options_typed_by_person(o, OPTION_tokenizer) ? "" : " (none was named, so ids are bytes)",
             log_bytes(bytes, (double)p->bytes_read), log_time(time, seconds),
             (double)p->bytes_read / seconds * 1e-6,
             o->output_prefix, o->json_keys.text[0], more);
}

static Status prepare(Prepare *p)
{
    const Options *o = p->options;
    TRY(options_check(o, &p->tokenizer));
    TRY(standard_input_once(o->input.text, o->input.count, 1));
    TRY(inputs_are_files(o->input.text, o->input.count));
    TRY(output_directory("--output-prefix", o->output_prefix));
    note_wrapped_lines("prepare", o->input.text, o->input.count, text_rules(o));
    p->keys  = o->json_keys.count;
    p->begun = p->last_report = seam.clock();
    p->stop =
        signals_catch("\njotun: stops and removes its files; the same signal again ends it at once\n");
    p->total = inputs_size(&o->input);
    Status status = token_files_open(p);
    if (status == OK) status = inputs_add(p);
    log_progress_end();
    if (status == OK && p->documents == 0)
        status = fail(BAD_FILE, "%s: no documents in it",
                      strcmp(o->input.text[0], "-") ? o->input.text[0] : "standard input");
    if (status == OK) status = pairs_finish(p);
    for (int k = 0; k < p->keys; k++)
        if (p->writer[k]) token_file_discard(p->writer[k]);
    if (status == OK) prepare_report(p);
    return status;
}

Status cmd_prepare(Options *o)
{
    Prepare p = { .options = o };
    TRY(options_derive(o));
    TRY(options_validate(o));
    TRY(tokenizer_open(&p.tokenizer, o->tokenizer));
    Status status = special_tokens(&p.tokenizer, o);
    if (status == OK) status = prepare(&p);
    tokenizer_close(&p.tokenizer);
    return status;
}
