#include "corpus/dedup/minhash_lists.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- a part ---- */

/* Pairs and members are read alike: a document and what belongs to it */
typedef struct { uint32_t document, value; } Belonging;
_Static_assert(sizeof(Belonging) == sizeof(MinHashPair) && sizeof(Belonging) == sizeof(MinHashMember), "read alike");

static Status no_memory(int64_t records)
{
    return fail(NO_MEMORY, "no memory to settle %" PRId64 " pairs of near duplicates; they take 12 bytes each", records);
}

/* value[start[d] .. start[d + 1]) belongs to the d-th document of the part */
static void spread(uint32_t *value, int64_t *start, const Belonging *record, int64_t count, int64_t first, int64_t documents)
{
    for (int64_t i = 0; i < count; i++) start[record[i].document - first + 2]++;
    for (int64_t d = 2; d <= documents; d++) start[d] += start[d - 1];
    for (int64_t i = 0; i < count; i++) value[start[record[i].document - first + 1]++] = record[i].value;
}

static Status values_read(uint32_t **value, int64_t *start, Spill *spill, int number, int64_t first, int64_t documents)
{
    int64_t    count  = spill_count(spill, number);
    Belonging *record = malloc((size_t)(count + 1) * sizeof *record);
    *value = malloc((size_t)(count + 1) * sizeof **value);
    Status status = record && *value ? spill_read(spill, number, record) : no_memory(count);
    if (status == OK) spread(*value, start, record, count, first, documents);
    spill_drop(spill, number);
    free(record);
    return status;
}

/* In order, each once: as many as stay */
static int64_t once(uint32_t *value, int64_t count)
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

static int64_t part_first(const MinHash *near, int number)
{
    return ((int64_t)number * near->counts.documents + near->parts - 1) / near->parts;
}

static void part_ask(MinHashPart *part, MinHash *near, const int64_t *before, const int64_t *bucket, int64_t first, int64_t documents)
{
    for (int64_t d = 0; d < documents; d++) {
        int64_t befores = once(part->before + before[d], before[d + 1] - before[d]), buckets = bucket[d + 1] - bucket[d];
        if (!befores && !buckets) continue;
        part->asked[part->askeds++] = (MinHashAsked){ (uint32_t)(first + d), part->before + before[d], part->bucket + bucket[d], befores, buckets };
        near->counts.pairs += befores;
    }
}

Status minhash_part_read(MinHashPart *part, MinHash *near, int number)
{
    int64_t  first = part_first(near, number), documents = part_first(near, number + 1) - first;
    int64_t *before = calloc((size_t)documents + 2, sizeof *before), *bucket = calloc((size_t)documents + 2, sizeof *bucket);
    minhash_part_free(part);
    part->asked = malloc((size_t)(documents + 1) * sizeof *part->asked);
    Status status = before && bucket && part->asked ? OK : no_memory(documents);
    if (status == OK) status = values_read(&part->before, before, near->pairs, number, first, documents);
    if (status == OK) status = values_read(&part->bucket, bucket, near->members, number, first, documents);
    if (status == OK) part_ask(part, near, before, bucket, first, documents);
    free(before);
    free(bucket);
    return status;
}

void minhash_part_free(MinHashPart *part)
{
    free(part->asked);
    free(part->before);
    free(part->bucket);
    *part = (MinHashPart){ 0 };
}

/* ---- lists of kept documents ---- */

Status minhash_lists_open(MinHashLists *lists, int64_t buckets)
{
    *lists = (MinHashLists){ .places = 1 };                         /* place 0 is none */
    lists->bucket = calloc((size_t)buckets + 1, sizeof *lists->bucket);
    return lists->bucket ? OK : fail(NO_MEMORY, "no memory for %" PRId64 " large buckets of near duplicates", buckets);
}

Status minhash_lists_add(MinHashLists *lists, uint32_t bucket, uint32_t document)
{
    MinHashList *list = &lists->bucket[bucket];
    if (list->count == MINHASH_LISTED) {
        lists->unlisted++;
        return OK;
    }
    if (lists->places >= lists->places_room) {
        int64_t    room  = lists->places_room * 2 + 1024;
        MinHashPlace *place = room > UINT32_MAX ? NULL : realloc(lists->place, (size_t)room * sizeof *place);
        if (!place) return fail(NO_MEMORY, "no memory for %" PRId64 " kept documents of large buckets", room);
        lists->place = place;
        lists->places_room = room;
    }
    lists->place[lists->places] = (MinHashPlace){ document, list->last };
    list->last = (uint32_t)lists->places++;
    list->count++;
    return OK;
}

void minhash_lists_free(MinHashLists *lists)
{
    free(lists->bucket);
    free(lists->place);
}
