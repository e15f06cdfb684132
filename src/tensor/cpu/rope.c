/* Rotary position embedding.
 * T rows   n heads   D channels of a head: channels i and i + D/2 are a pair */
#include "base/exponential.h"
#include "base/sine.h"
#include "tensor/cpu/cpu.h"

typedef struct { Tensor x_TnD, position_i; double base, sign; } RopeRotation;      /* sign -1: backward */

/* Angles are computed in double, because a position times a frequency in float would lose the digits that
 * matter at large positions. Pairs are the outer loop, so that each power is computed once for all rows of
 * the chunk; `turn` holds cosine and sine of a part of the pairs for each of them. */
enum { ROWS = 64, PAIRS = 64 };
typedef struct { float cosine[ROWS][PAIRS], sine[ROWS][PAIRS]; } RopeTurn;

static CLONES void rope_turn_set(RopeTurn *turn, const RopeRotation *a, int64_t t0, int64_t rows, int64_t i0,
                                 int64_t pairs)
{
    double frequency[PAIRS];
    for (int64_t i = 0; i < pairs; i++)
        frequency[i] = a->sign / natural_power(a->base, 2.0 * (double)(i0 + i) / (double)a->x_TnD.dim[2]);
    for (int64_t t = 0; t < rows; t++) {
        double position = ((const int32_t *)a->position_i.data)[t0 + t];
        for (int64_t i = 0; i < pairs; i++) {
            SineCosine angle = sine_cosine(position * frequency[i]);
            turn->cosine[t][i] = (float)angle.cosine, turn->sine[t][i] = (float)angle.sine;
        }
    }
}

static CLONES void rope_rows(void *context, int64_t begin, int64_t end)
{
    const RopeRotation *a = context;
    int64_t heads = a->x_TnD.dim[1], half = a->x_TnD.dim[2] / 2;
    RopeTurn turn;
    float x1[PAIRS], x2[PAIRS], y1[PAIRS], y2[PAIRS];
    for (int64_t i = 0; i < half; i += PAIRS) {
        int64_t n = half - i < PAIRS ? half - i : PAIRS;
        rope_turn_set(&turn, a, begin, end - begin, i, n);
        for (int64_t t = begin; t < end; t++)
            for (int64_t h = 0; h < heads; h++) {
                const float *c = turn.cosine[t - begin], *s = turn.sine[t - begin];
                int64_t at = h * a->x_TnD.stride[1] + i;
                tile_load(x1, a->x_TnD, t, at, n);
                tile_load(x2, a->x_TnD, t, at + half, n);
                for (int64_t k = 0; k < n; k++) y1[k] = x1[k] * c[k] - x2[k] * s[k];
                for (int64_t k = 0; k < n; k++) y2[k] = x1[k] * s[k] + x2[k] * c[k];
                tile_store(a->x_TnD, t, at, y1, n);
                tile_store(a->x_TnD, t, at + half, y2, n);
            }
    }
}

static void rotate(Queue *q, RopeRotation a)
{
    int64_t T = a.x_TnD.dim[0], n = a.x_TnD.dim[1], D = a.x_TnD.dim[2];
    WANT(a.x_TnD, T, n, D);
    WANT(a.position_i, T);
    CHECK(D % 2 == 0, "a head of %lld channels cannot be split into pairs", (long long)D);
    team_for(q->team, T, ROWS, rope_rows, &a);
}

CPU(rope_forward, RopeForward) { rotate(q, (RopeRotation){ a->x_TnD, a->position_i, a->base, +1 }); }
CPU(rope_backward, RopeBackward) { rotate(q, (RopeRotation){ a->dx_TnD, a->position_i, a->base, -1 }); }
