/* How the scale of an 8-bit tensor follows from the largest magnitudes that the tensor had. */
#include "tensor/fp8.h"

#include <float.h>
#include <math.h>

/* h[0] is this step's amax, h[L - 1] the one before it, h[1] the oldest. `step` is the distance of two. */
static float amax_of_history(float *h, int64_t length, int64_t step, float amax, bool most_recent)
{
    float most = amax;
    for (int64_t i = 1; i < length && !most_recent; i++) most = fmaxf(most, h[i * step]);
    for (int64_t i = 1; i + 1 < length; i++) h[i * step] = h[(i + 1) * step];
    h[(length - 1) * step] = amax;
    h[0] = 0;
    return most;
}

void fp8_scale_all(Tensor scale, Tensor history, Tensor amax, Dtype format, int margin, bool most_recent)
{
    float largest = (float)ldexp(dtype_max(format), -margin);
    for (int64_t n = 0; n < scale.dim[0]; n++)
        for (int64_t k = 0; k < scale.dim[1]; k++) {
            float *s = (float *)scale.data + n * scale.stride[0] + k * scale.stride[1];
            float  a = *((const float *)amax.data + n * amax.stride[0] + k * amax.stride[1]);
            if (history.dim[0] > 0)
                a = amax_of_history((float *)history.data + n * history.stride[0] + k * history.stride[1],
                                    history.dim[2], history.stride[2], a, most_recent);
            else *s = 1;
            /* of a tiny amax the quotient is infinite */
            if (a > 0 && isfinite(a)) *s = fminf(largest / a, FLT_MAX);
        }
}
