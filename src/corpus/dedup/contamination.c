#include "corpus/dedup/contamination.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/dedup/shingle.h"
#include "corpus/read/source.h"
#include "corpus/dedup/normalized_query.h"
#include "text/unicode.h"

typedef struct { uint64_t hash; int64_t text, word; int file; } Gram;      /* word 0: free */

struct Contamination {
    int      words;
    int64_t  grams, shorter;
    Gram    *gram;
    uint64_t slots;
};

/* ---- the test sets ---- */

static Gram *gram_slot(const Contamination *c, uint64_t hash)
{
    uint64_t at = hash & (c->slots - 1);
    while (c->gram[at].word && c->gram[at].hash != hash) at = (at + 1) & (c->slots - 1);
    return &c->gram[at];
}

static Status grams_room(Contamination *c)
{
    if ((uint64_t)c->grams * 2 < c->slots) return OK;
    Contamination grown = { .slots = c->slots * 2 + (c->slots == 0) * 1024 };
    grown.gram = calloc(grown.slots, sizeof *grown.gram);
    if (!grown.gram) return fail(NO_MEMORY, "no memory for %" PRId64 " n-grams of test sets", c->grams);
    for (uint64_t i = 0; i < c->slots; i++)
        if (c->gram[i].word) *gram_slot(&grown, c->gram[i].hash) = c->gram[i];
    free(c->gram);
    c->gram  = grown.gram;
    c->slots = grown.slots;
    return OK;
}

static Status text_take(Contamination *c, int file, int64_t number, const Buffer *text)
{
    WordWalk    walk = { .text = text->text, .bytes = text->bytes };
    ShingleRoll roll = shingle_roll(c->words);
    WordSeen    word;
    uint64_t    hash;
    while (word_seen(&walk, &word)) {
        if (!shingle_push(&roll, word.hash, &hash)) continue;
        TRY(grams_room(c));
        Gram *gram = gram_slot(c, hash);
        if (gram->word) continue;                  /* where it stood first is what a hit says */
        *gram = (Gram){ hash, number, roll.seen - c->words + 1, file };
        c->grams++;
    }
    c->shorter += roll.seen < c->words;
    return OK;
}

static Status file_take(Contamination *c, NormalizedQuery *n, int file, const ContaminationPlan *plan)
{
    Source  *source;
    Document text;
    bool     more = true;
    TRY(source_open(&source, plan->path[file], plan->key));
    Status status;
    int64_t number = 0;
    while ((status = source_next(source, &text, &more)) == OK && more) {
        status = normalized_query_take(n, text.text, text.bytes);
        if (status == OK) status = text_take(c, file, ++number, &n->text);
        if (status != OK) break;
    }
    source_close(source);
    return status;
}

Status contamination_open(Contamination **out, const ContaminationPlan *plan)
{
    *out = NULL;
    if (plan->words < 1 || plan->words > SHINGLE_WORDS_MOST)
        return fail(BAD_OPTION, "n-grams of %d words cannot be sought: 1 to %d can, %d is usual", plan->words, SHINGLE_WORDS_MOST,
                    CONTAMINATION_WORDS);
    NormalizedQuery n;
    Contamination *c = calloc(1, sizeof *c);
    if (!c) return fail(NO_MEMORY, "no memory for test sets");
    c->words = plan->words;
    Status status = normalized_query_open(&n);
    if (status == OK) status = grams_room(c);
    for (int i = 0; i < plan->paths && status == OK; i++) status = file_take(c, &n, i, plan);
    normalized_query_close(&n);
    if (status == OK) *out = c;
    else              contamination_close(c);
    return status;
}

int64_t contamination_grams(const Contamination *c) { return c->grams; }
int64_t contamination_short(const Contamination *c) { return c->shorter; }

void contamination_close(Contamination *c)
{
    if (!c) return;
    free(c->gram);
    free(c);
}

/* ---- a document ---- */

static Status grow(void **items, int64_t *room, int64_t count, size_t size)
{
    if (count < *room) return OK;
    void *grown = realloc(*items, (size_t)(*room * 2 + 16) * size);
    if (!grown) return fail(NO_MEMORY, "no memory for what a document shares with test sets");
    *items = grown;
    *room  = *room * 2 + 16;
    return OK;
}

Status contamination_find(const Contamination *c, ContaminationFound *found, const char *text, int64_t bytes)
{
    int64_t     from[SHINGLE_WORDS_MOST];              /* where the last n words began */
    WordWalk    walk = { .text = text, .bytes = bytes };
    ShingleRoll roll = shingle_roll(c->words);
    WordSeen    word;
    uint64_t    hash;
    found->hits = found->pieces = found->cuts = 0;
    for (int64_t seen = 0; word_seen(&walk, &word); seen++) {
        from[seen % c->words] = word.from;
        if (!shingle_push(&roll, word.hash, &hash)) continue;
        const Gram *gram = gram_slot(c, hash);
        if (!gram->word) continue;
        TRY(grow((void **)&found->hit, &found->hits_room, found->hits, sizeof *found->hit));
        found->hit[found->hits++] = (ContaminationHit){ from[(seen + 1) % c->words], word.end, gram->file, gram->text, gram->word };
    }
    return OK;
}

/* ---- what stays of it ---- */

static bool follows(const char *text, int64_t at) { return ((uint8_t)text[at] & 0xC0) == 0x80; }

static bool blank(const char *text, int64_t at) { return (uint8_t)text[at] < 0x80 && (unicode_row[0][(uint8_t)text[at]] & SPACE); }

/* So many characters before `at`, and on to the blank before them, but no farther than `least` */
static int64_t back(const char *text, int64_t at, int64_t characters, int64_t least)
{
    for (; at > least && characters > 0; characters--)
        for (at--; at > least && follows(text, at); ) at--;
    while (at > least && !blank(text, at - 1)) at--;
    return at > least ? at : least;
}

/* So many behind it, and on to a blank; no less than `least`, which stands before one */
static int64_t ahead(const char *text, int64_t bytes, int64_t at, int64_t characters, int64_t least)
{
    for (; at < bytes && characters > 0; characters--)
        for (at++; at < bytes && follows(text, at); ) at++;
    if (at <= least) return least;
    while (at < bytes && !blank(text, at)) at++;
    return at;
}

static int64_t characters(const char *text, int64_t from, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = from; i < end; i++) count += !follows(text, i);
    return count;
}

static Status piece_keep(ContaminationFound *f, const char *text, int64_t from, int64_t end, int64_t least)
{
    if (from >= end || characters(text, from, end) < least) return OK;
    TRY(grow((void **)&f->piece, &f->pieces_room, f->pieces, sizeof *f->piece));
    f->piece[f->pieces++] = (ContaminationPiece){ from, end };
    return OK;
}

/* Cuts that touch are one. No stretch is walked twice, however long its words are. */
Status contamination_cut(ContaminationFound *f, ContaminationCut cut, const char *text, int64_t bytes)
{
    int64_t end = 0;                                   /* of the last cut */
    f->pieces = f->cuts = 0;
    for (int64_t i = 0; i < f->hits; i++) {
        int64_t from = back(text, f->hit[i].from, cut.side, end);
        if (from > end || !f->cuts) {
            TRY(piece_keep(f, text, end, from, cut.piece));
            f->cuts++;
        }
        end = ahead(text, bytes, f->hit[i].end, cut.side, end);
    }
    TRY(piece_keep(f, text, end, bytes, cut.piece));
    if (f->cuts > cut.cuts) f->pieces = 0;
    return OK;
}

void contamination_found_free(ContaminationFound *found)
{
    free(found->hit);
    free(found->piece);
    *found = (ContaminationFound){ 0 };
}
