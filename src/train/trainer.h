#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H
/* One rank of a run: its place in the mesh, its memory and all that lives in it. Opened twice by the same code: dry, to learn how
 * large each arena must be, and real. What the dry one counted is what the real one takes, to the byte.                        */
#include <signal.h>
#include "data/datasets.h"
#include "data/prefetch.h"
#include "parallel/pipeline.h"
#include "comm/transport.h"
#include "comm/watchdog.h"
#include "store/checkpoint.h"
#include "train/train_config.h"

/* What any rank may have to say between two steps: data that could not be had, memory other than its dry run's, a signal (which may
 * come to one rank alone; 0: none). */
typedef struct { bool failed, memory; int signal; } RunFlags;
enum { RUN_FLAGS = 3 };                           /* numbers of it in a message */

typedef enum { ARENA_PERSISTENT, ARENA_ACTIVATIONS, ARENA_GATHERED, ARENA_SCRATCH, ARENA_HOST, ARENAS } ArenaName;
typedef struct { size_t bytes[ARENAS], slot[CHUNKS_MAX]; } ArenaSizes;

typedef struct { double loss, tokens, norm, waited; bool skipped; } StepReport;      /* waited: seconds for data */

typedef struct Trainer {
    const TrainConfig *config;
    Transport *transport;
    Watchdog  *watchdog;                             /* NULL: nobody watches */
    Mesh   mesh;
    Comm  *world, *tp, *cp, *data, *pp, *tied;       /* data: dp x cp; tied: first and last stage (NULL: none) */
    Queue  queue;
    StepState   step_state;
    Arena  arena[ARENAS];
    Stage  stage;
    Schedule train, valid;
    Buckets  buckets;
    StageExecutor     executor;
    Pipeline pipeline;
    Tensor (*state)[OPTIMIZER_STATES];               /* by bucket: [own_count]; owned */
    Tensor  sums_3, sums_R3, report_4, flags_3, flags_R3;   /* F64: loss, tokens, squared gradients; of all ranks; clip_and_skip's report; RunFlags; of all ranks */
    Datasets    datasets;
    Loader    loader[SPLITS];
    Prefetch *prefetch[SPLITS];                      /* NULL: the run takes nothing of it */
    int       taken;                                 /* micro-batches of the step at hand that were filled */
    int64_t step;                                    /* steps done */
    const volatile sig_atomic_t *stop;               /* a signal's number once one has come to this process; NULL: evaluations do not look */
    int     signal;                                  /* the one that has come to any rank, as of the last trainer_any; 0: none */
    Status  failed;                                  /* data of a micro-batch that could not be had; */
    char    why[512];                                /* the step went on with ids 0, its result is void */
} Trainer;

/* Collective. sizes NULL: a dry trainer (transport must be dry then). */
Status trainer_open (Trainer *trainer, const TrainConfig *config, Transport *transport, const ArenaSizes *sizes);
/* trainer_measure, then trainer_open with what it said: how a run begins. Collective. */
Status trainer_start(Trainer *trainer, const TrainConfig *config, Transport *transport);
void   trainer_close(Trainer *trainer);
/* train/measure.c: what a rank of this run needs: opens it dry, runs a step and an evaluation, and reads the arenas. Not collective. */
Status trainer_measure(ArenaSizes *sizes, const TrainConfig *config, int rank, int world);
/* The same for a dry trainer at hand, whose arenas, queue and comms keep the details. A step of many micro-batches is not run whole:
 * what the left out ones add is computed. */
void   trainer_count(Trainer *dry, ArenaSizes *sizes);
void   trainer_init(Trainer *trainer);                               /* new weights, states zero */

StepReport trainer_step    (Trainer *trainer);                       /* <-> all axes */
/* A step without its end: gradients of the sum over tokens are in the buckets, loss sum and tokens in sums_R3. <-> all axes */
void       trainer_gradients(Trainer *trainer);
/* Mean loss over that many global batches, dropout off; NAN where a signal came before the last (signal says it). <-> all axes */
typedef void TrainerFill(void *context, Batch *batch, int64_t step, int micro);
double     trainer_evaluate(Trainer *trainer, int64_t steps, TrainerFill *fill, void *context);    /* of what fill puts into micro-batch m of step k */
/* Of a split. Megatron's way: each evaluation goes on behind the one before it, so which samples it takes follows from the step. */
double     trainer_evaluate_split(Trainer *trainer, SplitKind kind);
/* What any rank has to say: its flags and mine, the largest signal; `stop`, where it is given, is this rank's. <-> world: all-gather of 3 numbers */
RunFlags   trainer_any     (Trainer *trainer, RunFlags mine);
int64_t    trainer_step_tokens(const TrainConfig *config);
LoaderConfig trainer_loader_config(const Trainer *trainer);

/* train/trainer_checkpoint.c: the pieces of weights and states this rank writes and reads */
Status trainer_save(Trainer *trainer, const char *dir);              /* collective */
Status trainer_load(Trainer *trainer, const char *path);             /* collective; states too where it learns */
#endif
