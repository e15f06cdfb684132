/* One pass over the store in document order writes the kept documents and describes the dropped ones;
 * pairs of duplicates are collected in memory on the way (16 bytes each) and written as --pairs and,
 * sorted by the kept document, as --clusters. */
#include "corpus/clean/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "corpus/clean/eta.h"
#include "corpus/clean/sink.h"

enum { FLUSH = 1 << 20 };          /* bytes of text that are collected before a write */

typedef struct { int64_t kept, removed; } DuplicatePair;              /* document numbers */

typedef struct {
    CleanRun             *run;
    const CleanPlan      *plan;
    int64_t               files;            /* output files opened so far */
    Sink                  out, dropped;
    StoreReader           reader;           /* of the documents in order */
    StoreReader           other;            /* of the documents kept for duplicates, which may be anywhere */
    Buffer                text, id;
    int64_t               part;             /* the next line or paragraph, counted over all kept documents */
    DuplicatePair        *pair;
    int64_t               pairs, pairs_capacity;
    Eta                   eta;
} WriteJob;

/* ---- names ---- */

/* The number precedes the first dot of the name, so that "sv.jsonl.zst" keeps both extensions. */
Status write_path(char *out, size_t size, const CleanPlan *p, int64_t number)
{
    int  used;
    const char *slash = strrchr(p->output, '/'), *name = slash ? slash + 1 : p->output;
    const char *dot = *name ? strchr(name + 1, '.') : NULL;
    if (!dot) dot = p->output + strlen(p->output);
    if (p->folder)
        used = snprintf(out, size, "%s/shard-%05" PRId64 "%s", p->output, number,
                        p->format == CLEAN_JSON ? ".jsonl" : ".txt");
    else if (!p->shard_bytes) used = snprintf(out, size, "%s", p->output);
    else used = snprintf(out, size, "%.*s-%05" PRId64 "%s", (int)(dot - p->output), p->output, number, dot);
    if (used < (int)size) return OK;
    return fail(BAD_OPTION, "--output %.80s...: the path is too long, give a shorter one", p->output);
}

/* Removes the shards of an earlier run with more of them: a reader of the directory would take them for
 * part of this output. */
static Status old_shards_remove(const CleanPlan *p, int64_t number)
{
    char path[1100];
    if (!p->folder && !p->shard_bytes) return OK;
    for (;; number++) {
        TRY(write_path(path, sizeof path, p, number));
        if (!file_exists(path)) return OK;
        if (seam.remove(path))
            return fail(IO_FAILED, "%s: a shard of an earlier run, cannot be removed: %m", path);
    }
}

static const char *input_name(const CleanPlan *p, int input)
{
    return strcmp(p->path[input], "-") ? p->path[input] : "standard input";
}

/* The id of a document: its own, or "F.txt:12" where the input has none, as UTF-8. */
static Status id_make(Buffer *out, const CleanPlan *p, const StoredDocument *d)
{
    out->bytes = 0;
    if (d->id.text) return buffer_add(out, d->id.text, d->id.bytes);
    TRY(utf8_repair(out, input_name(p, d->input), (int64_t)strlen(input_name(p, d->input))));
    return buffer_format(out, ":%" PRId64, d->line);
}

/* ---- documents that are kept ---- */

/* Leaves out lines or paragraphs that occurred before. They are numbered through all kept documents, in
 * the order in which resolve_duplicates.c added them; so every kept document must pass here exactly once. */
static Status parts_filter(WriteJob *job, JsonText *text)
{
    const char *part;
    int64_t     bytes, removed = 0;
    ExactWalk   walk = { .unit = job->plan->parts, .text = text->text, .bytes = text->bytes };
    job->text.bytes = 0;
    while (exact_part(&walk, &part, &bytes)) {
        if (exact_removed(job->run->duplicates.parts, job->part++)) {
            removed++;
            continue;
        }
        if (job->text.bytes) TRY(buffer_add(&job->text, "\n\n", job->plan->parts == EXACT_LINES ? 1 : 2));
        TRY(buffer_add(&job->text, part, bytes));
    }
    job->run->counts->parts += removed;
    if (removed) *text = (JsonText){ job->text.text, job->text.bytes };
    return OK;
}

/* One document is one line of a .txt file: each run of line ends within it becomes one space. */
static Status text_line_put(Buffer *out, JsonText text)
{
    for (int64_t at = 0; at < text.bytes; ) {
        const char *begin = text.text + at, *end = memchr(begin, '\n', (size_t)(text.bytes - at));
        int64_t bytes = end ? end - begin : text.bytes - at;
        TRY(buffer_add(out, begin, bytes));
        at += bytes;
        while (at < text.bytes && memchr("\n\r", text.text[at], 2)) at++;
        if (end && at < text.bytes && bytes) TRY(buffer_add(out, " ", 1));
    }
    return buffer_add(out, "\n", 1);
}

static Status json_put(WriteJob *job, const StoredDocument *d, JsonText text)
{
    Buffer *out = &job->out.text;
    const char *file = input_name(job->plan, d->input);
    TRY(id_make(&job->id, job->plan, d));
    TRY(buffer_add(out, "{\"id\": ", 7));
    TRY(json_text_string(out, json_text_of(job->id.text, job->id.bytes)));
    TRY(d->source.text ? json_text_member(out, "source", d->source) : json_text_path(out, "source", file));
    TRY(json_text_member(out, "url", d->url));
    TRY(json_text_member(out, "title", d->title));
    if (d->label >= 0) {
        TRY(json_text_path(out, "language", document_filter_label(&job->run->filter, d->label)));
        TRY(buffer_format(out, ", \"language_probability\": %.5f", (double)d->probability));
    }
    TRY(json_text_member(out, "text", text));
    return buffer_add(out, "}\n", 2);
}

/* Opens the first or, where the current shard is full, the next output file. */
static Status output_next(WriteJob *job)
{
    char path[1100];
    bool full = job->plan->shard_bytes && job->out.fd >= 0 &&
                job->out.bytes + job->out.text.bytes >= job->plan->shard_bytes;
    if (full) TRY(sink_finish(&job->out));
    if (job->out.fd >= 0) return OK;
    TRY(write_path(path, sizeof path, job->plan, job->files++));
    return sink_open(&job->out, path);
}

static Status document_put(WriteJob *job, const StoredDocument *d, const StoredRow *row, int *rule)
{
    JsonText text = d->text;
    if (job->run->duplicates.parts) TRY(parts_filter(job, &text));
    if (!text.bytes) {
        *rule = DROP_PARTS;
        return OK;
    }
    job->run->counts->kept.documents++;
    job->run->counts->kept.bytes += row->bytes;
    clean_counts_length(job->run->counts->length_kept, row->bytes);
    job->run->counts->written.documents++;
    job->run->counts->written.bytes += text.bytes;
    if (job->plan->sample) return OK;
    TRY(output_next(job));
    TRY(job->plan->format == CLEAN_JSON ? json_put(job, d, text) : text_line_put(&job->out.text, text));
    return sink_flush(&job->out, FLUSH);
}

/* ---- documents that are dropped ---- */

static Status id_of(WriteJob *job, int64_t document)
{
    StoredRow row;
    StoredDocument d;
    TRY(document_store_rows(job->run->store, &row, document, 1));
    TRY(document_store_read(job->run->store, &job->other, &d, &row));
    return id_make(&job->id, job->plan, &d);
}

static Status dropped_put(WriteJob *job, int64_t document, const StoredDocument *d, const StoredRow *row,
                          int rule)
{
    Buffer *out = &job->dropped.text;
    TRY(drop_reason_begin(out, rule, d->id, input_name(job->plan, d->input), d->line, row->bytes));
    if (rule != DROP_PARTS) {
        TRY(id_of(job, duplicate_sets_keeper(&job->run->duplicates, document)));
        TRY(json_text_member(out, "kept", json_text_of(job->id.text, job->id.bytes)));
    }
    TRY(buffer_add(out, "}\n", 2));
    return sink_flush(&job->dropped, FLUSH);
}

static Status pair_append(WriteJob *job, int64_t document)
{
    if (ARRAY_RESERVE(job->pair, job->pairs_capacity, job->pairs + 1) != OK)
        return fail(NO_MEMORY, "no memory for %" PRId64 " duplicates; leave out --pairs and --clusters",
                    job->pairs + 1);
    int64_t kept = duplicate_sets_keeper(&job->run->duplicates, document);
    job->pair[job->pairs++] = (DuplicatePair){ kept, document };
    return OK;
}

static Status document_drop(WriteJob *job, int64_t document, const StoredDocument *d, const StoredRow *row,
                            int rule)
{
    clean_counts_drop(job->run->counts, rule, row->bytes);
    if (rule != DROP_PARTS && (job->plan->pairs || job->plan->clusters)) TRY(pair_append(job, document));
    return job->dropped.fd >= 0 ? dropped_put(job, document, d, row, rule) : OK;
}

/* The documents dropped by the stages come first: their lines were written to the store by the scan. */
static Status dropped_copy(WriteJob *job)
{
    if (!job->plan->dropped || job->plan->sample) return OK;
    TRY(sink_open(&job->dropped, job->plan->dropped));
    int64_t total = document_store_size(job->run->store).bytes[STORE_DROPPED];
    for (int64_t at = 0, bytes; at < total; at += bytes) {
        Buffer *out = &job->dropped.text;
        bytes = total - at < FLUSH ? total - at : FLUSH;
        TRY(buffer_reserve(out, bytes));
        TRY(document_store_dropped(job->run->store, out->text + out->bytes, at, bytes));
        out->bytes += bytes;
        TRY(sink_flush(&job->dropped, 0));
    }
    return OK;
}

/* ---- clusters and pairs ---- */

/* A total order, so that the output does not depend on the implementation of qsort. */
static int by_keeper(const void *a, const void *b)
{
    const DuplicatePair *x = a, *y = b;
    if (x->kept != y->kept) return x->kept < y->kept ? -1 : 1;
    return (x->removed > y->removed) - (x->removed < y->removed);
}

static Status id_put(WriteJob *job, Buffer *out, const char *before, int64_t document)
{
    TRY(id_of(job, document));
    TRY(buffer_format(out, "%s", before));
    return json_text_string(out, json_text_of(job->id.text, job->id.bytes));
}

static Status pairs_put(WriteJob *job, Sink *sink)
{
    for (int64_t i = 0; i < job->pairs; i++) {
        DuplicatePair pair = job->pair[i];
        bool exact = duplicate_sets_reason(&job->run->duplicates, pair.removed) == DROP_EXACT;
        TRY(id_put(job, &sink->text, "{\"removed\": ", pair.removed));
        TRY(id_put(job, &sink->text, ", \"kept\": ", pair.kept));
        if (exact) TRY(buffer_format(&sink->text, ", \"rule\": \"%s\"}\n", drop_reason_name(DROP_EXACT)));
        else
            TRY(buffer_format(&sink->text, ", \"rule\": \"%s\", \"jaccard\": %.4f}\n",
                                 drop_reason_name(DROP_NEAR),
                                 (double)job->run->duplicates.jaccard[pair.removed]));
        TRY(sink_flush(sink, FLUSH));
    }
    return OK;
}

/* The pairs are sorted by the kept document, so a cluster is a run of them. */
static Status clusters_put(WriteJob *job, Sink *sink)
{
    for (int64_t i = 0, end; i < job->pairs; i = end) {
        for (end = i; end < job->pairs && job->pair[end].kept == job->pair[i].kept; ) end++;
        TRY(buffer_format(&sink->text, "{\"documents\": %" PRId64, end - i + 1));
        TRY(id_put(job, &sink->text, ", \"kept\": ", job->pair[i].kept));
        for (int64_t k = i; k < end; k++) {
            TRY(id_put(job, &sink->text, k == i ? ", \"removed\": [" : ", ", job->pair[k].removed));
            TRY(sink_flush(sink, FLUSH));
        }
        TRY(buffer_add(&sink->text, "]}\n", 3));
    }
    return OK;
}

static Status list_write(WriteJob *job, const char *path, Status (*put)(WriteJob *, Sink *))
{
    Sink sink = { .fd = -1 };
    if (!path || job->plan->sample) return OK;
    Status status = sink_open(&sink, path);
    if (status == OK) status = put(job, &sink);
    if (status == OK) status = sink_finish(&sink);
    sink_discard(&sink);
    return status;
}

/* ---- all documents ---- */

/* The text of a dropped document is needed only for --dropped. */
static Status document_write(WriteJob *job, int64_t document, const StoredRow *row)
{
    StoredDocument d;
    int rule = duplicate_sets_reason(&job->run->duplicates, document);
    bool read = rule == DROP_KEPT || job->dropped.fd >= 0;
    if (read) TRY(document_store_read(job->run->store, &job->reader, &d, row));
    if (rule == DROP_KEPT) TRY(document_put(job, &d, row, &rule));
    return rule == DROP_KEPT ? OK : document_drop(job, document, &d, row, rule);
}

static Status documents_write(WriteJob *job)
{
    StoredRow row[256];
    int64_t total = job->run->duplicates.documents, most = COUNT(row);
    job->eta = eta_begin("clean: writing", 0, total);
    for (int64_t at = 0, count; at < total; at += count) {
        count = total - at < most ? total - at : most;
        TRY(document_store_rows(job->run->store, row, at, count));
        for (int64_t i = 0; i < count; i++) TRY(document_write(job, at + i, &row[i]));
        eta_count(&job->eta, at, "documents");
        if (*job->plan->stop)
            return fail(INTERRUPTED, "stopped by a signal; the same command resumes from here");
    }
    return OK;
}

/* Each file is renamed into place as soon as it is complete; old shards are removed after the new ones are
 * there. */
static Status files_write(WriteJob *job)
{
    TRY(dropped_copy(job));
    TRY(documents_write(job));
    log_progress_end();
    if (job->plan->sample) return OK;
    if (!job->files) TRY(output_next(job));                   /* an empty output is a file too */
    TRY(sink_finish(&job->out));
    TRY(old_shards_remove(job->plan, job->files));
    if (job->dropped.fd >= 0) TRY(sink_finish(&job->dropped));
    TRY(list_write(job, job->plan->pairs, pairs_put));
    if (job->pairs) qsort(job->pair, (size_t)job->pairs, sizeof *job->pair, by_keeper);
    return list_write(job, job->plan->clusters, clusters_put);
}

Status clean_write(CleanRun *run)
{
    WriteJob job = { .run = run, .plan = run->plan, .out = { .fd = -1 }, .dropped = { .fd = -1 } };
    Status status = files_write(&job);
    sink_discard(&job.out);
    sink_discard(&job.dropped);
    document_store_free_reader(&job.reader);
    document_store_free_reader(&job.other);
    buffer_free(&job.text);
    buffer_free(&job.id);
    free(job.pair);
    return status;
}
