#ifndef PLAN_SCALING_LAW_H
#define PLAN_SCALING_LAW_H
/* The scaling law of a series of finished runs: loss(size) = floor + (scale / size)^exponent, fitted as in
 * approach 3 of Hoffmann et al. (arXiv 2203.15556): the Huber loss of ln(predicted / measured). Three
 * coefficients of four or five runs are fragile: a run that is 1 % off changes the exponent twofold. So the
 * exponent is drawn to theirs, 0.34, as by a normal prior of its logarithm; a dozen runs outweigh it.
 * Functions of numbers alone: the size is that of the model in parameters, or anything else that grows. */
#include "base/status.h"

enum { SCALING_COEFFICIENTS = 3, SCALING_POINTS_MAX = 4096 };
typedef struct { double size, loss; } ScalingPoint;      /* of one run; several may have the same size */
typedef struct { double floor, scale, exponent; } ScalingLaw;
typedef struct { double low, high; } ScalingRange;

/* Deviations of ln(loss) up to this count squared, larger ones linearly, so that one run that went wrong does
 * not carry the law away. Hoffmann et al. have 1e-3 and hundreds of runs; with few runs it would leave some
 * of them without weight. */
#define SCALING_HUBER 0.01
/* The exponent that is expected, and the standard deviation of its logarithm, where that of ln(loss) is
 * SCALING_HUBER. */
#define SCALING_EXPONENT 0.34
#define SCALING_SPREAD   0.3

double scaling_law_at(const ScalingLaw *law, double size);
/* What the fit minimizes: the sum of Huber's function, half a square for small deviations, over the points,
 * and half of (SCALING_HUBER / SCALING_SPREAD x ln(exponent / SCALING_EXPONENT))^2; divided by the points. */
double scaling_law_cost(const ScalingLaw *law, const ScalingPoint *point, int count);
/* BAD_OPTION, with what would work: fewer than three sizes, a loss or size that is not above 0, losses that
 * do not fall with the size, or that lie more than 5 % from the best law in the mean. */
Status scaling_law_fit(ScalingLaw *law, const ScalingPoint *point, int count);

/* 95 % of `draws` fits to the fitted losses times exp of residuals drawn with replacement (residual
 * bootstrap), which are first centred, and enlarged by sqrt(count / (count - coefficients)), because a fit
 * makes them too small. The range is of the draws that have a law; the others would lie outside of it. */
typedef struct {
    ScalingRange floor, scale, exponent;
    ScalingRange loss;                    /* of a new run of the size that was asked for */
    int          fits;                    /* draws that have a law; known where the ranges are refused too */
} ScalingConfidence;
/* The share of the draws that must have a law. */
#define SCALING_FITS_LEAST 0.95
/* BAD_OPTION where as many runs as coefficients leave no residual (fits is 0), and where fewer draws have a
 * law than that share. The same seed draws the same residuals. */
Status scaling_law_confidence(ScalingConfidence *out, const ScalingLaw *law, const ScalingPoint *point,
                              int count, double size, int draws, unsigned long seed);
#endif
