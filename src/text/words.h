#ifndef TEXT_WORDS_H
#define TEXT_WORDS_H
/* A bounded memory of words already merged: pieces of up to 31 bytes and 16 ids. Sets of two, the older gives way. A piece
 * of up to 15 bytes is its own key, in two registers, so a hit is one cache line read and nothing else. One per thread.  */
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "text/bpe.h"

enum { WORD_SMALL = 15, WORD_LARGE = 31, WORD_IDS = 4, WORD_LARGE_IDS = 16, WORD_COUNT_SHIFT = 24 };

typedef struct { uint64_t low, high; } WordKey;                           /* high: its top byte is the length */
typedef struct { WordKey key; uint32_t id[WORD_IDS]; } SmallWord;         /* id[0]: their count in the top byte */
typedef struct { uint64_t key[4]; uint32_t id[WORD_LARGE_IDS]; } LargeWord;
typedef struct {
    SmallWord *small;
    LargeWord *large;
    int64_t    misses;                              /* pieces that had to be merged */
    BpeSpace   space;
    struct RegexSpace *regex;
    struct Text { uint8_t *data; int64_t room; } text[2];           /* what normalizers write */
} Words;

Status words_open (Words **words);
void   words_close(Words *words);

extern const uint8_t words_ones[64];                 /* 32 times 255, 32 times 0 */
enum { SMALL_SETS = 1 << 17, LARGE_SETS = 1 << 15 };

/* text: 16 bytes may be read */
static inline WordKey word_key(const uint8_t *text, int64_t bytes)
{
    WordKey key, mask;
    memcpy(&key, text, sizeof key);
    memcpy(&mask, words_ones + 32 - bytes, sizeof mask);
    return (WordKey){ key.low & mask.low, (key.high & mask.high) | (uint64_t)bytes << 56 };
}

static inline SmallWord *word_set(const Words *w, WordKey key)
{
    uint64_t h = key.low * 0x9E3779B97F4A7C15u ^ (key.high + (key.high >> 31)) * 0xC2B2AE3D27D4EB4Fu;
    return w->small + (((h ^ h >> 32) * 0x9E3779B97F4A7C15u) >> (64 - 17)) * 2;
}

/* Writes WORD_IDS ids, of which so many count; 0: not known. word: its set */
static inline int word_in(const SmallWord *word, WordKey key, int32_t *ids)
{
    if (word->key.low != key.low || word->key.high != key.high) {
        word++;
        if (word->key.low != key.low || word->key.high != key.high) return 0;
    }
    memcpy(ids, word->id, sizeof word->id);
    ids[0] &= (1 << WORD_COUNT_SHIFT) - 1;
    return (int)(word->id[0] >> WORD_COUNT_SHIFT);
}

/* Of up to WORD_LARGE bytes, wherever it stands; ids has room for as many as the piece has bytes */
int  word_find_large(const Words *w, const uint8_t *text, int64_t bytes, int32_t *ids);
/* Kept where it is small enough for either table */
void word_keep(Words *w, const uint8_t *text, int64_t bytes, const int32_t *ids, int64_t count);
#endif
