#ifndef SERVE_SERVED_TEXT_H
#define SERVE_SERVED_TEXT_H
/* One text while the engine makes it: its bytes, where a stop word ends it, and how much of it may be shown.
 * A character is shown once its last byte has come, and what may be the beginning of a stop word once it is
 * not. */
#include <stdio.h>
#include "serve/completion_request.h"
#include "text/decoder.h"

/* begin, end: its bytes in the text; a token that ends within a character has none until that is whole.
 * scored: it has a log-probability */
typedef struct { int32_t id; float logprob; int alternatives; int64_t begin, end; bool scored; } ServedToken;

typedef enum { TEXT_RUNS, TEXT_STOP, TEXT_LENGTH } TextFinish;

typedef struct {
    const Tokenizer *tokenizer;
    const StopWord  *stop;                 /* [stops], borrowed */
    int              stops, alternatives;  /* alternatives: of a token at most; -1: tokens are not kept */
    Decoder          decoder;
    FILE            *memory;               /* writes raw */
    char            *raw;                  /* [raw_bytes]; bytes that are not UTF-8 are among them */
    size_t           raw_bytes;
    int64_t          shown, taken;         /* bytes that may be shown; of these, given out */
    int64_t          drawn;                /* tokens of the engine */
    ServedToken     *token;                /* [tokens], owned */
    int32_t         *alternative_id;       /* [tokens, alternatives], owned */
    float           *alternative_logprob;
    int64_t          room, id_room, logprob_room;       /* of the three arrays above */
    int64_t          tokens, tokens_taken;
    TextFinish       finish;
} ServedText;

/* echoed: where the prompt is the beginning of the text, with its tokens, else NULL; it can be shown at once,
 * its tokens once they are scored. stop, alternatives: as in ServedText. NO_MEMORY. Close it after a failure
 * too. */
Status served_text_open (ServedText *text, const Tokenizer *tokenizer, const StopWord *stop, int stops,
                         int alternatives, const ServedPrompt *echoed);
/* The log-probabilities of token `position` of the prompt; the first one has none. */
void   served_text_score(ServedText *text, int64_t position, const GeneratedToken *token);
void   served_text_close(ServedText *text);
/* Takes a token. A stop word ends the text before it, with TEXT_STOP: no token may follow. */
Status served_text_put  (ServedText *text, const GeneratedToken *token);
/* The engine gives no more tokens: all is shown. finish: where no stop word has ended it */
Status served_text_end  (ServedText *text, TextFinish finish);
/* The tokens that belong to the bytes before `shown`, from tokens_taken on: the index after the last. */
int64_t served_text_tokens(const ServedText *text);
#endif
