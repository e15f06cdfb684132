#ifndef TEXT_SENTENCEPIECE_SENTENCEPIECE_H
#define TEXT_SENTENCEPIECE_SENTENCEPIECE_H
/* The tokenizer of a sentencepiece .model, BPE or unigram: the ids sentencepiece itself gives to a text,
 * whole. BAD_FILE where the file is broken or wants what is not built: models of words or characters, a
 * denormalizer. Unigram scores are added and rounded as version 0.2.3 of the library does it; 0.2.1 and before
 * give other ids at a near tie or two of texts above some 10,000 pieces (text/sentencepiece/sentencepiece_unigram.c). eod is the control piece called </s>, or
 * as the model calls it. Pieces are decoded with spaces for U+2581. */
#include "text/tokenizer.h"

Status  sentencepiece_open(Tokenizer *t, const char *path);
/* What is encoded: a text after the model's normalizer. Only counts where out is NULL. -1: a rule of it
 * grows too much. */
int64_t sentencepiece_normalize(const Tokenizer *t, char *out, const char *text, int64_t bytes);
#endif
