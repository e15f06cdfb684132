/* Decides for each document, in order, which earlier document it is a duplicate of: the earliest kept
 * document that is a candidate, or was kept for a candidate, and is similar enough. Documents are resolved
 * in rounds: all threads compare the sets of a round, then one thread decides. What depends on decisions of
 * the same round waits for them: a candidate of the round may itself be removed, and kept documents of the
 * round enter the lists of large buckets. Lists only grow at the end, so the same comparisons decide about a
 * document wherever rounds begin. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "corpus/dedup/minhash_internal.h"

/* Rounds begin small, so that the first documents of a cluster are decided before the others are compared. */
enum { ROUND_FIRST = 1024, ROUND_MOST = 8192, PART_DOCUMENTS = 1 << 16, NO_DOCUMENT = UINT32_MAX };

/* ---- a part of the candidate pairs and bucket members, grouped by document ---- */

/* A document with candidates: earlier[earliers], the earlier documents that share a small bucket with it or
 * precede it in a large one, and bucket[buckets], the large buckets that it is in. `earlier` is
 * sorted and has no duplicates; both point into the part. */
typedef struct {
    uint32_t        document;
    const uint32_t *earlier, *bucket;
    int64_t         earliers, buckets;
} MinHashQuery;
typedef struct { MinHashQuery *query; int64_t queries; uint32_t *earlier, *bucket; } MinHashPart;

static Status no_memory(int64_t records)
{
    return fail(NO_MEMORY, "no memory to resolve %" PRId64 " pairs of near duplicates; they take 12 bytes"
                " each", records);
}

/* Counting sort: afterwards value[start[d] .. start[d + 1]) belongs to the d-th document of the part.
 * Counts are entered two places later and positions advance one place later, so no second array is needed. */
static void group_by_document(uint32_t *value, int64_t *start, const MinHashLink *record, int64_t count,
                              int64_t first, int64_t documents)
{
    for (int64_t i = 0; i < count; i++) start[record[i].document - first + 2]++;
    for (int64_t d = 2; d <= documents; d++) start[d] += start[d - 1];
    for (int64_t i = 0; i < count; i++) value[start[record[i].document - first + 1]++] = record[i].value;
}

static Status values_read(uint32_t **value, int64_t *start, Spill *spill, int number, int64_t first,
                          int64_t documents)
{
    int64_t      count  = spill_count(spill, number);
    MinHashLink *record = malloc((size_t)(count + 1) * sizeof *record);
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

static void part_free(MinHashPart *part)
{
    free(part->query);
    free(part->earlier);
    free(part->bucket);
    *part = (MinHashPart){ 0 };
}

/* Reads part `number` and drops it from the spills; frees what the part held before. */
static Status part_read(MinHashPart *part, MinHash *minhash, int number)
{
    int64_t  first = part_first(minhash, number), documents = part_first(minhash, number + 1) - first;
    int64_t *earlier = calloc((size_t)documents + 2, sizeof *earlier),
            *bucket  = calloc((size_t)documents + 2, sizeof *bucket);
    part_free(part);
    part->query = malloc((size_t)(documents + 1) * sizeof *part->query);
    Status status = earlier && bucket && part->query ? OK : no_memory(documents);
    if (status == OK) status = values_read(&part->earlier, earlier, minhash->links, number, first, documents);
    if (status == OK)
        status = values_read(&part->bucket, bucket, minhash->links, minhash->parts + number, first,
                             documents);
    if (status == OK) queries_fill(part, minhash, earlier, bucket, first, documents);
    free(earlier);
    free(bucket);
    return status;
}

/* ---- lists of kept documents ---- */

/* The kept documents of all large buckets, as singly linked lists in one array. `last` is the newest node
 * of a bucket, and `previous` leads to older ones; 0 ends a list. */
typedef struct { uint32_t last, count; } MinHashList;
typedef struct { uint32_t document, previous; } MinHashNode;
typedef struct {
    MinHashList *bucket;                            /* [large buckets] */
    MinHashNode *node;                              /* [nodes]; node 0 is unused */
    int64_t      nodes, nodes_capacity, unlisted;   /* unlisted: documents that a full list did not take */
} MinHashLists;

static Status lists_open(MinHashLists *lists, int64_t buckets)
{
    *lists = (MinHashLists){ .nodes = 1 };                         /* node 0 ends a list */
    lists->bucket = calloc((size_t)buckets + 1, sizeof *lists->bucket);
    return lists->bucket
               ? OK
               : fail(NO_MEMORY, "no memory for %" PRId64 " large buckets of near duplicates", buckets);
}

/* A full list counts it only. */
static Status lists_add(MinHashLists *lists, uint32_t bucket, uint32_t document)
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

/* ---- a round ---- */

typedef struct { uint32_t document; double jaccard; } MinHashCandidate;     /* jaccard -1: not compared */
/* A document of the round with its candidates, candidate[from .. from + count), sorted by document. best: the
 * earliest similar kept document found so far, with its Jaccard index. */
typedef struct { uint32_t document, best; int64_t from, count, compared; double jaccard; } QueryState;

typedef struct {
    MinHash              *minhash;
    const MinHashReading *reading;
    MinHashLists          lists;
    MinHashPart           part;
    QueryState           *state;  /* [ROUND_MOST], of the round */
    MinHashCandidate     *candidate; int64_t candidates, candidates_capacity;  /* of the whole round */
    /* One bit per document: another was removed for it. */
    uint8_t              *clustered;
    /* First document of the round; earlier ones are decided. */
    uint32_t              first;
    int64_t               round;  /* documents in a round */
} Resolver;

/* ---- candidates of a document ---- */

/* Binary search: the index of the document among the candidates, or where it would be inserted. */
static int64_t candidate_index(const Resolver *s, const QueryState *state, uint32_t document)
{
    const MinHashCandidate *c = s->candidate + state->from;
    int64_t low = 0, high = state->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (c[middle].document < document) low  = middle + 1;
        else                               high = middle;
    }
    return low;
}

static void candidate_insert(Resolver *s, QueryState *state, uint32_t document)
{
    MinHashCandidate *c = s->candidate + state->from;
    int64_t at = candidate_index(s, state, document);
    if (at < state->count && c[at].document == document) return;
    memmove(c + at + 1, c + at, (size_t)(state->count - at) * sizeof *c);
    c[at] = (MinHashCandidate){ document, -1 };
    state->count++;
}

/* Candidates before the round are replaced by the documents that were kept for them; those in the round
 * are not decided yet and are compared as they are. */
static Status query_open(Resolver *s, QueryState *state, const MinHashQuery *query)
{
    /* Room for all candidates that this query can have, so that pointers to them stay valid. */
    int64_t most = s->candidates + query->earliers + query->buckets * MINHASH_LISTED;
    TRY(ARRAY_RESERVE(s->candidate, s->candidates_capacity, most));
    *state = (QueryState){ .document = query->document, .best = NO_DOCUMENT, .from = s->candidates };
    for (int64_t i = 0; i < query->earliers; i++)
        candidate_insert(s, state, query->earlier[i] < s->first ? s->minhash->keeper[query->earlier[i]]
                                                                : query->earlier[i]);
    for (int64_t i = 0; i < query->buckets; i++)
        for (uint32_t at = s->lists.bucket[query->bucket[i]].last; at; at = s->lists.node[at].previous)
            candidate_insert(s, state, s->lists.node[at].document);
    s->candidates += state->count;
    return OK;
}

/* ---- comparing ---- */

/* The Jaccard index, or 0 where the sizes alone exclude the threshold: it is at most the smaller size
 * divided by the larger. */
static double pair_jaccard(const Resolver *s, uint32_t x, uint32_t y)
{
    Shingles a = minhash_set(s->minhash, x), b = minhash_set(s->minhash, y);
    int64_t  fewer = a.count < b.count ? a.count : b.count, more = a.count + b.count - fewer;
    if (!more || (double)fewer / (double)more < s->minhash->plan.threshold) return 0;
    return shingles_jaccard(&a, &b);
}

/* In order of documents. Those before the round are certainly kept, so the first similar one ends the
 * search; a similar one of the round may still be removed, so the search continues. */
static void query_compare(const Resolver *s, QueryState *state)
{
    for (int64_t i = 0; i < state->count && state->best == NO_DOCUMENT; i++) {
        MinHashCandidate *c = &s->candidate[state->from + i];
        c->jaccard = pair_jaccard(s, state->document, c->document);
        state->compared++;
        if (c->document >= s->first || c->jaccard < s->minhash->plan.threshold) continue;
        state->best    = c->document;
        state->jaccard = c->jaccard;
    }
}

static void compare_body(void *context, int64_t begin, int64_t end)
{
    Resolver *s = context;
    for (int64_t i = begin; i < end; i++) query_compare(s, &s->state[i]);
}

/* ---- deciding ---- */

/* Considers a document that is now known to be kept and was perhaps not compared in the round, because
 * another candidate was removed for it after the comparison. */
static void query_try(const Resolver *s, QueryState *state, uint32_t kept)
{
    int64_t at = candidate_index(s, state, kept);
    const MinHashCandidate *c = &s->candidate[state->from + at];
    double jaccard = at < state->count && c->document == kept ? c->jaccard : -1;
    if (kept >= state->best) return;
    if (jaccard < 0) {
        jaccard = pair_jaccard(s, state->document, kept);
        state->compared++;
    }
    if (jaccard < s->minhash->plan.threshold) return;
    state->best    = kept;
    state->jaccard = jaccard;
}

static void remove_document(Resolver *s, const QueryState *state)
{
    uint8_t *byte = &s->clustered[state->best / 8], bit = (uint8_t)(1 << state->best % 8);
    s->minhash->keeper[state->document] = state->best;
    s->minhash->counts.removed++;
    s->minhash->counts.clusters += !(*byte & bit);
    *byte |= bit;
    if (s->reading->on_removed)
        s->reading->on_removed(s->reading->context, state->document, state->best, state->jaccard);
}

/* Runs on one thread in the order of documents. Nodes of a list are newest first, so the walk over the
 * documents of this round stops at the first older one. */
static Status query_decide(Resolver *s, QueryState *state, const MinHashQuery *query)
{
    for (int64_t i = 0; i < query->earliers; i++)
        if (query->earlier[i] >= s->first) query_try(s, state, s->minhash->keeper[query->earlier[i]]);
    for (int64_t i = 0; i < query->buckets; i++)
        for (uint32_t at = s->lists.bucket[query->bucket[i]].last; at; at = s->lists.node[at].previous) {
            if (s->lists.node[at].document < s->first) break;
            query_try(s, state, s->lists.node[at].document);
        }
    s->minhash->counts.compared += state->compared;
    if (state->best != NO_DOCUMENT) {
        remove_document(s, state);
        return OK;
    }
    for (int64_t i = 0; i < query->buckets; i++)
        TRY(lists_add(&s->lists, query->bucket[i], state->document));
    return OK;
}

static Status round_resolve(Resolver *s, const MinHashQuery *query, int64_t count)
{
    s->first      = query->document;
    s->candidates = 0;
    for (int64_t i = 0; i < count; i++) TRY(query_open(s, &s->state[i], &query[i]));
    team_for(s->reading->team, count, 16, compare_body, s);
    for (int64_t i = 0; i < count; i++) TRY(query_decide(s, &s->state[i], &query[i]));
    if (s->round < ROUND_MOST) s->round *= 2;
    return OK;
}

/* ---- all documents ---- */

static Status parts_resolve(Resolver *s)
{
    for (int part = 0; part < s->minhash->parts; part++) {
        TRY(part_read(&s->part, s->minhash, part));
        for (int64_t at = 0, count; at < s->part.queries; at += count) {
            count = s->part.queries - at < s->round ? s->part.queries - at : s->round;
            TRY(round_resolve(s, s->part.query + at, count));
        }
    }
    return OK;
}

/* Parts of about PART_DOCUMENTS documents bound the memory for pairs and members that are read at a time. */
static Status candidate_pairs_open(MinHash *minhash, const MinHashReading *reading)
{
    int64_t parts  = minhash->counts.documents / PART_DOCUMENTS + 1;
    minhash->parts = parts < SPILL_PARTITIONS ? (int)parts : SPILL_PARTITIONS;
    TRY(spill_open(&minhash->links, "pairs of near duplicates", minhash->plan.folder, sizeof(MinHashLink),
                   2 * minhash->parts, minhash->plan.memory / 4));
    TRY(minhash_join(minhash, reading));
    minhash->counts.disk = spill_disk(minhash->keys) + spill_disk(minhash->links);
    spill_close(minhash->keys);
    minhash->keys = NULL;
    return OK;
}

static Status resolver_open(Resolver *s)
{
    int64_t n = s->minhash->counts.documents;
    s->minhash->keeper = calloc((size_t)n + 1, sizeof *s->minhash->keeper);
    s->clustered       = calloc((size_t)n / 8 + 1, 1);
    s->state           = malloc(ROUND_MOST * sizeof *s->state);
    if (s->minhash->keeper && s->clustered && s->state) return OK;
    return fail(NO_MEMORY, "no memory for the duplicates of %" PRId64 " documents", n);
}

static Status documents_resolve(Resolver *s)
{
    int64_t n = s->minhash->counts.documents;
    TRY(resolver_open(s));
    if (!n) return OK;
    TRY(candidate_pairs_open(s->minhash, s->reading));
    TRY(minhash_sets_open(s->minhash, s->reading));
    for (int64_t d = 0; d < n; d++) s->minhash->keeper[d] = (uint32_t)d;
    TRY(lists_open(&s->lists, s->minhash->counts.large));
    return parts_resolve(s);
}

Status minhash_resolve(MinHash *minhash, const MinHashReading *reading)
{
    Resolver s = { .minhash = minhash, .reading = reading, .round = ROUND_FIRST };
    Status  status = documents_resolve(&s);
    minhash->counts.unlisted = s.lists.unlisted;
    part_free(&s.part);
    free(s.lists.bucket);
    free(s.lists.node);
    free(s.state);
    free(s.candidate);
    free(s.clustered);
    return status;
}
