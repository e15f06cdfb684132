#include "text/bpe/bpe_train_words.h"
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BLOCK_BYTES = 1 << 20 };

static const char *text_keep(WordTable *t, const char *text, int64_t bytes)
{
    TextBlock *b = t->block;
    if (!b || b->room - b->used < bytes) {
        int64_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = malloc(sizeof *b + (size_t)room);
        CHECK(b, "no memory for the text of %lld words", (long long)t->words);
        *b = (TextBlock){ .next = t->block, .room = room };
        t->block = b;
    }
    char *kept = b->text + b->used;
    memcpy(kept, text, (size_t)bytes);
    b->used += bytes;
    return kept;
}

static WordCount *place_find(const WordTable *t, uint64_t hash, const char *text, int64_t bytes)
{
    for (int64_t at = (int64_t)(hash & (uint64_t)(t->places - 1));; at = (at + 1) & (t->places - 1)) {
        WordCount *w = &t->place[at];
        if (!w->count || (w->hash == hash && w->bytes == bytes && !memcmp(w->text, text, (size_t)bytes)))
            return w;
    }
}

static void places_double(WordTable *t)
{
    WordTable grown = { .places = t->places ? 2 * t->places : 1 << 14 };
    grown.place = calloc((size_t)grown.places, sizeof *grown.place);
    CHECK(grown.place, "no memory for %lld distinct words", (long long)grown.places);
    for (int64_t i = 0; i < t->places; i++)
        if (t->place[i].count)
            *place_find(&grown, t->place[i].hash, t->place[i].text, t->place[i].bytes) = t->place[i];
    free(t->place);
    t->place  = grown.place;
    t->places = grown.places;
}

void word_table_add(WordTable *t, const char *text, int64_t bytes)
{
    CHECK(bytes <= UINT32_MAX, "a word of %lld bytes", (long long)bytes);
    if (2 * t->words >= t->places) places_double(t);
    uint64_t   hash = XXH3_64bits(text, (size_t)bytes);
    WordCount *w = place_find(t, hash, text, bytes);
    if (!w->count) {
        *w = (WordCount){ .hash = hash, .text = text_keep(t, text, bytes), .bytes = (uint32_t)bytes };
        t->words++;
    }
    w->count++;
}

void word_table_absorb(WordTable *into, WordTable *from)
{
    for (int64_t i = 0; i < from->places; i++) {
        const WordCount *f = &from->place[i];
        if (!f->count) continue;
        if (2 * into->words >= into->places) places_double(into);
        WordCount *w = place_find(into, f->hash, f->text, f->bytes);
        int64_t before = w->count;
        if (!before) *w = *f;
        else         w->count += f->count;
        into->words += before == 0;
    }
    TextBlock **end = &into->block;
    while (*end) end = &(*end)->next;
    *end = from->block;
    from->block = NULL;
    word_table_close(from);
}

void word_table_close(WordTable *t)
{
    for (TextBlock *b = t->block, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(t->place);
    *t = (WordTable){ 0 };
}
