#ifndef TEXT_PRETOKENIZE_PRETOKEN_GPT2_H
#define TEXT_PRETOKENIZE_PRETOKEN_GPT2_H
/* GPT-2's pretokenizer, 64 bytes at a time: the class of each byte becomes a bit, and the regular expression
 * becomes bitwise operations on these masks, so that no branch depends on ordinary text. It gives the same
 * pieces as pretoken_next with PRETOKEN_GPT2 (text/pretokenize/pretoken.h), which works piece by piece. */
#include <stdint.h>

/* Whether a piece begins at a byte depends on up to two bytes after it, so of 64 bytes only the first 62 are
 * decided. A contraction or character at the end of the block reads further, up to GPT2_READ_BYTES. */
enum { GPT2_BLOCK_BYTES = 64, GPT2_STARTS_BITS = 62, GPT2_READ_BYTES = 80 };

/* text: a piece begins at its first byte, and bytes >= GPT2_READ_BYTES. Bit i < GPT2_STARTS_BITS of the
 * result: a piece begins at text[i]; higher bits are 0. */
uint64_t pretoken_gpt2_starts(const uint8_t *text, int64_t bytes);
#endif
