#ifndef BASE_EXPONENTIAL_H
#define BASE_EXPONENTIAL_H
/* Exponential, logarithm and powers in double without a branch, so that a loop over them is vectorized, and
 * without the C library, so that every machine has the same bits. Infinities, NaN and subnormal numbers are
 * treated as the C library does. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ln x for a normal x > 0, within 2 units of the last place: x = 2^e m with m in [1 / sqrt 2, sqrt 2], and
 * ln m = 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.1716: the series of artanh. ln 2 is split, so that e
 * times its upper part is exact. */
static inline double natural_log_normal(double x)
{
    const double upper = 0x1.62e42fefap-1, lower = 0x1.cf79abc9e3b39p-40;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t above = (bits & 0xfffffffffffff) > 0x6a09e667f3bcd;         /* m above sqrt 2: halved */
    int32_t  e = (int32_t)(bits >> 52) - 1023 + (int32_t)above;
    bits = (bits & 0xfffffffffffff) | (1023 - above) << 52;
    double m, sum = 1 / 25.0;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), s2 = s * s;
    for (int k = 23; k >= 3; k -= 2) sum = sum * s2 + 1.0 / k;
    return (double)e * upper + (2 * s + (2 * s * s2 * sum + (double)e * lower));
}

/* ln x, within 2 units of the last place; -infinity at 0, NaN below */
static inline double natural_log(double x)
{
    double small = x < 0x1p-1022 ? 54 : 0, normal = x < 0x1p-1022 ? x * 0x1p54 : x;
    double log = natural_log_normal(normal) - small * 0x1.62e42fefa39efp-1;
    return x > 0 && x < INFINITY ? log : x > 0 ? x : x == 0 ? -INFINITY : (double)NAN;
}

/* e^x, within 2 units of the last place: e^x = 2^n e^r with an integer n and |r| <= ln(2) / 2, e^r by its
 * Taylor polynomial of degree 13. Adding 1.5 * 2^52 rounds to the nearest integer, ln 2 is split so that n
 * times its upper part is exact (Cody & Waite), and 2^n is applied in two halves, so that results may be
 * subnormal. */
static inline double natural_exp(double x)
{
    const double upper = 0x1.62e42fefap-1, lower = 0x1.cf79abc9e3b39p-40, round = 0x1.8p52;
    double clipped = x < -746 ? -746 : x > 710 ? 710 : x, shifted = clipped * 1.4426950408889634074 + round;
    double n = shifted - round, r = (clipped - n * upper) - n * lower, first, second;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);           /* the low bits are n */
    int32_t whole = (int32_t)(uint32_t)bits, half = whole / 2;
    uint64_t first_bits = (uint64_t)(half + 1023) << 52, second_bits = (uint64_t)(whole - half + 1023) << 52;
    memcpy(&first, &first_bits, sizeof first);
    memcpy(&second, &second_bits, sizeof second);
    double e = 1 / 6227020800.0;
    e = e * r + 1 / 479001600.0, e = e * r + 1 / 39916800.0, e = e * r + 1 / 3628800.0;
    e = e * r + 1 / 362880.0, e = e * r + 1 / 40320.0, e = e * r + 1 / 5040.0, e = e * r + 1 / 720.0;
    e = e * r + 1 / 120.0, e = e * r + 1 / 24.0, e = e * r + 1 / 6.0, e = e * r + 0.5;
    return (e * (r * r) + r + 1) * first * second;
}

/* x^y for x >= 0, within 2 |y ln x| + 2 units of the last place; 1 for y = 0 */
static inline double natural_power(double x, double y)
{
    return y == 0 ? 1 : natural_exp(y * natural_log(x));
}
#endif
