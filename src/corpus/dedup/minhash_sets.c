/* Sets of shingles that are held for a while: those of a round, and while memory lasts those of rounds before. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/dedup/minhash_internal.h"

enum { READ_AHEAD = 16 };                      /* documents in a row for one worker: they stand near each other */

static int64_t set_bytes(const MinHashSet *set) { return set->set.room * (int64_t)sizeof(uint64_t) + (int64_t)sizeof *set; }

static uint32_t *slot_of(const MinHashSets *s, uint32_t document)
{
    uint64_t at = (document * 0x9E3779B97F4A7C15u >> 20) & (s->slots - 1);
    while (s->slot[at] && s->set[s->slot[at] - 1].document != document) at = (at + 1) & (s->slots - 1);
    return &s->slot[at];
}

static Status slots_make(MinHashSets *s, uint64_t slots)
{
    free(s->slot);
    s->slot  = calloc(slots, sizeof *s->slot);
    s->slots = slots;
    if (!s->slot) return fail(NO_MEMORY, "no memory to hold %" PRId64 " documents", s->sets);
    for (int64_t i = 0; i < s->sets; i++) *slot_of(s, s->set[i].document) = (uint32_t)(i + 1);
    return OK;
}

static Status sets_room(MinHashSets *s)
{
    if (s->sets == s->sets_room) {
        int64_t  room = s->sets_room * 2 + 1024;
        MinHashSet *set  = realloc(s->set, (size_t)room * sizeof *set);
        if (!set) return fail(NO_MEMORY, "no memory to hold %" PRId64 " documents", room);
        s->set = set;
        s->sets_room = room;
    }
    return (uint64_t)s->sets * 2 >= s->slots ? slots_make(s, s->slots ? s->slots * 2 : 4096) : OK;
}

Status minhash_sets_want(MinHashSets *s, uint32_t document)
{
    TRY(sets_room(s));
    uint32_t *slot = slot_of(s, document);
    if (!*slot) {
        s->set[s->sets] = (MinHashSet){ .document = document };
        *slot = (uint32_t)++s->sets;
    }
    s->set[*slot - 1].used = s->round;
    return OK;
}

const Shingles *minhash_sets_find(const MinHashSets *s, uint32_t document) { return &s->set[*slot_of(s, document) - 1].set; }

/* ---- filling ---- */

typedef struct {
    MinHashSets          *sets;
    const MinHashReading *reading;
    const uint32_t    *order;                  /* places of sets, by document */
    int64_t            count;
    _Atomic int64_t   *next;
    Shingles           read;
    int64_t            bytes;
    Status             status;
    char               why[512];
} FillJob;

/* As read, then as a set in memory of its own size */
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
        job->status = job_fill(job, (int)worker);
        if (job->status != OK) strncpy(job->why, fail_text(), sizeof job->why - 1);
    }
}

static int by_place(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Documents in order with their places: first as (document, place), then the places alone */
static uint32_t *fill_order(const MinHashSets *s)
{
    int64_t   count = s->sets - s->filled;
    uint64_t *both  = malloc((size_t)(count + 1) * sizeof *both);
    if (!both) return NULL;
    for (int64_t i = 0; i < count; i++) both[i] = (uint64_t)s->set[s->filled + i].document << 32 | (uint64_t)(s->filled + i);
    qsort(both, (size_t)count, sizeof *both, by_place);
    uint32_t *order = malloc((size_t)(count + 1) * sizeof *order);
    for (int64_t i = 0; order && i < count; i++) order[i] = (uint32_t)both[i];
    free(both);
    return order;
}

static Status jobs_fill(MinHashSets *s, FillJob *job, int jobs, const MinHashReading *reading)
{
    _Atomic int64_t next   = 0;
    uint32_t       *order  = fill_order(s);
    Status          status = order ? OK : fail(NO_MEMORY, "no memory to read %" PRId64 " documents", s->sets - s->filled);
    for (int i = 0; i < jobs; i++)
        job[i] = (FillJob){ .sets = s, .reading = reading, .order = order, .count = s->sets - s->filled, .next = &next };
    if (status == OK) team_for(reading->team, jobs, 1, fill_body, job);
    for (int i = 0; i < jobs; i++) {
        if (job[i].status != OK && status == OK) status = fail(job[i].status, "%s", job[i].why);
        s->bytes += job[i].bytes;
        shingles_free(&job[i].read);
    }
    free(order);
    return status;
}

Status minhash_sets_fill(MinHashSets *s, const MinHashReading *reading)
{
    if (s->filled == s->sets) return OK;
    int      jobs = team_size(reading->team);
    FillJob *job  = calloc((size_t)jobs, sizeof *job);
    if (!job) return fail(NO_MEMORY, "no memory to read documents again");
    Status status = jobs_fill(s, job, jobs, reading);
    s->read  += s->sets - s->filled;
    s->filled = s->sets;
    free(job);
    return status;
}

/* Beyond memory what the round did not want goes; all goes where the round alone is above it */
Status minhash_sets_turn(MinHashSets *s)
{
    int64_t kept = 0, now = s->round++;
    s->here = 0;
    for (int64_t i = 0; i < s->sets; i++)
        if (s->set[i].used == now) s->here += set_bytes(&s->set[i]);
    if (s->bytes <= s->most) return OK;
    for (int64_t i = 0; i < s->sets; i++) {
        if (s->set[i].used == now && s->here <= s->most) {
            s->set[kept++] = s->set[i];
            continue;
        }
        s->bytes -= set_bytes(&s->set[i]);
        shingles_free(&s->set[i].set);
    }
    s->sets = s->filled = kept;
    return slots_make(s, s->slots);
}

void minhash_sets_free(MinHashSets *s)
{
    for (int64_t i = 0; i < s->sets; i++) shingles_free(&s->set[i].set);
    free(s->set);
    free(s->slot);
}
