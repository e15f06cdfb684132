#ifndef TEXT_BPE_DECODE_CHAIN_H
#define TEXT_BPE_DECODE_CHAIN_H
/* The decoder of a tokenizer.json: a chain of steps from the text of a token to what is written for it.
 * The library decodes all tokens of a text together; here each token is decoded by itself, once, when the
 * tokenizer is opened. Steps that look at more than one token are refused by the reader, but for the place of
 * the token: whether it is the first of the text, or the last. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/pretokenize/pattern.h"
#include "text/tokenizer.h"

typedef enum {
    DECODE_JOIN,                        /* a blank between tokens: the library's way without a decoder. The
                                         * blank before the first is a prefix (TextPiece) */
    DECODE_BYTE_LEVEL,                  /* GPT-2's letters become bytes; a token with another character is
                                         * left as it is */
    DECODE_BYTE_FALLBACK,               /* a token <0x0A> becomes a byte */
    DECODE_METASPACE,                   /* `text` becomes a blank; in the first token, if `drops`, nothing */
    DECODE_WORD_PIECE,                  /* the prefix `text` goes, or a blank comes before it, unless it is
                                         * the first. cleanup: blanks before punctuation go */
    DECODE_SUFFIX,                      /* `text` becomes a blank; in the last token nothing */
    DECODE_STRIP,                       /* up to `start` and `stop` times the character `text` goes at the two
                                         * ends of the token */
    DECODE_REPLACE,                     /* each match of `pattern` becomes `text` */
    DECODE_LEAD                         /* one `text` goes at the beginning of the whole text: a prefix */
} DecodeKind;

enum { DECODE_STEPS_MAX = 16 };
typedef struct {
    DecodeKind kind;
    char    *text;                      /* owned */
    int64_t  bytes, start, stop;
    bool     drops, cleanup;
    Pattern  pattern;                   /* owned */
} DecodeStep;
/* joined: the steps so far make one text of all tokens */
typedef struct { DecodeStep step[DECODE_STEPS_MAX]; int steps; bool joined; } DecodeChain;

typedef struct { uint8_t *text; int64_t bytes, capacity; } DecodeText;
void   decode_chain_close(DecodeChain *chain);
/* Decodes *text, a token, in place. place: bits of PIECE_FIRST and PIECE_LAST. NO_MEMORY, or BAD_FILE where a
 * pattern takes too many steps */
Status decode_chain_apply(const DecodeChain *chain, DecodeText *text, int place);
/* The bits of the places that matter */
int    decode_chain_places(const DecodeChain *chain);
/* How many bytes at the beginning of a decoded token are dropped where it is the first with any text */
int64_t decode_chain_prefix(const DecodeChain *chain, const uint8_t *text, int64_t bytes);
#endif
