#ifndef BASE_INTEGER_H
#define BASE_INTEGER_H
#include <stdint.h>

static inline int64_t least  (int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }
/* a / b rounded up; a not negative, b positive */
static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The greatest common divisor of two positive numbers. */
static inline int64_t common_divisor(int64_t a, int64_t b)
{
    while (b > 0) { int64_t rest = a % b; a = b; b = rest; }
    return a;
}
#endif
