/* The shingle sets of the documents that have candidates, in one file of the work folder. It begins with a
 * MinHashSet for each document, and the sets follow in any order. The threads of the team write it; then it
 * is mapped, so that the system holds in memory what is used of it and no more than there is room for. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/buffer.h"
#include "corpus/dedup/minhash_internal.h"

/* Adjacent documents for one thread, as they are stored near each other. */
enum { CHUNK = 128 };

typedef struct {
    MinHash              *minhash;
    const MinHashReading *reading;
    SpillFile             file;
    _Atomic int64_t       bytes, read;          /* of the file; sets in it */
    Failure              *failure;              /* [threads] */
} SetsJob;

/* set, sets: of the thread, for one document and for all of the chunk. */
static Status chunk_write(SetsJob *job, int thread, Shingles *set, Buffer *sets, int64_t first)
{
    MinHashSet index[CHUNK] = { 0 };
    const MinHashReading *reading = job->reading;
    int64_t left = job->minhash->counts.documents - first, documents = left < CHUNK ? left : CHUNK;
    sets->bytes = 0;
    for (int64_t i = 0; i < documents; i++) {
        if (!job->minhash->keeper[first + i]) continue;
        TRY(reading->read(reading->context, thread, first + i, set));
        TRY(shingles_set(set));
        index[i] = (MinHashSet){ sets->bytes, set->count };
        TRY(buffer_add(sets, set->hash, set->count * (int64_t)sizeof *set->hash));
        job->read++;
    }
    int64_t at = atomic_fetch_add(&job->bytes, sets->bytes);
    for (int64_t i = 0; i < documents; i++) index[i].at += at;
    TRY(spill_file_write(&job->file, sets->text, (size_t)sets->bytes, at));
    return spill_file_write(&job->file, index, (size_t)documents * sizeof *index,
                            first * (int64_t)sizeof *index);
}

static void sets_body(void *context, int thread, int threads)
{
    SetsJob *job    = context;
    Shingles set    = { 0 };
    Buffer   sets   = { 0 };
    Status   status = OK;
    (void)threads;
    for (int64_t chunk; status == OK && (chunk = team_claim(job->reading->team, thread)) >= 0; )
        status = chunk_write(job, thread, &set, &sets, chunk * CHUNK);
    failure_keep(&job->failure[thread], status);
    shingles_free(&set);
    buffer_free(&sets);
}

static Status sets_write(SetsJob *job)
{
    Team   *team   = job->reading->team;
    Status  status = OK;
    job->failure   = calloc((size_t)team_size(team), sizeof *job->failure);
    if (!job->failure) return fail(NO_MEMORY, "no memory to read near duplicates");
    team_share(team, (job->minhash->counts.documents + CHUNK - 1) / CHUNK);
    team_run(team, sets_body, job);
    for (int i = 0; i < team_size(team) && status == OK; i++) status = failure_report(&job->failure[i]);
    free(job->failure);
    return status;
}

static Status sets_map(MinHash *minhash, const SetsJob *job)
{
    void *map = mmap(NULL, (size_t)job->bytes, PROT_READ, MAP_SHARED, job->file.fd, 0);
    if (map == MAP_FAILED)
        return fail(IO_FAILED, "%s: %" PRId64 " bytes of %s cannot be mapped: %m", job->file.path, job->bytes,
                    job->file.what);
    minhash->sets       = map;
    minhash->sets_bytes = job->bytes;
    minhash->counts.read = job->read;
    return OK;
}

Status minhash_sets_open(MinHash *minhash, const MinHashReading *reading)
{
    SetsJob job = { .minhash = minhash, .reading = reading,
                    .bytes = minhash->counts.documents * (int64_t)sizeof(MinHashSet) };
    TRY(spill_file_open(&job.file, "shingles of near duplicates", minhash->plan.folder));
    Status status = sets_write(&job);
    if (status == OK) status = sets_map(minhash, &job);
    spill_file_close(&job.file);
    minhash->counts.disk += job.bytes;
    return status;
}

void minhash_sets_close(MinHash *minhash)
{
    if (minhash->sets) munmap((void *)(uintptr_t)minhash->sets, (size_t)minhash->sets_bytes);
}

Shingles minhash_set(const MinHash *minhash, uint32_t document)
{
    const MinHashSet *set = (const MinHashSet *)(const void *)minhash->sets + document;
    return (Shingles){ (uint64_t *)(uintptr_t)(minhash->sets + set->at), set->count, 0 };
}
