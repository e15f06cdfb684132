/* GaLore (Zhao et al. 2024, arXiv 2403.03507): moments of the gradient's projection on its first singular
 * vectors, which are renewed from time to time. The shorter side of a matrix is projected; of a square
 * one the columns. The moments stay when the vectors are renewed, so that the signs of vectors change
 * results: the component of largest magnitude is positive. Moments in full, or as 8-bit codes
 * (optim/adam8bit.c). Decay comes after the update, and with moments in full epsilon before the bias
 * correction, as in the authors' package. */
#include "optim/whole_matrix.h"
#include "tensor/dynamic_code.h"

enum { SUBSPACE, M, V };
enum { M_CODE = 1, M_SCALE, V_CODE, V_SCALE };

static bool columns_projected(const OptimizerPiece *p) { return p->rows >= p->columns; }

static void subspace_renew(const OptimizerRun *run, Tensor vector_rS, Tensor g_RC, bool columns)
{
    size_t  mark = arena_mark(run->scratch);
    int64_t S = vector_rS.dim[1], n = tensor_count(vector_rS);
    Tensor  gram_SS = tensor_new(run->scratch, "Gram matrix", g_RC.dtype, S, S);
    whole_matrix_gram(run, gram_SS, g_RC, columns);
    Eigen e = whole_matrix_eigen(run, gram_SS, whole_matrix_noise(run, gram_SS.dim[0]));
    round_sums(run->queue, (RoundSums){ .y_N = tensor_view(vector_rS, n),
                                        .x_N = tensor_flat(e.vector_AA, 0, n) });
    arena_reset(run->scratch, mark);
}

/* The projected gradient: g vectorT, or vector g. */
static Tensor project(const OptimizerRun *run, Tensor vector_rS, Tensor g_RC, bool columns)
{
    int64_t r = vector_rS.dim[0];
    Tensor  y = tensor_new(run->scratch, "projected gradient", g_RC.dtype, columns ? g_RC.dim[0] : r,
                           columns ? r : g_RC.dim[1]);
    Queue *q = run->queue;
    if (columns) matmul_forward(q, (MatmulForward){ .y_TK = y, .x_TC = g_RC, .w_KC = vector_rS });
    else matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = y, .dy_TK = vector_rS, .w_KC = g_RC });
    return y;
}

/* The direction in all of the matrix, over the gradient: u vector, or vectorT u. */
static void project_back(const OptimizerRun *run, Tensor g_RC, Tensor vector_rS, Tensor u, bool columns)
{
    Queue *q = run->queue;
    if (columns) {
        matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = g_RC, .dy_TK = u, .w_KC = vector_rS });
        return;
    }
    fill_zero(q, (FillZero){ .y = g_RC });
    matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = g_RC, .dy_TK = vector_rS, .x_TC = u });
}

/* The moments of one matrix begin at element `at` of the state, their scales at `block`. */
typedef void LowRankDirection(const OptimizerRun *run, const OptimizerPiece *p, Tensor u_N, int64_t at,
                              int64_t block);

static void direction_full(const OptimizerRun *run, const OptimizerPiece *p, Tensor u_N, int64_t at,
                           int64_t block)
{
    const OptimizerSettings *s = run->settings;
    (void)block;
    lamb_direction(run->queue, (LambDirection){ .g_N = u_N, .m_N = tensor_flat(p->state[M], at, u_N.dim[0]),
        .v_N = tensor_flat(p->state[V], at, u_N.dim[0]), .beta1 = s->beta1, .beta2 = s->beta2,
        .epsilon = s->epsilon, .late_correction = true });
}

static void direction_8bit(const OptimizerRun *run, const OptimizerPiece *p, Tensor u_N, int64_t at,
                           int64_t block)
{
    const OptimizerSettings *s = run->settings;
    int64_t n = u_N.dim[0], B = code_blocks(n);
    adam8bit(run->queue, (Adam8bit){ .g_N = u_N, .m_N = tensor_flat(p->state[M_CODE], at, n),
        .m_scale_B = tensor_flat(p->state[M_SCALE], block, B), .v_N = tensor_flat(p->state[V_CODE], at, n),
        .v_scale_B = tensor_flat(p->state[V_SCALE], block, B), .beta1 = s->beta1, .beta2 = s->beta2,
        .epsilon = s->epsilon });
}

static Tensor low_rank(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix, Tensor g_RC,
                       LowRankDirection *direction)
{
    int64_t S = p->rows < p->columns ? p->rows : p->columns;
    int64_t r = state_rank(&run->settings->sizes, p->rows, p->columns);
    bool    columns = columns_projected(p);
    Tensor  vector_rS = whole_matrix_state(p, SUBSPACE, matrix, r, S);
    if (whole_matrix_due(run, WORK_RENEWAL,
                         (whole_matrix_step(run) - 1) % run->settings->renewal == 0))
        subspace_renew(run, vector_rS, g_RC, columns);
    Tensor  u = project(run, vector_rS, g_RC, columns);
    int64_t n = tensor_count(u);
    direction(run, p, tensor_view(u, n), matrix * n, matrix * code_blocks(n));
    project_back(run, g_RC, vector_rS, u, columns);
    return g_RC;
}

static Tensor galore_direction(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix, Tensor g_RC)
{
    return low_rank(run, p, matrix, g_RC, direction_full);
}

static Tensor galore8bit_direction(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix,
                                   Tensor g_RC)
{
    return low_rank(run, p, matrix, g_RC, direction_8bit);
}

static double galore_scale(const OptimizerRun *run) { return run->settings->galore_scale; }

static void galore_update(const OptimizerRun *run, const OptimizerPiece *p)
{
    static const WholeDirection rule = { galore_direction, galore_scale, .decay_last = true };
    whole_matrix_update(run, p, &rule);                                             /* <-> cut */
}

static void galore8bit_update(const OptimizerRun *run, const OptimizerPiece *p)
{
    static const WholeDirection rule = { galore8bit_direction, galore_scale, .decay_last = true };
    whole_matrix_update(run, p, &rule);                                             /* <-> cut */
}

/* Of all other parameters: AdamW with epsilon and decay as above. */
static void others_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    lamb_direction(q, (LambDirection){ .g_N = p->g, .m_N = p->state[0], .v_N = p->state[1], .beta1 = s->beta1,
        .beta2 = s->beta2, .epsilon = s->epsilon, .late_correction = true, .stochastic = s->stochastic,
        .site = p->site, .place = p->place });
    muon_update(q, (MuonUpdate){ .w_N = p->w, .param_N = p->param, .o_N = p->g, .decay = p->decayed,
                                 .scale = 1, .decay_last = true, .decoupled = p->decoupled });
}

static int64_t galore_scratch(const Param *p, const StateSizes *sizes)
{
    return whole_matrix_scratch(p, sizes, 1, 5, true);
}

const UpdateRule galore_rule = { .states = 3,
    .state = { [SUBSPACE] = { "projection", STATE_EXACT, WHOLE_SUBSPACE },
               [M] = { "exp_avg", STATE_EXACT, WHOLE_PROJECTED },
               [V] = { "exp_avg_sq", STATE_EXACT, WHOLE_PROJECTED } },
    .granule = whole_matrix_granule, .scratch = galore_scratch, .update = galore_update };
const UpdateRule galore8bit_rule = { .states = 5,
    .state = { [SUBSPACE] = { "projection", STATE_EXACT, WHOLE_SUBSPACE },
               [M_CODE]  = { "exp_avg", STATE_CODE, WHOLE_PROJECTED },
               [M_SCALE] = { "exp_avg_scale", STATE_SCALE, WHOLE_CODE_BLOCK },
               [V_CODE]  = { "exp_avg_sq", STATE_CODE, WHOLE_PROJECTED },
               [V_SCALE] = { "exp_avg_sq_scale", STATE_SCALE, WHOLE_CODE_BLOCK } },
    .granule = whole_matrix_granule, .scratch = galore_scratch, .update = galore8bit_update };
const UpdateRule galore_others_rule = { .states = 2,
    .state = { { "exp_avg", STATE_MOMENT, PER_ELEMENT }, { "exp_avg_sq", STATE_SQUARE, PER_ELEMENT } },
    .begin = others_begin };
