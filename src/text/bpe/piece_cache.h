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

enum { PIECE_SMALL = 15, PIECE_LARGE = 31, PIECE_IDS = 7, PIECE_IDS_WIDE = 5, PIECE_IDS_ROOM = 8, PIECE_LARGE_IDS = 16, PIECE_WAYS = 4, PIECE_ID_BITS = 24 };
enum { SMALL_SETS_LOG = 17, LARGE_SETS_LOG = 15, LARGE_MAYBE_LOG = 19 };

typedef struct { uint64_t low, high; } PieceKey;                 /* high: its top byte is the length */
typedef union { struct { uint64_t low, high; } wide; uint16_t narrow[8]; } PieceIds;      /* narrow[7]: their count; wide: the top byte */
typedef struct { PieceKey key; PieceIds ids; } SmallPiece;
typedef struct { uint64_t key[4]; uint32_t id[PIECE_LARGE_IDS]; } LargePiece;      /* id[0]: their count in the top byte */
typedef struct {
    SmallPiece *small;
    LargePiece *large;
    uint64_t   large_maybe[1 << (LARGE_MAYBE_LOG - 6)];             /* a bit for each that was kept: most asked for were not */
    bool       narrow;                              /* ids of 16 bits; else of 24 */
    int64_t    pieces, misses;                      /* looked up; of them those that had to be merged */
    BpeSpace   space;
    struct RegexSpace *regex;
    struct TextBuffer { uint8_t *data; int64_t room; } text[2];           /* what normalizers write */
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

static inline SmallPiece *piece_cache_set(const PieceCache *w, PieceKey key)
{
    uint64_t h = (key.low ^ (key.high << 29 | key.high >> 35)) * 0x9E3779B97F4A7C15u;
    return w->small + (h >> (64 - SMALL_SETS_LOG)) * PIECE_WAYS;
}

static inline bool piece_same(const SmallPiece *word, PieceKey key) { return word->key.low == key.low && word->key.high == key.high; }

/* In the first line; NULL: look on. No branch, since which of the two it is cannot be foretold. */
static inline const SmallPiece *piece_cache_find(const SmallPiece *set, PieceKey key)
{
    const SmallPiece *word = set + !piece_same(set, key);
    return piece_same(word, key) ? word : NULL;
}

/* In the second, from which it goes to the first */
const SmallPiece *piece_cache_find_again(SmallPiece *set, PieceKey key);

/* Writes PIECE_IDS_ROOM ids, of which so many count */
static inline int piece_ids(const PieceCache *w, const SmallPiece *word, int32_t *ids)
{
    if (w->narrow) {
        for (int i = 0; i < PIECE_IDS_ROOM; i++) ids[i] = word->ids.narrow[i];
        return word->ids.narrow[7];
    }
    uint64_t low = word->ids.wide.low, high = word->ids.wide.high;
    ids[0] = (int32_t)(low & 0xFFFFFF);
    ids[1] = (int32_t)(low >> 24 & 0xFFFFFF);
    ids[2] = (int32_t)((low >> 48 | high << 16) & 0xFFFFFF);
    ids[3] = (int32_t)(high >> 8 & 0xFFFFFF);
    ids[4] = (int32_t)(high >> 32 & 0xFFFFFF);
    return (int)(high >> 56);
}

/* Puts in what was not found. set: the key's; PIECE_IDS_ROOM ids may be read. false: too many to be small */
bool piece_cache_keep(const PieceCache *w, SmallPiece *set, PieceKey key, const int32_t *ids, int64_t count);

/* Of up to PIECE_LARGE bytes and too long or too many ids for a small one; ids has room for as many as the piece has bytes */
int  piece_cache_find_large(const PieceCache *w, const uint8_t *text, int64_t bytes, int32_t *ids);
void piece_cache_keep_large(PieceCache *w, const uint8_t *text, int64_t bytes, const int32_t *ids, int64_t count);
#endif
