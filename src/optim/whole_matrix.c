/* Matrices that are cut over ranks, each computed by one of them. */
#include "optim/whole_matrix.h"
#include <float.h>

enum { CUT_RANKS_MOST = 1024 };                        /* as of --tensor-model-parallel-size */

int64_t whole_matrix_part(const WholeMatrix *m) { return m->piece->local_rows * m->piece->local_columns; }

int64_t whole_matrix_granule(const Param *param)
{
    return param_elements(param) / (param->dims == PARAM_DIMS ? param->local[0] : 1);
}

static bool transposed(const WholeMatrixRule *whole, const OptimizerPiece *p)
{
    return whole->wide && p->rows > p->columns;
}

/* Part r of a matrix, which may be transposed, with the part's own rows and columns. */
static Tensor part_view(Tensor x, const OptimizerPiece *p, bool turned, int r)
{
    bool rows_cut = p->local_rows < p->rows;
    if (turned)
        x = (Tensor){ .data = x.data, .dtype = x.dtype, .dim = { p->rows, p->columns, 1, 1 },
                      .stride = { 1, p->rows, 1, 1 } };
    if (p->parts == 1) return x;
    return rows_cut ? tensor_slice(x, 0, r * p->local_rows, p->local_rows)
                    : tensor_slice(x, 1, r * p->local_columns, p->local_columns);
}

/* Computes the matrix whose parts lie in `parts` one after the other, of each rank of `ranks` one; ranks that
 * have copies of a part follow each other. The parts of the result take their place. */
static void compute_whole(const OptimizerRun *run, const WholeMatrixRule *whole, const WholeMatrix *m,
                          Tensor parts, int ranks)
{
    const OptimizerPiece *p = m->piece;
    bool    turned = transposed(whole, p);
    int64_t part = whole_matrix_part(m);
    size_t  mark = arena_mark(run->scratch);
    Tensor  x_RC = turned ? tensor_new(run->scratch, whole->whole, parts.dtype, p->columns, p->rows)
                          : tensor_new(run->scratch, whole->whole, parts.dtype, p->rows, p->columns);
    for (int r = 0; r < ranks; r++)
        copy_strided(run->queue, (CopyStrided){ .y = part_view(x_RC, p, turned, r * p->parts / ranks),
            .x = tensor_view(tensor_flat(parts, r * part, part), p->local_rows, p->local_columns) });
    x_RC = whole->compute(run, m, x_RC);
    for (int r = 0; r < ranks; r++)
        copy_strided(run->queue, (CopyStrided){
            .y = tensor_view(tensor_flat(parts, r * part, part), p->local_rows, p->local_columns),
            .x = part_view(x_RC, p, turned, r * p->parts / ranks) });
    arena_reset(run->scratch, mark);
}

/* Up to as many matrices as ranks of cut; NULL: one that is whole here. */
static void finish_group(const OptimizerRun *run, const WholeMatrixRule *whole, Comm *cut,
                         const WholeMatrix *group, int count)
{
    int ranks = cut ? comm_size(cut) : 1, rank = cut ? comm_rank(cut) : 0;
    int64_t own_at[CUT_RANKS_MOST + 1], whole_at[CUT_RANKS_MOST + 1];
    CHECK(ranks <= CUT_RANKS_MOST, "a matrix is cut over %d ranks, at most %d are possible", ranks,
          CUT_RANKS_MOST);
    own_at[0] = whole_at[0] = 0;
    for (int r = 0; r < ranks; r++) {
        own_at[r + 1]   = own_at[r] + (r < count ? whole_matrix_part(&group[r]) : 0);
        whole_at[r + 1] = whole_at[r] + (rank < count ? whole_matrix_part(&group[rank]) : 0);
    }
    size_t mark = arena_mark(run->scratch);
    Tensor own = tensor_new(run->scratch, whole->part, whole->type(run), own_at[ranks]), gathered = own;
    for (int i = 0; i < count; i++)
        whole->send(run, &group[i], tensor_flat(own, own_at[i], whole_matrix_part(&group[i])));
    if (ranks > 1) {
        gathered = tensor_new(run->scratch, whole->gathered, own.dtype, whole_at[ranks]);
        comm_all_to_all(cut, run->queue, gathered, whole_at, own, own_at);      /* <-> cut: all-to-all */
    }
    if (rank < count) compute_whole(run, whole, &group[rank], gathered, ranks);
    if (ranks > 1)
        comm_all_to_all(cut, run->queue, own, own_at, gathered, whole_at);      /* <-> cut: all-to-all */
    for (int i = 0; i < count; i++)
        whole->receive(run, &group[i], tensor_flat(own, own_at[i], whole_matrix_part(&group[i])));
    arena_reset(run->scratch, mark);
}

/* The matrices that are cut over `cut`, in the order of pieces, which is the same on all its ranks. */
static void finish_cut(const OptimizerRun *run, const UpdateRule *rule, const WholeMatrixRule *whole,
                       Comm *cut)
{
    WholeMatrix group[CUT_RANKS_MOST];
    int count = 0, most = cut ? comm_size(cut) : 1;
    for (int i = 0; i < run->pieces; i++) {
        const OptimizerPiece *p = &run->piece[i];
        int64_t matrix = p->local_rows * p->local_columns;
        for (int64_t at = 0; p->rule == rule && p->cut == cut && at < p->count; at += matrix) {
            group[count++] = (WholeMatrix){ p, p->first_matrix + (p->first + at) / matrix, at };
            if (count == most) { finish_group(run, whole, cut, group, count); count = 0; }  /* <-> cut */
        }
    }
    if (count > 0) finish_group(run, whole, cut, group, count);                             /* <-> cut */
}

/* One communicator after the other, so that ranks whose lists differ in others wait for nobody. */
void whole_matrix_finish(const OptimizerRun *run, const UpdateRule *rule, const WholeMatrixRule *whole)
{
    finish_cut(run, rule, whole, NULL);
    for (int i = 0; i < run->pieces; i++) {
        Comm *cut = run->piece[i].rule == rule ? run->piece[i].cut : NULL;
        for (int k = 0; cut && k < i; k++)
            if (run->piece[k].rule == rule && run->piece[k].cut == cut) cut = NULL;
        if (cut) finish_cut(run, rule, whole, cut);                                         /* <-> cut */
    }
}

/* ---- rules whose states are of whole matrices ---- */

/* The matrix of which the part begins at element `at` of the piece. */
static Tensor gather_gradient(const OptimizerRun *run, const OptimizerPiece *p, int64_t at)
{
    Queue  *q = run->queue;
    int64_t n = p->local_rows * p->local_columns;
    int     ranks = p->cut ? comm_size(p->cut) : 1;
    Tensor  whole = tensor_new(run->scratch, "gradient of a matrix", p->g.dtype, p->rows, p->columns);
    Tensor  own = tensor_view(tensor_flat(p->g, at, n), p->local_rows, p->local_columns);
    if (ranks == 1) {
        copy_strided(q, (CopyStrided){ .y = whole, .x = own });
        return whole;
    }
    size_t mark = arena_mark(run->scratch);
    Tensor parts = tensor_new(run->scratch, "gathered gradient of a matrix", p->g.dtype, ranks * n);
    comm_all_gather(p->cut, q, parts, tensor_flat(p->g, at, n));                /* <-> cut: all-gather */
    for (int r = 0; r < ranks; r++)
        copy_strided(q, (CopyStrided){ .y = part_view(whole, p, false, r * p->parts / ranks),
            .x = tensor_view(tensor_flat(parts, r * n, n), p->local_rows, p->local_columns) });
    arena_reset(run->scratch, mark);
    return whole;
}

static void update_matrix(const OptimizerRun *run, const OptimizerPiece *p, const WholeDirection *rule,
                          int64_t matrix)
{
    int64_t n = p->local_rows * p->local_columns, at = matrix * n;
    size_t  mark = arena_mark(run->scratch);
    Tensor  whole = gather_gradient(run, p, at);                                /* <-> cut */
    Tensor  u = rule->direction(run, p, matrix, whole), part = tensor_flat(p->g, at, n);
    if (rule->begins && !whole_matrix_due(run, WORK_LATER, whole_matrix_step(run) > 1)) {
        arena_reset(run->scratch, mark);
        return;
    }
    int     first = p->parts == 1 ? 0 : p->local_rows < p->rows ? (int)(p->row0 / p->local_rows)
                                      : (int)(p->column0 / p->local_columns);
    copy_strided(run->queue, (CopyStrided){ .y = tensor_view(part, p->local_rows, p->local_columns),
                                            .x = part_view(u, p, false, first) });
    muon_update(run->queue, (MuonUpdate){ .w_N = tensor_flat(p->w, at, n), .o_N = part,
        .param_N = tensor_present(p->param) ? tensor_flat(p->param, at, n) : tensor_none(),
        .decay = p->decayed, .scale = rule->scale ? rule->scale(run) : 1, .decay_last = rule->decay_last });
    arena_reset(run->scratch, mark);
}

/* All ranks skip a step together. */
void whole_matrix_update(const OptimizerRun *run, const OptimizerPiece *p, const WholeDirection *rule)
{
    int64_t matrices = p->count / (p->local_rows * p->local_columns);
    if (!whole_matrix_due(run, WORK_UPDATE, !queue_skips(run->queue))) return;
    for (int64_t m = 0; m < matrices; m++) update_matrix(run, p, rule, m);      /* <-> cut */
}

Tensor whole_matrix_state(const OptimizerPiece *p, int s, int64_t matrix, int64_t rows, int64_t columns)
{
    return tensor_view(tensor_flat(p->state[s], matrix * rows * columns, rows * columns), rows, columns);
}

int64_t whole_matrix_scratch(const Param *p, const StateSizes *sizes, int copies, int squares, bool shorter)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0;
    int64_t R = p->global[r], C = p->global[r + 1], least = R < C ? R : C, most = R + C - least;
    int64_t side = shorter || most > sizes->longest ? least : most;
    return copies * R * C + squares * side * side;
}

int64_t whole_matrix_step(const OptimizerRun *run) { return run->queue->host_state->updates + 1; }

bool whole_matrix_due(const OptimizerRun *run, Work work, bool due)
{
    if (run->queue->backend->dry) return !run->work || (*run->work & work);
    if (due && run->work) *run->work |= work;
    return due;
}

double whole_matrix_noise(const OptimizerRun *run, int64_t side)
{
    return 8 * (double)side * (run->queue->backend->compute == F64 ? DBL_EPSILON : (double)FLT_EPSILON);
}

Eigen whole_matrix_eigen(const OptimizerRun *run, Tensor x_AA, double noise)
{
    int64_t A = x_AA.dim[0];
    Eigen e = { .vector_AA = tensor_new(run->scratch, "eigenvectors", F64, A, A),
                .value_A = tensor_new(run->scratch, "eigenvalues", F64, A),
                .work_WA = tensor_new(run->scratch, "work of eigenvectors", F64, A + 5, A) };
    symmetric_eigen(run->queue, (SymmetricEigen){ .vector_AA = e.vector_AA, .value_A = e.value_A,
        .work_WA = e.work_WA, .x_AA = x_AA, .noise = noise });
    return e;
}

void whole_matrix_gram(const OptimizerRun *run, Tensor y_AA, Tensor x_RC, bool right)
{
    if (!right) {
        matmul_forward(run->queue, (MatmulForward){ .y_TK = y_AA, .x_TC = x_RC, .w_KC = x_RC });
        return;
    }
    fill_zero(run->queue, (FillZero){ .y = y_AA });
    matmul_backward_weight(run->queue, (MatmulBackwardWeight){ .dw_KC = y_AA, .dy_TK = x_RC, .x_TC = x_RC });
}
