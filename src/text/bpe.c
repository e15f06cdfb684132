#include "text/bpe.h"
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

/* Who is in the way goes to its other place, as often as it takes. false: that goes round, `entry` is who is left out */
static bool slot_put(Merges *m, uint64_t *entry)
{
    MergePlaces at = merges_places(m, *entry >> MERGES_RANK_BITS);
    uint64_t    to = at.one;
    for (int tries = 0; tries < 64; tries++) {
        uint64_t was = m->slot[to];
        m->slot[to] = *entry;
        if (was == ~0ull) return true;
        *entry = was;
        at = merges_places(m, was >> MERGES_RANK_BITS);
        to = at.one == to ? at.other : at.one;
    }
    return false;
}

static Status no_memory(const Merges *m) { return fail(NO_MEMORY, "no memory for %lld merges", (long long)m->count); }

/* Twice the slots, or more where pairs still stand in each other's way */
static Status slots_grow(Merges *m)
{
    Merges grown = *m;
    bool   all = false;
    while (!all) {
        if (grown.slot != m->slot) free(grown.slot);
        grown.slots = grown.slots ? 2 * grown.slots : 1024;
        grown.slot  = grown.slots <= 1 << 24 ? malloc((size_t)grown.slots * sizeof *grown.slot) : NULL;
        if (!grown.slot) return no_memory(m);
        memset(grown.slot, -1, (size_t)grown.slots * sizeof *grown.slot);
        all = true;
        for (int64_t i = 0; i < m->slots && all; i++) {
            uint64_t entry = m->slot[i];
            all = entry == ~0ull || slot_put(&grown, &entry);
        }
    }
    free(m->slot);
    *m = grown;
    return OK;
}

static Status slot_add(Merges *m, uint64_t entry)
{
    if (m->count * 5 >= m->slots * 2) TRY(slots_grow(m));
    while (!slot_put(m, &entry)) TRY(slots_grow(m));
    return OK;
}

static Status made_grow(Merges *m, uint32_t rank)
{
    if (!m->first) {
        m->first = malloc((1 << 16) * sizeof *m->first);
        if (!m->first) return no_memory(m);
        memset(m->first, -1, (1 << 16) * sizeof *m->first);
    }
    if (rank < (uint32_t)m->made_room) return OK;
    int32_t  room = (int32_t)rank < 1024 ? 2048 : 2 * (int32_t)rank;
    int32_t *made = realloc(m->made, (size_t)room * sizeof *made);
    if (!made) return no_memory(m);
    m->made = made, m->made_room = room;
    return OK;
}

Status merges_add(Merges *m, int32_t left, int32_t right, uint32_t rank, int32_t made)
{
    if (left >= MERGES_IDS || right >= MERGES_IDS || rank >= MERGES_RANKS)
        return fail(BAD_FILE, "merge %u of tokens %d and %d: merges reach to %d, tokens that merge to %d", rank, left, right,
                    MERGES_RANKS - 1, MERGES_IDS - 1);
    TRY(made_grow(m, rank));
    if (m->slots && merges_rank(m, left, right) != NO_RANK) return OK;
    TRY(slot_add(m, ((uint64_t)left << MERGES_ID_BITS | (uint64_t)right) << MERGES_RANK_BITS | rank));
    if ((left | right) < 256) m->first[left << 8 | right] = rank;
    m->made[rank] = made;
    if (m->count++ == 0) m->ahead = made - (int32_t)rank;
    if (made != (int32_t)rank + m->ahead) m->ahead = INT32_MIN;
    return OK;
}

void merges_close(Merges *m)
{
    free(m->slot);
    free(m->first);
    free(m->made);
    *m = (Merges){ 0 };
}

/* ---- short pieces ---- */

/* key: rank << 6 | place of a symbol that merges with the one behind it, so that the least is the next to merge; else NO_RANK.
 * Symbols stay where they are; alive has a bit for each that is left. */
static uint32_t key_of(const Merges *m, const int32_t *ids, int left, int right)
{
    uint32_t rank = merges_rank(m, ids[left], ids[right]);
    return rank == NO_RANK ? NO_RANK : rank << 6 | (uint32_t)left;
}

static void keys_first(uint32_t *key, const Merges *m, const int32_t *ids, int count)
{
    int32_t all = 0;
    for (int i = 0; i < count; i++) all |= ids[i];
    for (int i = 0; i + 1 < count; i++) {
        uint32_t rank = all < 256 ? m->first[ids[i] << 8 | ids[i + 1]] : merges_rank(m, ids[i], ids[i + 1]);
        key[i] = rank == NO_RANK ? NO_RANK : rank << 6 | (uint32_t)i;
    }
    for (int i = count - 1; i < BPE_SHORT; i++) key[i] = NO_RANK;
}

/* Of 8, 16 or 48 keys: as many as the loop always has, so that no branch depends on the piece */
static inline uint32_t least_of(const uint32_t *key, int count)
{
    uint32_t least = key[0];
    for (int i = 1; i < count; i++) least = key[i] < least ? key[i] : least;
    return least;
}

static inline uint32_t key_least(const uint32_t *key, int count)
{
    if (count <= 8)  return least_of(key, 8);
    if (count <= 16) return least_of(key, 16);
    return least_of(key, BPE_SHORT);
}

static int64_t merge_short(const Merges *m, int32_t *ids, int count)
{
    uint32_t key[BPE_SHORT], least;
    uint64_t alive = ~0ull >> (64 - count);
    int64_t  left  = 0;
    keys_first(key, m, ids, count);
    while ((least = key_least(key, count)) != NO_RANK) {
        int at = (int)(least & 63), gone = at + 1 + __builtin_ctzll(alive >> (at + 1));
        ids[at]   = merges_made(m, least >> 6);
        key[gone] = NO_RANK;
        alive    &= ~(1ull << gone);
        uint64_t behind = alive >> at >> 1, before = alive & ((1ull << at) - 1);
        key[at] = behind ? key_of(m, ids, at, at + 1 + __builtin_ctzll(behind)) : NO_RANK;
        if (before) {
            int to = 63 - __builtin_clzll(before);
            key[to] = key_of(m, ids, to, at);
        }
    }
    for (; alive; alive &= alive - 1) ids[left++] = ids[__builtin_ctzll(alive)];
    return left;
}

/* ---- long pieces: a list of symbols and a heap of (rank, place); an entry whose rank is no longer its place's is stale ---- */

void bpe_space_close(BpeSpace *s)
{
    free(s->id);
    free(s->next);
    free(s->before);
    free(s->rank);
    free(s->heap);
    *s = (BpeSpace){ 0 };
}

/* Each of `count` places enters the heap once at first, and each merge adds two. */
static bool space_grow(BpeSpace *s, int64_t count)
{
    if (count <= s->room) return true;
    bpe_space_close(s);
    size_t n = (size_t)count;
    s->id     = malloc(n * sizeof *s->id);
    s->next   = malloc(n * sizeof *s->next);
    s->before = malloc(n * sizeof *s->before);
    s->rank   = malloc(n * sizeof *s->rank);
    s->heap   = malloc(3 * n * sizeof *s->heap);
    bool good = s->id && s->next && s->before && s->rank && s->heap;
    if (good) s->room = count;
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
        s->before[i] = (int32_t)i - 1;
        s->next[i]   = i + 1 < count ? (int32_t)i + 1 : -1;
    }
    for (int64_t i = 0; i < count; i++) pair_enter(m, s, &size, i);
    while (size) {
        uint64_t top  = heap_pop(s->heap, &size);
        int32_t  at   = (int32_t)(top & 0xFFFFFFFF), gone = s->next[at];
        if (s->rank[at] != top >> 32) continue;
        s->id[at]     = merges_made(m, (uint32_t)(top >> 32));
        s->next[at]   = s->next[gone];
        s->rank[gone] = NO_RANK;
        if (s->next[at] >= 0) s->before[s->next[at]] = at;
        pair_enter(m, s, &size, at);
        if (s->before[at] >= 0) pair_enter(m, s, &size, s->before[at]);
    }
    for (int64_t i = 0; i >= 0; i = s->next[i]) ids[left++] = s->id[i];
    return left;
}

int64_t bpe_merge(const Merges *m, int32_t *ids, int64_t count, BpeSpace *space)
{
    if (count < 2 || !m->slots) return count;
    return count <= BPE_SHORT ? merge_short(m, ids, (int)count) : merge_long(m, ids, count, space);
}
