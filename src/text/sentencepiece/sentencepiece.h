#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_H
/* The tokenizer of a sentencepiece .model file, BPE or unigram: it gives the ids that sentencepiece itself
 * gives to a whole text. eod is the control piece </s>, or the one that the model names instead. Pieces are
 * decoded with spaces for U+2581. Scores of unigram models are summed and rounded as in version 0.2.3 of the
 * library; version 0.2.1 and before differ at rare near ties in texts above some 10,000 pieces
 * (text/sentencepiece/sentencepiece_unigram.c). */
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer.h"

/* BAD_FILE where the file is malformed or needs what is not implemented: models of words or characters, a
 * denormalizer. */
Status  sentencepiece_open(Tokenizer *t, const char *path);
/* The model of an open tokenizer, which owns it; NULL: it is of another kind. */
const SentencePieceModel *sentencepiece_model_of(const Tokenizer *t);
/* The text after the model's normalizer, which is what encode encodes. Writes it to out and returns its
 * length in bytes; only counts where out is NULL. -1: a rule of the model expands the text too much. */
int64_t sentencepiece_normalize(const Tokenizer *t, char *out, const char *text, int64_t bytes);
#endif
