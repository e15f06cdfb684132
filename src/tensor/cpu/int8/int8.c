/* Linear maps with weights in 8 bits.
 * T rows   C channels in   K channels out   P panels of 16 channels out   B blocks of 64 channels in */
#include <string.h>
#include "base/integer.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/int8/int8_family.h"

#define WANT_INT8(code, scale, K, C)                                          \
    do {                                                                      \
        WANT(code, int8_panels(K), int8_blocks(C), INT8_BYTES);               \
        WANT(scale, int8_panels(K), int8_blocks(C), INT8_ROWS);               \
        CHECK(tensor_contiguous(code) && tensor_contiguous(scale), "codes or scales have gaps"); \
    } while (0)

const Int8Family *int8_family_of(KernelFamily family)
{
#ifdef __x86_64__
    bool wide = family == KERNELS_AVX512_BF16 || family == KERNELS_AVX512;
    if (wide && __builtin_cpu_supports("avx512vnni")) return &int8_vnni;
    if (wide || family == KERNELS_AVX2) return &int8_avx2;
#endif
    (void)family;
    return &int8_portable;
}

/* ---- codes and scales of a row, zeros beyond its last channel ---- */

/* *sum: of the codes */
static CLONES float int8_block(int8_t code[INT8_BLOCK], int32_t *sum, const float x[INT8_BLOCK])
{
    float scale = int8_scale(x, INT8_BLOCK), inverse = int8_inverse(scale);
    int32_t all = 0;
    for (int i = 0; i < INT8_BLOCK; i++) code[i] = int8_code(x[i], inverse);
    for (int i = 0; i < INT8_BLOCK; i++) all += code[i];
    *sum = all;
    return scale;
}

/* Block b of row i of a matrix with C channels */
static float row_block(int8_t code[INT8_BLOCK], int32_t *sum, Tensor x, int64_t i, int64_t b)
{
    float   block[INT8_BLOCK];
    int64_t c = b * INT8_BLOCK, n = least(INT8_BLOCK, x.dim[1] - c);
    tile_load(block, x, i, c, n);
    for (; n < INT8_BLOCK; n++) block[n] = 0;
    return int8_block(code, sum, block);
}

/* ---- weights ---- */

static void quantize_panels(void *context, int64_t begin, int64_t end)
{
    const Int8Quantize *a = context;
    int64_t K = a->w_KC.dim[0], blocks = a->code_PBN.dim[1];
    for (int64_t k = begin * INT8_ROWS; k < end * INT8_ROWS; k++)
        for (int64_t b = 0; b < blocks; b++) {
            int8_t   code[INT8_BLOCK] = { 0 };
            int32_t  sum;
            uint8_t *to = (uint8_t *)a->code_PBN.data + int8_place(k, b * INT8_BLOCK, blocks);
            float    scale = k < K ? row_block(code, &sum, a->w_KC, k, b) : 0;
            flat(a->scale_PBR)[int8_scale_place(k, b * INT8_BLOCK, blocks)] = scale;
            for (int c = 0; c < INT8_BLOCK; c++)
                to[int8_place(0, c, 1)] = (uint8_t)(code[c] + INT8_ZERO);
        }
}

CPU(int8_quantize, Int8Quantize)
{
    int64_t K = a->w_KC.dim[0], C = a->w_KC.dim[1];
    WANT_INT8(a->code_PBN, a->scale_PBR, K, C);
    WANT(a->w_KC, K, C);
    team_for(q->team, int8_panels(K), chunk_rows(INT8_ROWS * C), quantize_panels, (void *)a);
}

static void dequantize_rows(void *context, int64_t begin, int64_t end)
{
    const Int8Dequantize *a = context;
    int64_t C = a->w_KC.dim[1], blocks = a->code_PBN.dim[1];
    for (int64_t k = begin; k < end; k++)
        for (int64_t c = 0; c < C; c += INT8_BLOCK) {
            const uint8_t *from = (const uint8_t *)a->code_PBN.data + int8_place(k, c, blocks);
            float w[INT8_BLOCK], scale = flat(a->scale_PBR)[int8_scale_place(k, c, blocks)];
            for (int i = 0; i < INT8_BLOCK; i++)
                w[i] = (float)(from[int8_place(0, i, 1)] - INT8_ZERO) * scale;
            tile_store(a->w_KC, k, c, w, least(INT8_BLOCK, C - c));
        }
}

CPU(int8_dequantize, Int8Dequantize)
{
    int64_t K = a->w_KC.dim[0], C = a->w_KC.dim[1];
    WANT_INT8(a->code_PBN, a->scale_PBR, K, C);
    WANT(a->w_KC, K, C);
    team_for(q->team, K, chunk_rows(C), dequantize_rows, (void *)a);
}

/* ---- the product ---- */

/* ROWS of activations are a piece of work with some panels, which stay in the cache meanwhile: WEIGHTS bytes
 * of them, so that a piece takes longer than starting it does. */
enum { ROWS = 96, WEIGHTS = 64 << 10 };

/* The quantized activations, in the op's workspace */
typedef struct {
    const Int8MatmulForward *a;
    const Int8Family *f;
    int64_t  T, K, blocks, panels;
    int8_t  *code;                     /* [T][B * 64] */
    float   *scale;                    /* [T][B] */
    int32_t *offset;                   /* [T][B] */
    int64_t  groups, group;            /* of panels; a piece's, in panels */
    Team    *team;
} Product;

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t product_make(Product *p, const Int8MatmulForward *a, char *memory)
{
    *p = (Product){ .a = a, .T = a->y_TK.dim[0], .K = a->y_TK.dim[1], .blocks = int8_blocks(a->x_TC.dim[1]) };
    size_t codes = aligned((size_t)(p->T * p->blocks) * INT8_BLOCK);
    size_t numbers = aligned((size_t)(p->T * p->blocks) * 4);
    p->panels = int8_panels(p->K);
    p->group  = WEIGHTS / (INT8_BYTES * most_of(p->blocks, 1)) / INT8_MOST_PANELS * INT8_MOST_PANELS;
    if (p->group < INT8_MOST_PANELS) p->group = INT8_MOST_PANELS;
    p->groups = divide_up(p->panels, p->group);
    if (memory) {
        p->code   = (int8_t *)memory;
        p->scale  = (float *)(memory + codes);
        p->offset = (int32_t *)(memory + codes + numbers);
    }
    return codes + 2 * numbers;
}

size_t cpu_int8_matmul_forward_workspace(const Queue *q, const Int8MatmulForward *a)
{
    Product p;
    (void)q;
    return product_make(&p, a, NULL);
}

static void quantize_rows(void *context, int64_t begin, int64_t end)
{
    const Product *p = context;
    for (int64_t t = begin; t < end; t++)
        for (int64_t i = t * p->blocks, b = 0; b < p->blocks; i++, b++) {
            int32_t sum = 0;
            p->scale[i] = row_block(p->code + i * INT8_BLOCK, &sum, p->a->x_TC, t, b);
            p->offset[i] = -INT8_ZERO * sum;
        }
}

static CLONES void add_rows(float *restrict sum, int64_t width, int64_t rows, const float *restrict add,
                            int64_t columns)
{
    for (int64_t r = 0; r < rows; r++, sum += width)
        for (int64_t c = 0; c < columns; c++) sum[c] += add[c];
}

static CLONES void round_rows(uint16_t *restrict y, int64_t y_row, const float *restrict sum, int64_t width,
                              int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++, y += y_row, sum += width) {
        int64_t c = 0;
        for (; c + INT8_ROWS <= columns; c += INT8_ROWS)
            for (int i = 0; i < INT8_ROWS; i++) y[c + i] = bf16_encode(sum[c + i]);
        for (; c < columns; c++) y[c] = bf16_encode(sum[c]);
    }
}

/* y = sum + bias, of so many rows and columns from row t and column k on; rows of sums are `width` apart. */
static void store(const Product *p, float *sum, int64_t width, int64_t t, int64_t rows, int64_t k)
{
    Dtype   type = p->a->y_TK.dtype;
    int64_t columns = least(width, p->K - k), y_row = p->a->y_TK.stride[0];
    void   *y = tile_at(p->a->y_TK, t, k);
    if (tensor_present(p->a->bias_K)) {
        float add[INT8_MOST_PANELS * INT8_ROWS];
        tile_load(add, p->a->bias_K, 0, k, columns);
        add_rows(sum, width, rows, add, columns);
    }
    if (type == BF16) round_rows(y, y_row, sum, width, rows, columns);
    else if (type == F32) for (int64_t r = 0; r < rows; r++)
        memcpy((float *)y + r * y_row, sum + r * width, (size_t)columns * sizeof *sum);
    else for (int64_t r = 0; r < rows; r++)
        dtype_convert((char *)y + r * y_row * (int64_t)dtype_width(type), type, sum + r * width, F32,
                      columns);
}

/* ROWS rows from t on times one or two panels, of which the next ones are brought nearer by the way. */
static void multiply_panels(const Product *p, int64_t t, int64_t panel, int64_t panels)
{
    float   sum[INT8_MOST_ROWS * INT8_MOST_PANELS * INT8_ROWS] __attribute__((aligned(64)));
    int64_t rows = least(ROWS, p->T - t), tiles = divide_up(rows, p->f->rows), B = p->blocks;
    const uint8_t *code = (const uint8_t *)p->a->code_PBN.data + panel * B * INT8_BYTES;
    const char *ahead = (const char *)code + panels * B * INT8_BYTES;
    int64_t lines = divide_up(panels * INT8_BYTES / 64, tiles);
    for (int64_t i = 0, done = 0, n; i < tiles; i++, done += n) {
        n = (rows - done) / (tiles - i);             /* tiles of equal rows, or nearly */
        int64_t at = (t + done) * B;
        p->f->kernel[n - 1][panels - 1](&(Int8Product){
            .sum = sum, .code = code, .scale = flat(p->a->scale_PBR) + panel * B * INT8_ROWS,
            .x = p->code + at * INT8_BLOCK, .x_scale = p->scale + at, .x_offset = p->offset + at,
            .blocks = B, .ahead = ahead + i * lines * 64 * B, .ahead_lines = lines });
        store(p, sum, panels * INT8_ROWS, t + done, n, panel * INT8_ROWS);
    }
}

static void multiply_pieces(void *context, int thread, int threads)
{
    const Product *p = context;
    int64_t at_once = p->T == 1 ? INT8_MOST_PANELS : p->f->panels;
    (void)threads;
    for (int64_t i; (i = team_claim(p->team, thread)) >= 0;) {
        int64_t first = i % p->groups * p->group, last = least(first + p->group, p->panels);
        for (int64_t panel = first; panel < last; panel += at_once)
            multiply_panels(p, i / p->groups * ROWS, panel, least(at_once, last - panel));
        if (thread == 0) team_poll(p->team);
    }
}

CPU(int8_matmul_forward, Int8MatmulForward)
{
    int64_t T = a->y_TK.dim[0], K = a->y_TK.dim[1], C = a->x_TC.dim[1];
    Product p;
    WANT_INT8(a->code_PBN, a->scale_PBR, K, C);
    WANT(a->y_TK, T, K);
    WANT(a->x_TC, T, C);
    if (tensor_present(a->bias_K)) WANT(a->bias_K, K);
    size_t need = product_make(&p, a, q->op_workspace);
    CHECK(q->op_workspace_bytes >= need, "wants %zu bytes to work in", need);
    p.f = int8_family_of(q->kernels);
    team_for(q->team, T, chunk_of_few(T, C), quantize_rows, &p);
    p.team = q->team;
    team_share(q->team, divide_up(T, ROWS) * p.groups);
    if (p.groups > 1) team_run(q->team, multiply_pieces, &p);
    else multiply_pieces(&p, 0, 1);
}
