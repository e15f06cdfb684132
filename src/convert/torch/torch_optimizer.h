#ifndef CONVERT_TORCH_OPTIMIZER_H
#define CONVERT_TORCH_OPTIMIZER_H
/* The state_dict() of torch's Adam, and of optimizers that are saved like it: {"state": {number: {"exp_avg":
 * tensor, ...}}, "param_groups": [{"params": [number, ...], ...}]}. Its parameters have no names: they are
 * numbered group after group, and within a group in the order of the model. Which parameters a group has is
 * found from their shapes, as the trainers whose files are read here make groups: matrices and vectors
 * apart, and experts apart from the rest where a group says is_expert_parallel; or one group of all. */
#include "convert/torch/torch_parameters.h"

/* Fills in the states of all parameters of the list that are trained. The optimizer is torch's, or
 * Megatron-LM's {"optimizer": torch's, "fp32_from_fp16_params": copies of the parameters that are narrower
 * than fp32, a list for each group}, or a list of such, of dense parameters and of experts. *updates: done by
 * it. BAD_FILE, saying what does not fit; then the states are not to be used. */
Status torch_optimizer_states(TorchParameters *list, const PickleValue *optimizer, int64_t *updates,
                              const char *label);
/* The "step" of a state or a group as *updates; BAD_FILE where that is another number already. */
Status torch_updates(int64_t *updates, const PickleValue *from, const char *label);
/* A number, or a tensor that holds one. */
bool   torch_number(const PickleValue *value, double *number);
#endif
