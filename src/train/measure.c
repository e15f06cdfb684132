/* The dry run of one rank: bytes of every arena, work of its operations and bytes that it sends. The
 * trainer's own code runs one step and one evaluation with arenas that only count, operations that compute
 * nothing and a transport that sends nothing. FLOPs per token, as progress lines and metrics state them, are
 * a formula: model_flops in model/model_config.c. */
#include <string.h>
#include "train/trainer.h"

enum { COMMS = TRAINER_COMMS + 1 };
typedef struct { OpCount op[OP_COUNT]; Sent sent[COMMS][SENT_VERBS]; } Counts;

/* Communicator i of the rank, NULL where it has no such one. */
static Comm *comm_at(const Trainer *t, int i)
{
    return i < t->comms ? t->comm[i] : i == TRAINER_COMMS ? t->world : NULL;
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

/* Adds `times` times the difference b - a to the counts of the queue and of all communicators. */
static void counts_extrapolate(Trainer *t, int64_t times, const Counts *b, const Counts *a)
{
    for (int op = 0; op < OP_COUNT; op++) {
        OpCount *count = &t->queue.count[op];
        count->calls += times * (b->op[op].calls - a->op[op].calls);
        count->flops += (double)times * (b->op[op].flops - a->op[op].flops);
        count->bytes += (double)times * (b->op[op].bytes - a->op[op].bytes);
    }
    for (int i = 0; i < COMMS; i++)
        for (SentVerb v = 0; comm_at(t, i) && v < SENT_VERBS; v++)
            comm_sent_add(comm_at(t, i), v, (Sent){ times * (b->sent[i][v].calls - a->sent[i][v].calls),
                                                    times * (b->sent[i][v].bytes - a->sent[i][v].bytes) });
}

/* The fewest micro-batches that a schedule takes. */
static int unit_of(ScheduleKind kind, int stages) { return kind == SCHEDULE_INTERLEAVED ? stages : 1; }

/* So many units of micro-batches are run as they are. */
enum { UNITS = 3 };

int trainer_dry_micros(ScheduleKind kind, int stages, int micros)
{
    int most = UNITS * unit_of(kind, stages);
    return micros < most ? micros : most;
}

static void step_run(Trainer *t)     { trainer_step(t); }
static void evaluate_run(Trainer *t) { trainer_evaluate(t, 1, NULL, NULL); }

/* Counts what run(t) does on a schedule of m micro-batches without running them all, so that the time of a
 * dry run does not depend on m. All micro-batches work and send alike, take slots of the same size and
 * release their scratch. So the counts are linear: f(m) = f(u) + (m - u) / u (f(2 u) - f(u)), where u is the
 * fewest micro-batches that the schedule takes. The schedules of u and 2 u are run, which counts f(u) + f(2
 * u); what is missing then is (m / u - 2) f(2 u) - (m / u - 1) f(u). */
static void count_schedule(Trainer *t, Schedule *schedule, void (*run)(Trainer *t))
{
    Schedule whole = *schedule;
    int unit = unit_of(whole.kind, whole.stages);
    int64_t units = t->micros / unit;
    Counts counts[3] = { counts_read(t) };
    if (units <= UNITS) { run(t); return; }
    for (int i = 1; i <= 2; i++) {
        Status made = schedule_make(schedule, whole.kind, whole.stages, whole.stage, whole.chunks, i * unit);
        CHECK(made == OK, "%s", fail_text());
        run(t);
        counts[i] = counts_read(t);
        schedule_free(schedule);
    }
    *schedule = whole;
    counts_extrapolate(t, units - 2, &counts[2], &counts[1]);
    counts_extrapolate(t, units - 1, &counts[0], &counts[1]);
}

/* The arena of activations has, besides what is pushed on it directly, all slots at the size of the fullest
 * one. */
static void sizes_read(Trainer *t, ArenaSizes *sizes)
{
    *sizes = (ArenaSizes){ .bytes = { 0 } };
    sizes->slot = stage_executor_slot_bytes(&t->executor);
    for (int i = 0; i < t->executor.slots; i++)
        arena_push(&t->arena[ARENA_ACTIVATIONS], "slots", sizes->slot);
    for (int i = 0; i < ARENAS; i++) sizes->bytes[i] = t->arena[i].peak;
}

void trainer_count(Trainer *t, ArenaSizes *sizes)
{
    const TrainConfig *config = t->config;
    if (config->training) count_schedule(t, &t->train_schedule, step_run);
    if (config->eval_iters > 0 || !config->training) count_schedule(t, &t->valid_schedule, evaluate_run);
    sizes_read(t, sizes);
}

Status trainer_measure_work(ArenaSizes *sizes, const TrainConfig *config, int rank, int world,
                            TrainerWork *work, void *context)
{
    Trainer t;
    Transport *transport = transport_dry_open(rank, world);
    Status status = trainer_open(&t, config, transport, NULL);
    if (status == OK && work) { work(&t, context); sizes_read(&t, sizes); }
    else if (status == OK) trainer_count(&t, sizes);
    trainer_close(&t);
    transport->close(transport);
    return status;
}

Status trainer_measure(ArenaSizes *sizes, const TrainConfig *config, int rank, int world)
{
    return trainer_measure_work(sizes, config, rank, world, NULL, NULL);
}
