/* Rotary position embedding.
 * T rows   n heads   D channels of a head: channels i and i + D/2 are a pair */
#include "tensor/ref/ref.h"

/* (x1, x2) rotated by the angle sign * position / base^(2i/D); sign -1 undoes the rotation */
static void rotate(Tensor x_TnD, Tensor position_i, double base, double sign)
{
    int64_t T = x_TnD.dim[0], n = x_TnD.dim[1], D = x_TnD.dim[2];
    WANT(x_TnD, T, n, D);
    WANT(position_i, T);
    CHECK(D % 2 == 0, "a head of %lld channels cannot be split into pairs", (long long)D);
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < n; h++)
            for (int64_t i = 0; i < D / 2; i++) {
                double angle = sign * int1(position_i, t) / pow(base, 2.0 * (double)i / (double)D);
                double *x1 = at3(x_TnD, t, h, i), *x2 = at3(x_TnD, t, h, i + D / 2), old = *x1;
                *x1 = old * cos(angle) - *x2 * sin(angle);
                *x2 = old * sin(angle) + *x2 * cos(angle);
            }
}

REF(rope_forward, RopeForward) { rotate(a->x_TnD, a->position_i, a->base, +1); }
REF(rope_backward, RopeBackward) { rotate(a->dx_TnD, a->position_i, a->base, -1); }
