/* The memory of a generation, the batches of its forwards, and a forward under the layout. */
#include "generate/session.h"
#include <stdlib.h>

static bool holds_unit(const Session *x, int64_t unit) { return stage_holds(x->g->executor->stage, unit); }

bool session_holds_head(const Session *x)
{
    return holds_unit(x, model_units(x->g->executor->ctx.config) - 1);
}

/* ---- memory ---- */

static void *host_new(int64_t count, size_t bytes)
{
    void *p = calloc((size_t)count, bytes);
    CHECK(p, "no memory for %lld rows of generation", (long long)count);
    return p;
}

/* Zeros, since attention multiplies masked keys and values by zero. */
static Tensor cache_new(const Session *x, const char *what, int64_t keys, int64_t width)
{
    const ExecContext *ctx = &x->g->executor->ctx;
    Tensor t = tensor_new(x->g->arena, what, ctx->precision.activation, x->g->rows, keys,
        model_groups_held(ctx->config, comm_size(x->g->tp)), width);
    fill_zero(ctx->queue, (FillZero){ .y = t });
    return t;
}

static Tensor logits_new(const Session *x, int64_t shards)
{
    const ExecContext *ctx = &x->g->executor->ctx;
    return tensor_new(x->g->arena, "logits", ctx->precision.statistic, shards, x->n,
        model_vocabulary_held(ctx->config, comm_size(x->g->tp)));
}

/* What is gathered over one rank is the rank's own tensor. */
static Tensor ids_new(const Session *x, Tensor from, int64_t ranks)
{
    return ranks == 1 ? from : tensor_new(x->g->arena, "drawn ids", I32, ranks, tensor_count(from));
}

/* Keys of a sequence that a rank caches at most. Padding of the first forward may be beyond the last position
 * of a text; it is overwritten. */
static int64_t cache_keys(const Generation *g)
{
    int64_t whole = g->executor->ctx.config->sequence, cp = cp_ranks(g);
    if (cp == 1) return g->capacity > whole ? g->capacity : whole;
    return whole / cp + (g->most + cp - 1) / cp;
}

Session session_open(const Generation *g, const Prompt *prompt)
{
    StageExecutor *executor = g->executor;
    const ModelConfig *config = executor->ctx.config;
    Session x = { .g = g, .prompt = prompt, .n = g->rows * g->micros };
    int64_t keys = cache_keys(g);
    x.N     = x.n * data_ranks(g);
    x.row   = host_new(x.N, sizeof *x.row);
    x.cache = host_new(g->micros * config->layers, sizeof *x.cache);
    x.whole = host_new(executor->slots, sizeof *x.whole);
    x.key_range_i = host_new(g->micros * KEY_RANGES, sizeof *x.key_range_i);
    x.key_distance_i = host_new(g->micros, sizeof *x.key_distance_i);
    x.used       = host_new(g->rows, sizeof *x.used);
    x.logits_row = host_new(g->rows, sizeof *x.logits_row);
    x.logits     = host_new(config->vocabulary, sizeof *x.logits);
    for (int i = 0; i < executor->slots; i++) x.whole[i] = stage_executor_slot(executor, i)->batch;
    for (int64_t i = 0; i < g->micros * config->layers; i++) {
        if (!holds_unit(&x, i % config->layers + 1)) continue;
        x.cache[i] = (KvCache){ .k = cache_new(&x, "keys", keys, config->head_dim),
                                  .v = cache_new(&x, "values", keys, model_value_dim(config)) };
    }
    for (int i = 0; i < g->micros * KEY_RANGES; i++)
        x.key_range_i[i] = tensor_new(g->arena, "key ranges", I32, g->rows, 1, 2);
    for (int i = 0; config->position == POSITION_ALIBI && i < g->micros; i++)
        x.key_distance_i[i] = tensor_new(g->arena, "key distances", I32, g->rows, keys);
    x.id_n  = tensor_new(g->arena, "drawn ids", I32, x.n);
    x.id_Pn = ids_new(&x, x.id_n, comm_size(g->pp));
    x.id_Dn = ids_new(&x, x.id_n, comm_size(g->data));                 /* cp ranks of one data rank agree */
    if (!session_holds_head(&x)) return x;
    x.logits_nV  = logits_new(&x, 1);
    x.logits_RnV = comm_size(g->tp) > 1 ? logits_new(&x, comm_size(g->tp)) : x.logits_nV;
    return x;
}

/* The trainer's evaluations and steps find the executor as they left it. */
void session_close(Session *x)
{
    StageExecutor *executor = x->g->executor;
    for (int i = 0; i < executor->slots; i++) stage_executor_slot(executor, i)->batch = x->whole[i];
    executor->ctx.caches     = NULL;
    executor->ctx.logits_bV  = tensor_none();
    executor->ctx.logits_row = NULL;
    free(x->row);
    free(x->cache);
    free(x->whole);
    free(x->key_range_i);
    free(x->key_distance_i);
    free(x->used);
    free(x->logits_row);
    free(x->logits);
}

/* ---- the batch of a forward ---- */

const Row *session_own_rows(const Session *x) { return x->row + data_rank(x->g) * x->n; }

static Tensor flat_part(Tensor whole, int64_t count) { return tensor_flat(whole, 0, count); }

/* A view of the first b s rows of a batch. Without targets and loss weights: no loss is computed. Without key
 * ranges: a prompt is one document, so the bounds of keys are those of causal attention, whatever documents
 * the batch had last. */
static Batch batch_view(const Batch *whole, int64_t b, int64_t s)
{
    return (Batch){ .token_i = flat_part(whole->token_i, b * s),
        .position_i = flat_part(whole->position_i, b * s),
        .dropout_index_i = flat_part(whole->dropout_index_i, b * s),
        .sample_i = flat_part(whole->sample_i, b),
        .seen = { whole->causal[0], whole->causal[1] }, .part = { whole->part[0], whole->part[1] } };
}

static int32_t *at(Tensor x_i, int64_t i) { return (int32_t *)x_i.data + i; }

static void token_set(const Batch *batch, int64_t i, int32_t id, int64_t position)
{
    *at(batch->token_i, i)         = id;
    *at(batch->position_i, i)      = (int32_t)position;
    *at(batch->dropout_index_i, i) = 0;
}

static int64_t clamp(int64_t x, int64_t high) { return x < 0 ? 0 : x < high ? x : high; }

/* How many of the keys of the row's first `positions` positions this cp rank r of R has. Of the sequence that
 * begins with the prompt it has two of 2 R parts (Batch.part), in which the prompt's positions come first; of
 * the later positions each R-th. */
static int64_t keys_held(const Session *x, const Row *row, int64_t positions)
{
    const Generation *g = x->g;
    int64_t R = cp_ranks(g), r = comm_rank(g->cp), h = g->executor->ctx.config->sequence / (2 * R);
    int64_t early = clamp(positions, row->count), late = positions - early;
    if (R == 1) return positions;
    return clamp(early - r * h, h) + clamp(early - (2 * R - 1 - r) * h, h) + (late + R - 1 - r) / R;
}

/* The position of key n of those that this cp rank has, in the order in which keys_held counts them. */
static int64_t key_position(const Session *x, const Row *row, int64_t n)
{
    const Generation *g = x->g;
    int64_t R = cp_ranks(g), r = comm_rank(g->cp), h = g->executor->ctx.config->sequence / (2 * R);
    if (R == 1) return n;
    int64_t early = row->count, first = clamp(early - r * h, h);
    int64_t second = clamp(early - (2 * R - 1 - r) * h, h);
    if (n < first) return r * h + n;
    return n < first + second ? (2 * R - 1 - r) * h + n - first : early + r + (n - first - second) * R;
}

/* The first forward of a row: its prompt, then padding, which repeats position 0. It sees and writes what
 * training does, as nothing before the padding sees it. */
static void fill_prompt(Session *x, Batch *batch, int64_t i, const Row *row)
{
    int64_t s = x->s, half = cp_ranks(x->g) > 1 ? s / 2 : s;
    x->used[i]       = 0;
    x->logits_row[i] = -1;
    for (int64_t n = 0; n < s; n++) {
        int64_t position = n < half ? batch->part[0] + n : batch->part[1] + n - half;
        bool inside = row->prompt >= 0 && position < row->count;
        token_set(batch, i * s + n, inside ? x->prompt[row->prompt].id[position] : 0, inside ? position : 0);
        if (position == row->count - 1) x->logits_row[i] = i * s + n;
    }
}

/* A later forward: the id drawn last, which one cp rank caches. A row that is done repeats its last one. */
static void fill_token(Session *x, Batch *batch, int64_t i, const Row *row)
{
    int64_t window = x->g->executor->ctx.config->window, position = row->count + row->made - 1;
    int64_t back = window > 0 && position + 1 > window ? position + 1 - window : 0;
    x->used[i]       = keys_held(x, row, position);
    x->logits_row[i] = i;
    token_set(batch, i, row->last, position);
    for (int k = 0; k < KEY_RANGES; k++) {
        at(x->caches.key_range_i[k], 2 * i)[0] = k > 0 ? (int32_t)keys_held(x, row, back) : 0;
        at(x->caches.key_range_i[k], 2 * i)[1] = (int32_t)(x->used[i] + x->caches.write);
    }
    Tensor distance_i = x->caches.key_distance_i;
    int64_t keys = tensor_present(distance_i) ? distance_i.dim[1] : 0;
    for (int64_t n = 0; n < keys && n < x->used[i] + x->caches.write; n++)
        *at(distance_i, i * keys + n) = (int32_t)(position - key_position(x, row, n));
}

/* What units read besides the batch. */
static void context_set(Session *x, int micro)
{
    ExecContext *ctx = &x->g->executor->ctx;
    int64_t b = x->g->rows;
    x->caches.layer = x->cache + micro * ctx->config->layers;
    for (int k = 0; k < KEY_RANGES; k++) x->caches.key_range_i[k] = x->key_range_i[micro * KEY_RANGES + k];
    x->caches.key_distance_i = x->key_distance_i[micro];
    ctx->caches     = &x->caches;
    ctx->logits_row = x->logits_row;
    if (session_holds_head(x))
        ctx->logits_bV = tensor_slice(tensor_view(x->logits_nV, x->n, x->logits_nV.dim[2]), 0, micro * b, b);
}

static void fill(void *context, Batch *batch, int micro)
{
    Session *x = context;
    int64_t b = x->g->rows, first = micro * b;
    context_set(x, micro);
    if (comm_dry(x->g->tp)) return;
    for (int64_t i = 0; i < b; i++) {
        if (x->caches.read) fill_token (x, batch, i, session_own_rows(x) + first + i);
        else                fill_prompt(x, batch, i, session_own_rows(x) + first + i);
        *at(batch->sample_i, i) = 0;
    }
}

/* ---- a forward ---- */

/* s positions of every row of this data rank, in all micro-batches. Later forwards (read) are not distributed
 * over cp ranks. */
void session_forward(Session *x, int64_t s, bool read)                      /* <-> tp, cp, pp, data */
{
    const Generation *g = x->g;
    ExecContext *ctx = &g->executor->ctx;
    bool sharded = ctx->tp.sequence_parallel;
    ContextComms cp = ctx->cp;
    x->s = s;
    x->caches = (KvCaches){ .used = x->used, .read = read, .cp = g->cp,
                            .write = !read || comm_rank(g->cp) == x->step % cp_ranks(g) };
    x->step += read;
    for (int i = 0; i < g->executor->slots; i++)
        stage_executor_slot(g->executor, i)->batch = batch_view(&x->whole[i], g->rows, s);
    ctx->tp.sequence_parallel = sharded && g->rows * s % comm_size(g->tp) == 0;
    if (read) ctx->cp = (ContextComms){ .ring = NULL };
    pipeline_run(g->pipeline, g->schedule, (PipelineCalls){ .context = x, .fill = fill });
    ctx->tp.sequence_parallel = sharded;
    ctx->cp = cp;
}
