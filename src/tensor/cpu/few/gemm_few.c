/* A piece of work is some strips of columns, each as wide as a register tile. With no more rows than a
 * register tile has the columns are multiplied where they lie; with more they are packed into a strip of the
 * thread's own, GEMM_DEPTH words at a time, which stays in the second-level cache for all rows. */
#include "tensor/cpu/few/gemm_few.h"

#include <string.h>
#include "base/integer.h"
#include "tensor/cpu/gemm_family.h"

enum { FLOATS = 48 };                          /* columns of the widest strip */

typedef struct {
    const Gemm       *g;
    const GemmFamily *f;
    GemmForm form;
    int64_t  per_word;                 /* elements of the depth in a word of a */
    int64_t  words;                    /* of the whole depth, of a */
    int64_t  rows;                     /* of a, rounded up to register tiles */
    int64_t  element;                  /* bytes */
    const char *a;                     /* as the register tiles read it */
    int64_t  a_row;                    /* bytes */
    GemmWord *copy, *strips;           /* of a, unless it is read in place; a strip for each thread */
    float    *sums;                    /* [thread][rows][columns] */
    Team     *team;
    int64_t   group;                   /* strips of a piece of work, adjacent, since the next is prefetched */
} Few;

bool gemm_few_takes(const Gemm *g)
{
    bool forward = g->b.row == 1 && g->a.col == 1 && !g->add && !g->scaled;
    return g->M <= GEMM_FEW_ROWS && forward && !g->epilogue.whole_rows;
}

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t few_make(Few *p, const Gemm *g, int threads, char *memory)
{
    const GemmFamily *f = gemm_family_of(g->family);
    *p = (Few){ .g = g, .f = f, .element = g->input == F32 ? 4 : 2 };
    p->form = g->input == F32 ? GEMM_WORDS : g->input == F16 ? GEMM_HALVES
            : f->pairs ? GEMM_PAIRS : GEMM_WIDENED;
    p->per_word = p->form == GEMM_PAIRS ? 2 : 1;
    p->words    = divide_up(g->K, p->per_word);
    p->rows     = divide_up(g->M, f->rows) * f->rows;
    size_t copy   = aligned((size_t)(p->rows * p->words) * sizeof *p->copy);
    size_t strips = aligned((size_t)(GEMM_DEPTH * f->columns * threads) * sizeof *p->strips);
    size_t sums   = aligned((size_t)(p->rows * f->columns * threads) * sizeof *p->sums);
    if (memory) {
        p->copy   = (GemmWord *)memory;
        p->strips = (GemmWord *)(memory + copy);
        p->sums   = (float *)(memory + copy + strips);
    }
    return copy + strips + sums;
}

size_t gemm_few_workspace_bytes(const Gemm *g, int threads)
{
    Few p;
    return few_make(&p, g, threads, NULL);
}

/* Which of the family's functions multiplies columns where they lie; -1: none, they are packed. */
static int few_which(const Few *p)
{
    int64_t M = p->g->M, two = p->form == GEMM_WIDENED || p->form == GEMM_HALVES ? 2 : 1;
    if (M > p->f->rows || p->g->K == 0 || p->g->K % (p->per_word * two * p->f->lanes) != 0) return -1;
    return M == 1 ? 0 : M == 2 ? 1 : M <= 4 ? 2 : 3;
}

/* Rows are read where they lie if the register tiles can read them and all that these read are there. */
static void few_read_a(Few *p)
{
    const Gemm *g = p->g;
    bool words = p->form == GEMM_WORDS || (p->form == GEMM_PAIRS && g->K % 2 == 0);
    bool exact = (g->M == 1 || g->M == 2 || g->M == 4) && few_which(p) >= 0 && g->N % p->f->lanes == 0;
    p->a = g->a.at, p->a_row = g->a.row * p->element;
    if (words && (g->M % p->f->rows == 0 || exact)) return;
    for (int64_t m = 0; m < g->M; m += p->f->rows)
        p->f->copy_a(p->copy + m * p->words, p->a + m * p->a_row, g->a.row, g->K, least(g->M - m, p->f->rows),
                     p->form);
    p->a = (const char *)p->copy, p->a_row = p->words * (int64_t)sizeof *p->copy;
}

/* The sums of `columns` columns begin with the bias, or are set by the first block of the depth. */
static bool few_begin(const Few *p, float *sums, int64_t n, int64_t columns)
{
    const Gemm *g = p->g;
    float bias[FLOATS];
    if (!g->bias) return false;
    const char *from = (const char *)g->bias + n * (int64_t)dtype_width(g->bias_type);
    dtype_convert(bias, F32, from, g->bias_type, columns);
    for (int64_t c = columns; c < p->f->columns; c++) bias[c] = 0;
    for (int64_t r = 0; r < p->rows; r++)
        memcpy(sums + r * p->f->columns, bias, (size_t)p->f->columns * sizeof *bias);
    return true;
}

static const char *few_column(const Few *p, int64_t n, int64_t word)
{
    return (const char *)p->g->b.at + (n * p->g->b.col + word * p->per_word) * p->element;
}

/* The first columns of a strip, complete vectors, without packing. Returns how many they are: 0 where that is
 * not possible. */
static int64_t few_in_place(const Few *p, float *sums, bool add, int64_t n, int64_t columns)
{
    const GemmFamily *f = p->f;
    int64_t two = p->form == GEMM_WIDENED || p->form == GEMM_HALVES ? 2 : 1;
    int64_t groups = columns / f->lanes;
    int which = few_which(p);
    if (which < 0) return 0;
    const char *ahead = few_column(p, n + columns, 0);
    for (int64_t k = 0, words; k < p->words; k += GEMM_DEPTH, ahead += words * groups * f->lanes * 4) {
        words = least(GEMM_DEPTH, p->words - k) / two;
        f->few[p->form][which](sums, f->columns, add || k > 0, p->a + k * 4, p->a_row, few_column(p, n, k),
                               p->g->b.col * p->element, words, groups, ahead);
    }
    return groups * f->lanes;
}

/* Columns [n, n + columns) by a packed strip. Meanwhile the tiles prefetch the columns that follow, which are
 * adjacent in memory. */
static void few_packed(const Few *p, float *sums, GemmWord *strip, bool add, int64_t n, int64_t columns)
{
    const GemmFamily *f = p->f;
    const Gemm *g = p->g;
    const char *ahead = few_column(p, n + columns, 0), *end = few_column(p, n + columns + f->columns, 0);
    /* Bytes of the next strip for a word of the depth, divided among the tiles. */
    int64_t share = divide_up(f->columns * p->per_word * p->element, divide_up(g->M, f->rows));
    int64_t step = least(share, f->most_ahead), k = 0;
    do {                               /* once for a depth of 0 */
        int64_t words = least(GEMM_DEPTH, p->words - k);
        int64_t depth = least(words * p->per_word, g->K - k * p->per_word);
        f->pack_b_transposed(strip, few_column(p, n, k), g->b.col, depth, columns, p->form);
        for (int64_t m = 0; m < g->M; m += f->rows, ahead += words * step) {
            GemmLayout rows = g->M - m <= GEMM_SHORT ? GEMM_SHORT_ROWS : GEMM_ROWS;
            gemm_tile(f, columns, p->form == GEMM_PAIRS, rows)(
                sums + m * f->columns, f->columns, add || k > 0, p->a + m * p->a_row + k * 4, p->a_row, strip,
                words, (GemmAhead){ ahead < end ? ahead : (const char *)strip, step });
        }
        k += words;
    } while (k < p->words);
}

/* Columns from n on, with the memory of a thread */
static void few_strip(const Few *p, int64_t n, int thread)
{
    const GemmFamily *f = p->f;
    const Gemm *g = p->g;
    int64_t columns = least(f->columns, g->N - n);
    float  *sums = p->sums + thread * p->rows * f->columns;
    bool    add = few_begin(p, sums, n, columns);
    int64_t done = few_in_place(p, sums, add, n, columns);
    GemmWord *strip = p->strips + thread * GEMM_DEPTH * f->columns;
    if (done < columns) few_packed(p, sums + done, strip, add, n + done, columns - done);
    for (int64_t m = 0; m < g->M; m += f->rows)
        f->store((char *)g->y + (m * g->y_row + n) * (g->output == F32 ? 4 : 2), g->y_row,
                 sums + m * f->columns, f->columns, (int)least(f->rows, g->M - m), (int)columns, g->output);
    if (g->epilogue.call) g->epilogue.call(g->epilogue.context, 0, g->M, n, columns);
}

static void few_thread(void *context, int thread, int threads)
{
    Few *p = context;
    int64_t width = p->f->columns, strips = divide_up(p->g->N, width);
    (void)threads;
    for (int64_t i; (i = team_claim(p->team, thread)) >= 0;) {
        int64_t end = least((i + 1) * p->group, strips);
        for (int64_t s = i * p->group; s < end; s++) few_strip(p, s * width, thread);
        if (thread == 0) team_poll(p->team);
    }
}

/* A piece reads some PIECE bytes, which takes longer than claiming it, unless threads would have none
 * then. */
enum { PIECE = 128 << 10 };

void gemm_few(Team *team, const Gemm *g, void *workspace, size_t workspace_bytes)
{
    Few p;
    int threads = team_size(team);
    size_t need = few_make(&p, g, threads, workspace);
    CHECK(workspace_bytes >= need, "gemm wants %zu bytes to work in, got %zu", need, workspace_bytes);
    CHECK((uintptr_t)workspace % 64 == 0, "gemm wants a workspace aligned to 64 bytes");
    int64_t strips = divide_up(g->N, p.f->columns), bytes = p.f->columns * g->K * p.element;
    p.team  = team;
    p.group = least(divide_up(PIECE, bytes + 1), divide_up(strips, 2 * threads));
    few_read_a(&p);
    team_share(team, divide_up(strips, p.group));
    if (strips > 1) team_run(team, few_thread, &p);
    else few_thread(&p, 0, 1);
}
