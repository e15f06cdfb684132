/* Evaluations: the forward rows of a schedule over the samples of a data set. */
#include "train/evaluation.h"

#include <math.h>
#include "base/seam.h"
#include "train/step_sums.h"
#include "train/trainer_optimizer.h"

/* Where an evaluation reads a data set: from sample `first` on; step: the batch that is being filled. */
typedef struct { Trainer *trainer; int set; int64_t first, step; } SetPosition;

/* The bytes of the targets that count. All stages and tp ranks read the same samples, for each of their
 * chunks: those of one count them, once. */
static void count_bytes(Trainer *t, const Batch *batch)
{
    const TrainConfig *config = t->config;
    const int32_t *target = batch->target_i.data;
    const char *weights = batch->loss_weight_T.data;
    Dtype dtype = batch->loss_weight_T.dtype;
    if (!config->id_bytes || t->mesh.at.tp > 0 || t->mesh.at.pp > 0) return;
    for (int64_t i = 0; i < tensor_count(batch->target_i); i++) {
        double weight;
        dtype_convert(&weight, F64, weights + (size_t)i * dtype_width(dtype), dtype, 1);
        if (weight > 0 && target[i] >= 0 && target[i] < config->ids)
            t->valid.bytes += (double)config->id_bytes[target[i]] / config->chunks;
    }
}

static void fill_evaluation(void *context, Batch *batch, int64_t step, int micro)
{
    SetPosition *at = context;
    (void)micro;
    if (at->step != step) at->trainer->input.taken = 0;
    at->step = step;
    trainer_fill(at->trainer, NULL, at->set, batch, at->first + step * at->trainer->valid.batch.size);
    count_bytes(at->trainer, batch);
}

/* What the calls of the evaluation schedule need: the caller's fill and its context; the current global
 * batch; dry: no data. */
typedef struct { Trainer *trainer; TrainerFill *fill; void *context; int64_t step; bool dry; } Evaluation;

static void fill_from_caller(void *context, Batch *batch, int micro)
{
    Evaluation *e = context;
    Trainer *t = e->trainer;
    if (e->dry) return;
    if (!t->queue.memory) { e->fill(e->context, batch, e->step, micro); return; }
    host_batch_free(&t->input.host_batch);
    e->fill(e->context, &t->input.host_batch.batch, e->step, micro);
    host_batch_copy(&t->queue, batch, &t->input.host_batch);
}

static const double LN_2 = 0.693147180559945309;

double trainer_evaluate(Trainer *t, int64_t steps, TrainerFill *fill, void *context)
{
    Evaluation e = { .trainer = t, .fill = fill, .context = context, .dry = comm_dry(t->comms.world) };
    bool apart = trainer_evaluates_apart(t);
    StageExecutor *executor = apart ? &t->valid.executor : &t->train.executor;
    Pipeline *pipeline = apart ? &t->valid.pipeline : &t->train.pipeline;
    executor->ctx.drop   = false;
    executor->ctx.sums_2 = step_sums_loss(t);
    trainer_parameters(t, true);                                              /* <-> shard */
    fill_zero(&t->queue, (FillZero){ .y = t->sums.own_S });
    /* The ranks agree before each batch whether any of them has received a signal. */
    for (; e.step < steps; e.step++) {
        if (!e.dry) seam_point("evaluation");
        if (t->stop && trainer_join_flags(t, (RunFlags){ 0 }).signal) break;     /* <-> tp, dp+cp, pp */
        t->work |= WORK_EVALUATION;
        pipeline_run(pipeline, &t->valid.schedule,
                     (PipelineCalls){ .context = &e, .fill = fill_from_caller });
    }
    if (t->sums.own_S.data)
        queue_write(&t->queue, step_sums_own(t, SUM_SQUARES).data, &t->valid.bytes, sizeof(double));
    step_sums_join(t);                                                        /* <-> tp, dp+cp, pp */
    trainer_parameters(t, false);                                             /* <-> shard */
    step_sums_read(t);
    static const double none[STEP_SUMS];
    const double *sum = t->sums.total_S.data ? step_sums_on_host(t, t->sums.total_S) : none;
    double loss = sum[SUM_LOSS], tokens = sum[SUM_TOKENS], bytes = sum[SUM_SQUARES];
    t->valid.bytes = 0;
    t->valid.bits_per_byte = bytes > 0 ? loss / LN_2 / bytes : 0;
    return e.step < steps ? NAN : loss / tokens;
}

double trainer_evaluate_split(Trainer *t, int set)
{
    const TrainConfig *config = t->config;
    int64_t all = t->input.loader[set].end, global = t->valid.batch.size;  /* all 0: eval_iters batches */
    /* earlier evaluations */
    bool repeated = set_split(set) == SPLIT_VALID && config->eval_interval > 0 && all == 0;
    int64_t before = repeated && t->run.step > 0 ? (t->run.step - 1) / config->eval_interval : 0;
    SetPosition at = { .trainer = t, .set = set, .step = -1,
                       .first = before * config->eval_iters * global };
    int64_t batches = all > 0 ? (all + global - 1) / global : config->eval_iters;
    return trainer_evaluate(t, batches, fill_evaluation, &at);
}
