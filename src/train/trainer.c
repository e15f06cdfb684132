/* Opens and closes a rank: mesh and communicators, queue, data, schedules, arenas, parameters, stage
 * executor, prefetch. The same code serves the dry run, with no arena sizes, and the real one; everything it
 * allocates is pushed in the same order. */
#include "tensor/step_end.h"
#include "train/measure.h"
#include "train/step.h"
#include "train/step_sums.h"
#include "train/trainer.h"
#include "train/trainer_comms.h"
#include "train/trainer_fp8.h"
#include "train/trainer_moe.h"
#include "train/trainer_optimizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"

static const char *const arena_names[ARENAS] = {
    "persistent", "activations", "recomputed", "gathered", "scratch", "workspace", "samples",
    "host" };

BatchSchedule trainer_batches(const Trainer *t)
{
    return t->config->batch.steps > 0 ? t->config->batch : (BatchSchedule){ &t->run.constant, 1 };
}

int64_t trainer_samples_at_end(const Trainer *t)
{
    return t->run.step < t->run.steps ? batch_schedule_after(trainer_batches(t), t->run.samples,
                                                             t->run.steps - t->run.step)
                              : t->run.samples;
}

int64_t trainer_tokens(const Trainer *t, int64_t samples)
{
    const LengthSchedule *lengths = &t->config->lengths;
    return lengths->steps ? length_tokens(lengths, samples, t->config->global)
                          : samples * t->config->model.sequence;
}

void trainer_set_position(Trainer *t, int64_t step, int64_t samples)
{
    const TrainConfig *config = t->config;
    t->run.step    = step;
    t->run.samples = samples;
    t->run.steps   = config->samples > 0
               ? step + batch_schedule_steps(trainer_batches(t), samples, config->samples) : config->steps;
}

static Status open_arenas(Trainer *t, const ArenaSizes *sizes)
{
    for (int i = 0; i < ARENAS; i++) {
        const ArenaMemory *memory = i == ARENA_HOST ? t->queue.pinned : t->queue.memory;
        if (!sizes) arena_dry(&t->arena[i], arena_names[i]);
        else TRY(arena_open_on(&t->arena[i], arena_names[i], sizes->bytes[i], memory, t->queue.team));
    }
    return OK;
}

/* What a GPU has kernels for. */
static Status device_accepts(const Trainer *t)
{
    const Backend *b = t->queue.backend;
    const Precision *p = &t->precision;
    DtypeSet states = 1u << p->state[STATE_MOMENT] | 1u << p->state[STATE_SQUARE];
    if (strcmp(t->config->device, "cuda") != 0) return OK;
    if (p->fp8.recipe != FP8_NONE)
        return fail(BAD_OPTION, "--device cuda trains in fp32, or with --bf16 or --fp16; leave out "
                    "--fp8-format, or give --device cpu");
    if (states & ~b->state)
        return fail(BAD_OPTION, "--device cuda keeps the optimizer's states in fp32; leave out "
                    "--exp-avg-dtype and --exp-avg-sq-dtype, or give --device cpu");
    return OK;
}

/* A dry queue is that of the device's dry twin, whose tensors have the same types: "dry-cpu" counts what
 * "cpu" would compute. */
static Status open_queue(Trainer *t)
{
    char name[32];
    bool real = !comm_dry(t->comms.world), cuda = strcmp(t->config->device, "cuda") == 0;
    if (real && cuda) snprintf(name, sizeof name, "cuda:%d", trainer_device_number(t->transport));
    else              snprintf(name, sizeof name, "%s%s", real ? "" : "dry-", t->config->device);
    TRY(queue_open(&t->queue, name, t->config->threads, &t->step_state));
    if (t->queue.backend->device && comm_size(t->comms.world) > 1)
        t->queue.waiting = comm_waiting, t->queue.waiting_context = t->comms.world;
    if (t->queue.backend->device) TRY(queue_open(&t->comms.host_queue, real ? "cpu" : "dry-cpu", 1, NULL));
    t->queue.workspace = &t->arena[ARENA_WORKSPACE];
    t->precision = precision_make(t->queue.backend->compute, &t->config->precision);
    TRY(device_accepts(t));
    t->step_state.loss = (LossScale){ .scale = t->config->loss_scale,
                                      .hysteresis = t->config->scaling.hysteresis };
    return OK;
}

LoaderConfig trainer_loader_config(const Trainer *t)
{
    const TrainConfig *config = t->config;
    return (LoaderConfig){ .sequence = config->model.sequence, .micro = config->micro,
        .global = batch_schedule_largest(trainer_batches(t)), .dp = t->mesh.size.dp, .dp_rank = t->mesh.at.dp,
        .cp = t->mesh.size.cp, .cp_rank = t->mesh.at.cp, .ulysses = config->ulysses, .seed = config->seed,
        .reset_positions = config->reset_positions, .reset_attention = config->reset_attention,
        .mask_eod = config->mask_eod, .eod = config->eod, .loss_weight = t->precision.statistic,
        .ahead = config->training ? (int)config->model.mtp : 0, .ahead_factor = config->model.mtp_factor,
        .lengths = config->lengths };
}

LoaderConfig trainer_valid_loader_config(const Trainer *t)
{
    LoaderConfig config = trainer_loader_config(t);
    config.micro  = train_config_valid_micro(t->config);
    config.global = train_config_valid_global(t->config);
    config.lengths = (LengthSchedule){ .most = config.sequence };      /* evaluations have whole samples */
    return config;
}

bool trainer_evaluates_apart(const Trainer *t)
{
    return t->config->training && train_config_valid_micro(t->config) != t->config->micro;
}

static Status open_data(Trainer *t)
{
    const TrainConfig *config = t->config;
    if (comm_dry(t->comms.world) || !config->training) return OK;
    DatasetsPlan spec = train_config_datasets(config);
    watchdog_work(t->comms.world, "opening data");
    TokenReader reader = { config->tokenizer.name, config->tokenizer.fingerprint, config->model.vocabulary,
                           config->left_outs > 0 };
    Status status = datasets_open(&t->input.datasets, &spec);
    if (status == OK && t->mesh.rank == 0) status = datasets_suit(&t->input.datasets, &reader);
    for (int set = 0; status == OK && set < DATA_SETS; set++) {
        if (!train_config_takes(config, set)) continue;
        status = datasets_loader(&t->input.datasets, &t->input.loader[set], set, set == SPLIT_TRAIN ?
                                 trainer_loader_config(t) : trainer_valid_loader_config(t));
        bool whole = config->full_validation && set_split(set) == SPLIT_VALID;
        if (status == OK && whole) t->input.loader[set].end = loader_epoch(&t->input.loader[set]);
    }
    watchdog_work(t->comms.world, NULL);
    return status;
}

/* Ranks that read other samples, because their hosts have other files of the same names, would train without
 * any sign of it. */
static Status agree_on_data(Trainer *t)
{
    char *text = NULL;
    if (t->mesh.world == 1 || comm_dry(t->comms.world) || !t->config->training) return OK;
    watchdog_work(t->comms.world, "opening data");
    Status status = agree(t->comms.world, datasets_brief(&t->input.datasets, &text));
    if (status == OK) status = agree_on_text(t->comms.world, text, "give all hosts the same token files");
    watchdog_work(t->comms.world, NULL);
    free(text);
    return status;
}

static int micros_of(const Trainer *t, int64_t samples)
{
    return (int)(samples / (t->config->micro * t->mesh.size.dp));
}

/* The place of a step of so many micro-batches in TrainPass.schedule, and whether it is there. */
static int schedule_place_of(const Trainer *t, int micros, bool *there)
{
    int i = 0;
    while (i < t->train.schedules && t->train.schedule[i].shape.micros < micros) i++;
    *there = i < t->train.schedules && t->train.schedule[i].shape.micros == micros;
    return i;
}

Schedule *trainer_schedule(const Trainer *t)
{
    bool there;
    int i = schedule_place_of(t, micros_of(t, t->run.batch), &there);
    CHECK(there || comm_dry(t->comms.world), "no schedule for a step of %lld samples",
          (long long)t->run.batch);
    return &t->train.schedule[there ? i : 0];
}

/* The schedule of steps of one size, unless there is one. */
static Status add_schedule(Trainer *t, int64_t samples)
{
    bool there;
    int micros = micros_of(t, samples), at = schedule_place_of(t, micros, &there);
    ScheduleShape shape = train_config_schedule(t->config, micros);
    Schedule made;
    if (there) return OK;
    if (samples % (t->config->micro * t->mesh.size.dp) != 0)
        return fail(BAD_OPTION, "a step of %lld samples is no multiple of --micro-batch-size %lld x %d "
                    "data-parallel ranks", (long long)samples, (long long)t->config->micro, t->mesh.size.dp);
    Status status = schedule_accepts(&shape);
    if (status != OK && t->config->batch.steps > 1)
        return fail_prefix(status, "steps of %lld samples: ", (long long)samples);
    TRY(status);
    if (comm_dry(t->comms.world)) shape = trainer_dry_schedule(&shape);
    TRY(schedule_make(&made, &shape, t->mesh.at.pp));
    memmove(t->train.schedule + at + 1, t->train.schedule + at,
            (size_t)(t->train.schedules++ - at) * sizeof made);
    t->train.schedule[at] = made;
    return OK;
}

/* A dry run counts the largest step, which has the most of everything. */
static Status open_schedules(Trainer *t)
{
    const TrainConfig *config = t->config;
    BatchSchedule batches = trainer_batches(t);
    int64_t largest = batch_schedule_largest(batches);
    t->train.micros       = micros_of(t, largest);
    t->valid.micros = (int)(train_config_valid_global(config) /
                            (train_config_valid_micro(config) * t->mesh.size.dp));
    ScheduleShape shape = train_config_schedule(config, t->train.micros), forward;
    TRY(stage_make(&t->stage, &config->model, &config->layer_split, &shape, t->mesh.at.pp));
    t->train.schedule = calloc((size_t)batches.steps, sizeof *t->train.schedule);
    if (!t->train.schedule) return fail(NO_MEMORY, "no memory for %d schedules", batches.steps);
    if (config->training && comm_dry(t->comms.world)) TRY(add_schedule(t, largest));
    else for (int i = 0; config->training && i < batches.steps; i++)
        TRY(add_schedule(t, batches.step[i].size));
    shape = train_config_schedule(config, t->valid.micros);
    if (comm_dry(t->comms.world)) shape = trainer_dry_schedule(&shape);
    forward = (ScheduleShape){ .kind = SCHEDULE_FORWARD, .stages = shape.stages, .chunks = shape.chunks,
                               .micros = shape.micros, .v_shaped = shape.v_shaped };
    return schedule_make(&t->valid.schedule, &forward, t->mesh.at.pp);
}

/* A step takes batches in the order of its schedule's FORWARD rows: each takes one, which its slot keeps
 * until backward. */
static StepOrder step_order(const Trainer *t, const Schedule *s, int64_t size, int *micro)
{
    int count = 0;
    for (int i = 0; i < s->rows; i++)
        if (s->row[i].verb == FORWARD) micro[count++] = s->row[i].micro;
    return (StepOrder){ s->shape.micros * size * t->mesh.size.dp, micro, count };
}

static Status open_prefetch(Trainer *t, int set)
{
    bool train = set == SPLIT_TRAIN;
    const Schedule *s = train ? t->train.schedule : &t->valid.schedule;
    size_t schedules = train ? (size_t)t->train.schedules : 1, rows = 0;
    int at = 0;
    for (size_t k = 0; k < schedules; k++) rows += (size_t)s[k].rows;
    StepOrder *order = t->input.order[set] = malloc(schedules * sizeof *order + rows * sizeof(int));
    if (!order) return fail(NO_MEMORY, "no memory for %zu rows", rows);
    /* a dry run has opened no loader */
    t->input.loader[set].config = train ? trainer_loader_config(t) : trainer_valid_loader_config(t);
    for (size_t k = 0; k < schedules; at += order[k++].count)
        order[k] = step_order(t, &s[k], t->input.loader[set].config.micro, (int *)(order + schedules) + at);
    return prefetch_open(&t->input.prefetch[set], &(PrefetchSetup){ .loader = &t->input.loader[set],
              .batch = train ? trainer_batches(t) : (BatchSchedule){ &t->valid.batch, 1 },
              .order = order, .orders = (int)schedules,
              .vocabulary = t->config->model.vocabulary, .host = &t->arena[ARENA_HOST] });
}

static Status open_prefetches(Trainer *t)
{
    for (int set = 0; set < DATA_SETS; set++)
        if (train_config_takes(t->config, set)) TRY(open_prefetch(t, set));
    return OK;
}

static bool sequence_parallel(const Trainer *t)
{
    return t->config->sequence_parallel && t->mesh.size.tp > 1;
}

/* What sums over all ranks take while they run: apart from scratch, since they also follow work that no dry
 * run repeats. */
static void world_window_open(Trainer *t, Arena *persistent)
{
    size_t bytes = trainer_world_window(t);
    if (persistent->dry) arena_push(persistent, "sums of the step", bytes);
    arena_open_within(&t->comms.window, "sums of the step", persistent, "sums of the step", bytes);
    if (!t->queue.backend->device) return;
    Arena *host = &t->arena[ARENA_HOST];
    if (host->dry) arena_push(host, "numbers of all ranks", bytes);
    arena_open_within(&t->comms.host_window, "numbers of all ranks", host, "numbers of all ranks", bytes);
}

static void sums_new(Trainer *t, Arena *persistent)
{
    const TrainConfig *config = t->config;
    int64_t all = trainer_joined_sums(config) + (config->training && config->params_norm);
    t->sums.all    = tensor_new(persistent, "sums of the step", F64, 2 * all + 4);
    t->sums.own_S = tensor_flat(t->sums.all, 0, all);
    t->sums.total_S     = tensor_flat(t->sums.all, all, all);
    t->sums.report_4   = tensor_flat(t->sums.all, 2 * all, 4);
    t->sums.on_host    = t->sums.all;
    if (t->queue.backend->device)
        t->sums.on_host = tensor_new(&t->arena[ARENA_HOST], "sums of the step", F64, 2 * all + 4);
    world_window_open(t, persistent);
}

/* Weights, gradients and optimizer states, and the few sums that a step exchanges. */
static void open_parameters(Trainer *t)
{
    const TrainConfig *config = t->config;
    Arena *persistent = &t->arena[ARENA_PERSISTENT];
    ParamRanks ranks = { t->mesh.size, t->mesh.at, sequence_parallel(t) };
    buckets_open(&t->buckets, &(BucketsSetup){ .config = &config->model, .stage = &t->stage,
        .precision = t->precision,
        .queue = &t->queue, .zero_stage = config->zero, .training = config->training,
        .overlap = !config->no_overlap, .ranks = &ranks,
        .granule = optimizer_granule(config->optimizer), .averages = optimizer_averages(config->optimizer),
        .window = config->message_window,
        .data = { t->comms.data[PARAMS_DENSE], t->comms.data[PARAMS_EXPERTS] },
        .tp = t->comms.tp, .kv = t->comms.kv, .tied = t->comms.tied, .persistent = persistent,
        .gathered = &t->arena[ARENA_GATHERED], .scratch = &t->arena[ARENA_SCRATCH] });
    trainer_optimizer_open(t);
    trainer_fp8_open(t);
    trainer_moe_open(t);
    sums_new(t, persistent);
    if (config->test_copies && config->training) weight_copies_open(&t->copies, &t->buckets, persistent,
                                                                  &t->arena[ARENA_HOST]);
}

/* Slots that a schedule needs with so many micro-batches. */
static int slots_of(const Trainer *t, const Schedule *s, int micros)
{
    ScheduleShape whole = s->shape;
    whole.micros = micros;
    whole.group  = t->config->micro_group;
    return schedule_peak(&whole, s->stage);
}

/* What executors of training and evaluation have in common. */
static StageExecutorSetup executor_setup(Trainer *t, const LoaderConfig *batch, int slots, size_t slot_bytes)
{
    const TrainConfig *config = t->config;
    bool device = t->queue.backend->device;
    ExecContext ctx = { .config = &config->model, .precision = t->precision, .queue = &t->queue,
        .cp = trainer_context(t),
        .fp8 = t->comms.fp8 ? &t->fp8 : NULL, .moe = config->model.experts > 0 ? &t->moe : NULL,
        .head_chunk = config->head_chunk, .scratch = &t->arena[ARENA_SCRATCH],
        .draws = config->training && optimizer_estimates(config->optimizer),
        .tp = { .comm = t->comms.tp, .queue = &t->queue, .scratch = &t->arena[ARENA_SCRATCH],
                .sequence_parallel = sequence_parallel(t) } };
    return (StageExecutorSetup){ .stage = &t->stage, .buckets = &t->buckets, .ctx = ctx, .slots = slots,
        .batch = batch, .recompute = config->recompute, .activations = &t->arena[ARENA_ACTIVATIONS],
        .recomputed = &t->arena[ARENA_RECOMPUTED],
        .batches = &t->arena[device ? ARENA_PERSISTENT : ARENA_HOST], .slot_bytes = slot_bytes };
}

/* Evaluations with micro-batches of another size: an executor of their own. Its slots and those of training
 * are never in use at the same time, so that they lie in the same memory; the gradients of the training
 * pipeline lie behind it. */
static void open_evaluation(Trainer *t, StageExecutorSetup *training, int slots, const ArenaSizes *sizes)
{
    LoaderConfig batch = trainer_valid_loader_config(t);
    StageExecutorSetup setup = executor_setup(t, &batch, slots, sizes ? sizes->valid_slot : 0);
    arena_open_within(&t->valid.shared_slots, "slots", &t->arena[ARENA_ACTIVATIONS], "slots",
                      sizes ? sizes->shared : 0);
    training->activations = setup.activations = &t->valid.shared_slots;
    setup.forward_alone = true;
    stage_executor_open(&t->valid.executor, &setup);
    pipeline_open(&t->valid.pipeline, pipeline_compute_units(&t->valid.executor), &t->comms.channels, NULL,
                  t->stage.stage, &t->arena[ARENA_ACTIVATIONS], t->valid.schedule.rows);
    arena_reset(&t->valid.shared_slots, 0);
}

/* Training and evaluation share the slots: there are as many as the schedule needs that needs more. */
static void open_executor(Trainer *t, const ArenaSizes *sizes)
{
    const TrainConfig *config = t->config;
    LoaderConfig batch = trainer_loader_config(t), valid_batch = trainer_valid_loader_config(t);
    const Schedule *train = t->train.schedules > 0 ? &t->train.schedule[t->train.schedules - 1] : NULL;
    const Schedule *valid = &t->valid.schedule;
    bool apart = trainer_evaluates_apart(t);
    int slots = train ? slots_of(t, train, t->train.micros) : 0, in_valid =
        slots_of(t, valid, t->valid.micros);
    if (!apart && in_valid > slots) slots = in_valid;
    if (t->queue.backend->device) t->input.host_batch.batch =
        loader_batch_new(&valid_batch, &t->arena[ARENA_HOST]);
    StageExecutorSetup setup = executor_setup(t, &batch, slots, sizes ? sizes->slot : 0);
    setup.defer = config->training && schedule_defers(config->schedule);
    if (apart) open_evaluation(t, &setup, in_valid, sizes);
    stage_executor_open(&t->train.executor, &setup);
    int rows = train && train->rows > valid->rows ? train->rows : valid->rows;
    ScheduleShape shape = train_config_schedule(config, t->train.micros);
    pipeline_open(&t->train.pipeline, pipeline_compute_units(&t->train.executor), &t->comms.channels,
        config->training ? &shape : NULL, t->stage.stage, &t->arena[ARENA_ACTIVATIONS], rows);
}

Status trainer_open(Trainer *t, const TrainConfig *config, Transport *transport, const ArenaSizes *sizes)
{
    *t = (Trainer){ .config = config, .transport = transport, .step_state = { .seed = config->seed },
        .run.constant = { 0, config->global }, .valid.batch = { 0, train_config_valid_global(config) },
        .work = sizes ? 0 : WORK_ALL };
    trainer_set_position(t, 0, 0);
    TRY(mesh_make(&t->mesh, transport->size, transport->rank, train_config_mesh(config)));
    int sum_group = config->sum_group > 0 ? config->sum_group : COMM_SUM_GROUP;
    TRY(trainer_data_open(t, transport));                      /* same on every rank */
    t->comms.world = comm_world_sums(transport, sum_group);
    /* before anything that may take long on one rank */
    TRY(watchdog_open(&t->watchdog, t->comms.world, config->watchdog));
    TRY(agree(t->comms.world, trainer_comms_open(t)));
    TRY(agree(t->comms.world, open_queue(t)));
    if (!config->no_overlap && t->queue.team) team_poll_hook(t->queue.team, comm_poll_within, t->comms.world);
    TRY(trainer_choose_kernels(t));                           /* same on every rank */
    /* The first rank writes the cache of sample orders; the others map it after the agreement. */
    bool later = config->datasets.cache && transport->rank != 0;
    TRY(agree(t->comms.world, later ? OK : open_data(t)));
    if (config->datasets.cache) TRY(agree(t->comms.world, later ? open_data(t) : OK));
    TRY(agree_on_data(t));
    TRY(agree(t->comms.world, open_schedules(t)));
    TRY(agree(t->comms.world, open_arenas(t, sizes)));
    open_parameters(t);
    open_executor(t, sizes);
    return agree(t->comms.world, open_prefetches(t));
}

/* Also after a failed trainer_open: what was not opened is zero. */
void trainer_close(Trainer *t)
{
    for (int set = 0; set < DATA_SETS; set++) {
        prefetch_close(t->input.prefetch[set]);
        free(t->input.order[set]);
    }
    if (t->train.pipeline.pending) pipeline_close(&t->train.pipeline);
    if (t->train.executor.stage) stage_executor_close(&t->train.executor);
    if (t->valid.pipeline.pending) pipeline_close(&t->valid.pipeline);
    if (t->valid.executor.stage) stage_executor_close(&t->valid.executor);
    arena_close(&t->valid.shared_slots);
    arena_close(&t->comms.window);
    arena_close(&t->comms.host_window);
    if (t->buckets.bucket) {
        buckets_gathered(&t->buckets);                        /* <-> shard: of the last step */
        buckets_close(&t->buckets);
    }
    trainer_optimizer_close(t);
    free(t->fp8.row);
    trainer_moe_close(t);
    for (int i = 0; i < t->train.schedules; i++) schedule_free(&t->train.schedule[i]);
    free(t->train.schedule);
    schedule_free(&t->valid.schedule);
    for (int i = 0; i < ARENAS; i++) arena_close(&t->arena[i]);
    host_batch_close(&t->input.host_batch);
    datasets_close(&t->input.datasets);
    trainer_comms_close(t);
    if (t->comms.host_queue.backend) queue_close(&t->comms.host_queue);
    queue_close(&t->queue);
    free(t->own_config);
}

static void init_states(Trainer *t)
{
    trainer_optimizer_init(t);
    trainer_fp8_init(t);
    trainer_moe_init(t);
    queue_wait(&t->queue);
}

void trainer_init(Trainer *t)
{
    buckets_init(&t->buckets, t->config->seed);
    init_states(t);
}

void trainer_init_to_load(Trainer *t)
{
    buckets_zero_weights(&t->buckets);
    init_states(t);
}

/* The memory of a run depends on what carries its messages, so that is known before it is measured. */
static Status start_with(Trainer *t, const TrainConfig *config, Transport *transport, TrainerWork *work,
                         void *context)
{
    ArenaSizes sizes;
    int rank = transport->rank, ranks = transport->size;
    TRY(agree_at_start(transport, trainer_measure_work(&sizes, config, rank, ranks, work, context)));
    for (int i = 0; rank == 0 && i < sizes.slows; i++)
        log_line("%s: slow, since %s", sizes.slow[i].ops, sizes.slow[i].why);
    return trainer_open(t, config, transport, &sizes);
}

Status trainer_start_work(Trainer *t, const TrainConfig *config, Transport *transport, TrainerWork *work,
                          void *context)
{
    DeviceTransport chosen;
    *t = (Trainer){ 0 };
    thread_context()->rank = transport->rank;
    TRY(trainer_choose_transport(&chosen, config, transport));     /* same on every rank */
    if (chosen == config->device_transport) return start_with(t, config, transport, work, context);
    TrainConfig *own = malloc(sizeof *own);
    CHECK(own, "no memory for a configuration");
    *own = *config;
    own->device_transport = chosen;
    Status status = start_with(t, own, transport, work, context);
    t->own_config = own;
    return status;
}

Status trainer_start(Trainer *t, const TrainConfig *config, Transport *transport)
{
    return trainer_start_work(t, config, transport, NULL, NULL);
}
