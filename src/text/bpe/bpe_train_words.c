/* Counts distinct words for the BPE training. Their texts are copied into large blocks, which never move. */
#include "text/bpe/bpe_train_words.h"
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BLOCK_BYTES = 1 << 20 };

/* Copies a text that the table did not have; the caller's texts are gone after the call that feeds them. */
static const char *text_copy(WordTable *t, const char *text, int64_t bytes)
{
    TextBlock *b = t->block;
    if (!b || b->capacity - b->used < bytes) {
        int64_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = malloc(sizeof *b + (size_t)capacity);
        CHECK(b, "no memory for the text of %lld words", (long long)t->words);
        *b = (TextBlock){ .next = t->block, .capacity = capacity };
        t->block = b;
    }
    char *kept = b->text + b->used;
    memcpy(kept, text, (size_t)bytes);
    b->used += bytes;
    return kept;
}

/* The slot of a word, or the empty one where it belongs */
static WordCount *slot_find(const WordTable *t, uint64_t hash, const char *text, int64_t bytes)
{
    for (int64_t at = (int64_t)(hash & (uint64_t)(t->slots - 1));; at = (at + 1) & (t->slots - 1)) {
        WordCount *w = &t->slot[at];
        if (!w->count || (w->hash == hash && w->bytes == bytes && !memcmp(w->text, text, (size_t)bytes)))
            return w;
    }
}

static void slots_double(WordTable *t)
{
    WordTable grown = { .slots = t->slots ? 2 * t->slots : 1 << 14 };
    grown.slot = calloc((size_t)grown.slots, sizeof *grown.slot);
    CHECK(grown.slot, "no memory for %lld distinct words", (long long)grown.slots);
    for (int64_t i = 0; i < t->slots; i++)
        if (t->slot[i].count)
            *slot_find(&grown, t->slot[i].hash, t->slot[i].text, t->slot[i].bytes) = t->slot[i];
    free(t->slot);
    t->slot  = grown.slot;
    t->slots = grown.slots;
}

void word_table_add(WordTable *t, const char *text, int64_t bytes)
{
    CHECK(bytes <= UINT32_MAX, "a word of %lld bytes", (long long)bytes);
    if (2 * t->words >= t->slots) slots_double(t);
    uint64_t   hash = XXH3_64bits(text, (size_t)bytes);
    WordCount *w = slot_find(t, hash, text, bytes);
    if (!w->count) {
        *w = (WordCount){ .hash = hash, .text = text_copy(t, text, bytes), .bytes = (uint32_t)bytes };
        t->words++;
    }
    w->count++;
}

void word_table_absorb(WordTable *into, WordTable *from)
{
    for (int64_t i = 0; i < from->slots; i++) {
        const WordCount *f = &from->slot[i];
        if (!f->count) continue;
        if (2 * into->words >= into->slots) slots_double(into);
        WordCount *w = slot_find(into, f->hash, f->text, f->bytes);
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
    free(t->slot);
    *t = (WordTable){ 0 };
}
