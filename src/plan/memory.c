#include "plan/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"

/* What a dry run of one rank counted. Of the arenas the table of tags is read, after they are closed. */
typedef struct {
    Arena  arena[ARENAS], slot[CHUNKS_MAX];          /* slot: the largest of each chunk */
    int    rank, chunks, slots[CHUNKS_MAX];
    size_t total, wgrad_saved;                       /* wgrad_saved: a part of the activations */
    double flops, bytes;                             /* of a step: in matmuls and attention; read and written by ops */
} RankMemory;

static const Arena *largest_slot(const StageExecutor *executor, int chunk)
{
    for (int i = 0; i < executor->slots[chunk]; i++)
        if (executor->slot[chunk][i].activations.peak == stage_executor_slot_bytes(executor, chunk)) return &executor->slot[chunk][i].activations;
    return &executor->slot[chunk][0].activations;
}

static Status rank_measure(RankMemory *m, const TrainConfig *config, int rank, int world)
{
    Trainer t;
    ArenaSizes sizes;
    Transport *transport = transport_dry_open(rank, world);
    Status status = trainer_open(&t, config, transport, NULL);
    if (status == OK) {
        trainer_count(&t, &sizes);
        *m = (RankMemory){ .rank = rank, .chunks = config->chunks, .flops = queue_flops(&t.queue), .bytes = queue_bytes(&t.queue) };
        memcpy(m->arena, t.arena, sizeof m->arena);
        for (int i = 0; i < ARENAS; i++) m->total += sizes.bytes[i];
        for (int c = 0; c < m->chunks; c++) {
            m->slots[c] = t.executor.slots[c];
            m->slot[c]  = *largest_slot(&t.executor, c);
            m->wgrad_saved += (size_t)m->slots[c] * stage_executor_wgrad_bytes(&t.executor, c);
        }
    }
    trainer_close(&t);
    transport->close(transport);
    return status;
}

/* ---- the table: a column a stage, a row a purpose ---- */

enum { COLUMNS = 5 };                                /* of 11 characters beside a label of 20 */

static double tagged(const RankMemory *m, ArenaName arena, const char *name)
{
    for (int i = 0; i < m->arena[arena].tags; i++)
        if (!strcmp(m->arena[arena].tag[i].name, name)) return (double)m->arena[arena].tag[i].peak;
    return 0;
}
static double persistent (const RankMemory *m) { return (double)m->arena[ARENA_PERSISTENT].peak; }
static double weights    (const RankMemory *m) { return tagged(m, ARENA_PERSISTENT, "weights"); }
static double gradients  (const RankMemory *m) { return tagged(m, ARENA_PERSISTENT, "gradients"); }
static double states     (const RankMemory *m) { return tagged(m, ARENA_PERSISTENT, "optimizer states"); }
static double activations(const RankMemory *m) { return (double)(m->arena[ARENA_ACTIVATIONS].peak - m->wgrad_saved); }
static double wgrad_saved(const RankMemory *m) { return (double)m->wgrad_saved; }
static double gathered   (const RankMemory *m) { return (double)m->arena[ARENA_GATHERED].peak; }
static double scratch    (const RankMemory *m) { return (double)m->arena[ARENA_SCRATCH].peak; }
static double host       (const RankMemory *m) { return (double)m->arena[ARENA_HOST].peak; }
static double total      (const RankMemory *m) { return (double)m->total; }

static const struct { const char *label; double (*bytes)(const RankMemory *m); } purposes[] = {
    { "persistent",         persistent },                   /* with the few bytes of sums that no row below has */
    { "  weights",          weights },
    { "  gradients",        gradients },
    { "  optimizer states", states },
    { "activations",        activations },
    { "wgrad_saved",        wgrad_saved },                  /* ZB-H1's input backwards leave it; elsewhere it is scratch */
    { "gathered",           gathered },
    { "scratch",            scratch },
    { "host",               host },
    { "total",              total },
};

/* All stages where they fit, else the first two, the largest or the middle one, and the last two */
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
    printf("\n%-20s", "bytes a rank");
    for (int i = 0; i < columns; i++) {
        snprintf(text, sizeof text, "stage %d", column[i]);
        printf("%11s", text);
    }
    for (size_t row = 0; row < sizeof purposes / sizeof *purposes; row++) {
        printf("\n%-20s", purposes[row].label);
        for (int i = 0; i < columns; i++) printf("%11s", log_bytes(text, purposes[row].bytes(&stage[column[i]])));
    }
    printf("\n%-20s", "op bytes a step");
    for (int i = 0; i < columns; i++) printf("%11s", log_bytes(text, stage[column[i]].bytes));
    printf("\n%-20s", "op flops a step");
    for (int i = 0; i < columns; i++) printf("%11.4g", stage[column[i]].flops);
    printf("\n\n");
}

static Status show_stages(const TrainConfig *r, int world)
{
    RankMemory *stage = calloc((size_t)r->pp, sizeof *stage);
    int each = world / r->pp, column[COLUMNS], largest = 0;
    char text[24];
    Status status = stage ? OK : fail(NO_MEMORY, "no memory for a table of %d stages", r->pp);
    for (int i = 0; status == OK && i < r->pp; i++) {
        status = rank_measure(&stage[i], r, i * each, world);                 /* the stage's first rank */
        if (stage[i].total > stage[largest].total) largest = i;
    }
    if (status == OK) {
        int columns = columns_choose(column, r->pp, largest);
        show_table(stage, column, columns);
        printf("largest rank     %s, in stage %d (ranks %d to %d)\n", log_bytes(text, (double)stage[largest].total), largest,
               largest * each, (largest + 1) * each - 1);
        if (columns < r->pp) printf("%d of %d stages are shown; ", columns, r->pp);
        printf("--verbose shows every rank and every purpose\n");
    }
    free(stage);
    return status;
}

/* ---- every rank, every push ---- */

static void show_tags(const Arena *a, const char *indent)
{
    char text[24];
    for (int i = 0; i < a->tags; i++)
        if (a->tag[i].peak > 0) printf("%s%-32s %12s\n", indent, a->tag[i].name, log_bytes(text, (double)a->tag[i].peak));
}

static void show_rank(const RankMemory *m, int last, int stage)
{
    char text[24];
    printf("\nranks %d to %d, stage %d: %s a rank\n", m->rank, last, stage, log_bytes(text, (double)m->total));
    for (int i = 0; i < ARENAS; i++) {
        printf("  %-34s %12s\n", m->arena[i].name, log_bytes(text, (double)m->arena[i].peak));
        show_tags(&m->arena[i], "    ");
    }
    for (int c = 0; c < m->chunks; c++) {
        printf("  chunk %d: %d slots, each %s\n", c, m->slots[c], log_bytes(text, (double)m->slot[c].peak));
        show_tags(&m->slot[c], "    ");
    }
    printf("  wgrad_saved, in the slots %s\n", log_bytes(text, (double)m->wgrad_saved));
    printf("  a step of rank %d: %.4g flops in matmuls and attention, %s read and written by ops\n", m->rank, m->flops, log_bytes(text, m->bytes));
}

static bool arenas_alike(const Arena *a, const Arena *b)
{
    bool alike = a->peak == b->peak && a->tags == b->tags;
    for (int i = 0; alike && i < a->tags; i++) alike = a->tag[i].peak == b->tag[i].peak && !strcmp(a->tag[i].name, b->tag[i].name);
    return alike;
}

static bool ranks_alike(const RankMemory *a, const RankMemory *b)
{
    bool alike = !memcmp(a->slots, b->slots, sizeof a->slots);
    for (int i = 0; i < ARENAS; i++) alike = alike && arenas_alike(&a->arena[i], &b->arena[i]);
    for (int c = 0; c < a->chunks; c++) alike = alike && arenas_alike(&a->slot[c], &b->slot[c]);
    return alike;
}

static Status show_ranks(const TrainConfig *r, int world)
{
    RankMemory *two = calloc(2, sizeof *two), *of = two, *next = two + 1;     /* of the first rank not yet printed; of the rank at hand */
    int each = world / r->pp;
    size_t most = 0;
    char text[24];
    Status status = two ? rank_measure(of, r, 0, world) : fail(NO_MEMORY, "no memory for the table of a rank");
    for (int rank = 1; status == OK && rank <= world; rank++) {
        if (of->total > most) most = of->total;
        if (rank < world) status = rank_measure(next, r, rank, world);
        if (status != OK || (rank < world && rank % each != 0 && ranks_alike(of, next))) continue;
        show_rank(of, rank - 1, of->rank / each);
        RankMemory *printed = of;
        of = next;
        next = printed;
    }
    if (status == OK) printf("\nlargest rank     %s\n", log_bytes(text, (double)most));
    free(two);
    return status;
}

/* Beside the arenas, and only where the data is at hand: on another machine it may not be. */
static Status indices_measure(double *bytes, const TrainConfig *r)
{
    Datasets datasets;
    DatasetsPlan spec = train_config_datasets(r);
    LoaderConfig shape = { .sequence = r->model.sequence, .micro = r->micro, .global = r->global, .dp = 1, .cp = 1, .seed = r->seed, .eod = r->eod };
    Status status = datasets_open(&datasets, &spec);
    for (int kind = 0; status == OK && kind < SPLITS; kind++) {
        if (!train_config_takes(r, (SplitKind)kind)) continue;
        status = datasets_measure(&datasets, (SplitKind)kind, &shape);
        if (status == OK) *bytes += (double)blend_bytes(&datasets.blend[kind]);
    }
    datasets_close(&datasets);
    return status;
}

static void show_indices(const TrainConfig *r)
{
    double bytes = 0;
    char text[24];
    DatasetsPlan spec = train_config_datasets(r);
    if (r->datasets.order == ORDER_JOTUN || !(spec.rules.words.count || spec.rules.list || spec.rules.own[SPLIT_TRAIN].count)) return;
    if (indices_measure(&bytes, r) == OK)
        printf("order of samples %s of indices %s\n", log_bytes(text, bytes), r->datasets.cache ? "in --data-cache-path, shared by the ranks of a host" :
               "a rank; --data-cache-path DIR: once a host");
    else printf("order of samples not counted: %s\n", fail_text());
}

Status memory_show(const TrainConfig *r, int world, bool verbose)
{
    printf("parameters       %lld\n", (long long)model_parameters(&r->model));
    printf("model flops      %.6g a token, attention in full; %.6g causal\n", model_flops(&r->model, false), model_flops(&r->model, true));
    printf("tokens a step    %lld\n", (long long)trainer_step_tokens(r));
    TRY(verbose ? show_ranks(r, world) : show_stages(r, world));
    show_indices(r);
    return OK;
}
