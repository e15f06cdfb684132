#ifndef CONVERT_LLAMA_PIECES_H
#define CONVERT_LLAMA_PIECES_H
/* sentencepiece models as other programs take them: transformers' LlamaTokenizer and llama.cpp read the
 * pieces and know one set of rules, that of Llama's own model. */
#include "base/file.h"
#include "text/sentencepiece/sentencepiece_model.h"

typedef struct { FileMap map; SentencePieceModel model; } LlamaPieces;
/* Opens a sentencepiece .model. BAD_OPTION, with the reason: it normalizes, merges by unigram scores, or has
 * no byte fallback, so that those programs would give other ids. */
Status llama_pieces_open (LlamaPieces *pieces, const char *path);
void   llama_pieces_close(LlamaPieces *pieces);
/* Whether the file begins as a sentencepiece model. */
bool   llama_pieces_is   (const char *path);
#endif
