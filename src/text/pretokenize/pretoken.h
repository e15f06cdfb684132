#ifndef TEXT_PRETOKENIZE_PRETOKEN_H
#define TEXT_PRETOKENIZE_PRETOKEN_H
/* Scanners that split a text into pretokens, the pieces within which byte-level BPE merges. Tokenizers define
 * the split by a regular expression; the well-known expressions have hand-written scanners here, which are
 * linear for every input: none backtracks further than one run of characters of a class.
 *
 *     for (int64_t at = 0; at < bytes; at += pretoken_next(PRETOKEN_GPT2, text + at, bytes - at)) ... */
#include <stdint.h>

typedef enum {
    PRETOKEN_GPT2,
    PRETOKEN_CL100K,        /* as tiktoken defines it: white space at the end of the text is one piece */
    PRETOKEN_LLAMA3,        /* cl100k's first form, without the rule for white space at the end */
    PRETOKEN_QWEN2,         /* llama3, but each digit is a piece */
    PRETOKEN_O200K,         /* words also end where lower case is followed by upper case */
    PRETOKEN_TEKKEN,        /* Mistral's: o200k without contractions, and each digit is a piece */
    PRETOKEN_DEEPSEEK,      /* DeepSeek-V3's last step, for what remains between numbers and Chinese or
                             * Japanese text */
    PRETOKEN_NUMBERS,       /* DeepSeek-V3's first step: numbers in groups of three digits, and the text
                             * between them */
    PRETOKEN_CLIP,          /* CLIP's expression drops white space; here it is a piece, which the caller
                             * drops */
    PRETOKEN_BLOOM,
    PRETOKEN_KINDS
} PretokenKind;

/* Length in bytes, >= 1, of the first piece of text[0 .. bytes), bytes >= 1. */
int64_t pretoken_next(PretokenKind kind, const uint8_t *text, int64_t bytes);
/* The length of the contraction ('s 't 'm 'd 're 've 'll) that text begins with, or 0. Three bytes may be
 * read. */
int pretoken_contraction(const uint8_t *text);
/* An expression that splits as the scanner does, without possessive quantifiers, which Oniguruma reads
 * otherwise. NULL: there is none. */
const char *pretoken_pattern(PretokenKind kind);
/* The scanner that splits as this regular expression does, or PRETOKEN_KINDS where there is none. */
PretokenKind pretoken_of_pattern(const char *pattern);

/* Whether the expression contains `[^\r\n\p{L}\p{N}]?\p{L}+` or ` ?\p{L}+`: there an optional space followed
 * by letters is exactly one piece, so a caller may find its end without the scanner. */
static inline int pretoken_has_plain_words(PretokenKind kind) { return kind < PRETOKEN_O200K; }
#endif
