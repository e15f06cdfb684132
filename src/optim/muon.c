/* Muon: the momentum of a matrix, whose singular values Newton-Schulz iterations bring near 1, as its update.
 * The iterations take whole matrices (optim/whole_matrix.h), which are sent in the type of the iteration.
 *
 * A, B   rows and columns of a matrix that is not tall, A <= B. A tall one is transposed, since a product has
 * A A B multiplications. */
#include "optim/whole_matrix.h"
#include <math.h>

static void muon_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    muon_direction(q, (MuonDirection){ .g_N = p->g, .m_N = p->state[0], .momentum = s->muon.momentum,
        .nesterov = s->muon.nesterov, .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static int64_t muon_sums(const Param *param) { (void)param; return 1; }

/* sums = { g g }: the norm by which the matrix is divided */
static void muon_measure(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                         Tensor out_1)
{
    Queue *q = run->queue;
    square_sum(q, (SquareSum){ .out_1 = out_1, .x_N = tensor_flat(p->g, first, count) });
}

/* (a, b, c) of iteration i */
static const double *coefficients(MuonCoefficients set, int i)
{
    static const double simple[3] = { 3.4445, -4.7750, 2.0315 };
    static const double quintic[5][3] = { { 4.0848, -6.8946, 2.9270 }, { 3.9505, -6.3029, 2.6377 },
        { 3.7418, -5.5913, 2.3037 }, { 2.8769, -3.1427, 1.2046 }, { 2.8366, -3.0525, 1.2012 } };
    return set == MUON_SIMPLE ? simple : quintic[i % 5];
}

/* G = X XT,   P = b G + c G G,   X = a X + P X.  X and the next X are in x and y in turn. */
static Tensor orthogonalize(const OptimizerRun *run, const WholeMatrix *m, Tensor x_AB)
{
    const MuonSettings *s = &run->settings->muon;
    Queue  *q = run->queue;
    int64_t A = x_AB.dim[0], n = tensor_count(x_AB);
    Tensor  y_AB = tensor_new(run->scratch, "Newton-Schulz next X", x_AB.dtype, A, x_AB.dim[1]);
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
    (void)m;
    return x_AB;
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

static void normalize_part(const OptimizerRun *run, const WholeMatrix *m, Tensor y_N)
{
    normalize(run->queue, (Normalize){ .y_N = y_N,
        .x_N = tensor_flat(m->piece->g, m->at, whole_matrix_part(m)),
        .squares_1 = piece_sums(run->sums_N, m->piece, 0, m->matrix), .epsilon = 1e-7 });
}

static void update_part(const OptimizerRun *run, const WholeMatrix *m, Tensor o_N)
{
    const OptimizerPiece *p = m->piece;
    int64_t n = whole_matrix_part(m);
    muon_update(run->queue, (MuonUpdate){ .w_N = tensor_flat(p->w, m->at, n), .o_N = o_N,
        .param_N = tensor_present(p->param) ? tensor_flat(p->param, m->at, n) : tensor_none(),
        .decay = p->decayed, .scale = scale_of(&run->settings->muon, p) });
}

static void muon_finish(const OptimizerRun *run, const UpdateRule *rule)
{
    static const WholeMatrixRule whole = { .part = "Newton-Schulz input",
        .gathered = "Newton-Schulz gathered input", .whole = "Newton-Schulz X", .wide = true,
        .type = iteration_type, .send = normalize_part, .receive = update_part, .compute = orthogonalize };
    whole_matrix_finish(run, rule, &whole);                                         /* <-> cut */
}

const UpdateRule muon_rule = { .states = 1, .state = { { "momentum_buffer", STATE_MOMENT, PER_ELEMENT } },
    .granule = whole_matrix_granule, .whole = true,
    .begin = muon_begin, .phases = 1, .phase = { { muon_sums, muon_measure, muon_finish } } };
