/* The merges. Each distinct word is a run of ids; each pair of neighbours has its count, and the words where
 * it came up. A heap gives the pair with the highest count; what it says may be old, and then goes back with
 * the count as it is now.
 *
 * Hugging Face's trainer is followed in the corners too. Places that a round adds to a pair are an entry of
 * the heap of their own: where one token is made by two different merges, a pair may come up a second time,
 * and then its later merge counts. */
#include <stdlib.h>
#include <string.h>
#include "text/bpe/bpe_train_internal.h"

typedef struct { int64_t begin, count; int32_t length; } TrainWord;
typedef struct {
    uint64_t pair;
    int64_t  count;
    int32_t *fill;
    int32_t  word, fresh;
} TrainPair; /* fresh, fill: of this round */
typedef struct { int64_t count; uint64_t pair; int32_t *words; int32_t length; } Entry;
typedef struct { int32_t pair, word; } Sighting;
typedef struct TrainBlock { struct TrainBlock *next; int64_t used, room; int32_t place[]; } TrainBlock;

enum { BLOCK_PLACES = 1 << 18 };

typedef struct {
    BpeTrain *train;
    int32_t  *symbol;
    TrainWord     *word;
    int32_t   words;
    TrainPair     *pair;                        /* all that ever were */
    int32_t  *pair_place;                  /* open addressing: index + 1 */
    int64_t   pairs, pair_room, places;
    Entry    *heap;
    int64_t   entries, heap_room;
    Sighting *seen;                        /* this round: where a pair is new */
    int64_t   sightings, seen_room;
    int32_t  *touched;                     /* this round: pairs with sightings */
    int64_t   touches, touched_room;
    TrainBlock    *block;                       /* of entries' words */
} Merger;

#define GROW(array, count, room) do { \
        if ((count) < (room)) break; \
        (room) = (room) ? 2 * (room) : 4096; \
        (array) = realloc(array, (size_t)(room) * sizeof *(array)); \
        CHECK(array, "no memory for %lld pairs of a vocabulary", (long long)(room)); \
    } while (0)

/* ---- pairs ---- */

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static int32_t *pair_place(const Merger *m, uint64_t key)
{
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        int32_t *place = &m->pair_place[at & (uint64_t)(m->places - 1)];
        if (!*place || m->pair[*place - 1].pair == key) return place;
    }
}

static void places_double(Merger *m)
{
    m->places = m->places ? 2 * m->places : 1 << 16;
    free(m->pair_place);
    m->pair_place = calloc((size_t)m->places, sizeof *m->pair_place);
    CHECK(m->pair_place, "no memory for %lld pairs of a vocabulary", (long long)m->places);
    for (int64_t i = 0; i < m->pairs; i++) *pair_place(m, m->pair[i].pair) = (int32_t)i + 1;
}

static TrainPair *pair_of(Merger *m, uint64_t key)
{
    int32_t *place = pair_place(m, key);
    if (*place) return &m->pair[*place - 1];
    GROW(m->pair, m->pairs, m->pair_room);
    m->pair[m->pairs] = (TrainPair){ .pair = key, .word = -1 };
    *place = (int32_t)++m->pairs;
    TrainPair *made = &m->pair[m->pairs - 1];
    CHECK(m->pairs < INT32_MAX / 2, "more pairs than can be counted");
    if (2 * m->pairs > m->places) places_double(m);
    return made;
}

static void pair_lost(Merger *m, int32_t left, int32_t right, int32_t word)
{
    pair_of(m, pair_key(left, right))->count -= m->word[word].count;
}

static void pair_seen(Merger *m, int32_t left, int32_t right, int32_t word)
{
    TrainPair *p = pair_of(m, pair_key(left, right));
    p->count += m->word[word].count;
    if (p->fresh && p->word == word) return;
    int32_t index = (int32_t)(p - m->pair);
    if (!p->fresh) {
        GROW(m->touched, m->touches, m->touched_room);
        m->touched[m->touches++] = index;
    }
    GROW(m->seen, m->sightings, m->seen_room);
    m->seen[m->sightings++] = (Sighting){ index, word };
    p->word = word;
    p->fresh++;
}

/* ---- the heap ---- */

static bool before(const Entry *a, const Entry *b)
{
    return a->count > b->count || (a->count == b->count && a->pair < b->pair);
}

static void heap_push(Merger *m, Entry e)
{
    GROW(m->heap, m->entries, m->heap_room);
    int64_t at = m->entries++;
    for (; at > 0 && before(&e, &m->heap[(at - 1) / 4]); at = (at - 1) / 4)
        m->heap[at] = m->heap[(at - 1) / 4];
    m->heap[at] = e;
}

/* e goes in at the top, and sinks */
static void heap_sink(Merger *m, Entry e)
{
    int64_t at = 0;
    for (;;) {
        int64_t child = 4 * at + 1, best = child, end = child + 4 < m->entries ? child + 4 : m->entries;
        if (child >= m->entries) break;
        for (int64_t c = child + 1; c < end; c++) if (before(&m->heap[c], &m->heap[best])) best = c;
        if (!before(&m->heap[best], &e)) break;
        m->heap[at] = m->heap[best];
        at = best;
    }
    m->heap[at] = e;
}

static void heap_pop(Merger *m)
{
    Entry last = m->heap[--m->entries];
    if (m->entries) heap_sink(m, last);
}

/* ---- a round: what was seen becomes entries ---- */

static int32_t *places_take(Merger *m, int64_t count)
{
    TrainBlock *b = m->block;
    if (!b || b->room - b->used < count) {
        int64_t room = count > BLOCK_PLACES ? count : BLOCK_PLACES;
        b = malloc(sizeof *b + (size_t)room * sizeof *b->place);
        CHECK(b, "no memory for the places of pairs");
        *b = (TrainBlock){ .next = m->block, .room = room };
        m->block = b;
    }
    b->used += count;
    return b->place + b->used - count;
}

static void round_end(Merger *m)
{
    for (int64_t i = 0; i < m->touches; i++) {
        TrainPair *p = &m->pair[m->touched[i]];
        if (p->count <= 0) p->fill = NULL;
        else p->fill = places_take(m, p->fresh);
    }
    for (int64_t i = 0; i < m->sightings; i++) {
        TrainPair *p = &m->pair[m->seen[i].pair];
        if (p->fill) *p->fill++ = m->seen[i].word;
    }
    for (int64_t i = 0; i < m->touches; i++) {
        TrainPair *p = &m->pair[m->touched[i]];
        if (p->fill) heap_push(m, (Entry){ p->count, p->pair, p->fill - p->fresh, p->fresh });
        p->fresh = 0;
    }
    m->touches = m->sightings = 0;
}

/* ---- words ---- */

static void words_merge(void *context, int64_t begin, int64_t end)
{
    WordTable **pair = context;
    for (int64_t i = begin; i < end; i++) word_table_absorb(pair[2 * i], pair[2 * i + 1]);
}

/* All lanes into the first: halves, quarters ... */
static void lanes_join(BpeTrain *t)
{
    WordTable **pair = malloc((size_t)(t->lanes + 1) * sizeof *pair);
    CHECK(pair, "no memory for %d tables", t->lanes);
    for (int stride = 1; stride < t->lanes; stride *= 2) {
        int pairs = 0;
        for (int i = 0; i + stride < t->lanes; i += 2 * stride, pairs++) {
            pair[2 * pairs]     = &t->lane[i];
            pair[2 * pairs + 1] = &t->lane[i + stride];
        }
        team_for(t->plan.team, pairs, 1, words_merge, pair);
    }
    free(pair);
}

static void words_spell(Merger *m)
{
    BpeTrain *t = m->train;
    const WordTable *table = &t->lane[0];
    int64_t symbols = 0;
    CHECK(table->words < INT32_MAX, "more distinct words than can be numbered");
    for (int64_t i = 0; i < table->places; i++) if (table->place[i].count) symbols += table->place[i].bytes;
    m->word   = malloc((size_t)(table->words + 1) * sizeof *m->word);
    m->symbol = malloc((size_t)(symbols + 1) * sizeof *m->symbol);
    CHECK(m->word && m->symbol, "no memory for %lld distinct words", (long long)table->words);
    symbols = 0;
    for (int64_t i = 0; i < table->places; i++) {
        const WordCount *w = &table->place[i];
        if (!w->count) continue;
        CHECK(w->bytes < INT32_MAX, "a word of %u bytes", w->bytes);
        m->word[m->words++] = (TrainWord){ symbols, w->count, (int32_t)w->bytes };
        for (uint32_t k = 0; k < w->bytes; k++) m->symbol[symbols++] = t->byte_id[(unsigned char)w->text[k]];
    }
}

static void words_count(Merger *m)
{
    for (int32_t i = 0; i < m->words; i++) {
        const int32_t *s = m->symbol + m->word[i].begin;
        for (int32_t k = 1; k < m->word[i].length; k++) pair_seen(m, s[k - 1], s[k], i);
    }
    round_end(m);
}

/* x a b y becomes x made y */
static void word_merge(Merger *m, int32_t word, BpeMerge merge)
{
    int32_t *s = m->symbol + m->word[word].begin, length = m->word[word].length, out = 0;
    for (int32_t in = 0; in < length; in++, out++) {
        bool here = s[in] == merge.left && in + 1 < length && s[in + 1] == merge.right;
        if (!here) {
            s[out] = s[in];
            continue;
        }
        if (out > 0) {
            pair_lost(m, s[out - 1], merge.left, word);
            pair_seen(m, s[out - 1], merge.made, word);
        }
        s[out] = merge.made;
        if (++in + 1 < length) {
            pair_lost(m, merge.right, s[in + 1], word);
            pair_seen(m, merge.made, s[in + 1], word);
        }
    }
    m->word[word].length = out;
}

/* ---- merges ---- */

/* A pair that comes up again counts where it came last. */
static void merge_keep(BpeTrain *t, BpeMerge merge, bool again)
{
    for (int32_t i = 0; again && i < t->merges; i++) {
        if (t->merge[i].left != merge.left || t->merge[i].right != merge.right) continue;
        memmove(&t->merge[i], &t->merge[i + 1], (size_t)(t->merges - i - 1) * sizeof merge);
        t->merges--;
        break;
    }
    GROW(t->merge, t->merges, t->merge_room);
    t->merge[t->merges++] = merge;
}

static void merge_do(Merger *m, Entry e)
{
    BpeTrain *t = m->train;
    BpeMerge  merge = { .left = (int32_t)(e.pair >> 32), .right = (int32_t)(e.pair & UINT32_MAX) };
    TextPiece a = t->token[merge.left], b = t->token[merge.right];
    int32_t   before_ids = t->ids;
    merge.made = token_id(t, a.text, a.bytes, b.text, b.bytes, true);
    merge_keep(t, merge, merge.made < before_ids);
    for (int32_t i = 0; i < e.length; i++) word_merge(m, e.words[i], merge);
    round_end(m);
}

static void merger_close(Merger *m)
{
    for (TrainBlock *b = m->block, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(m->symbol);
    free(m->word);
    free(m->pair);
    free(m->pair_place);
    free(m->heap);
    free(m->seen);
    free(m->touched);
}

void bpe_train_merge(BpeTrain *t)
{
    Merger m = { .train = t };
    lanes_join(t);
    places_double(&m);
    words_spell(&m);
    words_count(&m);
    while (t->ids < t->plan.vocabulary && m.entries) {
        Entry   top = m.heap[0];
        int64_t count = pair_of(&m, top.pair)->count;
        if (top.count != count) {
            top.count = count;
            heap_sink(&m, top);
            continue;
        }
        if (count < 1 || count < t->plan.least) break;
        heap_pop(&m);
        merge_do(&m, top);
    }
    merger_close(&m);
}
