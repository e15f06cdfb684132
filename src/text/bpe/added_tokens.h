#ifndef TEXT_BPE_ADDED_TOKENS_H
#define TEXT_BPE_ADDED_TOKENS_H
/* Tokens looked for in a text before it is cut: the leftmost, and of those the longest, as Hugging Face's library does it.
 * What is found and does not count (a special one where specials are text, one within a word) is text to its end.      */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct {
    uint8_t *text;
    int64_t  bytes;
    int32_t  id;
    bool     strip_left, strip_right;       /* it takes the white space beside it */
    bool     single;                        /* not within a word */
    bool     normalized;                    /* looked for after normalizers */
    bool     special;                       /* looked for where somebody asks for it, else text */
} AddedToken;

typedef struct { AddedToken *token; int count, specials, first[257]; } AddedTokens;   /* first: those that begin with a byte, once sorted */
typedef struct { bool normalized, specials; } AddedTokensKind;                       /* which are looked for */
/* Of a walk over a text: a token takes from .. to, and what is between the `to` before and `from` is text, if it is any. */
typedef struct { int64_t from, to, searched, white; } AddedMatch;                /* white: to there, white space was taken */

Status added_add  (AddedTokens *a, AddedToken token);       /* copies token.text */
Status added_rewrite(AddedToken *token, const uint8_t *text, int64_t bytes);     /* before added_sort; bytes 0: is never found */
void   added_sort (AddedTokens *a);
void   added_close(AddedTokens *a);
/* The next one; NULL where there is none. *match: all 0 at first, then as it was left */
const AddedToken *added_next(const AddedTokens *a, AddedTokensKind kind, const uint8_t *text, int64_t bytes, AddedMatch *match);
#endif
