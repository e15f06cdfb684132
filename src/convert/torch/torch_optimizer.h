#ifndef CONVERT_TORCH_OPTIMIZER_H
#define CONVERT_TORCH_OPTIMIZER_H
/* The state_dict() of torch's Adam, and of optimizers that are saved like it: {"state": {number: {"exp_avg":
 * tensor, ...}}, "param_groups": [{"params": [number, ...], ...}]}. Its parameters have no names: they are
 * numbered group after group, and within a group in the order of the model. Which parameters a group has is
 * found from their shapes, as the trainers whose files are read here make groups: matrices and vectors
 * apart, and experts apart from the rest where a group says is_expert_parallel; or one group of all. */
#include "convert/torch/torch_file.h"

/* A parameter of the model. state: by kind, NULL where there is none; FOREIGN_WEIGHT is not used. */
typedef struct {
    const PickleTensor *weight;
    bool                expert;
    const PickleTensor *state[FOREIGN_KINDS];
} TorchParameter;

/* Fills in the states of one optimizer's parameters. `parameter` are all of the model that are trained, in
 * its order. masters: lists of fp32 copies of the parameters that are narrower, one list for each group,
 * or NULL. *updates: done by the optimizer. BAD_FILE, saying what does not fit. */
Status torch_optimizer_states(TorchParameter *parameter, int count, const PickleValue *optimizer,
                              const PickleValue *masters, bool experts_apart, int64_t *updates,
                              const char *label);
/* Whether a group of it says is_expert_parallel. */
bool   torch_optimizer_has_experts(const PickleValue *optimizer);
/* A number, or a tensor that holds one. */
bool   torch_number(const PickleValue *value, double *number);
#endif
