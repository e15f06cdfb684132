/* 1-bit LAMB: the update, and momenta as signs.
 * N elements of a flat parameter block   P workers   B bytes of 8 signs */
#include "tensor/ref/ref.h"

/* The step of a tensor: lr is multiplied by it. */
static double step_of(const OnebitBounds *b, Tensor numbers_3, Tensor squares_2, Tensor most_1, bool decayed)
{
    double squares[2] = { *at1(squares_2, 0), *at1(squares_2, 1) };
    if (!tensor_present(most_1)) return onebit_ratio(b, squares);
    return *at1(numbers_3, ONEBIT_MEAN) *
           onebit_factor(b, *at1(numbers_3, ONEBIT_FACTOR), squares, *at1(most_1, 0), decayed);
}

/* w -= lr step u */
REF(onebit_update, OnebitUpdate)
{
    int64_t N = a->w_N.dim[0];
    WANT(a->w_N, N);
    WANT(a->u_N, N);
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    WANT(a->squares_2, 2);
    if (tensor_present(a->most_1)) WANT(a->most_1, 1);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    if (q->step_state->skip) return;
    bool decayed = a->decay * q->step_state->weight_decay > 0;
    double step = step_of(&a->bounds, a->numbers_3, a->squares_2, a->most_1, decayed);
    for (int64_t i = 0; i < N; i++) {
        *at1(a->w_N, i) -= STEP_LR(q->step_state, a->decoupled) * step * *at1(a->u_N, i);
        if (tensor_present(a->param_N)) *at1(a->param_N, i) = *at1(a->w_N, i);
    }
}

REF(onebit_numbers, OnebitNumbers)
{
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    WANT(a->squares_2, 2);
    if (tensor_present(a->most_1)) WANT(a->most_1, 1);
    if (q->step_state->skip) return;
    double squares[2] = { *at1(a->squares_2, 0), *at1(a->squares_2, 1) };
    double *mean = at1(a->numbers_3, ONEBIT_MEAN), *factor = at1(a->numbers_3, ONEBIT_FACTOR);
    if (!tensor_present(a->most_1)) *mean = onebit_mean(&a->bounds, *mean, onebit_ratio(&a->bounds, squares));
    else *factor = onebit_factor(&a->bounds, *factor, squares, *at1(a->most_1, 0),
                                 a->decay * q->step_state->weight_decay > 0);
}

/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g,   fresh = v
 * u = m / (sqrt(v) + epsilon) + decay w */
REF(onebit_direction, OnebitDirection)
{
    int64_t N = a->g_N.dim[0];
    WANT(a->g_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->fresh_N, N);
    WANT(a->w_N, N);
    if (q->step_state->skip) return;
    for (int64_t i = 0; i < N; i++) {
        double *m = at1(a->m_N, i), *v = at1(a->v_N, i), *u = at1(a->g_N, i);
        double  g = *u * q->step_state->factor;
        *m = a->beta1 * *m + (1 - a->beta1) * g;
        *v = a->beta2 * *v + (1 - a->beta2) * g * g;
        *at1(a->fresh_N, i) = *v;
        *u = *m / (sqrt(*v) + a->epsilon) + a->decay * q->step_state->weight_decay * *at1(a->w_N, i);
    }
}

/* e += scale (beta1 m + (1 - beta1) workers g) */
REF(onebit_momentum, OnebitMomentum)
{
    int64_t N = a->e_N.dim[0];
    WANT(a->e_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    if (q->step_state->skip) return;
    double scale = *at1(a->numbers_3, ONEBIT_SCALE);
    for (int64_t i = 0; i < N; i++) {
        double g = a->workers * (*at1(a->g_N, i) * q->step_state->factor);
        *at1(a->e_N, i) += scale * (a->beta1 * *at1(a->m_N, i) + (1 - a->beta1) * g);
    }
}

static bool bit_at(Tensor bits_B, int64_t i)
{
    return ((const uint8_t *)bits_B.data)[i / 8] >> i % 8 & 1;
}

/* m' = +-a / scale, 0 where scale or v is 0: an element without any gradient before the freeze has no size of
 * its own
 * g = (m' - beta1 m) / (1 - beta1),   fresh = beta2 fresh + (1 - beta2) g g
 * u = m' / (sqrt(v) + epsilon) + decay w */
REF(onebit_compressed, OnebitCompressed)
{
    int64_t N = a->g_N.dim[0];
    bool sent = tensor_present(a->bits_B);
    WANT(a->g_N, N);
    WANT(a->m_N, N);
    WANT(a->fresh_N, N);
    WANT(a->v_N, N);
    WANT(a->w_N, N);
    WANT(a->e_N, N);
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    if (sent) WANT(a->squares_1, 1);
    if (q->step_state->skip) return;
    double unscale = onebit_unscale(*at1(a->numbers_3, ONEBIT_SCALE));
    double size = sent ? sqrt(*at1(a->squares_1, 0) / a->count) : 0;
    for (int64_t i = 0; i < N; i++) {
        double *m = at1(a->m_N, i), *fresh = at1(a->fresh_N, i), *e = at1(a->e_N, i);
        double  next = (!sent ? *e : bit_at(a->bits_B, a->first + i) ? size : -size) * unscale;
        if (!sent) *e = 0;
        if (*at1(a->v_N, i) == 0) next = 0;
        double g = (next - a->beta1 * *m) / (1 - a->beta1);
        *fresh = a->beta2 * *fresh + (1 - a->beta2) * g * g;
        *m = next;
        *at1(a->g_N, i) = next / (sqrt(*at1(a->v_N, i)) + a->epsilon) +
                          a->decay * q->step_state->weight_decay * *at1(a->w_N, i);
    }
}

REF(onebit_lengths, OnebitLengths)
{
    int64_t N = a->m_N.dim[0];
    WANT(a->out_1, 1);
    WANT(a->most_1, 1);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->fresh_N, N);
    double sum = 0, most = *at1(a->most_1, 0);
    for (int64_t i = 0; i < N; i++) {
        double divisor = sqrt(*at1(a->v_N, i)) + a->epsilon, d = *at1(a->m_N, i) / divisor;
        sum += d * d;
        most = fmax(most, divisor / (sqrt(*at1(a->fresh_N, i)) + a->epsilon));
    }
    *at1(a->out_1, 0) += sum;
    *at1(a->most_1, 0) = most;
}

REF(onebit_scale, OnebitScale)
{
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    WANT(a->squares_1, 1);
    WANT(a->total_1, 1);
    *at1(a->numbers_3, ONEBIT_SCALE) =
        onebit_scale_of(*at1(a->total_1, 0) / a->tensors, sqrt(*at1(a->squares_1, 0) / a->count));
}

REF(add_root_mean, AddRootMean)
{
    WANT(a->total_1, 1);
    WANT(a->squares_1, 1);
    *at1(a->total_1, 0) += sqrt(*at1(a->squares_1, 0) / a->count);
}

REF(add_scaled, AddScaled)
{
    WANT(a->y_1, 1);
    WANT(a->x_1, 1);
    *at1(a->y_1, 0) += a->factor * *at1(a->x_1, 0);
}

/* ---- signs ---- */

REF(sign_pack, SignPack)
{
    int64_t N = a->x_N.dim[0], B = a->bits_B.dim[0];
    WANT(a->bits_B, B);
    WANT(a->x_N, N);
    WANT(a->squares_1, 1);
    CHECK(8 * B >= N, "%lld bytes hold no signs of %lld elements", (long long)B, (long long)N);
    double size = q->step_state->skip ? 0 : sqrt(*at1(a->squares_1, 0) / a->count);
    uint8_t *bits = a->bits_B.data;
    for (int64_t b = 0; b < B; b++) bits[b] = 0;
    for (int64_t i = 0; i < N; i++) {
        bool up = *at1(a->x_N, i) >= 0;
        bits[i / 8] = (uint8_t)(bits[i / 8] | up << i % 8);
        *at1(a->x_N, i) -= up ? size : -size;
    }
}

REF(sign_mean, SignMean)
{
    int64_t N = a->y_N.dim[0], P = a->bits_PB.dim[0], B = a->bits_PB.dim[1];
    WANT(a->y_N, N);
    WANT(a->bits_PB, P, B);
    WANT(a->squares_P, P);
    if (q->step_state->skip) return;
    for (int64_t i = 0; i < N; i++) {
        double sum = 0;
        for (int64_t p = 0; p < P; p++) {
            double size = sqrt(*at1(a->squares_P, p) / a->count);
            uint8_t byte = ((const uint8_t *)a->bits_PB.data)[p * a->bits_PB.stride[0] + i / 8];
            sum += byte >> i % 8 & 1 ? size : -size;
        }
        *at1(a->y_N, i) += sum / (double)P;
    }
}
