#ifndef TRAIN_TRAIN_CONFIG_H
#define TRAIN_TRAIN_CONFIG_H
/* All that a run is, in plain numbers: made once from the options (cli/setup.c), read-only, shared by all ranks. */
#include "data/datasets.h"
#include "model/model_config.h"
#include "optim/lr.h"
#include "optim/optimizer.h"
#include "parallel/schedule.h"

typedef struct {
    ModelConfig    model;
    bool     learn;                           /* false: forward alone, to evaluate or generate: no gradients, no states */
    /* layout */
    int      tp, cp, pp, chunks, zero;
    bool     sequence;                        /* sequence parallelism within tp */
    ScheduleKind schedule;
    /* batch and time */
    int64_t  micro, global, steps;            /* sequences of a micro-batch, of a step; steps of the whole run */
    LrSchedule lr;
    const Optimizer  *optimizer;
    OptimizerSettings settings;
    double   clip;
    uint64_t seed;
    /* machine */
    const char *device;                       /* ref, cpu */
    int      threads;
    double   watchdog;                        /* seconds a collective may take; 0: nobody watches */
    /* data */
    const char *data, *split;                 /* data: one prefix in place of feed's words; NULL: those */
    DatasetRules datasets;
    bool     reset_positions, reset_attention, mask_eod;
    int32_t  eod;
    /* files */
    const char *save, *load;
    int64_t  save_interval, keep_last, exit_interval;
    bool     exit_on_missing;
    const char *options;                      /* as one JSON object, kept with a checkpoint */
    /* words */
    int64_t  log_interval, eval_interval, eval_iters;
    const char *metrics;
} TrainConfig;

int64_t train_config_samples(const TrainConfig *config, SplitKind kind);        /* that the whole run may take */
DatasetsPlan train_config_datasets  (const TrainConfig *config);
bool    train_config_takes  (const TrainConfig *config, SplitKind kind);        /* the test split only where it has a path of its own */
#endif
