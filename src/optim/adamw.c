/* The table of optimizers, and AdamW as a row of it. The update is the operation adamw and gradient clipping
 * the operation clip_and_skip of tensor/ops.def; both are in tensor/cpu/optimizer.c. */
#include "optim/optimizer.h"
#include <string.h>

/* States are the first and second moment, exp_avg and exp_avg_sq as in PyTorch. */
static void adam_update(Queue *q, const OptimizerSettings *s, const OptimizerUpdate *u)
{
    adamw(q, (Adamw){ .w_N = u->w, .m_N = u->state[0], .v_N = u->state[1], .g_N = u->g, .param_N = u->param,
                      .beta1 = s->beta1, .beta2 = s->beta2, .epsilon = s->epsilon,
                      .decay = u->decayed ? s->decay : 0, .stochastic = s->stochastic, .site = u->site,
                      .place = { .first = u->first } });
}

/* Elementwise rules: any range. */
static int64_t granule_element(const Param *param)
{
    (void)param;
    return 1;
}

static const Optimizer rules[] = {
    /* Megatron-LM's name for AdamW */
    { "adam", 2, { "exp_avg", "exp_avg_sq" }, granule_element, adam_update },
};

const Optimizer *optimizer_named(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].name, name)) return &rules[i];
    return NULL;
}
