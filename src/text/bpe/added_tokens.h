#ifndef TEXT_BPE_ADDED_TOKENS_H
#define TEXT_BPE_ADDED_TOKENS_H
/* Added tokens: texts such as <|endoftext|> that become one id before the rest of the text is pretokenized.
 * The leftmost match wins, and of those at one position the longest, as in Hugging Face's library. A match
 * that does not count (a special token where specials are text, a single word within a word) is plain text up
 * to its end: the search continues after it, not within it. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct {
    uint8_t *text;                          /* belongs to the AddedTokens once added */
    int64_t  bytes;                         /* 0: is never found */
    int32_t  id;
    bool     strip_left, strip_right;       /* the token includes the white space on that side */
    bool     single;                        /* is found only where no word character is next to it */
    bool     normalized;                    /* is searched for after the normalizer, else before it */
    bool     rewritten;                     /* the normalizer has changed `text` */
    bool     special;                       /* is found only where the caller parses specials, else it is
                                             * text */
} AddedToken;

typedef struct {
    AddedToken *token;
    int count, room, specials;              /* specials: how many of them are special */
    int first[257];                         /* after added_sort: those beginning with byte b are first[b]
                                             * .. first[b + 1] */
} AddedTokens;
typedef struct { bool normalized, specials; } AddedTokensKind;      /* which tokens are searched for */
/* The state of a search through a text: the token found covers from .. to, and the text between the previous
 * `to` and `from` belongs to no token. from >= to: white space, all of which an earlier token included; the
 * token gives no id. */
typedef struct {
    int64_t from, to;
    int64_t searched;                       /* where the search continues */
    int64_t white;                          /* the end of white space that an earlier token included */
} AddedMatch;

Status added_add  (AddedTokens *a, AddedToken token);       /* copies token.text; NO_MEMORY */
/* Replaces the text of a token, before added_sort; NO_MEMORY */
Status added_rewrite(AddedToken *token, const uint8_t *text, int64_t bytes);
void   added_sort (AddedTokens *a);                         /* required before added_next */
void   added_limit(AddedTokens *a, int32_t ids);            /* drops those with higher ids, and sorts */
void   added_close(AddedTokens *a);
/* The next token, or NULL where there is none. *match is all 0 for the first call, then as the last call left
 * it. A whole text takes time linear in it, times the tokens that share a first byte. */
const AddedToken *added_next(const AddedTokens *a, AddedTokensKind kind, const uint8_t *text, int64_t bytes,
                             AddedMatch *match);
#endif
