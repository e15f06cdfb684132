#include "train/trainer.h"
#include <stdlib.h>
#include <string.h>

static const char *const names[ARENAS] = { "persistent", "activations", "gathered", "scratch", "host" };

int64_t trainer_step_tokens(const TrainConfig *r) { return r->global * r->model.sequence; }

static Status open_comms(Trainer *t)
{
    const Mesh *mesh = &t->mesh;
    TRY(comm_open_axes(&t->tp,   t->world, mesh, AXIS_TP));
    TRY(comm_open_axes(&t->cp,   t->world, mesh, AXIS_CP));
    TRY(comm_open_axes(&t->data, t->world, mesh, AXIS_DP | AXIS_CP));
    TRY(comm_open_axes(&t->pp,   t->world, mesh, AXIS_PP));
    int last = mesh->size.pp - 1;
    if (!t->config->model.tied || last == 0 || (mesh->at.pp != 0 && mesh->at.pp != last)) return OK;
    int pair[2];
    MeshSize at = mesh->at;
    for (int i = 0; i < 2; i++) { at.pp = i * last; pair[i] = mesh_rank(mesh, at); }
    return comm_open(&t->tied, t->world, "tied", pair, 2);
}

static Status open_arenas(Trainer *t, const ArenaSizes *sizes)
{
    for (int i = 0; i < ARENAS; i++) {
        if (!sizes) arena_dry(&t->arena[i], names[i]);
        else TRY(arena_open(&t->arena[i], names[i], sizes->bytes[i]));
    }
    return OK;
}

static Status open_queue(Trainer *t)
{
    char dry[16] = "dry-";
    bool real = !comm_dry(t->world);
    return queue_open(&t->queue, real ? t->config->device : strcat(dry, t->config->device), real ? t->config->threads : 1, &t->step_state);
}

LoaderConfig trainer_loader_config(const Trainer *t)
{
    const TrainConfig *r = t->config;
    return (LoaderConfig){ .sequence = r->model.sequence, .micro = r->micro, .global = r->global, .dp = t->mesh.size.dp,
        .dp_rank = t->mesh.at.dp, .cp = t->mesh.size.cp, .cp_rank = t->mesh.at.cp, .seed = r->seed,
        .reset_positions = r->reset_positions, .reset_attention = r->reset_attention, .mask_eod = r->mask_eod, .eod = r->eod,
        .real = t->queue.real };
}

/* As Megatron counts them: an evaluation more than there are, of which the test is none */
int64_t train_config_samples(const TrainConfig *r, SplitKind kind)
{
    int64_t evaluations = kind == SPLIT_VALID && r->eval_interval > 0 ? r->steps / r->eval_interval + 1 : 1;
    return kind == SPLIT_TRAIN ? r->steps * r->global : evaluations * r->eval_iters * r->global;
}

bool train_config_takes(const TrainConfig *r, SplitKind kind)
{
    if (!r->learn || kind == SPLIT_TRAIN) return r->learn;
    return r->eval_iters > 0 && (kind == SPLIT_VALID ? datasets_has(&r->datasets, kind) : r->datasets.own[kind].count > 0);
}

DatasetsPlan train_config_datasets(const TrainConfig *r)
{
    DatasetsPlan spec = { .rules = r->datasets, .split = r->split };
    if (r->data) spec.rules.words = (DatasetWords){ &r->data, 1 };
    for (int kind = 0; kind < SPLITS; kind++) spec.wanted[kind] = train_config_samples(r, (SplitKind)kind);
    return spec;
}

static Status open_data(Trainer *t)
{
    const TrainConfig *r = t->config;
    if (comm_dry(t->world) || !r->learn) return OK;
    DatasetsPlan spec = train_config_datasets(r);
    watchdog_work(t->world, "opening data");
    Status status = datasets_open(&t->datasets, &spec);
    for (int kind = 0; status == OK && kind < SPLITS; kind++)
        if (train_config_takes(r, (SplitKind)kind)) status = datasets_loader(&t->datasets, &t->loader[kind], (SplitKind)kind, trainer_loader_config(t));
    watchdog_work(t->world, NULL);
    return status;
}

static Status open_schedules(Trainer *t)
{
    const TrainConfig *r = t->config;
    int stages = t->mesh.size.pp, stage = t->mesh.at.pp, micros = (int)(r->global / (r->micro * t->mesh.size.dp));
    TRY(stage_make(&t->stage, &r->model, stages, stage, r->chunks));
    if (r->learn) TRY(schedule_make(&t->train, r->schedule, stages, stage, r->chunks, micros));
    return schedule_make(&t->valid, SCHEDULE_FORWARD, stages, stage, r->chunks, micros);
}

/* In the order of the schedule's FORWARD rows; each chunk takes its own */
static Status open_prefetch(Trainer *t, SplitKind kind)
{
    const Schedule *s = kind == SPLIT_TRAIN ? &t->train : &t->valid;
    int *micro = calloc((size_t)s->rows, sizeof *micro), count = 0;
    if (!micro) return fail(NO_MEMORY, "no memory for %d rows", s->rows);
    for (int i = 0; i < s->rows; i++)
        if (s->row[i].verb == FORWARD) micro[count++] = s->row[i].micro;
    t->loader[kind].config = trainer_loader_config(t);                       /* of a dry run too, which opens no data */
    Status status = prefetch_open(&t->prefetch[kind], &(PrefetchSetup){ .loader = &t->loader[kind], .micro = micro, .count = count,
        .vocabulary = t->config->model.vocabulary, .host = &t->arena[ARENA_HOST] });
    free(micro);
    return status;
}

static Status open_prefetches(Trainer *t)
{
    for (int kind = 0; kind < SPLITS; kind++)
        if (train_config_takes(t->config, (SplitKind)kind)) TRY(open_prefetch(t, (SplitKind)kind));
    return OK;
}

static void open_parameters(Trainer *t)
{
    const TrainConfig *r = t->config;
    Arena *forever = &t->arena[ARENA_PERSISTENT];
    buckets_open(&t->buckets, &(BucketsSetup){ .config = &r->model, .stage = &t->stage, .queue = &t->queue, .zero_stage = r->zero,
        .learn = r->learn, .sequence = r->sequence && t->mesh.size.tp > 1, .data = t->data, .tp = t->tp, .tied = t->tied, .persistent = forever,
        .gathered = &t->arena[ARENA_GATHERED], .scratch = &t->arena[ARENA_SCRATCH] });
    t->state = calloc((size_t)t->buckets.count, sizeof *t->state);
    CHECK(t->state, "no memory for the states of %d buckets", t->buckets.count);
    for (int i = 0; i < t->buckets.count; i++)
        for (int s = 0; r->learn && s < r->optimizer->states; s++)
            t->state[i][s] = tensor_new(forever, "optimizer states", t->queue.real, t->buckets.bucket[i].own_count);
    t->sums_3   = tensor_new(forever, "sums", F64, 3);
    t->sums_R3  = tensor_new(forever, "sums", F64, t->mesh.world, 3);
    t->report_4 = tensor_new(forever, "sums", F64, 4);
    t->flags_3  = tensor_new(forever, "sums", F64, RUN_FLAGS);
    t->flags_R3 = tensor_new(forever, "sums", F64, t->mesh.world, RUN_FLAGS);
    if (t->mesh.world == 1) {                     /* one rank's sums are all there are: nothing is gathered */
        t->sums_R3  = tensor_view(t->sums_3, 1, 3);
        t->flags_R3 = tensor_view(t->flags_3, 1, RUN_FLAGS);
    }
}

static void open_walk(Trainer *t, const ArenaSizes *sizes)
{
    const TrainConfig *r = t->config;
    LoaderConfig batch = trainer_loader_config(t);
    int slots[CHUNKS_MAX];
    for (int c = 0; c < r->chunks; c++) slots[c] = t->train.slots[c] > t->valid.slots[c] ? t->train.slots[c] : t->valid.slots[c];
    ExecContext ctx = { .config = &r->model, .queue = &t->queue, .cp = t->cp, .scratch = &t->arena[ARENA_SCRATCH],
                .tp = { .comm = t->tp, .queue = &t->queue, .scratch = &t->arena[ARENA_SCRATCH], .sequence = t->buckets.sequence } };
    stage_executor_open(&t->executor, &(StageExecutorSetup){ .stage = &t->stage, .buckets = &t->buckets, .ctx = ctx, .defer = r->schedule == SCHEDULE_ZB_H1,
        .slots = slots, .batch = &batch, .activations = &t->arena[ARENA_ACTIVATIONS], .host = &t->arena[ARENA_HOST], .slot_bytes = sizes ? sizes->slot : NULL });
    int rows = t->train.rows > t->valid.rows ? t->train.rows : t->valid.rows;
    pipeline_open(&t->pipeline, &t->executor, t->pp, &t->arena[ARENA_ACTIVATIONS], rows);
}

Status trainer_open(Trainer *t, const TrainConfig *config, Transport *transport, const ArenaSizes *sizes)
{
    *t = (Trainer){ .config = config, .transport = transport, .step_state = { .seed = config->seed } };
    TRY(mesh_make(&t->mesh, transport->size, transport->rank, config->tp, config->cp, config->pp));
    TRY(comm_world(&t->world, transport));
    TRY(watchdog_open(&t->watchdog, t->world, config->watchdog));          /* before anything that may take long on one rank */
    TRY(agree(t->world, open_comms(t)));
    TRY(agree(t->world, open_queue(t)));
    bool later = config->datasets.cache && transport->rank != 0;               /* the first rank fills the cache, the others map it */
    TRY(agree(t->world, later ? OK : open_data(t)));
    if (config->datasets.cache) TRY(agree(t->world, later ? open_data(t) : OK));
    TRY(agree(t->world, open_schedules(t)));
    TRY(agree(t->world, open_arenas(t, sizes)));
    open_parameters(t);
    open_walk(t, sizes);
    return agree(t->world, open_prefetches(t));
}

void trainer_close(Trainer *t)
{
    watchdog_close(t->watchdog, t->world);
    for (int kind = 0; kind < SPLITS; kind++) prefetch_close(t->prefetch[kind]);
    if (t->pipeline.pending) pipeline_close(&t->pipeline);
    if (t->executor.stage) stage_executor_close(&t->executor);
    if (t->buckets.bucket) buckets_close(&t->buckets);
    free(t->state);
    schedule_free(&t->train);
    schedule_free(&t->valid);
    for (int i = 0; i < ARENAS; i++) arena_close(&t->arena[i]);
    datasets_close(&t->datasets);
    queue_close(&t->queue);
    Comm *comms[] = { t->tied, t->pp, t->data, t->cp, t->tp, t->world };
    for (size_t i = 0; i < sizeof comms / sizeof *comms; i++)
        if (comms[i]) comm_close(comms[i]);
}

void trainer_init(Trainer *t)
{
    buckets_init(&t->buckets, t->config->seed);
    for (int i = 0; i < t->buckets.count; i++)
        for (int s = 0; t->config->learn && s < t->config->optimizer->states; s++) fill_zero(&t->queue, (FillZero){ .y = t->state[i][s] });
    queue_wait(&t->queue);
}

Status trainer_start(Trainer *t, const TrainConfig *config, Transport *transport)
{
    ArenaSizes sizes;
    *t = (Trainer){ 0 };
    thread_context()->rank = transport->rank;
    TRY(trainer_measure(&sizes, config, transport->rank, transport->size));       /* same on every rank */
    return trainer_open(t, config, transport, &sizes);
}
