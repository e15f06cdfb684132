#ifndef TESTS_TRAIN_HARNESS_H
#define TESTS_TRAIN_HARNESS_H
/* Tiny models on a tiny corpus, trained under any layout with ranks as threads (or as one rank of a given
 * transport). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/random.h"
#include "base/seam.h"
#include "comm/test_transports.h"
#include "store/safetensors.h"
#include "train/measure.h"
#include "train/evaluation.h"
#include "train/step.h"
#include "train/trainer.h"
#include "train/trainer_checkpoint.h"
#include <cmocka.h>                     /* last: it has a macro called fail */

/* hybrid: ranks of a shard group; ulysses, gather: of TrainConfig; the fields from hybrid on are 0 where a row leaves
 * them out. */
typedef struct { const char *name; int ranks, tp, cp, pp, chunks, zero; bool sequence; ScheduleKind schedule; int hybrid; MeshOrder order;
    int group, extra; const char *layers;       /* ScheduleShape.group, .extra; StageSplit.layout */
    int ulysses, gather; } Layout;
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum { STEPS_MAX = 64, RANKS_MAX = 8 };
typedef struct {
    TrainConfig     config;
    int        ranks, steps;
    const char *save;                                  /* NULL: nothing is saved */
    const char *load;
    double     loss[STEPS_MAX], norm[STEPS_MAX];       /* as rank 0 has them */
    /* loss of the valid split before and after, where eval_iters > 0 */
    double     first_valid, valid, valid_bits;
    /* bytes that arenas and slots of the rank differ from its dry run */
    int64_t    arena_off[RANKS_MAX];
    /* of comm/test_transports.h: calls strictly in order; seconds that each takes longer */
    bool       in_order;
    double     delay;
    const Backend *timed;                              /* operations of steps and messages by test_clock; NULL: the device's */
    double     lap[STEPS_MAX];                         /* seconds of each step, as rank 0 has them */
    void     (*look)(Trainer *trainer, void *context); /* in each rank after the steps; NULL: none */
    void      *context;
} Job;

/* `all`, or `few` where a sanitizer makes everything slow (JOTUN_FULL asks for all even then) */
static inline int turns(int all, int few)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(JOTUN_DEBUG)
    if (!getenv("JOTUN_FULL")) return few;
#endif
    (void)few;
    return all;
}

static inline const char *scratch_folder(void)
{
    static char folder[64];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/jotun-test-XXXXXX");
        if (!mkdtemp(folder)) abort();
    }
    return folder;
}

static inline const char *scratch_path(const char *name)
{
    static char path[8][512];
    static int turn;
    char *out = path[turn++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", scratch_folder(), name);
    return out;
}

/* 60 documents of words that repeat, so that there is something to learn; ids below `vocabulary`, the last
 * one ends a document */
static inline void corpus_make(const char *prefix, int32_t vocabulary)
{
    TokenFileWriter *writer;
    assert_int_equal(token_file_create(&writer, prefix, vocabulary), OK);
    uint64_t key = random_key(7, "corpus");
    for (uint64_t d = 0, at = 0; d < 60; d++) {
        int32_t ids[256];
        int64_t n = 20 + (int64_t)(random_bits(key, at++) % 100);
        for (int64_t i = 0; i < n; i++) ids[i] = i % 3 == 2 ? (ids[i - 1] + ids[i - 2]) % (vocabulary - 1) : (int32_t)(random_bits(key, at++) % (uint32_t)(vocabulary - 1) / 3);
        ids[n] = vocabulary - 1;
        assert_int_equal(token_file_add(writer, ids, n + 1), OK);
        assert_int_equal(token_file_end_document(writer), OK);
    }
    assert_int_equal(token_file_finish(writer), OK);
}

typedef enum { MODEL_GPT, MODEL_LLAMA } ModelName;

/* GPT: LayerNorm, learned positions, GELU, biases, tied head. Llama: RMSNorm, RoPE, SwiGLU, grouped queries,
 * no biases, untied. */
static inline TrainConfig tiny_config(ModelName model, const char *device, const char *data)
{
    TrainConfig config = {
        .model = { .layers = 4, .hidden = 32, .ffn = 64, .heads = 4, .groups = 4, .head_dim = 8, .vocabulary = 61, .positions = 16, .sequence = 16,
                   .norm = NORM_LAYER, .position = POSITION_LEARNED, .activation = ACT_GELU_TANH, .epsilon = 1e-5, .rope = { .base = 10000 },
                   .hidden_dropout = 0.1, .attention_dropout = 0.1, .init_std = 0.05, .qkv_bias = true, .out_bias = true, .mlp_bias = true, .tied = true },
        .training = true, .tp = 1, .cp = 1, .pp = 1, .chunks = 1, .schedule = SCHEDULE_1F1B, .head_chunk = 5, .micro = 1, .global = 8, .steps = 20,
        .lr = { .style = LR_COSINE, .peak = 1e-3, .low = 1e-4, .warmup = 2 * 8, .decay = 20 * 8 }, .weight_decay = { .end = 0.1 }, .optimizer = optimizer_named("adam"), .settings = { .sizes = { .rank = 5, .longest = 64 }, .renewal = 3, .galore_scale = 0.5, .shampoo_epsilon = 1e-6, .gram_beta = 0.9, .freeze = 1, .onebit = { .mean_beta = 0.9, .factor_low = 0.5, .factor_high = 4, .factor_step = 0.1 }, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .momentum = 0.9, .least_ratio = 0.01, .most_ratio = 10, .adafactor = { .decay_rate = 0.8, .clip = 1, .epsilon1 = 0x1p-23, .epsilon2 = 1e-3 },
                      .muon = { .momentum = 0.95, .nesterov = true, .steps = 5, .extra = 0.2, .coefficients = MUON_QUINTIC, .narrow = true } }, .clip = 1,
        .seed = 11, .device = device, .threads = 1, .token_prefix = data, .split = "90,10,0", .eod = 60, .reset_positions = true,
        .reset_attention = true, .mask_eod = true, .log_interval = 1, .options = "{}" };
    if (model == MODEL_LLAMA) {
        config.model.norm = NORM_RMS;  config.model.position = POSITION_ROPE;  config.model.activation = ACT_SWIGLU;
        config.model.groups = 2;  config.model.qkv_bias = config.model.out_bias = config.model.mlp_bias = false;  config.model.tied = false;
        config.reset_attention = config.reset_positions = config.mask_eod = false;
    }
    return config;
}

static inline void config_set_layout(TrainConfig *config, const Layout *l)
{
    config->tp = l->tp;  config->cp = l->cp;  config->pp = l->pp;  config->chunks = l->chunks;
    config->zero = l->zero;  config->hybrid_shard = l->hybrid;  config->order = l->order;  config->sequence_parallel = l->sequence;  config->schedule = l->schedule;
    config->micro_group = l->group;  config->extra_warmup = l->extra;  config->layer_split.layout = l->layers;
    config->ulysses = l->ulysses;  config->gather = l->gather;
}

static inline int64_t arenas_off(const Trainer *t, const ArenaSizes *dry)
{
    int64_t off = 0;
    for (int i = 0; i < ARENAS; i++) {
        int64_t more = (int64_t)t->arena[i].peak - (int64_t)dry->bytes[i];
        if (more != 0) fprintf(stderr, "rank %d, arena %s: %lld bytes above its dry run\n", t->mesh.rank, t->arena[i].name, (long long)more);
        off += llabs(more) + llabs((int64_t)t->arena[i].size - (int64_t)dry->bytes[i]);
    }
    int64_t slot = (int64_t)stage_executor_slot_bytes(&t->train.executor) - (int64_t)dry->slot;
    if (slot != 0) fprintf(stderr, "rank %d, slot: %lld bytes above its dry run\n", t->mesh.rank, (long long)slot);
    return off + llabs(slot);
}

static inline Status job_rank(Transport *transport, void *context)
{
    Job *job = context;
    Trainer t;
    ArenaSizes sizes;
    char path[1024];
    bool found;
    thread_context()->rank = transport->rank;
    TRY(trainer_measure(&sizes, &job->config, transport->rank, transport->size));
    if (job->timed) transport->data = timed_transport_open(transport, job->delay);
    else if (job->in_order || job->delay > 0) transport->data = test_transport_open(transport, job->in_order, job->delay);
    TRY(trainer_open(&t, &job->config, transport, &sizes));
    trainer_init(&t);
    if (job->timed) t.queue.backend = job->timed;
    if (job->load) { TRY(checkpoint_find(job->load, path, &found)); TRY(trainer_load(&t, path)); }
    if (train_config_takes(&job->config, SPLIT_VALID)) { double v = trainer_evaluate_split(&t, SPLIT_VALID); if (transport->rank == 0) job->first_valid = v; }
    for (int i = 0; i < job->steps; i++) {
        int64_t begin = seam.clock();
        StepReport r = trainer_step(&t);
        if (transport->rank == 0) { job->loss[i] = r.loss; job->norm[i] = r.norm; job->lap[i] = (double)(seam.clock() - begin) / 1e9; }
    }
    if (train_config_takes(&job->config, SPLIT_VALID)) { double v = trainer_evaluate_split(&t, SPLIT_VALID); if (transport->rank == 0) { job->valid = v; job->valid_bits = t.valid.bits_per_byte; } }
    if (job->steps > 0) job->arena_off[transport->rank] = arenas_off(&t, &sizes);
    if (job->look) job->look(&t, job->context);
    if (job->save) TRY(trainer_save(&t, job->save, 0));
    trainer_close(&t);
    if (transport->data) transport->data->close(transport->data);
    return OK;
}

static inline void job_run(Job *job)
{
    Status status = transport_threads_run(job->ranks, job_rank, job);
    if (status != OK) fail_msg("%s", fail_text());
    for (int r = 0; r < job->ranks; r++)
        if (job->arena_off[r] != 0) fail_msg("rank %d took %lld bytes more or less than its dry run", r, (long long)job->arena_off[r]);
}

/* A NaN is the largest. */
static inline double larger(double a, double b) { return isnan(a) || a >= b ? a : b; }

/* Of codes of 8 bits their number. */
static inline double stored_value(const SafeFile *f, const SafeTensor *x, size_t n)
{
    const uint8_t *p = f->map.data + x->at + n * dtype_width(x->dtype);
    double value = *p;
    if (x->dtype != U8) dtype_convert(&value, F64, p, x->dtype, 1);
    return value;
}

/* The largest absolute difference of any element of any tensor in two checkpoints of the same step; prints
 * which one on failure. */
static inline double checkpoints_differ(const char *a, const char *b, int64_t step, bool states, char worst[128])
{
    double most = 0;
    for (int file = 0; file < 64; file++) {
        char path[2][1024];
        SafeFile f[2];
        snprintf(path[0], sizeof path[0], "%s/step_%08lld/block_%04d.safetensors", a, (long long)step, file);
        snprintf(path[1], sizeof path[1], "%s/step_%08lld/block_%04d.safetensors", b, (long long)step, file);
        if (!file_exists(path[0])) continue;
        for (int i = 0; i < 2; i++) if (safetensors_open(&f[i], path[i]) != OK) fail_msg("%s", fail_text());
        for (int i = 0; i < f[0].tensors; i++) {
            const SafeTensor *x = &f[0].tensor[i], *y = safetensors_find(&f[1], x->name);
            assert_non_null(y);
            if (!states && (strstr(x->name, "exp_avg") || strstr(x->name, "momentum_buffer"))) continue;
            assert_int_equal(x->bytes, y->bytes);
            for (size_t n = 0; n < x->bytes / dtype_width(x->dtype); n++) {
                double u = stored_value(&f[0], x, n), v = stored_value(&f[1], y, n);
                if (!isnan(most) && !(fabs(u - v) <= most)) { most = fabs(u - v); snprintf(worst, 128, "%s[%zu]", x->name, n); }
            }
        }
        for (int i = 0; i < 2; i++) safetensors_close(&f[i]);
    }
    return most;
}
#endif
