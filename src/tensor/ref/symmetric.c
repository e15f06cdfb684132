/* Operations of optimizers that take a matrix as a whole. Eigenvectors and orthonormal rows are those of all
 * back ends of a host.
 * A, B   rows and columns of a matrix */
#include "tensor/matrix/symmetric.h"
#include "tensor/ref/ref.h"

static void copy_square(double *y, Tensor x_AA)
{
    int64_t A = x_AA.dim[0];
    for (int64_t i = 0; i < A; i++)
        for (int64_t j = 0; j < A; j++) y[i * A + j] = *at2(x_AA, i, j);
}

REF(symmetric_eigen, SymmetricEigen)
{
    int64_t A = a->x_AA.dim[0];
    WANT(a->vector_AA, A, A);
    WANT(a->value_A, A);
    WANT(a->work_WA, symmetric_work_rows(A), A);
    WANT(a->x_AA, A, A);
    copy_square(a->work_WA.data, a->x_AA);
    symmetric_vectors(q->team, a->vector_AA.data, a->value_A.data, a->work_WA.data, A, a->noise);
}

REF(spectral_power, SpectralPower)
{
    int64_t A = a->y_AA.dim[0];
    WANT(a->y_AA, A, A);
    WANT(a->work_AA, A, A);
    WANT(a->vector_AA, A, A);
    WANT(a->value_A, A);
    double shift = a->epsilon - fmin(*at1(a->value_A, A - 1), 0);
    for (int64_t k = 0; k < A; k++) *at1(a->value_A, k) = pow(*at1(a->value_A, k) + shift, a->exponent);
    for (int64_t i = 0; i < A; i++)
        for (int64_t j = 0; j < A; j++) {
            double sum = 0;
            for (int64_t k = 0; k < A; k++)
                sum += *at2(a->vector_AA, k, i) * *at1(a->value_A, k) * *at2(a->vector_AA, k, j);
            *at2(a->work_AA, i, j) = *at2(a->y_AA, i, j) = sum;
        }
}

REF(orthonormal_rows, OrthonormalRows)
{
    int64_t A = a->x_AA.dim[0];
    WANT(a->y_AA, A, A);
    WANT(a->work_WA, 2 * A + 2, A);
    WANT(a->x_AA, A, A);
    double *y = a->work_WA.data;
    copy_square(y, a->x_AA);
    orthonormal_rows_of(q->team, y, y + A * A, A, a->noise);
    for (int64_t i = 0; i < A; i++)
        for (int64_t j = 0; j < A; j++) *at2(a->y_AA, i, j) = y[i * A + j];
}

static double row_product(Tensor x_AB, Tensor y_AB, int64_t i)
{
    double sum = 0;
    for (int64_t j = 0; j < x_AB.dim[1]; j++) sum += *at2(x_AB, i, j) * *at2(y_AB, i, j);
    return sum;
}

REF(row_order, RowOrder)
{
    int64_t A = a->x_AB.dim[0], B = a->x_AB.dim[1];
    WANT(a->order_A, A);
    WANT(a->key_A, A);
    WANT(a->x_AB, A, B);
    WANT(a->y_AB, A, B);
    const double *key = a->key_A.data;
    for (int64_t i = 0; i < A; i++) *at1(a->key_A, i) = row_product(a->x_AB, a->y_AB, i);
    for (int64_t i = 0; i < A; i++) {
        int64_t place = 0;
        for (int64_t k = 0; k < A; k++) place += key[k] > key[i] || (key[k] == key[i] && k < i);
        *int_at(a->order_A, place) = (int32_t)i;
    }
}

REF(permute, Permute)
{
    int64_t A = a->x_AB.dim[0], B = a->x_AB.dim[1];
    WANT(a->y_AB, A, B);
    WANT(a->x_AB, A, B);
    if (tensor_present(a->row_A)) WANT(a->row_A, A);
    if (tensor_present(a->column_B)) WANT(a->column_B, B);
    for (int64_t i = 0; i < A; i++)
        for (int64_t j = 0; j < B; j++)
            *at2(a->y_AB, i, j) = *at2(a->x_AB, tensor_present(a->row_A) ? int1(a->row_A, i) : i,
                                       tensor_present(a->column_B) ? int1(a->column_B, j) : j);
}

REF(graft, Graft)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->from_1, 1);
    WANT(a->to_1, 1);
    double factor = sqrt(*at1(a->to_1, 0)) / (sqrt(*at1(a->from_1, 0)) + 1e-16);
    for (int64_t i = 0; i < N; i++) *at1(a->y_N, i) *= factor;
}

REF(gradient_mean, GradientMean)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->g_N, N);
    for (int64_t i = 0; i < N; i++)
        *at1(a->y_N, i) = q->step_state->skip ? 0 : *at1(a->g_N, i) * q->step_state->factor;
}

/* v = beta2 v + (1 - beta2) x x,   y = y sqrt(1 - beta2^n) / (1 - beta1^n) / (sqrt(v) + epsilon) */
REF(soap_direction, SoapDirection)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->v_N, N);
    WANT(a->x_N, N);
    if (q->step_state->skip) return;
    double n = (double)q->step_state->updates, rate = sqrt(1 - pow(a->beta2, n)) / (1 - pow(a->beta1, n));
    for (int64_t i = 0; i < N; i++) {
        double *v = at1(a->v_N, i), x = *at1(a->x_N, i);
        *v = a->beta2 * *v + (1 - a->beta2) * x * x;
        *at1(a->y_N, i) *= rate / (sqrt(*v) + a->epsilon);
    }
}
