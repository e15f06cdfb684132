/* The families of flash attention, and what its two passes share. */
#include "tensor/cpu/flash/flash_run.h"

#include <string.h>
#include "base/random.h"

/* ---- families ---- */

const FlashFamily *flash_family_of(KernelFamily family, Dtype input)
{
    static const FlashFamily *const table[KERNEL_FAMILIES] = {
#ifdef __x86_64__
        [KERNELS_AVX512_BF16] = &flash_avx512, [KERNELS_AVX512] = &flash_avx512, [KERNELS_AVX2] = &flash_avx2,
#endif
#if defined(__x86_64__) || defined(__aarch64__)
        [KERNELS_NEON] = &flash_neon,
#endif
        [KERNELS_PORTABLE] = &flash_portable, [KERNELS_EMULATED] = &flash_emulated,
    };
    if (family == KERNELS_AUTO) family = kernel_family_best();
    if (family == KERNELS_EMULATED && input == BF16) return &flash_emulated_bf16;
#ifdef __x86_64__
    if (family == KERNELS_AVX512_BF16 && input == BF16) return &flash_avx512_bf16;
#endif
    return table[family];
}

/* ---- sizes and memory ---- */

static int64_t rounded(int64_t n, int64_t part) { return flash_cuts(n, part) * part; }

bool flash_paged(const Flash *x) { return x->page_i.dim[0] > 0; }

FlashRun flash_run_of(const Flash *x, KernelFamily family)
{
    FlashRun r = { .x = x, .f = flash_family_of(family, x->q.dtype),
                   .B = x->q.dim[0], .S = x->q.dim[1], .U = x->k.dim[1], .H = x->q.dim[2], .G = x->k.dim[2],
                   .D = x->q.dim[3], .E = x->v.dim[3] };
    r.g       = r.f->gemm;
    if (flash_paged(x)) r.page = x->k.dim[1], r.U = x->page_i.dim[1] * r.page;
    r.group   = r.G > 0 ? r.H / r.G : 0;
    r.d_rows  = rounded(r.D, r.g->rows);
    r.e_rows  = rounded(r.E, r.g->rows);
    r.columns = r.g->columns;
    r.form    = x->q.dtype == F32 ? GEMM_WORDS : x->q.dtype == F16 ? GEMM_HALVES
              : r.f->pairs ? GEMM_PAIRS : GEMM_WIDENED;
    r.d_words = flash_words(&r, r.D);
    r.e_words = flash_words(&r, r.E);
    r.threshold     = (uint32_t)(x->rule.p * 4294967296.0);
    r.dropout_scale = (float)(1 / (1 - x->rule.p));
    return r;
}

void *flash_take(FlashSpace *space, int64_t words)
{
    char *at = space->memory ? space->memory + space->used : NULL;
    space->used += ((size_t)words * 4 + 63) / 64 * 64;
    return at;
}

size_t flash_bytes(const Flash *x, int threads, size_t (*of_thread)(const FlashRun *r))
{
    size_t most = 0;
    for (KernelFamily f = KERNELS_AVX512_BF16; f < KERNEL_FAMILIES; f++) {
        if (!flash_family_of(f, x->q.dtype)) continue;
        FlashRun r = flash_run_of(x, f);
        if (r.B * r.S * r.H * r.G == 0) return 0;
        size_t bytes = of_thread(&r);
        if (bytes > most) most = bytes;
    }
    return most * (size_t)threads;
}

/* ---- the keys of a query ---- */

FlashKeys flash_keys(const FlashRun *r, int64_t b, int64_t s)
{
    const Flash *x = r->x;
    int64_t first = 0, end = x->rule.q0 + s + 1 - x->rule.k0;
    if (x->key_range_i.dim[0] > 0) {
        const int32_t *row = x->key_range_i.data;
        row += b * x->key_range_i.stride[0] + s * x->key_range_i.stride[1];
        first = row[0] - x->rule.k0, end = row[1] - x->rule.k0;
    }
    int64_t window = x->rule.q0 + s + 1 - x->rule.window - x->rule.k0;
    if (x->rule.window > 0 && first < window) first = window;
    if (first < 0) first = 0;
    if (end > r->U) end = r->U;
    return first < end ? (FlashKeys){ (int32_t)first, (int32_t)end } : (FlashKeys){ 0, 0 };
}

float flash_slope(const FlashRun *r, int64_t h)
{
    const AttentionRule *rule = &r->x->rule;
    return rule->alibi ? (float)alibi_slope(rule->head0 + h, rule->heads) : 0;
}

int32_t flash_ahead(const FlashRun *r, int64_t s, int64_t key)
{
    if (r->page > 0) return (int32_t)key - ((const int32_t *)r->x->position_i.data)[s];
    return (int32_t)(r->x->rule.k0 + key - r->x->rule.q0 - s);
}

void flash_dropout(const FlashRun *r, float *to, int64_t b, int64_t s, int64_t h, int64_t count, int64_t key,
                   int64_t begin, int64_t end)
{
    const Flash   *x = r->x;
    const int32_t *sample = x->sample_i.data;
    int64_t row = (sample[b] * x->rule.heads + x->rule.head0 + h) * x->rule.span + x->rule.q0 + s;
    uint32_t bits[FLASH_FACTORS];
    for (int64_t i = 0; i < count; i++) {
        uint64_t index = (uint64_t)((row + i) * x->rule.span + x->rule.k0 + key + begin);
        float *factor = to + i * FLASH_FACTORS + begin;
        random_bits_of(bits, x->dropout_key, index, end - begin);
        for (int64_t k = 0; k < end - begin; k++) factor[k] = bits[k] >= r->threshold ? r->dropout_scale : 0;
    }
}

/* ---- loads and stores ---- */

const void *flash_at(Tensor x, int64_t b, int64_t s, int64_t h)
{
    return (const char *)x.data
         + (b * x.stride[0] + s * x.stride[1] + h * x.stride[2]) * (int64_t)dtype_width(x.dtype);
}

FlashRows flash_rows(const FlashRun *r, GemmWord *copy, Tensor x, int64_t b, int64_t s, int64_t h,
                     int64_t count)
{
    const char *at = flash_at(x, b, s, h);
    int64_t row = x.stride[1] * (int64_t)dtype_width(x.dtype), words = flash_words(r, x.dim[3]);
    bool in_place = r->form == GEMM_WORDS || (r->form == GEMM_PAIRS && x.dim[3] % 2 == 0);
    if (in_place && count % r->g->rows == 0) return (FlashRows){ at, row };
    for (int64_t i = 0; i < count; i += r->g->rows)
        r->g->copy_a(copy + i * words, at + i * row, x.stride[1], x.dim[3],
                     flash_least(count - i, r->g->rows), r->form);
    return (FlashRows){ (const char *)copy, words * 4 };
}

void flash_columns(const FlashRun *r, GemmWord *to, Tensor x, int64_t b, int64_t s, int64_t h, int64_t count)
{
    r->g->pack_b_transposed(to, flash_at(x, b, s, h), x.stride[1], x.dim[3], count, r->form);
}

void flash_depth(const FlashRun *r, GemmWord *to, Tensor x, int64_t b, int64_t s, int64_t h, int64_t count)
{
    r->g->pack_a(to, flash_at(x, b, s, h), x.stride[1], count, x.dim[3], r->form);
}

/* As FlashFamily.store_rows, to a 16-bit type: adds in fp32 and rounds once. */
static void store_narrow(Tensor to, int64_t b, int64_t s, int64_t h, const float *x, int64_t x_row,
                         int64_t rows, bool add)
{
    float sum[FLASH_COLUMNS];
    int64_t n = to.dim[3];
    for (int64_t i = 0; i < rows; i++) {
        void *at = (void *)flash_at(to, b, s + i, h);
        memcpy(sum, x + i * x_row, (size_t)n * sizeof *sum);
        if (add) {
            float old[FLASH_COLUMNS];
            dtype_convert(old, F32, at, to.dtype, n);
            for (int64_t j = 0; j < n; j++) sum[j] += old[j];
        }
        dtype_convert(at, to.dtype, sum, F32, n);
    }
}

/* The columns of the strip become rows: [strip of channels][columns][columns]. */
void flash_store(const FlashRun *r, Tensor to, int64_t b, int64_t s, int64_t h, const float *strip,
                 int64_t begin, int64_t end, GemmWord *scratch, bool add)
{
    int64_t channels = to.dim[3], columns = r->columns;
    r->g->pack_b_transposed(scratch, strip, columns, columns, channels, GEMM_WORDS);
    for (int64_t c = 0; c < channels; c += columns) {
        const float *x = (const float *)scratch + (c + begin) * columns;
        Tensor part = tensor_slice(to, 3, c, flash_least(columns, channels - c));
        if (to.dtype != F32) store_narrow(part, b, s + begin, h, x, columns, end - begin, add);
        else r->f->store_rows((float *)flash_at(part, b, s + begin, h), to.stride[1], x, end - begin,
                              part.dim[3], add);
    }
}

int64_t flash_store_words(const FlashRun *r)
{
    return rounded(r->D > r->E ? r->D : r->E, r->columns) * r->columns;
}

/* ---- products ---- */

/* One line that is in the cache */
static GemmAhead nothing_ahead(const void *b) { return (GemmAhead){ b, 0 }; }

void flash_multiply_rows(const FlashRun *r, float *strip, int64_t rows, FlashRows a, const GemmWord *b,
                         int64_t depth, int64_t used)
{
    GemmTile *multiply = gemm_tile(r->g, used, r->f->pairs, GEMM_ROWS);
    for (int64_t i = 0; i < rows; i += r->g->rows)
        multiply(strip + i * r->columns, r->columns, false, a.at + i * a.row, a.row, b, depth,
                 nothing_ahead(b));
}

void flash_multiply_strips(const FlashRun *r, float *strip, bool add, int64_t rows, const GemmWord *a,
                           int64_t stride, int64_t from, const void *b, int64_t depth, int64_t used)
{
    GemmTile *multiply = gemm_tile(r->g, used, r->f->pairs, GEMM_STRIPS);
    for (int64_t i = 0; i < rows; i += r->g->rows)
        multiply(strip + i * r->columns, r->columns, add, a + i * stride + from * r->g->rows, 0, b, depth,
                 nothing_ahead(b));
}
