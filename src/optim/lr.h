#ifndef OPTIM_LR_H
#define OPTIM_LR_H
/* The learning rate and the weight decay as pure functions of the samples of the steps done before that were
 * not skipped, or of the number of these steps (by_steps). So a schedule has no state of its own: of a run's
 * position the steps and samples are saved, and nothing else. The formulas are those of Megatron-LM's
 * OptimizerParamScheduler, of DeepSpeed's schedulers, or of Megatron-LM 1. */
#include <stdbool.h>
#include <stdint.h>
#include "base/length_schedule.h"

typedef enum { LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_INVERSE_SQUARE_ROOT, LR_WSD } LrStyle;
/* The decay at the end of WSD (warm-up, stable, decay). */
typedef enum { WSD_EXPONENTIAL, WSD_LINEAR, WSD_COSINE, WSD_MINUS_SQRT } WsdStyle;
typedef enum { WARMUP_LINEAR, WARMUP_LOG } WarmupStyle;
/* Whose rule says which step has which learning rate. */
typedef enum { LR_IMMEDIATE, LR_DELAYED, LR_CLIPPED } LrRule;
/* What is counted where samples have other lengths: samples; or tokens that count, `lengths.most` of which
 * are one sample of the lengths below, LR_DECAY_TOKENS only behind a warm-up of samples. */
typedef enum { LR_SAMPLES, LR_TOKENS, LR_DECAY_TOKENS } LrCount;
typedef struct {
    LrStyle style;
    LrRule  rule;                      /* all but LR_IMMEDIATE have constant, linear and cosine */
    WarmupStyle warmup_style;
    double  step;                      /* samples that count as a step */
    LrCount count;
    LengthSchedule lengths;            /* of the samples, where tokens are counted */
    bool    by_steps;                  /* each step counts as these, whatever samples it has */
    double  peak, low;                 /* learning rates */
    double  warmup;                    /* samples; a fraction of `decay` need not be a whole number */
    /* the sample after which the learning rate is `low`, but if constant */
    int64_t decay;
    double  init;                      /* learning rate at which warm-up begins */
    WsdStyle wsd;
    int64_t wsd_decay;                 /* samples of WSD's decay, the last ones before `decay` */
    /* Token embedding and output layer have a peak and an end of their own; else those of all. */
    bool    decoupled;
    double  decoupled_peak, decoupled_low;
} LrSchedule;

/* The learning rate after `done` samples. A linear warm-up from `init`, so that the very first step has that;
 * then decay from `peak` to `low`. */
double lr_at(const LrSchedule *schedule, int64_t done);
/* The same of token embedding and output layer. */
double lr_decoupled_at(const LrSchedule *schedule, int64_t done);

typedef enum { WEIGHT_DECAY_CONSTANT, WEIGHT_DECAY_LINEAR, WEIGHT_DECAY_COSINE } WeightDecayStyle;
typedef struct {
    WeightDecayStyle style;
    double  start, end;
    int64_t samples;                   /* at which `end` is reached: those of the whole run */
} WeightDecaySchedule;
/* The weight decay coefficient after `done` samples. */
double weight_decay_at(const WeightDecaySchedule *schedule, int64_t done);
#endif
