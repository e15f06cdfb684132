/* The merges of a BPE training. Each distinct word is a sequence of ids; each pair of neighbouring ids has
 * its count and the words in which it occurs. A heap has the pair with the highest count on top. Counts
 * change after an entry was added, so an entry on top with an old count sinks with the current one (lazy
 * updates).
 *
 * Hugging Face's trainer is followed in its corner cases too. The occurrences that a merge adds to a pair are
 * a heap entry of their own; where two different merges make the same token, a pair may come up a second
 * time, and then its later merge counts. */
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "text/bpe/bpe_train_internal.h"

typedef struct { int64_t begin, count; int32_t length; } TrainWord;  /* symbols begin .. begin + length;
                                                                      * occurrences */
typedef struct {
    uint64_t pair;                       /* left << 32 | right */
    int64_t  count;                      /* occurrences, in all words */
    int32_t *fill;                       /* where the next word of this round is written; NULL: the pair is
                                          * gone */
    int32_t  word, new_words;            /* the last word of this round, and their number */
} TrainPair;
/* A pair with the words that one merge added to it; count: of the pair, when the entry was added or sank */
typedef struct { int64_t count; uint64_t pair; int32_t *words; int32_t length; } PairHeapEntry;
typedef struct { int32_t pair, word; } PairOccurrence;              /* indices */
typedef struct WordListBlock {
    struct WordListBlock *next;
    int64_t used, capacity;              /* words */
    int32_t word[];
} WordListBlock;

enum { BLOCK_WORDS = 1 << 18 };

typedef struct {
    BpeTrain       *train;
    int32_t        *symbol;              /* ids of all words, one after the other */
    TrainWord      *word;
    int32_t         words;
    TrainPair      *pair;                /* every pair that ever occurred */
    int32_t        *pair_slot;           /* [slots], linear probing: index + 1; 0: empty */
    int64_t         pairs, pair_capacity, slots;
    PairHeapEntry  *heap;                /* the highest count on top, of equal counts the smaller ids */
    int64_t         entries, heap_capacity;
    PairOccurrence *occurrence;          /* this round: the words in which a pair is new */
    int64_t         occurrences, occurrence_capacity;
    int32_t        *touched;             /* this round: the pairs that have new words */
    int64_t         touches, touched_capacity;
    WordListBlock  *block;               /* memory of the heap entries' words */
} Merger;

/* ---- pairs ---- */

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The slot of a pair, or the empty one where it belongs */
static int32_t *pair_slot(const Merger *m, uint64_t key)
{
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        int32_t *slot = &m->pair_slot[at & (uint64_t)(m->slots - 1)];
        if (!*slot || m->pair[*slot - 1].pair == key) return slot;
    }
}

static void slots_double(Merger *m)
{
    m->slots = m->slots ? 2 * m->slots : 1 << 16;
    free(m->pair_slot);
    m->pair_slot = calloc((size_t)m->slots, sizeof *m->pair_slot);
    CHECK(m->pair_slot, "no memory for %lld pairs of a vocabulary", (long long)m->slots);
    for (int64_t i = 0; i < m->pairs; i++) *pair_slot(m, m->pair[i].pair) = (int32_t)i + 1;
}

static TrainPair *pair_of(Merger *m, uint64_t key)
{
    int32_t *slot = pair_slot(m, key);
    if (*slot) return &m->pair[*slot - 1];
    ARRAY_RESERVE_OR_STOP(m->pair, m->pair_capacity, m->pairs + 1);
    m->pair[m->pairs] = (TrainPair){ .pair = key, .word = -1 };
    *slot = (int32_t)++m->pairs;
    TrainPair *made = &m->pair[m->pairs - 1];
    CHECK(m->pairs < INT32_MAX / 2, "more pairs than can be counted");
    if (2 * m->pairs > m->slots) slots_double(m);
    return made;
}

static void pair_removed(Merger *m, int32_t left, int32_t right, int32_t word)
{
    pair_of(m, pair_key(left, right))->count -= m->word[word].count;
}

/* Counts one occurrence in a word, and notes the word once per round. */
static void pair_added(Merger *m, int32_t left, int32_t right, int32_t word)
{
    TrainPair *p = pair_of(m, pair_key(left, right));
    p->count += m->word[word].count;
    if (p->new_words && p->word == word) return;
    int32_t index = (int32_t)(p - m->pair);
    if (!p->new_words) {
        ARRAY_RESERVE_OR_STOP(m->touched, m->touched_capacity, m->touches + 1);
        m->touched[m->touches++] = index;
    }
    ARRAY_RESERVE_OR_STOP(m->occurrence, m->occurrence_capacity, m->occurrences + 1);
    m->occurrence[m->occurrences++] = (PairOccurrence){ index, word };
    p->word = word;
    p->new_words++;
}

/* ---- the heap ---- */

static bool entry_above(const PairHeapEntry *a, const PairHeapEntry *b)
{
    return a->count > b->count || (a->count == b->count && a->pair < b->pair);
}

static void heap_push(Merger *m, PairHeapEntry e)
{
    ARRAY_RESERVE_OR_STOP(m->heap, m->heap_capacity, m->entries + 1);
    int64_t at = m->entries++;
    for (; at > 0 && entry_above(&e, &m->heap[(at - 1) / 4]); at = (at - 1) / 4)
        m->heap[at] = m->heap[(at - 1) / 4];
    m->heap[at] = e;
}

/* Replaces the top entry by e, which sinks to its position in the heap of four children per node. */
static void heap_sink(Merger *m, PairHeapEntry e)
{
    int64_t at = 0;
    for (;;) {
        int64_t child = 4 * at + 1, best = child, end = child + 4 < m->entries ? child + 4 : m->entries;
        if (child >= m->entries) break;
        for (int64_t c = child + 1; c < end; c++) if (entry_above(&m->heap[c], &m->heap[best])) best = c;
        if (!entry_above(&m->heap[best], &e)) break;
        m->heap[at] = m->heap[best];
        at = best;
    }
    m->heap[at] = e;
}

static void heap_pop(Merger *m)
{
    PairHeapEntry last = m->heap[--m->entries];
    if (m->entries) heap_sink(m, last);
}

/* ---- end of a round: new occurrences become heap entries ---- */

/* Memory for the words of an entry. Blocks are freed together at the end, because entries live until then. */
static int32_t *word_list_alloc(Merger *m, int64_t count)
{
    WordListBlock *b = m->block;
    if (!b || b->capacity - b->used < count) {
        int64_t capacity = count > BLOCK_WORDS ? count : BLOCK_WORDS;
        b = malloc(sizeof *b + (size_t)capacity * sizeof *b->word);
        CHECK(b, "no memory for the words of pairs");
        *b = (WordListBlock){ .next = m->block, .capacity = capacity };
        m->block = b;
    }
    b->used += count;
    return b->word + b->used - count;
}

static void round_end(Merger *m)
{
    for (int64_t i = 0; i < m->touches; i++) {
        TrainPair *p = &m->pair[m->touched[i]];
        if (p->count <= 0) p->fill = NULL;
        else p->fill = word_list_alloc(m, p->new_words);
    }
    for (int64_t i = 0; i < m->occurrences; i++) {
        TrainPair *p = &m->pair[m->occurrence[i].pair];
        if (p->fill) *p->fill++ = m->occurrence[i].word;
    }
    for (int64_t i = 0; i < m->touches; i++) {
        TrainPair *p = &m->pair[m->touched[i]];
        if (p->fill) heap_push(m, (PairHeapEntry){ p->count, p->pair, p->fill - p->new_words, p->new_words });
        p->new_words = 0;
    }
    m->touches = m->occurrences = 0;
}

/* ---- words ---- */

static void words_merge(void *context, int64_t begin, int64_t end)
{
    WordTable **pair = context;
    for (int64_t i = begin; i < end; i++) word_table_absorb(pair[2 * i], pair[2 * i + 1]);
}

/* Adds all tables to the first one, pairwise in parallel: a half of them, a quarter, ... */
static void tables_join(BpeTrain *t)
{
    WordTable **pair = malloc((size_t)(t->tables + 1) * sizeof *pair);
    CHECK(pair, "no memory for %d tables", t->tables);
    for (int stride = 1; stride < t->tables; stride *= 2) {
        int pairs = 0;
        for (int i = 0; i + stride < t->tables; i += 2 * stride, pairs++) {
            pair[2 * pairs]     = &t->table[i];
            pair[2 * pairs + 1] = &t->table[i + stride];
        }
        team_for(t->plan.team, pairs, 1, words_merge, pair);
    }
    free(pair);
}

/* The words as ids of their bytes */
static void words_spell(Merger *m)
{
    BpeTrain *t = m->train;
    const WordTable *table = &t->table[0];
    int64_t symbols = 0;
    CHECK(table->words < INT32_MAX, "more distinct words than can be numbered");
    for (int64_t i = 0; i < table->slots; i++) if (table->slot[i].count) symbols += table->slot[i].bytes;
    m->word   = malloc((size_t)(table->words + 1) * sizeof *m->word);
    m->symbol = malloc((size_t)(symbols + 1) * sizeof *m->symbol);
    CHECK(m->word && m->symbol, "no memory for %lld distinct words", (long long)table->words);
    symbols = 0;
    for (int64_t i = 0; i < table->slots; i++) {
        const WordCount *w = &table->slot[i];
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
        for (int32_t k = 1; k < m->word[i].length; k++) pair_added(m, s[k - 1], s[k], i);
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
            pair_removed(m, s[out - 1], merge.left, word);
            pair_added(m, s[out - 1], merge.made, word);
        }
        s[out] = merge.made;
        if (++in + 1 < length) {
            pair_removed(m, merge.right, s[in + 1], word);
            pair_added(m, merge.made, s[in + 1], word);
        }
    }
    m->word[word].length = out;
}

/* ---- merges ---- */

/* A pair that is merged a second time keeps only its later position. */
static void merge_keep(BpeTrain *t, BpeMerge merge, bool again)
{
    for (int32_t i = 0; again && i < t->merges; i++) {
        if (t->merge[i].left != merge.left || t->merge[i].right != merge.right) continue;
        memmove(&t->merge[i], &t->merge[i + 1], (size_t)(t->merges - i - 1) * sizeof merge);
        t->merges--;
        break;
    }
    ARRAY_RESERVE_OR_STOP(t->merge, t->merge_capacity, t->merges + 1);
    t->merge[t->merges++] = merge;
}

static void merge_do(Merger *m, PairHeapEntry e)
{
    BpeTrain *t = m->train;
    BpeMerge  merge = { .left = (int32_t)(e.pair >> 32), .right = (int32_t)(e.pair & UINT32_MAX) };
    TextPiece a = t->token[merge.left], b = t->token[merge.right];
    int32_t   before_ids = t->ids;
    merge.made = token_id(t, a.text, a.bytes, b.text, b.bytes);
    merge_keep(t, merge, merge.made < before_ids);
    for (int32_t i = 0; i < e.length; i++) word_merge(m, e.words[i], merge);
    round_end(m);
}

static void merger_close(Merger *m)
{
    for (WordListBlock *b = m->block, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(m->symbol);
    free(m->word);
    free(m->pair);
    free(m->pair_slot);
    free(m->heap);
    free(m->occurrence);
    free(m->touched);
}

void bpe_train_merge(BpeTrain *t)
{
    Merger m = { .train = t };
    tables_join(t);
    slots_double(&m);
    words_spell(&m);
    words_count(&m);
    while (t->ids < t->plan.vocabulary && m.entries) {
        PairHeapEntry   top = m.heap[0];
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
