#ifndef TEXT_BPE_BPE_TRAIN_WORDS_H
#define TEXT_BPE_BPE_TRAIN_WORDS_H
/* Counts distinct words: a hash table with linear probing, which keeps copies of the words it has seen. Where
 * memory runs out the program stops (CHECK). */
#include <stdint.h>

typedef struct {
    uint64_t    hash;
    int64_t     count;                                              /* occurrences; 0: an empty slot */
    const char *text;                                               /* in a TextBlock of the table */
    uint32_t    bytes;
} WordCount;
/* in bytes */
typedef struct TextBlock { struct TextBlock *next; int64_t used, capacity; char text[]; } TextBlock;
typedef struct {
    WordCount *slot;                                                /* [slots], a power of two, at most
                                                                     * half full */
    int64_t    slots, words;
    TextBlock *block;                                               /* the copies, in a list of blocks */
} WordTable;

void word_table_add   (WordTable *table, const char *text, int64_t bytes);
/* Adds all counts of `from` and closes it; its blocks of text move to `into`. */
void word_table_absorb(WordTable *into, WordTable *from);
void word_table_close (WordTable *table);
#endif
