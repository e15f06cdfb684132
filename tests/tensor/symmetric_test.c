/* Eigenvectors, orthonormal rows and the tables of 8-bit codes: what they promise of any matrix, and the bits of
 * tests/golden/optimizers/dynamic_map.json, which are bitsandbytes' (tests/oracles/optimizer_goldens.py). */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "tensor/dynamic_code.h"
#include "tensor/matrix/symmetric.h"
#include <cmocka.h>                     /* last: it has a macro called fail */

enum { SIDE = 90 };

/* A NaN is the largest. */
static double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }

static Team *team_of(int threads)
{
    Team *team;
    assert_int_equal(team_open(&team, threads), OK);
    return team;
}

/* The sum of `rank` products of random vectors, of which `scale` makes the first ones larger; rounded: each element is off by up to
 * that share. */
static void symmetric_make(double *x, int64_t n, int64_t rank, double scale, double off)
{
    double *row = malloc((size_t)n * sizeof *row), *noise = malloc((size_t)n * sizeof *noise);
    memset(x, 0, (size_t)(n * n) * sizeof *x);
    for (int64_t k = 0; k < rank; k++) {
        random_normals(row, 3, (uint64_t)k * 1000, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) x[i * n + j] += row[i] * row[j] * pow(scale, (double)k);
    }
    for (int64_t i = 0; i < n; i++) {
        random_normals(noise, 4, (uint64_t)i * 1000, n);
        for (int64_t j = 0; j <= i; j++) x[i * n + j] = x[j * n + i] = x[i * n + j] * (1 + off * noise[j]);
    }
    free(row);
    free(noise);
}

static double orthonormal_off(const double *v, int64_t n)
{
    double off = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double sum = i == k ? -1 : 0;
            for (int64_t j = 0; j < n; j++) sum += v[i * n + j] * v[k * n + j];
            off = larger(off, fabs(sum));
        }
    return off;
}

/* |x - VT diag V| relative to the largest value */
static double rebuilt_off(const double *x, const double *v, const double *value, int64_t n)
{
    double off = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = -x[i * n + j];
            for (int64_t k = 0; k < n; k++) sum += v[k * n + i] * value[k] * v[k * n + j];
            off = larger(off, fabs(sum));
        }
    return off / fmax(value[0], 1e-300);
}

static void eigen(int threads, double *v, double *value, const double *x, int64_t n)
{
    Team *team = team_of(threads);
    double *work = malloc((size_t)(symmetric_work_rows(n) * n) * sizeof *work);
    memcpy(work, x, (size_t)(n * n) * sizeof *x);
    symmetric_vectors(team, v, value, work, n, 8 * (double)n * 0x1p-52);
    free(work);
    team_close(team);
}

static void test_eigen(void **state)
{
    (void)state;
    static double x[SIDE * SIDE], v[SIDE * SIDE], other[SIDE * SIDE], value[SIDE], values[SIDE];
    static const struct { int64_t n, rank; double scale; } kind[] = {
        { 1, 1, 1 }, { 2, 2, 1 }, { 3, 0, 1 }, { SIDE, SIDE, 1 }, { SIDE, SIDE, 0.5 }, { SIDE, 20, 0.8 }, { SIDE, 1, 1 },
    };
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        int64_t n = kind[k].n;
        symmetric_make(x, n, kind[k].rank, kind[k].scale, 0);
        eigen(1, v, value, x, n);
        if (orthonormal_off(v, n) > 1e-13) fail_msg("case %zu: vectors are off by %g", k, orthonormal_off(v, n));
        if (rebuilt_off(x, v, value, n) > 1e-13) fail_msg("case %zu: the matrix is off by %g", k, rebuilt_off(x, v, value, n));
        for (int64_t i = 1; i < n; i++) assert_true(value[i] <= value[i - 1]);
        eigen(3, other, values, x, n);
        assert_memory_equal(v, other, (size_t)(n * n) * sizeof *v);
        assert_memory_equal(value, values, (size_t)n * sizeof *value);
    }
}

/* Of a matrix of rank 20 the other 70 vectors are those of one space: roundings of the matrix leave them as they are. */
static void test_open_vectors(void **state)
{
    (void)state;
    static double x[SIDE * SIDE], v[SIDE * SIDE], other[SIDE * SIDE], value[SIDE], off;
    symmetric_make(x, SIDE, 20, 0.8, 0);
    eigen(1, v, value, x, SIDE);
    symmetric_make(x, SIDE, 20, 0.8, 1e-16);
    eigen(1, other, value, x, SIDE);
    for (int64_t i = 0; i < SIDE * SIDE; i++) off = larger(off, fabs(v[i] - other[i]));
    if (!(off > 0 && off < 1e-9)) fail_msg("vectors are apart by %g", off);
}

/* The rows that depend on the first 30 are completed; the same from rows that are off by roundings. */
static void test_orthonormal(void **state)
{
    (void)state;
    static double x[SIDE * SIDE], y[2][SIDE * SIDE], work[(SIDE + 2) * SIDE], off;
    Team *team = team_of(2);
    for (int rank = 30; rank <= SIDE; rank += 60) {
        random_normals(x, 9, 0, SIDE * SIDE);
        for (int64_t i = rank; i < SIDE; i++)
            for (int64_t j = 0; j < SIDE; j++) x[i * SIDE + j] = x[(i - rank) * SIDE + j] + x[(i % rank) * SIDE + j] / 2;
        for (int k = 0; k < 2; k++) {
            memcpy(y[k], x, sizeof x);
            for (int64_t i = 0; i < SIDE * SIDE; i++) y[k][i] *= 1 + (k ? (double)(i % 3) * 0x1p-52 : 0);
            orthonormal_rows_of(team, y[k], work, SIDE, 1e-12);
            if (orthonormal_off(y[k], SIDE) > 1e-13) fail_msg("rank %d: rows are off by %g", rank, orthonormal_off(y[k], SIDE));
        }
        off = 0;
        for (int64_t i = 0; i < SIDE * SIDE; i++) off = larger(off, fabs(y[0][i] - y[1][i]));
        if (!(off < 1e-9)) fail_msg("rank %d: rows are apart by %g", rank, off);
        for (int64_t i = 0; i < rank; i++) {                 /* row i of x has nothing of the rows behind i, and some of row i */
            double own = 0, behind = 0;
            for (int64_t j = 0; j < SIDE; j++) own += x[i * SIDE + j] * y[0][i * SIDE + j];
            for (int64_t k = i + 1; k < SIDE; k++) {
                double sum = 0;
                for (int64_t j = 0; j < SIDE; j++) sum += x[i * SIDE + j] * y[0][k * SIDE + j];
                behind = larger(behind, fabs(sum));
            }
            if (!(own > 0 && behind < 1e-12)) fail_msg("rank %d, row %d: %g of it, %g of later ones", rank, (int)i, own, behind);
        }
    }
    team_close(team);
}

/* Floats beside all middles and beside all bounds of the keys by which a code is found. */
static void test_nearest(const DynamicCode *code)
{
    for (uint32_t key = 0; key < 0x3f80; key++)
        for (int sign = 0; sign < 2; sign++) {
            uint32_t middle = 0, place[8] = { key << 16, key << 16 | 1, key << 16 | 0x7fff, key << 16 | 0xffff };
            memcpy(&middle, &code->middle_float[key % (CODE_VALUES - 1)], 4);
            for (uint32_t i = 0; i < 3; i++) place[4 + i] = (middle & 0x7fffffffu) + i - (middle & 0x7fffffffu ? 1 : 0);
            for (int i = 0; i < 8; i++) {
                uint32_t bits = place[i] | (uint32_t)sign << 31;
                float x;
                int32_t wanted = 0;
                memcpy(&x, &bits, 4);
                while (code->middle[wanted] < (double)x) wanted++;
                int32_t found = code_nearest(code, x);
                if (found != wanted) fail_msg("code %d of %.9g, nearest is %d", found, (double)x, wanted);
            }
        }
}

static void test_codes(void **state)
{
    (void)state;
    json_t *golden = json_load_file(TESTS_DIR "/golden/optimizers/dynamic_map.json", 0, NULL);
    assert_non_null(golden);
    for (int with_signs = 0; with_signs < 2; with_signs++) {
        char *at = (char *)json_string_value(json_object_get(golden, with_signs ? "signed" : "unsigned"));
        const DynamicCode *code = dynamic_code(with_signs);
        for (int i = 0; i < CODE_VALUES; i++) {
            uint32_t bits, wanted = (uint32_t)strtoul(at, &at, 16);
            memcpy(&bits, &code->value[i], 4);
            if (bits != wanted) fail_msg("value %d is %08x, bitsandbytes has %08x", i, bits, wanted);
            assert_true(i == CODE_VALUES - 1 || (code->middle[i] > (double)code->value[i] && code->middle[i] < (double)code->value[i + 1]));
            assert_true(i == CODE_VALUES - 1 || ((double)code->middle_float[i] <= code->middle[i] &&
                        (double)nextafterf(code->middle_float[i], INFINITY) > code->middle[i]));
        }
        test_nearest(code);
    }
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_eigen), cmocka_unit_test(test_open_vectors),
                                        cmocka_unit_test(test_orthonormal), cmocka_unit_test(test_codes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
