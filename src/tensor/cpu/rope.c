/* Rotary position embedding.
 * T rows   n heads   D channels of a head: channels i and i + D/2 are a pair */
#include "tensor/cpu/cpu.h"

typedef struct { Tensor x_TnD, position_i; double base, sign; } RopeRotation;      /* sign -1: backward */

/* Angles are computed in double, because a position times a frequency in float would lose the digits that
 * matter at large positions. Pairs are the outer loop, so that each power is computed once for all rows of
 * the chunk. */
static void rotate_rows(void *context, int64_t begin, int64_t end)
{
    const RopeRotation *a = context;
    int64_t n = a->x_TnD.dim[1], D = a->x_TnD.dim[2];
    for (int64_t i = 0; i < D / 2; i++) {
        double frequency = a->sign / pow(a->base, 2.0 * (double)i / (double)D);
        for (int64_t t = begin; t < end; t++) {
            double angle = ((const int32_t *)a->position_i.data)[t] * frequency;
            float c = (float)cos(angle), s = (float)sin(angle);
            for (int64_t h = 0; h < n; h++) {
                float *x = row(a->x_TnD, t) + h * a->x_TnD.stride[1] + i, x1 = x[0], x2 = x[D / 2];
                x[0]     = x1 * c - x2 * s;
                x[D / 2] = x1 * s + x2 * c;
            }
        }
    }
}

static void rotate(Queue *q, RopeRotation a)
{
    int64_t T = a.x_TnD.dim[0], n = a.x_TnD.dim[1], D = a.x_TnD.dim[2];
    WANT(a.x_TnD, F32, T, n, D);
    WANT(a.position_i, I32, T);
    CHECK(D % 2 == 0, "a head of %lld channels cannot be split into pairs", (long long)D);
    team_for(q->team, T, 16, rotate_rows, &a);
}

CPU(rope_forward, RopeForward) { rotate(q, (RopeRotation){ a->x_TnD, a->position_i, a->base, +1 }); }
CPU(rope_backward, RopeBackward) { rotate(q, (RopeRotation){ a->dx_TnD, a->position_i, a->base, -1 }); }
