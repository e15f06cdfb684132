#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H
/* An optimizer is one row: its name, its states and the function that updates a flat range of elements. ZeRO
 * shards parameters and states at the ends of granules, so each rank updates its own range. The states are
 * tensors of the trainer (Trainer.state). What changes with the step (learning rate, gradient factor, skip,
 * number of updates) is read from the queue's StepState. The formula of AdamW (arXiv 1711.05101) is in
 * tensor/ops.def. Nothing here communicates. */
#include "model/params.h"
#include "tensor/ops.h"
#include "tensor/precision.h"

enum { OPTIMIZER_STATES = STATE_ROLES };          /* the most states of any optimizer */
typedef struct {
    double beta1, beta2, epsilon;
    double decay;                      /* the weight decay coefficient */
    bool   stochastic;                 /* states narrower than the compute type are rounded at random */
} OptimizerSettings;
/* One range of elements of one parameter: all tensors are 1-dim and hold the same elements. */
typedef struct {
    Tensor   w, param;                 /* the master weights; their copy in the parameters' type, absent where
                                        * the master weights are the parameters */
    Tensor   g;                        /* sum over tokens, which update multiplies by StepState.factor */
    Tensor   state[OPTIMIZER_STATES];
    bool     decayed;                  /* weight decay applies to this parameter */
    uint64_t site;                     /* of stochastic rounding: one for each parameter and tp rank */
    int64_t  first;                    /* the first element's place in the parameter */
} OptimizerUpdate;

typedef struct {
    const char *name;                                  /* the value of --optimizer */
    int         states;                                /* tensors of state for each parameter */
    const char *state_name[OPTIMIZER_STATES];          /* in checkpoints: <tensor>.<state name> */
    /* The smallest range of a parameter that `update` can update alone: ZeRO cuts no finer. */
    ParamGranule *granule;
    /* Updates u.w, u.state and u.param in place; does nothing where StepState.skip is set. */
    void (*update)(Queue *q, const OptimizerSettings *settings, const OptimizerUpdate *u);
} Optimizer;

/* The row of that name, which is static; NULL when there is none. */
const Optimizer *optimizer_named(const char *name);
#endif
