#ifndef BASE_SINE_H
#define BASE_SINE_H
/* Sine and cosine in double without a branch, so that a loop over them is vectorized, and without the C
 * library, so that every machine has the same bits: within 2 units of the last place for |x| up to 2^20, and
 * within 2^-53 |x| beyond. */
#include <stdint.h>

typedef struct { double sine, cosine; } SineCosine;

/* x = quarter pi / 2 + y with |y| <= pi / 4, and then the series of both. pi / 2 is split in three, so that
 * what is subtracted first is exact. Adding 1.5 * 2^52 rounds to the nearest integer. */
static inline SineCosine sine_cosine(double x)
{
    const double upper = 0x1.921fb544p+0, middle = 0x1.0b4611a6p-34, lower = 0x1.3198a2e037073p-69;
    const double round = 0x1.8p52;
    double shifted = x * 0.63661977236758134308 + round, quarter = shifted - round;
    double y = ((x - quarter * upper) - quarter * middle) - quarter * lower, y2 = y * y;
    double c = 1 / 20922789888000.0, s = 1 / 355687428096000.0;
    int64_t turn = (int64_t)(int32_t)quarter;
    c = c * y2 - 1 / 87178291200.0, c = c * y2 + 1 / 479001600.0, c = c * y2 - 1 / 3628800.0;
    c = c * y2 + 1 / 40320.0, c = c * y2 - 1 / 720.0, c = c * y2 + 1 / 24.0;
    c = 1 - (0.5 * y2 - y2 * y2 * c);
    s = s * y2 - 1 / 1307674368000.0, s = s * y2 + 1 / 6227020800.0, s = s * y2 - 1 / 39916800.0;
    s = s * y2 + 1 / 362880.0, s = s * y2 - 1 / 5040.0, s = s * y2 + 1 / 120.0, s = s * y2 - 1 / 6.0;
    s = y + y * y2 * s;
    double sine = turn & 1 ? c : s, cosine = turn & 1 ? s : c;
    return (SineCosine){ turn & 2 ? -sine : sine, (turn + 1) & 2 ? -cosine : cosine };
}
#endif
