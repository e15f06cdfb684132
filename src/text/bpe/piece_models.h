#ifndef TEXT_BPE_PIECE_MODELS_H
#define TEXT_BPE_PIECE_MODELS_H
/* How a pretoken becomes ids: the models of Hugging Face's library. Each works on one pretoken by itself, so
 * that the cache of text/bpe/piece_cache.h serves all of them.
 *
 *     BPE         characters (or bytes) are symbols, which merges join
 *     WordLevel   the pretoken is a token, or it is the unknown token
 *     WordPiece   the longest token that the rest begins with, again and again; within a word tokens have a
 *                 prefix. A word that cannot be spelt, or is too long, is the unknown token
 *     Unigram     the tokens with the highest sum of scores */
#include <stdbool.h>
#include <stdint.h>
#include "text/sentencepiece/sentencepiece_trie.h"

struct BpeTokenizer;
struct PieceCache;

typedef enum { PIECE_MODEL_BPE, PIECE_MODEL_WORD_LEVEL, PIECE_MODEL_WORD_PIECE, PIECE_MODEL_UNIGRAM } PieceModel;
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

/* Writes the ids of a pretoken of at least one byte, at most one for each byte, and returns their number.
 * -1 after fail(): no memory, or the pretoken is unknown and the model has no token for that. */
int64_t piece_model_encode(const struct BpeTokenizer *bpe, struct PieceCache *cache, int32_t *ids,
                           const uint8_t *text, int64_t bytes);
#endif
