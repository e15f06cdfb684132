#include "train/trainer.h"
#include <stdlib.h>
#include <string.h>

static const char *const names[ARENAS] = { "forever", "flight", "gather", "scratch", "host" };
const char *arena_name(ArenaName arena) { return names[arena]; }

int64_t trainer_step_tokens(const Recipe *r) { return r->global * r->shape.sequence; }

static Status open_comms(Trainer *t)
{
    const Mesh *mesh = &t->mesh;
    TRY(comm_open_axes(&t->tp,   t->world, mesh, AXIS_TP));
    TRY(comm_open_axes(&t->cp,   t->world, mesh, AXIS_CP));
    TRY(comm_open_axes(&t->data, t->world, mesh, AXIS_DP | AXIS_CP));
    TRY(comm_open_axes(&t->pp,   t->world, mesh, AXIS_PP));
    int last = mesh->size.pp - 1;
    if (!t->recipe->shape.tied || last == 0 || (mesh->at.pp != 0 && mesh->at.pp != last)) return OK;
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
    TRY(queue_open(&t->queue, real ? t->recipe->device : strcat(dry, t->recipe->device), real ? t->recipe->threads : 1, &t->tick));
    return OK;
}

LoaderShape trainer_loader_shape(const Trainer *t)
{
    const Recipe *r = t->recipe;
    return (LoaderShape){ .sequence = r->shape.sequence, .micro = r->micro, .global = r->global, .dp = t->mesh.size.dp,
        .dp_rank = t->mesh.at.dp, .cp = t->mesh.size.cp, .cp_rank = t->mesh.at.cp, .seed = r->seed,
        .reset_positions = r->reset_positions, .reset_attention = r->reset_attention, .mask_eod = r->mask_eod, .eod = r->eod,
        .real = t->queue.real };
}

/* As Megatron counts them: an evaluation more than there are, of which the test is none */
int64_t recipe_samples(const Recipe *r, SplitKind kind)
{
    int64_t evaluations = kind == SPLIT_VALID && r->eval_interval > 0 ? r->steps / r->eval_interval + 1 : 1;
    return kind == SPLIT_TRAIN ? r->steps * r->global : evaluations * r->eval_iters * r->global;
}

bool recipe_takes(const Recipe *r, SplitKind kind)
{
    if (!r->learn || kind == SPLIT_TRAIN) return r->learn;
    return r->eval_iters > 0 && (kind == SPLIT_VALID ? feed_has(&r->feed, kind) : r->feed.own[kind].count > 0);
}

FeedSpec recipe_feed(const Recipe *r)
{
    FeedSpec spec = { .rules = r->feed, .split = r->split };
    if (r->data) spec.rules.words = (FeedWords){ &r->data, 1 };
    for (int kind = 0; kind < SPLITS; kind++) spec.wanted[kind] = recipe_samples(r, (SplitKind)kind);
    return spec;
}

static Status open_data(Trainer *t)
{
    const Recipe *r = t->recipe;
    if (comm_dry(t->world) || !r->learn) return OK;
    FeedSpec spec = recipe_feed(r);
    TRY(feed_open(&t->feed, &spec));
    for (int kind = 0; kind < SPLITS; kind++)
        if (recipe_takes(r, (SplitKind)kind)) TRY(feed_loader(&t->feed, &t->loader[kind], (SplitKind)kind, trainer_loader_shape(t)));
    return OK;
}

static Status open_schedules(Trainer *t)
{
    const Recipe *r = t->recipe;
    int stages = t->mesh.size.pp, stage = t->mesh.at.pp, micros = (int)(r->global / (r->micro * t->mesh.size.dp));
    TRY(stage_make(&t->stage, &r->shape, stages, stage, r->chunks));
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
    t->loader[kind].shape = trainer_loader_shape(t);                       /* of a dry run too, which opens no data */
    Status status = prefetch_open(&t->prefetch[kind], &(PrefetchSetup){ .loader = &t->loader[kind], .micro = micro, .count = count,
        .vocabulary = t->recipe->shape.vocabulary, .host = &t->arena[HOST] });
    free(micro);
    return status;
}

static Status open_prefetches(Trainer *t)
{
    for (int kind = 0; kind < SPLITS; kind++)
        if (recipe_takes(t->recipe, (SplitKind)kind)) TRY(open_prefetch(t, (SplitKind)kind));
    return OK;
}

static void open_parameters(Trainer *t)
{
    const Recipe *r = t->recipe;
    Arena *forever = &t->arena[FOREVER];
    buckets_open(&t->buckets, &(BucketsSetup){ .shape = &r->shape, .stage = &t->stage, .queue = &t->queue, .zero = r->zero,
        .learn = r->learn, .sequence = r->sequence && t->mesh.size.tp > 1, .data = t->data, .tp = t->tp, .tied = t->tied, .forever = forever,
        .gather = &t->arena[GATHER], .scratch = &t->arena[SCRATCH] });
    t->state = calloc((size_t)t->buckets.count, sizeof *t->state);
    CHECK(t->state, "no memory for the states of %d buckets", t->buckets.count);
    for (int i = 0; i < t->buckets.count; i++)
        for (int s = 0; r->learn && s < r->optimizer->states; s++)
            t->state[i][s] = tensor_new(forever, "optimizer states", t->queue.real, t->buckets.bucket[i].own_count);
    t->sums_3   = tensor_new(forever, "sums", F64, 3);
    t->sums_R3  = tensor_new(forever, "sums", F64, t->mesh.world, 3);
    t->report_4 = tensor_new(forever, "sums", F64, 4);
    t->flag_1   = tensor_new(forever, "sums", F64, 1);
    t->flag_R   = tensor_new(forever, "sums", F64, t->mesh.world);
    if (t->mesh.world == 1) {                     /* one rank's sums are all there are: nothing is gathered */
        t->sums_R3 = tensor_shape(t->sums_3, 1, 3);
        t->flag_R  = t->flag_1;
    }
}

static void open_walk(Trainer *t, const ArenaSizes *sizes)
{
    const Recipe *r = t->recipe;
    LoaderShape batch = trainer_loader_shape(t);
    int slots[CHUNKS_MAX];
    for (int c = 0; c < r->chunks; c++) slots[c] = t->train.slots[c] > t->valid.slots[c] ? t->train.slots[c] : t->valid.slots[c];
    Run run = { .shape = &r->shape, .queue = &t->queue, .cp = t->cp, .scratch = &t->arena[SCRATCH],
                .tp = { .comm = t->tp, .queue = &t->queue, .scratch = &t->arena[SCRATCH], .sequence = t->buckets.sequence } };
    walk_open(&t->walk, &(WalkSetup){ .stage = &t->stage, .buckets = &t->buckets, .run = run, .defer = r->schedule == SCHEDULE_ZB_H1,
        .slots = slots, .batch = &batch, .flight = &t->arena[FLIGHT], .host = &t->arena[HOST], .slot_bytes = sizes ? sizes->slot : NULL });
    int rows = t->train.rows > t->valid.rows ? t->train.rows : t->valid.rows;
    pipeline_open(&t->pipeline, &t->walk, t->pp, &t->arena[FLIGHT], rows);
}

Status trainer_open(Trainer *t, const Recipe *recipe, Transport *transport, const ArenaSizes *sizes)
{
    *t = (Trainer){ .recipe = recipe, .transport = transport, .tick = { .seed = recipe->seed } };
    TRY(mesh_make(&t->mesh, transport->size, transport->rank, recipe->tp, recipe->cp, recipe->pp));
    TRY(comm_world(&t->world, transport));
    TRY(agree(t->world, open_comms(t)));
    TRY(agree(t->world, open_queue(t)));
    bool later = recipe->feed.cache && transport->rank != 0;               /* the first rank fills the cache, the others map it */
    TRY(agree(t->world, later ? OK : open_data(t)));
    if (recipe->feed.cache) TRY(agree(t->world, later ? open_data(t) : OK));
    TRY(agree(t->world, open_schedules(t)));
    TRY(agree(t->world, open_arenas(t, sizes)));
    open_parameters(t);
    open_walk(t, sizes);
    return agree(t->world, open_prefetches(t));
}

void trainer_close(Trainer *t)
{
    for (int kind = 0; kind < SPLITS; kind++) prefetch_close(t->prefetch[kind]);
    if (t->pipeline.pending) pipeline_close(&t->pipeline);
    if (t->walk.stage) walk_close(&t->walk);
    if (t->buckets.bucket) buckets_close(&t->buckets);
    free(t->state);
    schedule_free(&t->train);
    schedule_free(&t->valid);
    for (int i = 0; i < ARENAS; i++) arena_close(&t->arena[i]);
    feed_close(&t->feed);
    queue_close(&t->queue);
    Comm *comms[] = { t->tied, t->pp, t->data, t->cp, t->tp, t->world };
    for (size_t i = 0; i < sizeof comms / sizeof *comms; i++)
        if (comms[i]) comm_close(comms[i]);
}

void trainer_init(Trainer *t)
{
    buckets_init(&t->buckets, t->recipe->seed);
    for (int i = 0; i < t->buckets.count; i++)
        for (int s = 0; t->recipe->learn && s < t->recipe->optimizer->states; s++) zero(&t->queue, (Zero){ .y = t->state[i][s] });
    queue_wait(&t->queue);
}

void trainer_count(Trainer *t, ArenaSizes *sizes)
{
    const Recipe *r = t->recipe;
    *sizes = (ArenaSizes){ .bytes = { 0 } };
    if (r->learn) trainer_step(t);
    if (r->eval_iters > 0 || !r->learn) trainer_evaluate(t, 1, NULL, NULL);
    for (int c = 0; c < r->chunks; c++) {
        sizes->slot[c] = walk_slot_bytes(&t->walk, c);
        for (int i = 0; i < t->walk.slots[c]; i++) arena_push(&t->arena[FLIGHT], "activations", sizes->slot[c]);
    }
    for (int i = 0; i < ARENAS; i++) sizes->bytes[i] = t->arena[i].peak;
}

Status trainer_measure(ArenaSizes *sizes, const Recipe *recipe, int rank, int world)
{
    Trainer t;
    Transport *transport = transport_dry_open(rank, world);
    Status status = trainer_open(&t, recipe, transport, NULL);
    if (status == OK) trainer_count(&t, sizes);
    trainer_close(&t);
    transport->close(transport);
    return status;
}

Status trainer_start(Trainer *t, const Recipe *recipe, Transport *transport)
{
    ArenaSizes sizes;
    *t = (Trainer){ 0 };
    place()->rank = transport->rank;
    TRY(trainer_measure(&sizes, recipe, transport->rank, transport->size));       /* same on every rank */
    return trainer_open(t, recipe, transport, &sizes);
}
