#ifndef TRAIN_TRAIN_CONFIG_H
#define TRAIN_TRAIN_CONFIG_H
/* The configuration of a run in plain numbers. cli/setup/train_config.c makes it once from the options;
 * after that it is read-only and shared by all ranks. Strings are owned by the options. */
#include "base/batch_schedule.h"
#include "comm/device_data.h"
#include "data/datasets.h"
#include "logs/logs.h"
#include "model/model_config.h"
#include "optim/lr.h"
#include "optim/optimizer.h"
#include "parallel/stage.h"
#include "store/checkpoint_contents.h"
#include "train/spike.h"

typedef enum { LINES_JOTUN, LINES_MEGATRON, LINES_EPOCHS, LINES_EPOCHS_JSON } LogLines;

/* What takes a text that the weights have made, on rank 0: the continuation of prompt `number`, from 1. */
typedef void SampleTake(void *report, int64_t number, const char *prompt, const char *text);
/* Samples of text after each step that is a multiple of `interval`; 0: none. The caller of loop_run provides
 * `make`, since generation is no module below this one: collective, and in a dry run it computes as much as
 * it ever does. It leaves the trainer's weights and states as they are. */
struct Trainer;
typedef struct Sampler {
    int64_t interval;
    void (*make)(const struct Sampler *sampler, struct Trainer *trainer, SampleTake *take, void *report);
    const void *context;
} Sampler;

typedef struct {
    ModelConfig    model;
    /* false: forward alone, for evaluation and generation; no gradients, no states */
    bool     training;

    /* layout: sizes of the mesh axes (dp is what remains of the ranks), chunks per stage, ZeRO stage */
    int      tp, cp, pp, chunks, zero;
    /* how attention reaches the keys of other cp ranks: `ulysses` of them exchange heads for positions (0
     * is 1), the others form a ring, or with `gather` gather keys and values */
    int      ulysses;
    bool     gather;
    int      etp, ep;                         /* sizes of the expert grid (comm/mesh.h); 0: 1 */
    MeshOrder order;                          /* of the ranks */
    /* data-parallel ranks over which ZeRO shards, replicated over the others; 0: all */
    int      hybrid_shard;
    bool     sequence_parallel;               /* sequence parallelism within tp */
    int      sum_group;                       /* of comm_world_sums; 0: COMM_SUM_GROUP */
    bool     no_overlap;                      /* communication waits for computation, and the reverse */
    ScheduleKind schedule;
    /* interleaved: micro-batches of a group, 0: pp; 1F1B: ScheduleShape.extra */
    int      micro_group, extra_warmup;
    StageSplit layer_split;                   /* strings are the options' */
    Recompute recompute;
    int64_t  head_chunk;                      /* tokens whose logits exist at once; 0: chosen by their size */

    /* batch and duration */
    /* sequences of a micro-batch; of a step over all data-parallel ranks */
    int64_t  micro, global;
    int64_t  valid_micro, valid_global;       /* the same in evaluations beside training; 0: as above */
    /* sequences of each training step, where they change with the samples consumed; steps 0: `global` */
    BatchSchedule batch;
    LengthSchedule lengths;                   /* tokens of a sample that count in each training step */
    /* steps of the whole run, those before a resume included; `samples` above 0 ends it instead, after the
     * last step that does not exceed them */
    int64_t  steps, samples;
    /* [left_outs] steps whose samples are consumed without anything being computed */
    const int64_t *left_out;
    int      left_outs;
    bool     skip_train;                      /* evaluate and end */
    LrSchedule lr;
    WeightDecaySchedule weight_decay;
    const Optimizer  *optimizer;
    OptimizerSettings settings;
    PrecisionChoice precision;
    int64_t  message_window;                  /* elements rounded for one message; 0: MESSAGE_WINDOW */
    LossScaling scaling;                      /* of MIXED_F16 */
    double   loss_scale;                      /* the first one, or the only one; 0: losses are not scaled */
    /* global gradient norm above which gradients are scaled down; 0: never */
    double   clip;
    uint64_t seed;

    /* machine */
    const char *device;                       /* back end: ref, cpu, cuda */
    DeviceTransport device_transport;         /* what carries tensors between ranks on cuda */
    int      threads;                         /* per rank */
    /* What the user chose, KERNELS_AUTO: nothing; and the name of the family that computed the checkpoint of
     * `load`, NULL: not known. Which one the run has, all ranks agree on (trainer_choose_kernels). */
    KernelFamily kernels;
    const char  *kernels_before;
    /* seconds a collective may take before the job is stopped; 0: no watchdog */
    double   watchdog;

    /* data */
    /* token_prefix: of one token file, instead of datasets.data_path; NULL: those */
    const char *token_prefix, *split;
    DatasetRules datasets;
    bool     reset_positions, reset_attention, mask_eod;      /* at ends of documents */
    int32_t  eod;                             /* id of the end of a document; -1: none */

    /* files */
    const char *save, *load;                  /* checkpoint directories; NULL: none. load: the one of a step,
                                               * where options were read from it */
    /* what is not taken of the checkpoint of `load` (CHECKPOINT_ bits): without its position the run begins
     * at step 0 with its weights; saved checkpoints have no optimizer states */
    unsigned leave;
    bool     no_save_states;
    int64_t  save_interval, keep_last;        /* steps between saves; checkpoints that are kept */
    /* the run stops after a step that is a multiple of it; 0: never */
    int64_t  exit_interval;
    double   exit_minutes;                    /* the run stops after a step when so many are over; 0: never */
    SpikeGuard spike;
    bool     no_replay;                       /* a step that is not finite is not run again: train/replay.h */
    int64_t  patience;                        /* evaluations without a lower loss; 0: no limit */
    bool     keep_best;                       /* the checkpoint with the lowest validation loss */
    const char *changed;                      /* options that differ from its checkpoint's; NULL: none */
    TokenizerRecord tokenizer;                /* stored in checkpoints */
    const char *options;                      /* the options as one JSON object, stored in checkpoints */
    const char *given;                        /* the names of those that a person gave, stored as well */

    /* logging and evaluation */
    int64_t  log_interval, eval_interval;     /* steps */
    /* [the tokenizer's ids] bytes of each id's text, for bits per byte; NULL: they are not known */
    const uint16_t *id_bytes;
    int64_t  ids;
    int64_t  eval_iters;                      /* global batches of an evaluation */
    bool     full_validation;                 /* all samples of validation sets instead */
    const char *const *valid_names;           /* [datasets.valid_sets] of them; NULL: their numbers */
    int64_t  eval_from;                       /* the first step that may be followed by one */
    Sampler  sampler;
    LogsConfig logs;
    bool     count_zeros, params_norm;        /* of gradients; of weights */
    bool     test_copies;                     /* copies of weights are compared before each step */
    LogLines lines;                           /* whose log lines */
    bool     log_throughput;                  /* its throughput among them */
    bool     verbose;                         /* more lines at the start */
    const struct GpuModel *gpu;               /* whose memory a dry run is compared with; NULL: none */
    double   peak;                            /* FLOP/s of a GPU, or of a rank's threads; 0: not given */
    const char *profile;                      /* file of a Chrome trace; NULL: none */
    int64_t  profile_start, profile_end;      /* steps; 0: a few after the first */
} TrainConfig;

/* The schedule of the run's training steps, of so many micro-batches. */
ScheduleShape train_config_schedule(const TrainConfig *config, int micros);
/* Sequences of a micro-batch and of a global batch of evaluations. */
int64_t train_config_valid_micro (const TrainConfig *config);
int64_t train_config_valid_global(const TrainConfig *config);
/* The mesh of the run's ranks, as mesh_make takes it. */
MeshShape train_config_mesh(const TrainConfig *config);
/* The number of samples (sequences) of a data set that the whole run may take, evaluations counted as in
 * Megatron-LM. */
int64_t train_config_samples(const TrainConfig *config, int set);
/* What datasets_open takes: rules, --split, samples of each split. The strings are the configuration's. */
DatasetsPlan train_config_datasets(const TrainConfig *config);
/* The type of weights and activations: "fp32", "bf16 with fp8 inputs". */
const char *train_config_type(const TrainConfig *config);
/* Whether the run reads the data set: the test split only where it has token files of its own. */
bool    train_config_takes(const TrainConfig *config, int set);
/* The name of one of several validation sets; "" of other data sets. */
const char *train_config_set_name(char out[16], const TrainConfig *config, int set);
#endif
