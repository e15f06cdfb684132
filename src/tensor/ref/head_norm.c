/* RMSNorm of heads of queries and keys (QK norm).
 * T tokens   n heads   D channels of a head   M statistics of a token, N gains of a channel: n or 1
 * h = x rstd, the normalized head before its gain */
#include "tensor/ref/ref.h"

typedef struct { int64_t T, n, D, M; } HeadNormSizes;

static HeadNormSizes sizes_of(Tensor x_TnD, Tensor statistic_TM)
{
    HeadNormSizes at = { x_TnD.dim[0], x_TnD.dim[1], x_TnD.dim[2], statistic_TM.dim[1] };
    WANT(x_TnD, at.T, at.n, at.D);
    WANT(statistic_TM, at.T, at.M == 1 ? 1 : at.n);
    return at;
}

static double statistic(HeadNormSizes at, Tensor x_TM, int64_t t, int64_t head)
{
    return *at2(x_TM, t, at.M == 1 ? 0 : head);
}

static double gain_of(Tensor gain_ND, float offset, int64_t head, int64_t d)
{
    return *at2(gain_ND, gain_ND.dim[0] == 1 ? 0 : head, d) + (double)offset;
}

static void want_gain(HeadNormSizes at, Tensor gain_ND)
{
    WANT(gain_ND, gain_ND.dim[0] == 1 ? 1 : at.n, at.D);
}

REF(head_norm_sums, HeadNormSums)
{
    HeadNormSizes at = sizes_of(a->x_TnD, a->sum_TM);
    for (int64_t t = 0; t < at.T; t++)
        for (int64_t i = 0; i < at.n; i++) {
            double *sum = at2(a->sum_TM, t, at.M == 1 ? 0 : i);
            if (i == 0 || at.M > 1) *sum = 0;
            for (int64_t d = 0; d < at.D; d++) *sum += pow(*at3(a->x_TnD, t, i, d), 2);
        }
}

REF(head_norm_forward, HeadNormForward)
{
    HeadNormSizes at = sizes_of(a->x_TnD, a->rstd_TM);
    WANT(a->y_TnD, at.T, at.n, at.D);
    WANT(a->sum_TM, at.T, at.M);
    want_gain(at, a->gain_ND);
    for (int64_t t = 0; t < at.T; t++)
        for (int64_t m = 0; m < at.M; m++)
            *at2(a->rstd_TM, t, m) = 1 / sqrt(*at2(a->sum_TM, t, m) / a->channels + a->epsilon);
    for (int64_t t = 0; t < at.T; t++)
        for (int64_t i = 0; i < at.n; i++)
            for (int64_t d = 0; d < at.D; d++)
                *at3(a->y_TnD, t, i, d) =
                    *at3(a->x_TnD, t, i, d) * statistic(at, a->rstd_TM, t, i) *
                    gain_of(a->gain_ND, a->gain_offset, i, d);
}

REF(head_norm_backward_sums, HeadNormBackwardSums)
{
    HeadNormSizes at = sizes_of(a->x_TnD, a->rstd_TM);
    WANT(a->dy_TnD, at.T, at.n, at.D);
    WANT(a->sum_TM, at.T, at.M);
    want_gain(at, a->gain_ND);
    for (int64_t t = 0; t < at.T; t++)
        for (int64_t i = 0; i < at.n; i++) {
            double *sum = at2(a->sum_TM, t, at.M == 1 ? 0 : i), rstd = statistic(at, a->rstd_TM, t, i);
            if (i == 0 || at.M > 1) *sum = 0;
            for (int64_t d = 0; d < at.D; d++)
                *sum += *at3(a->dy_TnD, t, i, d) * gain_of(a->gain_ND, a->gain_offset, i, d) *
                        *at3(a->x_TnD, t, i, d) * rstd;
        }
}

REF(head_norm_backward_input, HeadNormBackwardInput)
{
    HeadNormSizes at = sizes_of(a->x_TnD, a->rstd_TM);
    WANT(a->dx_TnD, at.T, at.n, at.D);
    WANT(a->dy_TnD, at.T, at.n, at.D);
    WANT(a->sum_TM, at.T, at.M);
    want_gain(at, a->gain_ND);
    for (int64_t t = 0; t < at.T; t++)
        for (int64_t i = 0; i < at.n; i++) {
            double rstd = statistic(at, a->rstd_TM, t, i);
            double mean = statistic(at, a->sum_TM, t, i) / a->channels;
            for (int64_t d = 0; d < at.D; d++) {
                double h = *at3(a->x_TnD, t, i, d) * rstd;
                *at3(a->dx_TnD, t, i, d) =
                    rstd * (*at3(a->dy_TnD, t, i, d) * gain_of(a->gain_ND, a->gain_offset, i, d) -
                            h * mean);
            }
        }
}

REF(head_norm_backward_weight, HeadNormBackwardWeight)
{
    HeadNormSizes at = sizes_of(a->x_TnD, a->rstd_TM);
    WANT(a->dy_TnD, at.T, at.n, at.D);
    want_gain(at, a->dgain_ND);
    for (int64_t t = 0; t < at.T; t++)
        for (int64_t i = 0; i < at.n; i++)
            for (int64_t d = 0; d < at.D; d++)
                *at2(a->dgain_ND, a->dgain_ND.dim[0] == 1 ? 0 : i, d) +=
                    *at3(a->dy_TnD, t, i, d) * *at3(a->x_TnD, t, i, d) * statistic(at, a->rstd_TM, t, i);
}
