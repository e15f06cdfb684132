#ifndef TEXT_DECODER_H
#define TEXT_DECODER_H
/* Ids to a text as they come: a character that is spread over ids is written when its last byte has come, and the blank that
 * encode puts before a text is dropped. Bytes that are no UTF-8 are written as they are.
 *
 *     Decoder d = { .tokenizer = &t };
 *     for (...) decoder_put(&d, stdout, id);                  ids below the tokenizer's vocabulary
 *     decoder_end(&d, stdout);                                 what was held back; the next id begins a text                */
#include <stdio.h>
#include "text/tokenizer.h"

typedef struct {
    const Tokenizer *tokenizer;
    bool goes_on;                       /* the ids go on with a text: nothing is dropped */
    char held[4];                       /* the begin of a character */
    int  count;
} Decoder;

void decoder_put(Decoder *decoder, FILE *out, int32_t id);
void decoder_end(Decoder *decoder, FILE *out);
#endif
