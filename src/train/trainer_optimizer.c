/* What the optimizer updates on a rank: one piece for each parameter of which it owns elements, made once,
 * since gradients, weights and states stay where they are. */
#include <stdlib.h>
#include "base/random.h"
#include "train/trainer.h"
#include "train/trainer_optimizer.h"

/* Of a parameter the dimension of its rows; columns are the next one. */
static int row_dim(const Param *p) { return p->dims == PARAM_DIMS ? 1 : 0; }

/* Of the part that begins at its element `first`. Where only rows are split, or nothing, it has no gaps. */
static ElementPlace place_of(const Param *p, int64_t first)
{
    int r = row_dim(p), c = r + 1;
    int64_t matrix = r > 0 ? p->offset[0] : 0;
    ElementPlace place = { .first = first,
        .offset = (matrix * p->global[r] + p->offset[r]) * p->global[c] + p->offset[c] };
    bool rows_cut = r > 0 && p->local[r] < p->global[r];
    if (p->local[c] == p->global[c] && !rows_cut) return place;
    place.rows    = p->local[r], place.global_rows    = p->global[r];
    place.columns = p->local[c], place.global_columns = p->global[c];
    return place;
}

/* The ranks that have the other parts of its matrices; NULL: none. */
static Comm *cut_of(const Trainer *t, const Param *p)
{
    int r = row_dim(p);
    Axis axis = p->split[r] ? p->split[r] : p->split[r + 1];
    Comm *comm = axis == AXIS_TP ? t->comms.tp : axis == AXIS_ETP ? t->comms.etp : NULL;
    return comm && comm_size(comm) > 1 ? comm : NULL;
}

static OptimizerPiece piece_make(const Trainer *t, const Bucket *k, int p, TensorShard own)
{
    const Param *param = &k->block.param[p];
    int r = row_dim(param), c = r + 1;
    int64_t at = param->at + own.first - k->own_first;
    TensorShard counted = params_tensor_shard(&k->block, p, k->counted_first, k->share_count);
    OptimizerPiece piece = { .rule = optimizer_rule(t->config->optimizer, param), .first = own.first,
        .count = own.count, .counted_first = counted.first, .counted = param->saves ? counted.count : 0,
        .w = tensor_flat(bucket_master(k), at, own.count),
        .g = tensor_flat(bucket_own(k, k->grads), at, own.count),
        .decayed = param->decay, .decoupled = param_of_vocabulary(param),
        .site = random_key(0, param->name), .place = place_of(param, own.first),
        .rows = param->global[r], .columns = param->global[c],
        .local_rows = param->local[r], .local_columns = param->local[c],
        .first_matrix = r > 0 ? param->offset[0] : 0, .row0 = param->offset[r], .column0 = param->offset[c],
        .saves = param->saves, .matrices = r > 0 ? param->global[0] : 1,
        .block_rows = state_block_rows(param),
        .cut = cut_of(t, param) };
    for (int i = 0; i < piece.rule->phases; i++) {
        piece.sums_at[i] = t->update.optimizer.sums[i];
        piece.sums[i]    = piece.rule->phase[i].sums ? piece.rule->phase[i].sums(param) : 0;
    }
    piece.parts = (int)(piece.rows * piece.columns / (piece.local_rows * piece.local_columns));
    if (tensor_present(k->master)) piece.param = tensor_flat(bucket_own(k, k->weights), at, own.count);
    return piece;
}

/* Elements of state s of the bucket's entry p that this rank holds; 0 where it has no such state of the
 * type. */
static int64_t state_count(const Trainer *t, const Bucket *k, int p, int s, Dtype type)
{
    const UpdateRule *rule = optimizer_rule(t->config->optimizer, &k->block.param[p]);
    if (s >= rule->states || t->precision.state[rule->state[s].role] != type) return 0;
    const StateSizes *sizes = &t->update.optimizer.sizes;
    return state_held(&rule->state[s], sizes, &k->block, p, k->own_first, k->own_count).count;
}

/* State s of the bucket's pieces, as far as it has the type, is one tensor, in which they follow each
 * other. */
static void open_state(Trainer *t, int index, int s, Dtype type)
{
    const Bucket *k = &t->buckets.bucket[index];
    int64_t held = 0, at = 0;
    for (int p = 0; p < k->block.params; p++) held += state_count(t, k, p, s, type);
    if (held == 0) return;
    Tensor all = tensor_new(&t->arena[ARENA_PERSISTENT], "optimizer states", type, held);
    for (int p = 0; p < k->block.params; p++) {
        int64_t count = state_count(t, k, p, s, type);
        if (count == 0) continue;
        t->update.optimizer.piece[t->update.piece_of[index][p]].state[s] = tensor_flat(all, at, count);
        at += count;
    }
}

static void open_bucket(Trainer *t, int index)
{
    const Bucket *k = &t->buckets.bucket[index];
    OptimizerRun *run = &t->update.optimizer;
    for (int p = 0; p < k->block.params; p++) {
        const Param *param = &k->block.param[p];
        TensorShard own = params_tensor_shard(&k->block, p, k->own_first, k->own_count);
        t->update.piece_of[index][p] = own.count > 0 ? run->pieces : -1;
        if (own.count > 0) run->piece[run->pieces++] = piece_make(t, k, p, own);
        for (int i = 0; i < optimizer_phases(run->optimizer); i++)        /* also where no element is here */
            run->sums[i] += optimizer_sums(run->optimizer, param, i);
    }
    for (int s = 0; s < OPTIMIZER_STATES; s++)
        for (int type = 0; type < DTYPES; type++) open_state(t, index, s, (Dtype)type);
}

/* ---- gradients that stay on their data-parallel ranks ---- */

/* Experts have no context-parallel ranks: all that share them are workers. */
Comm *trainer_workers(const Trainer *t, ParamFamily family)
{
    bool experts = family == PARAMS_EXPERTS && t->config->model.experts > 0;
    return t->comms.dp && experts ? t->comms.edp : t->comms.dp;
}

/* The state of all pieces first .. end - 1 as one tensor: they follow each other (open_state). */
static Tensor joined_state(const OptimizerRun *run, const CompressedPieces *x, int s)
{
    Tensor all = tensor_none();
    int64_t count = 0;
    for (int i = x->first; i < x->end; i++) {
        Tensor part = run->piece[i].state[s];
        if (!tensor_present(part)) continue;
        if (count == 0) all = part;
        count += part.dim[0];
    }
    return count > 0 ? tensor_at(all.data, all.dtype, &count, 1) : all;
}

static CompressedPieces compressed_pieces(const Trainer *t, int bucket)
{
    const Bucket *k = &t->buckets.bucket[bucket];
    CompressedPieces x = { .workers = trainer_workers(t, k->block.family), .family = k->block.family,
                          .counts = bucket_counts_worker(k), .first = t->update.first_piece[bucket],
                          .end = t->update.first_piece[bucket + 1] };
    int64_t P = comm_size(x.workers), count = 0;
    for (int i = x.first; i < x.end; i++) count += t->update.optimizer.piece[i].count;
    x.at = calloc((size_t)P + 1, sizeof *x.at);
    CHECK(x.at, "no memory for the places of %lld workers", (long long)P);
    for (int64_t r = 0; r <= P; r++) x.at[r] = r * (state_summed_part(count, P) / 8);
    x.error_N  = joined_state(&t->update.optimizer, &x, optimizer_state_of(t->config->optimizer, PER_WORKER));
    x.summed_N = joined_state(&t->update.optimizer, &x, optimizer_state_of(t->config->optimizer, PER_SUMMED));
    return x;
}

/* Elements of each family, and tensors, of the whole model: an expert's matrix is one. */
static void count_model(const Trainer *t, CompressedAllReduce *x)
{
    const ModelConfig *model = &t->config->model;
    for (int64_t b = 0; b < params_blocks(model); b++)
        for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
            ParamBlock block;
            params_block(&block, model, f, b, NULL);
            for (int p = 0; p < block.params; p++) {
                x->elements[f] += (double)param_logical_elements(&block.param[p]);
                x->tensors += block.param[p].dims == PARAM_DIMS ? (double)block.param[p].global[0] : 1;
            }
        }
}

static void open_compressed(Trainer *t)
{
    CompressedAllReduce *x = &t->update.optimizer.compressed;
    Arena *persistent = &t->arena[ARENA_PERSISTENT];
    const int64_t *workers = t->update.optimizer.sizes.workers;
    int64_t W = workers[PARAMS_DENSE] + workers[PARAMS_EXPERTS] + PARAM_FAMILIES;
    x->world = t->comms.world;
    x->of = calloc((size_t)t->buckets.count + 1, sizeof *x->of);
    CHECK(x->of, "no memory for %d buckets", t->buckets.count);
    count_model(t, x);
    for (int i = 0; i < t->buckets.count; i++)
        if (t->update.first_piece[i] < t->update.first_piece[i + 1]) x->of[x->count++] =
            compressed_pieces(t, i);
    x->own_W  = tensor_new(persistent, "sums of tensors", F64, W);
    x->sums_W = tensor_new(persistent, "sums of tensors", t->precision.master, W);
    x->most_M = tensor_new(persistent, "sums of tensors", t->precision.master,
                           t->update.optimizer.sums[0] / 2);
}

void trainer_optimizer_open(Trainer *t)
{
    const Buckets *b = &t->buckets;
    int params = 0;
    int64_t most = 0;
    t->update.optimizer = (OptimizerRun){ .queue = &t->queue, .optimizer = t->config->optimizer,
                                   .settings = &t->config->settings, .stage = t->comms.stage,
                                   .scratch = &t->arena[ARENA_SCRATCH], .work = &t->work };
    t->update.optimizer.sizes = t->config->settings.sizes;
    for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
        const Comm *workers = trainer_workers(t, f);
        if (f == PARAMS_EXPERTS && t->config->model.experts == 0) continue;
        t->update.optimizer.sizes.workers[f] = workers ? comm_size(workers) : 1;
        t->update.optimizer.sizes.worker[f]  = workers ? comm_rank(workers) : 0;
    }
    if (!t->config->training) return;
    for (int i = 0; i < b->count; i++) params += b->bucket[i].block.params;
    t->update.optimizer.piece = calloc((size_t)params + 1, sizeof *t->update.optimizer.piece);
    t->update.piece_of    = calloc((size_t)b->count + 1, sizeof *t->update.piece_of);
    t->update.first_piece = calloc((size_t)b->count + 1, sizeof *t->update.first_piece);
    CHECK(t->update.optimizer.piece && t->update.piece_of && t->update.first_piece,
          "no memory for %d pieces of parameters",
          params);
    for (int i = 0; i < b->count; i++) {
        open_bucket(t, i);
        t->update.first_piece[i + 1] = t->update.optimizer.pieces;
    }
    for (int i = 0; i < UPDATE_PHASES; i++)
        if (t->update.optimizer.sums[i] > most) most = t->update.optimizer.sums[i];
    if (most == 0) return;
    Arena *persistent = &t->arena[ARENA_PERSISTENT];
    t->update.optimizer.own_sums_N = tensor_new(persistent, "sums of tensors", F64, most);
    t->update.optimizer.sums_N     = tensor_new(persistent, "sums of tensors", t->precision.master, most);
    if (optimizer_compresses(t->config->optimizer)) open_compressed(t);
}

void trainer_optimizer_close(Trainer *t)
{
    for (int i =
         0; i < t->update.optimizer.compressed.count; i++) free(t->update.optimizer.compressed.of[i].at);
    free(t->update.optimizer.compressed.of);
    free(t->update.optimizer.piece);
    free(t->update.piece_of);
    free(t->update.first_piece);
}

void trainer_optimizer_init(Trainer *t)
{
    for (int i = 0; i < t->update.optimizer.pieces; i++)
        for (int s = 0; s < t->update.optimizer.piece[i].rule->states; s++)
            if (tensor_present(t->update.optimizer.piece[i].state[s]))
                fill_zero(&t->queue, (FillZero){ .y = t->update.optimizer.piece[i].state[s] });
    for (int i = 0; i < t->update.optimizer.pieces; i++)
        if (t->update.optimizer.piece[i].rule->start)
            t->update.optimizer.piece[i].rule->start(&t->queue, &t->update.optimizer.piece[i]);
    t->run.average = (AverageWeights){ 0 };
    t->run.estimated = 0;
    trainer_parameters(t, false);                                             /* <-> shard */
}

void trainer_parameters(Trainer *t, bool average)
{
    if (!t->config->training || !optimizer_averages(t->config->optimizer)) return;
    buckets_gathered(&t->buckets);                                            /* <-> shard */
    for (int i = 0; i < t->buckets.count; i++) {
        for (int p = t->update.first_piece[i]; p < t->update.first_piece[i + 1]; p++) {
            const OptimizerPiece *piece = &t->update.optimizer.piece[p];
            piece->rule->parameters(&t->queue, &t->config->settings, piece, average);
        }
        buckets_gather_begin(&t->buckets, &t->buckets.bucket[i]);             /* <-> shard under ZeRO 1, 2 */
        bucket_gathered(&t->buckets.bucket[i]);
    }
}

const OptimizerPiece *trainer_piece(const Trainer *t, int bucket, int p)
{
    int at = t->update.piece_of[bucket][p];
    return at < 0 ? NULL : &t->update.optimizer.piece[at];
}
