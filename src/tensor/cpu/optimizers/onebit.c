/* 1-bit LAMB.   N elements of a flat parameter block   P workers   B bytes of 8 signs */
#include "tensor/cpu/states.h"

static void squares_read(double out[2], Tensor squares_2)
{
    WANT(squares_2, 2);
    for (int i = 0; i < 2; i++) out[i] = (double)flat(squares_2)[i];
}

CPU(onebit_update, OnebitUpdate)
{
    double squares[2], step;
    squares_read(squares, a->squares_2);
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    if (tensor_present(a->most_1)) {
        WANT(a->most_1, 1);
        step = (double)flat(a->numbers_3)[ONEBIT_MEAN] *
               onebit_factor(&a->bounds, (double)flat(a->numbers_3)[ONEBIT_FACTOR], squares,
                             (double)*flat(a->most_1), a->decay * q->step_state->weight_decay > 0);
    } else {
        step = onebit_ratio(&a->bounds, squares);
    }
    double lr = STEP_LR(q->step_state, a->decoupled);
    cpu_weight_step(q, &(WeightStep){ a->w_N, a->param_N, a->u_N, 1, (float)(lr * step) });
}

CPU(onebit_numbers, OnebitNumbers)
{
    double squares[2];
    squares_read(squares, a->squares_2);
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    if (tensor_present(a->most_1)) WANT(a->most_1, 1);
    if (q->step_state->skip) return;
    float *mean = flat(a->numbers_3) + ONEBIT_MEAN, *factor = flat(a->numbers_3) + ONEBIT_FACTOR;
    if (tensor_present(a->most_1))
        *factor = (float)onebit_factor(&a->bounds, (double)*factor, squares, (double)*flat(a->most_1),
                                       a->decay * q->step_state->weight_decay > 0);
    else
        *mean = (float)onebit_mean(&a->bounds, (double)*mean, onebit_ratio(&a->bounds, squares));
}

/* ---- before the freeze ---- */
/* m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g g,   fresh = v
 * u = m / (sqrt(v) + epsilon) + decay w */
typedef struct {
    const OnebitDirection *a;
    float factor, beta1, rest1, beta2, rest2, epsilon, decay;
} WarmUpdate;

static CLONES void direction_elements(void *context, int64_t begin, int64_t end)
{
    const WarmUpdate *u = context;
    float *restrict g = flat(u->a->g_N), *restrict m = flat(u->a->m_N), *restrict v = flat(u->a->v_N);
    float *restrict fresh = flat(u->a->fresh_N);
    const float *restrict w = flat(u->a->w_N);
    for (int64_t i = begin; i < end; i++) {
        float scaled = g[i] * u->factor;
        m[i] = u->beta1 * m[i] + u->rest1 * scaled;
        v[i] = u->beta2 * v[i] + u->rest2 * scaled * scaled;
        fresh[i] = v[i];
        g[i] = m[i] / (sqrtf(v[i]) + u->epsilon) + u->decay * w[i];
    }
}

CPU(onebit_direction, OnebitDirection)
{
    int64_t N = a->g_N.dim[0];
    WANT(a->g_N, N);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->fresh_N, N);
    WANT(a->w_N, N);
    if (q->step_state->skip) return;
    WarmUpdate u = { a, (float)q->step_state->factor, (float)a->beta1, (float)(1 - a->beta1), (float)a->beta2,
        (float)(1 - a->beta2), (float)a->epsilon, (float)(a->decay * q->step_state->weight_decay) };
    team_for(q->team, N, CHUNK_ELEMENTS, direction_elements, &u);
}

/* ---- after it ---- */
/* e += scale (beta1 m + (1 - beta1) workers g) */
typedef struct { const OnebitMomentum *a; float of_m, of_g; } MomentumSum;

static CLONES void momentum_elements(void *context, int64_t begin, int64_t end)
{
    const MomentumSum *u = context;
    float *restrict e = flat(u->a->e_N);
    const float *restrict m = flat(u->a->m_N), *restrict g = flat(u->a->g_N);
    for (int64_t i = begin; i < end; i++) e[i] += u->of_m * m[i] + u->of_g * g[i];
}

CPU(onebit_momentum, OnebitMomentum)
{
    int64_t N = a->e_N.dim[0];
    WANT(a->e_N, N);
    WANT(a->m_N, N);
    WANT(a->g_N, N);
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    if (q->step_state->skip) return;
    double scale = (double)flat(a->numbers_3)[ONEBIT_SCALE];
    MomentumSum u = { a, (float)(scale * a->beta1),
                      (float)(scale * (1 - a->beta1) * a->workers * q->step_state->factor) };
    team_for(q->team, N, CHUNK_ELEMENTS, momentum_elements, &u);
}

/* m' = +-a / scale, 0 where scale or v is 0,   g = (m' - beta1 m) / (1 - beta1)
 * fresh = beta2 fresh + (1 - beta2) g g
 * u = m' / (sqrt(v) + epsilon) + decay w */
typedef struct {
    const OnebitCompressed *a;
    float size, unscale, beta1, per_rest1, beta2, rest2, epsilon, decay;  /* per_rest1 = 1 / (1 - beta1) */
} CompressedUpdate;

/* The momentum that was sent, of elements first .. first + n - 1, n at most TILE. */
static void momentum_read(float *restrict x, const CompressedUpdate *u, int64_t first, int64_t n)
{
    const OnebitCompressed *a = u->a;
    float *e = flat(a->e_N) + first;
    if (tensor_present(a->bits_B)) {
        const uint8_t *bits = a->bits_B.data;
        int64_t at = a->first + first;
        for (int64_t i = 0; i < n; i++) x[i] = bits[(at + i) / 8] >> (at + i) % 8 & 1 ? u->size : -u->size;
        return;
    }
    for (int64_t i = 0; i < n; i++) x[i] = e[i] * u->unscale, e[i] = 0;
}

static CLONES void compressed_elements(void *context, int64_t begin, int64_t end)
{
    const CompressedUpdate *u = context;
    TileBuffer tile;
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        float *restrict g = flat(u->a->g_N) + first, *restrict m = flat(u->a->m_N) + first;
        float *restrict fresh = flat(u->a->fresh_N) + first;
        const float *restrict v = flat(u->a->v_N) + first, *restrict w = flat(u->a->w_N) + first;
        momentum_read(tile.x, u, first, n);
        for (int64_t i = 0; i < n; i++) {
            tile.x[i] = v[i] == 0 ? 0 : tile.x[i];
            float mean = (tile.x[i] - u->beta1 * m[i]) * u->per_rest1;
            fresh[i] = u->beta2 * fresh[i] + u->rest2 * mean * mean;
            m[i] = tile.x[i];
            g[i] = m[i] / (sqrtf(v[i]) + u->epsilon) + u->decay * w[i];
        }
    }
}

CPU(onebit_compressed, OnebitCompressed)
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
    double unscale = onebit_unscale((double)flat(a->numbers_3)[ONEBIT_SCALE]);
    double size = sent ? sqrt((double)*flat(a->squares_1) / a->count) * unscale : 0;
    CompressedUpdate u = { a, (float)size, (float)unscale, (float)a->beta1, (float)(1 / (1 - a->beta1)),
        (float)a->beta2, (float)(1 - a->beta2), (float)a->epsilon,
        (float)(a->decay * q->step_state->weight_decay) };
    team_for(q->team, N, CHUNK_ELEMENTS, compressed_elements, &u);
}

/* Blocks are summed in double and added in their order, as those of square_sum. */
enum { LENGTH_BLOCK = 4096, LENGTHS_AT_ONCE = 1024, LENGTHS_OF_CHUNK = CHUNK_ELEMENTS / LENGTH_BLOCK };
typedef struct {
    const OnebitLengths *a;
    int64_t first;
    double  sum [LENGTHS_AT_ONCE];
    float   most[LENGTHS_AT_ONCE];
} Lengths;

static CLONES void length_blocks(void *context, int64_t begin, int64_t end)
{
    Lengths *l = context;
    const OnebitLengths *a = l->a;
    const float *m = flat(a->m_N), *v = flat(a->v_N), *fresh = flat(a->fresh_N);
    float epsilon = (float)a->epsilon;
    for (int64_t b = begin; b < end; b++) {
        int64_t N = a->m_N.dim[0], from = l->first + b * LENGTH_BLOCK;
        int64_t to = N < from + LENGTH_BLOCK ? N : from + LENGTH_BLOCK;
        double sum[LANES] = { 0 };
        float  most = 0;
        for (int64_t i = from; i < to; i++) {
            float divisor = sqrtf(v[i]) + epsilon, length = m[i] / divisor;
            float ratio = divisor / (sqrtf(fresh[i]) + epsilon);
            sum[(i - from) % LANES] += (double)length * (double)length;
            most = most < ratio ? ratio : most;
        }
        l->sum[b] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
        l->most[b] = most;
    }
}

CPU(onebit_lengths, OnebitLengths)
{
    int64_t N = a->m_N.dim[0];
    WANT(a->out_1, 1);
    WANT(a->most_1, 1);
    WANT(a->m_N, N);
    WANT(a->v_N, N);
    WANT(a->fresh_N, N);
    Lengths l = { .a = a };
    for (; l.first < N; l.first += LENGTHS_AT_ONCE * LENGTH_BLOCK) {
        int64_t left = (N - l.first + LENGTH_BLOCK - 1) / LENGTH_BLOCK;
        int64_t n = left < LENGTHS_AT_ONCE ? left : LENGTHS_AT_ONCE;
        team_for(q->team, n, LENGTHS_OF_CHUNK, length_blocks, &l);
        for (int64_t b = 0; b < n; b++) {
            *(double *)a->out_1.data += l.sum[b];
            if (*flat(a->most_1) < l.most[b]) *flat(a->most_1) = l.most[b];
        }
    }
}

CPU(onebit_scale, OnebitScale)
{
    WANT(a->numbers_3, ONEBIT_NUMBERS);
    WANT(a->squares_1, 1);
    WANT(a->total_1, 1);
    double mean = (double)*flat(a->total_1) / a->tensors;
    double size = sqrt((double)*flat(a->squares_1) / a->count);
    flat(a->numbers_3)[ONEBIT_SCALE] = (float)onebit_scale_of(mean, size);
}

CPU(add_root_mean, AddRootMean)
{
    WANT(a->total_1, 1);
    WANT(a->squares_1, 1);
    *(double *)a->total_1.data += sqrt((double)*flat(a->squares_1) / a->count);
}

CPU(add_scaled, AddScaled)
{
    WANT(a->y_1, 1);
    WANT(a->x_1, 1);
    *(double *)a->y_1.data += a->factor * *(const double *)a->x_1.data;
}

/* ---- signs ---- */
typedef struct { const SignPack *a; float size; } Packing;

/* Bytes begin .. end - 1 */
static CLONES void pack_bytes(void *context, int64_t begin, int64_t end)
{
    const Packing *p = context;
    int64_t N = p->a->x_N.dim[0];
    uint8_t *bits = p->a->bits_B.data;
    float *x = flat(p->a->x_N);
    for (int64_t b = begin; b < end; b++) {
        unsigned byte = 0;
        for (int64_t i = 8 * b; i < 8 * b + 8 && i < N; i++) {
            unsigned up = x[i] >= 0;
            byte |= up << i % 8;
            x[i] -= up ? p->size : -p->size;
        }
        bits[b] = (uint8_t)byte;
    }
}

CPU(sign_pack, SignPack)
{
    int64_t N = a->x_N.dim[0], B = a->bits_B.dim[0];
    WANT(a->bits_B, B);
    WANT(a->x_N, N);
    WANT(a->squares_1, 1);
    CHECK(8 * B >= N, "%lld bytes hold no signs of %lld elements", (long long)B, (long long)N);
    double size = q->step_state->skip ? 0 : sqrt((double)*flat(a->squares_1) / a->count);
    Packing p = { a, (float)size };
    team_for(q->team, B, CHUNK_ELEMENTS / 8, pack_bytes, &p);
}

static CLONES void mean_elements(void *context, int64_t begin, int64_t end)
{
    const SignMean *a = context;
    int64_t P = a->bits_PB.dim[0];
    float *y = flat(a->y_N);
    for (int64_t first = begin; first < end; first += TILE) {
        int64_t n = tile_count(end, first);
        double  sum[TILE] = { 0 };
        for (int64_t p = 0; p < P; p++) {
            double size = sqrt((double)flat(a->squares_P)[p] / a->count);
            const uint8_t *bits = (const uint8_t *)a->bits_PB.data + p * a->bits_PB.stride[0];
            for (int64_t i = 0, e = first; i < n; i++, e++) sum[i] += bits[e / 8] >> e % 8 & 1 ? size : -size;
        }
        for (int64_t i = 0; i < n; i++) y[first + i] += (float)(sum[i] / (double)P);
    }
}

CPU(sign_mean, SignMean)
{
    int64_t P = a->bits_PB.dim[0], N = a->y_N.dim[0];
    WANT(a->y_N, N);
    WANT(a->bits_PB, P, a->bits_PB.dim[1]);
    WANT(a->squares_P, P);
    if (!q->step_state->skip) team_for(q->team, N, CHUNK_ELEMENTS, mean_elements, (void *)a);
}
