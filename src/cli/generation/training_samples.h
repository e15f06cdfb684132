#ifndef CLI_GENERATION_TRAINING_SAMPLES_H
#define CLI_GENERATION_TRAINING_SAMPLES_H
/* Samples of text that a training run makes every few steps: its weights continue each --sample-prompt under
 * the run's own layout, with the steps' memory and caches on an arena of their own. A sample depends on seed,
 * step and prompt alone. */
#include "cli/generation/prompts.h"
#include "conf/conf.h"
#include "train/train_config.h"

typedef struct {
    Tokenizer tokenizer;
    Prompts   prompts;
    double    temperature;
} TrainingSamples;

/* Encodes the prompts and sets config->sampler, which keeps `samples`; nothing where the options ask for no
 * samples. BAD_OPTION: prompts that do not fit, no tokenizer, a device that does not generate. */
Status training_samples_open (TrainingSamples *samples, const Options *o, TrainConfig *config);
void   training_samples_close(TrainingSamples *samples);
#endif
