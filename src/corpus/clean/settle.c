#include "corpus/clean/settle.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "corpus/clean/pace.h"

enum { ROWS_AT_ONCE = 4096 };

typedef struct {
    Settled     *settled;
    const Judge *judge;
    const Stash *stash;
    Team        *team;
    StashReader *reader;            /* one a worker */
    Pace         pace;
} Settling;

static Status stop_look(const Judge *j)
{
    return *j->plan->stop ? fail(INTERRUPTED, "stopped by a signal; the same command goes on from here") : OK;
}

/* ---- whole documents ---- */

static Status hashes_add(Settling *s)
{
    StashRow row[256];
    int64_t  all = s->settled->documents, most = (int64_t)(sizeof row / sizeof *row);
    for (int64_t at = 0, count; at < all; at += count) {
        count = all - at < most ? all - at : most;
        TRY(stash_rows(s->stash, row, at, count));
        for (int64_t i = 0; i < count; i++) TRY(exact_add(s->settled->exact, row[i].hash));
    }
    return exact_settle(s->settled->exact, s->team);
}

static Status exact_find(Settling *s, const char *folder)
{
    const CleanPlan *p = s->judge->plan;
    ExactPlan plan = { .folder = folder, .memory = p->memory, .keepers = p->clusters || p->pairs || p->dropped };
    if (!p->exact) return OK;
    TRY(exact_open(&s->settled->exact, &plan));
    return hashes_add(s);
}

static Status keys_add(Settling *s)
{
    int64_t   all = s->settled->documents, keys = s->judge->keys;
    uint64_t *key = malloc((size_t)(ROWS_AT_ONCE * keys) * sizeof *key);
    Status    status = key ? OK : fail(NO_MEMORY, "no memory for the keys of %d documents", ROWS_AT_ONCE);
    for (int64_t at = 0, count; at < all && status == OK; at += count) {
        count  = all - at < ROWS_AT_ONCE ? all - at : ROWS_AT_ONCE;
        status = stash_keys(s->stash, key, at, count);
        for (int64_t i = 0; i < count && status == OK; i++) status = near_add(s->settled->near, key + i * keys);
        if (status == OK) status = stop_look(s->judge);
    }
    free(key);
    return status;
}

static Status shingles_read(void *context, int worker, int64_t document, Shingles *shingles)
{
    Settling *s = context;
    StashRow  row;
    StashDocument d;
    TRY(stop_look(s->judge));
    TRY(stash_rows(s->stash, &row, document, 1));
    TRY(stash_read(s->stash, &s->reader[worker], &d, &row));
    return shingles_of(shingles, s->judge->plan->near_words, d.text.text, d.text.bytes);
}

static void pair_told(void *context, int64_t removed, int64_t kept, double jaccard)
{
    Settling *s = context;
    (void)kept;
    if (s->settled->jaccard) s->settled->jaccard[removed] = (float)jaccard;
}

static Status near_find(Settling *s)
{
    const CleanPlan *p = s->judge->plan;
    Settled *t = s->settled;
    NearReading reading = { .team = s->team, .exact = t->exact, .read = shingles_read, .told = pair_told, .context = s };
    if (!s->judge->near) return OK;
    t->near = s->judge->near;
    if (p->pairs && !(t->jaccard = calloc((size_t)t->documents + 1, sizeof *t->jaccard)))
        return fail(NO_MEMORY, "--pairs: no memory for %lld documents", (long long)t->documents);
    TRY(keys_add(s));
    return near_settle(t->near, &reading);
}

/* ---- lines and paragraphs, of what stays ---- */

static Status parts_of(Settling *s, ExactSpace *space, const StashRow *row)
{
    StashDocument d;
    const CleanPlan *p = s->judge->plan;
    const char *text;
    int64_t     bytes;
    TRY(stash_read(s->stash, &s->reader[0], &d, row));
    ExactWalk walk = { .unit = p->parts, .text = d.text.text, .bytes = d.text.bytes };
    while (exact_part(&walk, &text, &bytes)) {
        Hash128 hash;
        TRY(exact_hash(&hash, p->normalization, space, text, bytes));
        TRY(exact_add(s->settled->parts, hash));
    }
    return OK;
}

static Status parts_add(Settling *s, ExactSpace *space)
{
    for (int64_t d = 0; d < s->settled->documents; d++) {
        StashRow row;
        if (settled_rule(s->settled, d) != RULE_KEPT) continue;
        TRY(stop_look(s->judge));
        TRY(stash_rows(s->stash, &row, d, 1));
        TRY(parts_of(s, space, &row));
        pace_count(&s->pace, d, "documents");
    }
    return exact_settle(s->settled->parts, s->team);
}

static Status parts_find(Settling *s, const char *folder)
{
    ExactSpace space = { 0 };
    ExactPlan  plan  = { .folder = folder, .memory = s->judge->plan->memory, .narrow = true };
    if (s->judge->plan->parts == EXACT_DOCUMENTS) return OK;
    TRY(exact_open(&s->settled->parts, &plan));
    s->pace = pace_begin("clean: lines", 0, s->settled->documents);
    Status status = parts_add(s, &space);
    exact_space_free(&space);
    return status;
}

/* ---- all ---- */

Status settle(Settled *settled, const Judge *j, const Stash *stash, const char *folder)
{
    int      workers = j->plan->workers;
    Settling s = { .settled = settled, .judge = j, .stash = stash };
    *settled = (Settled){ .documents = stash_size(stash).documents };
    s.reader = calloc((size_t)workers, sizeof *s.reader);
    Status status = s.reader ? team_open(&s.team, workers) : fail(NO_MEMORY, "no memory for %d workers", workers);
    if (status == OK) status = exact_find(&s, folder);
    if (status == OK) status = near_find(&s);
    if (status == OK) status = parts_find(&s, folder);
    for (int i = 0; s.reader && i < workers; i++) stash_free_reader(&s.reader[i]);
    if (s.team) team_close(s.team);
    free(s.reader);
    return status;
}

void settled_close(Settled *t)
{
    if (t->exact) exact_close(t->exact);
    if (t->parts) exact_close(t->parts);
    free(t->jaccard);
    *t = (Settled){ 0 };
}

int settled_rule(const Settled *t, int64_t document)
{
    if (t->exact && exact_removed(t->exact, document)) return RULE_EXACT;
    if (t->near && near_keeper(t->near, document) != document) return RULE_NEAR;
    return RULE_KEPT;
}

int64_t settled_keeper(const Settled *t, int64_t document)
{
    if (t->exact && exact_removed(t->exact, document)) document = exact_keeper(t->exact, document);
    return t->near ? near_keeper(t->near, document) : document;
}
