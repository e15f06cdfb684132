#ifndef TENSOR_ONEBIT_H
#define TENSOR_ONEBIT_H
/* The few numbers of a logical tensor from which 1-bit LAMB's steps follow, in double, the same in all back
 * ends, on hosts and GPUs. */
#include <math.h>
#include <stdbool.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define ONEBIT_INLINE static inline __host__ __device__
#else
#define ONEBIT_INLINE static inline
#endif

typedef struct {
    double low, high;                  /* of trust ratios */
    double mean_beta;                  /* of their mean */
    double factor_low, factor_high;
    double factor_step;                /* the most that the factor changes in an update, as a share of it */
} OnebitBounds;

/* numbers[ONEBIT_MEAN], ... */
enum { ONEBIT_MEAN, ONEBIT_FACTOR, ONEBIT_SCALE, ONEBIT_NUMBERS };

/* A momentum that is 0 but for rounding, as that of the bias of keys, would have signs that differ between
 * layouts. Where the scale were not below this one it is 0, and the tensor's momentum becomes 0. */
static const double ONEBIT_SCALE_MOST = 1e6;

/* Of a tensor whose momentum has this root mean square, where that of a tensor is `mean` on average. */
ONEBIT_INLINE double onebit_scale_of(double mean, double size)
{
    return size * ONEBIT_SCALE_MOST > mean ? mean / size : 0;
}

ONEBIT_INLINE double onebit_unscale(double scale) { return scale > 0 ? 1 / scale : 0; }

/* squares: of the weights and the direction. */
ONEBIT_INLINE double onebit_ratio(const OnebitBounds *b, const double squares[2])
{
    double w = sqrt(squares[0]), u = sqrt(squares[1]);
    return w > 0 && u > 0 ? fmin(fmax(w / u, b->low), b->high) : 1;
}

ONEBIT_INLINE double onebit_mean(const OnebitBounds *b, double mean, double ratio)
{
    return ratio == 1 ? mean : b->mean_beta * mean + (1 - b->mean_beta) * ratio;
}

/* squares: of the direction without decay and with it. */
ONEBIT_INLINE double onebit_factor(const OnebitBounds *b, double before, const double squares[2],
                                   double most, bool decayed)
{
    double without = sqrt(squares[0]), with = sqrt(squares[1]), factor = most;
    double share = with > 0 ? fmin(1.0, without / with) : 1;
    if (decayed) factor = factor * share + 1 - share;
    factor = fmin(fmax(factor, b->factor_low), b->factor_high);
    return fmin(fmax(factor, before * (1 - b->factor_step)), before * (1 + b->factor_step));
}
#endif
