#ifndef TEXT_BPE_PIECE_CACHE_H
#define TEXT_BPE_PIECE_CACHE_H
/* A bounded memory of words already merged: pieces of up to 31 bytes and 16 ids. A piece of up to 15 bytes and 5 ids below 2^24,
 * or 7 below 2^16, is half a line of memory, its key in two registers and its ids in two: a hit is one line read and no loop.
 * Sets of four in two lines: who comes first stands in the first line, which by Zipf's law are the words met most, later
 * ones replace each other in the second, and who is met there again goes to the first. One per thread.                    */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "text/bpe/bpe.h"
#include "text/pretokenize/normalizer.h"

enum { PIECE_SHORT_BYTES = 15, PIECE_LONG_BYTES = 31, PIECE_IDS_NARROW = 7, PIECE_IDS_WIDE = 5, PIECE_IDS_WRITTEN = 8, PIECE_LONG_IDS = 16, PIECE_WAYS = 4, PIECE_ID_BITS = 24 };
enum { SHORT_SETS_LOG = 17, LONG_SETS_LOG = 15, LONG_FILTER_LOG = 19 };

typedef struct { uint64_t low, high; } PieceKey;                 /* high: its top byte is the length */
typedef union { struct { uint64_t low, high; } wide; uint16_t narrow[8]; } PieceIds;      /* narrow[7]: their count; wide: the top byte */
typedef struct { PieceKey key; PieceIds ids; } ShortPiece;
typedef struct { uint64_t key[4]; uint32_t id[PIECE_LONG_IDS]; } LongPiece;      /* id[0]: their count in the top byte */
typedef struct {
    ShortPiece *short_pieces;
    LongPiece *long_pieces;
    uint64_t   long_filter[1 << (LONG_FILTER_LOG - 6)];             /* a bit for each that was kept: most asked for were not */
    bool       narrow;                              /* ids of 16 bits; else of 24 */
    int64_t    pieces, misses;                      /* looked up; of them those that had to be merged */
    BpeSpace   space;
    struct RegexSpace *regex;
    NormalizerBuffers normalizer;
} PieceCache;

Status piece_cache_open (PieceCache **words, int32_t vocabulary);
void   piece_cache_close(PieceCache *words);

extern const uint8_t piece_key_mask[64];                 /* 32 times 255, 32 times 0 */

/* text: 16 bytes may be read */
static inline PieceKey piece_key(const uint8_t *text, int64_t bytes)
{
    PieceKey key, mask;
    memcpy(&key, text, sizeof key);
    memcpy(&mask, piece_key_mask + 32 - bytes, sizeof mask);
    return (PieceKey){ key.low & mask.low, (key.high & mask.high) | (uint64_t)bytes << 56 };
}

static inline ShortPiece *piece_cache_set(const PieceCache *w, PieceKey key)
{
    uint64_t h = (key.low ^ (key.high << 29 | key.high >> 35)) * 0x9E3779B97F4A7C15u;
    return w->short_pieces + (h >> (64 - SHORT_SETS_LOG)) * PIECE_WAYS;
}

static inline bool piece_key_equal(const ShortPiece *entry, PieceKey key) { return entry->key.low == key.low && entry->key.high == key.high; }

/* In the first line; NULL: look on. No branch, since which of the two it is cannot be foretold. */
static inline const ShortPiece *piece_cache_find(const ShortPiece *set, PieceKey key)
{
    const ShortPiece *entry = set + !piece_key_equal(set, key);
    return piece_key_equal(entry, key) ? entry : NULL;
}

/* In the second, from which it goes to the first */
const ShortPiece *piece_cache_find_second(ShortPiece *set, PieceKey key);

/* Writes PIECE_IDS_ROOM ids, of which so many count */
static inline int piece_ids(const PieceCache *w, const ShortPiece *entry, int32_t *ids)
{
    if (w->narrow) {
        for (int i = 0; i < PIECE_IDS_WRITTEN; i++) ids[i] = entry->ids.narrow[i];
        return entry->ids.narrow[7];
    }
    uint64_t low = entry->ids.wide.low, high = entry->ids.wide.high;
    ids[0] = (int32_t)(low & 0xFFFFFF);
    ids[1] = (int32_t)(low >> 24 & 0xFFFFFF);
    ids[2] = (int32_t)((low >> 48 | high << 16) & 0xFFFFFF);
    ids[3] = (int32_t)(high >> 8 & 0xFFFFFF);
    ids[4] = (int32_t)(high >> 32 & 0xFFFFFF);
    return (int)(high >> 56);
}

/* Puts in what was not found. set: the key's; PIECE_IDS_ROOM ids may be read. false: too many to be small */
bool piece_cache_put(const PieceCache *w, ShortPiece *set, PieceKey key, const int32_t *ids, int64_t count);

/* Of up to PIECE_LARGE bytes and too long or too many ids for a small one; ids has room for as many as the piece has bytes */
int  piece_cache_find_long(const PieceCache *w, const uint8_t *text, int64_t bytes, int32_t *ids);
void piece_cache_put_long(PieceCache *w, const uint8_t *text, int64_t bytes, const int32_t *ids, int64_t count);
#endif
