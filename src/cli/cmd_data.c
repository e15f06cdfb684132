/* The commands for token files, PREFIX.bin with PREFIX.idx, of Megatron or of fairseq:
 *   jotun data info PREFIX | --data-path ...          counts a token file, or what a run would read
 *   jotun data cat PREFIX [--tokenizer T]             prints its documents
 *   jotun data check PREFIX... [--tokenizer T]        reads all of them, and makes or compares their facts
 *   jotun data merge PREFIX... --output-prefix P      concatenates token files, also
 *                                                     of llm.c and nanoGPT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/setup/setup.h"
#include "cli/signals.h"
#include "conf/conf.h"
#include "data/raw_tokens.h"
#include "data/token_facts.h"
#include "text/decoder.h"

static void facts_print(const TokenFacts *f)
{
    if (*f->fingerprint) printf("tokenizer  %s (%s)\n", *f->tokenizer ? f->tokenizer : "(no name)",
                                f->fingerprint);
    if (*f->options)     printf("options    %s\n", f->options);
    if (f->largest >= 0) printf("largest id %" PRId64 "\n", f->largest);
}

/* The facts beside the pair; of a pair without them the largest id, which takes reading all of it. */
static Status facts_show(const TokenFile *file, const char *prefix)
{
    enum { READ_MOST = 1 << 30 };
    TokenFacts facts = { 0 };
    bool       found;
    token_facts_find(&facts, &found, file, prefix);
    if (!found && file->bin.size > READ_MOST) {
        printf("largest id not known: jotun data check %s finds it\n", prefix);
        return OK;
    }
    if (!found) TRY(token_facts_largest(&facts.largest, file, NULL));
    facts_print(&facts);
    return OK;
}

/* Of fairseq's formats the items; of Megatron-LM's documents, sequences and facts. */
static Status info(const TokenFile *token_file, const Options *o)
{
    int64_t shortest = token_file->sequences ? INT64_MAX : 0, longest = 0, empty = 0;
    char bytes[24];
    for (int64_t s = 0; s < token_file->sequences; s++) {
        int64_t length = token_file_length(token_file, s);
        if (length < shortest) shortest = length;
        if (length > longest)  longest  = length;
    }
    for (int64_t d = 0; d < token_file->documents; d++)
        empty += token_file_document(token_file, d) == token_file_document(token_file, d + 1);
    printf("file       %s\n", token_file->bin.path);
    printf("format     %s\n", token_file_kind_name(token_file->kind));
    printf("tokens     %" PRId64 " (%s, %s)\n", token_file->tokens, token_file_type(token_file),
           log_bytes(bytes, (double)token_file->bin.size));
    if (token_file->kind != TOKEN_FILE_MEGATRON) {
        printf("items      %" PRId64 " (%" PRId64 " to %" PRId64 " tokens)\n", token_file->sequences,
               shortest, longest);
        return OK;
    }
    printf("documents  %" PRId64 " (%" PRId64 " empty)\n", token_file->documents, empty);
    printf("sequences  %" PRId64 " (%" PRId64 " to %" PRId64 " tokens)\n", token_file->sequences, shortest,
           longest);
    return facts_show(token_file, o->words.text[0]);
}

static Status token_check(const TokenFile *token_file, const Tokenizer *t, int64_t at)
{
    int32_t id = token_file_token(token_file, at);
    if (id >= 0 && id < t->vocabulary) return OK;
    return fail(BAD_FILE, "%s: byte %" PRId64 ": token %d is none of the %d of --tokenizer %s; give the one "
                "it was prepared with", token_file->bin.path, at * token_file->width, id, t->vocabulary,
                t->name);
}

/* Prints one document a line; the id that ends a document has no text. The first LOOK_AHEAD tokens are
 * checked before anything is printed, so that a wrong tokenizer usually prints nothing; to check all tokens
 * of a large token file first would take minutes, so that the later ones are checked as they are printed. */
static Status documents_print(const TokenFile *token_file, const Tokenizer *tokenizer)
{
    enum { LOOK_AHEAD = 1 << 26 };
    int64_t at = 0;
    Decoder said = { .tokenizer = tokenizer };
    for (int64_t i = 0; i < token_file->tokens && i < LOOK_AHEAD; i++)
        TRY(token_check(token_file, tokenizer, i));
    for (int64_t d = 0; d < token_file->documents && !ferror(stdout); d++) {
        int64_t next = token_file_document(token_file, d + 1);
        int64_t end  = token_file_start(token_file, next);
        for (; at < end; at++) {
            TRY(token_check(token_file, tokenizer, at));
            decoder_put(&said, stdout, token_file_token(token_file, at));
        }
        decoder_end(&said, stdout);
        putchar('\n');
    }
    return OK;
}

static Status cat(const TokenFile *token_file, const Options *o)
{
    Tokenizer t;
    char      fingerprint[TOKENIZER_FINGERPRINT];
    TRY(tokenizer_open(&t, o->tokenizer));
    tokenizer_fingerprint(fingerprint, &t);
    TokenReader reader = { o->tokenizer, fingerprint, INT64_MAX, false };     /* documents_print checks ids */
    Status status = token_facts_suit(token_file, o->words.text[0], &reader);
    if (status == OK) status = documents_print(token_file, &t);
    tokenizer_close(&t);
    return status;
}

/* ---- token files of fairseq ---- */

/* Prints one item a line, as numbers: the dictionary that gives the ids a meaning is not in the file. */
static Status items_cat(const TokenFile *f, const Options *o)
{
    if (options_typed_by_person(o, OPTION_tokenizer))
        return fail(BAD_OPTION, "--tokenizer %s: the ids of %s are those of a dictionary of words, and are "
                    "shown as numbers; leave it out", o->tokenizer, f->bin.path);
    for (int64_t i = 0; i < f->sequences && !ferror(stdout); i++) {
        int64_t begin = token_file_start(f, i), length = token_file_length(f, i);
        for (int64_t t = 0; t < length; t++)
            printf(t ? " %" PRId64 : "%" PRId64, token_file_id(f, begin + t));
        putchar('\n');
    }
    return OK;
}

/* ---- what a run with the given --data-path would read ---- */

static void part_show(const BlendPart *part, bool weighted, const Order *order)
{
    char weight[32] = "";
    const OrderPlan *p = &order->plan;
    if (weighted) snprintf(weight, sizeof weight, "weight %g, ", part->weight);
    printf("  %s%s%s%s: %s%" PRId64 " tokens per epoch, %" PRId64 " epoch%s%s, %" PRId64 " samples\n",
           part->prefix, part->corpus ? " (" : "", part->corpus ? part->corpus : "", part->corpus ? ")" : "",
           weight, p->tokens, p->epochs,
           p->epochs == 1 ? "" : "s", p->separate ? ", the last one shuffled separately" : "", p->samples);
}

static void split_show(const Datasets *datasets, int set, int64_t sequence)
{
    char bytes[24];
    const Blend *b = &datasets->blend[set];
    const DatasetFiles *files = datasets_files(datasets, set);
    int64_t wanted = datasets->spec.wanted[set] < 0 ? b->samples : datasets->spec.wanted[set];
    /* The order `jotun` computes the index of a sample instead of storing it. */
    double stored = datasets->spec.rules.order == ORDER_JOTUN ? 0 : (double)blend_bytes(b);
    printf("%-10s %" PRId64 " samples, %" PRId64 " tokens; %s of indices\n", split_name(set_split(set)),
           wanted,
           wanted * sequence, log_bytes(bytes, stored));
    for (int i = 0; i < files->list.count; i++)
        part_show(&files->list.part[i], files->list.weighted, &b->order[i]);
}

/* Counts the samples as a run does. Without --train-iters or --eval-interval the length of a run is unknown,
 * and one epoch of the split is counted. */
static void samples_count(DatasetsPlan *spec, const Options *o)
{
    int64_t batch = o->global_batch ? o->global_batch : 1;
    int64_t evaluations = o->eval_interval ? o->train_iters / o->eval_interval + 1 : 1;
    int64_t evaluated = o->eval_global_batch ? o->eval_global_batch : batch;
    int64_t evaluation = o->eval_interval ? o->eval_iters * evaluated : 0;
    int64_t train = o->train_samples ? o->train_samples : o->train_iters * batch;
    bool whole = !evaluation || o->full_validation;
    spec->wanted[SPLIT_TRAIN] = train ? train : ORDER_ONE_EPOCH;
    spec->wanted[SPLIT_VALID] = whole ? ORDER_ONE_EPOCH : evaluations * evaluation;
    for (int set = SPLITS; set < DATA_SETS; set++) spec->wanted[set] = spec->wanted[SPLIT_VALID];
    spec->wanted[SPLIT_TEST]  = evaluation ? evaluation : ORDER_ONE_EPOCH;
}

/* Measures the datasets with the same functions as a run, but writes no indices. */
static Status run_show(Options *o)
{
    Datasets datasets;
    TRY(options_derive(o));
    TRY(options_validate(o));
    DatasetsPlan spec = { .split = o->split };
    TRY(setup_datasets(&spec.rules, o));
    LoaderConfig shape = { .sequence = o->sequence, .micro = 1, .global = 1, .dp = 1, .cp = 1,
                           .seed = (uint64_t)o->seed, .eod = -1 };
    samples_count(&spec, o);
    TRY(datasets_open(&datasets, &spec));
    printf("order      %s, seed %" PRId64 ", samples of %" PRId64 " tokens\n", o->data_order.word, o->seed,
           o->sequence);
    /* A split without data is reported but is no error, because a run may never read it. */
    for (int set = 0; set < DATA_SETS; set++) {
        if (!datasets_has(&datasets.spec.rules, set)) continue;
        if (datasets_measure(&datasets, set, &shape) == OK) split_show(&datasets, set, o->sequence);
        else printf("%-10s nothing: %s\n", split_name(set_split(set)), fail_text());
    }
    datasets_close(&datasets);
    return OK;
}

/* ---- the commands ---- */

typedef Status TokenFileCommand(const TokenFile *token_file, const Options *o);

static Status on_token_file(const Options *o, TokenFileCommand *on_tokens, TokenFileCommand *on_items)
{
    TokenFile token_file;
    TRY(token_file_open_any(&token_file, o->words.text[0]));
    Status status = (token_file.kind == TOKEN_FILE_MEGATRON ? on_tokens : on_items)(&token_file, o);
    token_file_close(&token_file);
    return status;
}

/* Counts one token file, or what a run with the given --data-path would read. */
Status cmd_data_info(Options *o)
{
    bool run = o->data_path.count || o->train_data_path.count || o->valid_data_path.count ||
               o->test_data_path.count || o->data_file_list || o->train_parts.count || o->train_parts_file;
    TRY(options_expect(o, run ? 0 : 1, run ? "no PREFIX beside --data-path"
                                           : "PREFIX or --data-path [W] PREFIX..."));
    return run ? run_show(o) : on_token_file(o, info, info);
}

Status cmd_data_cat(Options *o)
{
    TRY(options_expect(o, 1, "PREFIX"));
    return on_token_file(o, cat, items_cat);
}

/* ---- checking ---- */

/* Fills the tokenizer of the facts, where a person names one. *ids: how many it has; INT64_MAX: not known. */
static Status take_named_tokenizer(TokenFacts *facts, int64_t *ids, const Options *o)
{
    Tokenizer t;
    *ids = INT64_MAX;
    if (!options_typed_by_person(o, OPTION_tokenizer)) return OK;
    TRY(tokenizer_open(&t, o->tokenizer));
    *ids = t.vocabulary;
    snprintf(facts->tokenizer, sizeof facts->tokenizer, "%s", o->tokenizer);
    tokenizer_fingerprint(facts->fingerprint, &t);
    tokenizer_close(&t);
    return OK;
}

static Status check_ids(int64_t largest, int64_t ids, const char *prefix, const char *tokenizer)
{
    if (largest < ids) return OK;
    return fail(BAD_OPTION, "%s: its largest id is %" PRId64 ", and --tokenizer %s has %" PRId64 " ids: it "
                "is not the one that made these tokens", prefix, largest, tokenizer, ids);
}

static Status refuse_stale(const char *prefix)
{
    return fail(BAD_FILE, "%s; prepare or copy the pair again, or where it was changed on purpose, remove "
                "%s.facts.json, and jotun data check %s makes it again", fail_text(), prefix, prefix);
}

/* The facts that are there have to be these; the tokenizer that a person names has to be theirs. */
static Status facts_check(const TokenFacts *there, const TokenFacts *now, const TokenFile *file,
                          const char *prefix)
{
    Status status = token_facts_compare(there, file, prefix);
    if (status == OK && there->largest != now->largest)
        status = fail(BAD_FILE, "%s.facts.json: its largest id is %" PRId64 ", and that of %s.bin %" PRId64,
                      prefix, there->largest, prefix, now->largest);
    if (status != OK) return refuse_stale(prefix);
    bool both = *there->fingerprint && *now->fingerprint;
    if (both && tokenizer_match(there->fingerprint, now->fingerprint) == TOKENIZER_OTHER)
        return fail(BAD_OPTION, "%s was made by --tokenizer %s (%s), not by %s (%s)", prefix,
                    there->tokenizer, there->fingerprint, now->tokenizer, now->fingerprint);
    return OK;
}

static Status pair_check(const TokenFile *file, const char *prefix, const Options *o,
                         const volatile sig_atomic_t *stop)
{
    TokenFacts now = { 0 }, there;
    bool       found;
    int64_t    ids;
    TRY(take_named_tokenizer(&now, &ids, o));
    TRY(token_facts_measure(&now, file, stop));
    TRY(check_ids(now.largest, ids, prefix, o->tokenizer));
    if (token_facts_read(&there, &found, prefix) != OK) return refuse_stale(prefix);
    if (found) TRY(facts_check(&there, &now, file, prefix));
    bool names = found && !*there.fingerprint && *now.fingerprint;
    if (names) memcpy(now.options, there.options, sizeof now.options);
    if (found && !names) {
        printf("%s: whole, with the counts, index and largest id of %s.facts.json, which has no checksum of "
               "tokens\n", prefix, prefix);
        return OK;
    }
    /* A pair in a directory that cannot be written is checked as well. */
    bool wrote = token_facts_write(&now, prefix) == OK;
    if (wrote) printf("%s: whole; %s.facts.json is written\n", prefix, prefix);
    else       printf("%s: whole; %s\n", prefix, fail_text());
    facts_print(&now);
    return OK;
}

Status cmd_data_check(Options *o)
{
    const volatile sig_atomic_t *stop =
        signals_catch("\njotun: stops; the same signal again ends it at once\n");
    if (o->words.count == 0) return options_expect(o, 1, "PREFIX");
    for (int i = 0; i < o->words.count; i++) {
        TokenFile file;
        TRY(token_file_open(&file, o->words.text[i]));
        Status status = pair_check(&file, o->words.text[i], o, stop);
        token_file_close(&file);
        TRY(status);
    }
    return OK;
}


/* ---- merging ---- */

/* The facts of the result. of: the first part with a tokenizer, or "the result" where a person names it;
 * NULL: no part had one yet. named: a person names it. unknown: a part has none. */
typedef struct { TokenFacts facts; const char *of; bool named, unknown; int parts; } Merged;

/* A part without facts is of the tokenizer that a person names; otherwise that of the result is not known. */
static Status merged_add(Merged *m, const TokenFile *file, const char *part)
{
    TokenFacts its;
    bool       found;
    token_facts_find(&its, &found, file, part);
    const char *options = found ? its.options : "";            /* kept where they are those of all parts */
    if (m->parts++ == 0) snprintf(m->facts.options, sizeof m->facts.options, "%s", options);
    else if (strcmp(m->facts.options, options) != 0) m->facts.options[0] = 0;
    if (!found || !*its.fingerprint) {
        m->unknown |= !m->named;
        return OK;
    }
    if (!m->of) {
        m->of = part;
        memcpy(m->facts.tokenizer, its.tokenizer, sizeof its.tokenizer);
        memcpy(m->facts.fingerprint, its.fingerprint, sizeof its.fingerprint);
    }
    if (tokenizer_match(m->facts.fingerprint, its.fingerprint) != TOKENIZER_OTHER) return OK;
    return fail(BAD_OPTION, "the tokens of %s are of --tokenizer %s (%s), and those of %s of --tokenizer %s "
                "(%s): in one file an id has one meaning; prepare them with the same tokenizer", part,
                its.tokenizer, its.fingerprint, m->of, m->facts.tokenizer, m->facts.fingerprint);
}

static Status merged_finish(Merged *m, TokenFileWriter *writer, const Options *o)
{
    int64_t ids = INT64_MAX;
    TokenFacts named;
    TRY(take_named_tokenizer(&named, &ids, o));
    TRY(check_ids(token_file_largest(writer), ids, o->merge_prefix, o->tokenizer));
    if (m->unknown)
        log_line("data merge: not every part has a PREFIX.facts.json that names its tokenizer, so that of %s "
                 "names none; --tokenizer names it", o->merge_prefix);
    if (m->unknown) m->facts.fingerprint[0] = 0;
    token_file_describe(writer, &m->facts);
    return OK;
}

/* The writer is made when the first part is open, because that part decides how many bytes a token has. The
 * width follows from the vocabulary that the writer is given: Megatron writes uint16 for fewer than 65500
 * ids, int32 otherwise. */
static Status part_merge(TokenFileWriter **writer, Merged *merged, const char *part, const char *prefix,
                         const volatile sig_atomic_t *stop)
{
    enum { NARROW = 65499, WIDE = INT32_MAX };
    TokenFile token_file;
    TRY(token_file_open(&token_file, part));
    Status status = merged_add(merged, &token_file, part);
    if (status == OK && !*writer)
        status = token_file_create(writer, prefix, token_file.width == 2 ? NARROW : WIDE);
    if (status == OK) status = token_file_merge(*writer, &token_file, stop);
    token_file_close(&token_file);
    return status;
}

/* A token file of llm.c or nanoGPT: the tokenizer says how many ids there are and which one
 * ends a document. */
static Status raw_merge(TokenFileWriter **writer, const char *part, const Options *o,
                        const volatile sig_atomic_t *stop)
{
    RawTokens raw;
    Tokenizer t;
    if (!options_typed_by_person(o, OPTION_tokenizer))
        return fail(BAD_OPTION, "%s: a file of tokens without an index, as of llm.c or nanoGPT, needs "
                    "--tokenizer (which id ends a document)", part);
    TRY(raw_tokens_open(&raw, part));
    Status status = tokenizer_open(&t, o->tokenizer);
    if (status == OK) {
        if (!*writer) status = token_file_create(writer, o->merge_prefix, t.vocabulary);
        if (status == OK) status = raw_tokens_copy(*writer, &raw, t.vocabulary, t.eod, stop);
        tokenizer_close(&t);
    }
    raw_tokens_close(&raw);
    return status;
}

/* X.bin beside X.idx is a prefix with an ending too many, which token_file_open says. */
static bool is_raw(const char *part)
{
    char   index[1024];
    size_t bytes = strlen(part);
    if (!raw_tokens_is_file(part)) return false;
    return snprintf(index, sizeof index, "%.*sidx", (int)(bytes > 3 ? bytes - 3 : 0), part) >=
               (int)sizeof index ||
           !file_exists(index);
}

/* No part may be overwritten by the output, of which it is read. */
static Status parts_spared(const TextList *parts, const char *prefix)
{
    static const char *const endings[] = { "bin", "idx" };
    char in[1024], out[1024];
    for (int i = 0; i < 2 * parts->count; i++) {
        snprintf(in,  sizeof in,  "%s.%s", parts->text[i / 2], endings[i % 2]);
        snprintf(out, sizeof out, "%s.%s", prefix, endings[i % 2]);
        TRY(input_spared(in, out));
    }
    return OK;
}

Status cmd_data_merge(Options *o)
{
    TokenFileWriter *writer = NULL;
    Merged merged = { .named = options_typed_by_person(o, OPTION_tokenizer) };
    if (merged.named) merged.of = "the result";
    if (o->words.count == 0) return options_expect(o, 1, "PREFIX");
    if (!o->merge_prefix)
        return fail(BAD_OPTION, "jotun data merge needs --output-prefix P (it writes P.bin and P.idx)");
    TRY(parts_spared(&o->words, o->merge_prefix));
    TRY(output_directory("--output-prefix", o->merge_prefix));
    const volatile sig_atomic_t *stop =
        signals_catch("\njotun: stops and removes its files; the same signal again ends it at once\n");
    int64_t ids;
    Status  status = take_named_tokenizer(&merged.facts, &ids, o);
    for (int i = 0; status == OK && i < o->words.count; i++)
        status = is_raw(o->words.text[i])
                     ? raw_merge(&writer, o->words.text[i], o, stop)
                     : part_merge(&writer, &merged, o->words.text[i], o->merge_prefix, stop);
    if (status == OK) status = merged_finish(&merged, writer, o);
    if (status == OK) status = token_file_finish(writer);
    else if (writer) token_file_discard(writer);
    if (status == OK) log_line("data merge: %d token file%s: %s.bin, .idx", o->words.count,
                               o->words.count == 1 ? "" : "s", o->merge_prefix);
    return status;
}
