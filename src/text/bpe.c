#include "text/bpe.h"
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static void merges_put(Merges *m, Merge merge)
{
    uint64_t at = merges_place(m, merge.pair);
    while (m->at[at].made >= 0 && m->at[at].pair != merge.pair) at = (at + 1) & (uint64_t)(m->slots - 1);
    if (m->at[at].made >= 0) return;
    uint64_t bit = merges_bit(m, merge.pair);
    m->maybe[bit / 64] |= (uint64_t)1 << bit % 64;
    m->at[at] = merge;
    m->count++;
}

static Status merges_grow(Merges *m)
{
    if (m->count * 2 < m->slots) return OK;
    Merges grown = { .slots = m->slots ? m->slots * 2 : 1024 };
    grown.at = malloc((size_t)grown.slots * sizeof *grown.at);
    grown.maybe = calloc((size_t)grown.slots / 8, sizeof *grown.maybe);
    if (!grown.at || !grown.maybe) {
        merges_close(&grown);
        return fail(NO_MEMORY, "no memory for %lld merges", (long long)m->count);
    }
    memset(grown.at, -1, (size_t)grown.slots * sizeof *grown.at);
    for (int64_t i = 0; i < m->slots; i++)
        if (m->at[i].made >= 0) merges_put(&grown, m->at[i]);
    merges_close(m);
    *m = grown;
    return OK;
}

Status merges_add(Merges *m, int32_t left, int32_t right, uint32_t rank, int32_t made)
{
    TRY(merges_grow(m));
    merges_put(m, (Merge){ (uint64_t)(uint32_t)left << 32 | (uint32_t)right, rank, made });
    return OK;
}

void merges_close(Merges *m)
{
    free(m->at);
    free(m->maybe);
    *m = (Merges){ 0 };
}

/* ---- short pieces ---- */

#define NO_RANK UINT32_MAX
typedef struct { uint32_t rank; int32_t made; } Pair;

static Pair pair_of(const Merges *m, int32_t left, int32_t right)
{
    const Merge *merge = merges_find(m, left, right);
    return merge ? (Pair){ merge->rank, merge->made } : (Pair){ NO_RANK, 0 };
}

/* pair[i] is what ids[i] and ids[i + 1] would make */
static int64_t merge_short(const Merges *m, int32_t *ids, int64_t count)
{
    Pair pair[BPE_SHORT];
    for (int64_t i = 0; i + 1 < count; i++) pair[i] = pair_of(m, ids[i], ids[i + 1]);
    for (;;) {
        int64_t  best = 0;
        uint32_t rank = NO_RANK;
        for (int64_t i = 0; i + 1 < count; i++)
            if (pair[i].rank < rank) rank = pair[i].rank, best = i;
        if (rank == NO_RANK) return count;
        ids[best] = pair[best].made;
        count--;
        for (int64_t i = best + 1; i < count; i++) ids[i] = ids[i + 1];
        for (int64_t i = best + 1; i + 1 < count; i++) pair[i] = pair[i + 1];
        if (best + 1 < count) pair[best]     = pair_of(m, ids[best], ids[best + 1]);
        if (best)             pair[best - 1] = pair_of(m, ids[best - 1], ids[best]);
    }
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
    s->rank[at] = s->next[at] < 0 ? NO_RANK : pair_of(m, s->id[at], s->id[s->next[at]]).rank;
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
        s->id[at]     = pair_of(m, s->id[at], s->id[gone]).made;
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
    return count <= BPE_SHORT ? merge_short(m, ids, count) : merge_long(m, ids, count, space);
}
