#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H
/* An optimizer is one row: its name, its states and the function that updates a flat range of elements.
 * All optimizers are elementwise, so ZeRO may shard parameters and states at any element and each rank
 * updates its own range. The states are tensors of the trainer (Trainer.state). What changes with the step
 * (learning rate, gradient factor, skip, number of updates) is read from the queue's StepState. The formula
 * of AdamW (arXiv 1711.05101) is in tensor/ops.def. Nothing here communicates. */
#include "tensor/ops.h"

enum { OPTIMIZER_STATES = 2 };         /* the most states of any optimizer */
typedef struct {
    double beta1, beta2, epsilon;
    double decay;                      /* the weight decay coefficient */
} OptimizerSettings;
typedef struct {
    const char *name;                                  /* the value of --optimizer */
    int         states;                                /* tensors of state for each parameter */
    const char *state_name[OPTIMIZER_STATES];          /* in checkpoints: <tensor>.<state name> */
    /* Updates w and state in place. w, g and each state are 1-dim and hold the same elements of one
     * parameter; g is a sum over tokens, and
     * update multiplies it by StepState.factor. decayed: weight decay applies to this parameter. Does nothing
     * where StepState.skip is set. */
    void (*update)(Queue *q, const OptimizerSettings *settings, Tensor w, Tensor g, const Tensor *state,
                   bool decayed);
} Optimizer;

/* The row of that name, which is static; NULL when there is none. */
const Optimizer *optimizer_named(const char *name);
#endif
