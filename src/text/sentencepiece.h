#ifndef TEXT_SENTENCEPIECE_H
#define TEXT_SENTENCEPIECE_H
/* The tokenizer of a sentencepiece .model, BPE or unigram: the ids sentencepiece itself gives to a text,
 * whole. BAD_FILE where the file is broken or wants what is not built: models of words or characters, a
 * denormaliser. Sums of unigram scores are rounded as the library's are; its versions round differently,
 * which shows in near ties of texts of tens of thousands of letters. eod is the control piece called </s>, or
 * as the model calls it. Pieces are decoded with spaces for U+2581. */
#include "text/tokenizer.h"

Status  sentencepiece_open(Tokenizer *t, const char *path);
/* What is encoded: a text after the model's normaliser. Only counts where out is NULL. */
int64_t sentencepiece_normalise(const Tokenizer *t, char *out, const char *text, int64_t bytes);
#endif
