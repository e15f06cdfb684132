#include "corpus/clean/write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"
#include "corpus/read/json_text.h"
#include "corpus/clean/eta.h"
#include "corpus/clean/sink.h"
#include "corpus/read/packing.h"

enum { FLUSH = 1 << 20 };

typedef struct { int64_t kept, gone; } DuplicatePair;

typedef struct {
    const DocumentFilter     *filter;
    const CleanPlan *plan;
    const DocumentStore     *store;
    const DuplicateSets   *duplicates;
    CleanCounts           *counts;
    CleanWritten         *written;
    Sink             out, dropped;
    StoreReader      reader, other;         /* other: of what a duplicate went for */
    ExactSpace       space;
    Buffer           text, id;
    int64_t          part;                  /* of all parts, the next one's number */
    DuplicatePair            *pair;
    int64_t          pairs, pairs_room;
    Eta             eta;
} Writing;

/* ---- names ---- */

Status write_path(char *out, size_t size, const CleanPlan *p, int64_t number)
{
    int  used;
    const char *slash = strrchr(p->output, '/'), *name = slash ? slash + 1 : p->output;
    const char *dot = *name ? strchr(name + 1, '.') : NULL;
    if (!dot) dot = p->output + strlen(p->output);
    if (p->folder) used = snprintf(out, size, "%s/shard-%05" PRId64 "%s", p->output, number, p->format == CLEAN_JSON ? ".jsonl" : ".txt");
    else if (!p->shard_bytes) used = snprintf(out, size, "%s", p->output);
    else used = snprintf(out, size, "%.*s-%05" PRId64 "%s", (int)(dot - p->output), p->output, number, dot);
    return used < (int)size ? OK : fail(BAD_OPTION, "--output %.80s...: longer than a path may be", p->output);
}

/* Files of that name which a run before made more of */
static Status later_remove(const CleanPlan *p, int64_t number)
{
    char path[1100];
    if (!p->folder && !p->shard_bytes) return OK;
    for (;; number++) {
        TRY(write_path(path, sizeof path, p, number));
        if (!file_exists(path)) return OK;
        if (seam.remove(path)) return fail(IO_FAILED, "%s: of a run before, cannot be removed: %m", path);
    }
}

static const char *file_name(const CleanPlan *p, int input)
{
    return strcmp(p->path[input], "-") ? p->path[input] : "standard input";
}

/* What a document is called where its file does not say: F.txt:12 */
static Status id_make(Buffer *out, const CleanPlan *p, const StoredDocument *d)
{
    out->bytes = 0;
    if (d->id.text) return buffer_add(out, d->id.text, d->id.bytes);
    TRY(buffer_add(out, file_name(p, d->input), (int64_t)strlen(file_name(p, d->input))));
    return json_text_words(out, ":%" PRId64, d->line);
}

/* ---- documents that stay ---- */

/* Those lines or paragraphs that stood before go; their number goes on through all documents. */
static Status parts_keep(Writing *w, JsonText *text)
{
    const char *part;
    int64_t     bytes, gone = 0;
    ExactWalk   walk = { .unit = w->plan->parts, .text = text->text, .bytes = text->bytes };
    w->text.bytes = 0;
    while (exact_part(&walk, &part, &bytes)) {
        if (exact_removed(w->duplicates->parts, w->part++)) {
            gone++;
            continue;
        }
        if (w->text.bytes) TRY(buffer_add(&w->text, "\n\n", w->plan->parts == EXACT_LINES ? 1 : 2));
        TRY(buffer_add(&w->text, part, bytes));
    }
    w->counts->parts += gone;
    if (gone) *text = (JsonText){ w->text.text, w->text.bytes };
    return OK;
}

/* A line: what ends lines inside of it becomes one blank */
static Status text_put(Buffer *out, JsonText text)
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

static Status json_put(Writing *w, const StoredDocument *d, JsonText text)
{
    Buffer *out = &w->out.text;
    const char *file = file_name(w->plan, d->input);
    TRY(id_make(&w->id, w->plan, d));
    TRY(buffer_add(out, "{\"id\": ", 7));
    TRY(json_text_string(out, json_text_of(w->id.text, w->id.bytes)));
    TRY(json_text_member(out, "source", d->source.text ? d->source : json_text_of(file, (int64_t)strlen(file))));
    TRY(json_text_member(out, "url", d->url));
    TRY(json_text_member(out, "title", d->title));
    if (d->label >= 0) {
        TRY(json_text_words(out, ", \"language\": "));
        TRY(json_text_label(out, document_filter_label(w->filter, d->label)));
        TRY(json_text_words(out, ", \"language_probability\": %.5f", (double)d->probability));
    }
    TRY(json_text_member(out, "text", text));
    return buffer_add(out, "}\n", 2);
}

static Status out_next(Writing *w)
{
    char path[1100];
    bool full = w->plan->shard_bytes && w->out.fd >= 0 && w->out.bytes + w->out.text.bytes >= w->plan->shard_bytes;
    if (full) TRY(sink_finish(&w->out));
    if (w->out.fd >= 0) return OK;
    TRY(write_path(path, sizeof path, w->plan, w->written->files++));
    return sink_open(&w->out, path);
}

static Status document_keep(Writing *w, const StoredDocument *d, const StoredRow *row, int *rule)
{
    JsonText text = d->text;
    if (w->duplicates->parts) TRY(parts_keep(w, &text));
    if (!text.bytes) {
        *rule = DROP_PARTS;
        return OK;
    }
    w->counts->kept.documents++;
    w->counts->kept.bytes += row->bytes;
    clean_counts_length(w->counts->length_kept, row->bytes);
    w->counts->written.documents++;
    w->counts->written.bytes += text.bytes;
    if (w->plan->sample) return OK;
    TRY(out_next(w));
    TRY(w->plan->format == CLEAN_JSON ? json_put(w, d, text) : text_put(&w->out.text, text));
    return sink_flush(&w->out, FLUSH);
}

/* ---- documents that go ---- */

static Status other_id(Writing *w, int64_t document)
{
    StoredRow row;
    StoredDocument d;
    TRY(document_store_rows(w->store, &row, document, 1));
    TRY(document_store_read(w->store, &w->other, &d, &row));
    return id_make(&w->id, w->plan, &d);
}

static Status dropped_tell(Writing *w, int64_t document, const StoredDocument *d, const StoredRow *row, int rule)
{
    Buffer *out = &w->dropped.text;
    const char *file = file_name(w->plan, d->input);
    TRY(json_text_words(out, "{\"rule\": \"%s\"", drop_reason_text(rule)));
    TRY(json_text_member(out, "id", d->id));
    TRY(json_text_member(out, "file", json_text_of(file, (int64_t)strlen(file))));
    TRY(json_text_words(out, ", \"line\": %" PRId64 ", \"bytes\": %" PRId64, d->line, row->bytes));
    if (rule != DROP_PARTS) {
        TRY(other_id(w, duplicate_sets_keeper(w->duplicates, document)));
        TRY(json_text_member(out, "kept", json_text_of(w->id.text, w->id.bytes)));
    }
    TRY(buffer_add(out, "}\n", 2));
    return sink_flush(&w->dropped, FLUSH);
}

static Status pair_add(Writing *w, int64_t document)
{
    if (w->pairs == w->pairs_room) {
        int64_t room  = w->pairs_room ? 2 * w->pairs_room : 1024;
        DuplicatePair   *grown = realloc(w->pair, (size_t)room * sizeof *grown);
        if (!grown) return fail(NO_MEMORY, "no memory for %" PRId64 " duplicates; leave out --pairs and --clusters", room);
        w->pair = grown;
        w->pairs_room = room;
    }
    w->pair[w->pairs++] = (DuplicatePair){ duplicate_sets_keeper(w->duplicates, document), document };
    return OK;
}

static Status document_drop(Writing *w, int64_t document, const StoredDocument *d, const StoredRow *row, int rule)
{
    clean_counts_drop(w->counts, rule, row->bytes);
    if (rule != DROP_PARTS && (w->plan->pairs || w->plan->clusters)) TRY(pair_add(w, document));
    return w->dropped.fd >= 0 ? dropped_tell(w, document, d, row, rule) : OK;
}

/* What the stages dropped comes first, as gather told it. */
static Status dropped_begin(Writing *w)
{
    if (!w->plan->dropped || w->plan->sample) return OK;
    TRY(sink_open(&w->dropped, w->plan->dropped));
    int64_t all = document_store_size(w->store).bytes[STORE_DROPPED];
    for (int64_t at = 0, bytes; at < all; at += bytes) {
        Buffer *out = &w->dropped.text;
        bytes = all - at < FLUSH ? all - at : FLUSH;
        TRY(buffer_room(out, bytes));
        TRY(document_store_dropped(w->store, out->text + out->bytes, at, bytes));
        out->bytes += bytes;
        TRY(sink_flush(&w->dropped, 0));
    }
    return OK;
}

/* ---- clusters and pairs ---- */

static int by_keeper(const void *a, const void *b)
{
    const DuplicatePair *x = a, *y = b;
    if (x->kept != y->kept) return x->kept < y->kept ? -1 : 1;
    return (x->gone > y->gone) - (x->gone < y->gone);
}

static Status id_put(Writing *w, Buffer *out, const char *before, int64_t document)
{
    TRY(other_id(w, document));
    TRY(json_text_words(out, "%s", before));
    return json_text_string(out, json_text_of(w->id.text, w->id.bytes));
}

static Status pairs_put(Writing *w, Sink *sink)
{
    for (int64_t i = 0; i < w->pairs; i++) {
        DuplicatePair  pair  = w->pair[i];
        bool  exact = duplicate_sets_reason(w->duplicates, pair.gone) == DROP_EXACT;
        TRY(id_put(w, &sink->text, "{\"removed\": ", pair.gone));
        TRY(id_put(w, &sink->text, ", \"kept\": ", pair.kept));
        if (exact) TRY(json_text_words(&sink->text, ", \"rule\": \"%s\"}\n", drop_reason_text(DROP_EXACT)));
        else TRY(json_text_words(&sink->text, ", \"rule\": \"%s\", \"jaccard\": %.4f}\n", drop_reason_text(DROP_NEAR), (double)w->duplicates->jaccard[pair.gone]));
        TRY(sink_flush(sink, FLUSH));
    }
    return OK;
}

static Status clusters_put(Writing *w, Sink *sink)
{
    for (int64_t i = 0, end; i < w->pairs; i = end) {
        for (end = i; end < w->pairs && w->pair[end].kept == w->pair[i].kept; ) end++;
        TRY(json_text_words(&sink->text, "{\"documents\": %" PRId64, end - i + 1));
        TRY(id_put(w, &sink->text, ", \"kept\": ", w->pair[i].kept));
        for (int64_t k = i; k < end; k++) {
            TRY(id_put(w, &sink->text, k == i ? ", \"removed\": [" : ", ", w->pair[k].gone));
            TRY(sink_flush(sink, FLUSH));
        }
        TRY(buffer_add(&sink->text, "]}\n", 3));
    }
    return OK;
}

static Status lines_write(Writing *w, const char *path, Status (*put)(Writing *, Sink *))
{
    Sink sink = { .fd = -1 };
    if (!path || w->plan->sample) return OK;
    Status status = sink_open(&sink, path);
    if (status == OK) status = put(w, &sink);
    if (status == OK) status = sink_finish(&sink);
    sink_discard(&sink);
    return status;
}

/* ---- all ---- */

static Status document_take(Writing *w, int64_t document, const StoredRow *row)
{
    StoredDocument d;
    int rule = duplicate_sets_reason(w->duplicates, document);
    bool read = rule == DROP_KEPT || w->dropped.fd >= 0;
    if (read) TRY(document_store_read(w->store, &w->reader, &d, row));
    if (rule == DROP_KEPT) TRY(document_keep(w, &d, row, &rule));
    return rule == DROP_KEPT ? OK : document_drop(w, document, &d, row, rule);
}

static Status documents_take(Writing *w)
{
    StoredRow row[256];
    int64_t  all = w->duplicates->documents, most = (int64_t)(sizeof row / sizeof *row);
    w->eta = eta_begin("clean: writing", 0, all);
    for (int64_t at = 0, count; at < all; at += count) {
        count = all - at < most ? all - at : most;
        TRY(document_store_rows(w->store, row, at, count));
        for (int64_t i = 0; i < count; i++) TRY(document_take(w, at + i, &row[i]));
        eta_count(&w->eta, at, "documents");
        if (*w->plan->stop) return fail(INTERRUPTED, "stopped by a signal; the same command goes on from here");
    }
    return OK;
}

static Status files_write(Writing *w)
{
    TRY(dropped_begin(w));
    TRY(documents_take(w));
    log_progress_end();
    if (w->plan->sample) return OK;
    if (!w->written->files) TRY(out_next(w));                   /* an empty output is a file too */
    TRY(sink_finish(&w->out));
    TRY(later_remove(w->plan, w->written->files));
    if (w->dropped.fd >= 0) TRY(sink_finish(&w->dropped));
    TRY(lines_write(w, w->plan->pairs, pairs_put));
    if (w->pairs) qsort(w->pair, (size_t)w->pairs, sizeof *w->pair, by_keeper);
    return lines_write(w, w->plan->clusters, clusters_put);
}

Status write_all(CleanWritten *written, CleanCounts *counts, const DocumentFilter *filter, const DocumentStore *store, const DuplicateSets *duplicates)
{
    Writing w = { .filter = filter, .plan = filter->plan, .store = store, .duplicates = duplicates, .counts = counts, .written = written,
                  .out = { .fd = -1 }, .dropped = { .fd = -1 } };
    *written = (CleanWritten){ 0 };
    Status status = files_write(&w);
    sink_discard(&w.out);
    sink_discard(&w.dropped);
    document_store_free_reader(&w.reader);
    document_store_free_reader(&w.other);
    exact_space_free(&w.space);
    buffer_free(&w.text);
    buffer_free(&w.id);
    free(w.pair);
    return status;
}
