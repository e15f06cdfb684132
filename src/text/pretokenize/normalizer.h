#ifndef TEXT_PRETOKENIZE_NORMALIZER_H
#define TEXT_PRETOKENIZE_NORMALIZER_H
/* What is done to a text before it is cut. Broken UTF-8 passes as it is. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef enum {
    NORMALIZER_NFC, NORMALIZER_NFD, NORMALIZER_NFKC, NORMALIZER_NFKD,
    NORMALIZER_PREPEND,              /* `new` before a text that is not empty */
    NORMALIZER_PREPEND_FIRST,        /* before the first text only, unless it begins so */
    NORMALIZER_PREPEND_UNLESS,       /* unless the text begins so */
    NORMALIZER_REPLACE               /* every `old` by `new` */
} NormalizerKind;

enum { NORMALIZER_STEPS_MAX = 8, NORMALIZER_TEXT_MAX = 32 };
typedef struct { NormalizerKind kind; uint8_t old[NORMALIZER_TEXT_MAX], new[NORMALIZER_TEXT_MAX]; int old_bytes, new_bytes; } NormalizerStep;
typedef struct { NormalizerStep step[NORMALIZER_STEPS_MAX]; int steps; } Normalizer;
typedef struct { const uint8_t *text; int64_t bytes; } Chars;

typedef struct { uint8_t *data; int64_t capacity; } NormalizerBuffer;
typedef struct { NormalizerBuffer text[2]; } NormalizerBuffers;

/* *text becomes what it is after all steps, in the text buffers of words. first: it begins the document */
Status  normalizer_apply(const Normalizer *n, Chars *text, bool first, NormalizerBuffers *buffers);
void    normalizer_buffers_close(NormalizerBuffers *buffers);
/* A text grows at most to bytes * widest + extra */
void    normalizer_growth(const Normalizer *n, int64_t *widest, int64_t *extra);
#endif
