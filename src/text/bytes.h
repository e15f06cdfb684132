#ifndef TEXT_BYTES_H
#define TEXT_BYTES_H
/* The tokenizer `bytes`: ids 0-255 are the bytes of the text, 256 the end of a document. It spells everything. */
#include "text/tokenizer.h"

enum { BYTES_EOD = 256, BYTES_IDS = 257 };
extern const Tokenizer bytes_tokenizer;
#endif
