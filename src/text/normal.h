#ifndef TEXT_NORMAL_H
#define TEXT_NORMAL_H
/* What is done to a text before it is cut. Broken UTF-8 passes as it is. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/words.h"

typedef enum {
    NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD,
    NORMAL_PREPEND,              /* `new` before a text that is not empty */
    NORMAL_PREPEND_FIRST,        /* before the first text only, unless it begins so */
    NORMAL_PREPEND_UNLESS,       /* unless the text begins so */
    NORMAL_REPLACE               /* every `old` by `new` */
} NormalKind;

enum { NORMAL_MOST = 8, NORMAL_TEXT = 32 };
typedef struct { NormalKind kind; uint8_t old[NORMAL_TEXT], new[NORMAL_TEXT]; int old_bytes, new_bytes; } NormalStep;
typedef struct { NormalStep step[NORMAL_MOST]; int steps; } Normal;
typedef struct { const uint8_t *text; int64_t bytes; } Chars;

/* *text becomes what it is after all steps, in the text buffers of words. first: it begins the document */
Status  normal_apply(const Normal *n, Chars *text, bool first, Words *words);
/* A text grows at most to bytes * widest + extra */
void    normal_growth(const Normal *n, int64_t *widest, int64_t *extra);
#endif
