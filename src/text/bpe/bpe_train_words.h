#ifndef TEXT_BPE_BPE_TRAIN_WORDS_H
#define TEXT_BPE_BPE_TRAIN_WORDS_H
/* Distinct words and how often each was seen: a hash table over texts that it keeps. */
#include <stdint.h>

typedef struct {
    uint64_t    hash;
    int64_t     count;
    const char *text;
    uint32_t    bytes;
} WordCount; /* count 0: an empty place */
typedef struct TextBlock { struct TextBlock *next; int64_t used, capacity; char text[]; } TextBlock;
typedef struct {
    WordCount *slot;
    int64_t    slots, words;
    TextBlock *block;
} WordTable;

void word_table_add   (WordTable *table, const char *text, int64_t bytes);
void word_table_absorb(WordTable *into, WordTable *from);           /* from is closed; its texts live on in into */
void word_table_close (WordTable *table);
#endif
