/* A cache of shingle sets: those of the current round and, while memory lasts, those of earlier rounds.
 * One thread requests the sets of a round, then all threads of the team read them, so the table needs no
 * lock. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "corpus/dedup/minhash_internal.h"

enum { READ_AHEAD = 16 };  /* consecutive documents for one worker: they are stored near each other */

static int64_t set_bytes(const MinHashSet *set)
{
    return set->set.capacity * (int64_t)sizeof(uint64_t) + (int64_t)sizeof *set;
}

/* Open addressing with linear probing, at most half full; Fibonacci hashing spreads consecutive document
 * numbers. */
static uint32_t *set_slot(const MinHashSets *s, uint32_t document)
{
    uint64_t at = (document * 0x9E3779B97F4A7C15u >> 20) & (s->slots - 1);
    while (s->slot[at] && s->set[s->slot[at] - 1].document != document) at = (at + 1) & (s->slots - 1);
    return &s->slot[at];
}

static Status slots_rebuild(MinHashSets *s, uint64_t slots)
{
    free(s->slot);
    s->slot  = calloc(slots, sizeof *s->slot);
    s->slots = slots;
    if (!s->slot) return fail(NO_MEMORY, "no memory to hold %" PRId64 " documents", s->sets);
    for (int64_t i = 0; i < s->sets; i++) *set_slot(s, s->set[i].document) = (uint32_t)(i + 1);
    return OK;
}

Status minhash_sets_request(MinHashSets *s, uint32_t document)
{
    TRY(ARRAY_RESERVE(s->set, s->sets_capacity, s->sets + 1));    /* pointers of minhash_sets_find end here */
    if ((uint64_t)s->sets * 2 >= s->slots) TRY(slots_rebuild(s, s->slots ? s->slots * 2 : 4096));
    uint32_t *slot = set_slot(s, document);
    if (!*slot) {
        s->set[s->sets] = (MinHashSet){ .document = document };
        *slot = (uint32_t)++s->sets;
    }
    s->set[*slot - 1].used = s->round;
    return OK;
}

const Shingles *minhash_sets_find(const MinHashSets *s, uint32_t document)
{
    return &s->set[*set_slot(s, document) - 1].set;
}

/* ---- filling ---- */

typedef struct {
    MinHashSets          *sets;
    const MinHashReading *reading;
    const uint32_t       *order;    /* indices of sets, sorted by document */
    int64_t               count;
    _Atomic int64_t      *next;     /* shared by all jobs: next index in order */
    Shingles              read;
    int64_t               bytes;
    Failure               failure;
} FillJob;

/* Reads into the scratch buffer of the job, makes a set, and copies it to memory of exactly its size. */
static Status set_fill(FillJob *job, int worker, MinHashSet *set)
{
    TRY(job->reading->read(job->reading->context, worker, set->document, &job->read));
    TRY(shingles_set(&job->read));
    int64_t   count = job->read.count;
    uint64_t *hash  = malloc((size_t)(count ? count : 1) * sizeof *hash);
    if (!hash) return fail(NO_MEMORY, "no memory for the shingles of a document: %" PRId64 " of them", count);
    memcpy(hash, job->read.hash, (size_t)count * sizeof *hash);
    set->set = (Shingles){ hash, count, count };
    job->bytes += set_bytes(set);
    return OK;
}

/* Jobs take stretches of READ_AHEAD documents from a shared counter; each set is filled by one job, so
 * nothing else needs synchronization. */
static Status job_fill(FillJob *job, int worker)
{
    for (int64_t from; (from = atomic_fetch_add(job->next, READ_AHEAD)) < job->count; )
        for (int64_t i = from; i < from + READ_AHEAD && i < job->count; i++)
            TRY(set_fill(job, worker, &job->sets->set[job->order[i]]));
    return OK;
}

static void fill_body(void *context, int64_t begin, int64_t end)
{
    for (int64_t worker = begin; worker < end; worker++) {
        FillJob *job = (FillJob *)context + worker;
        failure_keep(&job->failure, job_fill(job, (int)worker));
    }
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The missing sets in the order of documents, so that the store of documents is read forwards: (document,
 * index) pairs are sorted as 64-bit numbers, then the indices are kept. */
static uint32_t *fill_order(const MinHashSets *s)
{
    int64_t   count = s->sets - s->filled;
    uint64_t *both  = malloc((size_t)(count + 1) * sizeof *both);
    if (!both) return NULL;
    for (int64_t i = 0; i < count; i++)
        both[i] = (uint64_t)s->set[s->filled + i].document << 32 | (uint64_t)(s->filled + i);
    qsort(both, (size_t)count, sizeof *both, by_value);
    uint32_t *order = malloc((size_t)(count + 1) * sizeof *order);
    for (int64_t i = 0; order && i < count; i++) order[i] = (uint32_t)both[i];
    free(both);
    return order;
}

Status minhash_sets_fill(MinHashSets *s, const MinHashReading *reading)
{
    int             jobs  = team_size(reading->team);
    int64_t         count = s->sets - s->filled;
    _Atomic int64_t next  = 0;
    if (!count) return OK;
    uint32_t *order  = fill_order(s);
    FillJob  *job    = calloc((size_t)jobs, sizeof *job);
    Status    status = order && job ? OK : fail(NO_MEMORY, "no memory to read %" PRId64 " documents", count);
    for (int i = 0; i < jobs && status == OK; i++)
        job[i] = (FillJob){ .sets = s, .reading = reading, .order = order, .count = count, .next = &next };
    if (status == OK) team_for(reading->team, jobs, 1, fill_body, job);
    for (int i = 0; i < jobs && job; i++) {
        if (status == OK) status = failure_report(&job[i].failure);
        s->bytes += job[i].bytes;
        shingles_free(&job[i].read);
    }
    s->read  += count;
    s->filled = s->sets;
    free(order);
    free(job);
    return status;
}

/* Above the limit all sets that the round did not want are dropped, and all sets where those of the round
 * alone exceed it. */
Status minhash_sets_end_round(MinHashSets *s)
{
    int64_t kept = 0, now = s->round++;
    s->round_bytes = 0;
    for (int64_t i = 0; i < s->sets; i++)
        if (s->set[i].used == now) s->round_bytes += set_bytes(&s->set[i]);
    if (s->bytes <= s->bytes_most) return OK;
    for (int64_t i = 0; i < s->sets; i++) {
        if (s->set[i].used == now && s->round_bytes <= s->bytes_most) {
            s->set[kept++] = s->set[i];
            continue;
        }
        s->bytes -= set_bytes(&s->set[i]);
        shingles_free(&s->set[i].set);
    }
    s->sets = s->filled = kept;
    return slots_rebuild(s, s->slots);
}

void minhash_sets_free(MinHashSets *s)
{
    for (int64_t i = 0; i < s->sets; i++) shingles_free(&s->set[i].set);
    free(s->set);
    free(s->slot);
}
