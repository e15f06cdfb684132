#ifndef TEXT_PRETOKENIZE_PRETOKEN_GPT2_H
#define TEXT_PRETOKENIZE_PRETOKEN_GPT2_H
/* Where GPT-2's pieces begin, 64 bytes at a time: the class of each byte is a bit, and the pattern is algebra on those bits,
 * so no branch depends on the text. What other scanners do piece by piece is in text/pretokenize/pretoken.h.                            */
#include <stdint.h>

enum { GPT2_BLOCK_BYTES = 64, GPT2_STARTS_BITS = 62, GPT2_READ_BYTES = 80 };

/* text begins a piece, and STARTS_READ of its `bytes` may be read. Bit i < STARTS_SEEN: a piece begins at text[i]; the others are 0 */
uint64_t pretoken_gpt2_starts(const uint8_t *text, int64_t bytes);
#endif
