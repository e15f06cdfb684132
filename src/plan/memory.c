/* The dry run's report of memory and FLOPs. Each rank that is reported is opened as a dry trainer, which
 * counts the bytes of every named allocation and the work of every operation, and is closed before the next
 * one is opened. */
#include "plan/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "plan/device_memory.h"
#include "plan/largest.h"
#include "train/measure.h"

/* What a dry run of one rank counted. Arenas are copied for their tables of named allocations, which remain
 * after arena_close. */
typedef struct {
    Arena  arena[ARENAS], slot;                      /* slot: the fullest one */
    int    rank, stage, slots;
    /* bytes of all arenas; the part of activations that is wgrad_saved */
    size_t total, wgrad_saved;
    /* per step: of matmuls and attention; read and written by all operations */
    double flops, bytes;
    SlowOps slow[SLOW_OPS];
    int    slows;
    DeviceBesides besides;
} RankMemory;

static const Arena *fullest_slot(const StageExecutor *executor)
{
    for (int i = 0; i < executor->slots; i++)
        if (executor->slot[i].activations.peak == stage_executor_slot_bytes(executor))
            return &executor->slot[i].activations;
    return &executor->slot[0].activations;
}

/* Candidates for the rank of a stage with the most memory. */
typedef struct { int rank[LARGEST_MOST], count; } StageLargest;

/* largest: also those of the rank's stage; NULL: not asked for. */
static Status rank_measure(RankMemory *m, StageLargest *largest, const TrainConfig *config, int rank,
                           int world)
{
    Trainer t;
    ArenaSizes sizes;
    Transport *transport = transport_dry_open(rank, world);
    Status status = trainer_open(&t, config, transport, NULL);
    if (status == OK) {
        trainer_count(&t, &sizes);
        *m = (RankMemory){ .rank = rank, .stage = t.mesh.at.pp, .flops = queue_flops(&t.queue),
            .bytes = queue_bytes(&t.queue) };
        memcpy(m->arena, t.arena, sizeof m->arena);
        for (int i = 0; i < ARENAS; i++) m->total += sizes.bytes[i];
        m->slows = queue_slow(&t.queue, m->slow);
        m->besides = device_besides(&t);
        m->slots = t.train.executor.slots;
        m->slot  = *fullest_slot(&t.train.executor);
        m->wgrad_saved = (size_t)m->slots * stage_executor_wgrad_bytes(&t.train.executor);
        if (largest) largest->count = largest_ranks(largest->rank, &t);
        status = trainer_computable(&t);
    }
    trainer_close(&t);
    transport->close(transport);
    return status;
}

/* ---- the table: a column for each stage, a row for each purpose ---- */

/* of 11 characters, after a label of 20: 75 of 80 columns */
enum { COLUMNS = 5 };

/* Peak bytes of the allocations of that name. */
static double tagged(const RankMemory *m, ArenaName arena, const char *name)
{
    for (int i = 0; i < m->arena[arena].tags; i++)
        if (!strcmp(m->arena[arena].tag[i].name, name)) return (double)m->arena[arena].tag[i].peak;
    return 0;
}
static double persistent (const RankMemory *m) { return (double)m->arena[ARENA_PERSISTENT].peak; }
static double weights    (const RankMemory *m) { return tagged(m, ARENA_PERSISTENT, "weights"); }
static double master     (const RankMemory *m) { return tagged(m, ARENA_PERSISTENT, "master weights"); }
static double gradients  (const RankMemory *m) { return tagged(m, ARENA_PERSISTENT, "gradients"); }
static double states     (const RankMemory *m) { return tagged(m, ARENA_PERSISTENT, "optimizer states"); }
static double activations(const RankMemory *m)
{
    return (double)(m->arena[ARENA_ACTIVATIONS].peak - m->wgrad_saved);
}
static double wgrad_saved(const RankMemory *m) { return (double)m->wgrad_saved; }
static double recomputed (const RankMemory *m) { return (double)m->arena[ARENA_RECOMPUTED].peak; }
static double gathered   (const RankMemory *m) { return (double)m->arena[ARENA_GATHERED].peak; }
static double scratch    (const RankMemory *m) { return (double)m->arena[ARENA_SCRATCH].peak; }
static double workspace  (const RankMemory *m) { return (double)m->arena[ARENA_WORKSPACE].peak; }
static double samples    (const RankMemory *m) { return (double)m->arena[ARENA_SAMPLES].peak; }
static double host       (const RankMemory *m) { return (double)m->arena[ARENA_HOST].peak; }
static double total      (const RankMemory *m) { return (double)m->total; }

static const struct { const char *label; double (*bytes)(const RankMemory *m); } purposes[] = {
    { "persistent",         persistent },         /* also has the few bytes of loss sums, which have no row */
    { "  weights",          weights },
    { "  master weights",   master },
    { "  gradients",        gradients },
    { "  optimizer states", states },
    { "activations",        activations },
    /* ZB-H1: left for deferred weight gradients; elsewhere in scratch */
    { "wgrad_saved",        wgrad_saved },
    { "recomputed",         recomputed },         /* saves of blocks whose forward is repeated */
    { "gathered",           gathered },
    { "scratch",            scratch },
    { "workspace",          workspace },
    { "samples",            samples },            /* a row where the run makes samples of text */
    { "host",               host },
    { "total",              total },
};

/* All stages if they fit, else the first two, the largest or the middle one, and the last two. Returns the
 * number of columns. */
static int columns_choose(int column[COLUMNS], int stages, int largest)
{
    for (int i = 0; i < COLUMNS; i++) column[i] = i;
    if (stages <= COLUMNS) return stages;
    column[2] = largest > 1 && largest < stages - 2 ? largest : stages / 2;
    column[3] = stages - 2;
    column[4] = stages - 1;
    return COLUMNS;
}

static void show_table(const RankMemory *stage, const int *column, int columns)
{
    char text[24];
    printf("\n%-20s", "bytes per rank");
    for (int i = 0; i < columns; i++) {
        snprintf(text, sizeof text, "stage %d", column[i]);
        printf("%11s", text);
    }
    for (size_t row = 0; row < COUNT(purposes); row++) {
        bool shown = purposes[row].bytes != samples;
        for (int i = 0; i < columns; i++) shown |= samples(&stage[column[i]]) > 0;
        if (!shown) continue;
        printf("\n%-20s", purposes[row].label);
        for (int i = 0; i < columns; i++)
            printf("%11s", log_bytes(text, purposes[row].bytes(&stage[column[i]])));
    }
    printf("\n%-20s", "op bytes per step");
    for (int i = 0; i < columns; i++) printf("%11s", log_bytes(text, stage[column[i]].bytes));
    printf("\n%-20s", "op flops per step");
    for (int i = 0; i < columns; i++) printf("%11.4g", stage[column[i]].flops);
    printf("\n\n");
}

/* The rank of the stage with the most memory; of several the lowest. */
static Status stage_measure(RankMemory *most, const TrainConfig *config, int stage, int world)
{
    Mesh mesh;
    StageLargest largest;
    RankMemory *other = malloc(sizeof *other);
    if (!other) return fail(NO_MEMORY, "no memory for the table of a rank");
    Status status = mesh_make(&mesh, world, 0, train_config_mesh(config));
    int first = status == OK ? mesh_rank(&mesh, (MeshSize){ .pp = stage }) : 0;
    if (status == OK) status = rank_measure(most, &largest, config, first, world);
    for (int i = 0; status == OK && i < largest.count; i++) {
        if (largest.rank[i] == first) continue;
        status = rank_measure(other, NULL, config, largest.rank[i], world);
        if (other->total > most->total || (other->total == most->total && other->rank < most->rank))
            *most = *other;
    }
    free(other);
    return status;
}

Status memory_bytes(double *bytes, const TrainConfig *config, int world)
{
    RankMemory *most = malloc(sizeof *most);
    Status status = most ? OK : fail(NO_MEMORY, "no memory for the count of a rank");
    *bytes = 0;
    for (int i = 0; status == OK && i < config->pp; i++) {
        status = stage_measure(most, config, i, world);
        if (status == OK) *bytes += (double)most->total * world / config->pp;
    }
    free(most);
    return status;
}

/* Kernels of the device that are many times slower than its others */
static void show_slow(const RankMemory *m)
{
    for (int i = 0; i < m->slows; i++) printf("%s: slow, since %s\n", m->slow[i].ops, m->slow[i].why);
}

static void show_device(const TrainConfig *config, const RankMemory *m, int world)
{
    device_memory_show(config, (double)(m->total - m->arena[ARENA_HOST].peak), &m->besides, world);
}

static Status show_stages(const TrainConfig *config, int world)
{
    RankMemory *stage = calloc((size_t)config->pp, sizeof *stage);
    int column[COLUMNS], largest = 0;
    char text[24];
    Status status = stage ? OK : fail(NO_MEMORY, "no memory for a table of %d stages", config->pp);
    for (int i = 0; status == OK && i < config->pp; i++) {
        status = stage_measure(&stage[i], config, i, world);
        if (stage[i].total > stage[largest].total) largest = i;
    }
    if (status == OK) {
        int columns = columns_choose(column, config->pp, largest);
        show_table(stage, column, columns);
        printf("rank with the most memory  %s, rank %d in stage %d\n",
               log_bytes(text, (double)stage[largest].total), stage[largest].rank, largest);
        if (columns < config->pp) printf("%d of %d stages are shown; ", columns, config->pp);
        printf("--verbose shows every rank and every allocation\n");
        show_slow(&stage[largest]);
        show_device(config, &stage[largest], world);
    }
    free(stage);
    return status;
}

/* ---- every rank, every allocation ---- */

static void show_allocations(const Arena *a, const char *indent)
{
    char text[24];
    for (int i = 0; i < a->tags; i++)
        if (a->tag[i].peak > 0)
            printf("%s%-32s %12s\n", indent, a->tag[i].name, log_bytes(text, (double)a->tag[i].peak));
}

static void show_rank(const RankMemory *m, int last)
{
    char text[24];
    if (m->rank == last) printf("\nrank %d", last);
    else                 printf("\nranks %d to %d", m->rank, last);
    printf(", stage %d: %s per rank\n", m->stage, log_bytes(text, (double)m->total));
    for (int i = 0; i < ARENAS; i++) {
        printf("  %-34s %12s\n", m->arena[i].name, log_bytes(text, (double)m->arena[i].peak));
        show_allocations(&m->arena[i], "    ");
    }
    printf("  slots of activations, %d of %s\n", m->slots, log_bytes(text, (double)m->slot.peak));
    show_allocations(&m->slot, "    ");
    printf("  wgrad_saved, in the slots %s\n", log_bytes(text, (double)m->wgrad_saved));
    show_slow(m);
    printf("  one step of rank %d: %.4g flops in matmuls and attention, %s read and written by ops\n",
        m->rank, m->flops, log_bytes(text, m->bytes));
}

static bool arenas_alike(const Arena *a, const Arena *b)
{
    bool alike = a->peak == b->peak && a->tags == b->tags;
    for (int i = 0; alike && i < a->tags; i++)
        alike = a->tag[i].peak == b->tag[i].peak && !strcmp(a->tag[i].name, b->tag[i].name);
    return alike;
}

static bool ranks_alike(const RankMemory *a, const RankMemory *b)
{
    bool alike = a->stage == b->stage && a->slots == b->slots && arenas_alike(&a->slot, &b->slot);
    for (int i = 0; i < ARENAS; i++) alike = alike && arenas_alike(&a->arena[i], &b->arena[i]);
    return alike;
}

/* Ranks of one stage usually need the same, so a rank is printed only when the next one differs or is of
 * another stage. Two results are kept, whatever the number of ranks. */
static Status show_ranks(const TrainConfig *config, int world)
{
    /* of the first rank not yet printed; of the current rank */
    RankMemory *two = calloc(2, sizeof *two), *of = two, *next = two + 1;
    size_t most = 0;
    int most_rank = 0, most_stage = 0;
    char text[24];
    Status status = two ? rank_measure(of, NULL, config, 0, world)
                        : fail(NO_MEMORY, "no memory for the table of a rank");
    for (int rank = 1; status == OK && rank <= world; rank++) {
        if (of->total > most) most = of->total, most_rank = of->rank, most_stage = of->stage;
        if (rank < world) status = rank_measure(next, NULL, config, rank, world);
        if (status != OK || (rank < world && ranks_alike(of, next))) continue;
        show_rank(of, rank - 1);
        show_device(config, of, world);
        RankMemory *printed = of;
        of = next;
        next = printed;
    }
    if (status == OK)
        printf("\nrank with the most memory  %s, rank %d in stage %d\n", log_bytes(text, (double)most),
            most_rank, most_stage);
    free(two);
    return status;
}

/* The indices of blended or shuffled samples are outside the arenas. They depend on the data files, which the
 * machine of a dry run may not have; then the report says so and continues. */
static Status indices_measure(double *bytes, const TrainConfig *config)
{
    Datasets datasets;
    DatasetsPlan spec = train_config_datasets(config);
    LoaderConfig shape = { .sequence = config->model.sequence, .micro = config->micro,
        .global = config->global, .dp = 1, .cp = 1, .seed = config->seed, .eod = config->eod };
    Status status = datasets_open(&datasets, &spec);
    for (int set = 0; status == OK && set < DATA_SETS; set++) {
        if (!train_config_takes(config, set)) continue;
        status = datasets_measure(&datasets, set, &shape);
        if (status == OK) *bytes += (double)blend_bytes(&datasets.blend[set]);
    }
    datasets_close(&datasets);
    return status;
}

static void show_indices(const TrainConfig *config)
{
    double bytes = 0;
    char text[24];
    DatasetsPlan spec = train_config_datasets(config);
    bool data = spec.rules.mock || spec.rules.data_path.count || spec.rules.list ||
                spec.rules.split_path[SPLIT_TRAIN].count;
    if (config->datasets.order == ORDER_JOTUN || !data) return;
    if (indices_measure(&bytes, config) == OK)
        printf("order of samples %s of indices %s\n", log_bytes(text, bytes),
            config->datasets.cache ? "in --data-cache-path, shared by the ranks of a host" :
               "per rank; with --data-cache-path DIR once per host");
    else printf("order of samples not counted, since its data cannot be read: %s\n", fail_text());
}

/* Which steps are counted, where not all are alike (train/measure.c). */
static void show_step_kind(const TrainConfig *config)
{
    const OptimizerSettings *s = &config->settings;
    if (!config->training) return;
    if (optimizer_estimates(config->optimizer))
        printf("a step           with 1 / %lld of the pass of an estimate, of --sophia-update-interval\n",
               (long long)s->estimate_interval);
    if (optimizer_compresses(config->optimizer))
        printf("a step           %s --onebit-freeze-step %lld; memory is enough for both\n",
               config->samples > 0 || config->steps > s->freeze ? "after" : "before", (long long)s->freeze);
}

Status memory_show(const TrainConfig *config, int world, bool verbose)
{
    printf("parameters       %lld\n", (long long)model_parameters(&config->model));
    if (config->model.experts > 0)
        printf("of a token       %lld, with %lld of %lld experts\n",
            (long long)model_active_parameters(&config->model), (long long)config->model.moe.topk,
            (long long)config->model.experts);
    printf("type             %s\n", train_config_type(config));
    printf("model flops      %.6g per token, attention in full; %.6g causal\n",
        model_flops(&config->model, false), model_flops(&config->model, true));
    int64_t largest = config->batch.steps > 0 ? batch_schedule_largest(config->batch) : config->global;
    printf("tokens per step  %lld%s\n", (long long)(largest * config->model.sequence),
        config->batch.steps > 1 ? ", of the largest step" : "");
    show_step_kind(config);
    TRY(verbose ? show_ranks(config, world) : show_stages(config, world));
    show_indices(config);
    return OK;
}
