#ifndef TESTS_TRAIN_WHOLE_H
#define TESTS_TRAIN_WHOLE_H
/* The gradients of a step, of the mean loss, as a test wants them: whole tensors in double, whatever the
 * layout.                                                                                                */
#include "train/measure.h"
#include "train/step.h"
#include "train/step_sums.h"
#include "train/harness.h"

enum { WHOLE_MAX = 128 };
typedef struct { char name[64]; int64_t count; double *value; } Whole;
typedef struct { int count; Whole of[WHOLE_MAX]; double loss, norm; } Gradients;

/* Opens a trainer on each of `ranks` threads, with new weights, and calls body there. */
typedef void SessionBody(Trainer *trainer, void *context);
typedef struct { TrainConfig config; int ranks; SessionBody *body; void *context; } Session;

static inline Status session_rank(Transport *transport, void *context)
{
    Session *session = context;
    Trainer t;
    ArenaSizes sizes;
    thread_context()->rank = transport->rank;
    TRY(trainer_measure(&sizes, &session->config, transport->rank, transport->size));
    TRY(trainer_open(&t, &session->config, transport, &sizes));
    trainer_init(&t);
    session->body(&t, session->context);
    trainer_close(&t);
    return OK;
}

static inline void session_run(Session *session)
{
    if (transport_threads_run(session->ranks, session_rank, session) != OK) fail_msg("%s", fail_text());
}

static inline double real_get(Tensor x, int64_t i)
{
    return x.dtype == F64 ? ((double *)x.data)[i] : (double)((float *)x.data)[i];
}
static inline void real_set(Tensor x, int64_t i, double value)
{
    if (x.dtype == F64) ((double *)x.data)[i] = value;
    else                ((float  *)x.data)[i] = (float)value;
}

static inline Gradients *gradients_new(const ModelConfig *shape)
{
    Gradients *g = calloc(1, sizeof *g);
    for (int64_t n = 0; n < PARAM_FAMILIES * params_blocks(shape); n++) {
        ParamFamily family = (ParamFamily)(n % PARAM_FAMILIES);
        int64_t b = n / PARAM_FAMILIES;
        ParamBlock block;
        params_block(&block, shape, family, b, NULL);
        for (int p = 0; p < block.params; p++) {
            assert_true(g->count < WHOLE_MAX);
            Whole *w = &g->of[g->count++];
            snprintf(w->name, sizeof w->name, "%s", block.param[p].name);
            w->count = param_logical_elements(&block.param[p]);
            w->value = malloc((size_t)w->count * sizeof *w->value);
            for (int64_t i = 0; i < w->count; i++) w->value[i] = NAN;   /* if no rank gives it, tests fail */
        }
    }
    return g;
}

static inline void gradients_free(Gradients *g)
{
    for (int i = 0; i < g->count; i++) free(g->of[i].value);
    free(g);
}

static inline Whole *whole_find(Gradients *g, const char *name)
{
    for (int i = 0; i < g->count; i++)
        if (!strcmp(g->of[i].name, name)) return &g->of[i];
    fail_msg("there is no tensor %s", name);
    return NULL;
}

/* The part of parameter p that this data rank has summed */
static inline void whole_add(Gradients *g, const Bucket *k, int p, double tokens)
{
    Tensor own = bucket_own(k, k->grads);
    TensorShard piece = params_tensor_shard(&k->block, p, k->counted_first, k->counted_count);
    Whole *w = piece.count > 0 ? whole_find(g, piece.name) : NULL;
    TensorShardRun run;
    for (int64_t cursor = 0; piece.count > 0 && tensor_shard_next_run(&piece, &cursor, &run);)
        for (int64_t i = 0; i < run.count; i++) {
            double sum = real_get(own, k->block.param[p].at + piece.first + run.local + i - k->own_first);
            w->value[run.global + i] = sum / tokens;
        }
}

/* A Session's body: runs a step without its end. Each element is written by one rank. */
static inline void gradients_take(Trainer *t, void *context)
{
    Gradients *g = context;
    double sums[STEP_SUMS];
    trainer_gradients(t);
    queue_read(&t->queue, sums, t->sums.total_S.data, sizeof sums);
    if (t->mesh.rank == 0) { g->loss = sums[0] / sums[1]; g->norm = sqrt(sums[2]) / sums[1]; }
    for (int i = 0; i < t->buckets.count; i++) {
        const Bucket *k = &t->buckets.bucket[i];
        for (int p = 0; p < k->block.params; p++)
            if (k->block.param[p].saves) whole_add(g, k, p, sums[1]);
    }
}

static inline double whole_norm(const Whole *w)
{
    double sum = 0;
    for (int64_t i = 0; i < w->count; i++) sum += w->value[i] * w->value[i];
    return sqrt(sum);
}

/* What errors of tensor w are measured by: its norm. A key's bias adds the same to all scores of a query,
 * which softmax does not see, so its gradient is zero in mathematics unless a rotation comes in between: the
 * query's bias stands in for it.   */
static inline double whole_measure(Gradients *g, const Whole *w, const ModelConfig *shape)
{
    const char *bias = strstr(w->name, "key.bias");
    char other[80];
    if (!bias || shape->position == POSITION_ROPE) return whole_norm(w);
    snprintf(other, sizeof other, "%.*squery.bias", (int)(bias - w->name), w->name);
    return whole_norm(whole_find(g, other));
}

/* The largest distance of a tensor in `g` from that in `truth`, relative to truth's; prints which one. */
static inline double gradients_differ(Gradients *g, Gradients *truth, const ModelConfig *shape, const char **worst)
{
    double most = 0;
    for (int i = 0; i < truth->count; i++) {
        const Whole *w = &truth->of[i], *x = whole_find(g, w->name);
        double sum = 0;
        for (int64_t n = 0; n < w->count; n++) sum += pow(x->value[n] - w->value[n], 2);
        double error = sqrt(sum) / whole_measure(truth, w, shape);
        if (!(error <= most)) { most = error; *worst = w->name; }
        if (isnan(most)) return most;
    }
    return most;
}
#endif
