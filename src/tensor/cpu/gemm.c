/* Blocking and threads of the packed matrix product. The loops, from the outside:
 *
 *   NC columns of b and KC_PASS of the depth   all threads pack this part of b into a slab that stays in the
 *                                              third-level cache; a barrier before and after
 *     a block of up to MC rows                 handed to whichever thread is free
 *       KC of the depth                        the block's part of a, in the second-level cache
 *         a strip of `columns` columns of b    in the first- or second-level cache, used for the whole block
 *           a tile of `rows` rows              rows x KC of a in the first-level cache, sums in registers
 *
 * Each element of y is summed by these loops in the same order of k, whichever thread and block it is in. */
#include "tensor/cpu/gemm.h"

#include <stdatomic.h>
#include <string.h>
#include "base/integer.h"
#include "tensor/cpu/few/gemm_few.h"
#include "tensor/cpu/gemm_family.h"

/* KC       A tile of 8 rows of a is 12 KiB and leaves room in a first-level cache of 32 to 48 KiB for b to
 *          stream through.
 * MC       64 rows of KC words are 96 KiB and fit with a strip of b (16 columns: 24 KiB, 48 columns: 72 KiB)
 *          into a second-level cache of 256 KiB; a strip that comes from the third level is used for MC rows.
 * NC, KC_PASS   The slab is 9 MiB. More columns would amortize the packing of a better, but a and y need room
 *          in the third-level cache as well. */
enum { KC = GEMM_DEPTH, KC_PASS = 4 * KC, MC = 64, NC = 1536, PACK_STRIPS = 4 };
/* The largest tile of any family in floats. */
enum { TILE_FLOATS = 8 * 48 };

/* Where a product works, and what all threads agree on. All depths are in words. */
typedef struct {
    const Gemm       *g;
    const GemmFamily *f;
    Team      *team;
    GemmForm   form;
    int64_t    element;                /* bytes of an element of a and b */
    int64_t    per_word;               /* elements in a word of the depth: 2 for pairs */
    int64_t    words;                  /* of the whole depth */
    int64_t    block_rows;             /* the most rows of a block: MC, a multiple of the tile's rows */
    int64_t    blocks;                 /* of rows, among which the tiles are divided evenly */
    int64_t    groups;                 /* a row block's columns are divided into so many pieces of work */
    GemmWord  *slab;                   /* packed b of one pass */
    GemmWord  *a;                      /* packed a: block_rows x KC words for each thread */
    /* Sums in fp32 while y has 16 bits, or the product a scale, and the depth has several blocks: of one row
     * block for each thread, or of all rows where the depth has several passes. NULL otherwise. */
    float     *sums;
    bool       sums_of_all_rows;
    /* The next piece of work of an even and of an odd phase. */
    _Atomic int64_t next[2];
} Product;

/* A part of the product between two barriers: columns [n0, n0 + columns), depth [k0, k0 + words). */
typedef struct { int64_t n0, columns, k0, words; bool first, last; } Pass;

static int64_t rounded(int64_t n, int64_t part) { return divide_up(n, part) * part; }
static size_t  aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* ---- families ---- */

const GemmFamily *gemm_family_of(KernelFamily family)
{
    static const GemmFamily *const table[KERNEL_FAMILIES] = {
#ifdef __x86_64__
        [KERNELS_AVX512_BF16] = &gemm_avx512_bf16, [KERNELS_AVX512] = &gemm_avx512,
        [KERNELS_AVX2] = &gemm_avx2,
#endif
#if defined(__x86_64__) || defined(__aarch64__)
        [KERNELS_NEON] = &gemm_neon,
#endif
        [KERNELS_PORTABLE] = &gemm_portable, [KERNELS_EMULATED] = &gemm_emulated,
    };
    return table[family == KERNELS_AUTO ? kernel_family_best() : family];
}

/* ---- workspace ---- */

/* Lays the workspace out, and returns its bytes. `memory` is NULL when only the bytes are wanted. */
static size_t product_make(Product *p, const Gemm *g, int threads, char *memory)
{
    const GemmFamily *f = gemm_family_of(g->family);
    *p = (Product){ .g = g, .f = f };
    p->form       = g->input == F32 ? GEMM_WORDS : g->input == F16 ? GEMM_HALVES
                  : f->pairs ? GEMM_PAIRS : GEMM_WIDENED;
    p->element    = g->input == F32 ? 4 : 2;
    p->per_word   = p->form == GEMM_PAIRS ? 2 : 1;
    p->words      = divide_up(g->K, p->per_word);
    p->block_rows = MC / f->rows * f->rows;

    int64_t columns = least(rounded(g->N, f->columns), NC), rows = rounded(g->M, p->block_rows);
    int64_t strips = columns / f->columns, blocks = rows / p->block_rows;
    /* As many blocks for each thread. They are smaller, so that fewer rows use a strip of b that has come
     * from the third level. */
    if (blocks > threads) blocks = least(rounded(blocks, threads), divide_up(g->M, f->rows));
    p->blocks = blocks;
    /* Few rows are divided by columns as well, so that every thread has work. Each piece packs its rows of a
     * again, which costs nothing where there are few. */
    bool whole = blocks < 1 || strips < 1 || g->epilogue.whole_rows;
    p->groups = whole ? 1 : least(strips, divide_up(4 * threads, blocks));
    p->sums_of_all_rows = p->words > KC_PASS;
    bool sums = (g->output != F32 || g->scaled) && p->words > KC;

    size_t slab = aligned((size_t)(least(p->words, KC_PASS) * columns) * sizeof *p->slab);
    size_t a    = aligned((size_t)(p->block_rows * KC * threads) * sizeof *p->a), y = 0;
    int64_t own = p->block_rows * threads, summed = p->sums_of_all_rows && rows > own ? rows : own;
    if (sums) y = (size_t)(summed * columns) * sizeof *p->sums;
    if (memory) {
        p->slab = (GemmWord *)memory;
        p->a    = (GemmWord *)(memory + slab);
        p->sums = sums ? (float *)(memory + slab + a) : NULL;
    }
    return slab + a + aligned(y);
}

size_t gemm_workspace_bytes(const Gemm *g, int threads)
{
    Product p;
    Gemm    of_family = *g;
    size_t  most = 0;
    for (KernelFamily f = KERNELS_AVX512_BF16; f < KERNEL_FAMILIES; f++) {
        if (!gemm_family_of(f)) continue;
        of_family.family = f;
        of_family.M = least(g->M, GEMM_FEW_ROWS);
        size_t few = gemm_few_takes(&of_family) ? gemm_few_workspace_bytes(&of_family, threads) : 0;
        if (few > most) most = few;
        of_family.M = g->M;
        size_t bytes = product_make(&p, &of_family, threads, NULL);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* ---- the work ---- */

/* A piece of work of this phase, or -1 when none is left. */
static int64_t claim(Product *p, int64_t phase, int64_t pieces)
{
    int64_t piece = atomic_fetch_add(&p->next[phase % 2], 1);
    return piece < pieces ? piece : -1;
}

/* Ends a phase. Thread 0 resets its counter, which is used again in the phase after the next: that begins
 * after another barrier, so no thread can meet the old value. */
static void phase_end(Product *p, int64_t *phase, int thread)
{
    team_barrier(p->team);
    if (thread == 0) atomic_store(&p->next[*phase % 2], 0);
    (*phase)++;
}

/* The strips of depth block k0 (words from the pass's begin), `words` long, from strip `first` on. */
static GemmWord *slab_strip(const Product *p, const Pass *pass, int64_t k0, int64_t words, int64_t strip)
{
    return p->slab + k0 * rounded(pass->columns, p->f->columns) + strip * words * p->f->columns;
}

/* Packs one piece of the slab: PACK_STRIPS strips of one depth block. */
static void pack_piece(const Product *p, const Pass *pass, int64_t piece)
{
    const GemmMatrix *b = &p->g->b;
    int64_t across = divide_up(pass->columns, PACK_STRIPS * p->f->columns);
    int64_t k0 = piece / across * KC, words = least(KC, pass->words - k0);
    int64_t strip = piece % across * PACK_STRIPS, n0 = strip * p->f->columns;
    int64_t k = (pass->k0 + k0) * p->per_word, depth = least(words * p->per_word, p->g->K - k);
    const char *from = (const char *)b->at + (k * b->row + (pass->n0 + n0) * b->col) * p->element;
    (b->col == 1 ? p->f->pack_b : p->f->pack_b_transposed)
        (slab_strip(p, pass, k0, words, strip), from, b->col == 1 ? b->row : b->col, depth,
         least(pass->columns - n0, PACK_STRIPS * p->f->columns), p->form);
}

/* How the kernel reads the tiles of a block of a: tile i at `at` + i * `tile` bytes. */
typedef struct { const char *at; int64_t tile, row; GemmLayout layout; } BlockOfA;

/* Rows with adjacent k are read where they lie, which saves their packing: a block of them stays in the
 * second-level cache as it is. Only what the kernel cannot read so is packed or copied first: columns,
 * 16-bit numbers that are to be widened, a block whose last tile is not complete, an odd last element of
 * pairs. */
static BlockOfA block_of_a(const Product *p, GemmWord *packed, int64_t m0, int64_t rows, int64_t k,
                           int64_t words)
{
    const GemmMatrix *a = &p->g->a;
    const GemmFamily *f = p->f;
    int64_t depth = least(words * p->per_word, p->g->K - k);
    bool whole = depth % p->per_word == 0 && rows % f->rows == 0;
    const char *from = (const char *)a->at + (m0 * a->row + k * a->col) * p->element;
    if (a->col != 1) {
        f->pack_a(packed, from, a->col, depth, rows, p->form);
        return (BlockOfA){ (const char *)packed, f->rows * words * 4, 4, GEMM_STRIPS };
    }
    if ((p->form == GEMM_WORDS || p->form == GEMM_PAIRS) && whole)
        return (BlockOfA){ from, f->rows * a->row * p->element, a->row * p->element, GEMM_ROWS };
    for (int64_t m = 0; m < rows; m += f->rows)
        f->copy_a(packed + m * words, from + m * a->row * p->element, a->row, depth,
                  least(rows - m, f->rows), p->form);
    return (BlockOfA){ (const char *)packed, f->rows * words * 4, words * 4, GEMM_ROWS };
}

/* One tile of y over one depth block. A complete tile of fp32 is added to in place; any other is summed in a
 * buffer, or through p->sums from one depth block to the next. */
typedef struct { int64_t m, n; int rows, columns; bool first, last; float *sums; int64_t sums_row; } Tile;

/* The sums of a tile begin with the bias. Columns beyond y, up to a whole vector, are set to 0, so that
 * nothing unset is read. */
static void bias_rows(float *sum, int64_t sum_row, const Product *p, const Tile *t)
{
    int64_t width = rounded(t->columns, p->f->lanes);
    float bias[TILE_FLOATS];
    dtype_convert(bias, F32, (const char *)p->g->bias + t->n * (int64_t)dtype_width(p->g->bias_type),
                  p->g->bias_type, t->columns);
    for (int64_t c = t->columns; c < width; c++) bias[c] = 0;
    for (int r = 0; r < p->f->rows; r++)
        memcpy(sum + r * sum_row, bias, (size_t)width * sizeof *bias);
}

/* The complete sums of a tile times the scale, plus y or the bias. */
static void scale_tile(const Product *p, const Tile *t, float *sum, int64_t sum_row, const char *y)
{
    const Gemm *g = p->g;
    int64_t columns = p->f->columns;
    float   more[TILE_FLOATS] = { 0 };
    if (g->add) p->f->load(more, columns, y, g->y_row, t->rows, t->columns, g->output);
    if (g->bias) bias_rows(more, columns, p, t);
    for (int r = 0; r < t->rows; r++)
        for (int64_t c = 0; c < t->columns; c++)
            sum[r * sum_row + c] = sum[r * sum_row + c] * g->scale + more[r * columns + c];
}

static void multiply_tile(const Product *p, const Tile *t, const char *a, const BlockOfA *block,
                          const GemmWord *b, int64_t words, GemmAhead ahead)
{
    const Gemm *g = p->g;
    const GemmFamily *f = p->f;
    GemmTile *multiply = gemm_tile(f, t->columns, p->form == GEMM_PAIRS, block->layout);
    char *y = (char *)g->y + (t->m * g->y_row + t->n) * (g->output == F32 ? 4 : 2);
    bool  begun = g->add && !g->scaled, add = begun || !t->first, bias = g->bias && t->first && !g->scaled;
    if (g->output == F32 && !g->scaled && t->rows == f->rows && t->columns % f->lanes == 0) {
        if (bias) bias_rows((float *)y, g->y_row, p, t);
        multiply((float *)y, g->y_row, add || bias, a, block->row, b, words, ahead);
        return;
    }
    float   buffer[TILE_FLOATS] __attribute__((aligned(64)));
    float  *sum     = t->sums ? t->sums : buffer;
    int64_t sum_row = t->sums ? t->sums_row : f->columns;
    if (t->sums ? t->first && begun : add)
        f->load(sum, sum_row, y, g->y_row, t->rows, t->columns, g->output);
    if (bias) bias_rows(sum, sum_row, p, t);
    multiply(sum, sum_row, add || bias, a, block->row, b, words, ahead);
    if (g->scaled && t->last) scale_tile(p, t, sum, sum_row, y);
    if (!t->sums || t->last) f->store(y, g->y_row, sum, sum_row, t->rows, t->columns, g->output);
}

/* The first row of a block, and M behind the last one. */
static int64_t block_row(const Product *p, int64_t block)
{
    int64_t tiles = divide_up(p->g->M, p->f->rows);
    return least(block * tiles / p->blocks * p->f->rows, p->g->M);
}

/* The rows of one block times some strips of the slab. */
static void multiply_piece(const Product *p, const Pass *pass, int64_t piece, int thread)
{
    const GemmFamily *f = p->f;
    int64_t m0 = block_row(p, piece / p->groups), rows = block_row(p, piece / p->groups + 1) - m0;
    int64_t strips = divide_up(pass->columns, f->columns), width = strips * f->columns;
    int64_t group = piece % p->groups;
    int64_t begin = group * strips / p->groups, end = (group + 1) * strips / p->groups;
    GemmWord *packed = p->a + thread * p->block_rows * KC;
    int64_t tiles = divide_up(rows, f->rows);
    GemmAhead ahead = { .step = least(divide_up(f->columns * 4, tiles), f->most_ahead) };
    float *sums = p->sums;
    if (sums) sums += (p->sums_of_all_rows ? m0 : thread * p->block_rows) * width;

    int64_t k0 = 0;
    do {                               /* once for a depth of 0 */
        int64_t words = least(KC, pass->words - k0);
        BlockOfA block = block_of_a(p, packed, m0, rows, (pass->k0 + k0) * p->per_word, words);
        for (int64_t s = begin; s < end; s++) {
            const GemmWord *b = slab_strip(p, pass, k0, words, s);
            Tile t = { .n = pass->n0 + s * f->columns, .sums_row = width,
                       .columns = (int)least(f->columns, pass->columns - s * f->columns),
                       .first = pass->first && k0 == 0, .last = pass->last && k0 + words == pass->words };
            /* The next strip follows this one in the slab; each tile prefetches its share. */
            uintptr_t next = (uintptr_t)(b + words * f->columns), bytes = (uintptr_t)(words * f->columns * 4);
            for (int64_t m = 0; m < rows; m += f->rows) {
                t.m = m0 + m, t.rows = (int)least(f->rows, rows - m);
                if (sums) t.sums = sums + m * width + s * f->columns;
                ahead.at = (const void *)(next + (uintptr_t)(m / f->rows) * bytes / (uintptr_t)tiles);
                multiply_tile(p, &t, block.at + m / f->rows * block.tile, &block, b, words, ahead);
            }
        }
        k0 += words;
    } while (k0 < pass->words);
    const GemmEpilogue *e = &p->g->epilogue;
    if (e->call && pass->last)
        e->call(e->context, m0, rows, pass->n0 + begin * f->columns,
                least(pass->columns, end * f->columns) - begin * f->columns);
}

static void multiply_all(void *context, int thread, int threads)
{
    Product *p = context;
    int64_t phase = 0;
    (void)threads;
    for (int64_t n0 = 0; n0 < p->g->N; n0 += NC) {
        int64_t k0 = 0;
        do {
            Pass pass = { .n0 = n0, .columns = least(NC, p->g->N - n0), .k0 = k0,
                          .words = least(KC_PASS, p->words - k0), .first = k0 == 0 };
            pass.last = k0 + pass.words == p->words;
            int64_t piece, strips = PACK_STRIPS * p->f->columns;
            int64_t packs = divide_up(pass.words, KC) * divide_up(pass.columns, strips);
            while ((piece = claim(p, phase, packs)) >= 0) pack_piece(p, &pass, piece);
            phase_end(p, &phase, thread);
            int64_t pieces = p->blocks * p->groups;
            while ((piece = claim(p, phase, pieces)) >= 0) {
                multiply_piece(p, &pass, piece, thread);
                if (thread == 0) team_poll(p->team);
            }
            phase_end(p, &phase, thread);
            k0 += pass.words;
        } while (k0 < p->words);
    }
}

void gemm(Team *team, const Gemm *g, void *workspace, size_t workspace_bytes)
{
    CHECK(g->M >= 0 && g->N >= 0 && g->K >= 0, "gemm of %lld x %lld x %lld", (long long)g->M, (long long)g->N,
          (long long)g->K);
    CHECK(g->a.col == 1 || g->a.row == 1, "gemm wants rows or columns of a adjacent");
    CHECK(g->b.col == 1 || g->b.row == 1, "gemm wants rows or columns of b adjacent");
    CHECK(!g->family || kernel_family_callable(g->family), "the %s kernels do not run on this machine",
          kernel_family_name(g->family));
    CHECK((g->input == F32 || g->input == BF16 || g->input == F16) &&
          (g->output == F32 || g->output == BF16 || g->output == F16), "gemm of %s to %s",
          dtype_name(g->input), dtype_name(g->output));
    CHECK(!g->bias || !g->add, "gemm adds to a bias or to y, not to both");
    if (!g->M || !g->N) return;
    if (gemm_few_takes(g)) {
        gemm_few(team, g, workspace, workspace_bytes);
        return;
    }
    Product p;
    size_t need = product_make(&p, g, team_size(team), workspace);
    CHECK(workspace_bytes >= need, "gemm wants %zu bytes to work in, got %zu", need, workspace_bytes);
    CHECK((uintptr_t)workspace % 64 == 0, "gemm wants a workspace aligned to 64 bytes");
    p.team = team;
    team_run(team, multiply_all, &p);
}
