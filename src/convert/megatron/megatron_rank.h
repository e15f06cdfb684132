#ifndef CONVERT_MEGATRON_RANK_H
#define CONVERT_MEGATRON_RANK_H
/* The tensors in the file of one rank of Megatron-LM's older format, mp_rank_TT/model_optim_rng.pt: the
 * weights by name, and the optimizer's states, which have numbers there, by the names of their weights. */
#include "convert/megatron/megatron_names.h"
#include "convert/torch/torch_optimizer.h"

enum { RANK_NAME_BYTES = 160 };

/* chunk: the virtual stage */
typedef struct {
    char                name[RANK_NAME_BYTES];
    int                 chunk;
    ForeignKind         kind;
    const PickleTensor *tensor;
} RankTensor;
typedef struct { RankTensor *item; size_t items, room; } RankTensors;          /* item: owned */

/* Appends the weights of a chunk, in the order of the model. What is no tensor (Transformer Engine's states,
 * None) has no weight. */
Status rank_weights(RankTensors *list, const PickleValue *model, int chunk, const char *label);
/* Appends the states of all weights of the list, which are those of all chunks in turn. *updates: as in
 * torch_optimizer_states. BAD_FILE where they do not fit. */
Status rank_states (RankTensors *list, const PickleValue *optimizer, int64_t *updates, const char *label);
/* Keeps those of one chunk, sorted by kind and name. */
void   rank_choose (RankTensors *list, int chunk);
#endif
