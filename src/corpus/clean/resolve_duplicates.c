/* Deduplication of the document store in three steps, each over what the ones before left: whole documents
 * by their hashes, near duplicates by MinHash keys and the Jaccard similarity of candidate pairs, then
 * repeated lines or paragraphs. Hashes and keys are read from the store in sequence; texts only of
 * candidate pairs and for lines and paragraphs. */
#include "corpus/clean/run.h"

#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "corpus/clean/eta.h"

enum { ROWS_AT_ONCE = 4096 };

typedef struct {
    CleanRun    *run;
    Team        *team;
    StoreReader *reader;                /* [workers] */
} ResolveJob;

static Status stop_check(const CleanRun *run)
{
    return *run->plan->stop ? fail(INTERRUPTED, "stopped by a signal; the same command resumes from here")
                            : OK;
}

/* ---- whole documents ---- */

/* Rows are read 256 at a time: 14 KiB of stack, and few system calls. */
static Status exact_resolve_documents(ResolveJob *job)
{
    StoredRow        row[256];
    CleanRun        *run  = job->run;
    const CleanPlan *plan = run->plan;
    Exact          **exact = &run->duplicates.exact;
    ExactPlan settings = { .folder = run->folder, .memory = plan->memory,
                           .keepers = plan->clusters || plan->pairs || plan->dropped };
    int64_t all = run->duplicates.documents, most = COUNT(row);
    if (!plan->exact) return OK;
    TRY(exact_open(exact, &settings));
    for (int64_t at = 0, count; at < all; at += count) {
        count = all - at < most ? all - at : most;
        TRY(document_store_rows(run->store, row, at, count));
        for (int64_t i = 0; i < count; i++) TRY(exact_add(*exact, row[i].hash));
    }
    return exact_resolve(*exact, job->team);
}

static Status keys_add(ResolveJob *job)
{
    int64_t   all = job->run->duplicates.documents, keys = job->run->filter.keys;
    uint64_t *key = malloc((size_t)(ROWS_AT_ONCE * keys) * sizeof *key);
    Status    status = key ? OK : fail(NO_MEMORY, "no memory for the keys of %d documents", ROWS_AT_ONCE);
    for (int64_t at = 0, count; at < all && status == OK; at += count) {
        count  = all - at < ROWS_AT_ONCE ? all - at : ROWS_AT_ONCE;
        status = document_store_keys(job->run->store, key, at, count);
        for (int64_t i = 0; i < count && status == OK; i++)
            status = minhash_add(job->run->duplicates.minhash, key + i * keys);
        if (status == OK) status = stop_check(job->run);
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
    TRY(stop_check(job->run));
    TRY(document_store_rows(job->run->store, &row, document, 1));
    TRY(document_store_read(job->run->store, &job->reader[worker], &d, &row));
    return shingles_of(shingles, job->run->plan->near_words, d.text.text, d.text.bytes);
}

static void pair_found(void *context, int64_t removed, int64_t kept, double jaccard)
{
    ResolveJob *job = context;
    (void)kept;
    float *to = job->run->duplicates.jaccard;
    if (to) to[removed] = (float)jaccard;
}

static Status near_resolve_documents(ResolveJob *job)
{
    DuplicateSets *sets = &job->run->duplicates;
    MinHashReading reading = { .team = job->team, .exact = sets->exact, .read = shingles_read,
                               .on_removed = pair_found, .context = job };
    if (!job->run->filter.minhash) return OK;
    sets->minhash = job->run->filter.minhash;
    if (job->run->plan->pairs &&
        !(sets->jaccard = calloc((size_t)sets->documents + 1, sizeof *sets->jaccard)))
        return fail(NO_MEMORY, "--pairs: no memory for %lld documents", (long long)sets->documents);
    TRY(keys_add(job));
    return minhash_resolve(sets->minhash, &reading);
}

/* ---- lines and paragraphs of the documents that are kept ---- */

/* Adds the hash of each line or paragraph. write.c walks the same texts in the same order, so that a
 * part's number is its position in this sequence. */
static Status parts_of(CleanRun *run, StoreReader *reader, ExactSpace *space, int64_t document)
{
    StoredDocument d;
    StoredRow      row;
    const char    *text;
    int64_t        bytes;
    TRY(document_store_rows(run->store, &row, document, 1));
    TRY(document_store_read(run->store, reader, &d, &row));
    ExactWalk walk = { .unit = run->plan->parts, .text = d.text.text, .bytes = d.text.bytes };
    while (exact_part(&walk, &text, &bytes)) {
        Hash128 hash;
        TRY(exact_hash(&hash, run->plan->normalization, space, text, bytes));
        TRY(exact_add(run->duplicates.parts, hash));
    }
    return OK;
}

static Status parts_resolve(ResolveJob *job)
{
    CleanRun  *run   = job->run;
    ExactSpace space = { 0 };
    ExactPlan  plan  = { .folder = run->folder, .memory = run->plan->memory, .narrow = true };
    if (run->plan->parts == EXACT_DOCUMENTS) return OK;
    TRY(exact_open(&run->duplicates.parts, &plan));
    Eta    eta    = eta_begin("clean: lines", 0, run->duplicates.documents);
    Status status = OK;
    for (int64_t d = 0; d < run->duplicates.documents && status == OK; d++) {
        if (duplicate_sets_reason(&run->duplicates, d) != DROP_KEPT) continue;
        status = stop_check(run);
        if (status == OK) status = parts_of(run, &job->reader[0], &space, d);
        eta_count(&eta, d, "documents");
    }
    exact_space_free(&space);
    return status == OK ? exact_resolve(run->duplicates.parts, job->team) : status;
}

/* ---- all ---- */

Status clean_resolve_duplicates(CleanRun *run)
{
    int        workers = run->plan->workers;
    ResolveJob job     = { .run = run, .reader = calloc((size_t)workers, sizeof *job.reader) };
    run->duplicates.documents = document_store_size(run->store).documents;
    Status status = job.reader ? team_open(&job.team, workers)
                               : fail(NO_MEMORY, "no memory for %d workers", workers);
    if (status == OK) status = exact_resolve_documents(&job);
    if (status == OK) status = near_resolve_documents(&job);
    if (status == OK) status = parts_resolve(&job);
    for (int i = 0; job.reader && i < workers; i++) document_store_free_reader(&job.reader[i]);
    team_close(job.team);
    free(job.reader);
    return status;
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
