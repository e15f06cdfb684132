/* Candidate pairs, in the order of documents, to who goes for whom: the earliest kept document that one of the candidates
 * is, or went for, and that is alike enough. Rounds of documents read and compare on all threads, then one decides. A
 * candidate within its own round may yet go, so it is compared as if it stayed, and what it went for where it did not. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/near_inside.h"

enum { ROUND_LEAST = 16, ROUND_USUAL = 1024, ROUND_MOST = 8192, PART_DOCUMENTS = 1 << 16, NOBODY = UINT32_MAX };

typedef struct { uint32_t document; double jaccard; } Candidate;
/* A document with candidates: before[from .. end), of which candidate[from .. from + candidates) was made for the round */
typedef struct { uint32_t document, best; int64_t from, end, candidates, compared; double jaccard; } Asking;

typedef struct {
    Near              *near;
    const NearReading *reading;
    NearSets   sets;
    NearPair  *pair;
    uint32_t  *before;
    Candidate *candidate;
    Asking    *asking;   int64_t askings;
    int64_t   *start;                          /* of each document of the partition in `before` */
    uint8_t   *clustered;                      /* a bit for each document for which another went */
    uint32_t   first;                          /* document of the round */
    int64_t    round;                          /* documents in it */
} Settler;

/* ---- a partition's pairs by document, each candidate once ---- */

static int64_t keep_once(uint32_t *sorted, int64_t count, uint32_t value)
{
    int64_t at = count;
    while (at > 0 && sorted[at - 1] > value) at--;
    if (at > 0 && sorted[at - 1] == value) return count;
    memmove(sorted + at + 1, sorted + at, (size_t)(count - at) * sizeof *sorted);
    sorted[at] = value;
    return count + 1;
}

static void part_free(Settler *s)
{
    free(s->pair), free(s->before), free(s->candidate), free(s->asking), free(s->start);
    s->pair = NULL, s->before = NULL, s->candidate = NULL, s->asking = NULL, s->start = NULL;
}

static Status part_open(Settler *s, int64_t pairs, int64_t documents)
{
    s->pair      = malloc((size_t)(pairs + 1) * sizeof *s->pair);
    s->before    = malloc((size_t)(pairs + 1) * sizeof *s->before);
    s->candidate = malloc((size_t)(pairs + 1) * sizeof *s->candidate);
    s->asking    = malloc((size_t)(documents + 1) * sizeof *s->asking);
    s->start     = calloc((size_t)documents + 2, sizeof *s->start);
    if (!s->pair || !s->before || !s->candidate || !s->asking || !s->start)
        return fail(NO_MEMORY, "no memory to settle %" PRId64 " pairs of near duplicates; they take 32 bytes each", pairs);
    return OK;
}

/* before[start[d] .. start[d + 1]) of each document d of the partition, in the order they were found */
static void part_spread(Settler *s, int64_t pairs, int64_t first, int64_t documents)
{
    for (int64_t i = 0; i < pairs; i++) s->start[s->pair[i].document - first + 2]++;
    for (int64_t d = 2; d <= documents; d++) s->start[d] += s->start[d - 1];
    for (int64_t i = 0; i < pairs; i++) s->before[s->start[s->pair[i].document - first + 1]++] = s->pair[i].before;
}

static void part_asking(Settler *s, int64_t first, int64_t documents)
{
    s->askings = 0;
    for (int64_t d = 0; d < documents; d++) {
        uint32_t *before = s->before + s->start[d];
        int64_t   found  = s->start[d + 1] - s->start[d], once = 0;
        for (int64_t i = 0; i < found; i++) once = keep_once(before, once, before[i]);
        if (!once) continue;
        s->asking[s->askings++] = (Asking){ .document = (uint32_t)(first + d), .from = s->start[d], .end = s->start[d] + once };
        s->near->counts.pairs += once;
    }
}

static int64_t part_first(const Near *near, int part)
{
    int64_t n = near->counts.documents, parts = near->pair_partitions;
    return ((int64_t)part * n + parts - 1) / parts;
}

static Status part_read(Settler *s, int part)
{
    int64_t pairs = spill_count(s->near->pairs, part);
    int64_t first = part_first(s->near, part), documents = part_first(s->near, part + 1) - first;
    TRY(part_open(s, pairs, documents));
    TRY(spill_read(s->near->pairs, part, s->pair));
    spill_drop(s->near->pairs, part);
    part_spread(s, pairs, first, documents);
    part_asking(s, first, documents);
    return OK;
}

/* ---- a round ---- */

static double alike(const Settler *s, uint32_t x, uint32_t y)
{
    const Shingles *a = near_sets_find(&s->sets, x), *b = near_sets_find(&s->sets, y);
    int64_t fewer = a->count < b->count ? a->count : b->count, more = a->count + b->count - fewer;
    if (!more || (double)fewer / (double)more < s->near->plan.threshold) return 0;      /* no set can be more alike than its size */
    return shingles_jaccard(a, b);
}

static void candidate_once(Settler *s, Asking *ask, uint32_t document)
{
    Candidate *c  = s->candidate + ask->from;
    int64_t    at = ask->candidates;
    while (at > 0 && c[at - 1].document > document) at--;
    if (at > 0 && c[at - 1].document == document) return;
    memmove(c + at + 1, c + at, (size_t)(ask->candidates - at) * sizeof *c);
    c[at] = (Candidate){ document, -1 };
    ask->candidates++;
}

static Status asking_open(Settler *s, Asking *ask)
{
    ask->best = NOBODY;
    TRY(near_sets_want(&s->sets, ask->document));
    for (int64_t i = ask->from; i < ask->end; i++)
        candidate_once(s, ask, s->before[i] < s->first ? s->near->keeper[s->before[i]] : s->before[i]);
    for (int64_t i = 0; i < ask->candidates; i++) TRY(near_sets_want(&s->sets, s->candidate[ask->from + i].document));
    return OK;
}

/* In order: those of rounds before are surely kept, and the first that is alike ends it */
static void asking_compare(const Settler *s, Asking *ask)
{
    for (int64_t i = 0; i < ask->candidates && ask->best == NOBODY; i++) {
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

static Status known_or_compare(Settler *s, Asking *ask, uint32_t kept, double *jaccard)
{
    for (int64_t i = 0; i < ask->candidates; i++) {
        *jaccard = s->candidate[ask->from + i].jaccard;
        if (s->candidate[ask->from + i].document == kept && *jaccard >= 0) return OK;
    }
    TRY(near_sets_want(&s->sets, kept));
    TRY(near_sets_fill(&s->sets, s->reading));
    *jaccard = alike(s, ask->document, kept);
    ask->compared++;
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

static Status asking_decide(Settler *s, Asking *ask)
{
    for (int64_t i = ask->from; i < ask->end; i++) {
        if (s->before[i] < s->first) continue;
        uint32_t kept = s->near->keeper[s->before[i]];
        double   jaccard;
        if (kept >= ask->best) continue;
        TRY(known_or_compare(s, ask, kept, &jaccard));
        if (jaccard < s->near->plan.threshold) continue;
        ask->best    = kept;
        ask->jaccard = jaccard;
    }
    s->near->counts.compared += ask->compared;
    if (ask->best != NOBODY) remove_document(s, ask);
    return OK;
}

static Status round_settle(Settler *s, Asking *asking, int64_t count)
{
    RoundJob job = { s, asking };
    s->first = asking->document;
    for (int64_t i = 0; i < count; i++) TRY(asking_open(s, &asking[i]));
    TRY(near_sets_fill(&s->sets, s->reading));
    team_for(s->reading->team, count, 16, compare_body, &job);
    for (int64_t i = 0; i < count; i++) TRY(asking_decide(s, &asking[i]));
    TRY(near_sets_turn(&s->sets));
    if (s->sets.here > s->sets.most && s->round > ROUND_LEAST) s->round /= 2;
    if (s->sets.here < s->sets.most / 4 && s->round < ROUND_MOST) s->round *= 2;
    return OK;
}

static Status parts_settle(Settler *s)
{
    for (int part = 0; part < s->near->pair_partitions; part++) {
        TRY(part_read(s, part));
        for (int64_t at = 0, count; at < s->askings; at += count) {
            count = s->askings - at < s->round ? s->askings - at : s->round;
            TRY(round_settle(s, s->asking + at, count));
        }
        part_free(s);
    }
    return OK;
}

/* ---- all ---- */

static Status pairs_open(Near *near, const NearReading *reading)
{
    int64_t parts = near->counts.documents / PART_DOCUMENTS + 1;
    near->pair_partitions = parts < SPILL_PARTITIONS ? (int)parts : SPILL_PARTITIONS;
    TRY(spill_open(&near->pairs, "pairs of near duplicates", near->plan.folder, sizeof(NearPair), near->pair_partitions, near->plan.memory / 4));
    TRY(near_join(near, reading));
    near->counts.disk = spill_disk(near->keys) + spill_disk(near->pairs);
    spill_close(near->keys);
    near->keys = NULL;
    return OK;
}

Status near_settle(Near *near, const NearReading *reading)
{
    int64_t n = near->counts.documents;
    near->keeper = malloc((size_t)(n + 1) * sizeof *near->keeper);
    Settler s = { .near = near, .reading = reading, .round = ROUND_USUAL, .sets.most = near->plan.memory / 2, .sets.round = 1,
                  .clustered = calloc((size_t)n / 8 + 1, 1) };
    Status status = near->keeper && s.clustered ? OK : fail(NO_MEMORY, "no memory for whom %" PRId64 " documents go", n);
    for (int64_t d = 0; d < n && status == OK; d++) near->keeper[d] = (uint32_t)d;
    if (status == OK && n) status = pairs_open(near, reading);
    if (status == OK && n) status = parts_settle(&s);
    near->counts.read = s.sets.read;
    part_free(&s);
    near_sets_free(&s.sets);
    free(s.clustered);
    return status;
}
