/* One training step: the rows of the schedule, then loss sums, clipping and the update.
 * The host reads no value of a tensor before the end of the step, so a back end may run asynchronously until
 * then. */
#include "tensor/step_end.h"
#include "train/step.h"
#include "train/step_sums.h"
#include "train/trainer.h"
#include "train/trainer_comms.h"
#include "train/trainer_fp8.h"
#include "train/trainer_moe.h"
#include "train/trainer_optimizer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/array.h"
#include "base/seam.h"

/* Unreadable data is an error that the user can mend. But a rank alone cannot leave a step, since the others
 * would wait for its messages: it continues with ids 0, and after the step all ranks stop with its message
 * (train/loop.c). */
void trainer_fill(Trainer *t, Queue *q, int set, Batch *batch, int64_t first)
{
    Status status = prefetch_take(t->input.prefetch[set], q, batch, first, t->input.taken++);
    if (status == OK) return;
    t->input.failed = status;
    int used = snprintf(t->input.failure, sizeof t->input.failure, "%s", fail_text());
    long long step = (long long)t->run.step + 1;
    if (status == BAD_FILE && set_split(set) == SPLIT_TRAIN && used < (int)sizeof t->input.failure)
        snprintf(t->input.failure + used, sizeof t->input.failure - (size_t)used, "; step %lld reads it, and "
                 "--iterations-to-skip %lld leaves that step out", step, step);
    if (q) fill_zero(q, (FillZero){ .y = batch->all });           /* positions and key ranges too */
    else   memset(batch->all.data, 0, tensor_bytes(batch->all));
    memcpy(batch->seen, batch->causal, sizeof batch->seen);
}

static void fill_train(void *context, Batch *batch, int micro)
{
    Trainer *t = context;
    /* the prefetch has the same order */
    (void)micro;
    if (comm_dry(t->comms.world)) return;
    trainer_fill(t, &t->queue, SPLIT_TRAIN, batch, t->run.samples);
}

static void on_reduce(void *context, int chunk)
{
    Trainer *t = context;
    buckets_reduce(&t->buckets, &t->stage, chunk);                            /* <-> shard replica tp kv */
}

/* Where each of P workers keeps its own gradient g, whose mean over them would be that of the step if it
 * were P g: the mean of |P g|^2 over the workers, so that the norm is the root mean square of theirs. */
static void add_own_squares(Trainer *t)
{
    const CompressedAllReduce *compressed = &t->update.optimizer.compressed;
    Arena *scratch = &t->arena[ARENA_SCRATCH];
    size_t mark = arena_mark(scratch);
    Tensor worker_1 = tensor_new(scratch, "squares of a worker", F64, 1);
    for (int i = 0; i < compressed->count; i++) {
        const CompressedPieces *x = &compressed->of[i];
        fill_zero(&t->queue, (FillZero){ .y = worker_1 });
        for (int p = x->first; x->counts && p < x->end; p++) {
            const OptimizerPiece *piece = &t->update.optimizer.piece[p];
            if (piece->saves) step_sums_add_squares(t, worker_1, piece->g);
        }
        add_scaled(&t->queue, (AddScaled){ .y_1 = step_sums_own(t, SUM_SQUARES), .x_1 = worker_1,
                                           .factor = comm_size(x->workers) });
    }
    arena_reset(scratch, mark);
}

/* STEP of trainer_gradients: the sums without the update. */
static void on_gradients(void *context)
{
    Trainer *t = context;
    buckets_reduce_tied(&t->buckets);                                             /* <-> shard replica tied */
    if (t->buckets.own_gradients) add_own_squares(t);
    else step_sums_add_gradients(t);
    step_sums_add_zeros(t);
    step_sums_join(t);                                                        /* <-> tp, dp+cp, pp */
}

/* So many buckets of updated weights are gathered at a time: enough to hide behind updates, and fewer than
 * transports allow in one group. */
enum { GATHERS = 16 };

static void on_step(void *context)
{
    Trainer *t = context;
    on_gradients(t);                                                          /* <-> all axes */
    clip_and_skip(&t->queue, (ClipAndSkip){ .report_4 = t->sums.report_4,
        .sums_3 = tensor_flat(t->sums.total_S, 0, STEP_SUMS), .clip = t->config->clip,
        .scaling = t->config->scaling });
    optimizer_tensors(&t->update.optimizer);                                         /* <-> stage tp etp */
    for (int i = 0; i < t->buckets.count; i++) {
        Bucket *k = &t->buckets.bucket[i];
        optimizer_elements(&t->update.optimizer, t->update.first_piece[i], t->update.first_piece[i + 1]);
        buckets_gather_begin(&t->buckets, k);                                  /* <-> shard under ZeRO 1, 2 */
        if (!t->buckets.overlap) bucket_gathered(k);
        else if (i >= GATHERS) bucket_gathered(k - GATHERS);
    }
    step_sums_join_weights(t);                                                /* <-> tp, dp+cp, pp */
    trainer_fp8_end(t);                                                       /* <-> tp+cp+dp */
    trainer_moe_end(t);                                                       /* <-> tp+cp+dp pp */
}

/* STEP of an estimate: the gradients of drawn targets go to the rules. The factor is that of a mean, without
 * clipping, and the loss scale stays. */
static void on_estimate(void *context)
{
    Trainer *t = context;
    on_gradients(t);                                                          /* <-> all axes */
    clip_and_skip(&t->queue, (ClipAndSkip){ .report_4 = t->sums.report_4,
        .sums_3 = tensor_flat(t->sums.total_S, 0, STEP_SUMS) });
    for (int i = 0; i < t->update.optimizer.pieces; i++) {
        const OptimizerPiece *piece = &t->update.optimizer.piece[i];
        piece->rule->estimate(&t->queue, &t->config->settings, piece,
                              tensor_flat(t->sums.total_S, SUM_TOKENS, 1));
    }
}

static void run_schedule(Trainer *t, void (*at_end)(void *context))
{
    t->step_state.step = t->run.step;
    t->step_state.lr   = lr_at(&t->config->lr, t->run.updated_samples);
    t->step_state.decoupled_lr = lr_decoupled_at(&t->config->lr, t->run.updated_samples);
    average_next(&t->step_state.average_share, t->run.average, t->step_state.lr);
    t->step_state.weight_decay = weight_decay_at(&t->config->weight_decay, t->run.updated_samples);
    t->run.batch = batch_schedule_at(trainer_batches(t), t->run.samples);
    step_state_scale(&t->step_state, t->run.batch * t->config->model.sequence);
    t->step_state.loss_limit = spike_limit(&t->config->spike, &t->run.losses);
    queue_state_write(&t->queue);
    t->input.taken     = 0;
    thread_context()->step = t->run.step + 1;
    t->train.executor.ctx.drop   = true;
    t->train.executor.ctx.sums_2 = step_sums_loss(t);
    t->train.executor.ctx.mtp_sums_N2 = step_sums_mtp(t);
    t->buckets.own_gradients = t->config->training && optimizer_compresses_now(t->config->optimizer,
        &t->config->settings, t->step_state.updates);
    fill_zero(&t->queue, (FillZero){ .y = t->sums.own_S });
    buckets_zero_grads(&t->buckets);
    trainer_fp8_begin(t);
    trainer_moe_begin(t);
    pipeline_run(&t->train.pipeline, trainer_schedule(t), (PipelineCalls){ .context = t, .fill = fill_train,
        .reduce = on_reduce, .step = at_end });
    queue_state_read_begin(&t->queue);
    step_sums_read(t);
    queue_state_read(&t->queue);
}

void trainer_estimate(Trainer *t)
{
    t->train.executor.ctx.drawn = true;
    run_schedule(t, on_estimate);                                             /* <-> all axes */
    t->train.executor.ctx.drawn = false;
}

/* Before some updates of an optimizer that takes estimates; a dry run counts them apart (train/measure.c). An
 * update whose step was skipped, and which is tried again, has its estimate already, unless that was left
 * out. */
static EstimateReport estimate(Trainer *t)
{
    bool due = optimizer_estimates(t->config->optimizer) &&
               t->step_state.updates % t->config->settings.estimate_interval == 0 &&
               t->run.estimated != t->step_state.updates + 1;
    if (!due || comm_dry(t->comms.world)) return (EstimateReport){ 0 };
    trainer_estimate(t);                                                      /* <-> all axes */
    const double *r = step_sums_on_host(t, t->sums.report_4);
    if (r[3] == 0) t->run.estimated = t->step_state.updates + 1;
    bool unread = r[1] != r[1];                                     /* the run stops after this step */
    return (EstimateReport){ .left_out = r[3] != 0 && !unread, .spike = r[3] == SKIP_SPIKE, .loss = r[0],
                             .norm = r[2] };
}

bool trainer_compresses(const Trainer *t)
{
    int64_t steps = t->run.steps > 0 ? t->run.steps : t->config->steps;
    return t->config->training && optimizer_compresses(t->config->optimizer) &&
           steps > t->config->settings.freeze;
}

void trainer_gradients(Trainer *t) { run_schedule(t, on_gradients); }

void trainer_again(Trainer *t, OpFinding *finding)
{
    t->run.step--;
    t->run.samples -= t->run.batch;
    t->queue.finding = finding;
    run_schedule(t, on_gradients);
    t->queue.finding = NULL;
    t->run.step++;
    t->run.samples += t->run.batch;
}

int trainer_least(Trainer *t, double mine)
{
    double world = t->mesh.world, most = isfinite(mine) ? -mine : -INFINITY;
    trainer_numbers_max(t, &most, 1);                                         /* <-> tp, dp+cp, pp */
    /* of those that have it the lowest rank */
    most = isfinite(most) && -mine == most ? world - t->mesh.rank : 0;
    trainer_numbers_max(t, &most, 1);                                         /* <-> tp, dp+cp, pp */
    return most > 0 ? (int)(world - most) : -1;
}

void trainer_leave_out(Trainer *t)
{
    t->run.batch    = batch_schedule_at(trainer_batches(t), t->run.samples);
    t->run.samples += t->run.batch;
    t->run.step++;
}

/* Not repeated by trainer_again. */
static void test_copies(Trainer *t)
{
    char text[200] = "";
    if (!t->config->test_copies) return;
    CHECK(weight_copies_equal(&t->copies, &t->buckets, text), "%s before step %lld, which --test-mode tests: "
          "memory or a message was changed by a fault of a machine; load a checkpoint from before it", text,
          (long long)t->run.step + 1);
}

/* Samples that the schedules count for a step. */
static int64_t counted(const Trainer *t)
{
    return t->config->lr.by_steps ? (int64_t)t->config->lr.step : t->run.batch;
}

StepReport trainer_step(Trainer *t)
{
    LossScale before = t->step_state.loss;
    test_copies(t);                                                     /* <-> tp kv tied shard replica */
    EstimateReport estimated = estimate(t);                                   /* <-> all axes */
    t->work |= WORK_STEP;
    run_schedule(t, on_step);
    t->run.step++;
    t->run.samples += t->run.batch;
    if (!t->sums.report_4.data) return (StepReport){ 0 };
    const double *r = step_sums_on_host(t, t->sums.report_4);
    if (r[3] == 0) t->step_state.updates++, t->run.updated_samples += counted(t);
    if (r[3] == 0) t->run.average = average_next(&(double){ 0 }, t->run.average, t->step_state.lr);
    if (r[3] == 0) spike_add(&t->config->spike, &t->run.losses, r[0]);
    StepReport report = { .loss = r[0], .tokens = r[1], .norm = r[2], .samples = t->run.batch,
        .waited = prefetch_waited(t->input.prefetch[SPLIT_TRAIN]), .skipped = r[3] != 0,
        .overflow = r[3] == SKIP_OVERFLOW && before.scale > t->config->scaling.minimum,
        .spike = r[3] == SKIP_SPIKE, .mean = t->run.losses.mean, .loss_scale = before.scale,
        .lr = t->step_state.lr, .decoupled_lr = t->step_state.decoupled_lr, .moe = trainer_moe_report(t),
        .estimate = estimated };
    step_sums_report(t, &report);
    return report;
}

bool trainer_expired(const Trainer *t)
{
    double minutes = (double)(seam.clock() - t->run.started) / 60e9;
    return t->config->exit_minutes > 0 && minutes > t->config->exit_minutes;
}

RunFlags trainer_join_flags(Trainer *t, RunFlags mine)
{
    if (t->stop) mine.signal = __atomic_load_n(t->stop, __ATOMIC_RELAXED);
    double x[] = { mine.failed, mine.memory, mine.signal, mine.expired, mine.best };
    trainer_numbers_max(t, x, COUNT(x));                                      /* <-> tp, dp+cp, pp */
    t->signal = (int)x[2];
    return (RunFlags){ .failed = x[0] > 0, .memory = x[1] > 0, .signal = t->signal, .expired = x[3] > 0,
                       .best = x[4] > 0 };
}

RunFlags trainer_step_flags(Trainer *t)
{
    RunFlags mine = { .failed = t->input.failed != OK, .expired = trainer_expired(t) };
    return t->sums.flagged ? trainer_join_flags(t, mine) : (RunFlags){ 0 };  /* <-> tp, dp+cp, pp */
}
