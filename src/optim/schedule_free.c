/* Schedule-free AdamW and SGD (Defazio et al. 2024, arXiv 2405.15682). The master weights are x, the average
 * that is evaluated, saved and exported; the state z is what steps are made from; the parameters, with which
 * gradients are computed, are y = (1 - beta) z + beta x. All three are kept, so that y can be written again
 * to the bit: after a checkpoint has been loaded, and after an evaluation, which takes x in its place. */
#include "optim/optimizer.h"

AverageWeights average_next(double *share, AverageWeights now, double lr)
{
    AverageWeights next = { .largest = lr > now.largest ? lr : now.largest };
    next.sum = now.sum + next.largest * next.largest;
    *share = next.sum > 0 ? next.largest * next.largest / next.sum : 0;
    return next;
}

/* z = x */
static void free_start(Queue *q, const OptimizerPiece *p)
{
    copy_strided(q, (CopyStrided){ .y = p->state[0], .x = p->w });
}

static void parameters(Queue *q, double beta, const OptimizerPiece *p, bool average)
{
    weighted_pair(q, (WeightedPair){ .y_N = p->param, .x_N = p->w, .z_N = p->state[0],
                                     .x_factor = average ? 1 : beta, .z_factor = average ? 0 : 1 - beta });
}

static void adamw_free_parameters(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p, bool average)
{
    parameters(q, s->beta1, p, average);
}

static void sgd_free_parameters(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p, bool average)
{
    parameters(q, s->momentum, p, average);
}

static void adamw_free_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    averaged_update(q, (AveragedUpdate){ .w_N = p->w, .z_N = p->state[0], .v_N = p->state[1], .g_N = p->g,
        .param_N = p->param, .beta = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon, .decay = p->decayed,
        .stochastic = s->stochastic, .site = p->site, .place = p->place });
}

static void sgd_free_begin(Queue *q, const OptimizerSettings *s, const OptimizerPiece *p)
{
    averaged_update(q, (AveragedUpdate){ .w_N = p->w, .z_N = p->state[0], .g_N = p->g, .param_N = p->param,
        .beta = s->momentum, .decay = p->decayed, .site = p->site, .place = p->place });
}

const UpdateRule adamw_free_rule = { .states = 2,
    .state = { { "z", STATE_EXACT, PER_ELEMENT }, { "exp_avg_sq", STATE_SQUARE, PER_ELEMENT } },
    .start = free_start, .parameters = adamw_free_parameters, .begin = adamw_free_begin };
const UpdateRule sgd_free_rule = { .states = 1, .state = { { "z", STATE_EXACT, PER_ELEMENT } },
    .start = free_start, .parameters = sgd_free_parameters, .begin = sgd_free_begin };
