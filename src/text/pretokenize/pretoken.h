#ifndef TEXT_PRETOKENIZE_PRETOKEN_H
#define TEXT_PRETOKENIZE_PRETOKEN_H
/* Text into the pieces within which a byte-level BPE merges. The patterns of the well-known tokenizers have scanners of
 * their own, which walk once over the text and never back more than a run: linear for any input.
 *
 *     for (int64_t at = 0; at < bytes; at += pretoken_next(PRETOKEN_GPT2, text + at, bytes - at)) ...                       */
#include <stdint.h>

typedef enum {
    PRETOKEN_GPT2,
    PRETOKEN_CL100K,           /* as tiktoken has it: white space at the very end is one piece */
    PRETOKEN_LLAMA3,           /* as cl100k was written first: without that */
    PRETOKEN_QWEN2,            /* llama3, each digit by itself */
    PRETOKEN_O200K,            /* words end where lower case turns to upper */
    PRETOKEN_TEKKEN,           /* Mistral's: o200k without short forms, each digit by itself */
    PRETOKEN_DEEPSEEK,         /* DeepSeek-V3's for what is left between numbers and Chinese or Japanese characters */
    PRETOKEN_NUMBERS,          /* numbers by three and what is between them: DeepSeek-V3's first step */
    PRETOKEN_CLIP,             /* white space, which it leaves out, is a piece here */
    PRETOKEN_BLOOM,
    PRETOKEN_KINDS
} PretokenKind;

/* Length of the first piece of text[0 .. bytes), bytes >= 1 */
int64_t pretoken_next(PretokenKind kind, const uint8_t *text, int64_t bytes);
/* 's 't 'm 'd 're 've 'll at the beginning of text, of which 3 bytes may be read: bytes, or 0 */
int pretoken_contraction(const uint8_t *text);
/* The scanner that cuts as this regular expression does; PRETOKEN_KINDS where there is none */
PretokenKind pretoken_of_pattern(const char *pattern);

/* Those that take `[^\r\n\p{L}\p{N}]?\p{L}+` or ` ?\p{L}+`: a blank and letters, or letters, are one piece there. */
static inline int pretoken_has_plain_words(PretokenKind kind) { return kind < PRETOKEN_O200K; }
#endif
