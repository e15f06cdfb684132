/* Householder's reduction to a tridiagonal matrix, QR steps with Wilkinson's shift on that, and Householder's
 * decomposition (Golub & Van Loan, Matrix Computations, chapters 5 and 8).
 * n rows and columns */
#include "tensor/matrix/symmetric.h"
#include <float.h>
#include <math.h>
#include <string.h>
#include "base/clones.h"

enum { ROWS = 8, COLUMNS_AT_ONCE = 64, SWEEPS_MOST = 60 };         /* of a chunk; of an eigenvalue */

/* Four running sums, so that one addition does not wait for the one before. */
static double dot(const double *x, const double *y, int64_t n)
{
    double s[4] = { 0, 0, 0, 0 };
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) s[k] += x[i + k] * y[i + k];
    for (; i < n; i++) s[0] += x[i] * y[i];
    return s[0] + s[1] + (s[2] + s[3]);
}

/* y += factor x */
static void add(double *y, double factor, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += factor * x[i];
}

static void swap_rows(double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double kept = x[i];
        x[i] = y[i], y[i] = kept;
    }
}

/* Makes v of x [n] such that (1 - beta v vT) x = (alpha, 0, ...), in place. Returns beta; 0 where x is that
 * already. */
static double reflector(double *x, int64_t n, double *alpha)
{
    double below = dot(x + 1, x + 1, n - 1);
    *alpha = x[0];
    if (below == 0) return 0;
    double length = sqrt(x[0] * x[0] + below);
    *alpha = x[0] > 0 ? -length : length;
    x[0] -= *alpha;
    return 2 / (x[0] * x[0] + below);
}

/* ---- A = Q T QT ---- */
/* Rows and columns first .. n - 1 of a matrix [n, n], a vector, and a result: what a step of the team
 * takes */
typedef struct { double *a; const double *v, *w; double *out, beta; int64_t n, first; } Part;

static CLONES void part_times(void *context, int64_t begin, int64_t end)           /* out = beta A v */
{
    const Part *p = context;
    for (int64_t i = begin; i < end; i++)
        p->out[i] = p->beta * dot(p->a + (p->first + i) * p->n + p->first, p->v, p->n - p->first);
}

static CLONES void part_rank_two(void *context, int64_t begin, int64_t end)        /* A -= v wT + w vT */
{
    const Part *p = context;
    for (int64_t i = begin; i < end; i++) {
        double *row = p->a + (p->first + i) * p->n + p->first;
        for (int64_t j = 0; j < p->n - p->first; j++) row[j] -= p->v[i] * p->w[j] + p->w[i] * p->v[j];
    }
}

static CLONES void part_reflect(void *context, int64_t begin, int64_t end)         /* A -= beta (A v) vT */
{
    const Part *p = context;
    for (int64_t i = begin; i < end; i++) {
        double *row = p->a + (p->first + i) * p->n + p->first;
        add(row, -p->beta * dot(row, p->v, p->n - p->first), p->v, p->n - p->first);
    }
}

/* d, e: the diagonal of T and what is beside it. The reflectors are left in the rows of a, beside the
 * diagonal, their factors in beta. */
static void tridiagonal(Team *team, double *a, double *d, double *e, double *beta, double *w, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = n - k - 1;
        double *v = a + k * n + k + 1;
        d[k] = a[k * n + k], e[k] = 0, beta[k] = 0;
        if (rest == 0) break;
        beta[k] = reflector(v, rest, &e[k]);
        if (beta[k] == 0) continue;
        Part p = { .a = a, .v = v, .w = w, .out = w, .beta = beta[k], .n = n, .first = k + 1 };
        team_for(team, rest, ROWS, part_times, &p);
        add(w, -beta[k] / 2 * dot(w, v, rest), v, rest);
        team_for(team, rest, ROWS, part_rank_two, &p);
    }
}

/* q = QT, the product of the reflectors, last first */
static void reflectors_product(Team *team, double *q, const double *a, const double *beta, int64_t n)
{
    memset(q, 0, (size_t)(n * n) * sizeof *q);
    for (int64_t i = 0; i < n; i++) q[i * n + i] = 1;
    for (int64_t k = n - 2; k >= 0; k--) {
        Part p = { .a = q, .v = a + k * n + k + 1, .beta = beta[k], .n = n, .first = k + 1 };
        if (beta[k] != 0) team_for(team, n - k - 1, ROWS, part_reflect, &p);
    }
}

/* ---- T = ST diag S ---- */
/* Rotations of rows i, i + 1 for i = last - 1 down to first, each by (cosine, sine) */
typedef struct { double *x; const double *cosine, *sine; int64_t n, first, last; } Rotations;

static CLONES void rotate_columns(void *context, int64_t begin, int64_t end)
{
    const Rotations *r = context;
    for (int64_t i = r->last - 1; i >= r->first; i--) {
        double c = r->cosine[i], s = r->sine[i], *x = r->x + i * r->n, *y = x + r->n;
        for (int64_t j = begin; j < end; j++) {
            double low = y[j];
            y[j] = s * x[j] + c * low;
            x[j] = c * x[j] - s * low;
        }
    }
}

/* One QL step with Wilkinson's shift on rows first .. last of T. */
static void shifted_step(double *d, double *e, double *cosine, double *sine, int64_t first, int64_t last)
{
    double g = (d[first + 1] - d[first]) / (2 * e[first]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = d[last] - d[first] + e[first] / (g + copysign(r, g));
    for (int64_t i = last - 1; i >= first; i--) {
        double f = s * e[i], b = c * e[i];
        r = hypot(f, g);
        e[i + 1] = r;
        s = r == 0 ? 0 : f / r, c = r == 0 ? 1 : g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        cosine[i] = c, sine[i] = s;
    }
    d[first] -= p, e[first] = g, e[last] = 0;
}

/* Diagonalises T, and rotates the rows of x with it. */
static void diagonalise(Team *team, double *d, double *e, double *x, double *cosine, double *sine, int64_t n)
{
    double size = 0;
    for (int64_t i = 0; i < n; i++) size = fmax(size, fabs(d[i]) + fabs(e[i]));
    for (int64_t first = 0; first < n; first++)
        for (int sweep = 0;; sweep++) {
            int64_t last = first;
            while (last < n - 1 && fabs(e[last]) > DBL_EPSILON * size) last++;
            if (last == first) break;
            CHECK(sweep < SWEEPS_MOST, "an eigenvalue was not found in %d sweeps", SWEEPS_MOST);
            shifted_step(d, e, cosine, sine, first, last);
            Rotations r = { x, cosine, sine, n, first, last };
            team_for(team, n, COLUMNS_AT_ONCE, rotate_columns, &r);
        }
}

/* ---- a basis that depends on the space alone ---- */
/* Row 0 becomes the unit vector of the space with the largest element at a column, which is that of the
 * column where a unit vector can have the largest: the rows are reflected so that the others are 0 there. */
static void choose_row(double *x, double *v, int64_t rows, int64_t n)
{
    int64_t best = 0;
    double  most = -1, alpha;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += x[i * n + j] * x[i * n + j];
        if (sum > most * (1 + 1e-6)) most = sum, best = j;               /* of nearly equal ones the first */
    }
    for (int64_t i = 0; i < rows; i++) v[i] = x[i * n + best];
    double beta = reflector(v, rows, &alpha);
    for (int64_t j = 0; beta != 0 && j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) sum += v[i] * x[i * n + j];
        for (int64_t i = 0; i < rows; i++) x[i * n + j] -= beta * sum * v[i];
    }
    for (int64_t j = 0; alpha < 0 && j < n; j++) x[j] = -x[j];
}

/* Another orthonormal basis of the space of orthonormal rows. */
static void space_basis(double *x, double *v, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i + 1 < rows; i++) choose_row(x + i * n, v, rows - i, n);
}

/* The element of largest magnitude is positive. Those within roundings of it count as equal. */
static void sign_choose(double *x, int64_t n)
{
    double most = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) > most * (1 + 1e-9)) most = fabs(x[i]), at = i;
    if (x[at] > 0) return;
    for (int64_t i = 0; i < n; i++) x[i] = -x[i];
}

static void sort_falling(double *value, double *vector, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t most = i;
        for (int64_t k = i + 1; k < n; k++)
            if (value[k] > value[most]) most = k;
        if (most == i) continue;
        double kept = value[i];
        value[i] = value[most], value[most] = kept;
        swap_rows(vector + i * n, vector + most * n, n);
    }
}

void symmetric_vectors(Team *team, double *vector, double *value, double *work, int64_t n, double noise)
{
    double *e = work + n * n, *beta = e + n, *w = beta + n, *cosine = w + n, *sine = cosine + n;
    tridiagonal(team, work, value, e, beta, w, n);
    reflectors_product(team, vector, work, beta, n);
    diagonalise(team, value, e, vector, cosine, sine, n);
    sort_falling(value, vector, n);
    int64_t first = n, end = 0;
    double  near = noise * fmax(fabs(value[0]), fabs(value[n - 1]));
    for (int64_t i = n - 1; i >= 0; i--)
        if (fabs(value[i]) <= near) first = i, end = end > 0 ? end : i + 1;
    if (end > first) space_basis(vector + first * n, w, end - first, n);
    for (int64_t i = 0; i < n; i++) sign_choose(vector + i * n, n);
}

/* ---- orthonormal rows ---- */
typedef struct { double *x; const double *v; double beta; int64_t n, first, column; } RowReflection;

static CLONES void reflect_rows(void *context, int64_t begin, int64_t end)
{
    const RowReflection *r = context;
    for (int64_t i = begin; i < end; i++) {
        double *x = r->x + (r->first + i) * r->n + r->column;
        add(x, -r->beta * dot(x, r->v, r->n - r->column), r->v, r->n - r->column);
    }
}

/* y = L Q with L lower triangular: the rows are reflected one after the other, so that row i has nothing
 * behind column `taken`. The reflectors give Q's rows: those of the columns that a row took, in their
 * order, and then the others, which no row of y determines. */
void orthonormal_rows_of(Team *team, double *y, double *work, int64_t n, double noise)
{
    double *v = work, *beta = work + n * n, *sign = beta + n, most = 0, alpha;
    int64_t taken = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, dot(y + i * n, y + i * n, n));
    for (int64_t i = 0; i < n; i++) {
        double *x = y + i * n + taken;
        if (taken == n || !(dot(x, x, n - taken) > noise * noise * most)) continue;
        memcpy(v + taken * n, x, (size_t)(n - taken) * sizeof *v);
        beta[taken] = reflector(v + taken * n, n - taken, &alpha);
        sign[taken] = alpha < 0 ? -1 : 1;
        RowReflection r = { y, v + taken * n, beta[taken], n, i + 1, taken };
        team_for(team, n - i - 1, ROWS, reflect_rows, &r);
        taken++;
    }
    memset(y, 0, (size_t)(n * n) * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i * n + i] = i < taken ? sign[i] : 1;
    for (int64_t k = taken - 1; k >= 0; k--) {
        RowReflection r = { y, v + k * n, beta[k], n, 0, k };
        team_for(team, n, ROWS, reflect_rows, &r);
    }
    space_basis(y + taken * n, work, n - taken, n);
}
