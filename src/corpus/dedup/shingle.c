/* Words, shingles and shingle sets. Words are found 16 bytes at a time where they consist of
 * ASCII and of the letters of Latin-1, which is most European text; all others are decoded character by
 * character. Both ways give the same hashes. */
#include "corpus/dedup/shingle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "base/array.h"
#include "base/bytes16.h"
#include "text/unicode.h"

/* The lower-case letter or the digit for each ASCII byte of a word, else 0 */
#define NONE8  0, 0, 0, 0, 0, 0, 0, 0
#define A_TO_Z 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', \
               'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z'
static const uint8_t small[128] = {
    NONE8, NONE8, NONE8, NONE8, NONE8, NONE8,
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 0, 0, 0, 0, 0, 0,
    0, A_TO_Z, 0, 0, 0, 0, 0,
    0, A_TO_Z, 0, 0, 0, 0, 0,
};

/* ---- words ---- */

/* Finalizer: every bit of x affects every bit of the result, since MinHash needs hashes that are equally
 * distributed in all bits. */
static inline uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

/* Hash of the lower-case bytes of a word, eight at a time. No byte is 0, so an incomplete last group is
 * distinguished by its zero bytes. */
typedef struct { uint64_t hash, eight; int count; } WordHash;
#define WORD_BEGIN 0xCBF29CE484222325u

static inline uint64_t hash_eight(uint64_t hash, uint64_t eight)
{
    hash = (hash ^ eight) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static inline void hash_byte(WordHash *w, uint8_t byte)
{
    w->eight |= (uint64_t)byte << 8 * w->count++;
    if (w->count < 8) return;
    *w = (WordHash){ hash_eight(w->hash, w->eight), 0, 0 };
}

/* Adds a character above ASCII to the word. Returns its bytes, or -bytes if it is not part of a word. */
static int word_char_wide(WordHash *w, const uint8_t *p, int64_t left, bool digits)
{
    Rune r = rune_wide(p, left);
    if (!(r.kind & ~SPACE)) return -r.bytes;
    uint8_t bytes[4] = { '0' };
    int count = digits && (r.kind & NUMBER) ? 1
                : utf8_encode(bytes, (uint32_t)utf8proc_tolower((utf8proc_int32_t)r.point));
    for (int i = 0; i < count; i++) hash_byte(w, bytes[i]);
    return r.bytes;
}

/* The next word from walk->at on in any script, character by character. */
static bool word_slow(WordWalk *walk, WordSpan *word)
{
    const uint8_t *text = (const uint8_t *)walk->text;
    WordHash w  = { .hash = WORD_BEGIN };
    int64_t  at = walk->at, from = -1;
    while (at < walk->bytes) {
        uint8_t byte = text[at];
        int     step = byte < 0x80 ? small[byte] ? 1 : -1
                       : word_char_wide(&w, text + at, walk->bytes - at, walk->digits);
        if (step < 0 && from >= 0) break;
        if (step < 0) { at -= step; continue; }
        if (from < 0) from = at;
        if (byte < 0x80) hash_byte(&w, walk->digits && byte <= '9' ? '0' : small[byte]);
        at += step;
    }
    walk->at = at;
    *word = (WordSpan){ mix_bits(w.count ? hash_eight(w.hash, w.eight) : w.hash), from, at };
    return from >= 0;
}

/* 16 bytes that begin at a character. byte: in lower case. word: one bit for each byte of a word.
 * undecided: one bit for each byte that only word_slow can classify, namely everything above U+00FF, the
 * signs below it, and a letter that the end of the 16 bytes cuts in two. */
typedef struct { uint8_t byte[32]; uint32_t word, undecided; } WordBytes;

/* A letter of Latin-1 is C3 and 80 to BF, without the signs 97 and B7; those up to 9E are capitals. In words
 * without undecided bytes there are no others of these values. */
static inline void word_bytes(WordBytes *s, const char *text, bool digits)
{
    Bytes16  v = bytes16_at(text), small_letter = v | 0x20, digit = (Bytes16)((v - '0') < 10);
    Bytes16  capital = (Bytes16)(((v - 'A') < 26) | ((v - 0x80) < 0x1F));
    Bytes16Holds last = ((v & 0xC0) == 0x80) & (small_letter != 0xB7);
    uint32_t lasts = bytes16_bits(v == 0xC3) << 1 & bytes16_bits(last);
    uint32_t both  = lasts | lasts >> 1;
    s->word      = bytes16_bits(((small_letter - 'a') < 26) | (Bytes16Holds)digit) | both;
    s->undecided = bytes16_bits(v >= 0x80) & ~both;
    v += capital & 0x20;
    if (digits) v = (v & ~digit) | (digit & '0');
    memcpy(s->byte, &v, sizeof v);
}

static inline uint64_t eight_at(const uint8_t *byte, int bytes)
{
    uint64_t eight;
    memcpy(&eight, byte, 8);
    return bytes < 8 ? eight & (((uint64_t)1 << 8 * bytes) - 1) : eight;
}

/* A word that ends within 16 bytes. False: the caller must use word_slow from walk->at on. */
static inline bool word_fast(WordWalk *walk, WordSpan *word)
{
    WordBytes s = { .byte = { 0 } };
    for (; walk->bytes - walk->at >= 16; walk->at += 16) {
        word_bytes(&s, walk->text + walk->at, walk->digits);
        if (!(s.word | s.undecided)) continue;
        int from = __builtin_ctz(s.word | 0x10000), end = from + __builtin_ctz(~(s.word >> from));
        if (end >= 16 || (s.undecided & ((2u << end) - 1))) return false;
        uint64_t hash = hash_eight(WORD_BEGIN, eight_at(s.byte + from, end - from));
        if (end - from > 8) hash = hash_eight(hash, eight_at(s.byte + from + 8, end - from - 8));
        *word = (WordSpan){ mix_bits(hash), walk->at + from, walk->at + end };
        walk->at += end;
        return true;
    }
    return false;
}

/* Inline, for loops over all words of a text. */
static inline bool word_step(WordWalk *walk, WordSpan *word)
{
    return word_fast(walk, word) || word_slow(walk, word);
}

bool word_next(WordWalk *walk, WordSpan *word) { return word_step(walk, word); }

/* ---- shingles: the rolling hash sum = word[0] * base^(n-1) + ... + word[n-1] mod 2^64 ---- */

#define BASE 0x9E3779B97F4A7C15u

ShingleRoll shingle_roll(int words)
{
    CHECK(words >= 1 && words <= SHINGLE_WORDS_MOST, "shingles of %d words; 1 to %d are possible",
          words, SHINGLE_WORDS_MOST);
    ShingleRoll roll = { .power = 1, .words = words };
    for (int i = 0; i < words; i++) roll.power *= BASE;
    return roll;
}

/* sum = sum * base + word - oldest * base^n; the ring holds 0 for words before the first, so no case is
 * special. */
static inline bool roll_step(ShingleRoll *roll, uint64_t word, uint64_t *hash)
{
    roll->sum = roll->sum * BASE + word - roll->word[roll->at] * roll->power;
    roll->word[roll->at] = word;
    roll->at = roll->at + 1 == roll->words ? 0 : roll->at + 1;
    roll->seen++;
    *hash = mix_bits(roll->sum);
    return roll->seen >= roll->words;
}

bool shingle_push(ShingleRoll *roll, uint64_t word, uint64_t *hash) { return roll_step(roll, word, hash); }

Status shingles_of(Shingles *s, int words, const char *text, int64_t bytes)
{
    WordWalk    walk = { .text = text, .bytes = bytes };
    ShingleRoll roll = shingle_roll(words);
    WordSpan    word;
    uint64_t    hash;
    s->count = 0;
    while (word_step(&walk, &word)) {
        if (!roll_step(&roll, word.hash, &hash)) continue;
        TRY(ARRAY_RESERVE(s->hash, s->capacity, s->count + 1));
        s->hash[s->count++] = hash;
    }
    return OK;
}

/* ---- sets ---- */

/* Distributes the hashes over as many buckets as there are hashes, by their first bits. Those are equally
 * distributed, so each bucket gets about one hash and the result is nearly sorted. */
static void bucket_sort(uint64_t *out, const uint64_t *hash, int64_t count, uint64_t *bucket, int bits)
{
    memset(bucket, 0, sizeof *bucket << bits);
    for (int64_t i = 0; i < count; i++) bucket[hash[i] >> (64 - bits)]++;
    for (uint64_t p = 0, at = 0; p < (uint64_t)1 << bits; p++) {
        uint64_t count_here = bucket[p];
        bucket[p] = at;
        at += count_here;
    }
    for (int64_t i = 0; i < count; i++) out[bucket[hash[i] >> (64 - bits)]++] = hash[i];
}

/* Insertion sort of nearly sorted hashes, which drops duplicates: a hash that occurs a million times is
 * compared with its copy at the end, not moved a million times. */
static int64_t insertion_sort_unique(uint64_t *out, const uint64_t *hash, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = kept;
        while (at > 0 && out[at - 1] > hash[i]) at--;
        if (at > 0 && out[at - 1] == hash[i]) continue;
        for (int64_t j = kept++; j > at; j--) out[j] = out[j - 1];
        out[at] = hash[i];
    }
    return kept;
}

Status shingles_set(Shingles *s)
{
    int bits = 1;
    while ((int64_t)1 << bits < s->count) bits++;
    TRY(ARRAY_RESERVE(s->hash, s->capacity, 2 * s->count + ((int64_t)1 << bits)));
    uint64_t *sorted = s->hash + s->count;
    bucket_sort(sorted, s->hash, s->count, sorted + s->count, bits);
    s->count = insertion_sort_unique(s->hash, sorted, s->count);
    return OK;
}

/* Merges two sorted sets without branches, since which of two random hashes is smaller cannot be
 * predicted. */
double shingles_jaccard(const Shingles *a, const Shingles *b)
{
    int64_t i = 0, j = 0, common = 0;
    while (i < a->count && j < b->count) {
        uint64_t x = a->hash[i], y = b->hash[j];
        common += x == y;
        i      += x <= y;
        j      += y <= x;
    }
    int64_t either = a->count + b->count - common;
    return either ? (double)common / (double)either : 0;
}

void shingles_free(Shingles *s)
{
    free(s->hash);
    *s = (Shingles){ 0 };
}
