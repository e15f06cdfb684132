#ifndef BASE_DIVISOR_H
#define BASE_DIVISOR_H
#include <stdint.h>

/* The greatest common divisor of two positive numbers. */
static inline int64_t common_divisor(int64_t a, int64_t b)
{
    while (b > 0) { int64_t rest = a % b; a = b; b = rest; }
    return a;
}
#endif
