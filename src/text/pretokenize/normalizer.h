#ifndef TEXT_PRETOKENIZE_NORMALIZER_H
#define TEXT_PRETOKENIZE_NORMALIZER_H
/* The normalizer of a tokenizer: rewrites a text before it is pretokenized, by the steps that a
 * tokenizer.json lists. Bytes that are not valid UTF-8 pass unchanged. Time and memory are linear in the text
 * for every input. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "text/pretokenize/pattern.h"

typedef enum {
    NORMALIZER_NFC, NORMALIZER_NFD, NORMALIZER_NFKC, NORMALIZER_NFKD,      /* Unicode Standard Annex 15 */
    NORMALIZER_PREPEND,              /* `new` before a text that is not empty */
    NORMALIZER_PREPEND_FIRST,        /* the same, but only before the first text, and not where it begins
                                      * with `new` */
    NORMALIZER_PREPEND_UNLESS,       /* the same before any text that does not begin with `new` */
    NORMALIZER_REPLACE,              /* every `old` by `new` */
    NORMALIZER_REPLACE_MATCHES,      /* every match of `pattern` by `new` */
    NORMALIZER_STRIP,                /* drops white space on the sides that `left` and `right` name */
    NORMALIZER_LOWERCASE,
    NORMALIZER_STRIP_MARKS,          /* drops marks (category M) */
    NORMALIZER_STRIP_NONSPACING,     /* drops category Mn */
    NORMALIZER_CLEAN,                /* drops control characters, and writes white space as blanks */
    NORMALIZER_SPACE_CHINESE,        /* a blank on either side of each ideograph */
    NORMALIZER_NMT,                  /* as sentencepiece's nmt: drops ASCII's control characters, and writes
                                      * white space and what looks like it as blanks */
    NORMALIZER_LETTERS,              /* each byte as GPT-2's letter for it (text/bpe/vocab.h) */
    NORMALIZER_PRECOMPILED           /* the rules of a sentencepiece model, `old` */
} NormalizerKind;

enum { NORMALIZER_STEPS_MAX = 32 };
/* What is allocated belongs to the step; normalizer_step_close frees it. */
typedef struct {
    NormalizerKind kind;
    const uint8_t *old, *new;           /* without a terminating zero; NULL where there is none. In one
                                         * allocation, `owned` */
    int     old_bytes, new_bytes;
    void   *owned;
    Pattern pattern;
    bool    left, right;
    bool    library;                    /* of the forms: by the tables of Hugging Face's library, which are
                                         * older (text/pretokenize/characters.h) */
} NormalizerStep;
typedef struct { NormalizerStep step[NORMALIZER_STEPS_MAX]; int steps; } Normalizer;

/* A text that belongs to somebody else. first: this many bytes at its beginning stand for the first character
 * of the document; 0: the text begins elsewhere in it. */
typedef struct { const uint8_t *text; int64_t bytes, first; } Chars;

/* What the steps write into, by turns: a step reads one buffer and writes the other. They start all zero,
 * grow to the longest text and are reused. One pair per thread. */
typedef struct { uint8_t *data; int64_t capacity; } NormalizerBuffer;      /* capacity: bytes */
typedef struct { NormalizerBuffer text[2]; struct RegexSpace *regex; } NormalizerBuffers;

/* Copies old and new. NO_MEMORY */
Status  normalizer_step_make (NormalizerStep *step, NormalizerKind kind, const char *old, int64_t old_bytes,
                              const char *new, int64_t new_bytes);
void    normalizer_step_close(NormalizerStep *step);
/* Replaces *text by the text after one step: a part of the original, or the content of `out`. */
Status  normalizer_step_apply(const NormalizerStep *step, NormalizerBuffer *out, struct RegexSpace **regex,
                              Chars *text);
/* Replaces *text by the text after all steps, which is a part of the original or is in one of the buffers,
 * until their next use. Fails with NO_MEMORY, or with BAD_FILE where a regular expression takes too many
 * steps or the text becomes more than 64 times longer. */
Status  normalizer_apply(const Normalizer *n, Chars *text, NormalizerBuffers *buffers);
void    normalizer_close(Normalizer *n);
void    normalizer_buffers_close(NormalizerBuffers *buffers);
/* A bound of the output: at most bytes * ratio + extra bytes. */
void    normalizer_growth(const Normalizer *n, int64_t *ratio, int64_t *extra);

/* The rules of a sentencepiece model as the step Precompiled applies them (text/pretokenize/precompiled.c) */
Status  precompiled_check(const uint8_t *rules, int64_t bytes);       /* BAD_FILE: they are damaged */
Status  precompiled_apply(const NormalizerStep *step, NormalizerBuffer *out, Chars *text);
#endif
