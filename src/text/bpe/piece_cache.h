#ifndef TEXT_BPE_PIECE_CACHE_H
#define TEXT_BPE_PIECE_CACHE_H
/* A cache from a pretoken to its ids, since most pretokens of a text are a few frequent words and merging is
 * slow. Its size is fixed. Short pieces (up to 15 bytes, and 7 ids below 2^16 or 5 below 2^24) take half a
 * cache line: the key and the ids are two registers each, so a hit reads one line and has no loop. Longer
 * ones, up to 31 bytes and 16 ids, are in a second table.
 *
 * A set of short pieces has four ways in two cache lines. The first pieces seen stay in the first line, which
 * by Zipf's law are the most frequent; later ones replace each other in the second line, and one that is
 * found there moves to the first. One per thread, with the other working memory of encoding. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "text/bpe/bpe.h"
#include "text/bpe/token_trie.h"
#include "text/pretokenize/pretokenizer.h"

enum {
    PIECE_SHORT_BYTES = 15, PIECE_LONG_BYTES = 31,
    PIECE_IDS_NARROW = 7, PIECE_IDS_WIDE = 5,           /* ids of a short piece, of 16 and of 24 bits */
    PIECE_IDS_WRITTEN = 8,                              /* capacity that piece_ids needs */
    PIECE_LONG_IDS = 16, PIECE_WAYS = 4, PIECE_ID_BITS = 24
};
enum { SHORT_SETS_LOG = 17, LONG_SETS_LOG = 15, LONG_FILTER_LOG = 19 };      /* log2 of sets, and of bits */

typedef struct { uint64_t low, high; } PieceKey;        /* the bytes, zeros, and the length in the top byte
                                                         * of high */
/* narrow: up to 7 ids, narrow[7] is their number. wide: up to 5 ids of 24 bits, their number in the top byte
 * of high. */
typedef union { struct { uint64_t low, high; } wide; uint16_t narrow[8]; } PieceIds;
typedef struct { PieceKey key; PieceIds ids; } ShortPiece;
/* top byte of id[0]: number of ids */
typedef struct { uint64_t key[4]; uint32_t id[PIECE_LONG_IDS]; } LongPiece;
typedef struct {
    ShortPiece *short_pieces;                           /* [sets][PIECE_WAYS], 16 MiB */
    LongPiece  *long_pieces;                            /* [sets][2], 6 MiB */
    uint64_t    long_filter[1 << (LONG_FILTER_LOG - 6)];        /* a Bloom filter with one hash, of all
                                                                 * long pieces ever stored: most lookups
                                                                 * are misses and read no set */
    bool        narrow;                                 /* ids have 16 bits; else 24 */
    int64_t     pieces, misses;                         /* looked up; of these, how many had to be merged */
    BpeSpace    space;
    UnigramNode *node;                                  /* [nodes], of the longest piece so far */
    int64_t      nodes;
    PretokenizerSpace pretokenizer;
    NormalizerBuffers normalizer, segment;              /* apart: segments lie in the normalized text */
} PieceCache;

Status piece_cache_open (PieceCache **cache, int32_t vocabulary);        /* NO_MEMORY */
void   piece_cache_close(PieceCache *cache);

extern const uint8_t piece_key_mask[64];                 /* 32 times 255, 32 times 0 */

/* text: 16 bytes may be read, of which `bytes` are the piece; the mask clears the others. */
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

static inline bool piece_key_equal(const ShortPiece *entry, PieceKey key)
{
    return entry->key.low == key.low && entry->key.high == key.high;
}

/* Searches the first line of a set; NULL: it may be in the second. There is no branch between the two ways,
 * because which of them matches cannot be predicted. */
static inline const ShortPiece *piece_cache_find(const ShortPiece *set, PieceKey key)
{
    const ShortPiece *entry = set + !piece_key_equal(set, key);
    return piece_key_equal(entry, key) ? entry : NULL;
}

/* Searches the second line, and exchanges a piece found there with one of the first. */
const ShortPiece *piece_cache_find_second(ShortPiece *set, PieceKey key);

/* Writes up to PIECE_IDS_WRITTEN ids, without a loop over their number, and returns how many of them are
 * valid. */
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

/* Stores a piece that was not found. set: of the key; PIECE_IDS_WRITTEN ids may be read. false: too many for
 * a short piece, nothing is stored. */
bool piece_cache_put(const PieceCache *w, ShortPiece *set, PieceKey key, const int32_t *ids, int64_t count);

/* For pieces of up to PIECE_LONG_BYTES that do not fit a short one. Returns the number of ids, 0: not found;
 * ids has capacity for one per byte. piece_cache_put_long ignores what does not fit. */
int  piece_cache_find_long(const PieceCache *w, const uint8_t *text, int64_t bytes, int32_t *ids);
void piece_cache_put_long(PieceCache *w, const uint8_t *text, int64_t bytes, const int32_t *ids,
                          int64_t count);
#endif
