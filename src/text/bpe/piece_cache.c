/* The tables of the piece cache: allocation in large pages, the second line of short pieces, and long
 * pieces. */
#include "text/bpe/piece_cache.h"
#include <stdlib.h>
#include <sys/mman.h>

#define X16 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255
const uint8_t piece_key_mask[64] = { X16, X16 };

enum { PAGE = 1 << 21 };
static const size_t short_bytes = ((size_t)PIECE_WAYS << SHORT_SETS_LOG) * sizeof(ShortPiece);
static const size_t long_bytes = ((size_t)2 << LONG_SETS_LOG) * sizeof(LongPiece);

/* A table of zeros is an empty one, because every key has a length. Memory from mmap is zero already; large
 * pages are requested before the first access, since random accesses would otherwise miss the TLB as well. */
static void *table_open(size_t bytes)
{
    uint8_t *from = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (from == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)from % PAGE;
    if (before) munmap(from, before);
    munmap(from + before + bytes, PAGE - before);
    madvise(from + before, bytes, MADV_HUGEPAGE);
    return from + before;
}

static void table_close(void *table, size_t bytes)
{
    if (table) munmap(table, bytes);
}

Status piece_cache_open(PieceCache **cache, int32_t vocabulary)
{
    PieceCache *w = calloc(1, sizeof *w);
    if (w) w->short_pieces = table_open(short_bytes);
    if (w) w->long_pieces = table_open(long_bytes);
    if (w) w->narrow = vocabulary <= 1 << 16;
    *cache = w;
    if (w && w->short_pieces && w->long_pieces) return OK;
    piece_cache_close(w);
    *cache = NULL;
    return fail(NO_MEMORY, "no memory for a tokenizer's cache");
}

void piece_cache_close(PieceCache *w)
{
    if (!w) return;
    table_close(w->short_pieces, short_bytes);
    table_close(w->long_pieces, long_bytes);
    bpe_space_close(&w->space);
    free(w->node);
    pretokenizer_space_close(&w->pretokenizer);
    normalizer_buffers_close(&w->normalizer);
    normalizer_buffers_close(&w->segment);
    free(w);
}

/* The bytes, zeros, and the length in the last byte */
static void long_key(uint64_t key[4], const uint8_t *text, int64_t bytes)
{
    uint8_t raw[32] = { 0 };
    memcpy(raw, text, (size_t)bytes);
    raw[31] = (uint8_t)bytes;
    memcpy(key, raw, sizeof raw);
}

static uint64_t long_hash(const uint64_t key[4])
{
    uint64_t h = 0;
    for (int i = 0; i < 4; i++) h = ((h ^ key[i]) * 0x9E3779B97F4A7C15u) ^ (h >> 29);
    return (h ^ h >> 31) * 0xC2B2AE3D27D4EB4Fu;
}

static LongPiece *long_set(const PieceCache *w,
                           uint64_t hash) { return w->long_pieces + (hash >> (64 - LONG_SETS_LOG)) * 2; }
static uint64_t   filter_bit(uint64_t hash) { return hash >> (64 - LONG_FILTER_LOG); }

int piece_cache_find_long(const PieceCache *w, const uint8_t *text, int64_t bytes, int32_t *ids)
{
    uint64_t key[4];
    long_key(key, text, bytes);
    uint64_t hash = long_hash(key), bit = filter_bit(hash);
    if (!(w->long_filter[bit / 64] >> bit % 64 & 1)) return 0;
    const LongPiece *entry = long_set(w, hash);
    if (memcmp(entry->key, key, sizeof key) && memcmp((++entry)->key, key, sizeof key)) return 0;
    int count = (int)(entry->id[0] >> PIECE_ID_BITS);
    memcpy(ids, entry->id, (size_t)count * sizeof *ids);
    ids[0] &= (1 << PIECE_ID_BITS) - 1;
    return count;
}

const ShortPiece *piece_cache_find_second(ShortPiece *set, PieceKey key)
{
    if (!set[1].key.high) return NULL;              /* the second line is used only once the first is full */
    for (int i = 2; i < PIECE_WAYS; i++) {
        if (!piece_key_equal(set + i, key)) continue;
        ShortPiece found = set[i];
        set[i] = set[1];
        set[1] = found;
        return set + 1;
    }
    return NULL;
}

static PieceIds ids_pack(const PieceCache *w, const int32_t *ids, int64_t count)
{
    PieceIds  packed;
    uint64_t id[PIECE_IDS_WIDE];
    for (int i = 0; i < PIECE_IDS_WRITTEN; i++) packed.narrow[i] = (uint16_t)ids[i];
    packed.narrow[7] = (uint16_t)count;
    if (w->narrow) return packed;
    for (int i = 0; i < PIECE_IDS_WIDE; i++) id[i] = (uint64_t)ids[i] & 0xFFFFFF;
    packed.wide.low  = id[0] | id[1] << 24 | id[2] << 48;
    packed.wide.high = id[2] >> 16 | id[3] << 8 | id[4] << 32 | (uint64_t)count << 56;
    return packed;
}

bool piece_cache_put(const PieceCache *w, ShortPiece *set, PieceKey key, const int32_t *ids, int64_t count)
{
    if (count > (w->narrow ? PIECE_IDS_NARROW : PIECE_IDS_WIDE)) return false;
    int at = !!set[0].key.high + !!set[1].key.high;         /* ways of the first line fill in order */
    if (at == 2) set[3] = set[2];
    set[at] = (ShortPiece){ key, ids_pack(w, ids, count) };
    return true;
}

void piece_cache_put_long(PieceCache *w, const uint8_t *text, int64_t bytes, const int32_t *ids,
                          int64_t count)
{
    LongPiece made = { 0 };
    if (bytes > PIECE_LONG_BYTES || count < 1 || count > PIECE_LONG_IDS) return;
    long_key(made.key, text, bytes);
    memcpy(made.id, ids, (size_t)count * sizeof *ids);
    made.id[0] |= (uint32_t)count << PIECE_ID_BITS;
    uint64_t   hash = long_hash(made.key), bit = filter_bit(hash);
    LongPiece *entry = long_set(w, hash);
    w->long_filter[bit / 64] |= 1ull << bit % 64;
    entry[1] = entry[0];
    entry[0] = made;
}
