/* Reads one part of the candidate pairs and bucket members back, groups them by document with a counting
 * sort, and keeps the lists of kept documents of large buckets. */
#include "corpus/dedup/minhash_lists.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"

/* ---- a part ---- */

/* Pairs and members have the same layout, a document and one value of it, so one function reads both. */
typedef struct { uint32_t document, value; } DocumentValue;
_Static_assert(sizeof(DocumentValue) == sizeof(MinHashPair) &&
               sizeof(DocumentValue) == sizeof(MinHashMember), "one function reads both");

static Status no_memory(int64_t records)
{
    return fail(NO_MEMORY, "no memory to resolve %" PRId64 " pairs of near duplicates; they take 12 bytes"
                " each", records);
}

/* Counting sort: afterwards value[start[d] .. start[d + 1]) belongs to the d-th document of the part.
 * Counts are entered two places later and positions advance one place later, so no second array is needed. */
static void group_by_document(uint32_t *value, int64_t *start, const DocumentValue *record, int64_t count,
                              int64_t first, int64_t documents)
{
    for (int64_t i = 0; i < count; i++) start[record[i].document - first + 2]++;
    for (int64_t d = 2; d <= documents; d++) start[d] += start[d - 1];
    for (int64_t i = 0; i < count; i++) value[start[record[i].document - first + 1]++] = record[i].value;
}

static Status values_read(uint32_t **value, int64_t *start, Spill *spill, int number, int64_t first,
                          int64_t documents)
{
    int64_t    count  = spill_count(spill, number);
    DocumentValue *record = malloc((size_t)(count + 1) * sizeof *record);
    *value = malloc((size_t)(count + 1) * sizeof **value);
    Status status = record && *value ? spill_read(spill, number, record) : no_memory(count);
    if (status == OK) group_by_document(*value, start, record, count, first, documents);
    spill_drop(spill, number);
    free(record);
    return status;
}

/* Sorts in place and drops duplicates; returns how many are left. Insertion sort is enough: a document has
 * few distinct candidates, and repeated ones are not moved. */
static int64_t sort_unique(uint32_t *value, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t one = value[i];
        int64_t  at  = kept;
        while (at > 0 && value[at - 1] > one) at--;
        if (at > 0 && value[at - 1] == one) continue;
        memmove(value + at + 1, value + at, (size_t)(kept - at) * sizeof *value);
        value[at] = one;
        kept++;
    }
    return kept;
}

/* The inverse of minhash_part: the first document of a part. */
static int64_t part_first(const MinHash *minhash, int number)
{
    return ((int64_t)number * minhash->counts.documents + minhash->parts - 1) / minhash->parts;
}

/* Documents without candidates and large buckets are kept without any comparison, so they are no query. */
static void queries_fill(MinHashPart *part, MinHash *minhash, const int64_t *earlier, const int64_t *bucket,
                         int64_t first, int64_t documents)
{
    for (int64_t d = 0; d < documents; d++) {
        int64_t earliers = sort_unique(part->earlier + earlier[d], earlier[d + 1] - earlier[d]),
                buckets  = bucket[d + 1] - bucket[d];
        if (!earliers && !buckets) continue;
        part->query[part->queries++] = (MinHashQuery){ (uint32_t)(first + d), part->earlier + earlier[d],
                                                       part->bucket + bucket[d], earliers, buckets };
        minhash->counts.pairs += earliers;
    }
}

Status minhash_part_read(MinHashPart *part, MinHash *minhash, int number)
{
    int64_t  first = part_first(minhash, number), documents = part_first(minhash, number + 1) - first;
    int64_t *earlier = calloc((size_t)documents + 2, sizeof *earlier),
            *bucket  = calloc((size_t)documents + 2, sizeof *bucket);
    minhash_part_free(part);
    part->query = malloc((size_t)(documents + 1) * sizeof *part->query);
    Status status = earlier && bucket && part->query ? OK : no_memory(documents);
    if (status == OK) status = values_read(&part->earlier, earlier, minhash->pairs, number, first, documents);
    if (status == OK) status = values_read(&part->bucket, bucket, minhash->members, number, first, documents);
    if (status == OK) queries_fill(part, minhash, earlier, bucket, first, documents);
    free(earlier);
    free(bucket);
    return status;
}

void minhash_part_free(MinHashPart *part)
{
    free(part->query);
    free(part->earlier);
    free(part->bucket);
    *part = (MinHashPart){ 0 };
}

/* ---- lists of kept documents ---- */

Status minhash_lists_open(MinHashLists *lists, int64_t buckets)
{
    *lists = (MinHashLists){ .nodes = 1 };                         /* node 0 ends a list */
    lists->bucket = calloc((size_t)buckets + 1, sizeof *lists->bucket);
    return lists->bucket
               ? OK
               : fail(NO_MEMORY, "no memory for %" PRId64 " large buckets of near duplicates", buckets);
}

Status minhash_lists_add(MinHashLists *lists, uint32_t bucket, uint32_t document)
{
    MinHashList *list = &lists->bucket[bucket];
    if (list->count == MINHASH_LISTED) {
        lists->unlisted++;
        return OK;
    }
    if (lists->nodes == UINT32_MAX)
        return fail(NO_MEMORY, "no memory for %" PRId64 " kept documents of large buckets", lists->nodes);
    TRY(ARRAY_RESERVE(lists->node, lists->nodes_capacity, lists->nodes + 1));
    lists->node[lists->nodes] = (MinHashNode){ document, list->last };
    list->last = (uint32_t)lists->nodes++;
    list->count++;
    return OK;
}

void minhash_lists_free(MinHashLists *lists)
{
    free(lists->bucket);
    free(lists->node);
}
