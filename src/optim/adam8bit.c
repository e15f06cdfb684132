/* AdamW with 8-bit states (Dettmers et al. 2022, arXiv 2110.02861), of the matrices of layers: each
 * moment is a code, and a block of elements of the matrix has one scale. Embeddings keep states in full:
 * where a step does not reach a row and its second moment has been rounded to 0, the first would be
 * divided by epsilon alone.
 *
 * Blocks are those of the logical matrix. Where tensor parallelism cuts some, the ranks exchange the
 * largest magnitudes of what each has of a block. */
#include "optim/optimizer.h"
#include "tensor/dynamic_code.h"

enum { M_CODE, M_SCALE, V_CODE, V_SCALE };

/* Elements first .. first + count - 1 of the piece, which begin and end with blocks. */
static void update_blocks(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                          int64_t block)
{
    const OptimizerSettings *s = run->settings;
    int64_t B = code_blocks(count);
    adam8bit(run->queue, (Adam8bit){
        .w_N = tensor_flat(p->w, first, count), .g_N = tensor_flat(p->g, first, count),
        .param_N = tensor_present(p->param) ? tensor_flat(p->param, first, count) : tensor_none(),
        .m_N = tensor_flat(p->state[M_CODE], first, count),
        .m_scale_B = tensor_flat(p->state[M_SCALE], block, B),
        .v_N = tensor_flat(p->state[V_CODE], first, count),
        .v_scale_B = tensor_flat(p->state[V_SCALE], block, B),
        .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon, .decay = p->decayed });
}

/* A matrix of which some blocks are cut: B blocks in all. */
static void update_cut(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t block,
                       int64_t B)
{
    const OptimizerSettings *s = run->settings;
    Queue  *q = run->queue;
    size_t  mark = arena_mark(run->scratch);
    int64_t n = p->local_rows * p->local_columns;
    Dtype   type = q->backend->compute;
    Tensor  m = tensor_new(run->scratch, "moments before they are 8-bit", type, n);
    Tensor  v = tensor_new(run->scratch, "moments before they are 8-bit", type, n);
    Tensor  most = tensor_new(run->scratch, "largest moments of blocks", type, 2 * B);
    Tensor  m_N = tensor_flat(p->state[M_CODE], first, n), v_N = tensor_flat(p->state[V_CODE], first, n);
    Tensor  m_scale_B = tensor_flat(p->state[M_SCALE], block, B);
    Tensor  v_scale_B = tensor_flat(p->state[V_SCALE], block, B);
    ElementPlace place = { .offset = p->row0 * p->columns + p->column0, .columns = p->local_columns,
                           .global_columns = p->columns };
    adam8bit_moments(q, (Adam8bitMoments){ .m_wide_N = m, .v_wide_N = v, .most_2B = most, .m_N = m_N,
        .m_scale_B = m_scale_B, .v_N = v_N, .v_scale_B = v_scale_B, .g_N = tensor_flat(p->g, first, n),
        .beta1 = s->beta1, .beta2 = s->beta2, .place = place });
    comm_all_reduce_max(p->cut, q, most, run->scratch);                             /* <-> cut: all-reduce */
    adam8bit_store(q, (Adam8bitStore){ .w_N = tensor_flat(p->w, first, n), .m_N = m_N, .m_scale_B = m_scale_B,
        .param_N = tensor_present(p->param) ? tensor_flat(p->param, first, n) : tensor_none(),
        .v_N = v_N, .v_scale_B = v_scale_B, .m_wide_N = m, .v_wide_N = v, .most_2B = most, .beta1 = s->beta1,
        .beta2 = s->beta2, .epsilon = s->epsilon, .decay = p->decayed, .place = place });
    arena_reset(run->scratch, mark);
}

static void adam8bit_update(const OptimizerRun *run, const OptimizerPiece *p)
{
    CodeBlocks blocks = state_code_blocks(p->rows, p->columns, p->local_rows, p->local_columns);
    int64_t matrix = p->local_rows * p->local_columns;
    if (!blocks.cut && (matrix % CODE_BLOCK == 0 || p->count < matrix)) {
        update_blocks(run, p, 0, p->count, 0);
        return;
    }
    for (int64_t at = 0, block = 0; at < p->count; at += matrix, block += blocks.of_matrix)
        if (blocks.cut) update_cut(run, p, at, block, blocks.of_matrix);            /* <-> cut */
        else update_blocks(run, p, at, matrix, block);
}

static int64_t adam8bit_scratch(const Param *p, const StateSizes *sizes)
{
    int r = p->dims == PARAM_DIMS ? 1 : 0;
    int64_t rows = p->local[r], columns = p->local[r + 1];
    (void)sizes;
    return state_code_blocks(p->global[r], p->global[r + 1], rows, columns).cut ? 2 * rows * columns : 0;
}

const UpdateRule adam8bit_rule = { .states = 4,
    .state = { [M_CODE]  = { "exp_avg", STATE_CODE, PER_ELEMENT },
               [M_SCALE] = { "exp_avg_scale", STATE_SCALE, PER_CODE_BLOCK },
               [V_CODE]  = { "exp_avg_sq", STATE_CODE, PER_ELEMENT },
               [V_SCALE] = { "exp_avg_sq_scale", STATE_SCALE, PER_CODE_BLOCK } },
    .granule = state_code_granule, .scratch = adam8bit_scratch, .update = adam8bit_update };
