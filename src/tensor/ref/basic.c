/* Fill, copy, sums and initial values.
 * N elements of a flat tensor   R ranks   T rows */
#include <string.h>
#include "base/random.h"
#include "tensor/checksum.h"
#include "tensor/ref/ref.h"

/* Calls body(y element, x element, bytes of an element) for all elements in row-major order; any strides,
 * any type. */
static void for_each_element(Tensor y, Tensor x, void (*body)(char *y, const char *x, int64_t width))
{
    CHECK(y.dtype == x.dtype, "%s and %s do not mix", dtype_name(y.dtype), dtype_name(x.dtype));
    for (int i = 0; i < 4; i++)
        CHECK(y.dim[i] == x.dim[i], "dim %d is %lld and %lld", i, (long long)y.dim[i], (long long)x.dim[i]);
    int64_t width = (int64_t)dtype_width(y.dtype);
    for (int64_t i = 0; i < y.dim[0]; i++)
        for (int64_t j = 0; j < y.dim[1]; j++)
            for (int64_t k = 0; k < y.dim[2]; k++)
                for (int64_t l = 0; l < y.dim[3]; l++) {
                    int64_t at_y = i * y.stride[0] + j * y.stride[1] + k * y.stride[2] + l * y.stride[3];
                    int64_t at_x = i * x.stride[0] + j * x.stride[1] + k * x.stride[2] + l * x.stride[3];
                    body((char *)y.data + at_y * width, (const char *)x.data + at_x * width, width);
                }
}

static void zero_element(char *y, const char *x, int64_t width) { (void)x, memset(y, 0, (size_t)width); }
static void copy_element(char *y, const char *x, int64_t width) { memmove(y, x, (size_t)width); }
static void add_element (char *y, const char *x, int64_t width)
{
    (void)width;
    *(double *)y += *(const double *)x;
}

REF(fill_zero, FillZero) { for_each_element(a->y, a->y, zero_element); }
REF(copy_strided, CopyStrided) { for_each_element(a->y, a->x, copy_element); }
REF(convert, Convert)
{
    WANT(a->y_N, a->y_N.dim[0]);
    WANT(a->x_N, a->y_N.dim[0]);
    for_each_element(a->y_N, a->x_N, copy_element);      /* one type */
}
REF(accumulate, Accumulate) { for_each_element(a->y, a->x, add_element); }

/* y = x[0] + x[1] + ... */
REF(rank_sum, RankSum)
{
    int64_t R = a->x_RN.dim[0], N = a->x_RN.dim[1];
    WANT(a->y_N, N);
    WANT(a->x_RN, R, N);
    for (int64_t i = 0; i < N; i++) {
        double sum = *at2(a->x_RN, 0, i);
        for (int64_t r = 1; r < R; r++) sum += *at2(a->x_RN, r, i);
        *at1(a->y_N, i) = sum;
    }
}

REF(rank_max, RankMax)
{
    int64_t R = a->x_RN.dim[0], N = a->x_RN.dim[1];
    WANT(a->y_N, N);
    WANT(a->x_RN, R, N);
    for (int64_t i = 0; i < N; i++) {
        double most = *at2(a->x_RN, 0, i);
        for (int64_t r = 1; r < R; r++) most = fmax(most, *at2(a->x_RN, r, i));
        *at1(a->y_N, i) = most;
    }
}

/* out += sum of x x. The blocks of 4096 are part of the definition: other back ends must round in the same
 * places. */
REF(square_sum, SquareSum)
{
    enum { BLOCK = 4096 };
    int64_t N = a->x_N.dim[0];
    WANT(a->out_1, 1);
    WANT(a->x_N, N);
    for (int64_t first = 0; first < N; first += BLOCK) {
        double sum = 0;
        for (int64_t i = first; i < N && i < first + BLOCK; i++) sum += *at1(a->x_N, i) * *at1(a->x_N, i);
        *at1(a->out_1, 0) += sum;
    }
}

REF(checksum, Checksum)
{
    uint64_t bytes = tensor_bytes(a->x_N), sum = 0;
    WANT(a->sum_2, 2);
    for (uint64_t i = 0; i * CHECKSUM_WORD < bytes; i++) sum += checksum_word(a->x_N.data, i, bytes);
    *at1(a->sum_2, 0) = checksum_number(sum);
    *at1(a->sum_2, 1) = -checksum_number(sum);
}

REF(nonzero_count, NonzeroCount)
{
    int64_t N = a->x_N.dim[0];
    WANT(a->out_1, 1);
    WANT(a->x_N, N);
    for (int64_t i = 0; i < N; i++) *at1(a->out_1, 0) += *at1(a->x_N, i) != 0;
}

/* out += { sum of x w, sum of w } */
REF(weighted_sum, WeightedSum)
{
    int64_t T = a->x_T.dim[0];
    WANT(a->out_2, 2);
    WANT(a->x_T, T);
    WANT(a->loss_weight_T, T);
    double sum = 0, weight = 0;
    for (int64_t t = 0; t < T; t++) {
        sum += *at1(a->x_T, t) * *at1(a->loss_weight_T, t);
        weight += *at1(a->loss_weight_T, t);
    }
    *at1(a->out_2, 0) += sum;
    *at1(a->out_2, 1) += weight;
}

/* y = std normal(key, index in the logical tensor), or uniform of the same deviation; rows at or above `rows`
 * are padding and 0 */
REF(init_random, InitRandom)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    for (int64_t i = 0; i < N; i++) {
        int64_t r = (a->first + i) / a->cols, c = (a->first + i) % a->cols;
        uint64_t index = (uint64_t)((a->row0 + r) * a->global_cols + a->col0 + c);
        double x = a->uniform ? sqrt(3) * (2 * random_uniform(a->key, index) - 1)
                              : random_normal(a->key, index);
        *at1(a->y_N, i) = r < a->rows ? a->std * x : 0;
    }
}

REF(init_value, InitValue)
{
    WANT(a->y_N, a->y_N.dim[0]);
    for (int64_t i = 0; i < a->y_N.dim[0]; i++) *at1(a->y_N, i) = a->value;
}
