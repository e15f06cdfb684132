#ifndef TEXT_STARTS_H
#define TEXT_STARTS_H
/* Where GPT-2's pieces begin, 64 bytes at a time: the class of each byte is a bit, and the pattern is algebra on those bits,
 * so no branch depends on the text. What other scanners do piece by piece is in text/split.h.                            */
#include <stdint.h>

enum { STARTS_BLOCK = 64, STARTS_SEEN = 62, STARTS_READ = 80 };

/* text begins a piece, and STARTS_READ of its `bytes` may be read. Bit i < STARTS_SEEN: a piece begins at text[i]; the others are 0 */
uint64_t starts_gpt2(const uint8_t *text, int64_t bytes);
#endif
