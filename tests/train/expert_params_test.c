/* The parameters of experts without a step: initial values and checkpoints do not depend on the layout, gradients are summed over the
 * ranks that have parts of them, and over all ranks each element is counted once. Numbers are integers, so that sums are exact. */
#include "train/trainer_checkpoint.h"
#include "train/harness.h"

typedef struct { Layout l; int ep, etp; } ExpertLayout;
static const ExpertLayout layouts[] = {
    { { "one rank",                       1, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 1, 1 },
    { { "dp4 ep2",                        4, 1, 1, 1, 1, 0, false, SCHEDULE_1F1B }, 2, 1 },
    { { "dp4 ep2 zero1",                  4, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B }, 2, 1 },
    { { "dp4 ep4 zero3",                  4, 1, 1, 1, 1, 3, false, SCHEDULE_1F1B }, 4, 1 },     /* edp 1: experts are not sharded */
    { { "tp2 seq dp4 ep2 zero3",          8, 2, 1, 1, 1, 3, true,  SCHEDULE_1F1B }, 2, 1 },
    { { "tp4 seq dp2 etp2 ep2 zero2",     8, 4, 1, 1, 1, 2, true,  SCHEDULE_1F1B }, 2, 2 },
    { { "dp8 ep2 zero2 hybrid4",          8, 1, 1, 1, 1, 2, false, SCHEDULE_1F1B, .hybrid = 4 }, 2, 1 },
    { { "tp2 dp4 etp2 ep2 zero3 hybrid2", 8, 2, 1, 1, 1, 3, false, SCHEDULE_1F1B, .hybrid = 2 }, 2, 2 },
    { { "cp2 pp2 dp2 ep4 zero1 tp-pp-dp", 8, 1, 2, 2, 1, 1, false, SCHEDULE_1F1B, .order = MESH_TP_PP_DP }, 4, 1 },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* What each rank does once it is open. */
typedef void Body(Trainer *t, void *context);
typedef struct { TrainConfig config; Body *body; void *context; const char *save, *load; } Opened;

static Status body_run(Trainer *t, const Opened *o)
{
    char path[1024];
    bool found;
    trainer_init(t);
    if (o->load) { TRY(checkpoint_find(o->load, path, &found)); TRY(trainer_load(t, path)); }
    if (o->body) o->body(t, o->context);
    return o->save ? trainer_save(t, o->save, 0) : OK;
}

static Status opened_rank(Transport *transport, void *context)
{
    const Opened *o = context;
    Trainer t;
    ArenaSizes sizes = { .slot = 1 << 12 };
    thread_context()->rank = transport->rank;
    for (int i = 0; i < ARENAS; i++) sizes.bytes[i] = 8 << 20;
    Status status = trainer_open(&t, &o->config, transport, &sizes);
    if (status == OK) status = body_run(&t, o);
    trainer_close(&t);
    return status;
}

static Opened opened(const ExpertLayout *e)
{
    Opened o = { .config = tiny_config(MODEL_LLAMA, "ref", scratch_path("corpus")) };
    config_set_layout(&o.config, &e->l);
    o.config.ep = e->ep, o.config.etp = e->etp;
    o.config.model.experts = 4, o.config.model.expert_ffn = 12, o.config.model.moe.topk = 2;
    return o;
}

static void run(Opened *o, const ExpertLayout *e)
{
    if (transport_threads_run(e->l.ranks, opened_rank, o) != OK) fail_msg("%s: %s", e->l.name, fail_text());
}

static void saved_under_one_layout_loaded_under_all(void **state)
{
    (void)state;
    char alone[512], folder[512], again[512], worst[128] = "";
    Opened one = opened(&layouts[0]);
    snprintf(alone, sizeof alone, "%s/experts", scratch_folder());
    one.save = alone;
    run(&one, &layouts[0]);
    for (int i = 1; i < LAYOUTS; i++) {
        Opened o = opened(&layouts[i]), back = opened(&layouts[i]);
        snprintf(folder, sizeof folder, "%s/experts-%d", scratch_folder(), i);
        snprintf(again,  sizeof again,  "%s/experts-again-%d", scratch_folder(), i);
        o.save = folder;
        run(&o, &layouts[i]);
        if (checkpoints_differ(alone, folder, 0, true, worst) != 0) fail_msg("%s: %s is initialised otherwise", layouts[i].l.name, worst);
        back.config.seed = 99;                             /* other initial values: all come from the checkpoint */
        back.load = alone, back.save = again;
        run(&back, &layouts[i]);
        if (checkpoints_differ(alone, again, 0, true, worst) != 0) fail_msg("%s: %s is loaded otherwise", layouts[i].l.name, worst);
    }
}

/* ---- sums ---- */

typedef struct { int counted[2][8][PARAM_IDS][1 << 13]; } Counted;          /* by family, block, parameter, element */

static double value_of(int64_t global) { return (double)(global % 1009 + 1); }

/* This rank's gradients of a bucket: (1 + its number among the data ranks) times a number of the element. */
static void fill(Trainer *t, const Bucket *k, Tensor whole)
{
    int number = k->block.family == PARAMS_EXPERTS ? t->mesh.at.edp : t->mesh.at.dp * t->mesh.size.cp + t->mesh.at.cp;
    double *x = whole.data;
    for (int p = 0; p < k->block.params; p++) {
        TensorShard shard = params_tensor_shard(&k->block, p, 0, k->block.count);
        TensorShardRun run;
        for (int64_t cursor = 0; shard.count > 0 && tensor_shard_next_run(&shard, &cursor, &run);)
            for (int64_t i = 0; i < run.count; i++) x[k->block.param[p].at + run.local + i] = (1 + number) * value_of(run.global + i);
    }
}

static void check(Trainer *t, const Bucket *k, Counted *counted)
{
    bool experts = k->block.family == PARAMS_EXPERTS;
    int64_t n = experts ? t->mesh.size.edp : t->mesh.size.dp * t->mesh.size.cp;
    const double *own = bucket_own(k, k->grads).data;
    for (int p = 0; p < k->block.params; p++) {
        const Param *param = &k->block.param[p];
        int64_t groups = t->config->model.groups, tp = t->mesh.size.tp;
        int64_t copies = param->sum == GRADIENT_OVER_TP ? tp : param->sum == GRADIENT_OVER_KV ? tp / groups : 1;
        TensorShard shard = params_tensor_shard(&k->block, p, k->own_first, k->own_count);
        TensorShardRun run;
        for (int64_t cursor = 0; shard.count > 0 && tensor_shard_next_run(&shard, &cursor, &run);)
            for (int64_t i = 0; i < run.count; i++) {
                int64_t at = param->at + shard.first + run.local + i;
                double want = (double)(n * (n + 1) / 2 * copies) * value_of(run.global + i);
                if (own[at - k->own_first] != want)
                    fail_msg("rank %d, %s[%d]: a sum of %g, not %g", t->mesh.rank, param->name, (int)(run.global + i), own[at - k->own_first], want);
                if (param->saves && at >= k->counted_first && at < k->counted_first + k->counted_count)
                    __atomic_fetch_add(&counted->counted[k->block.family][k->block.index][param->id][run.global + i], 1, __ATOMIC_RELAXED);
            }
    }
}

static void sums(Trainer *t, void *context)
{
    Buckets *b = &t->buckets;
    buckets_zero_grads(b);
    for (int64_t u = 0; u < model_units(b->config); u++) {
        if (!stage_holds(&t->stage, u)) continue;
        UnitParam dw = zero_unshard_grads(b, u);
        for (UnitBlock i = 0; i < UNIT_BLOCKS; i++) {
            const Bucket *k = unit_bucket(b, u, i);
            if (k && k->block.count > 0) fill(t, k, dw.flat[i]);
        }
        zero_reduce_grads(b, u, true);
    }
    for (int c = 0; c < t->stage.chunks; c++) buckets_reduce(b, &t->stage, c);
    buckets_reduce_tied(b);
    queue_wait(&t->queue);
    for (int i = 0; i < b->count; i++) check(t, &b->bucket[i], context);
}

static void sums_over_the_ranks_that_have_parts(void **state)
{
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        Opened o = opened(&layouts[i]);
        Counted *counted = calloc(1, sizeof *counted);
        o.body = sums, o.context = counted;
        run(&o, &layouts[i]);
        for (int64_t b = 0; b < params_blocks(&o.config.model); b++)
            for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
                ParamBlock block;
                params_block(&block, &o.config.model, f, b, NULL);
                for (int p = 0; p < block.params; p++)
                    for (int64_t e = 0; e < param_elements(&block.param[p]); e++)
                        if (counted->counted[f][b][block.param[p].id][e] != 1)
                            fail_msg("%s: %s[%d] is counted %d times", layouts[i].l.name, block.param[p].name, (int)e,
                                     counted->counted[f][b][block.param[p].id][e]);
            }
        free(counted);
    }
}

static void shards_that_cross_experts_are_refused(void **state)
{
    (void)state;
    static const ExpertLayout odd = { { "dp8 ep4 hybrid2", 8, 1, 1, 1, 1, 1, false, SCHEDULE_1F1B, .hybrid = 2 }, 4, 1 };
    Opened o = opened(&odd);
    assert_int_equal(transport_threads_run(8, opened_rank, &o), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "--hybrid-shard-size 2 with tp 1 is 2 ranks, not a multiple of the 4"));
}

int main(void)
{
    corpus_make(scratch_path("corpus"), 61);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_under_one_layout_loaded_under_all), cmocka_unit_test(sums_over_the_ranks_that_have_parts),
        cmocka_unit_test(shards_that_cross_experts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
