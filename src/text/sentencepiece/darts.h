#ifndef TEXT_SENTENCEPIECE_DARTS_H
#define TEXT_SENTENCEPIECE_DARTS_H
/* The double-array trie (Darts-clone) of a sentencepiece model's normalizer: little-endian words of 32 bits.
 * The low byte and bit 31 of a unit are its label, bit 8 says that a key ends here, whose value is the unit
 * at the offset, and bits 9 to 30 are that offset. Nothing in it is trusted: callers check each index. */
#include <stddef.h>
#include <stdint.h>

static inline uint32_t darts_unit(const uint8_t *data, uint32_t at)
{
    const uint8_t *u = data + 4 * (size_t)at;
    return u[0] | u[1] << 8 | u[2] << 16 | (uint32_t)u[3] << 24;
}
static inline uint32_t darts_offset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }
static inline uint32_t darts_label (uint32_t unit) { return unit & (1u << 31 | 0xFF); }
static inline uint32_t darts_value (uint32_t unit) { return unit & ~(1u << 31); }
static inline int      darts_is_key(uint32_t unit) { return (unit & 1u << 8) != 0; }
#endif
