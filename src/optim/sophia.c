/* Sophia (Liu et al. 2023, arXiv 2305.14342, algorithm 3, with the Gauss-Newton-Bartlett estimate): before
 * every --sophia-update-interval-th update a second backward pass, over the same samples with targets that
 * the model draws itself, gives the estimate of the Hessian's diagonal by which the momentum is divided. */
#include "optim/optimizer.h"

static void sophia_estimate(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p, Tensor tokens_1)
{
    sophia_hessian(q, (SophiaHessian){ .h_N = p->state[1], .g_N = p->g, .tokens_1 = tokens_1,
        .beta2 = s->beta2, .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static void sophia_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    sophia(q, (Sophia){ .w_N = p->w, .m_N = p->state[0], .h_N = p->state[1], .g_N = p->g,
        .param_N = p->param, .beta1 = s->beta1, .rho = s->sophia_rho, .decay = p->decayed,
        .decoupled = p->decoupled, .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

const UpdateRule sophia_rule = { .states = 2,
    .state = { { "exp_avg", STATE_MOMENT, PER_ELEMENT }, { "hessian", STATE_SQUARE, PER_ELEMENT } },
    .estimate = sophia_estimate, .begin = sophia_begin };
