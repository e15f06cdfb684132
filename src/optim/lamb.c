/* LAMB (arXiv 1904.00962, algorithm 2): the step of each logical tensor is scaled by its trust ratio, the
 * norm of its weights divided by that of its direction u, which contains the weight decay. Whatever ranks
 * hold parts of a tensor, the norms are those of the whole one. */
#include "optim/optimizer.h"

static void lamb_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    lamb_direction(q, (LambDirection){ .g_N = p->g, .m_N = p->state[0], .v_N = p->state[1], .w_N = p->w,
        .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon, .decay = p->decayed,
        .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static int64_t lamb_sums(const Param *param) { (void)param; return 2; }

/* sums = { w w, u u } */
static void lamb_measure(const OptimizerRun *run, const OptimizerPiece *p, int64_t first, int64_t count,
                         Tensor out_2)
{
    Queue *q = run->queue;
    square_sum(q, (SquareSum){ .out_1 = tensor_flat(out_2, 0, 1), .x_N = tensor_flat(p->w, first, count) });
    square_sum(q, (SquareSum){ .out_1 = tensor_flat(out_2, 1, 1), .x_N = tensor_flat(p->g, first, count) });
}

static void lamb_finish_piece(const OptimizerRun *run, const OptimizerPiece *p)
{
    for (PieceMatrix m = { 0 }; piece_next(p, &m); )
        lamb_update(run->queue, (LambUpdate){
            .w_N = piece_part(p->w, &m), .u_N = piece_part(p->g, &m), .param_N = piece_part(p->param, &m),
            .squares_2 = piece_sums(run->sums_N, p, 0, m.number), .low = run->settings->least_ratio,
            .high = run->settings->most_ratio, .decoupled = p->decoupled });
}

static void lamb_finish(const OptimizerRun *run, const UpdateRule *rule)
{
    for (int i = 0; i < run->pieces; i++)
        if (run->piece[i].rule == rule) lamb_finish_piece(run, &run->piece[i]);
}

const UpdateRule lamb_rule = { .states = 2, .states_as = &adam_rule,
    .state = { { "exp_avg", STATE_MOMENT, PER_ELEMENT }, { "exp_avg_sq", STATE_SQUARE, PER_ELEMENT } },
    .begin = lamb_begin, .phases = 1, .phase = { { lamb_sums, lamb_measure, lamb_finish } } };
