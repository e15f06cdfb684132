/* What follows from the choices of a run alone. */
#include "train/train_config.h"

#include <stdio.h>
#include <string.h>

/* The family of kernels does not tell: avx512-bf16 computes fp32 as well. */
const char *train_config_type(const TrainConfig *config)
{
    const PrecisionChoice *choice = &config->precision;
    if (choice->fp8.recipe != FP8_NONE) return "bf16 with fp8 inputs";
    if (choice->mixed != MIXED_NONE) return choice->mixed == MIXED_BF16 ? "bf16" : "fp16";
    return strcmp(config->device, "ref") == 0 ? "double" : "fp32";
}

ScheduleShape train_config_schedule(const TrainConfig *config, int micros)
{
    bool several = config->schedule == SCHEDULE_INTERLEAVED || config->schedule == SCHEDULE_ZB_V;
    return (ScheduleShape){ .kind = config->schedule, .stages = config->pp, .chunks = config->chunks,
        .micros = micros, .v_shaped = config->schedule == SCHEDULE_ZB_V, .group = config->micro_group,
        .extra = config->extra_warmup,
        .blocking = config->no_overlap && !several && config->extra_warmup == 0 };
}

MeshShape train_config_mesh(const TrainConfig *config)
{
    return (MeshShape){ .tp = config->tp, .cp = config->cp, .pp = config->pp, .etp = config->etp,
                        .ep = config->ep, .order = config->order };
}

int64_t train_config_valid_micro(const TrainConfig *config)
{
    return config->eval_iters > 0 && config->valid_micro > 0 ? config->valid_micro : config->micro;
}

int64_t train_config_valid_global(const TrainConfig *config)
{
    return config->eval_iters > 0 && config->valid_global > 0 ? config->valid_global : config->global;
}

/* As Megatron-LM counts them: one validation more than there are, and one evaluation of the test split. Its
 * sample orders depend on these numbers, so they must be the same. */
int64_t train_config_samples(const TrainConfig *config, int set)
{
    SplitKind kind = set_split(set);
    if (kind == SPLIT_VALID && config->full_validation) return ORDER_ONE_EPOCH;
    int64_t evaluations = kind == SPLIT_VALID && config->eval_interval > 0
            ? config->steps / config->eval_interval + 1 : 1;
    if (kind != SPLIT_TRAIN) return evaluations * config->eval_iters * train_config_valid_global(config);
    if (config->samples > 0) return config->samples;
    int64_t all = config->batch.steps > 0 ? batch_schedule_after(config->batch, 0, config->steps) : 0;
    return all > config->steps * config->global ? all : config->steps * config->global;
}

bool train_config_takes(const TrainConfig *config, int set)
{
    if (!config->training || set == SPLIT_TRAIN) return config->training;
    bool present = set == SPLIT_TEST ? config->datasets.split_path[set].count > 0
                                     : datasets_has(&config->datasets, set);
    return config->eval_iters > 0 && present;
}

const char *train_config_set_name(char out[16], const TrainConfig *config, int set)
{
    out[0] = 0;
    if (set >= SPLITS) snprintf(out, 16, "valid-%u", (unsigned)(set - SPLITS) % 100);
    return set >= SPLITS && config->valid_names ? config->valid_names[set - SPLITS] : out;
}

DatasetsPlan train_config_datasets(const TrainConfig *config)
{
    DatasetsPlan spec = { .rules = config->datasets, .split = config->split };
    if (config->token_prefix) spec.rules.data_path = (DataPath){ .text = &config->token_prefix, .count = 1 };
    for (int set = 0; set < DATA_SETS; set++) spec.wanted[set] = train_config_samples(config, set);
    return spec;
}
