/* Joins equal band keys to candidate pairs and members of large buckets, one partition after the other on
 * each thread. The entries of a partition are in the order of documents, so a hash table of buckets that
 * remembers the first two and last two documents of each is enough, and nothing is sorted. A bucket gives
 * at most four pairs per document, so time is linear. */
#include <inttypes.h>
#include <stdlib.h>
#include "base/array.h"
#include "corpus/dedup/minhash_internal.h"

enum { LARGE_BUCKET = 5 };  /* documents from which a bucket is large and has a list of kept documents */

/* A slot of the hash table; count 0: free. first and last: documents, of `last` the newest first. */
typedef struct { uint32_t low, high, count, number, first[2], last[2]; } BandBucket;

typedef struct { MinHashLink *link; int64_t count, capacity; } LinkArray;

typedef struct {
    const MinHash *minhash;
    const Exact   *exact;
    int            partition;
    MinHashEntry  *entry;               /* of the partition, while it is joined */
    BandBucket    *bucket;              /* [slots], a power of two, while it is joined */
    uint64_t       slots;
    LinkArray      pairs, members;      /* buckets count from 0 in each partition */
    int64_t        buckets, large, largest;
    Failure        failure;
} JoinJob;

static BandBucket *bucket_find(JoinJob *job, const MinHashEntry *e)
{
    uint64_t at = e->low & (job->slots - 1);
    while (job->bucket[at].count && (job->bucket[at].low != e->low || job->bucket[at].high != e->high))
        at = (at + 1) & (job->slots - 1);
    return &job->bucket[at];
}

static Status link_push(LinkArray *all, uint32_t document, uint32_t value)
{
    TRY(ARRAY_RESERVE(all->link, all->capacity, all->count + 1));
    all->link[all->count++] = (MinHashLink){ document, value };
    return OK;
}

/* The fifth document makes the bucket large: it gets a number, and the four before it become members too.
 * They are all known, as the first two and the last two. */
static Status member_add(JoinJob *job, BandBucket *b, uint32_t document)
{
    if (b->count == LARGE_BUCKET - 1) {
        b->number = (uint32_t)job->large++;
        for (int i = 0; i < 2; i++)  TRY(link_push(&job->members, b->first[i], b->number));
        for (int i = 1; i >= 0; i--) TRY(link_push(&job->members, b->last[i], b->number));
    }
    return link_push(&job->members, document, b->number);
}

/* Pairs with the first two while the bucket is small, and with the last two: up to five documents these
 * are all pairs. */
static Status bucket_add(JoinJob *job, BandBucket *b, const MinHashEntry *e)
{
    if (!b->count) {
        *b = (BandBucket){ .low = e->low, .high = e->high, .count = 1, .first = { e->document } };
        return OK;
    }
    for (uint32_t i = 0; i < 2 && i < b->count && b->count < LARGE_BUCKET; i++)
        TRY(link_push(&job->pairs, e->document, b->first[i]));
    for (uint32_t i = 0; i < 2 && i + 2 < b->count; i++)
        TRY(link_push(&job->pairs, e->document, b->last[i]));
    if (b->count >= LARGE_BUCKET - 1) TRY(member_add(job, b, e->document));
    if (b->count == 1) b->first[1] = e->document;
    else               b->last[1] = b->last[0], b->last[0] = e->document;
    job->buckets += b->count == 1;
    b->count++;
    if (b->count > job->largest) job->largest = b->count;
    return OK;
}

static Status partition_join(JoinJob *job)
{
    int64_t entries = spill_count(job->minhash->keys, job->partition);
    for (job->slots = 16; job->slots < (uint64_t)entries * 3 / 2; ) job->slots *= 2;
    job->entry  = malloc((size_t)(entries + 1) * sizeof *job->entry);
    job->bucket = calloc(job->slots, sizeof *job->bucket);
    if (!job->entry || !job->bucket)
        return fail(NO_MEMORY, "no memory to join %" PRId64 " keys of near duplicates; they take about 64"
                    " bytes each", entries);
    TRY(spill_read(job->minhash->keys, job->partition, job->entry));
    job->pairs.count = job->members.count = job->large = job->buckets = job->largest = 0;
    for (int64_t i = 0; i < entries; i++) {
        const MinHashEntry *e = &job->entry[i];
        if (job->exact && exact_removed(job->exact, e->document)) continue;
        TRY(bucket_add(job, bucket_find(job, e), e));
    }
    return OK;
}

static void join_body(void *context, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        JoinJob *job = (JoinJob *)context + i;
        failure_keep(&job->failure, partition_join(job));
        free(job->entry);
        free(job->bucket);
    }
}

/* Runs on one thread, in the order of partitions, so the spills have the same contents whatever the number
 * of threads. Buckets are renumbered over all partitions. */
static Status job_collect(MinHash *minhash, const JoinJob *job)
{
    MinHashCounts *counts = &minhash->counts;
    TRY(failure_report(&job->failure));
    if (counts->large + job->large > UINT32_MAX)
        return fail(BAD_OPTION, "too many large buckets of near duplicates; split the corpus");
    for (int64_t i = 0; i < job->pairs.count; i++) {
        const MinHashLink *pair = &job->pairs.link[i];
        minhash->keeper[pair->document] = minhash->keeper[pair->value] = 1;
        TRY(spill_add(minhash->links, minhash_part(minhash, pair->document), pair));
    }
    for (int64_t i = 0; i < job->members.count; i++) {
        MinHashLink member = job->members.link[i];
        member.value += (uint32_t)counts->large;
        minhash->keeper[member.document] = 1;
        TRY(spill_add(minhash->links, minhash->parts + minhash_part(minhash, member.document), &member));
    }
    counts->buckets += job->buckets;
    counts->large   += job->large;
    if (job->largest > counts->largest) counts->largest = job->largest;
    spill_drop(minhash->keys, job->partition);
    return OK;
}

/* As many partitions at a time as the team has threads, so that memory is bounded by the team size. */
Status minhash_join(MinHash *minhash, const MinHashReading *reading)
{
    int      jobs = team_size(reading->team);
    JoinJob *job  = calloc((size_t)jobs, sizeof *job);
    if (!job) return fail(NO_MEMORY, "no memory to join near duplicates");
    Status status = OK;
    for (int i = 0; i < jobs; i++) job[i].minhash = minhash, job[i].exact = reading->exact;
    for (int from = 0; from < SPILL_PARTITIONS && status == OK; from += jobs) {
        int now = SPILL_PARTITIONS - from < jobs ? SPILL_PARTITIONS - from : jobs;
        for (int i = 0; i < now; i++) job[i].partition = from + i;
        team_for(reading->team, now, 1, join_body, job);
        for (int i = 0; i < now && status == OK; i++) status = job_collect(minhash, &job[i]);
    }
    for (int i = 0; i < jobs; i++) {
        free(job[i].pairs.link);
        free(job[i].members.link);
    }
    free(job);
    return status;
}
