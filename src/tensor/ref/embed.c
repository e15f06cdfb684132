/* Embedding lookup and its gradient.
 * T rows   C channels   V rows of the table, which begins at vocabulary row `first` */
#include <math.h>
#include "tensor/ref/ref.h"

/* y = scale table[id], or y += scale table[id]. An id whose row another rank holds gives zero, so
 * that the sum over ranks is right. */
REF(embed_forward, EmbedForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1], V = a->table_VC.dim[0];
    WANT(a->y_TC, T, C);
    WANT(a->id_i, T);
    WANT(a->table_VC, V, C);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            int64_t row = int1(a->id_i, t) - a->first;
            double x = row >= 0 && row < V ? a->scale * *at2(a->table_VC, row, c) : 0;
            *at2(a->y_TC, t, c) = a->add ? *at2(a->y_TC, t, c) + x : x;
        }
}

/* y += [sin(p w_k), cos(p w_k)], w_k = 10000^(-k / (C/2 - 1)) */
REF(sinusoid_forward, SinusoidForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1], half = C / 2;
    WANT(a->y_TC, T, C);
    WANT(a->position_i, T);
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; k < half; k++) {
            double angle = (double)(int1(a->position_i, t) + a->first) *
                           pow(10000, -(double)k / (double)(half - 1));
            *at2(a->y_TC, t, k)        += sin(angle);
            *at2(a->y_TC, t, half + k) += cos(angle);
        }
}

/* dtable[id] += scale dy, token after token */
REF(embed_backward, EmbedBackward)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1], V = a->dtable_VC.dim[0];
    WANT(a->dtable_VC, V, C);
    WANT(a->id_i, T);
    WANT(a->dy_TC, T, C);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < C; c++) {
            int64_t row = int1(a->id_i, t) - a->first;
            if (row >= 0 && row < V) *at2(a->dtable_VC, row, c) += a->scale * *at2(a->dy_TC, t, c);
        }
}
