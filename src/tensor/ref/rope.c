/* Rotary position embedding.
 * T rows   n heads   D channels of a head, of which the first 2 pairs turn */
#include "tensor/ref/ref.h"

/* (x1, x2) rotated by the angle sign * position * frequency and scaled; sign -1 is the transpose */
static void rotate(Tensor x_TnD, Tensor position_i, const RopeRule *rule, double sign)
{
    int64_t T = x_TnD.dim[0], n = x_TnD.dim[1], D = x_TnD.dim[2], P = rule->pairs;
    WANT(x_TnD, T, n, D);
    WANT(position_i, T);
    CHECK(2 * P <= D, "a head of %lld channels has no %lld pairs", (long long)D, (long long)P);
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < n; h++)
            for (int64_t i = 0; i < P; i++) {
                double angle = sign * int1(position_i, t) * rule->frequency[i];
                double c = rule->scale * cos(angle), s = rule->scale * sin(angle);
                double *x1 = at3(x_TnD, t, h, rule->interleaved ? 2 * i : i);
                double *x2 = at3(x_TnD, t, h, rule->interleaved ? 2 * i + 1 : i + P), old = *x1;
                *x1 = old * c - *x2 * s;
                *x2 = old * s + *x2 * c;
            }
}

REF(rope_forward, RopeForward) { rotate(a->x_TnD, a->position_i, &a->rule, +1); }
REF(rope_backward, RopeBackward) { rotate(a->dx_TnD, a->position_i, &a->rule, -1); }
