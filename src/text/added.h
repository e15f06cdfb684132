#ifndef TEXT_ADDED_H
#define TEXT_ADDED_H
/* Tokens looked for in a text before it is cut: the leftmost, and of those the longest. Special ones are no text and are
 * not among them.                                                                                                       */
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
} AddedToken;

typedef struct { AddedToken *token; int count, first[257]; } Added;   /* first: those that begin with a byte, once sorted */

Status added_add  (Added *a, AddedToken token);       /* copies token.text */
void   added_sort (Added *a);
void   added_close(Added *a);
/* The next in text[at .. bytes): NULL where there is none; what it takes is *from to *to */
const AddedToken *added_next(const Added *a, bool normalized, const uint8_t *text, int64_t bytes, int64_t at,
                             int64_t *from, int64_t *to);
#endif
