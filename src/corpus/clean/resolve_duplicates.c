#include "corpus/clean/resolve_duplicates.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "corpus/clean/eta.h"

enum { ROWS_AT_ONCE = 4096 };

typedef struct {
    DuplicateSets     *duplicates;
    const DocumentFilter *filter;
    const DocumentStore *store;
    Team        *team;
    StoreReader *reader;            /* one a worker */
    Eta         eta;
} Settling;

static Status stop_look(const DocumentFilter *j)
{
    return *j->plan->stop ? fail(INTERRUPTED, "stopped by a signal; the same command goes on from here") : OK;
}

/* ---- whole documents ---- */

static Status hashes_add(Settling *s)
{
    StoredRow row[256];
    int64_t  all = s->duplicates->documents, most = (int64_t)(sizeof row / sizeof *row);
    for (int64_t at = 0, count; at < all; at += count) {
        count = all - at < most ? all - at : most;
        TRY(document_store_rows(s->store, row, at, count));
        for (int64_t i = 0; i < count; i++) TRY(exact_add(s->duplicates->exact, row[i].hash));
    }
    return exact_resolve(s->duplicates->exact, s->team);
}

static Status exact_find(Settling *s, const char *folder)
{
    const CleanPlan *p = s->filter->plan;
    ExactPlan plan = { .folder = folder, .memory = p->memory, .keepers = p->clusters || p->pairs || p->dropped };
    if (!p->exact) return OK;
    TRY(exact_open(&s->duplicates->exact, &plan));
    return hashes_add(s);
}

static Status keys_add(Settling *s)
{
    int64_t   all = s->duplicates->documents, keys = s->filter->keys;
    uint64_t *key = malloc((size_t)(ROWS_AT_ONCE * keys) * sizeof *key);
    Status    status = key ? OK : fail(NO_MEMORY, "no memory for the keys of %d documents", ROWS_AT_ONCE);
    for (int64_t at = 0, count; at < all && status == OK; at += count) {
        count  = all - at < ROWS_AT_ONCE ? all - at : ROWS_AT_ONCE;
        status = document_store_keys(s->store, key, at, count);
        for (int64_t i = 0; i < count && status == OK; i++) status = minhash_add(s->duplicates->near, key + i * keys);
        if (status == OK) status = stop_look(s->filter);
    }
    free(key);
    return status;
}

static Status shingles_read(void *context, int worker, int64_t document, Shingles *shingles)
{
    Settling *s = context;
    StoredRow  row;
    StoredDocument d;
    TRY(stop_look(s->filter));
    TRY(document_store_rows(s->store, &row, document, 1));
    TRY(document_store_read(s->store, &s->reader[worker], &d, &row));
    return shingles_of(shingles, s->filter->plan->near_words, d.text.text, d.text.bytes);
}

static void pair_told(void *context, int64_t removed, int64_t kept, double jaccard)
{
    Settling *s = context;
    (void)kept;
    if (s->duplicates->jaccard) s->duplicates->jaccard[removed] = (float)jaccard;
}

static Status near_find(Settling *s)
{
    const CleanPlan *p = s->filter->plan;
    DuplicateSets *t = s->duplicates;
    MinHashReading reading = { .team = s->team, .exact = t->exact, .read = shingles_read, .told = pair_told, .context = s };
    if (!s->filter->near) return OK;
    t->near = s->filter->near;
    if (p->pairs && !(t->jaccard = calloc((size_t)t->documents + 1, sizeof *t->jaccard)))
        return fail(NO_MEMORY, "--pairs: no memory for %lld documents", (long long)t->documents);
    TRY(keys_add(s));
    return minhash_resolve(t->near, &reading);
}

/* ---- lines and paragraphs, of what stays ---- */

static Status parts_of(Settling *s, ExactSpace *space, const StoredRow *row)
{
    StoredDocument d;
    const CleanPlan *p = s->filter->plan;
    const char *text;
    int64_t     bytes;
    TRY(document_store_read(s->store, &s->reader[0], &d, row));
    ExactWalk walk = { .unit = p->parts, .text = d.text.text, .bytes = d.text.bytes };
    while (exact_part(&walk, &text, &bytes)) {
        Hash128 hash;
        TRY(exact_hash(&hash, p->normalization, space, text, bytes));
        TRY(exact_add(s->duplicates->parts, hash));
    }
    return OK;
}

static Status parts_add(Settling *s, ExactSpace *space)
{
    for (int64_t d = 0; d < s->duplicates->documents; d++) {
        StoredRow row;
        if (duplicate_sets_reason(s->duplicates, d) != DROP_KEPT) continue;
        TRY(stop_look(s->filter));
        TRY(document_store_rows(s->store, &row, d, 1));
        TRY(parts_of(s, space, &row));
        eta_count(&s->eta, d, "documents");
    }
    return exact_resolve(s->duplicates->parts, s->team);
}

static Status parts_find(Settling *s, const char *folder)
{
    ExactSpace space = { 0 };
    ExactPlan  plan  = { .folder = folder, .memory = s->filter->plan->memory, .narrow = true };
    if (s->filter->plan->parts == EXACT_DOCUMENTS) return OK;
    TRY(exact_open(&s->duplicates->parts, &plan));
    s->eta = eta_begin("clean: lines", 0, s->duplicates->documents);
    Status status = parts_add(s, &space);
    exact_space_free(&space);
    return status;
}

/* ---- all ---- */

Status clean_resolve_duplicates(DuplicateSets *duplicates, const DocumentFilter *j, const DocumentStore *store, const char *folder)
{
    int      workers = j->plan->workers;
    Settling s = { .duplicates = duplicates, .filter = j, .store = store };
    *duplicates = (DuplicateSets){ .documents = document_store_size(store).documents };
    s.reader = calloc((size_t)workers, sizeof *s.reader);
    Status status = s.reader ? team_open(&s.team, workers) : fail(NO_MEMORY, "no memory for %d workers", workers);
    if (status == OK) status = exact_find(&s, folder);
    if (status == OK) status = near_find(&s);
    if (status == OK) status = parts_find(&s, folder);
    for (int i = 0; s.reader && i < workers; i++) document_store_free_reader(&s.reader[i]);
    if (s.team) team_close(s.team);
    free(s.reader);
    return status;
}

void duplicate_sets_close(DuplicateSets *t)
{
    if (t->exact) exact_close(t->exact);
    if (t->parts) exact_close(t->parts);
    free(t->jaccard);
    *t = (DuplicateSets){ 0 };
}

int duplicate_sets_reason(const DuplicateSets *t, int64_t document)
{
    if (t->exact && exact_removed(t->exact, document)) return DROP_EXACT;
    if (t->near && minhash_keeper(t->near, document) != document) return DROP_NEAR;
    return DROP_KEPT;
}

int64_t duplicate_sets_keeper(const DuplicateSets *t, int64_t document)
{
    if (t->exact && exact_removed(t->exact, document)) document = exact_keeper(t->exact, document);
    return t->near ? minhash_keeper(t->near, document) : document;
}
