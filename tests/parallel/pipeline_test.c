/* Schedules run over real messages, with stages that compute something simple: every value arrives where it belongs,
 * in the order of the rows, on a transport that executes strictly in order, in random schedules and layouts; and with
 * stages that work for fixed times, whose idle time is that of the formulas. Times are those of a clock of each rank
 * that computations advance and messages carry on; JOTUN_FULL measures in seconds as well, which takes an idle machine,
 * and runs 1,000 schedules. */
#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include "base/random.h"
#include "comm/test_transports.h"
#include "parallel/pipeline.h"

enum { STAGES = 8 };

/* One run of one rank: what a stage computes, and what it has done. */
typedef struct {
    const ScheduleShape *shape;
    int     stage, micro;                      /* micro: of the next forward, by `fill` */
    HiddenShape hidden;
    Queue   queue;
    Arena   arena;
    Comm   *world;
    PipelineSlot *slot;                        /* [slots] */
    int    *chunk_of, *micro_of;               /* [slots] */
    ScheduleRow *done;                         /* computations in the order in which they were called */
    int     rows;
    Hidden  dx;                                /* of the last backward_input */
    double  clock, delay;                      /* logical: its time, and that of a message */
    bool    real;                              /* computations take real time, in seconds */
    double  work[STEP], worked;                /* time of a computation; of all of them so far */
} Stand;

/* ---- what a stage computes ---- */

/* Element i of the output of virtual stage v for micro-batch k, and of the gradient of its output: whole numbers, so
 * that every difference shows. v = -1: what the first virtual stage begins with. */
static double output_at(int v, int k, int64_t i) { return (double)(7 * k + i) + (v + 1) * (1000 + k) + v * (v + 1) / 2; }
static double gradient_at(int v, int k, int64_t i) { return (double)(11 * k + i) - 500.0 * v * v; }

static void expect_values(const Stand *s, const char *what, Hidden x, int v, int k, double (*value)(int, int, int64_t))
{
    for (int n = 0; n < x.n; n++)
        for (int64_t i = n == 0; i < tensor_count(x.t[n]); i++)
            CHECK(((double *)x.t[n].data)[i] == value(v, k, i) + n,
                  "stage %d, %s of virtual stage %d, micro-batch %d, tensor %d: element %lld is %g, not %g", s->stage, what,
                  v, k, n, (long long)i, ((double *)x.t[n].data)[i], value(v, k, i) + n);
}

/* The first element of a message is the time when it was written. */
static void stamp(const Stand *s, Hidden x) { if (x.n > 0) ((double *)x.t[0].data)[0] = s->clock; }
static void read_stamp(Stand *s, Hidden x, bool message)
{
    if (x.n > 0) s->clock = fmax(s->clock, ((double *)x.t[0].data)[0] + (message ? s->delay : 0));
}

static void write_values(Hidden x, int v, int k, double (*value)(int, int, int64_t))
{
    for (int n = 0; n < x.n; n++)
        for (int64_t i = 0; i < tensor_count(x.t[n]); i++) ((double *)x.t[n].data)[i] = value(v, k, i) + n;
}

static double now_seconds(void) { return 1e-9 * (double)seam.clock(); }

/* As long as the computation takes, with polls in between as the stage executor has them. */
static void work(Stand *s, ScheduleVerb verb)
{
    double begin = now_seconds(), end = begin + s->work[verb];
    s->clock += s->work[verb];
    if (!s->real) s->worked += s->work[verb];
    for (double left; s->real && (left = end - now_seconds()) > 0; ) {
        struct timespec rest = { 0, left > 3e-4 ? 200000 : (long)(left * 1e9) };
        comm_poll(s->world);
        nanosleep(&rest, NULL);
    }
    if (s->real) s->worked += now_seconds() - begin;
}

static void log_row(Stand *s, ScheduleVerb verb, int chunk, int slot)
{
    s->done[s->rows++] = (ScheduleRow){ verb, chunk, s->micro_of[slot], slot, -1, -1, -1 };
    work(s, verb);
}

static void stand_start(void *context, bool training) { (void)context; (void)training; }

static PipelineSlot stand_slot(void *context, int slot)
{
    Stand *s = context;
    return s->slot[slot];
}

static void stand_begin(void *context, int chunk, int slot)
{
    Stand *s = context;
    s->chunk_of[slot] = chunk;
    s->slot[slot].in.n = schedule_before(s->shape, s->stage, chunk) < 0 ? 0 : s->hidden.n;
}

static void stand_forward(void *context, int chunk, int slot)
{
    Stand *s = context;
    int v = schedule_virtual(s->shape, s->stage, chunk);
    s->micro_of[slot] = s->micro;
    CHECK(s->chunk_of[slot] == chunk, "stage %d: slot %d was begun for chunk %d", s->stage, slot, s->chunk_of[slot]);
    expect_values(s, "input", s->slot[slot].in, v - 1, s->micro, output_at);
    read_stamp(s, s->slot[slot].in, schedule_before(s->shape, s->stage, chunk) != s->stage);
    log_row(s, FORWARD, chunk, slot);
    write_values(s->slot[slot].out, v, s->micro, output_at);
    stamp(s, s->slot[slot].out);
}

static void stand_backward_input(void *context, int chunk, int slot, Hidden dx, Hidden dy)
{
    Stand *s = context;
    int v = schedule_virtual(s->shape, s->stage, chunk), k = s->micro_of[slot];
    expect_values(s, "kept input", s->slot[slot].in, v - 1, k, output_at);
    expect_values(s, "kept output", s->slot[slot].out, v, k, output_at);
    expect_values(s, "gradient", dy, v, k, gradient_at);
    CHECK((dy.n == 0) == (schedule_after(s->shape, s->stage, chunk) < 0), "stage %d: a gradient of %d tensors", s->stage, dy.n);
    read_stamp(s, dy, schedule_after(s->shape, s->stage, chunk) != s->stage);
    log_row(s, BACKWARD_INPUT, chunk, slot);
    write_values(dx, v - 1, k, gradient_at);
    stamp(s, dx);
    s->dx = dx;
}

static void stand_backward_weight(void *context, int chunk, int slot)
{
    Stand *s = context;
    int v = schedule_virtual(s->shape, s->stage, chunk);
    expect_values(s, "kept input", s->slot[slot].in, v - 1, s->micro_of[slot], output_at);
    log_row(s, BACKWARD_WEIGHT, chunk, slot);
    if (!schedule_defers(s->shape->kind)) stamp(s, s->dx);        /* it is sent after this */
}

static Hidden stand_gradient_new(void *context, int chunk, bool of_output, Arena *arena)
{
    Stand *s = context;
    (void)chunk;
    return hidden_make(arena, of_output ? "gradient in" : "gradient out", F64, &s->hidden);
}

static void stand_fill(void *context, Batch *batch, int micro)
{
    Stand *s = context;
    (void)batch;
    s->micro = micro;
}
static void stand_reduce(void *context, int chunk) { (void)context; (void)chunk; }
static void stand_step  (void *context) { (void)context; }

/* ---- a run ---- */

typedef struct {
    ScheduleShape shape;
    HiddenShape hidden;
    int    dp;
    MeshOrder order;
    bool   in_order;                           /* and not on the host's own transport */
    bool   real;
    double work[STEP], delay;                  /* of a message; 0: none */
    double last[2 * STAGES], worked[2 * STAGES];              /* by rank */
} Run;

static void stand_open(Stand *s, const Run *run, const Schedule *schedule)
{
    size_t slots = (size_t)schedule->slots;
    s->slot     = calloc(slots, sizeof *s->slot);
    s->chunk_of = calloc(slots, sizeof *s->chunk_of);
    s->micro_of = calloc(slots, sizeof *s->micro_of);
    s->done     = calloc((size_t)schedule->rows, sizeof *s->done);
    s->hidden   = run->hidden;
    s->real     = run->real;
    s->delay    = run->delay;
    memcpy(s->work, run->work, sizeof s->work);
    for (size_t i = 0; i < slots; i++) {
        s->slot[i].in  = hidden_make(&s->arena, "in", F64, &run->hidden);
        s->slot[i].out = hidden_make(&s->arena, "out", F64, &run->hidden);
    }
}

static void expect_rows(const Stand *s, const Schedule *schedule)
{
    int n = 0;
    for (int r = 0; r < schedule->rows; r++) {
        const ScheduleRow *row = &schedule->row[r];
        if (row->verb != FORWARD && row->verb != BACKWARD_INPUT && row->verb != BACKWARD_WEIGHT) continue;
        const ScheduleRow *done = &s->done[n++];
        CHECK(n <= s->rows && done->verb == row->verb && done->chunk == row->chunk && done->micro == row->micro &&
              done->slot == row->slot, "stage %d: row %d was not executed in its turn", s->stage, r);
    }
    CHECK(n == s->rows, "stage %d computed %d times, not %d", s->stage, s->rows, n);
}

static void run_schedule(Run *run, Comm *world, const Mesh *mesh)
{
    Stand s = { .shape = &run->shape, .stage = mesh->at.pp, .world = world };
    Channels channels;
    Schedule schedule;
    Pipeline pipeline;
    bool training = run->shape.kind != SCHEDULE_FORWARD;
    CHECK(queue_open(&s.queue, "ref", 1, NULL) == OK, "%s", fail_text());
    CHECK(arena_open(&s.arena, "activations", 1 << 22) == OK, "%s", fail_text());
    CHECK(schedule_make(&schedule, &run->shape, s.stage) == OK, "%s", fail_text());
    channels_open(&channels, world, mesh, &run->shape);
    stand_open(&s, run, &schedule);
    PipelineCompute compute = { .context = &s, .queue = &s.queue, .start = stand_start, .slot = stand_slot,
        .begin = stand_begin, .forward = stand_forward, .backward_input = stand_backward_input,
        .backward_weight = stand_backward_weight, .gradient_new = stand_gradient_new };
    pipeline_open(&pipeline, compute, &channels, training ? &run->shape : NULL, s.stage, &s.arena, schedule.rows);
    comm_barrier(world);
    double begin = now_seconds();
    pipeline_run(&pipeline, &schedule,
                 (PipelineCalls){ .context = &s, .fill = stand_fill, .reduce = stand_reduce, .step = stand_step });
    run->last[comm_rank(world)]    = run->real ? now_seconds() - begin : s.clock;
    run->worked[comm_rank(world)]  = s.worked;
    comm_barrier(world);
    expect_rows(&s, &schedule);
    pipeline_close(&pipeline);
    channels_close(&channels);
    schedule_free(&schedule);
    arena_close(&s.arena);
    queue_close(&s.queue);
    free(s.slot);
    free(s.chunk_of);
    free(s.micro_of);
    free(s.done);
}

static Status run_rank(Transport *transport, void *context)
{
    Run  *run = context;
    Mesh  mesh;
    Comm *world;
    prctl(PR_SET_TIMERSLACK, 1000UL);
    if (run->in_order || (run->real && run->delay > 0))
        transport->data = test_transport_open(transport, run->in_order, run->delay);
    world = comm_world(transport);
    TRY(mesh_make(&mesh, transport->size, transport->rank, (MeshShape){ 1, 1, run->shape.stages, .order = run->order }));
    run_schedule(run, world, &mesh);
    comm_close(world);
    if (transport->data) transport->data->close(transport->data);
    transport->data = NULL;
    return OK;
}

static void run_all(Run *run)
{
    if (transport_threads_run(run->shape.stages * run->dp, run_rank, run) != OK) fail_msg("%s", fail_text());
}

/* ---- in order ---- */

static uint64_t drawn(uint64_t *at, uint64_t below) { return random_bits(random_key(12, "pipelines"), (*at)++) % below; }

static Run draw(uint64_t *at)
{
    Run run = { .in_order = true };
    for (;;) {
        int p = 1 + (int)drawn(at, 5), m = 1 + (int)drawn(at, 12);
        ScheduleShape s = { .kind = (ScheduleKind)drawn(at, SCHEDULE_FORWARD + 1), .stages = p, .micros = m };
        s.v_shaped = s.kind == SCHEDULE_ZB_V || (s.kind == SCHEDULE_FORWARD && drawn(at, 2));
        s.chunks   = s.v_shaped ? 2 : s.kind >= SCHEDULE_INTERLEAVED ? 1 + (int)drawn(at, 4) : 1;
        if (s.kind == SCHEDULE_INTERLEAVED) s.group = drawn(at, 2) ? p + (int)drawn(at, 6) : 0;
        if (s.kind == SCHEDULE_1F1B) s.extra = (int)drawn(at, 3);
        s.blocking = drawn(at, 3) == 0;
        run.shape  = s;
        run.dp     = p <= 3 ? 1 + (int)drawn(at, 2) : 1;
        run.order  = drawn(at, 2) ? MESH_TP_DP_PP : MESH_TP_PP_DP;
        run.hidden = (HiddenShape){ .n = 1 + (int)drawn(at, 2),
            .rows    = { 1 + (int)drawn(at, 5), 1 + (int)drawn(at, 5) },
            .columns = { 1 + (int)drawn(at, 5), 1 + (int)drawn(at, 5) } };
        if (schedule_accepts(&s) == OK) return run;
    }
}

static void test_in_order(void **state)
{
    (void)state;
    uint64_t at = 0;
    int runs = getenv("JOTUN_FULL") ? 1000 : 300;
    for (int i = 0; i < runs; i++) {
        Run run = draw(&at);
        const ScheduleShape *s = &run.shape;
        printf("%d: %s, %d stages, %d chunks, %d micro-batches, group %d, extra %d, blocking %d, dp %d, order %d, %d tensors\n", i,
               schedule_name(s->kind), s->stages, s->chunks, s->micros, s->group, s->extra, s->blocking, run.dp, run.order,
               run.hidden.n);
        fflush(stdout);                        /* so that it is printed even if a rank stops the program */
        run_all(&run);
    }
    printf("%d schedules in order\n", runs);
}

/* ---- fixed times ---- */

/* Idle time of the stage that is idle longest. */
static double idle_of(Run *run)
{
    double last = 0, most = 0;
    run_all(run);
    for (int r = 0; r < run->shape.stages; r++) last = fmax(last, run->last[r]);
    for (int r = 0; r < run->shape.stages; r++) most = fmax(most, last - run->worked[r]);
    return most;
}

static Run timed(ScheduleKind kind, int p, int v, int m, double unit, double delay, bool real)
{
    Run run = { .shape = { .kind = kind, .stages = p, .chunks = v, .micros = m, .v_shaped = kind == SCHEDULE_ZB_V },
                .hidden = { 1, { 2 }, { 2 } }, .dp = 1, .delay = delay, .real = real };
    run.work[FORWARD] = run.work[BACKWARD_INPUT] = run.work[BACKWARD_WEIGHT] = unit / v;
    return run;
}

/* Idle time by the formula's. In seconds of several turns the best: other processes only add to it, and to longer
 * computations they add less. */
static double expect_idle(ScheduleKind kind, int v, double units, bool real)
{
    enum { P = 4, M = 8, TURNS = 16 };
    double best = HUGE_VAL, unit = 0;
    for (int turn = 0; turn < TURNS && best > 1.05; turn++) {
        unit = 0.012 * (1 + turn / 4);
        Run run = timed(kind, P, v, M, unit, 0, real);
        best = fmin(best, idle_of(&run) / (units * unit));
    }
    printf("%-12s idle %.3f times what the formula says%s\n", schedule_name(kind), best, real ? ", in seconds" : "");
    if (best < 0.95 || best > 1.05) fail_msg("%s: idle %g times what the formula says", schedule_name(kind), best);
    return best * units;
}

static void test_bubbles(void **state)
{
    (void)state;
    for (int real = 0; real < (getenv("JOTUN_FULL") ? 2 : 1); real++) {
        double gpipe = expect_idle(SCHEDULE_GPIPE, 1, 9, real), one = expect_idle(SCHEDULE_1F1B, 1, 9, real);
        double interleaved = expect_idle(SCHEDULE_INTERLEAVED, 2, 4.5, real);
        double h1 = expect_idle(SCHEDULE_ZB_H1, 1, 3, real), zb = expect_idle(SCHEDULE_ZB_V, 2, 1.5, real);
        assert_true(zb < h1 && h1 < interleaved && interleaved < one && interleaved < gpipe);
    }
}

/* Messages that take a quarter of a micro-batch's forward and backward: one extra micro-batch regains more than half of
 * what is lost without it. In seconds, where a blocking send takes its time too, of what is lost where each message waits
 * for computations, and computations for it. */
static void test_delay(void **state)
{
    (void)state;
    double unit = 0.004, delay = 0.75 * unit, best = -1;
    Run none = timed(SCHEDULE_1F1B, 4, 1, 16, unit, 0, false), late = none, extra = none;
    late.delay = extra.delay = delay;
    extra.shape.extra = 1;
    double a = idle_of(&none), b = idle_of(&late), c = idle_of(&extra);
    assert_float_equal(c, a + 2 * delay * 3, 1e-9);
    assert_true((b - c) / (b - a) > 0.5);
    for (int turn = 0; getenv("JOTUN_FULL") && turn < 5 && best < 0.5; turn++) {
        none.real = late.real = extra.real = late.shape.blocking = true;
        a = idle_of(&none), b = idle_of(&late), c = idle_of(&extra);
        best = fmax(best, (b - c) / (b - a));
        printf("idle %.1f ms without delay, %.1f with blocking messages, %.1f with an extra micro-batch: %.0f %% regained\n",
               1e3 * a, 1e3 * b, 1e3 * c, 100 * (b - c) / (b - a));
    }
    assert_true(best >= 0.5 || !getenv("JOTUN_FULL"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order), cmocka_unit_test(test_bubbles), cmocka_unit_test(test_delay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
