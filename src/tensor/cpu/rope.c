/* Rotary position embedding.
 * T rows   n heads   D channels of a head, of which the first 2 pairs turn */
#include "base/sine.h"
#include "tensor/cpu/cpu.h"

/* sign -1: backward */
typedef struct { Tensor x_TnD, position_i; const RopeRule *rule; double sign; } RopeRotation;

/* Angles are computed in double, because a position times a frequency in float would lose the digits that
 * matter at large positions. `turn` holds cosine and sine of a part of the pairs for each row of a chunk, so
 * that all heads share them. */
enum { ROWS = 64, PAIRS = 64 };
typedef struct { float cosine[ROWS][PAIRS], sine[ROWS][PAIRS]; } RopeTurn;

static CLONES void rope_turn_set(RopeTurn *turn, const RopeRotation *a, int64_t t0, int64_t rows, int64_t i0,
                                 int64_t pairs)
{
    const double *frequency = a->rule->frequency + i0, scale = a->rule->scale;
    for (int64_t t = 0; t < rows; t++) {
        double position = ((const int32_t *)a->position_i.data)[t0 + t];
        for (int64_t i = 0; i < pairs; i++) {
            SineCosine angle = sine_cosine(position * (a->sign * frequency[i]));
            turn->cosine[t][i] = (float)(scale * angle.cosine);
            turn->sine[t][i]   = (float)(scale * angle.sine);
        }
    }
}

/* Pairs of a head that are apart by `half`, and pairs that are neighbours: n of them from channel `at` on. */
INLINE void turn_halves(Tensor x, int64_t t, int64_t at, int64_t half, const float *c, const float *s,
                        int64_t n)
{
    float x1[PAIRS], x2[PAIRS], y1[PAIRS], y2[PAIRS];
    tile_load(x1, x, t, at, n);
    tile_load(x2, x, t, at + half, n);
    for (int64_t k = 0; k < n; k++) y1[k] = x1[k] * c[k] - x2[k] * s[k];
    for (int64_t k = 0; k < n; k++) y2[k] = x1[k] * s[k] + x2[k] * c[k];
    tile_store(x, t, at, y1, n);
    tile_store(x, t, at + half, y2, n);
}

INLINE void turn_neighbours(Tensor x, int64_t t, int64_t at, const float *c, const float *s, int64_t n)
{
    float both[2 * PAIRS];
    tile_load(both, x, t, at, 2 * n);
    for (int64_t k = 0; k < n; k++) {
        float x1 = both[2 * k], x2 = both[2 * k + 1];
        both[2 * k]     = x1 * c[k] - x2 * s[k];
        both[2 * k + 1] = x1 * s[k] + x2 * c[k];
    }
    tile_store(x, t, at, both, 2 * n);
}

static CLONES void rope_rows(void *context, int64_t begin, int64_t end)
{
    const RopeRotation *a = context;
    int64_t heads = a->x_TnD.dim[1], half = a->rule->pairs;
    RopeTurn turn;
    for (int64_t i = 0; i < half; i += PAIRS) {
        int64_t n = half - i < PAIRS ? half - i : PAIRS;
        rope_turn_set(&turn, a, begin, end - begin, i, n);
        for (int64_t t = begin; t < end; t++)
            for (int64_t h = 0; h < heads; h++) {
                const float *c = turn.cosine[t - begin], *s = turn.sine[t - begin];
                int64_t at = h * a->x_TnD.stride[1];
                if (a->rule->interleaved) turn_neighbours(a->x_TnD, t, at + 2 * i, c, s, n);
                else                      turn_halves(a->x_TnD, t, at + i, half, c, s, n);
            }
    }
}

static void rotate(Queue *q, RopeRotation a)
{
    int64_t T = a.x_TnD.dim[0], n = a.x_TnD.dim[1], D = a.x_TnD.dim[2];
    WANT(a.x_TnD, T, n, D);
    WANT(a.position_i, T);
    CHECK(2 * a.rule->pairs <= D, "a head of %lld channels has no %lld pairs", (long long)D,
          (long long)a.rule->pairs);
    team_for(q->team, T, ROWS, rope_rows, &a);
}

CPU(rope_forward, RopeForward) { rotate(q, (RopeRotation){ a->x_TnD, a->position_i, &a->rule, +1 }); }
CPU(rope_backward, RopeBackward) { rotate(q, (RopeRotation){ a->dx_TnD, a->position_i, &a->rule, -1 }); }
