#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H
/* One rank of a run: its coordinates in the mesh, its memory and everything in it. It is opened twice by the
 * same code: dry, to learn the size of each arena, and then real. What the dry run counted is what the real
 * one allocates, to the byte. */
#include <signal.h>
#include "data/datasets.h"
#include "data/prefetch.h"
#include "parallel/weight_copies.h"
#include "parallel/pipeline.h"
#include "comm/data_transport.h"
#include "comm/transport.h"
#include "comm/watchdog.h"
#include "store/checkpoint.h"
#include "train/train_config.h"

/* recomputed: saves of a group of blocks whose forward is repeated in backward; workspace: what one operation
 * needs while it runs (Queue.workspace); samples: caches and logits of samples of text */
typedef enum { ARENA_PERSISTENT, ARENA_ACTIVATIONS, ARENA_RECOMPUTED, ARENA_GATHERED, ARENA_SCRATCH,
               ARENA_WORKSPACE, ARENA_SAMPLES, ARENA_HOST, ARENAS } ArenaName;
/* Of a rank, in bytes, by its dry run. */
typedef struct {
    size_t  bytes[ARENAS];
    size_t  slot;                          /* of one activation slot of training */
    size_t  valid_slot;                    /* of one of evaluations, if they have an executor of their own */
    size_t  shared;                        /* memory that the slots of both occupy in turn */
    size_t  slots;                         /* what all slots take of ARENA_ACTIVATIONS */
    SlowOps slow[SLOW_OPS];                /* [slows] slow kernels of the run (queue_slow) */
    int     slows;
} ArenaSizes;

enum { TRAINER_COMMS = 24 + CHANNELS_MAX };
/* The communicators of a rank, and what their messages need (train/trainer_comms.h). */
typedef struct {
    /* dp_cp: dp x cp; alone: this rank; kv: ranks of tp with copies of a key-value head; tied: stages with
     * embedding and head; pp: for ids of generation and sums over stages; etp, ep, edp: of experts. kv, tied
     * and those of experts are NULL where none is needed. */
    Comm  *world, *tp, *cp, *dp_cp, *pp, *alone, *kv, *tied, *etp, *ep, *edp;
    Comm  *dp;                             /* where the optimizer sums momenta; else NULL */
    Comm  *ulysses, *ring;                 /* parts of cp under a2a+p2p; else NULL */
    Comm  *fp8;                            /* of amax (train/trainer_fp8.c); NULL without 8-bit maps */
    Comm  *dispatch, *sequence;            /* with experts: etp+ep; cp, or tp+cp */
    Comm  *stage;                          /* tp x cp x dp; NULL without experts and sums of the optimizer */
    Channels  channels;                    /* to the neighbours in the pipeline */
    DataComms data[PARAM_FAMILIES];        /* which ranks share parameters: two of these, or others */
    Comm  *all[TRAINER_COMMS];             /* [count] each of them but world, once; owned */
    int    count;
    Arena  window;                         /* part of persistent; of trainer_world_sum */
    /* on a device: of numbers of the host, and what carries tensors between ranks; owned */
    Queue  host_queue;
    Arena  host_window;
    DataTransport *device;
} RankComms;

/* What a rank reads: by data set (data/split.h). */
typedef struct {
    Datasets   datasets;
    Loader     loader[DATA_SETS];
    Prefetch  *prefetch[DATA_SETS];        /* NULL: the run does not read it */
    StepOrder *order[DATA_SETS];           /* of its steps, with the micro-batches behind it */
    int        taken;                      /* micro-batches of the current step that have been filled */
    HostBatch  host_batch;  /* on a device: where evaluations fill a batch before it is copied */
    /* not OK: the data of a micro-batch could not be read, and the step continued with ids 0 and changed no
     * weights; failure: the message */
    Status     failed;
    char       failure[FAIL_BYTES];
} TrainerInput;

/* What runs the micro-batches of steps. Dry: of the largest step alone, and of a few micro-batches
 * (train/measure.c). */
typedef struct {
    Schedule *schedule;                    /* [schedules] one for each size of a step, ascending; owned */
    int       schedules, micros;           /* micro-batches of the largest step */
    StageExecutor executor;
    Pipeline  pipeline;
} TrainPass;

/* The same of evaluations, which have an executor and a pipeline of their own where their micro-batches have
 * another size (trainer_evaluates_apart): their slots lie where those of training do. */
typedef struct {
    Schedule  schedule;
    int       micros;                      /* of a batch */
    StageExecutor executor;
    Pipeline  pipeline;
    Arena     shared_slots;
    BatchStep batch;
    double    bytes;                       /* of the text of the targets counted by this rank */
    double    bits_per_byte;               /* of the last evaluation of a split; 0: not known */
} EvaluationPass;

/* What the optimizer updates (train/trainer_optimizer.h). */
typedef struct {
    OptimizerRun optimizer;                /* its pieces are owned */
    int    (*piece_of)[PARAM_IDS];         /* by bucket and parameter; -1: none; owned */
    int     *first_piece;                  /* of each bucket, and the number of all; owned */
} Updates;

/* Numbers of a step in F64: this rank's sums (SumPlace), their totals over all ranks, and the report of
 * clip_and_skip are parts of `all`, of which on_host is what the host has read. */
typedef struct {
    Tensor own_S, total_S, report_4, all, on_host;
    bool   flagged;                        /* a rank had a flag in the last step, the same on all */
} StepNumbers;

/* How far a run is, most of which a checkpoint has. */
typedef struct {
    /* steps done, and the samples that they consumed, which are the run's position; the samples of steps that
     * were not skipped, on which the schedules of learning rate and weight decay depend and which may count
     * each step alike (LrSchedule.by_steps) */
    int64_t step, samples, updated_samples;
    int64_t steps;                         /* of the whole run, by trainer_set_position */
    int64_t batch;                         /* samples of the present or last step */
    BatchStep constant;                    /* of runs without a ramp */
    int64_t started;                       /* seam clock when the run began */
    AverageWeights average;                /* of optimizers that average weights */
    /* of optimizers that take estimates: the update, from 1, that the last one was taken before; 0: none */
    int64_t estimated;
    LossStatistics   losses;               /* for the guard against spikes */
    EvaluationLosses evaluations;          /* for early stopping */
    double   valid_loss;                   /* of an evaluation after the present step; 0: none */
    uint64_t due;                          /* DUE_ bits: what should follow the present step */
    unsigned lacked;                       /* CHECKPOINT_ bits of the one loaded */
    bool     errors_left;                  /* the one loaded had another number of workers */
    bool     has_saved;                    /* a rewind takes all of this run's checkpoint */
} RunState;

typedef struct Trainer {
    const TrainConfig *config;
    TrainConfig *own_config;               /* where trainer_start decided something; or NULL */
    Transport *transport;
    Watchdog  *watchdog;                   /* NULL: nobody watches */
    Mesh       mesh;
    RankComms  comms;
    Queue      queue;
    Precision  precision;
    StepState  step_state;
    Arena      arena[ARENAS];
    Stage      stage;
    Buckets    buckets;
    WeightCopies copies;                   /* of weights, compared with --test-mode */
    TrainPass  train;
    EvaluationPass valid;
    Updates    update;
    Fp8State   fp8;
    MoeState   moe;
    Tensor     moe_summary;                /* [1 + MOE_SUMS]: row load_summary of tensor/ops.def */
    StepNumbers  sums;
    TrainerInput input;
    RunState   run;
    unsigned   work;                       /* bits of Work: done; dry: to be measured */
    /* The number of the signal that this process received, else 0; NULL: evaluations do not check it. */
    const volatile sig_atomic_t *stop;
    int        signal;                     /* the largest on any rank, by trainer_join_flags */
} Trainer;

/* Collective. sizes NULL: a dry trainer, whose transport must be dry. Fails with the same Status on all
 * ranks: options that fit no layout, data that cannot be read, memory. Close it after a failure too. */
Status trainer_open (Trainer *trainer, const TrainConfig *config, Transport *transport,
                     const ArenaSizes *sizes);
/* trainer_measure (train/measure.h), then trainer_open with its sizes: how a run starts. Collective. */
Status trainer_start(Trainer *trainer, const TrainConfig *config, Transport *transport);
/* The same for other work than steps and evaluations, for which memory is measured. */
typedef void TrainerWork(Trainer *trainer, void *context);
Status trainer_start_work(Trainer *trainer, const TrainConfig *config, Transport *transport,
                            TrainerWork *work, void *context);
/* Collective as trainer_open: waits for the gathers of the last step and closes the comms. <-> shard */
void   trainer_close(Trainer *trainer);
void   trainer_init(Trainer *trainer);                               /* initial weights; optimizer states 0 */
/* Weights 0: for a checkpoint that has all of them. trainer_load does it. */
void   trainer_init_to_load(Trainer *trainer);

/* The samples of training steps. The trainer owns an entry of its own. */
BatchSchedule trainer_batches(const Trainer *trainer);
/* Sets the steps and samples done, and from them the steps of the whole run. */
void       trainer_set_position(Trainer *trainer, int64_t step, int64_t samples);
/* The schedule of steps of `batch` samples. */
Schedule  *trainer_schedule(const Trainer *trainer);
/* Samples that the whole run has consumed at its end, from its present position on. */
int64_t    trainer_samples_at_end(const Trainer *trainer);
/* The tokens of the first samples that count in their loss (--seq-length-warmup). */
int64_t    trainer_tokens(const Trainer *trainer, int64_t samples);
/* train/trainer_kernels.c: sets the queue's family of kernels: the one of --kernels, else the checkpoint's,
 * else the best that every rank runs. BAD_OPTION where a rank does not run the one of --kernels. A family
 * other than the checkpoint's is reported. <-> world: all-gather of 8 bytes */
Status       trainer_choose_kernels(Trainer *trainer);
/* Sizes of batches, of training and of evaluations beside it. */
LoaderConfig trainer_loader_config(const Trainer *trainer);
LoaderConfig trainer_valid_loader_config(const Trainer *trainer);
/* Whether evaluations have an executor of their own. */
bool         trainer_evaluates_apart(const Trainer *trainer);

/* The communicators of attention within cp, by --cp-comm-type. */
ContextComms trainer_context(const Trainer *trainer);
#endif
