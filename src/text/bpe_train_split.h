#ifndef TEXT_BPE_TRAIN_SPLIT_H
#define TEXT_BPE_TRAIN_SPLIT_H
/* GPT-2's words: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * A plain scanner, which training may do without: bpe_train takes any WordNext. */
#include <stdint.h>

/* Bytes of the word that text begins with, 1 or more. text goes on to the end of the document. */
typedef int64_t WordNext(const void *splitter, const char *text, int64_t bytes);

typedef struct {
    uint8_t kind[65536];
} Gpt2Splitter; /* of the first plane; the others are asked for each time */
void    gpt2_splitter_fill(Gpt2Splitter *splitter);
int64_t gpt2_word(const void *splitter, const char *text, int64_t bytes);
#endif
