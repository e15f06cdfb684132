#ifndef TEXT_BPE_TOKEN_TRIE_H
#define TEXT_BPE_TOKEN_TRIE_H
/* What the models of text/bpe/piece_models.h keep beside a vocabulary and merges. */
#include <stdbool.h>
#include <stdint.h>
#include "text/sentencepiece/sentencepiece_trie.h"

typedef enum {
    PIECE_MODEL_BPE, PIECE_MODEL_WORD_LEVEL, PIECE_MODEL_WORD_PIECE, PIECE_MODEL_UNIGRAM
} PieceModel;
enum { AFFIX_BYTES_MAX = 64 };
typedef struct { char text[AFFIX_BYTES_MAX + 1]; int bytes; } Affix;

/* The tokens of a WordPiece or Unigram model; of those with the same text the last one. */
typedef struct {
    SentencePieceTrie trie;
    double *score, least;               /* of Unigram: [id], and the lowest */
} TokenTrie;
void token_trie_close(TokenTrie *trie);

/* The best way to spell the text up to a position: its last token begins at `from`; -1: none ends here. */
typedef struct { double score; int32_t id, from; } UnigramNode;
#endif
