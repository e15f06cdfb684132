#ifndef TEXT_DECODER_H
#define TEXT_DECODER_H
/* Streaming detokenizer: writes the text of ids as they arrive. A UTF-8 character whose bytes are spread over
 * several ids is written once its last byte has arrived, and the space that encode puts before a text is
 * dropped. Bytes that are not valid UTF-8 are written unchanged.
 *
 *     Decoder d = { .tokenizer = &t };
 *     for (...) decoder_put(&d, stdout, id);        each id is below the tokenizer's vocabulary
 *     decoder_end(&d, stdout);                      writes an incomplete character; the next id begins a text
 *
 * Errors of `out` are left to the caller (ferror); nothing is allocated. */
#include <stdio.h>
#include "text/tokenizer.h"

typedef struct {
    const Tokenizer *tokenizer;         /* borrowed */
    bool continues;                       /* the ids continue a text, so no leading space is dropped */
    bool waits;                         /* `waiting` is written when it is known whether an id follows */
    int32_t waiting;
    char held[4];                       /* the first bytes of an incomplete character */
    int  count;                         /* bytes in held */
} Decoder;

void decoder_put(Decoder *decoder, FILE *out, int32_t id);
void decoder_end(Decoder *decoder, FILE *out);
#endif
