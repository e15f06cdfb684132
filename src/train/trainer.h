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

/* What a rank reports to the others between two steps: its data could not be read; it uses other memory than
 * its dry run counted; its time is over (--exit-duration-in-mins); the evaluation's loss is the lowest one
 * (rank 0); a signal it received (which may reach one rank alone), 0 for none. */
typedef struct { bool failed, memory, expired, best; int signal; } RunFlags;

/* recomputed: saves of a group of blocks whose forward is repeated in backward; workspace: what one operation
 * needs while it runs (Queue.workspace); samples: caches and logits of samples of text */
typedef enum { ARENA_PERSISTENT, ARENA_ACTIVATIONS, ARENA_RECOMPUTED, ARENA_GATHERED, ARENA_SCRATCH,
               ARENA_WORKSPACE, ARENA_SAMPLES, ARENA_HOST, ARENAS } ArenaName;
/* slot: bytes of an activation slot; with an executor for evaluations alone valid_slot: of one of its slots,
 * shared: what both executors' slots share; slots: what all slots take of ARENA_ACTIVATIONS; slow: kernels of
 * the run (queue_slow), `slows` of them */
typedef struct {
    size_t bytes[ARENAS], slot, valid_slot, shared, slots;
    SlowOps slow[SLOW_OPS];
    int slows;
} ArenaSizes;

/* Of the layers of experts in a step, means over them: the largest load of an expert over the mean load, the
 * share of copies of tokens that a capacity dropped, and both auxiliary losses without their coefficients,
 * which the loss does not contain. All 0 where no layer has experts. */
typedef struct { double load, dropped, balance, z; } MoeReport;

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

enum { TRAINER_COMMS = 24 + CHANNELS_MAX };
typedef struct Trainer {
    const TrainConfig *config;
    Transport *transport;
    Watchdog  *watchdog;                             /* NULL: nobody watches */
    Mesh   mesh;
    /* data_comm: dp x cp; alone: this rank; kv: ranks of tp with copies of a key-value head; tied: stages
     * with embedding and head; pp: for ids of generation and sums over stages; etp, ep, edp: of experts. kv,
     * tied and those of experts are NULL where none is needed. */
    Comm  *world, *tp, *cp, *data_comm, *pp, *alone, *kv, *tied, *etp, *ep, *edp;
    Comm  *dp;                                       /* where the optimizer sums momenta; else NULL */
    Channels channels;                               /* to the neighbours in the pipeline */
    Comm  *ulysses, *ring;                           /* parts of cp under a2a+p2p; else NULL */
    Comm  *fp8_comm;                                 /* of amax (trainer_fp8.c); NULL without 8-bit maps */
    /* with experts: dispatch: etp+ep; sequence: cp, or tp+cp */
    Comm  *dispatch, *sequence;
    Comm  *stage_comm;                /* tp x cp x dp; NULL without experts and sums of the optimizer */
    DataComms data[PARAM_FAMILIES];                /* which ranks share parameters: two of these, or others */
    Comm  *comm[TRAINER_COMMS];                      /* [comms] each of them but world, once; owned */
    int    comms;
    Queue  queue;
    Precision precision;
    StepState step_state;
    Arena  arena[ARENAS];
    Stage  stage;
    /* [train_schedules] one for each size of a step, ascending; owned. Dry: of the largest step alone, and of
     * a few micro-batches (train/measure.c) */
    Schedule *train_schedule, valid_schedule;
    int      train_schedules;
    int      micros, valid_micros;                   /* of the largest step; of a batch of an evaluation */
    Buckets  buckets;
    WeightCopies copies;                                 /* of weights, compared with --test-mode */
    StageExecutor executor;
    Pipeline pipeline;
    /* of evaluations, where their micro-batches have another size (evaluates_apart): their slots lie where
     * those of training do */
    StageExecutor valid_executor;
    Pipeline valid_pipeline;
    Arena    shared_slots;
    Arena    world_window;                           /* part of persistent; of trainer_world_sum */
    /* on a device: of numbers of the host, and what carries tensors between ranks; owned */
    Queue    host_queue;
    Arena    host_window;
    DataTransport *device_data;
    TrainConfig *own_config;                         /* where trainer_start decided something; or NULL */
    OptimizerRun optimizer;                          /* its pieces are owned */
    AverageWeights average;                          /* of optimizers that average weights */
    /* of optimizers that take estimates: the update, from 1, that the last one was taken before; 0: none */
    int64_t estimated;
    int    (*piece_of)[PARAM_IDS];                   /* by bucket and parameter; -1: none; owned */
    int     *first_piece;                            /* of each bucket, and the number of all; owned */
    Fp8State fp8;
    MoeState moe;
    Tensor moe_summary;                              /* [1 + MOE_SUMS]: row load_summary of tensor/ops.def */

    /* F64, persistent: this rank's sums of a step (SumPlace), and their totals over all ranks; the report of
     * clip_and_skip */
    Tensor  own_sums_S, sums_S, report_4;
    Tensor  numbers, on_host;                        /* [all of them]; what the host has read of them */
    bool    flagged;                                 /* a rank had a flag in the last step, the same on all */
    /* on a device: where evaluations fill a batch before it is copied there */
    HostBatch host_batch;
    Datasets  datasets;
    /* by data set (data/split.h); prefetch NULL: the run does not read it. order: that of its steps, with the
     * micro-batches behind it */
    Loader     loader[DATA_SETS];
    Prefetch  *prefetch[DATA_SETS];
    StepOrder *order[DATA_SETS];
    /* micro-batches of the current step that have been filled */
    int       taken;
    /* steps done, and the samples that they consumed, which are the run's position; the samples of steps that
     * were not skipped, on which the schedules of learning rate and weight decay depend and which may count
     * each step alike (LrSchedule.by_steps) */
    int64_t step, samples, updated_samples;
    unsigned lacked;                                 /* CHECKPOINT_ bits of the one loaded */
    bool errors_left;                                /* the one loaded had another number of workers */
    bool has_saved;                                  /* a rewind takes all of this run's checkpoint */
    int64_t steps;                                   /* of the whole run, by trainer_set_position */
    int64_t batch;                                   /* samples of the present or last step */
    BatchStep constant, evaluated;                   /* of runs without a ramp; of evaluations */
    int64_t started;                                 /* seam clock when the run began */
    unsigned work;                                   /* bits of Work: done; dry: to be measured */
    LossStatistics losses;                           /* for the guard against spikes */
    EvaluationLosses evaluations;                    /* for early stopping */
    double  evaluated_bytes;                         /* of the text of the targets counted by this rank */
    double  bits_per_byte;                           /* of the last evaluation of a split; 0: not known */
    double  valid_loss;                              /* of an evaluation after the present step; 0: none */
    uint64_t due;                                    /* DUE_ bits: what should follow the present step */
    /* The number of the signal that this process received, else 0; NULL: evaluations do not check it. */
    const volatile sig_atomic_t *stop;
    int     signal;                                  /* the largest on any rank, by trainer_join_flags */
    /* not OK: the data of a micro-batch could not be read, and the step continued with ids 0 and
     * changed no weights; failure: the message */
    Status  failed;
    char    failure[FAIL_BYTES];
} Trainer;

/* Places of a step's sums: loss sum, tokens, squared gradients. Where they are asked for, then gradients that
 * are not zero, { loss sum, weights } of each depth of multi-token prediction; in a run that trains the
 * number of ranks with a flag. So far they are one message. Last squared weights, which are known after the
 * update only. An evaluation has bytes of its text in the place of squares. */
typedef enum { SUM_LOSS, SUM_TOKENS, SUM_SQUARES, STEP_SUMS } SumPlace;
enum { SUMS_MOST = STEP_SUMS + 1 + 2 * MTP_MOST + 1 + 1 };
static inline int64_t trainer_mtp_sums(const TrainConfig *config) { return STEP_SUMS + config->count_zeros; }
static inline int64_t trainer_flagged_sum(const TrainConfig *config)
{
    return trainer_mtp_sums(config) + 2 * config->model.mtp;
}
static inline int64_t trainer_joined_sums(const TrainConfig *config)
{
    return config->training ? trainer_flagged_sum(config) + 1 : STEP_SUMS;
}

/* Collective. sizes NULL: a dry trainer, whose transport must be dry. Fails with the same Status on all
 * ranks: options that fit no layout, data that cannot be read, memory. Close it after a failure too. */
Status trainer_open (Trainer *trainer, const TrainConfig *config, Transport *transport,
                     const ArenaSizes *sizes);
/* trainer_measure, then trainer_open with its sizes: how a run starts. Collective. */
Status trainer_start(Trainer *trainer, const TrainConfig *config, Transport *transport);
void   trainer_close(Trainer *trainer);
/* train/measure.c: the arena sizes of a rank, from a dry trainer that runs one step and one evaluation. Not
 * collective. Fails as trainer_open does where the transport is dry: BAD_OPTION, NO_MEMORY. */
Status trainer_measure(ArenaSizes *sizes, const TrainConfig *config, int rank, int world);
/* The same for a trainer that is opened for other work than steps and evaluations, which work(trainer,
 * context) does; NULL: as trainer_measure. trainer_start_work begins such a run. */
typedef void TrainerWork(Trainer *trainer, void *context);
Status trainer_measure_work(ArenaSizes *sizes, const TrainConfig *config, int rank, int world,
                            TrainerWork *work, void *context);
Status trainer_start_work  (Trainer *trainer, const TrainConfig *config, Transport *transport,
                            TrainerWork *work, void *context);
/* The same with the work alone that this trainer has done (Trainer.work), and all the slots that it has. */
Status trainer_measure_done(ArenaSizes *sizes, const Trainer *trainer);
/* The same for a dry trainer that is open; its arenas, queue and communicators keep the details. Of a step
 * with many micro-batches only few are run, and the rest is extrapolated. */
void   trainer_count(Trainer *dry, ArenaSizes *sizes);
/* Of a dry trainer that has run: BAD_OPTION where the device has no kernel for an operation. */
Status trainer_computable(const Trainer *dry);
/* The schedule that a dry trainer is opened with instead: its micro-batches do not grow with those of
 * `whole`. */
ScheduleShape trainer_dry_schedule(const ScheduleShape *whole);
void   trainer_init(Trainer *trainer);                               /* initial weights; optimizer states 0 */
/* Weights 0: for a checkpoint that has all of them. trainer_load does it. */
void   trainer_init_to_load(Trainer *trainer);

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
/* The samples of the next step are consumed and it is counted; nothing else. */
void       trainer_leave_out(Trainer *trainer);
/* A step without its update: gradients of the sum over tokens are in the buckets, loss sums and tokens in
 * sums_S. <-> all axes */
void       trainer_gradients(Trainer *trainer);
/* fill writes micro-batch `micro` of global batch `step` of an evaluation into `batch`. */
typedef void TrainerFill(void *context, Batch *batch, int64_t step, int micro);
/* Mean loss over `steps` global batches, which `fill` provides, with dropout off; NAN where a signal arrived
 * before the last one (`signal` has its number). <-> all axes */
double     trainer_evaluate(Trainer *trainer, int64_t steps, TrainerFill *fill, void *context);
/* The same over eval_iters batches of a data set (data/split.h). As in Megatron-LM each evaluation reads on
 * where the one before it ended, so its samples follow from the step alone; with full_validation each reads
 * every sample of the set once. <-> all axes */
double     trainer_evaluate_split(Trainer *trainer, int set);
/* Joins what the ranks report: flags are or-ed, of signals the largest is kept; where `stop` is given, this
 * rank's signal is read from it. <-> tp, dp+cp, pp: all-reduce of 5 numbers */
RunFlags   trainer_join_flags     (Trainer *trainer, RunFlags mine);
/* The flags of the last step: data that a rank could not read, a time that is over, signals. Those that came
 * before its sums were added; later ones are seen by the next step. <-> tp, dp+cp, pp, after a step in which
 * a rank had one; else nothing is sent */
RunFlags   trainer_step_flags     (Trainer *trainer);
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
/* train/trainer_comms.c: what carries tensors between ranks, before the world is opened; trainer_comms_close
 * closes it. Collective; the same failure on all ranks. */
Status       trainer_data_open  (Trainer *trainer, Transport *transport);
/* Resolves an `auto` of config, with TrainConfig.device_transport as DeviceTransport has it. Collective. */
Status       trainer_choose_transport(DeviceTransport *chosen, const TrainConfig *config,
                                      Transport *transport);
int          trainer_device_number(const Transport *transport);      /* of this rank */
/* The communicators of the mesh. Collective; NO_MEMORY, BAD_OPTION. */
Status       trainer_comms_open (Trainer *trainer);
void         trainer_comms_close(Trainer *trainer);                  /* and world */
/* x = its sum over all ranks: up to WORLD_NUMBERS numbers in F64, the same on all ranks
 * afterwards. Over the axes one after another, since a message over the world would grow with its ranks; the
 * order of additions follows from the mesh and --sum-group-size. Windows lie in Trainer.world_window, which
 * has the bytes of trainer_world_window. <-> tp, dp+cp, pp: all-reduces */
enum { WORLD_NUMBERS = 16 };
void         trainer_world_sum   (Trainer *trainer, Tensor x);
/* The same of numbers in host memory, or their maximum. */
void         trainer_numbers_sum (Trainer *trainer, double *x, int64_t count);
void         trainer_numbers_max (Trainer *trainer, double *x, int64_t count);
size_t       trainer_world_window(const Trainer *trainer);

/* train/trainer_fp8.c: scales of the 8-bit inputs of linear maps, and the history they follow from. All but
 * the first do nothing without delayed scaling; trainer_fp8_init sets what a run begins with. */
Status  trainer_fp8_comm (Trainer *trainer);
void    trainer_fp8_open (Trainer *trainer);
void    trainer_fp8_init (Trainer *trainer);
void    trainer_fp8_begin(Trainer *trainer);                        /* a step */
/* The scales of the next step. <-> tp+cp+dp: all-reduce of a few numbers for each block of the stage */
void    trainer_fp8_end  (Trainer *trainer);
/* What a checkpoint has of a block, number `i` of FP8_SAVED: the logical tensor, and this rank's view of it,
 * with count 0 where it has none. */
enum { FP8_SAVED = 2 };
LogicalTensor trainer_fp8_tensor(const Trainer *trainer, int64_t layer, int i);
TensorShard   trainer_fp8_shard (const Trainer *trainer, int64_t layer, int i);
/* What the scales make of amax, of x and w, and of dy: it follows from formats and margin. 0: none. */
typedef struct { double x, dy; } Fp8Largest;
Fp8Largest    trainer_fp8_largest(const Trainer *trainer);
/* The scales of the layer, which were loaded from a run with `was`, become those of this run. */
void          trainer_fp8_adapt  (Trainer *trainer, int64_t layer, Fp8Largest was);

/* train/trainer_optimizer.c: the pieces that the optimizer updates, and their states, which
 * trainer_optimizer_init sets to those of a new run with the present weights. */
void trainer_optimizer_open (Trainer *trainer);
void trainer_optimizer_init (Trainer *trainer);
/* Where the optimizer averages weights: the parameters of all ranks become those that are trained, or with
 * `average` the weights. Else nothing. <-> shard: all-gather under ZeRO 1 and 2 */
void trainer_parameters(Trainer *trainer, bool average);
void trainer_optimizer_close(Trainer *trainer);
/* The ranks whose momenta are summed with this one's; NULL: none. */
Comm *trainer_workers(const Trainer *trainer, ParamFamily family);
/* NULL: this rank updates no element of it. */
const OptimizerPiece *trainer_piece(const Trainer *trainer, int bucket, int param);

/* train/trainer_moe.c: the state of a mixture of experts; all do nothing without one. */
void    trainer_moe_open (Trainer *trainer);
void    trainer_moe_close(Trainer *trainer);
void    trainer_moe_init (Trainer *trainer);                        /* biases 0 */
void    trainer_moe_begin(Trainer *trainer);                        /* a step */
/* Biases of the next step, and the step's summary. <-> tp+cp+dp, pp: all-reduce of counts */
void    trainer_moe_end  (Trainer *trainer);
MoeReport trainer_moe_report(Trainer *trainer);                     /* of the last step */
/* The biases of a layer in a checkpoint: the logical tensor, and this rank's view of it, with count 0 where
 * it has none. */
LogicalTensor trainer_moe_tensor(const Trainer *trainer, int64_t layer);
TensorShard   trainer_moe_shard (const Trainer *trainer, int64_t layer);

/* train/trainer_checkpoint.c. Both are collective and fail on all ranks with the same message. Saving
 * refuses weights that are not finite. Loading takes the weights and, where the run trains, the optimizer
 * states and the position (step, samples, updates, loss scale) as far as the checkpoint has them and
 * config->leave does not leave them out, which it does until this run has saved; else they are those of a new
 * run, with states 0. */
/* A new checkpoint in dir; keep_last as in checkpoint_save. */
Status trainer_save(Trainer *trainer, const char *dir, int64_t keep_last);
Status trainer_load(Trainer *trainer, const char *path);             /* the checkpoint at path */
/* Not collective: the step directory that `load` means, or `load` itself where it is another program's
 * checkpoint (convert/weights/foreign_weights.h); its position, and what it lacks; of another program's
 * checkpoint trainer_load alone finds them (Trainer.lacked). */
Status trainer_find(const char *load, char path[1024], bool *found, CheckpointState *state);
/* CHECKPOINT_ bits: what a run takes of a checkpoint that lacks `lacks`. */
unsigned trainer_loads(const Trainer *trainer, unsigned lacks);
#endif
