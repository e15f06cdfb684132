#ifndef TEXT_SPLIT_H
#define TEXT_SPLIT_H
/* Text into the pieces within which a byte-level BPE merges. The patterns of the well-known tokenizers have scanners of
 * their own, which walk once over the text and never back more than a run: linear for any input.
 *
 *     for (int64_t at = 0; at < bytes; at += split_next(SPLIT_GPT2, text + at, bytes - at)) ...                       */
#include <stdint.h>

typedef enum {
    SPLIT_GPT2,
    SPLIT_CL100K,           /* as tiktoken has it: white space at the very end is one piece */
    SPLIT_LLAMA3,           /* as cl100k was written first: without that */
    SPLIT_QWEN2,            /* llama3, each digit by itself */
    SPLIT_O200K,            /* words end where lower case turns to upper */
    SPLITS
} SplitKind;

/* Length of the first piece of text[0 .. bytes), bytes >= 1 */
int64_t split_next(SplitKind kind, const uint8_t *text, int64_t bytes);
/* 's 't 'm 'd 're 've 'll at the beginning of text, of which 3 bytes may be read: bytes, or 0 */
int split_short_form(const uint8_t *text);
/* The scanner that cuts as this regular expression does; SPLITS where there is none */
SplitKind split_known(const char *pattern);

/* All but o200k take `[^\r\n\p{L}\p{N}]?\p{L}+` or ` ?\p{L}+`: a blank and letters, or letters, are one piece there. */
static inline int split_takes_words(SplitKind kind) { return kind != SPLIT_O200K; }
#endif
