#ifndef CONVERT_LLAMA_PIECES_H
#define CONVERT_LLAMA_PIECES_H
/* sentencepiece models as other programs take them: transformers' LlamaTokenizer and llama.cpp's "llama" read
 * the pieces and know one set of rules, that of Llama's own model. */
#include "text/sentencepiece/sentencepiece_model.h"

/* The rule of the model that those programs do not know, so that they would give other ids; NULL: there is
 * none. */
const char *llama_pieces_other(const SentencePieceModel *model);
#endif
