/* Deduplication of the document store in three steps, each over what the ones before left: whole documents
 * by their hashes, near duplicates by MinHash keys and the Jaccard similarity of candidate pairs, then
 * repeated lines or paragraphs. Hashes and keys are read from the store in sequence; texts only of
 * candidate pairs and for lines and paragraphs. */
#include "corpus/clean/resolve_duplicates.h"

#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "corpus/clean/eta.h"

enum { ROWS_AT_ONCE = 4096 };

typedef struct {
    DuplicateSets        *duplicates;
    const DocumentFilter *filter;
    const DocumentStore  *store;
    Team                 *team;
    StoreReader          *reader;       /* [workers] */
    Eta                   eta;
} ResolveJob;

static Status stop_check(const DocumentFilter *filter)
{
    return *filter->plan->stop ? fail(INTERRUPTED, "stopped by a signal; the same command resumes from here")
                               : OK;
}

/* ---- whole documents ---- */

/* Rows are read 256 at a time: 14 KiB of stack, and few system calls. */
static Status hashes_add(ResolveJob *job)
{
    StoredRow row[256];
    int64_t all = job->duplicates->documents, most = COUNT(row);
    for (int64_t at = 0, count; at < all; at += count) {
        count = all - at < most ? all - at : most;
        TRY(document_store_rows(job->store, row, at, count));
        for (int64_t i = 0; i < count; i++) TRY(exact_add(job->duplicates->exact, row[i].hash));
    }
    return exact_resolve(job->duplicates->exact, job->team);
}

static Status exact_resolve_documents(ResolveJob *job, const char *folder)
{
    const CleanPlan *plan = job->filter->plan;
    ExactPlan settings = { .folder = folder, .memory = plan->memory,
                           .keepers = plan->clusters || plan->pairs || plan->dropped };
    if (!plan->exact) return OK;
    TRY(exact_open(&job->duplicates->exact, &settings));
    return hashes_add(job);
}

static Status keys_add(ResolveJob *job)
{
    int64_t   all = job->duplicates->documents, keys = job->filter->keys;
    uint64_t *key = malloc((size_t)(ROWS_AT_ONCE * keys) * sizeof *key);
    Status    status = key ? OK : fail(NO_MEMORY, "no memory for the keys of %d documents", ROWS_AT_ONCE);
    for (int64_t at = 0, count; at < all && status == OK; at += count) {
        count  = all - at < ROWS_AT_ONCE ? all - at : ROWS_AT_ONCE;
        status = document_store_keys(job->store, key, at, count);
        for (int64_t i = 0; i < count && status == OK; i++)
            status = minhash_add(job->duplicates->minhash, key + i * keys);
        if (status == OK) status = stop_check(job->filter);
    }
    free(key);
    return status;
}

/* Called by minhash_resolve from its worker threads, for documents of candidate pairs; each has a reader
 * of its own. */
static Status shingles_read(void *context, int worker, int64_t document, Shingles *shingles)
{
    ResolveJob *job = context;
    StoredRow  row;
    StoredDocument d;
    TRY(stop_check(job->filter));
    TRY(document_store_rows(job->store, &row, document, 1));
    TRY(document_store_read(job->store, &job->reader[worker], &d, &row));
    return shingles_of(shingles, job->filter->plan->near_words, d.text.text, d.text.bytes);
}

static void pair_found(void *context, int64_t removed, int64_t kept, double jaccard)
{
    ResolveJob *job = context;
    (void)kept;
    if (job->duplicates->jaccard) job->duplicates->jaccard[removed] = (float)jaccard;
}

static Status near_resolve_documents(ResolveJob *job)
{
    const CleanPlan *plan = job->filter->plan;
    DuplicateSets *sets = job->duplicates;
    MinHashReading reading = { .team = job->team, .exact = sets->exact, .read = shingles_read,
                               .on_removed = pair_found, .context = job };
    if (!job->filter->minhash) return OK;
    sets->minhash = job->filter->minhash;
    if (plan->pairs && !(sets->jaccard = calloc((size_t)sets->documents + 1, sizeof *sets->jaccard)))
        return fail(NO_MEMORY, "--pairs: no memory for %lld documents", (long long)sets->documents);
    TRY(keys_add(job));
    return minhash_resolve(sets->minhash, &reading);
}

/* ---- lines and paragraphs of the documents that are kept ---- */

/* Adds the hash of each line or paragraph. write.c walks the same texts in the same order, so that a
 * part's number is its position in this sequence. */
static Status parts_of(ResolveJob *job, ExactSpace *space, const StoredRow *row)
{
    StoredDocument d;
    const CleanPlan *plan = job->filter->plan;
    const char *text;
    int64_t     bytes;
    TRY(document_store_read(job->store, &job->reader[0], &d, row));
    ExactWalk walk = { .unit = plan->parts, .text = d.text.text, .bytes = d.text.bytes };
    while (exact_part(&walk, &text, &bytes)) {
        Hash128 hash;
        TRY(exact_hash(&hash, plan->normalization, space, text, bytes));
        TRY(exact_add(job->duplicates->parts, hash));
    }
    return OK;
}

static Status parts_add(ResolveJob *job, ExactSpace *space)
{
    for (int64_t d = 0; d < job->duplicates->documents; d++) {
        StoredRow row;
        if (duplicate_sets_reason(job->duplicates, d) != DROP_KEPT) continue;
        TRY(stop_check(job->filter));
        TRY(document_store_rows(job->store, &row, d, 1));
        TRY(parts_of(job, space, &row));
        eta_count(&job->eta, d, "documents");
    }
    return exact_resolve(job->duplicates->parts, job->team);
}

static Status parts_resolve(ResolveJob *job, const char *folder)
{
    ExactSpace space = { 0 };
    ExactPlan  plan  = { .folder = folder, .memory = job->filter->plan->memory, .narrow = true };
    if (job->filter->plan->parts == EXACT_DOCUMENTS) return OK;
    TRY(exact_open(&job->duplicates->parts, &plan));
    job->eta = eta_begin("clean: lines", 0, job->duplicates->documents);
    Status status = parts_add(job, &space);
    exact_space_free(&space);
    return status;
}

/* ---- all ---- */

Status clean_resolve_duplicates(DuplicateSets *duplicates, const DocumentFilter *filter,
                                const DocumentStore *store, const char *folder)
{
    int workers = filter->plan->workers;
    ResolveJob job = { .duplicates = duplicates, .filter = filter, .store = store };
    *duplicates = (DuplicateSets){ .documents = document_store_size(store).documents };
    job.reader = calloc((size_t)workers, sizeof *job.reader);
    Status status = job.reader ? team_open(&job.team, workers)
                               : fail(NO_MEMORY, "no memory for %d workers", workers);
    if (status == OK) status = exact_resolve_documents(&job, folder);
    if (status == OK) status = near_resolve_documents(&job);
    if (status == OK) status = parts_resolve(&job, folder);
    for (int i = 0; job.reader && i < workers; i++) document_store_free_reader(&job.reader[i]);
    if (job.team) team_close(job.team);
    free(job.reader);
    return status;
}

void duplicate_sets_close(DuplicateSets *sets)
{
    if (sets->exact) exact_close(sets->exact);
    if (sets->parts) exact_close(sets->parts);
    free(sets->jaccard);
    *sets = (DuplicateSets){ 0 };
}

/* Exact duplicates are left out of near-duplicate detection, so a document has at most one of the reasons. */
int duplicate_sets_reason(const DuplicateSets *sets, int64_t document)
{
    if (sets->exact && exact_removed(sets->exact, document)) return DROP_EXACT;
    if (sets->minhash && minhash_keeper(sets->minhash, document) != document) return DROP_NEAR;
    return DROP_KEPT;
}

/* The document kept for an exact duplicate may itself be a near-duplicate of another one, so both steps
 * are followed. */
int64_t duplicate_sets_keeper(const DuplicateSets *sets, int64_t document)
{
    if (sets->exact && exact_removed(sets->exact, document)) document = exact_keeper(sets->exact, document);
    return sets->minhash ? minhash_keeper(sets->minhash, document) : document;
}
