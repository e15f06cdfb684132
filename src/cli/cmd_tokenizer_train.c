/* jotun tokenizer train --input F... --vocab-size N --output T.json: learns a byte-level BPE from documents.
 * This file reads the documents in batches; text/bpe counts their words with several threads and learns the
 * merges. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"
#include "base/team.h"
#include "cli/command.h"
#include "cli/in_out.h"
#include "cli/setup/setup.h"
#include "conf/conf.h"
#include "corpus/read/source.h"
#include "text/bpe/bpe_train.h"

enum { BATCH_BYTES = 16 << 20 };                 /* of text that is read before all threads count its words */

typedef struct {
    const Options *options;
    Team          *team;
    BpeTrain      *train;
    Buffer         batch;                        /* the text of its documents, without gaps */
    TextPiece     *document;                     /* owned; [documents] of the batch */
    int64_t        documents, documents_capacity;
    int64_t        all, read;                    /* documents and bytes of the whole input so far */
    int64_t        last_report;                    /* clock of the last line of progress, nanoseconds */
} Learn;

static void batch_feed(Learn *l)
{
    const char *at = l->batch.text;
    /* The texts get their addresses only now, because the batch may have moved whenever it grew. */
    for (int64_t i = 0; i < l->documents; at += l->document[i++].bytes) l->document[i].text = at;
    bpe_train_feed(l->train, l->document, l->documents);
    l->batch.bytes = l->documents = 0;
    if (seam_seconds_since(l->last_report) < (log_terminal() ? 0.2 : 10)) return;
    l->last_report = seam.clock();
    char read[24];
    log_progress("tokenizer train: %s read", log_bytes(read, (double)l->read));
}

static Status document_add(Learn *l, Document d)
{
    TRY(ARRAY_RESERVE(l->document, l->documents_capacity, l->documents + 1));
    TRY(buffer_add(&l->batch, d.text, d.bytes));
    l->document[l->documents++].bytes = d.bytes;
    l->read  += d.bytes;
    l->all++;
    if (l->batch.bytes >= BATCH_BYTES) batch_feed(l);
    return OK;
}

/* An input is read once for each key. Plain text has no keys and would be counted once for each, so that it
 * is refused where there are several. */
static Status source_add(Learn *l, Source *source, const char *name)
{
    Document document;
    bool more;
    int keys = l->options->json_keys.count;
    for (;;) {
        TRY(source_next(source, &document, &more));
        if (!more) return OK;
        if (keys > 1 && !source_json(source))
            return fail(BAD_OPTION, "%s: a line of plain text is one text, and --json-keys asks for %d; "
                        "leave it out", name, keys);
        TRY(document_add(l, document));
    }
}

static Status inputs_add(Learn *l)
{
    const Options *o = l->options;
    for (int i = 0; i < o->input.count * o->json_keys.count; i++) {
        Source *source;
        const char *path = o->input.text[i / o->json_keys.count];
        TRY(source_open(&source, path, o->json_keys.text[i % o->json_keys.count], text_rules(o)));
        Status status = source_add(l, source, path);
        source_close(source);
        TRY(status);
    }
    batch_feed(l);
    return l->read ? OK : fail(BAD_FILE, "%s: no text in it", o->input.text[0]);
}

static Status learn(Learn *l)
{
    char bytes[24], time[24];
    const Options *o = l->options;
    int64_t begun = l->last_report = seam.clock();
    TRY(inputs_add(l));
    log_progress("tokenizer train: %s read, merging pairs", log_bytes(bytes, (double)l->read));
    bpe_train_merge(l->train);
    log_progress_end();
    TRY(bpe_train_write(l->train, o->tokenizer_output));
    int32_t ids = bpe_train_ids(l->train);
    if (ids < o->learned_vocabulary)
        log_line("tokenizer train: no pair occurs %" PRId64 " times (--min-frequency); the vocabulary has %d"
                 " ids, fewer than --vocab-size %" PRId64, o->min_frequency, ids, o->learned_vocabulary);
    log_line("tokenizer train: %" PRId64 " documents, %s, %" PRId64 " distinct words, %d ids in %s: %s",
             l->all, log_bytes(bytes, (double)l->read), bpe_train_words(l->train), ids,
             log_time(time, seam_seconds_since(begun)), o->tokenizer_output);
    return OK;
}

Status cmd_tokenizer_train(Options *o)
{
    Learn l = { .options = o };
    TRY(options_validate(o));
    TRY(inputs_are_files(o->input.text, o->input.count));
    TRY(standard_input_once(o->input.text, o->input.count, o->json_keys.count));
    for (int i = 0; i < o->input.count; i++) TRY(input_spared(o->input.text[i], o->tokenizer_output));
    note_wrapped_lines("tokenizer train", o->input.text, o->input.count, text_rules(o));
    TRY(file_writable(o->tokenizer_output));     /* found out before hours of reading, not after */
    Status status = team_open(&l.team, o->tool_threads ? (int)o->tool_threads : team_cores());
    BpePlan plan = setup_bpe(o, l.team);
    if (status == OK) status = bpe_train_open(&l.train, &plan);
    if (status == OK) status = learn(&l);
    log_progress_end();
    bpe_train_close(l.train);
    team_close(l.team);
    buffer_free(&l.batch);
    free(l.document);
    return status;
}
