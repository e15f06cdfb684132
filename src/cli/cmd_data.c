/* Pairs of .bin and .idx: jotun data info PREFIX, jotun data cat PREFIX [--tokenizer T],
 * jotun data merge PREFIX... --output-prefix P */
#include <inttypes.h>
#include <stdio.h>
#include "base/log.h"
#include "cli/command.h"
#include "cli/data_run.h"
#include "cli/in_out.h"
#include "cli/signals.h"
#include "conf/conf.h"
#include "data/foreign.h"
#include "data/shard.h"
#include "text/decoder.h"

static Status info(const Shard *shard, const Options *o)
{
    (void)o;
    int64_t shortest = shard->sequences ? INT64_MAX : 0, longest = 0, empty = 0;
    char bytes[24];
    for (int64_t s = 0; s < shard->sequences; s++) {
        int64_t length = shard_length(shard, s);
        if (length < shortest) shortest = length;
        if (length > longest)  longest  = length;
    }
    for (int64_t d = 0; d < shard->documents; d++) empty += shard_document(shard, d) == shard_document(shard, d + 1);
    printf("file       %s\n", shard->bin.path);
    printf("format     %s\n", pair_kind_name(PAIR_MEGATRON));
    printf("tokens     %" PRId64 " (%s, %s)\n", shard->tokens, shard->width == 2 ? "uint16" : "int32",
           log_bytes(bytes, (double)shard->bin.size));
    printf("documents  %" PRId64 " (%" PRId64 " empty)\n", shard->documents, empty);
    printf("sequences  %" PRId64 " (%" PRId64 " to %" PRId64 " tokens)\n", shard->sequences, shortest, longest);
    return OK;
}

static Status token_print(const Shard *shard, Decoder *said, int64_t at)
{
    const Tokenizer *t = said->tokenizer;
    int32_t id = shard_token(shard, at);
    if (id < 0 || id >= t->vocabulary)
        return fail(BAD_FILE, "%s: byte %" PRId64 ": token %d is none of the %d of --tokenizer %s; give the one it was prepared with",
                    shard->bin.path, at * shard->width, id, t->vocabulary, t->name);
    decoder_put(said, stdout, id);
    return OK;
}

/* A document a line, as it was; ends of documents are no text. */
static Status documents_print(const Shard *shard, const Tokenizer *tokenizer)
{
    int64_t at = 0;
    Decoder said = { .tokenizer = tokenizer };
    for (int64_t d = 0; d < shard->documents && !ferror(stdout); d++) {
        int64_t next = shard_document(shard, d + 1);
        int64_t end  = next < shard->sequences ? shard_start(shard, next) : shard->tokens;
        for (; at < end; at++) TRY(token_print(shard, &said, at));
        decoder_end(&said, stdout);
        putchar('\n');
    }
    return OK;
}

static Status cat(const Shard *shard, const Options *o)
{
    Tokenizer t;
    TRY(tokenizer_open(&t, o->tokenizer));
    Status status = documents_print(shard, &t);
    tokenizer_close(&t);
    return status;
}

/* ---- fairseq's ---- */

static Status foreign_info(const Foreign *f, const Options *o)
{
    (void)o;
    char bytes[24];
    int64_t shortest = f->items ? INT64_MAX : 0, longest = 0;
    for (int64_t i = 0; i < f->items; i++) {
        int64_t length = foreign_length(f, i);
        if (length < shortest) shortest = length;
        if (length > longest)  longest  = length;
    }
    printf("file       %s\n", f->bin.path);
    printf("format     %s\n", pair_kind_name(f->kind));
    printf("tokens     %" PRId64 " (%s, %s)\n", f->tokens, foreign_type(f), log_bytes(bytes, (double)f->bin.size));
    printf("items      %" PRId64 " (%" PRId64 " to %" PRId64 " tokens)\n", f->items, shortest, longest);
    return OK;
}

/* An item a line, as the numbers of its dictionary */
static Status foreign_cat(const Foreign *f, const Options *o)
{
    if (options_typed_by_person(o, OPTION_tokenizer))
        return fail(BAD_OPTION, "--tokenizer %s: the ids of %s are those of fairseq's dictionary, and are shown as numbers; leave it out",
                    o->tokenizer, f->bin.path);
    for (int64_t i = 0; i < f->items && !ferror(stdout); i++) {
        int64_t begin = foreign_start(f, i), length = foreign_length(f, i);
        for (int64_t t = 0; t < length; t++) printf(t ? " %" PRId64 : "%" PRId64, foreign_token(f, begin + t));
        putchar('\n');
    }
    return OK;
}

/* ---- the commands ---- */

typedef Status ShardLook(const Shard *shard, const Options *o);
typedef Status ForeignLook(const Foreign *foreign, const Options *o);

static Status pair_look(const Options *o, ShardLook *at, ForeignLook *at_foreign)
{
    const char *prefix = o->words.text[0];
    PairKind kind;
    Shard    shard   = { 0 };
    Foreign  foreign = { 0 };
    char     path[1024];
    bool     there = snprintf(path, sizeof path, "%s.idx", prefix) < (int)sizeof path && file_exists(path);
    if (there) TRY(pair_kind(&kind, prefix));
    if (!there || kind == PAIR_MEGATRON) {              /* shard_open has the words for a wrong prefix */
        TRY(shard_open(&shard, prefix));
        Status status = at(&shard, o);
        shard_close(&shard);
        return status;
    }
    TRY(foreign_open(&foreign, prefix));
    Status status = at_foreign(&foreign, o);
    foreign_close(&foreign);
    return status;
}

/* Of a pair, or of what the options of a run name */
Status cmd_data_info(int argc, char **argv)
{
    Options o;
    Status  status = options_parse(&o, FOR_DATA_INFO, argc, argv);
    bool    run = status == OK && data_run_asked(&o);
    const char *wanted = run ? "no PREFIX beside --data-path" : "PREFIX or --data-path [W] PREFIX...";
    if (status == OK) status = options_expect(&o, run ? 0 : 1, wanted);
    if (status == OK) status = run ? data_run_show(&o) : pair_look(&o, info, foreign_info);
    options_close(&o);
    return status;
}

Status cmd_data_cat(int argc, char **argv)
{
    Options o;
    Status  status = options_parse(&o, FOR_DATA_CAT, argc, argv);
    if (status == OK) status = options_expect(&o, 1, "PREFIX");
    if (status == OK) status = pair_look(&o, cat, foreign_cat);
    options_close(&o);
    return status;
}


/* ---- merging ---- */

/* The first part says how wide the tokens are. */
static Status part_merge(ShardWriter **writer, const char *part, const char *prefix, const volatile sig_atomic_t *stop)
{
    enum { NARROW = 65499, WIDE = INT32_MAX };
    Shard shard;
    TRY(shard_open(&shard, part));
    Status status = *writer ? OK : shard_create(writer, prefix, shard.width == 2 ? NARROW : WIDE);
    if (status == OK) status = shard_merge(*writer, &shard, stop);
    shard_close(&shard);
    return status;
}

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

static Status merge(const Options *o)
{
    ShardWriter *writer = NULL;
    Status status = OK;
    if (o->words.count == 0) return options_expect(o, 1, "PREFIX");
    if (!o->output_prefix) return fail(BAD_OPTION, "jotun data merge wants --output-prefix P");
    TRY(parts_spared(&o->words, o->output_prefix));
    const volatile sig_atomic_t *stop = signals_catch("\njotun: stops and leaves nothing behind; the same signal again leaves at once\n");
    for (int i = 0; status == OK && i < o->words.count; i++) status = part_merge(&writer, o->words.text[i], o->output_prefix, stop);
    if (status == OK) return shard_finish(writer);
    if (writer) shard_discard(writer);
    return status;
}

Status cmd_data_merge(int argc, char **argv)
{
    Options o;
    Status  status = options_parse(&o, FOR_MERGE, argc, argv);
    if (status == OK) status = merge(&o);
    options_close(&o);
    return status;
}
