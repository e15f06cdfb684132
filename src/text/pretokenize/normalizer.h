#ifndef TEXT_PRETOKENIZE_NORMALIZER_H
#define TEXT_PRETOKENIZE_NORMALIZER_H
/* The normalizer of a tokenizer: rewrites a text before it is pretokenized, by the steps that a
 * tokenizer.json lists. Bytes that are not valid UTF-8 pass unchanged. Time and memory are linear in the text
 * for every input. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef enum {
    NORMALIZER_NFC, NORMALIZER_NFD, NORMALIZER_NFKC, NORMALIZER_NFKD,      /* Unicode Standard Annex 15 */
    NORMALIZER_PREPEND,              /* `new` before a text that is not empty */
    NORMALIZER_PREPEND_FIRST,        /* the same, but only before the first text, and not where it begins
                                      * with `new` */
    NORMALIZER_PREPEND_UNLESS,       /* the same before any text that does not begin with `new` */
    NORMALIZER_REPLACE               /* every `old` by `new` */
} NormalizerKind;

enum { NORMALIZER_STEPS_MAX = 8, NORMALIZER_TEXT_MAX = 32 };     /* bytes of `old` and of `new` */
typedef struct {
    NormalizerKind kind;
    uint8_t old[NORMALIZER_TEXT_MAX], new[NORMALIZER_TEXT_MAX];     /* without a terminating zero */
    int     old_bytes, new_bytes;
} NormalizerStep;
typedef struct { NormalizerStep step[NORMALIZER_STEPS_MAX]; int steps; } Normalizer;
typedef struct { const uint8_t *text; int64_t bytes; } Chars;       /* a text that belongs to somebody else */

/* What the steps write into, by turns: a step reads one buffer and writes the other. They start all zero,
 * grow to the longest text and are reused. One pair per thread. */
typedef struct { uint8_t *data; int64_t capacity; } NormalizerBuffer;      /* capacity: bytes */
typedef struct { NormalizerBuffer text[2]; } NormalizerBuffers;

/* Replaces *text by the text after all steps, which is the original or is in one of the buffers, until their
 * next use. first: the text begins the document. Fails with NO_MEMORY only. */
Status  normalizer_apply(const Normalizer *n, Chars *text, bool first, NormalizerBuffers *buffers);
void    normalizer_buffers_close(NormalizerBuffers *buffers);
/* A bound of the output: at most bytes * ratio + extra bytes. */
void    normalizer_growth(const Normalizer *n, int64_t *ratio, int64_t *extra);
#endif
