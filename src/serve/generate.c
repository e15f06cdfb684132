/* Generation with a key-value cache. The prompt is one forward of all its positions; each later token is a
 * forward of one row. */
#include "serve/generate.h"
#include <math.h>
#include <stdlib.h>

static size_t aligned(size_t bytes) { return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN; }

size_t generate_bytes(const ModelConfig *s, Precision precision, int64_t capacity)
{
    /* keys, or values, of one layer; the arena aligns each of them */
    size_t one = (size_t)(capacity * s->groups * s->head_dim) * dtype_width(precision.activation);
    size_t logits = (size_t)model_vocabulary_held(s, 1) * dtype_width(precision.statistic);
    return 2 * (size_t)s->layers * aligned(one) + aligned(logits);
}

static KvCache *caches_new(StageExecutor *executor, Arena *session, int64_t capacity)
{
    const ModelConfig *s = executor->ctx.config;
    KvCache *cache = calloc((size_t)s->layers, sizeof *cache);
    CHECK(cache, "no memory for the key-value caches of %lld layers", (long long)s->layers);
    for (int64_t l = 0; l < s->layers; l++) {
        cache[l].k = tensor_new(session, "keys",   executor->ctx.precision.activation, 1, capacity, s->groups,
            s->head_dim);
        cache[l].v = tensor_new(session, "values", executor->ctx.precision.activation, 1, capacity, s->groups,
            s->head_dim);
    }
    return cache;
}

/* A view of the first `count` rows of a batch, filled with ids whose positions are first, first + 1, ...
 * Without targets and loss weights: no loss is computed. */
static Batch rows_of(const Batch *whole, const int32_t *ids, int64_t first, int64_t count)
{
    Batch b = { .token_i = tensor_flat(whole->token_i, 0, count),
        .position_i = tensor_flat(whole->position_i, 0, count),
                .dropout_index_i = tensor_flat(whole->dropout_index_i, 0, count),
                .sample_i = whole->sample_i };
    for (int64_t i = 0; i < count; i++) {
        ((int32_t *)b.token_i.data)[i] = ids[i];
        ((int32_t *)b.position_i.data)[i] = ((int32_t *)b.dropout_index_i.data)[i] = (int32_t)(first + i);
    }
    ((int32_t *)b.sample_i.data)[0] = 0;
    return b;
}

/* The logits [vocabulary] after the last of `count` new ids, which are appended to the caches. The slot's
 * batch is replaced for the forward only, since the next call needs its full capacity again. */
static void next_logits(StageExecutor *executor, Batch whole, const int32_t *ids, int64_t count,
                        double *logits)
{
    ActivationSlot *slot = stage_executor_slot(executor, 0);
    int64_t layers = executor->ctx.config->layers, used = executor->ctx.cache[0].used;
    Tensor last = executor->ctx.last_logits_1V;
    slot->batch = rows_of(&whole, ids, used, count);
    stage_executor_begin(executor, 0, 0);
    stage_executor_forward(executor, 0, 0);
    queue_wait(executor->ctx.queue);
    slot->batch = whole;
    for (int64_t v = 0; v < executor->ctx.config->vocabulary; v++)
        logits[v] = last.dtype == F64 ? ((const double *)last.data)[v]
                : (double)((const float *)last.data)[v];
    CHECK(isfinite(logits[0]), "the logits are not finite: the weights of the checkpoint are broken");
    for (int64_t l = 0; l < layers; l++) executor->ctx.cache[l].used += count;
}

void generate(StageExecutor *executor, Arena *session, const Generation *g, const int32_t *prompt,
              int64_t count)
{
    const Batch whole = stage_executor_slot(executor, 0)->batch;
    double *logits = malloc((size_t)executor->ctx.config->vocabulary * sizeof *logits);
    CHECK(logits, "no memory for %lld logits", (long long)executor->ctx.config->vocabulary);
    int64_t ids = g->ids ? g->ids : executor->ctx.config->vocabulary;
    executor->ctx.cache = caches_new(executor, session, g->capacity);
    executor->ctx.last_logits_1V = tensor_new(session, "logits", executor->ctx.precision.statistic, 1,
        model_vocabulary_held(executor->ctx.config, 1));
    executor->ctx.drop = executor->ctx.backward_follows = false;
    next_logits(executor, whole, prompt, count, logits);
    for (int64_t n = 0; count + n < g->capacity; n++) {
        int32_t id = sample_id(logits, ids, &g->sampling, n);
        if (id == g->end) break;
        g->emit(g->context, id);
        if (count + n + 1 < g->capacity) next_logits(executor, whole, &id, 1, logits);
    }
    free(executor->ctx.cache);
    free(logits);
    executor->ctx.cache = NULL;
}
