#include "corpus/shingle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "text/unicode.h"

/* A small letter or a digit for each ASCII byte of a word, else 0 */
#define NONE8  0, 0, 0, 0, 0, 0, 0, 0
#define A_TO_Z 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', \
               'w', 'x', 'y', 'z'
static const uint8_t small[128] = {
    NONE8, NONE8, NONE8, NONE8, NONE8, NONE8,
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 0, 0, 0, 0, 0, 0,
    0, A_TO_Z, 0, 0, 0, 0, 0,
    0, A_TO_Z, 0, 0, 0, 0, 0,
};

/* ---- words ---- */

static inline uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

/* FNV-1a */
static inline uint64_t hash_byte(uint64_t hash, uint8_t byte) { return (hash ^ byte) * 0x100000001B3u; }

static uint64_t hash_point(uint64_t hash, uint32_t point)
{
    uint8_t bytes[4];
    int count = rune_write(bytes, point);
    for (int i = 0; i < count; i++) hash = hash_byte(hash, bytes[i]);
    return hash;
}

/* Bytes of the character at p, above ASCII, where it belongs to a word, else -bytes */
static int wide(uint64_t *hash, const uint8_t *p, int64_t left, bool digits)
{
    if (*p == 0xC3 && left > 1 && (p[1] & 0xC0) == 0x80) {           /* U+00C0 to U+00FF */
        uint8_t low = p[1] | 0x20;
        if (low == 0xB7) return -2;                                  /* multiplication and division */
        if (p[1] == 0x9F) low = 0x9F;                                /* sharp s is small */
        *hash = hash_byte(hash_byte(*hash, 0xC3), low);
        return 2;
    }
    Rune r = rune_wide(p, left);
    if (!(r.kind & ~SPACE)) return -r.bytes;
    if (digits && (r.kind & NUMBER)) *hash = hash_byte(*hash, '0');
    else *hash = hash_point(*hash, (uint32_t)utf8proc_tolower((utf8proc_int32_t)r.point));
    return r.bytes;
}

/* Inline for loops over all words of a text */
static inline bool word_step(WordWalk *walk, WordSeen *word)
{
    const uint8_t *text = (const uint8_t *)walk->text;
    uint64_t hash = 0xCBF29CE484222325u;
    int64_t  at = walk->at, from = -1;
    while (at < walk->bytes) {
        uint8_t byte = text[at];
        int     step = byte < 0x80 ? small[byte] ? 1 : -1 : wide(&hash, text + at, walk->bytes - at, walk->digits);
        if (step < 0 && from >= 0) break;
        if (step < 0) { at -= step; continue; }
        if (from < 0) from = at;
        if (byte < 0x80) hash = hash_byte(hash, walk->digits && byte <= '9' ? '0' : small[byte]);
        at += step;
    }
    walk->at = at;
    *word = (WordSeen){ mixed(hash), from, at };
    return from >= 0;
}

bool word_seen(WordWalk *walk, WordSeen *word) { return word_step(walk, word); }

/* ---- shingles: sum = word[0] * base^(n-1) + ... + word[n-1], rolled ---- */

#define BASE 0x9E3779B97F4A7C15u

ShingleRoll shingle_roll(int words)
{
    CHECK(words >= 1 && words <= SHINGLE_WORDS_MOST, "shingles of %d words; 1 to %d can be had", words, SHINGLE_WORDS_MOST);
    ShingleRoll roll = { .power = 1, .words = words };
    for (int i = 0; i < words; i++) roll.power *= BASE;
    return roll;
}

static inline bool roll_step(ShingleRoll *roll, uint64_t word, uint64_t *hash)
{
    roll->sum = roll->sum * BASE + word - roll->word[roll->at] * roll->power;
    roll->word[roll->at] = word;
    roll->at = roll->at + 1 == roll->words ? 0 : roll->at + 1;
    roll->seen++;
    *hash = mixed(roll->sum);
    return roll->seen >= roll->words;
}

bool shingle_push(ShingleRoll *roll, uint64_t word, uint64_t *hash) { return roll_step(roll, word, hash); }

static Status shingles_room(Shingles *s, int64_t room)
{
    if (room <= s->room) return OK;
    uint64_t *hash = realloc(s->hash, (size_t)room * sizeof *hash);
    if (!hash) return fail(NO_MEMORY, "no memory for the shingles of a document: %" PRId64 " bytes", room * 8);
    s->hash = hash;
    s->room = room;
    return OK;
}

Status shingles_of(Shingles *s, int words, const char *text, int64_t bytes)
{
    WordWalk    walk = { .text = text, .bytes = bytes };
    ShingleRoll roll = shingle_roll(words);
    WordSeen    word;
    uint64_t    hash;
    s->count = 0;
    while (word_step(&walk, &word)) {
        if (!roll_step(&roll, word.hash, &hash)) continue;
        if (s->count == s->room) TRY(shingles_room(s, s->room * 2 + 512));
        s->hash[s->count++] = hash;
    }
    return OK;
}

/* ---- sets ---- */

/* Into as many places as there are hashes, by their first bits, which are even: each place gets about one */
static void spread(uint64_t *out, const uint64_t *hash, int64_t count, uint64_t *place, int bits)
{
    memset(place, 0, sizeof *place << bits);
    for (int64_t i = 0; i < count; i++) place[hash[i] >> (64 - bits)]++;
    for (uint64_t p = 0, at = 0; p < (uint64_t)1 << bits; p++) {
        uint64_t here = place[p];
        place[p] = at;
        at += here;
    }
    for (int64_t i = 0; i < count; i++) out[place[hash[i] >> (64 - bits)]++] = hash[i];
}

/* Sorts what is nearly in order, and keeps each once */
static int64_t settle(uint64_t *out, uint64_t *hash, int64_t count)
{
    for (int64_t i = 1, j; i < count; i++) {
        uint64_t moved = hash[i];
        for (j = i; j > 0 && hash[j - 1] > moved; j--) hash[j] = hash[j - 1];
        hash[j] = moved;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (!kept || out[kept - 1] != hash[i]) out[kept++] = hash[i];
    return kept;
}

Status shingles_set(Shingles *s)
{
    int bits = 1;
    while ((int64_t)1 << bits < s->count) bits++;
    TRY(shingles_room(s, 2 * s->count + ((int64_t)1 << bits)));
    uint64_t *spreaded = s->hash + s->count;
    spread(spreaded, s->hash, s->count, spreaded + s->count, bits);
    s->count = settle(s->hash, spreaded, s->count);
    return OK;
}

/* Without branches: which of the two is smaller cannot be foretold */
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
