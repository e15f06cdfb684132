/* Distributed Shampoo (Shi et al. 2023, arXiv 2309.06497): the mean gradient between the inverse fourth
 * roots of the means of its products on both sides, with the length of Adam's direction (grafting). Roots
 * are renewed from time to time, at first in update number `renewal`; before that the direction is
 * Adam's. A side that is too long has no factor; that of the other side is then taken by its inverse square
 * root, since the exponent for k factors is -1 / (2 k) (Gupta et al. 2018; Anil et al. 2020, arXiv
 * 2002.09018). Without any factor the direction stays Adam's. */
#include "optim/whole_matrix.h"
#include "base/exponential.h"

enum { M, V, LEFT, RIGHT, LEFT_ROOT, RIGHT_ROOT };

static Tensor square(const OptimizerPiece *p, int s, int64_t matrix, bool right)
{
    int64_t side = right ? p->columns : p->rows;
    return tensor_present(p->state[s]) ? whole_matrix_state(p, s, matrix, side, side) : tensor_none();
}

/* factor = beta factor + (1 - beta) (g gT, or gT g) */
static void factor_update(const OptimizerRun *run, Tensor factor_AA, Tensor g_RC, bool right)
{
    size_t mark = arena_mark(run->scratch);
    double beta = run->settings->beta2;
    if (!tensor_present(factor_AA)) return;
    int64_t A = factor_AA.dim[0];
    Tensor gram_AA = tensor_new(run->scratch, "Gram matrix", g_RC.dtype, A, A);
    whole_matrix_gram(run, gram_AA, g_RC, right);
    scaled_sum(run->queue, (ScaledSum){ .y_N = tensor_view(factor_AA, A * A), .y_factor = beta,
                                        .x_N = tensor_view(gram_AA, A * A), .x_factor = 1 - beta });
    arena_reset(run->scratch, mark);
}

/* root = (factor / (1 - beta^t) + epsilon)^(-1 / (2 factors)) */
static void root_renew(const OptimizerRun *run, Tensor root_AA, Tensor factor_AA, int factors)
{
    Queue *q = run->queue;
    size_t mark = arena_mark(run->scratch);
    if (!tensor_present(factor_AA)) return;
    int64_t A = factor_AA.dim[0];
    double  share = 1 - natural_power(run->settings->beta2, (double)whole_matrix_step(run));
    Tensor  mean_AA = tensor_new(run->scratch, "Gram matrix", factor_AA.dtype, A, A);
    fill_zero(q, (FillZero){ .y = mean_AA });
    scaled_sum(q, (ScaledSum){ .y_N = tensor_view(mean_AA, A * A), .x_N = tensor_view(factor_AA, A * A),
                               .y_factor = 0, .x_factor = 1 / share });
    Eigen e = whole_matrix_eigen(run, mean_AA, whole_matrix_noise(run, A));
    Tensor work_AA = tensor_slice(e.work_WA, 0, 0, A);
    spectral_power(q, (SpectralPower){ .y_AA = root_AA, .value_A = e.value_A, .work_AA = work_AA,
        .vector_AA = e.vector_AA, .exponent = -0.5 / factors, .epsilon = run->settings->shampoo_epsilon });
    arena_reset(run->scratch, mark);
}

/* y = left m right */
static void precondition(const OptimizerRun *run, Tensor y_RC, Tensor m_RC, Tensor left_RR, Tensor right_CC)
{
    Queue *q = run->queue;
    size_t mark = arena_mark(run->scratch);
    Tensor half_RC = tensor_new(run->scratch, "gradient of a matrix", y_RC.dtype, y_RC.dim[0], y_RC.dim[1]);
    if (tensor_present(right_CC))
        matmul_forward(q, (MatmulForward){ .y_TK = half_RC, .x_TC = m_RC, .w_KC = right_CC });
    else copy_strided(q, (CopyStrided){ .y = half_RC, .x = m_RC });
    if (tensor_present(left_RR))
        matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = y_RC, .dy_TK = left_RR, .w_KC = half_RC });
    else copy_strided(q, (CopyStrided){ .y = y_RC, .x = half_RC });
    arena_reset(run->scratch, mark);
}

/* y = y |u| / |y| */
static void graft_length(const OptimizerRun *run, Tensor y_N, Tensor u_N)
{
    Queue *q = run->queue;
    size_t mark = arena_mark(run->scratch);
    Tensor squares_2 = tensor_new(run->scratch, "squared lengths", F64, 2);
    Tensor to_1 = tensor_new(run->scratch, "squared lengths", y_N.dtype, 1);
    fill_zero(q, (FillZero){ .y = squares_2 });
    square_sum(q, (SquareSum){ .out_1 = tensor_flat(squares_2, 0, 1), .x_N = y_N });
    square_sum(q, (SquareSum){ .out_1 = tensor_flat(squares_2, 1, 1), .x_N = u_N });
    round_sums(q, (RoundSums){ .y_N = to_1, .x_N = tensor_flat(squares_2, 1, 1) });
    graft(q, (Graft){ .y_N = y_N, .from_1 = tensor_flat(squares_2, 0, 1), .to_1 = to_1 });
    arena_reset(run->scratch, mark);
}

static Tensor shampoo_direction(const OptimizerRun *run, const OptimizerPiece *p, int64_t matrix, Tensor g_RC)
{
    const OptimizerSettings *s = run->settings;
    Queue  *q = run->queue;
    int64_t n = p->rows * p->columns, t = whole_matrix_step(run);
    Tensor  m = whole_matrix_state(p, M, matrix, p->rows, p->columns);
    Tensor  v = whole_matrix_state(p, V, matrix, p->rows, p->columns), factor[2], root[2];
    Tensor  y = tensor_new(run->scratch, "preconditioned gradient", g_RC.dtype, p->rows, p->columns);
    int factors = 0;
    gradient_mean(q, (GradientMean){ .y_N = tensor_view(y, n), .g_N = tensor_view(g_RC, n) });
    for (int side = 0; side < 2; side++) {
        factor[side] = square(p, LEFT + side, matrix, side);
        root[side]   = square(p, LEFT_ROOT + side, matrix, side);
        factors += tensor_present(factor[side]);
        factor_update(run, factor[side], y, side);
    }
    for (int side = 0; side < 2 && whole_matrix_due(run, WORK_RENEWAL, t % s->renewal == 0); side++)
        root_renew(run, root[side], factor[side], factors);
    lamb_direction(q, (LambDirection){ .g_N = tensor_view(g_RC, n), .m_N = tensor_view(m, n),
        .v_N = tensor_view(v, n), .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon });
    if (factors == 0 || !whole_matrix_due(run, WORK_LATER, t >= s->renewal)) return g_RC;
    precondition(run, y, m, root[0], root[1]);
    graft_length(run, tensor_view(y, n), tensor_view(g_RC, n));
    return y;
}

static void shampoo_update(const OptimizerRun *run, const OptimizerPiece *p)
{
    static const WholeDirection rule = { .direction = shampoo_direction };
    whole_matrix_update(run, p, &rule);                                             /* <-> cut */
}

static int64_t shampoo_scratch(const Param *p, const StateSizes *sizes)
{
    return whole_matrix_scratch(p, sizes, 2, 5, false);
}

const UpdateRule shampoo_rule = { .states = 6,
    .state = { [M] = { "exp_avg", STATE_EXACT, WHOLE_MATRIX },
               [V] = { "exp_avg_sq", STATE_EXACT, WHOLE_MATRIX },
               [LEFT]  = { "factor_left", STATE_EXACT, WHOLE_LEFT },
               [RIGHT] = { "factor_right", STATE_EXACT, WHOLE_RIGHT },
               [LEFT_ROOT]  = { "root_left", STATE_EXACT, WHOLE_LEFT },
               [RIGHT_ROOT] = { "root_right", STATE_EXACT, WHOLE_RIGHT } },
    .granule = whole_matrix_granule, .scratch = shampoo_scratch, .update = shampoo_update };
