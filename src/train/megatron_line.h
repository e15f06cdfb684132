#ifndef TRAIN_MEGATRON_LINE_H
#define TRAIN_MEGATRON_LINE_H
/* The lines that Megatron-LM prints, for scripts that read its logs (--log-format megatron): fields, names
 * and formats are those of its training_log at version core 0.20. */
#include <stddef.h>
#include <stdint.h>
#include "train/trainer.h"

/* Of the steps since the line before: skipped of them, and those whose loss or gradients were not finite.
 * loss: the mean over those that were not skipped, NAN where all were; mtp: the same of each of `depths` of
 * multi-token prediction. seconds: of a step. flops: per second of a rank, 0: the field is left out; so is
 * decoupled_lr where it is NAN, and zeros and params_norm below 0. */
typedef struct {
    int64_t step, steps, samples, batch, skipped, not_finite;
    double  seconds, flops, lr, decoupled_lr, loss, loss_scale, norm, zeros, params_norm;
    MoeReport moe;
    bool    has_experts;
    const double *mtp;
    int     depths;
    double  now;                      /* seconds since 1970, with fractions */
} MegatronLine;

/* Both write a line without its end into `out` and return its bytes. */
int megatron_line      (char *out, size_t size, const MegatronLine *line);
/* name: "validation loss at iteration 1000" or the like */
int megatron_evaluation(char *out, size_t size, const char *where, double loss);
#endif
