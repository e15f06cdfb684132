/* Candidates, in the order of documents, to who goes for whom: the earliest kept document that a candidate is, or went
 * for, and that is alike enough. Rounds of documents read and compare on all threads, then one decides. What depends on
 * decisions of the own round waits for them: a candidate of the round may go, and kept ones enter the buckets' lists.
 * Lists only grow, so who settles a document is the same wherever rounds begin.                                      */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/dedup/minhash.h"
#include "corpus/dedup/minhash_lists.h"

enum { ROUND_LEAST = 16, ROUND_USUAL = 1024, ROUND_MOST = 8192, PART_DOCUMENTS = 1 << 16, NOBODY = UINT32_MAX };

typedef struct { uint32_t document; double jaccard; } Candidate;             /* jaccard -1: not compared */
typedef struct { uint32_t document, best; int64_t from, count, compared; double jaccard; } Asking;  /* candidate[from ..] */

typedef struct {
    MinHash              *near;
    const MinHashReading *reading;
    MinHashSets   sets;
    MinHashLists  lists;
    MinHashPart   part;
    Asking    *asking;                         /* of the round */
    Candidate *candidate; int64_t candidates, candidates_room;
    uint8_t   *clustered;                      /* a bit for each document for which another went */
    uint32_t   first;                          /* document of the round */
    int64_t    round;                          /* documents in it */
} Settler;

/* ---- who is asked ---- */

/* Where it stands, or would, among the candidates in order */
static int64_t candidate_place(const Settler *s, const Asking *ask, uint32_t document)
{
    const Candidate *c = s->candidate + ask->from;
    int64_t low = 0, high = ask->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (c[middle].document < document) low  = middle + 1;
        else                               high = middle;
    }
    return low;
}

static void candidate_once(Settler *s, Asking *ask, uint32_t document)
{
    Candidate *c  = s->candidate + ask->from;
    int64_t    at = candidate_place(s, ask, document);
    if (at < ask->count && c[at].document == document) return;
    memmove(c + at + 1, c + at, (size_t)(ask->count - at) * sizeof *c);
    c[at] = (Candidate){ document, -1 };
    ask->count++;
}

static Status candidates_room(Settler *s, const MinHashAsked *asked)
{
    int64_t most = s->candidates + asked->befores + asked->buckets * MINHASH_LISTED;
    if (most <= s->candidates_room) return OK;
    Candidate *grown = realloc(s->candidate, (size_t)most * 2 * sizeof *grown);
    if (!grown) return fail(NO_MEMORY, "no memory for %" PRId64 " candidates of near duplicates", most * 2);
    s->candidate = grown;
    s->candidates_room = most * 2;
    return OK;
}

static Status asking_open(Settler *s, Asking *ask, const MinHashAsked *asked)
{
    TRY(candidates_room(s, asked));
    *ask = (Asking){ .document = asked->document, .best = NOBODY, .from = s->candidates };
    for (int64_t i = 0; i < asked->befores; i++)
        candidate_once(s, ask, asked->before[i] < s->first ? s->near->keeper[asked->before[i]] : asked->before[i]);
    for (int64_t i = 0; i < asked->buckets; i++)
        for (uint32_t at = s->lists.bucket[asked->bucket[i]].last; at; at = s->lists.place[at].before)
            candidate_once(s, ask, s->lists.place[at].document);
    s->candidates += ask->count;
    if (ask->count) TRY(minhash_sets_want(&s->sets, ask->document));
    for (int64_t i = 0; i < ask->count; i++) TRY(minhash_sets_want(&s->sets, s->candidate[ask->from + i].document));
    return OK;
}

/* ---- comparing ---- */

static double alike(const Settler *s, uint32_t x, uint32_t y)
{
    const Shingles *a = minhash_sets_find(&s->sets, x), *b = minhash_sets_find(&s->sets, y);
    int64_t fewer = a->count < b->count ? a->count : b->count, more = a->count + b->count - fewer;
    if (!more || (double)fewer / (double)more < s->near->plan.threshold) return 0;      /* no set can be more alike than its size */
    return shingles_jaccard(a, b);
}

/* In order: those before the round are surely kept, and the first that is alike ends it */
static void asking_compare(const Settler *s, Asking *ask)
{
    for (int64_t i = 0; i < ask->count && ask->best == NOBODY; i++) {
        Candidate *c = &s->candidate[ask->from + i];
        c->jaccard = alike(s, ask->document, c->document);
        ask->compared++;
        if (c->document >= s->first || c->jaccard < s->near->plan.threshold) continue;
        ask->best    = c->document;
        ask->jaccard = c->jaccard;
    }
}

typedef struct { Settler *settler; Asking *asking; } RoundJob;

static void compare_body(void *context, int64_t begin, int64_t end)
{
    RoundJob *job = context;
    for (int64_t i = begin; i < end; i++) asking_compare(job->settler, &job->asking[i]);
}

/* ---- deciding ---- */

/* A kept one, of whom may not have been known when the round was compared */
static Status asking_try(Settler *s, Asking *ask, uint32_t kept)
{
    int64_t at = candidate_place(s, ask, kept);
    const Candidate *c = &s->candidate[ask->from + at];
    double jaccard = at < ask->count && c->document == kept ? c->jaccard : -1;
    if (kept >= ask->best) return OK;
    if (jaccard < 0) {
        TRY(minhash_sets_want(&s->sets, ask->document));
        TRY(minhash_sets_want(&s->sets, kept));
        TRY(minhash_sets_fill(&s->sets, s->reading));
        jaccard = alike(s, ask->document, kept);
        ask->compared++;
    }
    if (jaccard < s->near->plan.threshold) return OK;
    ask->best    = kept;
    ask->jaccard = jaccard;
    return OK;
}

static void remove_document(Settler *s, const Asking *ask)
{
    uint8_t *byte = &s->clustered[ask->best / 8], bit = (uint8_t)(1 << ask->best % 8);
    s->near->keeper[ask->document] = ask->best;
    s->near->counts.removed++;
    s->near->counts.clusters += !(*byte & bit);
    *byte |= bit;
    if (s->reading->told) s->reading->told(s->reading->context, ask->document, ask->best, ask->jaccard);
}

static Status asking_decide(Settler *s, Asking *ask, const MinHashAsked *asked)
{
    for (int64_t i = 0; i < asked->befores; i++)
        if (asked->before[i] >= s->first) TRY(asking_try(s, ask, s->near->keeper[asked->before[i]]));
    for (int64_t i = 0; i < asked->buckets; i++)
        for (uint32_t at = s->lists.bucket[asked->bucket[i]].last; at; at = s->lists.place[at].before) {
            if (s->lists.place[at].document < s->first) break;
            TRY(asking_try(s, ask, s->lists.place[at].document));
        }
    s->near->counts.compared += ask->compared;
    if (ask->best != NOBODY) {
        remove_document(s, ask);
        return OK;
    }
    for (int64_t i = 0; i < asked->buckets; i++) TRY(minhash_lists_add(&s->lists, asked->bucket[i], ask->document));
    return OK;
}

static Status round_settle(Settler *s, const MinHashAsked *asked, int64_t count)
{
    RoundJob job = { s, s->asking };
    s->first      = asked->document;
    s->candidates = 0;
    for (int64_t i = 0; i < count; i++) TRY(asking_open(s, &s->asking[i], &asked[i]));
    TRY(minhash_sets_fill(&s->sets, s->reading));
    team_for(s->reading->team, count, 16, compare_body, &job);
    for (int64_t i = 0; i < count; i++) TRY(asking_decide(s, &s->asking[i], &asked[i]));
    TRY(minhash_sets_turn(&s->sets));
    if (s->sets.here > s->sets.most && s->round > ROUND_LEAST) s->round /= 2;
    if (s->sets.here < s->sets.most / 4 && s->round < ROUND_MOST) s->round *= 2;
    return OK;
}

/* ---- all ---- */

static Status parts_settle(Settler *s)
{
    for (int part = 0; part < s->near->parts; part++) {
        TRY(minhash_part_read(&s->part, s->near, part));
        for (int64_t at = 0, count; at < s->part.askeds; at += count) {
            count = s->part.askeds - at < s->round ? s->part.askeds - at : s->round;
            TRY(round_settle(s, s->part.asked + at, count));
        }
    }
    return OK;
}

static Status pairs_open(MinHash *near, const MinHashReading *reading)
{
    int64_t parts = near->counts.documents / PART_DOCUMENTS + 1, memory = near->plan.memory;
    near->parts = parts < SPILL_PARTITIONS ? (int)parts : SPILL_PARTITIONS;
    TRY(spill_open(&near->pairs, "pairs of near duplicates", near->plan.folder, sizeof(MinHashPair), near->parts, memory / 8));
    TRY(spill_open(&near->members, "buckets of near duplicates", near->plan.folder, sizeof(MinHashMember), near->parts, memory / 8));
    TRY(minhash_join(near, reading));
    near->counts.disk = spill_disk(near->keys) + spill_disk(near->pairs) + spill_disk(near->members);
    spill_close(near->keys);
    near->keys = NULL;
    return OK;
}

static Status settler_open(Settler *s)
{
    int64_t n = s->near->counts.documents;
    s->near->keeper = malloc((size_t)(n + 1) * sizeof *s->near->keeper);
    s->clustered    = calloc((size_t)n / 8 + 1, 1);
    s->asking       = malloc(ROUND_MOST * sizeof *s->asking);
    s->sets         = (MinHashSets){ .most = s->near->plan.memory / 2, .round = 1 };
    s->round        = ROUND_USUAL;
    if (!s->near->keeper || !s->clustered || !s->asking) return fail(NO_MEMORY, "no memory for whom %" PRId64 " documents go", n);
    for (int64_t d = 0; d < n; d++) s->near->keeper[d] = (uint32_t)d;
    return OK;
}

Status minhash_resolve(MinHash *near, const MinHashReading *reading)
{
    Settler s = { .near = near, .reading = reading };
    Status  status = settler_open(&s);
    if (status == OK && near->counts.documents) status = pairs_open(near, reading);
    if (status == OK && near->counts.documents) status = minhash_lists_open(&s.lists, near->counts.large);
    if (status == OK && near->counts.documents) status = parts_settle(&s);
    near->counts.read     = s.sets.read;
    near->counts.unlisted = s.lists.unlisted;
    minhash_part_free(&s.part);
    minhash_lists_free(&s.lists);
    minhash_sets_free(&s.sets);
    free(s.asking);
    free(s.candidate);
    free(s.clustered);
    return status;
}
