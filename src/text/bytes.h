#ifndef TEXT_BYTES_H
#define TEXT_BYTES_H
/* The tokenizer `bytes`: ids 0 to 255 are the bytes of the text, id 256 is the end of a document. It encodes
 * every text, needs no file and cannot fail. */
#include "text/tokenizer.h"

enum { BYTES_EOD = 256, BYTES_IDS = 257 };
extern const Tokenizer bytes_tokenizer;
#endif
