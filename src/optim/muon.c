/* Muon: the momentum of a matrix, whose singular values Newton-Schulz iterations bring near 1, as its update.
 *
 * One rank iterates a whole matrix, whatever ranks hold its parts, so that the result depends on the layout
 * by roundings alone. The matrices that are cut over n ranks are taken n at a time: rank r gets the parts of
 * the r-th one, iterates it and sends the parts of the result back. So the ranks share the work, and
 * each element is sent at most twice, in the type of the iteration. Ranks that hold copies of a matrix, under
 * ZeRO 0 and in the groups of hybrid sharding, each iterate it.
 *
 * A, B   rows and columns of a matrix that is not tall, A <= B. A tall one is transposed, since a product has
 * A A B multiplications. */
#include "optim/optimizer.h"
#include <math.h>

enum { CUT_RANKS_MOST = 1024 };                        /* as of --tensor-model-parallel-size */

static void muon_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    muon_direction(q, (MuonDirection){ .g_N = p->g, .m_N = p->state[0], .momentum = s->muon.momentum,
        .nesterov = s->muon.nesterov, .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static int64_t muon_sums(const Param *param) { (void)param; return 1; }

/* sums = { g g }: the norm by which the matrix is divided */
static void muon_measure(Queue *q, const OptimizerPiece *p, int64_t first, int64_t count, Tensor out_1)
{
    square_sum(q, (SquareSum){ .out_1 = out_1, .x_N = tensor_flat(p->g, first, count) });
}

/* One matrix of a piece, and where this rank's part of it begins in the piece. */
typedef struct { const OptimizerPiece *piece; int64_t matrix, at; } MuonMatrix;

static int64_t part_count(const MuonMatrix *m) { return m->piece->local_rows * m->piece->local_columns; }

/* (a, b, c) of iteration i */
static const double *coefficients(MuonCoefficients set, int i)
{
    static const double simple[3] = { 3.4445, -4.7750, 2.0315 };
    static const double quintic[5][3] = { { 4.0848, -6.8946, 2.9270 }, { 3.9505, -6.3029, 2.6377 },
        { 3.7418, -5.5913, 2.3037 }, { 2.8769, -3.1427, 1.2046 }, { 2.8366, -3.0525, 1.2012 } };
    return set == MUON_SIMPLE ? simple : quintic[i % 5];
}

/* G = X XT,   P = b G + c G G,   X = a X + P X.  Returns X in one of x and y, which are both overwritten. */
static Tensor iterate(const OptimizerRun *run, Tensor x_AB, Tensor y_AB)
{
    const MuonSettings *s = &run->settings->muon;
    Queue  *q = run->queue;
    int64_t A = x_AB.dim[0], n = tensor_count(x_AB);
    size_t  mark = arena_mark(run->scratch);
    Tensor  g_AA = tensor_new(run->scratch, "Newton-Schulz Gram matrix", x_AB.dtype, A, A);
    Tensor  p_AA = tensor_new(run->scratch, "Newton-Schulz polynomial", x_AB.dtype, A, A);
    for (int i = 0; i < s->steps; i++) {
        const double *abc = coefficients(s->coefficients, i);
        matmul_forward(q, (MatmulForward){ .y_TK = g_AA, .x_TC = x_AB, .w_KC = x_AB });
        /* G is symmetric */
        matmul_forward(q, (MatmulForward){ .y_TK = p_AA, .x_TC = g_AA, .w_KC = g_AA });
        scaled_sum(q, (ScaledSum){ .y_N = tensor_view(p_AA, A * A), .x_N = tensor_view(g_AA, A * A),
                                   .y_factor = abc[2], .x_factor = abc[1] });
        matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = y_AB, .dy_TK = p_AA, .w_KC = x_AB });
        scaled_sum(q, (ScaledSum){ .y_N = tensor_view(y_AB, n), .x_N = tensor_view(x_AB, n),
                                   .y_factor = 1, .x_factor = abc[0] });
        Tensor swap = x_AB;
        x_AB = y_AB;
        y_AB = swap;
    }
    arena_reset(run->scratch, mark);
    return x_AB;
}

/* Part r of a matrix [A, B] that is transposed if it is tall, with the part's own rows and columns. */
static Tensor part_view(Tensor x_AB, const OptimizerPiece *p, int r)
{
    bool rows_cut = p->local_rows < p->rows, tall = p->rows > p->columns;
    Tensor x = x_AB;
    if (tall)
        x = (Tensor){ .data = x_AB.data, .dtype = x_AB.dtype, .dim = { p->rows, p->columns, 1, 1 },
                      .stride = { 1, p->rows, 1, 1 } };
    if (p->parts == 1) return x;
    return rows_cut ? tensor_slice(x, 0, r * p->local_rows, p->local_rows)
                    : tensor_slice(x, 1, r * p->local_columns, p->local_columns);
}

/* Makes the matrix orthogonal whose parts lie in `parts` one after the other, of each rank of `ranks` one;
 * ranks that have copies of a part follow each other. */
static void orthogonalize(const OptimizerRun *run, const OptimizerPiece *p, Tensor parts, int ranks)
{
    int64_t A = p->rows < p->columns ? p->rows : p->columns, B = p->rows + p->columns - A;
    int64_t part = p->local_rows * p->local_columns;
    size_t  mark = arena_mark(run->scratch);
    Tensor  x_AB = tensor_new(run->scratch, "Newton-Schulz X", parts.dtype, A, B);
    Tensor  y_AB = tensor_new(run->scratch, "Newton-Schulz next X", parts.dtype, A, B);
    for (int r = 0; r < ranks; r++)
        copy_strided(run->queue, (CopyStrided){ .y = part_view(x_AB, p, r * p->parts / ranks),
            .x = tensor_view(tensor_flat(parts, r * part, part), p->local_rows, p->local_columns) });
    x_AB = iterate(run, x_AB, y_AB);
    for (int r = 0; r < ranks; r++)
        copy_strided(run->queue, (CopyStrided){
            .y = tensor_view(tensor_flat(parts, r * part, part), p->local_rows, p->local_columns),
            .x = part_view(x_AB, p, r * p->parts / ranks) });
    arena_reset(run->scratch, mark);
}

static double scale_of(const MuonSettings *s, const OptimizerPiece *p)
{
    double ratio = (double)p->rows / (double)p->columns;
    switch (s->scale) {
    case MUON_SPECTRAL: return s->extra * sqrt((double)(p->rows > p->columns ? p->rows : p->columns));
    case MUON_UNIT_RMS: return s->extra * sqrt(ratio);
    case MUON_SHAPE:    return s->extra * sqrt(ratio > 1 ? ratio : 1);
    }
    return s->extra;
}

static Dtype iteration_type(const OptimizerRun *run)
{
    Dtype compute = run->queue->backend->compute;
    return run->settings->muon.narrow && compute == F32 ? BF16 : compute;
}

static void normalize_part(const OptimizerRun *run, const MuonMatrix *m, Tensor y_N)
{
    normalize(run->queue, (Normalize){ .y_N = y_N, .x_N = tensor_flat(m->piece->g, m->at, part_count(m)),
        .squares_1 = piece_sums(run->sums_N, m->piece, 0, m->matrix), .epsilon = 1e-7 });
}

static void update_part(const OptimizerRun *run, const MuonMatrix *m, Tensor o_N)
{
    const OptimizerPiece *p = m->piece;
    int64_t n = part_count(m);
    muon_update(run->queue, (MuonUpdate){ .w_N = tensor_flat(p->w, m->at, n), .o_N = o_N,
        .param_N = tensor_present(p->param) ? tensor_flat(p->param, m->at, n) : tensor_none(),
        .decay = p->decayed, .scale = scale_of(&run->settings->muon, p) });
}

/* Up to as many matrices as ranks of cut; NULL: one that is whole here. */
static void finish_group(const OptimizerRun *run, Comm *cut, const MuonMatrix *group, int count)
{
    int ranks = cut ? comm_size(cut) : 1, rank = cut ? comm_rank(cut) : 0;
    int64_t own_at[CUT_RANKS_MOST + 1], whole_at[CUT_RANKS_MOST + 1];
    CHECK(ranks <= CUT_RANKS_MOST, "a matrix is cut over %d ranks, at most %d are possible", ranks,
          CUT_RANKS_MOST);
    own_at[0] = whole_at[0] = 0;
    for (int r = 0; r < ranks; r++) {
        own_at[r + 1]   = own_at[r] + (r < count ? part_count(&group[r]) : 0);
        whole_at[r + 1] = whole_at[r] + (rank < count ? part_count(&group[rank]) : 0);
    }
    size_t mark = arena_mark(run->scratch);
    Tensor own = tensor_new(run->scratch, "Newton-Schulz input", iteration_type(run), own_at[ranks]);
    Tensor whole = own;
    for (int i = 0; i < count; i++)
        normalize_part(run, &group[i], tensor_flat(own, own_at[i], part_count(&group[i])));
    if (ranks > 1) {
        whole = tensor_new(run->scratch, "Newton-Schulz gathered input", own.dtype, whole_at[ranks]);
        comm_all_to_all(cut, run->queue, whole, whole_at, own, own_at);             /* <-> cut: all-to-all */
    }
    if (rank < count) orthogonalize(run, group[rank].piece, whole, ranks);
    if (ranks > 1) comm_all_to_all(cut, run->queue, own, own_at, whole, whole_at);  /* <-> cut: all-to-all */
    for (int i = 0; i < count; i++)
        update_part(run, &group[i], tensor_flat(own, own_at[i], part_count(&group[i])));
    arena_reset(run->scratch, mark);
}

/* The matrices that are cut over `cut`, in the order of pieces, which is the same on all its ranks. */
static void finish_cut(const OptimizerRun *run, const UpdateRule *rule, Comm *cut)
{
    MuonMatrix group[CUT_RANKS_MOST];
    int count = 0, most = cut ? comm_size(cut) : 1;
    for (int i = 0; i < run->pieces; i++) {
        const OptimizerPiece *p = &run->piece[i];
        int64_t matrix = p->local_rows * p->local_columns;
        for (int64_t at = 0; p->rule == rule && p->cut == cut && at < p->count; at += matrix) {
            group[count++] = (MuonMatrix){ p, p->first_matrix + (p->first + at) / matrix, at };
            if (count == most) { finish_group(run, cut, group, count); count = 0; }  /* <-> cut */
        }
    }
    if (count > 0) finish_group(run, cut, group, count);                            /* <-> cut */
}

/* One communicator after the other, so that ranks whose lists differ in others wait for nobody. */
static void muon_finish(const OptimizerRun *run, const UpdateRule *rule)
{
    finish_cut(run, rule, NULL);
    for (int i = 0; i < run->pieces; i++) {
        Comm *cut = run->piece[i].rule == rule ? run->piece[i].cut : NULL;
        for (int k = 0; cut && k < i; k++)
            if (run->piece[k].rule == rule && run->piece[k].cut == cut) cut = NULL;
        if (cut) finish_cut(run, rule, cut);                                        /* <-> cut */
    }
}

/* Of experts each one's matrix. */
static int64_t matrix_granule(const Param *param)
{
    return param_elements(param) / (param->dims == PARAM_DIMS ? param->local[0] : 1);
}

const UpdateRule muon_rule = { .states = 1, .state = { { "momentum_buffer", STATE_MOMENT, PER_ELEMENT } },
    .granule = matrix_granule, .whole = true,
    .begin = muon_begin, .phases = 1, .phase = { { muon_sums, muon_measure, muon_finish } } };
