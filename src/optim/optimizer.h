#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H
/* An optimizer is a row: its states and the rule over a run of elements. All are cut by elements so far: any run may be updated
 * alone. What changes with the step (lr, gradient factor, skip, number of updates) is read from the queue's StepState.             */
#include "tensor/ops.h"

enum { OPTIMIZER_STATES = 2 };
typedef struct { double beta1, beta2, epsilon, decay; } OptimizerSettings;
typedef struct {
    const char *name;
    int         states;
    const char *state_name[OPTIMIZER_STATES];          /* in checkpoints: <tensor>.<state name> */
    /* w, g, state: runs of the same elements; decayed: whether weight decay holds for this tensor */
    void (*update)(Queue *q, const OptimizerSettings *settings, Tensor w, Tensor g, const Tensor *state, bool decayed);
} Optimizer;

const Optimizer *optimizer_named(const char *name);     /* NULL: no such rule */
#endif
