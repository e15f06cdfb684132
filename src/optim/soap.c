/* SOAP (Vyas et al. 2024, arXiv 2409.11321): Adam in the eigenbases of the means of the gradient's
 * products on both sides, whose rows are vectors here. The first update makes the bases alone; later ones
 * are renewed from time to time by a step of power iteration. A side that is too long has no basis. The
 * first moment is not rotated.
 *
 * R, C   rows and columns of the matrix */
#include "optim/whole_matrix.h"
#include <float.h>

enum { M, V, LEFT, RIGHT, LEFT_BASIS, RIGHT_BASIS };

/* Of eigenvalues, those that are roundings in fp32. In double they count as such too: means of products have
 * roundings of the largest eigenvalue, by which a vector turns as far as its own is small, and moments are
 * divided by the size in its direction. */
static double vector_noise(int64_t side) { return 8 * (double)side * (double)FLT_EPSILON; }

static Tensor square(const OptimizerPiece *p, int s, int64_t matrix, bool right)
{
    int64_t side = right ? p->columns : p->rows;
    return tensor_present(p->state[s]) ? whole_matrix_state(p, s, matrix, side, side) : tensor_none();
}

/* y = left x rightT, and back y = leftT x right */
static void rotate(const OptimizerRun *run, Tensor y_RC, Tensor x_RC, Tensor left_RR, Tensor right_CC,
                   bool back)
{
    Queue *q = run->queue;
    size_t mark = arena_mark(run->scratch);
    Tensor half_RC = tensor_new(run->scratch, "rotated matrix", y_RC.dtype, y_RC.dim[0], y_RC.dim[1]);
    MatmulBackwardInput right_back = { .dx_TC = half_RC, .dy_TK = x_RC, .w_KC = right_CC };
    MatmulBackwardInput left = { .dx_TC = y_RC, .dy_TK = left_RR, .w_KC = half_RC };
    if (!tensor_present(right_CC)) copy_strided(q, (CopyStrided){ .y = half_RC, .x = x_RC });
    else if (back) matmul_backward_input(q, right_back);
    else matmul_forward(q, (MatmulForward){ .y_TK = half_RC, .x_TC = x_RC, .w_KC = right_CC });
    if (!tensor_present(left_RR)) copy_strided(q, (CopyStrided){ .y = y_RC, .x = half_RC });
    else if (back) {
        fill_zero(q, (FillZero){ .y = y_RC });
        matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = y_RC, .dy_TK = left_RR, .x_TC = half_RC });
    } else matmul_backward_input(q, left);
    arena_reset(run->scratch, mark);
}

static void gram_update(const OptimizerRun *run, Tensor mean_AA, Tensor g_RC, bool right)
{
    size_t  mark = arena_mark(run->scratch);
    int64_t A = mean_AA.dim[0];
    double  beta = run->settings->gram_beta;
    Tensor  gram_AA = tensor_new(run->scratch, "Gram matrix", g_RC.dtype, A, A);
    whole_matrix_gram(run, gram_AA, g_RC, right);
    scaled_sum(run->queue, (ScaledSum){ .y_N = tensor_view(mean_AA, A * A), .y_factor = beta,
                                        .x_N = tensor_view(gram_AA, A * A), .x_factor = 1 - beta });
    arena_reset(run->scratch, mark);
}

static void basis_first(const OptimizerRun *run, Tensor basis_AA, Tensor mean_AA)
{
    size_t  mark = arena_mark(run->scratch);
    int64_t n = tensor_count(basis_AA);
    Eigen   e = whole_matrix_eigen(run, mean_AA, vector_noise(basis_AA.dim[0]));
    round_sums(run->queue, (RoundSums){ .y_N = tensor_view(basis_AA, n),
                                        .x_N = tensor_view(e.vector_AA, n) });
    arena_reset(run->scratch, mark);
}

/* Vectors times the mean of products, in the order of their eigenvalues, made orthonormal. The second moment
 * follows the order. */
static void basis_renew(const OptimizerRun *run, Tensor basis_AA, Tensor mean_AA, Tensor v_RC, bool right)
{
    Queue  *q = run->queue;
    size_t  mark = arena_mark(run->scratch);
    int64_t A = basis_AA.dim[0];
    Tensor  power_AA  = tensor_new(run->scratch, "power iteration", basis_AA.dtype, A, A);
    Tensor  sorted_AA = tensor_new(run->scratch, "power iteration", basis_AA.dtype, A, A);
    Tensor  moved_RC  = tensor_new(run->scratch, "second moment in another order", v_RC.dtype,
                                   v_RC.dim[0], v_RC.dim[1]);
    Tensor  order_A = tensor_new(run->scratch, "order of vectors", I32, A);
    Tensor  key_A   = tensor_new(run->scratch, "order of vectors", F64, A);
    Tensor  work_WA = tensor_new(run->scratch, "work of orthonormal rows", F64, 2 * A + 2, A);
    matmul_forward(q, (MatmulForward){ .y_TK = power_AA, .x_TC = basis_AA, .w_KC = mean_AA });
    row_order(q, (RowOrder){ .order_A = order_A, .key_A = key_A, .x_AB = basis_AA, .y_AB = power_AA });
    permute(q, (Permute){ .y_AB = sorted_AA, .x_AB = power_AA, .row_A = order_A });
    orthonormal_rows(q, (OrthonormalRows){ .y_AA = basis_AA, .work_WA = work_WA, .x_AA = sorted_AA,
                                           .noise = vector_noise(A) });
    permute(q, right ? (Permute){ .y_AB = moved_RC, .x_AB = v_RC, .column_B = order_A }
                     : (Permute){ .y_AB = moved_RC, .x_AB = v_RC, .row_A = order_A });
    copy_strided(q, (CopyStrided){ .y = v_RC, .x = moved_RC });
    arena_reset(run->scratch, mark);
}

/* The direction in u from the mean gradient g, and new moments. */
static void adam_rotated(const OptimizerRun *run, Tensor u_RC, Tensor g_RC, Tensor m_RC, Tensor v_RC,
                         Tensor left_RR, Tensor right_CC)
{
    const OptimizerSettings *s = run->settings;
    Queue  *q = run->queue;
    size_t  mark = arena_mark(run->scratch);
    int64_t n = tensor_count(g_RC);
    Tensor  g_there = tensor_new(run->scratch, "rotated gradient", g_RC.dtype, g_RC.dim[0], g_RC.dim[1]);
    Tensor  m_there = tensor_new(run->scratch, "rotated moment", g_RC.dtype, g_RC.dim[0], g_RC.dim[1]);
    scaled_sum(q, (ScaledSum){ .y_N = tensor_view(m_RC, n), .x_N = tensor_view(g_RC, n), .y_factor = s->beta1,
                               .x_factor = 1 - s->beta1 });
    rotate(run, g_there, g_RC, left_RR, right_CC, false);
    rotate(run, m_there, m_RC, left_RR, right_CC, false);
    soap_direction(q, (SoapDirection){ .y_N = tensor_view(m_there, n), .v_N = tensor_view(v_RC, n),
        .x_N = tensor_view(g_there, n), .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon });
    rotate(run, u_RC, m_there, left_RR, right_CC, true);
    arena_reset(run->scratch, mark);
}

static Tensor soap_matrix(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix, Tensor g_RC)
{
    Queue  *q = run->queue;
    int64_t n = p->rows * p->columns, t = whole_matrix_step(run);
    Tensor  m = whole_matrix_state(p, M, matrix, p->rows, p->columns);
    Tensor  v = whole_matrix_state(p, V, matrix, p->rows, p->columns), basis[2];
    Tensor  u = tensor_new(run->scratch, "direction of a matrix", g_RC.dtype, p->rows, p->columns);
    gradient_mean(q, (GradientMean){ .y_N = tensor_view(g_RC, n), .g_N = tensor_view(g_RC, n) });
    for (int side = 0; side < 2; side++) basis[side] = square(p, LEFT_BASIS + side, matrix, side);
    if (whole_matrix_due(run, WORK_LATER, t > 1)) adam_rotated(run, u, g_RC, m, v, basis[0], basis[1]);
    else fill_zero(q, (FillZero){ .y = u });
    for (int side = 0; side < 2; side++) {
        Tensor mean = square(p, LEFT + side, matrix, side);
        if (!tensor_present(mean)) continue;
        gram_update(run, mean, g_RC, side);
        if (whole_matrix_due(run, WORK_FIRST, t == 1)) basis_first(run, basis[side], mean);
        if (whole_matrix_due(run, WORK_RENEWAL, t > 1 && (t - 1) % run->settings->renewal == 0))
            basis_renew(run, basis[side], mean, v, side);
    }
    return u;
}

static void soap_update(const OptimizerRun *run, const OptimizerPiece *p)
{
    static const WholeDirection rule = { .direction = soap_matrix, .decay_last = true, .begins = true };
    whole_matrix_update(run, p, &rule);                                             /* <-> cut */
}

static int64_t soap_scratch(const Param *p, const StateSizes *sizes)
{
    return whole_matrix_scratch(p, sizes, 3, 6, false);
}

const UpdateRule soap_rule = { .states = 6,
    .state = { [M] = { "exp_avg", STATE_EXACT, WHOLE_MATRIX },
               [V] = { "exp_avg_sq", STATE_EXACT, WHOLE_MATRIX },
               [LEFT]  = { "gram_left", STATE_EXACT, WHOLE_LEFT },
               [RIGHT] = { "gram_right", STATE_EXACT, WHOLE_RIGHT },
               [LEFT_BASIS]  = { "basis_left", STATE_EXACT, WHOLE_LEFT },
               [RIGHT_BASIS] = { "basis_right", STATE_EXACT, WHOLE_RIGHT } },
    .granule = whole_matrix_granule, .scratch = soap_scratch, .update = soap_update };
