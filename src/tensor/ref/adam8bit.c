/* AdamW whose states are 8-bit codes.
 * N elements   B blocks of the matrix */
#include "tensor/dynamic_code.h"
#include "tensor/ref/ref.h"

static uint8_t *code_at(Tensor x, int64_t i) { return (uint8_t *)x.data + i; }

/* Of what is left of x / scale, the nearest value; the lower of two. */
static uint8_t nearest(const DynamicCode *code, double x, double scale)
{
    double ratio = scale > 0 ? x / scale : 0;
    int i = 0;
    while (ratio > code->middle[i]) i++;
    return (uint8_t)i;
}

static int64_t block_of(const ElementPlace *p, int64_t i)
{
    int64_t in_rows = p->columns > 0 ? i / p->columns * p->global_columns + i % p->columns : i;
    return (p->offset + in_rows) / CODE_BLOCK;
}

/* m = beta m + (1 - beta) x */
static double moment(const DynamicCode *code, uint8_t index, double scale, double beta, double x)
{
    return beta * ((double)code->value[index] * scale) + (1 - beta) * x;
}

REF(adam8bit_moments, Adam8bitMoments)
{
    int64_t N = a->g_N.dim[0], B = a->m_scale_B.dim[0];
    WANT(a->m_wide_N, N);
    WANT(a->v_wide_N, N);
    WANT(a->most_2B, 2 * B);
    WANT(a->m_N, N);
    WANT(a->m_scale_B, B);
    WANT(a->v_N, N);
    WANT(a->v_scale_B, B);
    WANT(a->g_N, N);
    const DynamicCode *with_signs = dynamic_code(true), *without = dynamic_code(false);
    for (int64_t b = 0; b < 2 * B; b++) *at1(a->most_2B, b) = 0;
    for (int64_t i = 0; i < N && !q->step_state->skip; i++) {
        int64_t b = block_of(&a->place, i);
        double  g = *at1(a->g_N, i) * q->step_state->factor;
        double *m = at1(a->m_wide_N, i), *v = at1(a->v_wide_N, i);
        *m = moment(with_signs, *code_at(a->m_N, i), *at1(a->m_scale_B, b), a->beta1, g);
        *v = moment(without, *code_at(a->v_N, i), *at1(a->v_scale_B, b), a->beta2, g * g);
        *at1(a->most_2B, b)     = fmax(*at1(a->most_2B, b), fabs(*m));
        *at1(a->most_2B, B + b) = fmax(*at1(a->most_2B, B + b), *v);
    }
}

static double quotient(const Queue *q, double m, double v, double beta1, double beta2, double epsilon)
{
    double t = (double)(q->step_state->updates + 1);
    return m / (1 - pow(beta1, t)) / (sqrt(v / (1 - pow(beta2, t))) + epsilon);
}

/* w -= lr decay w,   w -= lr u */
static void update(const Queue *q, Tensor w_N, Tensor param_N, int64_t i, double decay, double u)
{
    double *w = at1(w_N, i), lr = q->step_state->lr;
    *w -= lr * (decay * q->step_state->weight_decay) * *w;
    *w -= lr * u;
    if (tensor_present(param_N)) *at1(param_N, i) = *w;
}

REF(adam8bit_store, Adam8bitStore)
{
    int64_t N = a->w_N.dim[0], B = a->m_scale_B.dim[0];
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    WANT(a->m_N, N);
    WANT(a->m_scale_B, B);
    WANT(a->v_N, N);
    WANT(a->v_scale_B, B);
    WANT(a->m_wide_N, N);
    WANT(a->v_wide_N, N);
    WANT(a->most_2B, 2 * B);
    if (q->step_state->skip) return;
    const DynamicCode *with_signs = dynamic_code(true), *without = dynamic_code(false);
    for (int64_t b = 0; b < B; b++) {
        *at1(a->m_scale_B, b) = *at1(a->most_2B, b);
        *at1(a->v_scale_B, b) = *at1(a->most_2B, B + b);
    }
    for (int64_t i = 0; i < N; i++) {
        int64_t b = block_of(&a->place, i);
        double  m = *at1(a->m_wide_N, i), v = *at1(a->v_wide_N, i);
        update(q, a->w_N, a->param_N, i, a->decay, quotient(q, m, v, a->beta1, a->beta2, a->epsilon));
        *code_at(a->m_N, i) = nearest(with_signs, m, *at1(a->m_scale_B, b));
        *code_at(a->v_N, i) = nearest(without, v, *at1(a->v_scale_B, b));
    }
}

REF(adam8bit, Adam8bit)
{
    int64_t N = a->g_N.dim[0], B = code_blocks(N);
    if (tensor_present(a->w_N)) WANT(a->w_N, N);
    if (tensor_present(a->param_N)) WANT(a->param_N, N);
    WANT(a->g_N, N);
    WANT(a->m_N, N);
    WANT(a->m_scale_B, B);
    WANT(a->v_N, N);
    WANT(a->v_scale_B, B);
    if (q->step_state->skip) return;
    const DynamicCode *with_signs = dynamic_code(true), *without = dynamic_code(false);
    for (int64_t b = 0; b < B; b++) {
        double m[CODE_BLOCK], v[CODE_BLOCK], *m_scale = at1(a->m_scale_B, b), *v_scale = at1(a->v_scale_B, b);
        int64_t first = b * CODE_BLOCK, n = N - first < CODE_BLOCK ? N - first : CODE_BLOCK;
        for (int64_t k = 0, i = first; k < n; k++, i++) {
            double g = *at1(a->g_N, i) * q->step_state->factor;
            m[k] = moment(with_signs, *code_at(a->m_N, i), *m_scale, a->beta1, g);
            v[k] = moment(without, *code_at(a->v_N, i), *v_scale, a->beta2, g * g);
            double u = quotient(q, m[k], v[k], a->beta1, a->beta2, a->epsilon);
            if (tensor_present(a->w_N)) update(q, a->w_N, a->param_N, i, a->decay, u);
            else *at1(a->g_N, i) = u;
        }
        *m_scale = *v_scale = 0;
        for (int64_t k = 0; k < n; k++) {
            *m_scale = fmax(*m_scale, fabs(m[k]));
            *v_scale = fmax(*v_scale, v[k]);
        }
        for (int64_t k = 0; k < n; k++) {
            *code_at(a->m_N, first + k) = nearest(with_signs, m[k], *m_scale);
            *code_at(a->v_N, first + k) = nearest(without, v[k], *v_scale);
        }
    }
}
