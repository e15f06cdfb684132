/* The dry run of one rank: bytes of every arena, work of its operations and bytes that it sends. The
 * trainer's own code runs one step and one evaluation with arenas that only count, operations that compute
 * nothing and a transport that sends nothing. FLOPs per token, as progress lines and metrics state them, are
 * a formula: model_flops in model/model_config.c. */
#include <math.h>
#include <string.h>
#include "train/history/rank_numbers.h"
#include "train/measure.h"
#include "train/evaluation.h"
#include "train/step.h"
#include "train/trainer.h"

enum { COMMS = TRAINER_COMMS + 1 };
typedef struct { OpCount op[OP_COUNT]; Sent sent[COMMS][SENT_VERBS]; } Counts;

/* Communicator i of the rank, NULL where it has no such one. */
static Comm *comm_at(const Trainer *t, int i)
{
    return i < t->comms.count ? t->comms.all[i] : i == TRAINER_COMMS ? t->comms.world : NULL;
}

static Counts counts_read(const Trainer *t)
{
    Counts counts = { 0 };
    memcpy(counts.op, t->queue.count, sizeof counts.op);
    for (int i = 0; i < COMMS; i++)
        for (SentVerb v = 0; comm_at(t, i) && v < SENT_VERBS; v++)
            counts.sent[i][v] = comm_sent(comm_at(t, i), v);
    return counts;
}

/* One number of f(m), where f(a) and f(2 a) have been added to what it was before: f is linear. */
static int64_t extrapolate(int64_t m, int64_t a, int64_t one, int64_t two)
{
    return (m - a) * ((two - one) / a) - two;
}

/* The same of numbers that are whole as well, but large. */
static double extrapolate_large(int64_t m, int64_t a, double one, double two)
{
    return (double)(m - a) * ((two - one) / (double)a) - two;
}

/* Adds to the counts of the queue and of all communicators what f(m) is above f(a) + f(2 a); counts[0] to [2]
 * were read before, between and after these two. */
static void counts_extrapolate(Trainer *t, int64_t m, int64_t a, const Counts *counts)
{
    const Counts *begin = counts, *one = counts + 1, *two = counts + 2;
    for (int op = 0; op < OP_COUNT; op++) {
        OpCount *count = &t->queue.count[op];
        const OpCount *x = &begin->op[op], *y = &one->op[op], *z = &two->op[op];
        count->calls += extrapolate(m, a, y->calls - x->calls, z->calls - y->calls);
        count->flops += extrapolate_large(m, a, y->flops - x->flops, z->flops - y->flops);
        count->bytes += extrapolate_large(m, a, y->bytes - x->bytes, z->bytes - y->bytes);
    }
    for (int i = 0; i < COMMS; i++)
        for (SentVerb v = 0; comm_at(t, i) && v < SENT_VERBS; v++) {
            Sent x = begin->sent[i][v], y = one->sent[i][v], z = two->sent[i][v];
            comm_sent_add(comm_at(t, i), v,
                (Sent){ extrapolate(m, a, y.calls - x.calls, z.calls - y.calls),
                        extrapolate(m, a, y.bytes - x.bytes, z.bytes - y.bytes) });
        }
}

/* A number of micro-batches that a schedule takes, as does every multiple of it. */
static int unit_of(const ScheduleShape *shape)
{
    return shape->kind == SCHEDULE_INTERLEAVED ? shape->stages : 1;
}

/* So many units of micro-batches are run as they are. */
enum { UNITS = 3 };

/* Interleaved groups change the order and the number of slots, which open_executor takes from the whole
 * schedule; they change no counts. */
static ScheduleShape of_micros(const ScheduleShape *whole, int micros)
{
    ScheduleShape shape = *whole;
    shape.micros = micros;
    shape.group  = 0;
    return shape;
}

ScheduleShape trainer_dry_schedule(const ScheduleShape *whole)
{
    int most = UNITS * unit_of(whole);
    return whole->micros <= most ? *whole : of_micros(whole, most);
}

/* With what the loop sends after it. */
static void step_run(Trainer *t)
{
    LogRecord record = log_record(0, 0, NULL);
    trainer_step(t);
    rank_numbers_put(&record, t, (RankNumbers){ 0 });                             /* <-> tp, dp+cp, pp */
}

static void evaluate_run(Trainer *t) { trainer_evaluate(t, 1, NULL, NULL); }

/* Counts what run(t) does on a schedule of m micro-batches without running them all, so that the time of a
 * dry run does not depend on m. All micro-batches work and send alike, take slots of the same size and
 * release their scratch. So the counts are linear: f(m) = f(u) + (m - u) / u (f(2 u) - f(u)), where u is a
 * number of micro-batches that the schedule takes. The schedules of u and 2 u are run, which counts f(u) +
 * f(2 u). */
static void count_schedule(Trainer *t, Schedule *schedule, int micros, void (*run)(Trainer *t))
{
    Schedule whole = *schedule;
    int unit = unit_of(&whole.shape);
    Counts counts[3] = { counts_read(t) };
    if (micros <= UNITS * unit) { run(t); return; }
    for (int i = 1; i <= 2; i++) {
        ScheduleShape few = of_micros(&whole.shape, i * unit);
        CHECK(schedule_make(schedule, &few, whole.stage) == OK, "%s", fail_text());
        run(t);
        counts[i] = counts_read(t);
        schedule_free(schedule);
    }
    *schedule = whole;
    counts_extrapolate(t, micros, unit, counts);
}

static size_t slots_push(Arena *arena, const StageExecutor *executor, size_t slot)
{
    size_t before = arena_mark(arena);
    for (int i = 0; i < executor->slots; i++) arena_push(arena, "slots", slot);
    return arena_mark(arena) - before;
}

/* The arena of activations has, besides what is pushed on it directly, all slots at the size of the fullest
 * one. Those of an executor for evaluations lie where those of training do. */
static void sizes_read(Trainer *t, ArenaSizes *sizes)
{
    Arena *activations = &t->arena[ARENA_ACTIVATIONS];
    size_t train, valid;
    *sizes = (ArenaSizes){ .slot = stage_executor_slot_bytes(&t->train.executor) };
    sizes->slows = queue_slow(&t->queue, sizes->slow);
    if (trainer_evaluates_apart(t)) {
        Arena count;
        arena_dry(&count, "slots");
        sizes->valid_slot = stage_executor_slot_bytes(&t->valid.executor);
        train = slots_push(&count, &t->train.executor, sizes->slot);
        valid = slots_push(&count, &t->valid.executor, sizes->valid_slot);
        arena_close(&count);
        sizes->shared = train > valid ? train : valid;
        size_t before = arena_mark(activations);
        arena_push(activations, "slots", sizes->shared);
        sizes->slots = arena_mark(activations) - before;
    } else {
        sizes->slots = slots_push(activations, &t->train.executor, sizes->slot);
    }
    for (int i = 0; i < ARENAS; i++) sizes->bytes[i] = t->arena[i].peak;
}

/* x + share of what was added to it. */
static int64_t shared(int64_t x, int64_t y, double share) { return x + llround(share * (double)(y - x)); }

/* Of what work(t) adds to the counts a share is kept: 0 of what is memory and no part of the work of a
 * step. */
static void count_share(Trainer *t, double share, void (*work)(Trainer *t))
{
    Counts before = counts_read(t);
    work(t);
    Counts after = counts_read(t);
    for (int op = 0; op < OP_COUNT; op++) {
        OpCount x = before.op[op], y = after.op[op];
        t->queue.count[op].calls = shared(x.calls, y.calls, share);
        t->queue.count[op].flops = x.flops + share * (y.flops - x.flops);
        t->queue.count[op].bytes = x.bytes + share * (y.bytes - x.bytes);
    }
    for (int i = 0; i < COMMS; i++)
        for (SentVerb v = 0; comm_at(t, i) && v < SENT_VERBS; v++) {
            Sent x = before.sent[i][v], y = after.sent[i][v];
            comm_sent_add(comm_at(t, i), v, (Sent){ shared(x.calls, y.calls, share) - y.calls,
                                                    shared(x.bytes, y.bytes, share) - y.bytes });
        }
}

static void samples_make(Trainer *t)
{
    const Sampler *sampler = &t->config->sampler;
    sampler->make(sampler, t, NULL, NULL);
}

static void training_count(Trainer *t, void (*run)(Trainer *t))
{
    count_schedule(t, t->train.schedule, t->train.micros, run);
}
static void steps_count(Trainer *t)     { training_count(t, step_run); }
static void estimates_count(Trainer *t) { training_count(t, trainer_estimate); }

/* A step's work and messages are the mean ones, with the share of an estimate; where gradients stay on
 * their ranks after some updates of the run, they are those of such a step, and one before it is counted as
 * memory alone. */
static void count_training(Trainer *t)
{
    const TrainConfig *config = t->config;
    const OptimizerSettings *s = &config->settings;
    if (optimizer_compresses(config->optimizer)) {
        bool reached = trainer_compresses(t);
        t->step_state.updates = reached ? 0 : s->freeze;
        count_share(t, 0, steps_count);
        t->step_state.updates = reached ? s->freeze + 1 : 0;
    }
    steps_count(t);
    if (optimizer_estimates(config->optimizer))
        count_share(t, 1 / (double)s->estimate_interval, estimates_count);
}

/* The work of a trainer that its bits of Work name, NULL: all of it. */
static void count_work(Trainer *t, void *context)
{
    const TrainConfig *config = t->config;
    unsigned work = context ? *(const unsigned *)context : WORK_ALL;
    t->work = work;
    if (config->training && (work & WORK_STEP)) count_training(t);
    if ((work & WORK_EVALUATION) && (config->eval_iters > 0 || !config->training))
        count_schedule(t, &t->valid.schedule, t->valid.micros, evaluate_run);
    if ((work & WORK_SAMPLES) && config->training && config->sampler.interval > 0)
        count_share(t, 0, samples_make);
}

void trainer_count(Trainer *t, ArenaSizes *sizes)
{
    count_work(t, NULL);
    sizes_read(t, sizes);
}

/* Whether the operation is one of an optimizer's, whose rows are together in ops.def. */
static bool of_optimizer(const char *name)
{
    for (int op = OP_adamw; op <= OP_soap_direction; op++)
        if (!strcmp(op_name(op), name)) return true;
    return false;
}

Status trainer_computable(const Trainer *t)
{
    const char *lacks = queue_lacks(&t->queue);
    if (!lacks) return OK;
    if (t->config->model.experts > 0)
        return fail(BAD_OPTION, "mixtures of experts are not built for --device cuda (%s has no kernel); "
                    "give --device cpu", lacks);
    if (strncmp(lacks, "head_norm", 9) == 0)
        return fail(BAD_OPTION, "--qk-layernorm is not built for --device cuda (%s has no kernel); give "
                    "--device cpu", lacks);
    if (of_optimizer(lacks))
        return fail(BAD_OPTION, "--optimizer %s is not built for --device cuda (%s has no kernel); give "
                    "--device cpu or --optimizer adam", t->config->optimizer->name, lacks);
    return fail(BAD_OPTION, "--device cuda has no kernel for the operation %s, which this run needs; give "
                "--device cpu", lacks);
}

Status trainer_measure_work(ArenaSizes *sizes, const TrainConfig *config, int rank, int world,
                            TrainerWork *work, void *context)
{
    Trainer t;
    Transport *transport = transport_dry_open(rank, world);
    Status status = trainer_open(&t, config, transport, NULL);
    if (status == OK && work) { work(&t, context); sizes_read(&t, sizes); }
    else if (status == OK) trainer_count(&t, sizes);
    if (status == OK) status = trainer_computable(&t);
    trainer_close(&t);
    transport->close(transport);
    return status;
}

Status trainer_measure(ArenaSizes *sizes, const TrainConfig *config, int rank, int world)
{
    return trainer_measure_work(sizes, config, rank, world, NULL, NULL);
}

Status trainer_measure_done(ArenaSizes *sizes, const Trainer *t)
{
    unsigned done = t->work;
    Arena count;
    TRY(trainer_measure_work(sizes, t->config, t->mesh.rank, t->mesh.world, count_work, &done));
    arena_dry(&count, "slots");
    if (trainer_evaluates_apart(t)) arena_push(&count, "slots", t->valid.shared_slots.size);
    else if (t->train.executor.slots > 0) slots_push(&count, &t->train.executor,
                                                     t->train.executor.slot->activations.size);
    sizes->bytes[ARENA_ACTIVATIONS] += arena_mark(&count) - sizes->slots;
    arena_close(&count);
    return OK;
}
