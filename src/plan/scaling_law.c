/* Fits by Levenberg-Marquardt from a grid of starts, with the weights of iteratively reweighted least squares
 * for Huber's loss. The logarithms of the coefficients are fitted, so that they stay above 0. x   ln of the
 * size over the geometric mean of all sizes, which makes the coefficients nearly independent p   what is
 * fitted: loss = exp(p[0] - exp(p[1]) x) + exp(p[2]); exp(p[1]) is the exponent */
#include "plan/scaling_law.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"

enum { N = SCALING_COEFFICIENTS, STEPS = 400 };
#define FARTHEST  0.05      /* mean deviation of ln(loss) above which runs have no law */
static const double pull = SCALING_HUBER / SCALING_SPREAD;          /* of the exponent's logarithm */
typedef struct { const ScalingPoint *point; int count; double middle; } Fit;

double scaling_law_at(const ScalingLaw *law, double size)
{
    return law->floor + pow(law->scale / size, law->exponent);
}

static double huber(double r)
{
    double d = SCALING_HUBER, a = fabs(r);
    return a <= d ? 0.5 * a * a : d * (a - 0.5 * d);
}

double scaling_law_cost(const ScalingLaw *law, const ScalingPoint *point, int count)
{
    double sum = 0;
    double off = pull * log(law->exponent / SCALING_EXPONENT);
    for (int i = 0; i < count; i++) sum += huber(log(scaling_law_at(law, point[i].size) / point[i].loss));
    return (sum + 0.5 * off * off) / count;
}

/* r = ln(loss of p / measured), and its derivatives by p. */
static double residual(double d[N], const Fit *fit, const double p[N], int i)
{
    double x = log(fit->point[i].size) - fit->middle;
    double exponent = exp(p[1]), power = exp(p[0] - exponent * x), level = exp(p[2]), loss = power + level;
    d[0] = power / loss;
    d[1] = -x * exponent * power / loss;
    d[2] = level / loss;
    return log(loss / fit->point[i].loss);
}

static double cost_of(const Fit *fit, const double p[N])
{
    double off = pull * (p[1] - log(SCALING_EXPONENT)), sum = 0.5 * off * off, d[N];
    for (int i = 0; i < fit->count; i++) sum += huber(residual(d, fit, p, i));
    return isfinite(sum) ? sum : INFINITY;
}

/* Solves h s = g by Gauss elimination; h is positive definite. */
static void solve(double s[N], double h[N][N], double g[N])
{
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++) {
            double f = h[j][i] / h[i][i];
            for (int k = i; k < N; k++) h[j][k] -= f * h[i][k];
            g[j] -= f * g[i];
        }
    for (int i = N - 1; i >= 0; i--) {
        s[i] = g[i];
        for (int k = i + 1; k < N; k++) s[i] -= h[i][k] * s[k];
        s[i] /= h[i][i];
    }
}

/* h = sum of w d dT, g = sum of w d r, where w makes the square of r the tangent of Huber's function. */
static void equations(double h[N][N], double g[N], const Fit *fit, const double p[N])
{
    double d[N];
    memset(h, 0, sizeof(double[N][N]));
    memset(g, 0, sizeof(double[N]));
    for (int i = 0; i < fit->count; i++) {
        double r = residual(d, fit, p, i), w = fabs(r) <= SCALING_HUBER ? 1 : SCALING_HUBER / fabs(r);
        for (int a = 0; a < N; a++) {
            g[a] += w * d[a] * r;
            for (int b = 0; b < N; b++) h[a][b] += w * d[a] * d[b];
        }
    }
    g[1] += pull * pull * (p[1] - log(SCALING_EXPONENT));
    h[1][1] += pull * pull;
}

/* From p downhill; returns the cost. */
static double descend(double p[N], const Fit *fit)
{
    double cost = cost_of(fit, p), damping = 1e-3;
    for (int step = 0; step < STEPS && damping < 1e12; step++) {
        double h[N][N], g[N], s[N], next[N];
        equations(h, g, fit, p);
        for (int a = 0; a < N; a++) h[a][a] = h[a][a] * (1 + damping) + 1e-14;
        solve(s, h, g);
        for (int a = 0; a < N; a++) next[a] = p[a] - s[a];
        double lower = cost_of(fit, next);
        if (!(lower <= cost)) {
            damping *= 4;
            continue;
        }
        bool still = cost - lower <= 1e-15 * cost && fabs(s[0]) + fabs(s[1]) + fabs(s[2]) < 1e-10;
        memcpy(p, next, sizeof next);
        cost = lower;
        damping = fmax(damping / 8, 1e-12);
        if (still) break;
    }
    return cost;
}

static double least_loss(const Fit *fit)
{
    double least = INFINITY;
    for (int i = 0; i < fit->count; i++) least = fmin(least, fit->point[i].loss);
    return least;
}

/* Where a descent begins: this exponent, this share of the least loss as the floor, and the scale that gives
 * the mean of the logarithms. */
static void start(double p[N], const Fit *fit, double exponent, double share)
{
    double level = share * least_loss(fit), sum = 0;
    for (int i = 0; i < fit->count; i++)
        sum += log(fit->point[i].loss - level) + exponent * (log(fit->point[i].size) - fit->middle);
    p[0] = sum / fit->count;
    p[1] = log(exponent);
    p[2] = log(level);
}

/* The best of all starts. */
static void search(double best[N], const Fit *fit)
{
    static const double exponents[] = { 0.05, 0.2, 0.5, 1, 2 }, shares[] = { 0.1, 0.5, 0.8, 0.95 };
    double least = INFINITY;
    for (int e = 0; e < 5; e++)
        for (int s = 0; s < 4; s++) {
            double p[N];
            start(p, fit, exponents[e], shares[s]);
            double cost = descend(p, fit);
            if (!(cost < least)) continue;
            least = cost;
            memcpy(best, p, sizeof p);
        }
    CHECK(isfinite(least), "a fit of %d runs from no start", fit->count);
}

/* ---- what no law can be fitted to ---- */

static int by_size(const void *a, const void *b)
{
    const ScalingPoint *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

/* Joins runs of one size into their mean loss; returns how many sizes there are. */
static int means(ScalingPoint *mean, const ScalingPoint *point, int count)
{
    int sizes = 0, runs = 0;
    memcpy(mean, point, (size_t)count * sizeof *point);
    qsort(mean, (size_t)count, sizeof *mean, by_size);
    for (int i = 0; i < count; i++) {
        bool same = sizes > 0 && mean[sizes - 1].size == mean[i].size;
        runs = same ? runs + 1 : 1;
        if (!same) mean[sizes++] = mean[i];
        else mean[sizes - 1].loss += (mean[i].loss - mean[sizes - 1].loss) / runs;
    }
    return sizes;
}

static Status points_check(const ScalingPoint *point, int count)
{
    ScalingPoint mean[SCALING_POINTS_MAX];
    if (count > SCALING_POINTS_MAX)
        return fail(BAD_OPTION, "a law of %d runs: at most %d are fitted", count, SCALING_POINTS_MAX);
    for (int i = 0; i < count; i++)
        if (!(point[i].size > 0 && isfinite(point[i].size) && point[i].loss > 0 && isfinite(point[i].loss)))
            return fail(BAD_OPTION,
                        "a run of size %g has the loss %g; a law is fitted to runs whose loss is a "
                        "number above 0",
                        point[i].size, point[i].loss);
    int sizes = means(mean, point, count);
    if (sizes < SCALING_COEFFICIENTS)
        return fail(BAD_OPTION,
                    "%d size%s: a law has three coefficients, so that it needs three sizes or more, four to "
                    "say how good it is",
                    sizes, sizes == 1 ? "" : "s");
    const ScalingPoint *small = mean, *large = &mean[sizes - 1];
    if (large->loss >= small->loss)
        return fail(BAD_OPTION,
                    "the loss does not fall with the size: %.4f at %.4g and %.4f at %.4g; larger models "
                    "need more tokens or a lower learning rate than these runs had",
                    small->loss, small->size, large->loss, large->size);
    return OK;
}

Status scaling_law_fit(ScalingLaw *law, const ScalingPoint *point, int count)
{
    double p[N] = { 0 }, away = 0;
    TRY(points_check(point, count));
    Fit fit = { .point = point, .count = count };
    for (int i = 0; i < count; i++) fit.middle += log(point[i].size) / count;
    search(p, &fit);
    *law = (ScalingLaw){ .floor = exp(p[2]),
                         .scale = exp(fit.middle + p[0] / exp(p[1])),
                         .exponent = exp(p[1]) };
    for (int i = 0; i < count; i++)
        away += fabs(log(scaling_law_at(law, point[i].size) / point[i].loss)) / count;
    if (away <= FARTHEST) return OK;
    return fail(
        BAD_OPTION,
        "the losses lie %.0f %% from the nearest law in the mean; a law needs runs that differ in the "
        "size alone, each with a learning rate at which it learns",
        100 * away);
}

/* ---- confidence ---- */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The middle 95 % of the values, which are sorted here. */
static ScalingRange range_of(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, by_value);
    return (ScalingRange){ value[(int)(0.025 * (count - 1))], value[(int)ceil(0.975 * (count - 1))] };
}

/* drawn: [4][draws] floors, scales, exponents, losses */
static void draw_all(ScalingConfidence *out, double *drawn, const ScalingLaw *law, const ScalingPoint *point,
                     const double *residuals, ScalingPoint *made, int count, double size, int draws,
                     uint64_t key)
{
    for (int d = 0; d < draws; d++) {
        ScalingLaw one;
        uint64_t first = (uint64_t)d * (uint64_t)(count + 1);
        for (int i = 0; i <= count; i++) {
            int pick = (int)(random_uniform(key, first + (uint64_t)i) * count);
            if (i < count)
                made[i] = (ScalingPoint){ point[i].size,
                                          scaling_law_at(law, point[i].size) * exp(residuals[pick]) };
            else made[i].loss = residuals[pick];
        }
        if (scaling_law_fit(&one, made, count) != OK) continue;
        drawn[out->fits] = one.floor;
        drawn[draws + out->fits] = one.scale;
        drawn[2 * draws + out->fits] = one.exponent;
        drawn[3 * draws + out->fits] = scaling_law_at(&one, size) * exp(made[count].loss);
        out->fits++;
    }
}

Status scaling_law_confidence(ScalingConfidence *out, const ScalingLaw *law, const ScalingPoint *point,
                              int count, double size, int draws, unsigned long seed)
{
    int fitted = SCALING_COEFFICIENTS;
    *out = (ScalingConfidence){ 0 };
    if (count <= fitted)
        return fail(
            BAD_OPTION,
            "%d runs fit %d coefficients exactly, so that nothing says how good the law is; add a size, "
            "or repeat the runs with other seeds (--seed 1,2)",
            count, fitted);
    double *drawn = malloc(((size_t)draws * 4 + (size_t)count) * sizeof *drawn);
    ScalingPoint *made = malloc((size_t)(count + 1) * sizeof *made);
    CHECK(drawn && made, "no memory for %d draws", draws);
    double *residuals = drawn + (size_t)draws * 4, enlarge = sqrt((double)count / (count - fitted)), mean = 0;
    for (int i = 0; i < count; i++) {
        residuals[i] = log(point[i].loss / scaling_law_at(law, point[i].size));
        mean += residuals[i] / count;
    }
    /* Huber's loss and the prior leave a mean, which every redrawn series would add to the law. */
    for (int i = 0; i < count; i++) residuals[i] = enlarge * (residuals[i] - mean);
    draw_all(out, drawn, law, point, residuals, made, count, size, draws, random_key(seed, "scaling law"));
    bool enough = out->fits > 0 && out->fits >= SCALING_FITS_LEAST * draws;
    ScalingRange *range[] = { &out->floor, &out->scale, &out->exponent, &out->loss };
    for (int i = 0; i < 4 && enough; i++) *range[i] = range_of(drawn + (size_t)i * (size_t)draws, out->fits);
    free(drawn);
    free(made);
    return enough ? OK
                  : fail(BAD_OPTION,
                         "%d of %d redrawn series have a law, less than %.0f %%, so that a range of these "
                         "alone would be too narrow: the runs scatter too much; further seeds or sizes make "
                         "the law known better",
                         out->fits, draws, 100 * SCALING_FITS_LEAST);
}
