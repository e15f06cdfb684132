/* Makes a schedule in two steps: first the order of the computations of a stage, which is what distinguishes
 * the kinds of schedules, then the rows, with messages and waits added. A receive is posted as early as free
 * slots, free buffers and the sender's order allow, so that messages overlap with computation. schedule_check
 * proves the result. */
#include "parallel/schedule.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MICROS_MAX = 1 << 22 };                 /* keeps the count of rows an int */

static int min_int(int a, int b) { return a < b ? a : b; }

const char *schedule_verb_name(ScheduleVerb verb)
{
    static const char *const names[] = { "RECV", "FORWARD", "SEND", "RECV_GRAD", "BACKWARD_INPUT",
                                         "BACKWARD_WEIGHT", "SEND_GRAD", "WAIT", "REDUCE", "STEP" };
    return (unsigned)verb <= STEP ? names[verb] : "no verb";
}

const char *schedule_name(ScheduleKind kind)
{
    static const char *const names[] = { "1f1b", "interleaved", "zb-h1", "forward" };
    return (unsigned)kind <= SCHEDULE_FORWARD ? names[kind] : "no schedule";
}

/* Warm-up: the number of forwards that a stage runs before its first backward. For interleaved schedules it
 * is Megatron-LM's. */
static int warm_up(ScheduleKind kind, int stages, int stage, int chunks)
{
    int below = stages - stage - 1;
    return kind == SCHEDULE_INTERLEAVED ? 2 * below + (chunks - 1) * stages : below;
}

int schedule_peak(ScheduleKind kind, int stages, int stage, int chunks, int micros)
{
    int all = micros * chunks;
    switch (kind) {
    case SCHEDULE_1F1B:        return min_int(all, stages - stage);
    case SCHEDULE_INTERLEAVED: return min_int(all, warm_up(kind, stages, stage, chunks) + 1);
    case SCHEDULE_ZB_H1:       return min_int(all, stages);
    case SCHEDULE_FORWARD:     break;
    }
    return min_int(2, stages == 1 ? chunks : all);       /* one slot computed or sent, one received */
}

/* ---- the order of the computations ---- */

/* FORWARD, BACKWARD_INPUT or BACKWARD_WEIGHT */
typedef struct { ScheduleVerb verb; int chunk, micro; } ComputeTask;
typedef struct { int tasks; ComputeTask *task; } ComputeOrder;

/* The n-th forward or backward of any stage. Micro-batches are processed in groups of p, each group through
 * all chunks, backward through the chunks in reverse. Only in evaluation the last group may be smaller: m
 * need not be a multiple of p there. */
static ComputeTask nth_task(const Schedule *s, ScheduleVerb verb, int n)
{
    int group = n / (s->stages * s->chunks), rest = n % (s->stages * s->chunks);
    int size  = min_int(s->stages, s->micros - group * s->stages);
    int chunk = rest / size;
    if (verb != FORWARD) chunk = s->chunks - 1 - chunk;
    return (ComputeTask){ verb, chunk, group * s->stages + rest % size };
}

static void order_add(ComputeOrder *order, const Schedule *s, ScheduleVerb verb, int n)
{
    if (n >= 0 && n < s->micros * s->chunks) order->task[order->tasks++] = nth_task(s, verb, n);
}

/* 1F1B of 4 stages and 8 micro-batches. A digit is the forward of that micro-batch, aA bB ... the backward of
 * micro-batch 0, 1 ..., first for the input, then for the weights; a dot is idle time.
 *
 *             warm-up    steady state               cool-down
 *   stage 0      012 | 3......aA4bB5cC6dD7eE    | .fF.gG.hH       warm-up: p - 1 - stage forwards
 *   stage 1      .01 | 2....aA3bB4cC5dD6eE7fF   | .gG.hH..        steady state: one forward, one backward
 *   stage 2      ..0 | 1..aA2bB3cC4dD5eE6fF7gG  | .hH....         cool-down: the backwards that are left
 *   stage 3      ... | 0aA1bB2cC3dD4eE5fF6gG7hH | ......
 *
 * So iteration n has forward n, backward_input n - warm and backward_weight n - warm - late, where these
 * exist: in the warm-up only the forward does, in the cool-down the forwards are used up. Interleaved has a
 * longer warm-up, through the chunks. ZB-H1 delays backward_weight by `late` iterations, and the delayed ones
 * fill the idle time of the cool-down. With one stage a micro-batch passes through all chunks, forward and
 * backward, before the next one. */
static Status order_make(ComputeOrder *order, const Schedule *s, int stage)
{
    int total = s->micros * s->chunks, stride = s->stages == 1 ? s->chunks : 1;
    int warm  = s->stages == 1 ? 0 : warm_up(s->kind, s->stages, stage, s->chunks);
    /* every stage has p slots in use, as stage 0 has */
    int late  = s->kind == SCHEDULE_ZB_H1 ? stage : 0;
    *order = (ComputeOrder){ .task = malloc(3 * (size_t)total * sizeof(ComputeTask)) };
    if (!order->task) return fail(NO_MEMORY, "no memory for the schedule of %d micro-batches", s->micros);
    for (int n = 0; n < total + warm + late; n += stride) {
        for (int j = 0; j < stride; j++) order_add(order, s, FORWARD, n + j);
        for (int j = 0; j < stride && s->kind != SCHEDULE_FORWARD; j++) {
            order_add(order, s, BACKWARD_INPUT, n - warm + j);
            order_add(order, s, BACKWARD_WEIGHT, n - warm - late + j);
        }
    }
    return OK;
}

/* ---- the rows ---- */

/* One (chunk, micro-batch) of this stage while the rows are made. */
typedef struct {
    int  slot, forward_index;                  /* its slot; its number among the forwards of this stage */
    int  recv, send, recv_grad, send_grad;     /* rows that posted its messages and have no WAIT yet, or -1 */
    bool backward;                             /* backward_input is done, so its receive buffer is free */
} MicroState;

/* What one neighbour sends to this stage, in the order in which it computes; tasks before `at` are dealt
 * with. */
typedef struct { int stage; ComputeOrder order; int at; } Neighbour;

typedef struct {
    Schedule *s;
    ComputeOrder order;
    MicroState *save;                          /* [chunk * micros + micro] */
    bool *taken;                               /* [peak] */
    Neighbour neighbour[2];
    int   peak, released;                      /* forward n may use a slot when n < released + peak */
    /* evaluation: the first forward whose SEND may have no WAIT yet */
    int   unsent;
} ScheduleBuilder;

static MicroState *micro_state(const ScheduleBuilder *b, int chunk, int micro)
{
    return &b->save[chunk * b->s->micros + micro];
}

static int  virtual_stage(const ScheduleBuilder *b, int chunk) { return chunk * b->s->stages + b->s->stage; }
static bool one_stage(const ScheduleBuilder *b) { return b->s->stages == 1; }

static bool is_last_virtual(const ScheduleBuilder *b, int chunk)
{
    return virtual_stage(b, chunk) + 1 == b->s->stages * b->s->chunks;
}

/* Whether the chunk's input comes from another rank, and whether its output is sent to one. */
static bool receives(const ScheduleBuilder *b, int chunk)
{
    return !one_stage(b) && virtual_stage(b, chunk) > 0;
}
static bool sends   (const ScheduleBuilder *b, int chunk)
{
    return !one_stage(b) && !is_last_virtual(b, chunk);
}

/* Appends a row and returns its number. */
static int emit(ScheduleBuilder *b, ScheduleRow row)
{
    b->s->row[b->s->rows] = row;
    return b->s->rows++;
}

static void emit_wait(ScheduleBuilder *b, int *posted)
{
    if (*posted < 0) return;
    ScheduleRow of = b->s->row[*posted];
    emit(b, (ScheduleRow){ WAIT, of.chunk, of.micro, -1, -1, -1, *posted });
    *posted = -1;
}

/* The lowest free slot, so that slot numbers, and with them memory, remain as few as possible. */
static int slot_take(ScheduleBuilder *b)
{
    bool *taken = b->taken;
    int slot = 0;
    while (slot < b->peak && taken[slot]) slot++;
    CHECK(slot < b->peak, "schedule %s: none of %d slots is free", schedule_name(b->s->kind), b->peak);
    taken[slot] = true;
    if (b->s->slots <= slot) b->s->slots = slot + 1;
    return slot;
}

static void slot_release(ScheduleBuilder *b, int chunk, int micro)
{
    b->taken[micro_state(b, chunk, micro)->slot] = false;
    b->released++;
}

/* The neighbour's next message to this stage, as the RECV or RECV_GRAD that matches it. Its other tasks are
 * skipped. */
static bool next_incoming(Neighbour *neighbour, const Schedule *s, ComputeTask *mine)
{
    for (; neighbour->at < neighbour->order.tasks; neighbour->at++) {
        ComputeTask sent = neighbour->order.task[neighbour->at];
        int there = sent.chunk * s->stages + neighbour->stage + (sent.verb == FORWARD ? 1 : -1);
        if (sent.verb == BACKWARD_WEIGHT || there < 0 || there >= s->stages * s->chunks) continue;
        if (there % s->stages != s->stage) continue;
        *mine = (ComputeTask){ sent.verb == FORWARD ? RECV : RECV_GRAD, there / s->stages, sent.micro };
        return true;
    }
    return false;
}

/* Whether the target of a receive is free: a slot, or the gradient buffer that micro-batch micro - 2 used
 * before. */
static bool receive_fits(const ScheduleBuilder *b, ComputeTask t)
{
    if (t.verb == RECV) return micro_state(b, t.chunk, t.micro)->forward_index < b->released + b->peak;
    return t.micro < 2 || micro_state(b, t.chunk, t.micro - 2)->backward;
}

/* Receives must be posted in the order in which the neighbour sends, so the first that does not fit blocks
 * all later ones. */
static void post_receives(ScheduleBuilder *b)
{
    for (int i = 0; i < 2; i++) {
        Neighbour *neighbour = &b->neighbour[i];
        for (ComputeTask t; next_incoming(neighbour, b->s, &t) && receive_fits(b, t); neighbour->at++) {
            MicroState *save = micro_state(b, t.chunk, t.micro);
            if (t.verb == RECV) {
                save->slot = slot_take(b);
                save->recv = emit(b,
                    (ScheduleRow){ RECV, t.chunk, t.micro, save->slot, neighbour->stage, -1, -1 });
            } else {
                int buffer = t.micro % 2;
                save->recv_grad = emit(b,
                    (ScheduleRow){ RECV_GRAD, t.chunk, t.micro, -1, neighbour->stage, buffer, -1 });
            }
        }
    }
}

/* Evaluation: no backward frees slots, but sends do. Waits for the oldest sends until this forward, and the
 * receive for the next one, have a slot. */
static void free_slots(ScheduleBuilder *b, int forward_index)
{
    bool ahead = forward_index + 1 < b->order.tasks && receives(b, b->order.task[forward_index + 1].chunk);
    for (; forward_index + ahead >= b->released + b->peak; b->unsent++) {
        ComputeTask t = b->order.task[b->unsent];
        MicroState *save = micro_state(b, t.chunk, t.micro);
        if (save->send < 0) continue;
        emit_wait(b, &save->send);
        slot_release(b, t.chunk, t.micro);
    }
}

static void emit_forward(ScheduleBuilder *b, ComputeTask t)
{
    Schedule *s = b->s;
    MicroState *save = micro_state(b, t.chunk, t.micro);
    CHECK(!receives(b, t.chunk) || save->recv >= 0,
        "schedule %s, stage %d: no RECV for chunk %d micro-batch %d",
        schedule_name(s->kind), s->stage, t.chunk, t.micro);
    if (receives(b, t.chunk)) emit_wait(b, &save->recv);
    else save->slot = slot_take(b);
    emit(b, (ScheduleRow){ FORWARD, t.chunk, t.micro, save->slot, -1, -1, -1 });
    if (sends(b, t.chunk))
        save->send = emit(b,
            (ScheduleRow){ SEND, t.chunk, t.micro, save->slot, (s->stage + 1) % s->stages, -1, -1 });
    if (s->kind != SCHEDULE_FORWARD) return;
    if (one_stage(b) && t.chunk > 0) slot_release(b, t.chunk - 1, t.micro);
    if (is_last_virtual(b, t.chunk)) slot_release(b, t.chunk, t.micro);
}

static void emit_backward_weight(ScheduleBuilder *b, ComputeTask t)
{
    int slot = micro_state(b, t.chunk, t.micro)->slot;
    emit(b, (ScheduleRow){ BACKWARD_WEIGHT, t.chunk, t.micro, slot, -1, -1, -1 });
    slot_release(b, t.chunk, t.micro);
}

/* fused: BACKWARD_WEIGHT follows at once, before the gradient is sent. */
static void emit_backward(ScheduleBuilder *b, ComputeTask t, bool fused)
{
    Schedule *s = b->s;
    MicroState *save = micro_state(b, t.chunk, t.micro);
    int prev = (s->stage + s->stages - 1) % s->stages, buffer = t.micro % 2;
    CHECK(!sends(b, t.chunk) || save->recv_grad >= 0,
          "schedule %s, stage %d: no RECV_GRAD for chunk %d micro-batch %d", schedule_name(s->kind), s->stage,
          t.chunk, t.micro);
    emit_wait(b, &save->recv_grad);
    /* costs nothing: the gradient arrived, so the receiver has the activations */
    emit_wait(b, &save->send);
    if (t.micro >= 2) emit_wait(b, &micro_state(b, t.chunk, t.micro - 2)->send_grad);
    emit(b, (ScheduleRow){ BACKWARD_INPUT, t.chunk, t.micro, save->slot, -1, buffer, -1 });
    save->backward = true;
    if (fused) emit_backward_weight(b, t);
    if (receives(b, t.chunk))
        save->send_grad = emit(b, (ScheduleRow){ SEND_GRAD, t.chunk, t.micro, -1, prev, buffer, -1 });
}

/* After the last task the messages that have no WAIT yet get theirs, then the optimizer's STEP. */
static void emit_rows(ScheduleBuilder *b)
{
    Schedule *s = b->s;
    for (int n = 0; n < b->order.tasks; n++) {
        ComputeTask t = b->order.task[n];
        if (s->kind == SCHEDULE_FORWARD) free_slots(b, n);
        post_receives(b);
        if (t.verb == FORWARD) {
            emit_forward(b, t);
            continue;
        }
        bool fused = s->kind != SCHEDULE_ZB_H1 || s->stage == 0;   /* the next task is its BACKWARD_WEIGHT */
        if (t.verb == BACKWARD_INPUT) emit_backward(b, t, fused);
        else emit_backward_weight(b, t);
        if (t.verb == BACKWARD_INPUT && fused) n++;
        if ((t.verb == BACKWARD_WEIGHT || fused) && t.micro == s->micros - 1)
            emit(b, (ScheduleRow){ REDUCE, t.chunk, -1, -1, -1, -1, -1 });
    }
    for (int n = 0; n < b->order.tasks; n++) {
        ComputeTask t = b->order.task[n];
        if (t.verb == FORWARD) emit_wait(b, &micro_state(b, t.chunk, t.micro)->send);
        else if (t.verb == BACKWARD_INPUT) emit_wait(b, &micro_state(b, t.chunk, t.micro)->send_grad);
    }
    if (s->kind != SCHEDULE_FORWARD) emit(b, (ScheduleRow){ STEP, -1, -1, -1, -1, -1, -1 });
}

/* ---- making one ---- */

static Status builder_open(ScheduleBuilder *b)
{
    Schedule *s = b->s;
    int total = s->micros * s->chunks;
    int prev = (s->stage + s->stages - 1) % s->stages, next = (s->stage + 1) % s->stages;
    b->peak  = schedule_peak(s->kind, s->stages, s->stage, s->chunks, s->micros);
    b->save  = malloc((size_t)total * sizeof *b->save);
    b->taken = calloc((size_t)b->peak, sizeof *b->taken);
    /* 11 per micro-batch and chunk; REDUCE; STEP */
    s->row   = malloc((11 * (size_t)total + CHUNKS_MAX + 1) * sizeof *s->row);
    if (!b->save || !b->taken || !s->row)
        return fail(NO_MEMORY, "no memory for the schedule of %d micro-batches", s->micros);
    TRY(order_make(&b->order, s, s->stage));
    b->neighbour[0].stage = prev;
    b->neighbour[1].stage = next;
    if (prev != s->stage) TRY(order_make(&b->neighbour[0].order, s, prev));
    if (next != prev) TRY(order_make(&b->neighbour[1].order, s, next));
    for (int n = 0; n < total; n++) {
        ComputeTask t = nth_task(s, FORWARD, n);
        *micro_state(b, t.chunk, t.micro) = (MicroState){ -1, n, -1, -1, -1, -1, false };
    }
    return OK;
}

static void builder_close(ScheduleBuilder *b)
{
    free(b->order.task);
    free(b->neighbour[0].order.task);
    free(b->neighbour[1].order.task);
    free(b->save);
    free(b->taken);
}

Status schedule_accepts(ScheduleKind kind, int stages, int stage, int chunks, int micros)
{
    const char *name = schedule_name(kind);
    if (stages < 1 || stage < 0 || stage >= stages)
        return fail(BAD_OPTION, "schedule %s: there is no stage %d of %d", name, stage, stages);
    if (micros < 1 || chunks < 1 || chunks > CHUNKS_MAX || micros > MICROS_MAX)
        return fail(BAD_OPTION, "schedule %s: %d micro-batches in %d chunks; 1 to %d in 1 to %d work", name,
                    micros, chunks, MICROS_MAX, CHUNKS_MAX);
    if (chunks > 1 && (kind == SCHEDULE_1F1B || kind == SCHEDULE_ZB_H1))
        return fail(BAD_OPTION, "schedule %s takes one chunk per stage, not %d; %s takes several", name,
                    chunks, schedule_name(SCHEDULE_INTERLEAVED));
    if (kind == SCHEDULE_INTERLEAVED && micros % stages != 0) {
        int good = micros < stages ? stages : micros / stages * stages;
        return fail(BAD_OPTION,
            "schedule %s: %d micro-batches are not a multiple of %d stages; %d or %d would work",
            name, micros, stages, good, good + stages);
    }
    return OK;
}

Status schedule_make(Schedule *schedule, ScheduleKind kind, int stages, int stage, int chunks, int micros)
{
    *schedule = (Schedule){ kind, stages, stage, chunks, micros, .row = NULL };
    TRY(schedule_accepts(kind, stages, stage, chunks, micros));
    ScheduleBuilder b = { .s = schedule };
    Status status = builder_open(&b);
    if (status == OK) emit_rows(&b);
    else schedule_free(schedule);
    builder_close(&b);
    return status;
}

void schedule_free(Schedule *schedule)
{
    free(schedule->row);
    schedule->row  = NULL;
    schedule->rows = 0;
}
