#include "text/words.h"
#include <stdlib.h>
#include <sys/mman.h>
#include "text/regex.h"

#define X16 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255
const uint8_t words_ones[64] = { X16, X16 };

/* Zeros are no word: each has a length. Large pages are asked for before the first touch, since words lie far apart. */
static void *table_open(size_t bytes)
{
    void *table = aligned_alloc(1 << 21, bytes);
    if (!table) return NULL;
    madvise(table, bytes, MADV_HUGEPAGE);
    return memset(table, 0, bytes);
}

Status words_open(Words **words)
{
    Words *w = calloc(1, sizeof *w);
    if (w) w->small = table_open(2 * SMALL_SETS * sizeof *w->small);
    if (w) w->large = table_open(2 * LARGE_SETS * sizeof *w->large);
    *words = w;
    if (w && w->small && w->large) return OK;
    words_close(w);
    *words = NULL;
    return fail(NO_MEMORY, "no memory for a tokenizer's words");
}

void words_close(Words *w)
{
    if (!w) return;
    free(w->small);
    free(w->large);
    bpe_space_close(&w->space);
    regex_space_close(w->regex);
    free(w->text[0].data);
    free(w->text[1].data);
    free(w);
}

static void large_key(uint64_t key[4], const uint8_t *text, int64_t bytes)
{
    uint8_t raw[32] = { 0 };
    memcpy(raw, text, (size_t)bytes);
    raw[31] = (uint8_t)bytes;
    memcpy(key, raw, sizeof raw);
}

static LargeWord *large_set(const Words *w, const uint64_t key[4])
{
    uint64_t h = 0;
    for (int i = 0; i < 4; i++) h = ((h ^ key[i]) * 0x9E3779B97F4A7C15u) ^ (h >> 29);
    return w->large + ((h ^ h >> 31) * 0xC2B2AE3D27D4EB4Fu >> (64 - 15)) * 2;
}

int word_find_large(const Words *w, const uint8_t *text, int64_t bytes, int32_t *ids)
{
    uint64_t key[4];
    large_key(key, text, bytes);
    const LargeWord *word = large_set(w, key);
    if (memcmp(word->key, key, sizeof key) && memcmp((++word)->key, key, sizeof key)) return 0;
    int count = (int)(word->id[0] >> WORD_COUNT_SHIFT);
    memcpy(ids, word->id, (size_t)count * sizeof *ids);
    ids[0] &= (1 << WORD_COUNT_SHIFT) - 1;
    return count;
}

void word_keep(Words *w, const uint8_t *text, int64_t bytes, const int32_t *ids, int64_t count)
{
    if (bytes > WORD_LARGE || count < 1 || count > WORD_LARGE_IDS) return;
    if (bytes <= WORD_SMALL && count <= WORD_IDS) {
        uint8_t raw[16] = { 0 };
        memcpy(raw, text, (size_t)bytes);
        WordKey    key  = word_key(raw, bytes);
        SmallWord *word = word_set(w, key);
        word[1] = word[0];
        word[0] = (SmallWord){ .key = key };
        memcpy(word->id, ids, (size_t)count * sizeof *ids);
        word->id[0] |= (uint32_t)count << WORD_COUNT_SHIFT;
        return;
    }
    LargeWord made = { 0 };
    large_key(made.key, text, bytes);
    memcpy(made.id, ids, (size_t)count * sizeof *ids);
    made.id[0] |= (uint32_t)count << WORD_COUNT_SHIFT;
    LargeWord *word = large_set(w, made.key);
    word[1] = word[0];
    word[0] = made;
}
