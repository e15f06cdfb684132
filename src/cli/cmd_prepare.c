/* Documents to Megatron's .bin/.idx: jotun prepare --input F... --tokenizer T --output-prefix P */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/seam.h"
#include "cli/command.h"
#include "conf/conf.h"
#include "corpus/source.h"
#include "data/shard.h"
#include "text/tokenizer.h"

typedef struct {
    const Options *options;
    Tokenizer   tokenizer;
    ShardWriter *writer;
    int32_t    *ids;
    int64_t     room;                           /* of ids */
    int64_t     documents, empty, tokens;
    int64_t     begun, told;                    /* clock, nanoseconds */
    int64_t     before, total;                  /* bytes of the inputs already done, of all; -1 where nobody can know */
} Prepare;

/* ---- progress ---- */

static double seconds_since(int64_t then) { return (double)(seam.clock() - then) * 1e-9; }

static void progress_tell(Prepare *p, int64_t bytes)
{
    char done[24], all[24], left[24];
    double seconds = seconds_since(p->begun), rate = (double)bytes / seconds;
    if (seconds_since(p->told) < (log_terminal() ? 0.2 : 10)) return;
    p->told = seam.clock();
    if (p->total < 0) log_progress("prepare: %s, %.1f MB/s", log_bytes(done, (double)bytes), rate * 1e-6);
    else log_progress("prepare: %s of %s, %.1f MB/s, %s left", log_bytes(done, (double)bytes),
                      log_bytes(all, (double)p->total), rate * 1e-6, log_time(left, (double)(p->total - bytes) / rate));
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

/* ---- documents ---- */

static Status ids_room(Prepare *p, int64_t count)
{
    if (count <= p->room) return OK;
    int32_t *grown = realloc(p->ids, (size_t)count * 2 * sizeof *p->ids);
    if (!grown) return fail(NO_MEMORY, "no memory for a document of %" PRId64 " tokens", count);
    p->ids  = grown;
    p->room = count * 2;
    return OK;
}

/* As Megatron does it: a document without tokens has no sequence, and no end either. */
static Status document_add(Prepare *p, Document document)
{
    TRY(ids_room(p, tokenizer_room(&p->tokenizer, document.bytes) + 1));
    int64_t count = p->tokenizer.encode(&p->tokenizer, p->ids, document.text, document.bytes);
    if (count < 0) return BAD_FILE;                              /* it said why */
    if (count && p->options->append_eod) p->ids[count++] = p->tokenizer.eod;
    if (count) TRY(shard_add(p->writer, p->ids, count));
    p->documents++;
    p->empty  += count == 0;
    p->tokens += count;
    return shard_end_document(p->writer);
}

static Status source_add(Prepare *p, Source *source)
{
    Document document;
    bool more;
    for (;;) {
        TRY(source_next(source, &document, &more));
        if (!more) break;
        TRY(document_add(p, document));
        progress_tell(p, p->before + source_read(source));
    }
    p->before += source_read(source);
    return OK;
}

static Status inputs_add(Prepare *p)
{
    const TextList *input = &p->options->input;
    for (int i = 0; i < input->count; i++) {
        Source *source;
        TRY(source_open(&source, input->text[i], p->options->json_keys));
        Status status = source_add(p, source);
        source_close(source);
        TRY(status);
    }
    return OK;
}

/* ---- the command ---- */

static Status prepare(Prepare *p)
{
    char prefix[900], bytes[24], time[24];
    const Options *o = p->options;
    if (snprintf(prefix, sizeof prefix, "%s_%s_document", o->output_prefix, o->json_keys) >= (int)sizeof prefix)
        return fail(BAD_OPTION, "--output-prefix %.80s...: longer than a path may be", o->output_prefix);
    if (o->append_eod && p->tokenizer.eod < 0)
        return fail(BAD_OPTION, "--append-eod: --tokenizer %s has no end of document; drop it", o->tokenizer);
    p->begun = p->told = seam.clock();
    p->total = inputs_size(&o->input);
    TRY(shard_create(&p->writer, prefix, p->tokenizer.vocabulary));
    Status status = inputs_add(p);
    log_progress_end();
    if (status == OK && p->documents == 0) status = fail(BAD_FILE, "%s: no documents in it", o->input.text[0]);
    if (status != OK) {
        shard_discard(p->writer);
        return status;
    }
    TRY(shard_finish(p->writer));
    double seconds = seconds_since(p->begun);
    log_line("prepare: %" PRId64 " documents (%" PRId64 " empty), %" PRId64 " tokens, %s in %s, %.1f MB/s: %s.bin,"
             " .idx", p->documents, p->empty, p->tokens, log_bytes(bytes, (double)p->before), log_time(time, seconds),
             (double)p->before / seconds * 1e-6, prefix);
    return OK;
}

static Status options_run(Options *o)
{
    Prepare p = { .options = o };
    TRY(options_derive(o));
    TRY(options_judge(o));
    TRY(tokenizer_open(&p.tokenizer, o->tokenizer));
    Status status = prepare(&p);
    tokenizer_close(&p.tokenizer);
    free(p.ids);
    return status;
}

Status cmd_prepare(int argc, char **argv)
{
    Options o;
    Status status = options_parse(&o, FOR_PREPARE, argc, argv);
    if (status == OK) status = options_run(&o);
    options_close(&o);
    return status;
}
