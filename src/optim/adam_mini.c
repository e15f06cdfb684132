/* Adam-mini (Zhang et al. 2024, arXiv 2406.16793): AdamW with one second moment for each block of a tensor,
 * the mean over it (state_block_rows). Blocks are those of logical tensors: ranks sum the squares that they
 * count, and every rank that has elements of the tensor makes the same moments of them. */
#include "optim/optimizer.h"

static int64_t block_sums(const Param *param)
{
    return param->global[param->dims == PARAM_DIMS ? 1 : 0] / state_block_rows(param);
}

static void begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    (void)q;
    (void)s;
    (void)p;                                 /* what is updated depends on sums */
}

static void measure(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                    Tensor out_B)
{
    Queue *q = run->queue;
    factor_sums(q, (FactorSums){ .row_B = out_B, .g_N = tensor_flat(p->g, first, count),
        .first = (p->first + first) % (p->local_rows * p->local_columns), .columns = p->local_columns,
        .row0 = p->row0, .column0 = p->column0, .group = p->block_rows });
}

/* All matrices of a piece's moments, also of those of which it has no elements: they are saved as a whole. */
static void finish_piece(const OptimizerRun *run, const OptimizerPiece *p)
{
    const OptimizerSettings *s = run->settings;
    for (int64_t i = 0; i < p->matrices; i++)
        moment_of_sums(run->queue, (MomentOfSums){ .v_B = piece_numbers(p, 1, &(PieceMatrix){ .number = i }),
            .sums_B = piece_sums(run->sums_N, p, 0, i), .beta = s->beta2,
            .count = (double)(p->block_rows * p->columns) });
    for (PieceMatrix m = { 0 }; piece_next(p, &m); )
        block_adam(run->queue, (BlockAdam){ .w_N = piece_part(p->w, &m), .m_N = piece_part(p->state[0], &m),
            .g_N = piece_part(p->g, &m), .v_B = piece_numbers(p, 1, &m), .param_N = piece_part(p->param, &m),
            .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon, .decay = p->decayed,
            .first = m.first, .columns = p->local_columns, .row0 = p->row0, .group = p->block_rows,
            .decoupled = p->decoupled, .stochastic = s->stochastic, .site = p->site,
            .place = piece_place(p, &m) });
}

static void finish(const OptimizerRun *run, const UpdateRule *rule)
{
    for (int i = 0; i < run->pieces; i++)
        if (run->piece[i].rule == rule) finish_piece(run, &run->piece[i]);
}

const UpdateRule adam_mini_rule = { .states = 2,
    .state = { { "exp_avg", STATE_MOMENT, PER_ELEMENT }, { "block_avg_sq", STATE_EXACT, PER_BLOCK } },
    .begin = begin, .phases = 1, .phase = { { block_sums, measure, finish } } };
