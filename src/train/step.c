/* One training step and one evaluation: the rows of the schedule, then loss sums, clipping and the update.
 * The host reads no value of a tensor before the end of the step, so a back end may run asynchronously until
 * then. */
#include "tensor/step_end.h"
#include "train/step.h"
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

/* Parts of this rank's sums (SumPlace). */
static Tensor loss_sums(const Trainer *t) { return tensor_flat(t->sums.own_S, SUM_LOSS, 2); }
static Tensor own_sum(const Trainer *t, int64_t place) { return tensor_flat(t->sums.own_S, place, 1); }

/* [N, 2]; absent without multi-token prediction */
static Tensor mtp_sums(const Trainer *t)
{
    int64_t N = t->config->training ? t->config->model.mtp : 0;
    if (N == 0) return tensor_none();
    return tensor_view(tensor_flat(t->sums.own_S, trainer_mtp_sums(t->config), 2 * N), N, 2);
}

static void add_squares (Trainer *t, Tensor out_1, Tensor x_N)
{
    square_sum(&t->queue, (SquareSum){ .out_1 = out_1, .x_N = x_N });
}

static void add_nonzeros(Trainer *t, Tensor out_1, Tensor x_N)
{
    nonzero_count(&t->queue, (NonzeroCount){ .out_1 = out_1, .x_N = x_N });
}

/* Adds to out_1 a sum over those elements of `own` [own_count], gradients or weights, that this rank counts
 * in global norms, where each element is counted by one rank of all that have it. Neighbours are one range;
 * the holes between them, and padding, are zero, which adds nothing. */
static void sum_counted(Trainer *t, const Bucket *k, Tensor out_1, Tensor own,
                        void (*add)(Trainer *t, Tensor out_1, Tensor x_N))
{
    const ParamBlock *block = &k->block;
    for (int p = 0, next; p < block->params; p = next) {
        bool saves = block->param[p].saves;
        for (next = p + 1; next < block->params && block->param[next].saves == saves; next++) {}
        int64_t from = block->param[p].at, end = next < block->params ? block->param[next].at : block->count;
        if (from < k->counted_first) from = k->counted_first;
        if (end > k->counted_first + k->counted_count) end = k->counted_first + k->counted_count;
        if (!saves || from >= end) continue;
        add(t, out_1, tensor_flat(own, from - k->own_first, end - from));
    }
}

/* Elements of the gradients that are not zero. */
static void count_nonzeros(Trainer *t)
{
    for (int i = 0; t->config->count_zeros && i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        sum_counted(t, k, own_sum(t, STEP_SUMS), bucket_own(k, k->grads), add_nonzeros);
    }
}

/* S of this rank's sums from `first` on become totals over all ranks, the same bits on each, so that all take
 * the same decisions: clipping, skipping, stopping. */
static void total_over_ranks(Trainer *t, int64_t first, int64_t S)
{
    Tensor own = tensor_flat(t->sums.own_S, first, S), total = tensor_flat(t->sums.total_S, first, S);
    sums_total(&t->queue, (SumsTotal){ .total_S = total, .sums_RS = tensor_view(own, 1, S) });
    trainer_world_sum(t, total);                                              /* <-> tp, dp+cp, pp */
}

static bool expired(const Trainer *t)
{
    double minutes = (double)(seam.clock() - t->run.started) / 60e9;
    return t->config->exit_minutes > 0 && minutes > t->config->exit_minutes;
}

static void write_own(Trainer *t, int64_t place, double value)
{
    queue_write(&t->queue, own_sum(t, place).data, &value, sizeof value);
}

/* The one message of a step's sums. An element of the gradients is counted by one rank (sum_counted); a loss
 * is the same on all ranks of tp, of which the first one's counts. Ranks that have flags are counted, so that
 * flags need a message of their own only after a step in which there is one. */
static void join_sums(Trainer *t)
{
    Tensor mtp = mtp_sums(t);
    bool signal = t->stop && __atomic_load_n(t->stop, __ATOMIC_RELAXED) != 0;
    bool flagged = t->config->training && !comm_dry(t->comms.world) &&
        (t->input.failed != OK || signal || expired(t));
    if (t->mesh.at.tp > 0) fill_zero(&t->queue, (FillZero){ .y = loss_sums(t) });
    if (t->mesh.at.tp > 0 && tensor_present(mtp)) fill_zero(&t->queue, (FillZero){ .y = mtp });
    if (t->input.failed != OK) write_own(t, SUM_TOKENS, NAN);        /* no rank then updates anything */
    if (flagged) write_own(t, trainer_flagged_sum(t->config), 1);
    total_over_ranks(t, 0, trainer_joined_sums(t->config));                   /* <-> tp, dp+cp, pp */
}

/* The squares of the weights after the update, in the type that the optimizer has them in: a message of their
 * own, of one number. */
static void join_square_weights(Trainer *t)
{
    int64_t place = trainer_joined_sums(t->config);
    if (!t->config->params_norm) return;
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        sum_counted(t, k, own_sum(t, place), bucket_master(k), add_squares);
    }
    total_over_ranks(t, place, 1);                                            /* <-> tp, dp+cp, pp */
}

/* The numbers of a step or an evaluation, in one wait for the device. */
static void read_numbers(Trainer *t)
{
    if (t->sums.all.data)
        queue_read_begin(&t->queue, t->sums.on_host.data, t->sums.all.data, tensor_bytes(t->sums.all));
    comm_drain(t->comms.world, &t->queue);
}

/* As read_numbers has found it. `part` is one of numbers. */
static const double *on_host(const Trainer *t, Tensor part)
{
    const double *all = t->sums.all.data, *begin = part.data;
    return (const double *)t->sums.on_host.data + (begin - all);
}

/* What the report has of the totals beyond loss and norm. */
static void report_sums(Trainer *t, StepReport *r)
{
    const TrainConfig *config = t->config;
    const double *sum = on_host(t, t->sums.total_S), *own = on_host(t, loss_sums(t));
    int64_t mtp = trainer_mtp_sums(config);
    for (int64_t k = 0; k < config->model.mtp; k++) r->mtp[k] = sum[mtp + 2 * k] / sum[mtp + 2 * k + 1];
    t->sums.flagged  = sum[trainer_flagged_sum(config)] > 0;
    r->own_loss = config->logs.history && own[1] > 0 ? own[0] / own[1] : NAN;
    r->zeros       = config->count_zeros ? (double)model_parameters(&config->model) - sum[STEP_SUMS] : -1;
    r->params_norm = config->params_norm ? sqrt(sum[trainer_joined_sums(config)]) : -1;
}

/* Unreadable data is an error that the user can mend. But a rank alone cannot leave a step, since the others
 * would wait for its messages: it continues with ids 0, and after the step all ranks stop with its message
 * (train/loop.c). */
static void fill_or_fail(Trainer *t, Queue *q, int set, Batch *batch, int64_t first)
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
    fill_or_fail(t, &t->queue, SPLIT_TRAIN, batch, t->run.samples);
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
        for (int p = x->first; x->counts && p < x->end; p++)
            if (t->update.optimizer.piece[p].saves) add_squares(t, worker_1, t->update.optimizer.piece[p].g);
        add_scaled(&t->queue, (AddScaled){ .y_1 = own_sum(t, SUM_SQUARES), .x_1 = worker_1,
                                           .factor = comm_size(x->workers) });
    }
    arena_reset(scratch, mark);
}

/* STEP of trainer_gradients: the sums without the update. */
static void on_gradients(void *context)
{
    Trainer *t = context;
    buckets_reduce_tied(&t->buckets);                                             /* <-> shard replica tied */
    for (int i = 0; !t->buckets.own_gradients && i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        sum_counted(t, k, own_sum(t, SUM_SQUARES), bucket_own(k, k->grads), add_squares);
    }
    if (t->buckets.own_gradients) add_own_squares(t);
    count_nonzeros(t);
    join_sums(t);                                                             /* <-> tp, dp+cp, pp */
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
    join_square_weights(t);                                                   /* <-> tp, dp+cp, pp */
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
    t->train.executor.ctx.sums_2 = loss_sums(t);
    t->train.executor.ctx.mtp_sums_N2 = mtp_sums(t);
    t->buckets.own_gradients = t->config->training && optimizer_compresses_now(t->config->optimizer,
        &t->config->settings, t->step_state.updates);
    fill_zero(&t->queue, (FillZero){ .y = t->sums.own_S });
    buckets_zero_grads(&t->buckets);
    trainer_fp8_begin(t);
    trainer_moe_begin(t);
    pipeline_run(&t->train.pipeline, trainer_schedule(t), (PipelineCalls){ .context = t, .fill = fill_train,
        .reduce = on_reduce, .step = at_end });
    queue_state_read_begin(&t->queue);
    read_numbers(t);
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
    const double *r = on_host(t, t->sums.report_4);
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
    const double *r = on_host(t, t->sums.report_4);
    if (r[3] == 0) t->step_state.updates++, t->run.updated_samples += counted(t);
    if (r[3] == 0) t->run.average = average_next(&(double){ 0 }, t->run.average, t->step_state.lr);
    if (r[3] == 0) spike_add(&t->config->spike, &t->run.losses, r[0]);
    StepReport report = { .loss = r[0], .tokens = r[1], .norm = r[2], .samples = t->run.batch,
        .waited = prefetch_waited(t->input.prefetch[SPLIT_TRAIN]), .skipped = r[3] != 0,
        .overflow = r[3] == SKIP_OVERFLOW && before.scale > t->config->scaling.minimum,
        .spike = r[3] == SKIP_SPIKE, .mean = t->run.losses.mean, .loss_scale = before.scale,
        .lr = t->step_state.lr, .decoupled_lr = t->step_state.decoupled_lr, .moe = trainer_moe_report(t),
        .estimate = estimated };
    report_sums(t, &report);
    return report;
}

/* Where an evaluation reads a data set: from sample `first` on; step: the batch of it that is being filled.
 */
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
    fill_or_fail(at->trainer, NULL, at->set, batch, at->first + step * at->trainer->valid.batch.size);
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
    executor->ctx.sums_2 = loss_sums(t);
    trainer_parameters(t, true);                                              /* <-> shard */
    fill_zero(&t->queue, (FillZero){ .y = t->sums.own_S });
    /* The ranks agree before each batch whether any of them has received a signal. */
    for (; e.step < steps; e.step++) {
        if (!e.dry) seam_point("evaluation");
        if (t->stop && trainer_join_flags(t, (RunFlags){ 0 }).signal) break;     /* <-> world */
        t->work |= WORK_EVALUATION;
        pipeline_run(pipeline, &t->valid.schedule,
                     (PipelineCalls){ .context = &e, .fill = fill_from_caller });
    }
    if (t->sums.own_S.data)
        queue_write(&t->queue, own_sum(t, SUM_SQUARES).data, &t->valid.bytes, sizeof(double));
    join_sums(t);                                                             /* <-> tp, dp+cp, pp */
    trainer_parameters(t, false);                                             /* <-> shard */
    read_numbers(t);
    static const double none[STEP_SUMS];
    const double *sum = t->sums.total_S.data ? on_host(t, t->sums.total_S) : none;
    double loss = sum[SUM_LOSS], tokens = sum[SUM_TOKENS], bytes = sum[SUM_SQUARES];
    t->valid.bytes = 0;
    t->valid.bits_per_byte   = bytes > 0 ? loss / LN_2 / bytes : 0;
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
    RunFlags mine = { .failed = t->input.failed != OK, .expired = expired(t) };
    return t->sums.flagged ? trainer_join_flags(t, mine) : (RunFlags){ 0 };  /* <-> tp, dp+cp, pp */
}
