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
#include "text/bpe/bpe_tokenizer.h"

/* Writes the ids of a pretoken of at least one byte, at most one for each byte, and returns their number.
 * -1 after fail(): no memory, or the pretoken is unknown and the model has no token for that. */
int64_t piece_model_encode(const BpeTokenizer *bpe, PieceCache *cache, int32_t *ids, const uint8_t *text,
                           int64_t bytes);
#endif
