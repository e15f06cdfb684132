#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H
/* Steps, what they report, and the flags that ranks join between two of them. */
#include "train/trainer.h"
#include "train/trainer_moe.h"

/* What a rank reports to the others between two steps: its data could not be read; it uses other memory than
 * its dry run counted; its time is over (--exit-duration-in-mins); the evaluation's loss is the lowest one
 * (rank 0); a signal it received (which may reach one rank alone), 0 for none. */
typedef struct { bool failed, memory, expired, best; int signal; } RunFlags;

/* The estimate before a step, of optimizers that take estimates: left out, because its loss or gradient norm
 * was not finite, or its loss a spike. */
typedef struct { bool left_out, spike; double loss, norm; } EstimateReport;

/* Mean loss, tokens with a loss weight, and gradient norm of a step, over all ranks; waited: seconds this
 * rank waited for data. skipped: loss or norm was not finite, and the weights were left unchanged; overflow:
 * a smaller loss scale may mend it; spike: it was left out because of its loss alone (train/spike.h); mean:
 * of the losses before it, for the guard against spikes. loss_scale, lr, decoupled_lr: those of the step; no
 * loss scale: 0. mtp: mean losses of the depths of multi-token prediction, which `loss` does not contain. */
typedef struct {
    double loss, tokens, norm, waited, loss_scale, lr, decoupled_lr, mean;
    double own_loss;                 /* of this rank's tokens, for --history; NAN: it has none */
    bool skipped, overflow, spike;
    int64_t samples;                                  /* that the step consumed */
    /* gradients that are exactly zero; norm of the weights after the step. -1: not asked for */
    double  zeros, params_norm;
    MoeReport moe;
    EstimateReport estimate;
    double mtp[MTP_MOST];
} StepReport;

/* One step with its update. <-> all axes */
StepReport trainer_step(Trainer *trainer);
/* A pass over the samples of the next step with targets that the model draws, for the estimates of an
 * optimizer. <-> all axes */
void       trainer_estimate(Trainer *trainer);
/* Whether gradients stay on their data-parallel ranks before the run ends, unless many steps are skipped. */
bool       trainer_compresses(const Trainer *trainer);
/* The last step again, which was skipped, with its results looked at for NaN and infinity; trainer_gradients
 * otherwise. <-> all axes */
void       trainer_again(Trainer *trainer, OpFinding *finding);
/* The lowest rank with the least value; -1 where all are infinite. <-> tp, dp+cp, pp: two all-reduces of a
 * number */
int        trainer_least(Trainer *trainer, double mine);
/* How many weights of a rank are NaN or infinite, the most of all ranks. <-> tp, dp+cp, pp */
double     trainer_broken_weights(Trainer *trainer);
/* Skips the next step: takes its samples and counts it without computing. */
void       trainer_leave_out(Trainer *trainer);
/* A step without its update: gradients of the sum over tokens are in the buckets, loss sums and tokens in
 * StepNumbers.total_S. <-> all axes */
void       trainer_gradients(Trainer *trainer);
/* Micro-batch after micro-batch of a step or an evaluation whose first sample is `first`, from the prefetch
 * of a data set; q: NULL where the batch is the host's. Data that cannot be read are noted in
 * TrainerInput.failed, and all ranks stop after the step. */
void       trainer_fill(Trainer *trainer, Queue *q, int set, Batch *batch, int64_t first);
/* --exit-duration-in-mins is over. */
bool       trainer_expired(const Trainer *trainer);
/* Joins what the ranks report: flags are or-ed, of signals the largest is kept; where `stop` is given, this
 * rank's signal is read from it. <-> tp, dp+cp, pp: all-reduce of 5 numbers */
RunFlags   trainer_join_flags     (Trainer *trainer, RunFlags mine);
/* The flags of the last step: data that a rank could not read, a time that is over, signals. Those that came
 * before its sums were added; later ones are seen by the next step. <-> tp, dp+cp, pp, after a step in which
 * a rank had one; else nothing is sent */
RunFlags   trainer_step_flags     (Trainer *trainer);
#endif
