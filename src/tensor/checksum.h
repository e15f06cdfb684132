#ifndef TENSOR_CHECKSUM_H
#define TENSOR_CHECKSUM_H
/* The operation checksum, for hosts and GPUs: the sum over words of 8 bytes of a one-to-one mix of each with
 * its place, so that threads may add in any order, and a change within one word always changes the sum. */
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define CHECKSUM static inline __host__ __device__
#else
#define CHECKSUM static inline
#endif

/* Bits of a checksum: whole numbers below 2^24 are exact in fp32. */
enum { CHECKSUM_BITS = 24, CHECKSUM_WORD = 8 };

/* Word i of `bytes` bytes, the last one filled up with zeros. */
CHECKSUM uint64_t checksum_word(const char *x, uint64_t i, uint64_t bytes)
{
    const char *at = x + i * CHECKSUM_WORD;
    uint64_t word = 0, left = bytes - i * CHECKSUM_WORD;
    if (left < CHECKSUM_WORD) memcpy(&word, at, left);
    else if ((uintptr_t)x % CHECKSUM_WORD) memcpy(&word, at, CHECKSUM_WORD);
    else memcpy(&word, __builtin_assume_aligned(at, CHECKSUM_WORD), CHECKSUM_WORD);
    word ^= (i + 1) * 0x9e3779b97f4a7c15u;
    word  = (word ^ word >> 32) * 0xd6e8feb86659fd93u;
    return word ^ word >> 32;
}

CHECKSUM double checksum_number(uint64_t sum) { return (double)(sum >> (64 - CHECKSUM_BITS)); }
#endif
