/* The table of merges, and merging itself. Short pieces are merged without branches that depend on the piece,
 * because these are mispredicted; long ones with a heap. */
#include "text/bpe/bpe.h"
#include <stdlib.h>
#include <string.h>
#include "base/array.h"

/* ---- the table ---- */

uint32_t merges_rank(const Merges *m, int32_t left, int32_t right)
{
    uint32_t guess = merges_guess(m, left, right);
    if (guess == NO_RANK || merges_is_pair(m, guess, left, right)) return guess;
    MergePlaces at = merges_places(m, merges_pair(left, right));
    for (uint64_t i = 0; i < 4; i++) {
        uint32_t slot = m->slot[(i < 2 ? at.one : at.other) + i % 2], rank = slot & (MERGES_RANKS - 1);
        if (slot >> MERGES_RANK_BITS == at.signature && merges_is_pair(m, rank, left, right)) return rank;
    }
    return NO_RANK;
}

/* Cuckoo hashing: where all four slots are taken, an entry is moved to its other bucket, and so on. false:
 * there was no free slot after 256 moves, which means a cycle; *rank is then the entry without a slot. */
static bool slot_put(Merges *m, uint32_t *rank)
{
    uint64_t to = merges_places(m, m->pair[*rank]).one;
    for (int tries = 0; tries < 256; tries++) {
        MergePlaces at = merges_places(m, m->pair[*rank]);
        uint32_t entry = at.signature << MERGES_RANK_BITS | *rank;
        for (uint64_t i = 0; i < 4; i++) {
            uint32_t *slot = m->slot + (i < 2 ? at.one : at.other) + i % 2;
            if (*slot != UINT32_MAX) continue;
            *slot = entry;
            return true;
        }
        to = at.one == to ? at.other : at.one;
        uint32_t *victim = m->slot + to + tries % 2;
        *rank   = *victim & (MERGES_RANKS - 1);
        *victim = entry;
    }
    return false;
}

static Status no_memory(const Merges *m)
{
    return fail(NO_MEMORY, "no memory for %lld merges", (long long)m->count);
}

/* Inserts all entries of `from`, and the rank `out`, into the empty table `to`. */
static bool slots_move(Merges *to, const Merges *from, uint32_t out)
{
    if (!slot_put(to, &out)) return false;
    for (int64_t i = 0; i < from->slots; i++) {
        uint32_t rank = from->slot[i] & (MERGES_RANKS - 1);
        if (from->slot[i] != UINT32_MAX && !slot_put(to, &rank)) return false;
    }
    return true;
}

/* Doubles the slots until all pairs have one. out: the rank without a slot */
static Status slots_grow(Merges *m, uint32_t out)
{
    Merges grown = *m;
    do {
        if (grown.slot != m->slot) free(grown.slot);
        grown.slots = grown.slots ? 2 * grown.slots : 1024;
        grown.slot  = grown.slots <= 1 << 24 ? malloc((size_t)grown.slots * sizeof *grown.slot) : NULL;
        if (!grown.slot) return no_memory(m);
        memset(grown.slot, -1, (size_t)grown.slots * sizeof *grown.slot);
    } while (!slots_move(&grown, m, out));
    free(m->slot);
    *m = grown;
    return OK;
}

static Status ranks_grow(Merges *m, uint32_t rank)
{
    if (!m->byte_pair_rank) {
        m->byte_pair_rank = malloc((1 << 16) * sizeof *m->byte_pair_rank);
        if (!m->byte_pair_rank) return no_memory(m);
        for (int i = 0; i < 1 << 16; i++) m->byte_pair_rank[i] = NO_RANK;
    }
    if (rank < (uint32_t)m->capacity) return OK;
    int32_t before = m->capacity, room = before;                     /* both arrays grow by the same rule */
    TRY(ARRAY_RESERVE(m->result, room, (int64_t)rank + 1));
    TRY(ARRAY_RESERVE(m->pair, m->capacity, (int64_t)rank + 1));
    memset(m->pair + before, -1, (size_t)(m->capacity - before) * sizeof *m->pair);
    return OK;
}

Status merges_add(Merges *m, int32_t left, int32_t right, uint32_t rank, int32_t result)
{
    if (left >= MERGES_IDS || right >= MERGES_IDS || rank >= MERGES_RANKS)
        return fail(BAD_FILE,
                    "merge %u of tokens %d and %d: ranks above %d and merged tokens above %d are not"
                    " supported", rank, left, right, MERGES_RANKS - 1, MERGES_IDS - 1);
    TRY(ranks_grow(m, rank));
    if (m->slots && merges_rank(m, left, right) != NO_RANK) return OK;
    if (m->pair[rank] != UINT64_MAX)
        return fail(BAD_FILE, "two merges of different tokens have rank %u", rank);
    m->pair[rank] = merges_pair(left, right);
    uint32_t out = rank;
    if (m->count * 5 >= m->slots * 4 || !slot_put(m, &out)) TRY(slots_grow(m, out));
    if ((left | right) < 256) m->byte_pair_rank[left << 8 | right] = rank;
    m->result[rank] = result;
    /* Most vocabularies number tokens in the order of their merges; then result[] is never read. */
    if (m->count++ == 0) m->result_offset = result - (int32_t)rank;
    if (result != (int32_t)rank + m->result_offset) m->result_offset = INT32_MIN;
    return OK;
}

void merges_close(Merges *m)
{
    free(m->slot);
    free(m->pair);
    free(m->byte_pair_rank);
    free(m->result);
    *m = (Merges){ 0 };
}

/* ---- short pieces: only the ends of loops are branches that depend on the piece ---- */

/* key[i] is rank << 6 | i for the symbol at index i and the one after it, so the smallest key is the next
 * merge: lowest rank, then leftmost. Symbols keep their index; `alive` has a bit for each that is not yet
 * joined to another. A sentinel that merges with nothing is at either end, so neighbours always exist. */
enum { KEYS_MAX = 64, NO_KEY = NO_RANK << 6 };
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef union { int32_t at[KEYS_MAX]; Int4 four[KEYS_MAX / 4]; } PairKeys;

/* Without SSE4.1 there is no instruction for it; the mask compiles to three. */
static inline Int4 int4_min(Int4 a, Int4 b)
{
    Int4 mask = a < b;
    return (a & mask) | (b & ~mask);
}

static inline int32_t int4s_min(const PairKeys *key, int fours)
{
    Int4 least = key->four[0];
    for (int i = 1; i < fours; i++) least = int4_min(least, key->four[i]);
    int32_t a = least[0] < least[1] ? least[0] : least[1], b = least[2] < least[3] ? least[2] : least[3];
    return a < b ? a : b;
}

/* Of two neighbours by a guess of their rank, which merge_short verifies */
static inline int32_t key_of(const Merges *m, const int32_t *id, int left, int right)
{
    return (int32_t)(merges_guess(m, id[left], id[right]) << 6) | left;
}

/* The index of the next and of the previous symbol */
static inline int after (uint64_t alive, int at) { return at + 1 + __builtin_ctzll(alive >> (at + 1)); }
static inline int previous(uint64_t alive, int at)
{
    return 63 - __builtin_clzll(alive & ((1ull << at) - 1));
}

static void keys_fill(PairKeys *key, int32_t *id, const Merges *m, const int32_t *ids, int count)
{
    for (int i = 0; i < KEYS_MAX; i++) key->at[i] = NO_KEY;
    id[0] = NO_ID, id[1] = ids[0];
    for (int i = 1; i < count; i++) {
        int32_t  left = ids[i - 1], right = id[i + 1] = ids[i];
        uint32_t rank = (left | right) < 256 ? m->byte_pair_rank[left << 8 | right]
            : merges_rank(m, left, right);
        key->at[i] = (int32_t)(rank << 6) | i;
    }
    id[count + 1] = NO_ID;
}

static int64_t merge_short(const Merges *m, int32_t *ids, int count)
{
    PairKeys     key;
    int32_t  id[BPE_SHORT_SYMBOLS + 2], least;
    uint64_t alive = (4ull << count) - 1;
    int64_t  left  = 0;
    keys_fill(&key, id, m, ids, count);
    while ((least = count < 16 ? int4s_min(&key, 4) : int4s_min(&key, KEYS_MAX / 4)) < NO_KEY) {
        int      at = least & 63, gone = after(alive, at);
        uint32_t rank = (uint32_t)least >> 6;
        /* a wrong guess is too low: replace it */
        if (!merges_is_pair(m, rank, id[at], id[gone])) {
            key.at[at] = (int32_t)(merges_rank(m, id[at], id[gone]) << 6) | at;
            continue;
        }
        alive &= ~(1ull << gone);
        id[at] = merges_result(m, rank);
        int to = previous(alive, at);
        key.at[gone] = NO_KEY;
        key.at[at]   = key_of(m, id, at, after(alive, at));
        key.at[to]   = key_of(m, id, to, at);
    }
    for (alive &= (2ull << count) - 2; alive; alive &= alive - 1) ids[left++] = id[__builtin_ctzll(alive)];
    return left;
}

/* ---- long pieces: a linked list of symbols and a heap of (rank, symbol); an entry is stale where the
 * symbol's rank has changed since ---- */

void bpe_space_close(BpeSpace *s)
{
    free(s->id);
    free(s->next);
    free(s->previous);
    free(s->rank);
    free(s->heap);
    *s = (BpeSpace){ 0 };
}

/* The heap needs an entry for each symbol, and two for each of at most count - 1 merges. */
static bool space_grow(BpeSpace *s, int64_t count)
{
    if (count <= s->capacity) return true;
    bpe_space_close(s);
    size_t n = (size_t)count;
    s->id     = malloc(n * sizeof *s->id);
    s->next   = malloc(n * sizeof *s->next);
    s->previous = malloc(n * sizeof *s->previous);
    s->rank   = malloc(n * sizeof *s->rank);
    s->heap   = malloc(3 * n * sizeof *s->heap);
    bool good = s->id && s->next && s->previous && s->rank && s->heap;
    if (good) s->capacity = count;
    else      bpe_space_close(s);
    return good;
}

static void heap_push(uint64_t *heap, int64_t *size, uint64_t entry)
{
    int64_t at = (*size)++;
    for (; at && heap[(at - 1) / 2] > entry; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
}

static uint64_t heap_pop(uint64_t *heap, int64_t *size)
{
    uint64_t top = heap[0], last = heap[--*size];
    int64_t  at = 0, child;
    while ((child = 2 * at + 1) < *size) {
        if (child + 1 < *size && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Computes the rank of a symbol and its next, and adds an entry where they merge. */
static void pair_enter(const Merges *m, BpeSpace *s, int64_t *size, int64_t at)
{
    s->rank[at] = s->next[at] < 0 ? NO_RANK : merges_rank(m, s->id[at], s->id[s->next[at]]);
    if (s->rank[at] != NO_RANK) heap_push(s->heap, size, (uint64_t)s->rank[at] << 32 | (uint64_t)at);
}

static int64_t merge_long(const Merges *m, int32_t *ids, int64_t count, BpeSpace *s)
{
    int64_t size = 0, left = 0;
    if (!space_grow(s, count)) return -1;
    memcpy(s->id, ids, (size_t)count * sizeof *ids);
    for (int64_t i = 0; i < count; i++) {
        s->previous[i] = (int32_t)i - 1;
        s->next[i]   = i + 1 < count ? (int32_t)i + 1 : -1;
    }
    for (int64_t i = 0; i < count; i++) pair_enter(m, s, &size, i);
    while (size) {
        uint64_t top  = heap_pop(s->heap, &size);
        int32_t  at   = (int32_t)(top & 0xFFFFFFFF), gone = s->next[at];
        if (s->rank[at] != top >> 32) continue;
        s->id[at]     = merges_result(m, (uint32_t)(top >> 32));
        s->next[at]   = s->next[gone];
        s->rank[gone] = NO_RANK;
        if (s->next[at] >= 0) s->previous[s->next[at]] = at;
        pair_enter(m, s, &size, at);
        if (s->previous[at] >= 0) pair_enter(m, s, &size, s->previous[at]);
    }
    for (int64_t i = 0; i >= 0; i = s->next[i]) ids[left++] = s->id[i];
    return left;
}

int64_t bpe_merge(const Merges *m, int32_t *ids, int64_t count, BpeSpace *space)
{
    if (count < 2 || !m->slots) return count;
    return count <= BPE_SHORT_SYMBOLS ? merge_short(m, ids, (int)count) : merge_long(m, ids, count, space);
}
