#include "train/trainer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One step: the schedule's rows, then sums, clip, update. The host reads nothing before the end. */

static Tensor loss_sums(Trainer *t) { return tensor_flat(t->sums_3, 0, 2); }

/* Squares of the gradients this rank answers for: its shard, what tp copies on tp rank 0 alone, no second copy of the word embedding */
static void square_own(Trainer *t, const Bucket *k)
{
    int64_t end = k->shard_first + k->shard;
    if (end > k->block.replicated && t->mesh.at.tp > 0) end = k->block.replicated;
    if (end > k->block.count) end = k->block.count;
    if (!k->counted || end <= k->shard_first) return;
    Tensor own = bucket_own(k, k->grads);
    square_sum(&t->queue, (SquareSum){ .out_1 = tensor_flat(t->sums_3, 2, 1), .x_N = tensor_flat(own, k->shard_first - k->own_first, end - k->shard_first) });
}

static void update(Trainer *t, int index)
{
    const Bucket *k = &t->buckets.bucket[index];
    const Optimizer *rule = t->config->optimizer;
    Tensor w = bucket_own(k, k->weights), g = bucket_own(k, k->grads);
    for (int p = 0; p < k->block.params; p++) {
        TensorShard piece = params_tensor_shard(&k->block, p, k->own_first, k->own_count);
        int64_t at = k->block.param[p].at + piece.first - k->own_first;
        Tensor state[OPTIMIZER_STATES] = { { 0 } };
        if (piece.count == 0) continue;
        for (int s = 0; s < rule->states; s++) state[s] = tensor_flat(t->state[index][s], at, piece.count);
        rule->update(&t->queue, &t->config->settings, tensor_flat(w, at, piece.count), tensor_flat(g, at, piece.count), state, k->block.param[p].decay);
    }
}

static void gather_sums(Trainer *t)
{
    if (t->mesh.at.tp > 0) fill_zero(&t->queue, (FillZero){ .y = loss_sums(t) });      /* tp ranks have the same loss: one counts */
    comm_all_gather(t->world, &t->queue, t->sums_R3, t->sums_3);              /* <-> world: all-gather of 3 sums */
}

/* Bad data is a person's to mend, but a rank alone cannot leave a step: it goes on with ids 0, and all stop after it. */
static void fill_or_fail(Trainer *t, SplitKind kind, Batch *batch, int64_t step)
{
    Status status = prefetch_take(t->prefetch[kind], batch, step, t->taken++);
    if (status == OK) return;
    t->failed = status;
    snprintf(t->why, sizeof t->why, "%s", fail_text());
    memset(batch->token_i.data,  0, tensor_bytes(batch->token_i));
    memset(batch->target_i.data, 0, tensor_bytes(batch->target_i));
}

static void on_fill(void *context, Batch *batch, int micro)
{
    Trainer *t = context;
    (void)micro;                                                              /* the prefetch knows the order */
    if (comm_dry(t->world)) return;
    fill_or_fail(t, SPLIT_TRAIN, batch, t->step);
}

static void on_reduce(void *context, int chunk)
{
    Trainer *t = context;
    buckets_reduce(&t->buckets, &t->stage, chunk);                            /* <-> dp+cp */
}

static void on_gradients(void *context)
{
    Trainer *t = context;
    buckets_reduce_tied(&t->buckets);                                              /* <-> dp+cp tied */
    for (int i = 0; i < t->buckets.count; i++) square_own(t, &t->buckets.bucket[i]);
    gather_sums(t);                                                           /* <-> world */
}

static void on_step(void *context)
{
    Trainer *t = context;
    on_gradients(t);                                                          /* <-> all axes */
    clip_and_skip(&t->queue, (ClipAndSkip){ .report_4 = t->report_4, .sums_R3 = t->sums_R3, .clip = t->config->clip });
    for (int i = 0; i < t->buckets.count; i++) update(t, i);
    buckets_all_gather_params(&t->buckets);                                              /* <-> dp+cp under ZeRO 1, 2 */
}

static void run_schedule(Trainer *t, void (*at_end)(void *context))
{
    t->step_state.step = t->step;
    t->step_state.lr   = lr_at(&t->config->lr, t->step);
    t->taken     = 0;
    thread_context()->step = t->step + 1;
    t->executor.ctx.drop   = true;
    t->executor.ctx.sums_2 = loss_sums(t);
    fill_zero(&t->queue, (FillZero){ .y = t->sums_3 });
    buckets_zero_grads(&t->buckets);
    pipeline_run(&t->pipeline, &t->train, (PipelineCalls){ .context = t, .fill = on_fill, .reduce = on_reduce, .step = at_end });
    queue_wait(&t->queue);
}

void trainer_gradients(Trainer *t) { run_schedule(t, on_gradients); }

StepReport trainer_step(Trainer *t)
{
    run_schedule(t, on_step);
    t->step++;
    const double *r = t->report_4.data;
    if (!r) return (StepReport){ 0 };
    if (r[3] == 0) t->step_state.updates++;
    return (StepReport){ .loss = r[0], .tokens = r[1], .norm = r[2], .waited = prefetch_waited(t->prefetch[SPLIT_TRAIN]), .skipped = r[3] != 0 };
}

typedef struct { Trainer *trainer; SplitKind kind; int64_t first, step; } SplitPlace;

static void fill_split(void *context, Batch *batch, int64_t step, int micro)
{
    SplitPlace *at = context;
    (void)micro;
    if (at->step != step) at->trainer->taken = 0;
    at->step = step;
    fill_or_fail(at->trainer, at->kind, batch, at->first + step);
}

typedef struct { TrainerFill *fill; void *context; int64_t step; bool dry; } Evaluation;

static void on_fill_evaluation(void *context, Batch *batch, int micro)
{
    Evaluation *e = context;
    if (!e->dry) e->fill(e->context, batch, e->step, micro);
}

double trainer_evaluate(Trainer *t, int64_t steps, TrainerFill *fill, void *context)
{
    Evaluation e = { .fill = fill, .context = context, .dry = comm_dry(t->world) };
    t->executor.ctx.drop   = false;
    t->executor.ctx.sums_2 = loss_sums(t);
    fill_zero(&t->queue, (FillZero){ .y = t->sums_3 });
    for (; e.step < steps && !(t->stop && trainer_any(t, (RunFlags){ 0 }).signal); e.step++)         /* <-> world */
        pipeline_run(&t->pipeline, &t->valid, (PipelineCalls){ .context = &e, .fill = on_fill_evaluation });
    gather_sums(t);                                                           /* <-> world */
    queue_wait(&t->queue);
    const double *sums = t->sums_R3.data;
    double loss = 0, tokens = 0;
    for (int r = 0; sums && r < t->mesh.world; r++) { loss += sums[3 * r]; tokens += sums[3 * r + 1]; }
    return e.step < steps ? NAN : loss / tokens;
}

double trainer_evaluate_split(Trainer *t, SplitKind kind)
{
    const TrainConfig *r = t->config;
    int64_t before = kind == SPLIT_VALID && r->eval_interval > 0 ? (t->step - 1) / r->eval_interval : 0;      /* evaluations done */
    SplitPlace at = { .trainer = t, .kind = kind, .first = before * r->eval_iters, .step = -1 };
    return trainer_evaluate(t, r->eval_iters, fill_split, &at);
}

RunFlags trainer_any(Trainer *t, RunFlags mine)
{
    double *own = t->flags_3.data;
    const double *all = t->flags_R3.data;
    RunFlags joined = { 0 };
    if (t->stop) mine.signal = __atomic_load_n(t->stop, __ATOMIC_RELAXED);
    if (own) own[0] = mine.failed, own[1] = mine.memory, own[2] = mine.signal;
    comm_all_gather(t->world, &t->queue, t->flags_R3, t->flags_3);            /* <-> world: all-gather of 3 numbers */
    for (int r = 0; all && r < t->mesh.world; r++, all += RUN_FLAGS) {
        joined.failed |= all[0] != 0;
        joined.memory |= all[1] != 0;
        if (all[2] > joined.signal) joined.signal = (int)all[2];
    }
    t->signal = joined.signal;
    return joined;
}
