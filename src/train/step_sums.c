/* The sums of a step or an evaluation over all ranks, and what the report has of them. */
#include "train/step_sums.h"

#include <math.h>
#include "train/trainer_comms.h"

Tensor step_sums_loss(const Trainer *t) { return tensor_flat(t->sums.own_S, SUM_LOSS, 2); }
Tensor step_sums_own(const Trainer *t, int64_t place) { return tensor_flat(t->sums.own_S, place, 1); }

Tensor step_sums_mtp(const Trainer *t)
{
    int64_t N = t->config->training ? t->config->model.mtp : 0;
    if (N == 0) return tensor_none();
    return tensor_view(tensor_flat(t->sums.own_S, trainer_mtp_sums(t->config), 2 * N), N, 2);
}

void step_sums_add_squares(Trainer *t, Tensor out_1, Tensor x_N)
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

void step_sums_add_gradients(Trainer *t)
{
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        sum_counted(t, k, step_sums_own(t, SUM_SQUARES), bucket_own(k, k->grads), step_sums_add_squares);
    }
}

void step_sums_add_zeros(Trainer *t)
{
    for (int i = 0; t->config->count_zeros && i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        sum_counted(t, k, step_sums_own(t, STEP_SUMS), bucket_own(k, k->grads), add_nonzeros);
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

static void write_own(Trainer *t, int64_t place, double value)
{
    queue_write(&t->queue, step_sums_own(t, place).data, &value, sizeof value);
}

/* An element of the gradients is counted by one rank (sum_counted); a loss is the same on all ranks of tp, of
 * which the first one's counts. Ranks that have flags are counted, so that flags need a message of their own
 * only after a step in which there is one. */
void step_sums_join(Trainer *t)
{
    Tensor mtp = step_sums_mtp(t);
    bool signal = t->stop && __atomic_load_n(t->stop, __ATOMIC_RELAXED) != 0;
    bool flagged = t->config->training && !comm_dry(t->comms.world) &&
        (t->input.failed != OK || signal || trainer_expired(t));
    if (t->mesh.at.tp > 0) fill_zero(&t->queue, (FillZero){ .y = step_sums_loss(t) });
    if (t->mesh.at.tp > 0 && tensor_present(mtp)) fill_zero(&t->queue, (FillZero){ .y = mtp });
    if (t->input.failed != OK) write_own(t, SUM_TOKENS, NAN);        /* no rank then updates anything */
    if (flagged) write_own(t, trainer_flagged_sum(t->config), 1);
    total_over_ranks(t, 0, trainer_joined_sums(t->config));                   /* <-> tp, dp+cp, pp */
}

void step_sums_join_weights(Trainer *t)
{
    int64_t place = trainer_joined_sums(t->config);
    if (!t->config->params_norm) return;
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        sum_counted(t, k, step_sums_own(t, place), bucket_master(k), step_sums_add_squares);
    }
    total_over_ranks(t, place, 1);                                            /* <-> tp, dp+cp, pp */
}

void step_sums_read(Trainer *t)
{
    if (t->sums.all.data)
        queue_read_begin(&t->queue, t->sums.on_host.data, t->sums.all.data, tensor_bytes(t->sums.all));
    queue_wait(&t->queue);
}

const double *step_sums_on_host(const Trainer *t, Tensor part)
{
    const double *all = t->sums.all.data, *begin = part.data;
    return (const double *)t->sums.on_host.data + (begin - all);
}

void step_sums_report(Trainer *t, StepReport *r)
{
    const TrainConfig *config = t->config;
    const double *sum = step_sums_on_host(t, t->sums.total_S), *own = step_sums_on_host(t, step_sums_loss(t));
    int64_t mtp = trainer_mtp_sums(config);
    for (int64_t k = 0; k < config->model.mtp; k++) r->mtp[k] = sum[mtp + 2 * k] / sum[mtp + 2 * k + 1];
    t->sums.flagged  = sum[trainer_flagged_sum(config)] > 0;
    r->own_loss = config->logs.history && own[1] > 0 ? own[0] / own[1] : NAN;
    r->zeros       = config->count_zeros ? (double)model_parameters(&config->model) - sum[STEP_SUMS] : -1;
    r->params_norm = config->params_norm ? sqrt(sum[trainer_joined_sums(config)]) : -1;
}
