/* The stages of a speedrun that make tokens of texts: cleaning, documents held out, tokenizer, token files.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/file.h"
#include "base/log.h"
#include "base/shell/shell_word.h"
#include "base/team.h"
#include "cli/in_out.h"
#include "cli/speedrun/speedrun.h"
#include "corpus/clean/sink.h"
#include "corpus/read/inputs.h"
#include "base/json_text.h"
#include "corpus/read/source.h"
#include "data/token_file.h"

/* ---- cleaning ---- */

/* Bytes a second that a core cleans at least, by which it is judged whether a text is too large for the
 * minutes */
static const double clean_rate = 2e7;

Status speedrun_inputs(SpeedrunInputs *found, const Options *o)
{
    Inputs in = {0};
    *found = (SpeedrunInputs){0};
    TRY(inputs_expand(&in, o->speedrun_input.text, o->speedrun_input.count, input_block_kind(o)));
    for (int64_t i = 0; i < in.paths; i++) {
        found->bytes += (double)source_size(in.path[i]);
        found->plain += strstr(path_leaf(in.path[i], strlen(in.path[i])), ".txt") != NULL;
    }
    found->files = in.paths;
    inputs_free(&in);
    double minutes = speedrun_minutes(o), bytes = found->bytes;
    double needs   = bytes / (clean_rate * team_cores()) / 60;
    char   size[24];
    if (minutes == 0 || needs <= minutes / 2) return OK;
    return fail(BAD_OPTION, "--minutes %g: cleaning the %s of --input takes up to %.0f minutes on %d cores, "
                "and half of the time is for training; give --minutes %.0f, or a part of the texts", minutes,
                log_bytes(size, bytes), ceil(needs), team_cores(), ceil(2 * needs));
}

/* What `jotun clean` has left, and what it dropped since no text in UTF-8 looks like it. */
typedef struct { int64_t documents, bytes, read, bytes_read, not_utf8, with_nul, broken; } Cleaned;

/* Encodings of other programs look like files that are no text: UTF-16 by its NULs, others by bytes that are
 * not UTF-8. A single document is often a book that is not cut. */
static void way_out(char *hint, size_t room, const Cleaned *c, const char *input)
{
    if (c->not_utf8 + c->with_nul > c->documents)
        snprintf(hint, room,
                 "; %" PRId64 " were skipped since they are not UTF-8 and %" PRId64
                 " since they have bytes 0: "
                 "--input-encoding UTF-16LE or UTF-16BE reads a text with bytes 0, --input-encoding "
                 "ISO-8859-1 (Western Europe), SHIFT_JIS (Japanese) or another encoding a text without, and "
                 "a file of another format, such as PDF or a program, is no text",
                 c->not_utf8, c->with_nul);
    else if (c->broken > c->documents)
        snprintf(hint, room,
                 "; %" PRId64 " were skipped as broken, as the lines above say: --json-keys names the key "
                 "under which JSON lines have their text, and --input-format another format",
                 c->broken);
    FILE *out = c->documents == 1 && !*hint ? fmemopen(hint, room - 1, "w") : NULL;
    if (!out) return;
    fputs("; fold -s -w 4000 ", out);
    shell_word_write(out, input);
    fputs(" > lines.txt cuts a long line into documents", out);
    fclose(out);
}

static Status too_little(const Speedrun *s, const Cleaned *c)
{
    char        hint[1600] = "";
    const char *input     = s->o->speedrun_input.text[0];
    way_out(hint, sizeof hint, c, input);
    return fail(
        BAD_FILE,
        "--input %s: %" PRId64 " document%s of %" PRId64 " bytes %s left after cleaning, and a run "
        "needs 2 documents and 500 bytes or more, since some are held out (a line of a .txt file is a "
        "document); %s says what was dropped%s",
        input, c->documents, c->documents == 1 ? "" : "s", c->bytes, c->documents == 1 ? "is" : "are",
        speedrun_path(s, "clean.html"), hint);
}

/* Prose that is wrapped at a column looks like very many short documents. */
static void warn_wrapped(const Cleaned *c, const SpeedrunInputs *in)
{
    enum { MEAN_BYTES = 100, LINES_OF_FILE = 100 };
    if (in->plain < in->files || c->read < LINES_OF_FILE * in->files) return;
    if (c->bytes_read >= MEAN_BYTES * c->read) return;
    log_line("speedrun: each line of a .txt file is a document: %" PRId64 " of %" PRId64
             " bytes on average, %" PRId64 " of them dropped; where the lines are wrapped prose, "
             "--input-format paragraphs makes a document of the lines between two blank ones, or write each "
             "document on one line, or as a JSON line",
             c->read, c->bytes_read / c->read, c->read - c->documents);
}

/* Of the report of `jotun clean`; a run of too little text ends before this stage counts as done, so that it
 * can be begun again with more. */
static Status cleaned_check(const Speedrun *s, json_t *facts)
{
    Cleaned c = { 0 };
    json_t *report = json_load_file(speedrun_path(s, "clean.json"), 0, NULL);
    json_unpack(report, "{s:{s:I, s:I}, s:{s:I, s:I}, s:{s?:{s:I}, s?:{s:I}, s?:{s:I}}}",
                "in", "documents", &c.read, "bytes", &c.bytes_read,
                "written", "documents", &c.documents, "bytes", &c.bytes,
                "dropped", "not UTF-8", "documents", &c.not_utf8, "with NUL", "documents", &c.with_nul,
                "broken", "documents", &c.broken);
    json_decref(report);
    if (!options_typed_by_person(s->o, OPTION_input_format)) warn_wrapped(&c, &s->inputs);
    if (c.documents < 2 || c.bytes < 500) return too_little(s, &c);
    json_object_set_new(facts, "documents", json_integer(c.documents));
    json_object_set_new(facts, "not_utf8", json_integer(c.not_utf8));
    json_object_set_new(facts, "with_nul", json_integer(c.with_nul));
    if (c.not_utf8 + c.with_nul > c.documents / 10)
        log_line("speedrun: %" PRId64 " documents were skipped since they are not UTF-8 and %" PRId64
                 " since they have bytes 0, and %" PRId64 " are used; --input-encoding reads texts of "
                 "other encodings, and files that are no texts are better removed",
                 c.not_utf8, c.with_nul, c.documents);
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

/* ---- documents held out ---- */

/* A twentieth of the text, and of a large text so many bytes: an evaluation of more takes time and tells no
 * more. */
static const double heldout_share = 0.05, heldout_most = 2e6;
enum { DOCUMENTS_SORTED = 1 << 20, FLUSH = 1 << 20 };

typedef struct {
    uint64_t hash;
    int64_t  bytes;
} HashedDocument;
typedef struct {
    HashedDocument *document; /* owned; the first DOCUMENTS_SORTED */
    int64_t         documents, bytes, smallest;
    /* Documents of at most so many bytes with hashes below this are held out; of the others those below
     * train_below are trained on, the rest of a large text is left out. */
    int64_t  heldout_bytes;
    uint64_t heldout_below, train_below;
} Split;

/* What decides is the text alone, so that a document stays on its side whatever else is in the input. */
static uint64_t hash_of(const Document *d)
{
    return XXH3_64bits(d->text, (size_t)d->bytes);
}

static int by_hash(const void *a, const void *b)
{
    const HashedDocument *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

static Status split_count(Split *p, const char *path)
{
    Source  *source;
    Document d;
    bool     more;
    TRY(source_open(&source, path, "text", (TextRules){ 0 }));
    Status status = source_next(source, &d, &more);
    for (; status == OK && more; status = source_next(source, &d, &more)) {
        if (p->documents < DOCUMENTS_SORTED)
            p->document[p->documents] = (HashedDocument){hash_of(&d), d.bytes};
        p->smallest = p->documents++ && p->smallest < d.bytes ? p->smallest : d.bytes;
        p->bytes += d.bytes;
    }
    source_close(source);
    return status;
}

/* Of few documents those with the lowest hashes until they have the share of the bytes; of many those below a
 * share of all hashes, which is as good. A document that is larger than the share is trained on, unless all
 * are. */
static void split_bounds(Split *p, int64_t bytes_most)
{
    double  target = fmin(heldout_share * (double)p->bytes, heldout_most);
    int64_t taken = 0, i = 0, sorted = p->documents < DOCUMENTS_SORTED ? p->documents : DOCUMENTS_SORTED;
    p->heldout_bytes = target > (double)p->smallest ? (int64_t)target : p->smallest;
    double held = target / (double)p->bytes;
    p->heldout_below = held >= 1 ? UINT64_MAX : (uint64_t)(held * 18446744073709551615.0);
    if (p->documents <= DOCUMENTS_SORTED) {
        qsort(p->document, (size_t)sorted, sizeof *p->document, by_hash);
        for (; i < sorted - 1 && (double)taken < target; i++)
            if (p->document[i].bytes <= p->heldout_bytes) taken += p->document[i].bytes;
        p->heldout_below = sorted < 2 ? 0 : p->document[i].hash;
        if (sorted >= 2 && taken == 0) p->heldout_below = UINT64_MAX;        /* only the last one is small */
    }
    double   share = (double)bytes_most / (double)p->bytes;
    uint64_t room  = UINT64_MAX - p->heldout_below;
    p->train_below = share >= 1 ? UINT64_MAX : p->heldout_below + (uint64_t)(share * (double)room);
}

static Status sink_document(Sink *sink, const Document *d)
{
    TRY(buffer_format(&sink->text, "{\"text\": "));
    TRY(json_text_string(&sink->text, json_text_of(d->text, d->bytes)));
    TRY(buffer_format(&sink->text, "}\n"));
    return sink_flush(sink, FLUSH);
}

typedef struct {
    Sink    sink;
    int64_t documents, bytes;
} Side;

static Status split_write(const Speedrun *s, const Split *p, Side side[2])
{
    static const char *const name[2] = {"heldout.jsonl", "train.jsonl"};
    Source                  *source;
    Document                 d;
    bool                     more;
    TRY(source_open(&source, speedrun_path(s, "clean.jsonl"), "text", (TextRules){ 0 }));
    Status status = OK;
    for (int i = 0; i < 2 && status == OK; i++) status = sink_open(&side[i].sink, speedrun_path(s, name[i]));
    if (status == OK) status = source_next(source, &d, &more);
    for (; status == OK && more && !*s->stop; status = source_next(source, &d, &more)) {
        uint64_t hash = hash_of(&d);
        bool     held = hash < p->heldout_below && d.bytes <= p->heldout_bytes;
        if (hash >= p->train_below && !held) continue;
        Side *mine = &side[!held];
        mine->documents++;
        mine->bytes += d.bytes;
        status = sink_document(&mine->sink, &d);
        if (status != OK) break;
    }
    source_close(source);
    if (status == OK && *s->stop)
        status = fail(INTERRUPTED, "stopped by a signal; the same command resumes %s", s->folder);
    for (int i = 0; i < 2 && status == OK; i++) status = sink_finish(&side[i].sink);
    return status;
}

Status stage_split(Speedrun *s, json_t *facts)
{
    Split     p       = {.document = calloc(DOCUMENTS_SORTED, sizeof *p.document)};
    Side      side[2] = {{.sink.fd = -1}, {.sink.fd = -1}};
    RecipeAsk ask     = speedrun_ask(s->o);
    if (!p.document) return fail(NO_MEMORY, "no memory for the documents' hashes");
    Status status = split_count(&p, speedrun_path(s, "clean.jsonl"));
    if (status == OK) split_bounds(&p, recipe_bytes_most(&ask, team_cores()));
    if (status == OK) status = split_write(s, &p, side);
    for (int i = 0; i < 2; i++) sink_discard(&side[i].sink);
    free(p.document);
    TRY(status);
    json_object_set_new(facts, "heldout_documents", json_integer(side[0].documents));
    json_object_set_new(facts, "heldout_bytes", json_integer(side[0].bytes));
    json_object_set_new(facts, "train_documents", json_integer(side[1].documents));
    json_object_set_new(facts, "train_bytes", json_integer(side[1].bytes));
    json_object_set_new(facts, "left_out_documents",
                        json_integer(p.documents - side[0].documents - side[1].documents));
    log_line("speedrun: %" PRId64 " documents of %" PRId64 " bytes to train on; %" PRId64 " of %" PRId64
             " bytes, small ones with the lowest "
             "hashes of their text, are held out",
             side[1].documents, side[1].bytes, side[0].documents, side[0].bytes);
    if (p.documents > side[0].documents + side[1].documents)
        log_line("speedrun: %" PRId64 " documents more than the run can read are left out, by their hashes",
                 p.documents - side[0].documents - side[1].documents);
    return OK;
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
