/* Operations of optimizers that take a matrix as a whole. Eigenvectors and orthonormal rows are computed in
 * double (tensor/matrix/symmetric.h).
 * A, B   rows and columns of a matrix */
#include "tensor/matrix/symmetric.h"
#include "base/exponential.h"
#include "tensor/cpu/cpu.h"

static void copy_square(double *y, Tensor x_AA)
{
    int64_t A = x_AA.dim[0];
    for (int64_t i = 0; i < A; i++) dtype_convert(y + i * A, F64, row(x_AA, i), F32, A);
}

CPU(symmetric_eigen, SymmetricEigen)
{
    int64_t A = a->x_AA.dim[0];
    WANT(a->vector_AA, A, A);
    WANT(a->value_A, A);
    WANT(a->work_WA, symmetric_work_rows(A), A);
    WANT(a->x_AA, A, A);
    copy_square(a->work_WA.data, a->x_AA);
    symmetric_vectors(q->team, a->vector_AA.data, a->value_A.data, a->work_WA.data, A, a->noise);
}

/* Row i of y is the sum over vectors k of power[k] vector[k][i] times vector k; one row at a time is added in
 * double, in work. */
typedef struct { const SpectralPower *a; double *power; } PowerRows;

static CLONES void power_rows(void *context, int64_t begin, int64_t end)
{
    const SpectralPower *a = ((const PowerRows *)context)->a;
    const double *power = ((const PowerRows *)context)->power, *vector = a->vector_AA.data;
    int64_t A = a->y_AA.dim[0];
    for (int64_t i = begin; i < end; i++) {
        double *sum = (double *)a->work_AA.data + i * A;
        for (int64_t j = 0; j < A; j++) sum[j] = 0;
        for (int64_t k = 0; k < A; k++) {
            double factor = vector[k * A + i] * power[k];
            for (int64_t j = 0; j < A; j++) sum[j] += factor * vector[k * A + j];
        }
        float *y = row(a->y_AA, i);
        for (int64_t j = 0; j < A; j++) y[j] = (float)sum[j];
    }
}

CPU(spectral_power, SpectralPower)
{
    int64_t A = a->y_AA.dim[0];
    WANT(a->y_AA, A, A);
    WANT(a->work_AA, A, A);
    WANT(a->vector_AA, A, A);
    WANT(a->value_A, A);
    double *value = a->value_A.data, shift = a->epsilon - fmin(value[A - 1], 0);
    for (int64_t k = 0; k < A; k++) value[k] = natural_power(value[k] + shift, a->exponent);
    team_for(q->team, A, 8, power_rows, &(PowerRows){ a, value });
}

CPU(orthonormal_rows, OrthonormalRows)
{
    int64_t A = a->x_AA.dim[0];
    WANT(a->y_AA, A, A);
    WANT(a->work_WA, 2 * A + 2, A);
    WANT(a->x_AA, A, A);
    double *y = a->work_WA.data;
    copy_square(y, a->x_AA);
    orthonormal_rows_of(q->team, y, y + A * A, A, a->noise);
    for (int64_t i = 0; i < A; i++) dtype_convert(row(a->y_AA, i), F32, y + i * A, F64, A);
}

CPU(row_order, RowOrder)
{
    int64_t A = a->x_AB.dim[0], B = a->x_AB.dim[1];
    WANT(a->order_A, A);
    WANT(a->key_A, A);
    WANT(a->x_AB, A, B);
    WANT(a->y_AB, A, B);
    double *key = a->key_A.data;
    for (int64_t i = 0; i < A; i++) {
        const float *x = row(a->x_AB, i), *y = row(a->y_AB, i);
        key[i] = 0;
        for (int64_t j = 0; j < B; j++) key[i] += (double)x[j] * (double)y[j];
    }
    for (int64_t i = 0; i < A; i++) {
        int64_t place = 0;
        for (int64_t k = 0; k < A; k++) place += key[k] > key[i] || (key[k] == key[i] && k < i);
        ((int32_t *)a->order_A.data)[place] = (int32_t)i;
    }
}

CPU(permute, Permute)
{
    int64_t A = a->x_AB.dim[0], B = a->x_AB.dim[1];
    WANT(a->y_AB, A, B);
    WANT(a->x_AB, A, B);
    if (tensor_present(a->row_A)) WANT(a->row_A, A);
    if (tensor_present(a->column_B)) WANT(a->column_B, B);
    const int32_t *of_row = tensor_present(a->row_A) ? a->row_A.data : NULL;
    const int32_t *of_column = tensor_present(a->column_B) ? a->column_B.data : NULL;
    for (int64_t i = 0; i < A; i++) {
        const float *x = row(a->x_AB, of_row ? of_row[i] : i);
        float *y = row(a->y_AB, i);
        for (int64_t j = 0; j < B; j++) y[j] = x[of_column ? of_column[j] : j];
    }
}

/* ---- elementwise ---- */
/* y = factor x */
typedef struct { float *y; const float *x; float factor; } Scaling;

static CLONES void scaling_elements(void *context, int64_t begin, int64_t end)
{
    const Scaling *s = context;
    for (int64_t i = begin; i < end; i++) s->y[i] = s->factor * s->x[i];
}

CPU(graft, Graft)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->from_1, 1);
    WANT(a->to_1, 1);
    double from = sqrt(((const double *)a->from_1.data)[0]), to = sqrt((double)flat(a->to_1)[0]);
    Scaling s = { flat(a->y_N), flat(a->y_N), (float)(to / (from + 1e-16)) };
    team_for(q->team, N, CHUNK_ELEMENTS, scaling_elements, &s);
}

CPU(gradient_mean, GradientMean)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->g_N, N);
    if (q->step_state->skip) { cpu_fill_zero(q, &(FillZero){ .y = a->y_N }); return; }
    Scaling s = { flat(a->y_N), flat(a->g_N), (float)q->step_state->factor };
    team_for(q->team, N, CHUNK_ELEMENTS, scaling_elements, &s);
}

/* v = beta2 v + (1 - beta2) x x,   y = rate y / (sqrt(v) + epsilon) */
typedef struct { float *y, *v; const float *x; float beta2, rate, epsilon; } SoapStep;

static CLONES void soap_elements(void *context, int64_t begin, int64_t end)
{
    const SoapStep *s = context;
    float one2 = 1 - s->beta2;
    for (int64_t i = begin; i < end; i++) {
        s->v[i] = s->beta2 * s->v[i] + one2 * s->x[i] * s->x[i];
        s->y[i] = s->rate * s->y[i] / (sqrtf(s->v[i]) + s->epsilon);
    }
}

CPU(soap_direction, SoapDirection)
{
    int64_t N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->v_N, N);
    WANT(a->x_N, N);
    if (q->step_state->skip) return;
    double n = (double)q->step_state->updates;
    double rate = sqrt(1 - natural_power(a->beta2, n)) / (1 - natural_power(a->beta1, n));
    SoapStep s = { flat(a->y_N), flat(a->v_N), flat(a->x_N), (float)a->beta2, (float)rate,
        (float)a->epsilon };
    team_for(q->team, N, CHUNK_ELEMENTS, soap_elements, &s);
}
