#ifndef TRAIN_STEP_SUMS_H
#define TRAIN_STEP_SUMS_H
/* Numbers of a step or an evaluation: each rank sums its own in StepNumbers.own_S on its device, one message
 * makes totals of them, and one copy brings them to the host. */
#include "train/step.h"

/* Places of a step's sums: loss sum, tokens, squared gradients. Where they are asked for, then gradients that
 * are not zero, { loss sum, weights } of each depth of multi-token prediction; in a run that trains the
 * number of ranks with a flag. So far they are one message. Last squared weights, which are known after the
 * update only. An evaluation has bytes of its text in the place of squares. */
typedef enum { SUM_LOSS, SUM_TOKENS, SUM_SQUARES, STEP_SUMS } SumPlace;
static inline int64_t trainer_mtp_sums(const TrainConfig *config) { return STEP_SUMS + config->count_zeros; }
static inline int64_t trainer_flagged_sum(const TrainConfig *config)
{
    return trainer_mtp_sums(config) + 2 * config->model.mtp;
}
static inline int64_t trainer_joined_sums(const TrainConfig *config)
{
    return config->training ? trainer_flagged_sum(config) + 1 : STEP_SUMS;
}

/* Views of this rank's sums: [2] loss sum and weights; [1]; [N, 2] the same of N depths, absent without
 * multi-token prediction. */
Tensor step_sums_loss(const Trainer *trainer);
Tensor step_sums_own (const Trainer *trainer, int64_t place);
Tensor step_sums_mtp (const Trainer *trainer);
/* out_1 += the squares of x_N. */
void   step_sums_add_squares  (Trainer *trainer, Tensor out_1, Tensor x_N);
/* The squares of the gradients that this rank counts; how many of them are not zero, where that is asked. */
void   step_sums_add_gradients(Trainer *trainer);
void   step_sums_add_zeros    (Trainer *trainer);
/* The one message of a step's sums. <-> tp, dp+cp, pp */
void   step_sums_join(Trainer *trainer);
/* The squares of the weights after the update, in the type that the optimizer has them in, where they are
 * asked for: a message of their own, of one number. <-> tp, dp+cp, pp */
void   step_sums_join_weights(Trainer *trainer);
/* Brings all numbers to the host, in one wait for the device; step_sums_on_host is where a part of them is
 * then. */
void   step_sums_read(Trainer *trainer);
const double *step_sums_on_host(const Trainer *trainer, Tensor part);
/* What a report has of the totals beyond loss and norm. */
void   step_sums_report(Trainer *trainer, StepReport *report);
#endif
