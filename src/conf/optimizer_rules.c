/* What fits an optimizer: a rule as those of conf/rules.c. */
#include "conf/rules.h"
#include "base/log.h"
#include "conf/value.h"

/* Signs are of the momenta of whole gradients, which each rank has of its own data. */
static Status rule_onebit(const Options *o)
{
    if (o->zero_stage > 0)
        return fail(BAD_OPTION, "%s sends signs of the momenta of all parameters from each data-parallel "
                    "rank, and %s shards what they are made of; give %s 0, or lamb as %s",
                    TYPED(OPTION_optimizer), TYPED(OPTION_zero_stage), NAMED(OPTION_zero_stage),
                    NAMED(OPTION_optimizer));
    if (o->log_zeros)
        return fail(BAD_OPTION, "%s counts zeros of the summed gradient, which no rank has after %s; leave "
                    "it out", TYPED(OPTION_log_zeros), TYPED(OPTION_onebit_freeze));
    if (o->onebit_factor_min > o->onebit_factor_max)
        return fail(BAD_OPTION, "%s is above %s; give a lower one", TYPED(OPTION_onebit_factor_min),
                    TYPED(OPTION_onebit_factor_max));
    return OK;
}

/* Values that each fit, but not together, or that would leave all weights as they are. */
static Status rule_numbers(const Options *o)
{
    if (o->lamb_min_coeff > o->lamb_max_coeff)
        return fail(BAD_OPTION, "%s is above %s; give a lower one", TYPED(OPTION_lamb_min_coeff),
                    TYPED(OPTION_lamb_max_coeff));
    if (o->muon_extra_scale_factor == 0)
        return fail(BAD_OPTION, "%s would leave the matrices of layers as they are; give a number above 0",
                    TYPED(OPTION_muon_extra_scale_factor));
    if (o->sgd_nesterov && o->sgd_momentum == 0)
        return fail(BAD_OPTION, "%s has no effect with %s; give a momentum above 0, or leave it out",
                    TYPED(OPTION_sgd_nesterov), TYPED(OPTION_sgd_momentum));
    return OK;
}

Status rule_optimizer(const Options *o)
{
    if (!(o->command & FOR_CONFIG)) return OK;                              /* what jotun train takes */
    if (o->optimizer.value == CHOICE_optimizer_onebitlamb) TRY(rule_onebit(o));
    return rule_numbers(o);
}
