/* Makes a schedule in two steps. First the order of computing, which is all that a schedule's name says; then
 * the messages, each receive posted as early as slots, buffers and the sender's order allow. */
#include "parallel/schedule.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MICROS_MAX = 1 << 22 };                 /* keeps the count of rows an int */

static int least(int a, int b) { return a < b ? a : b; }

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

/* Forwards that stage i is ahead of its backwards. */
static int warm_up(ScheduleKind kind, int stages, int stage, int chunks)
{
    int below = stages - stage - 1;
    return kind == SCHEDULE_INTERLEAVED ? 2 * below + (chunks - 1) * stages : below;
}

int schedule_peak(ScheduleKind kind, int stages, int stage, int chunks, int micros)
{
    int all = micros * chunks;
    switch (kind) {
    case SCHEDULE_1F1B:        return least(all, stages - stage);
    case SCHEDULE_INTERLEAVED: return least(all, warm_up(kind, stages, stage, chunks) + 1);
    case SCHEDULE_ZB_H1:       return least(all, stages);
    case SCHEDULE_FORWARD:     break;
    }
    return least(2, stages == 1 ? chunks : all);       /* one computed or sent, one received */
}

/* ---- the order of computing ---- */

typedef struct { ScheduleVerb verb; int chunk, micro; } Task;      /* FORWARD, BACKWARD_INPUT or BACKWARD_WEIGHT */
typedef struct { int tasks; Task *task; } Order;

/* The n-th forward or backward of any stage: micro-batches go in groups of p, each group through all chunks;
 * backward the chunks in reverse. Only evaluation has a last group of fewer. */
static Task nth(const Schedule *s, ScheduleVerb verb, int n)
{
    int group = n / (s->stages * s->chunks), rest = n % (s->stages * s->chunks);
    int size  = least(s->stages, s->micros - group * s->stages);
    int chunk = rest / size;
    return (Task){ verb, verb == FORWARD ? chunk : s->chunks - 1 - chunk, group * s->stages + rest % size };
}

static void order_add(Order *order, const Schedule *s, ScheduleVerb verb, int n)
{
    if (n >= 0 && n < s->micros * s->chunks) order->task[order->tasks++] = nth(s, verb, n);
}

/* 1F1B of 4 stages and 8 micro-batches. A digit is the forward of that micro-batch, aA bB ... the backward of micro-batch 0, 1 ...,
 * first for the input, then for the weights; a dot is idle time.
 *
 *             warm-up    steady state               cool-down
 *   stage 0      012 | 3......aA4bB5cC6dD7eE    | .fF.gG.hH       warm-up: p - 1 - stage forwards
 *   stage 1      .01 | 2....aA3bB4cC5dD6eE7fF   | .gG.hH..        steady state: one forward, one backward
 *   stage 2      ..0 | 1..aA2bB3cC4dD5eE6fF7gG  | .hH....         cool-down: the backwards that are left
 *   stage 3      ... | 0aA1bB2cC3dD4eE5fF6gG7hH | ......
 *
 * So at turn n: forward n, input backward n - warm, weight backward n - warm - late, each where there is one of that number. During
 * warm-up only the first exists, during cool-down the forwards have run out. Interleaved has a longer warm-up, through the chunks;
 * ZB-H1 delays weight backwards by `late` turns, which then fill the cool-down's idle time. On one stage a micro-batch
 * goes through all chunks and back before the next. */
static Status order_make(Order *order, const Schedule *s, int stage)
{
    int total = s->micros * s->chunks, stride = s->stages == 1 ? s->chunks : 1;
    int warm  = s->stages == 1 ? 0 : warm_up(s->kind, s->stages, stage, s->chunks);
    int late  = s->kind == SCHEDULE_ZB_H1 ? stage : 0;     /* p saves alive on each stage, as on stage 0 */
    *order = (Order){ .task = malloc(3 * (size_t)total * sizeof(Task)) };
    if (!order->task) return fail(NO_MEMORY, "the schedule of %d micro-batches finds no memory", s->micros);
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

typedef struct {                               /* one (chunk, micro-batch) of this stage */
    int  slot, turn;                           /* turn: it is this stage's turn-th forward */
    int  recv, send, recv_grad, send_grad;     /* rows posted and not yet waited for, or -1 */
    bool backward;                             /* its receive buffer is free again */
} Save;

typedef struct { int stage; Order order; int at; } Inbox;  /* what one neighbour sends, in its order */

typedef struct {
    Schedule *s;
    Order order;
    Save *save;                                /* [chunk * micros + micro] */
    bool *taken;                               /* [chunk * peak + slot] */
    Inbox inbox[2];
    int   peak, released;                      /* forward n may take a slot when n < released + peak */
    int   unsent;                              /* evaluation: the first forward that may have to be waited for */
} Build;

static Save *save_of(const Build *b, int chunk, int micro) { return &b->save[chunk * b->s->micros + micro]; }
static int   virtual_stage(const Build *b, int chunk) { return chunk * b->s->stages + b->s->stage; }
static bool  alone(const Build *b) { return b->s->stages == 1; }
static bool  last (const Build *b, int chunk) { return virtual_stage(b, chunk) + 1 == b->s->stages * b->s->chunks; }
static bool  takes(const Build *b, int chunk) { return !alone(b) && virtual_stage(b, chunk) > 0; }   /* a message */
static bool  gives(const Build *b, int chunk) { return !alone(b) && !last(b, chunk); }

static int emit(Build *b, ScheduleRow row)
{
    b->s->row[b->s->rows] = row;
    return b->s->rows++;
}

static void emit_wait(Build *b, int *posted)
{
    if (*posted < 0) return;
    ScheduleRow of = b->s->row[*posted];
    emit(b, (ScheduleRow){ WAIT, of.chunk, of.micro, -1, *posted, -1 });
    *posted = -1;
}

static int slot_take(Build *b, int chunk)
{
    bool *taken = b->taken + chunk * b->peak;
    int slot = 0;
    while (slot < b->peak && taken[slot]) slot++;
    CHECK(slot < b->peak, "schedule %s: chunk %d has no free slot", schedule_name(b->s->kind), chunk);
    taken[slot] = true;
    if (b->s->slots[chunk] <= slot) b->s->slots[chunk] = slot + 1;
    return slot;
}

static void slot_release(Build *b, int chunk, int micro)
{
    b->taken[chunk * b->peak + save_of(b, chunk, micro)->slot] = false;
    b->released++;
}

/* The next message of this neighbour to us, as the RECV or RECV_GRAD it asks for. */
static bool inbox_head(Inbox *inbox, const Schedule *s, Task *mine)
{
    for (; inbox->at < inbox->order.tasks; inbox->at++) {
        Task sent = inbox->order.task[inbox->at];
        int there = sent.chunk * s->stages + inbox->stage + (sent.verb == FORWARD ? 1 : -1);
        if (sent.verb == BACKWARD_WEIGHT || there < 0 || there >= s->stages * s->chunks) continue;
        if (there % s->stages != s->stage) continue;
        *mine = (Task){ sent.verb == FORWARD ? RECV : RECV_GRAD, there / s->stages, sent.micro };
        return true;
    }
    return false;
}

static bool receive_fits(const Build *b, Task t)
{
    if (t.verb == RECV) return save_of(b, t.chunk, t.micro)->turn < b->released + b->peak;
    return t.micro < 2 || save_of(b, t.chunk, t.micro - 2)->backward;
}

static void post_receives(Build *b)
{
    for (int i = 0; i < 2; i++) {
        Inbox *inbox = &b->inbox[i];
        for (Task t; inbox_head(inbox, b->s, &t) && receive_fits(b, t); inbox->at++) {
            Save *save = save_of(b, t.chunk, t.micro);
            if (t.verb == RECV) {
                save->slot = slot_take(b, t.chunk);
                save->recv = emit(b, (ScheduleRow){ RECV, t.chunk, t.micro, save->slot, inbox->stage, -1 });
            } else {
                int buffer = t.micro % 2;
                save->recv_grad = emit(b, (ScheduleRow){ RECV_GRAD, t.chunk, t.micro, -1, inbox->stage, buffer });
            }
        }
    }
}

/* Evaluation: waits for the oldest sends until this forward, and the receive beside it, have a slot. */
static void make_room(Build *b, int turn)
{
    bool ahead = turn + 1 < b->order.tasks && takes(b, b->order.task[turn + 1].chunk);
    for (; turn + ahead >= b->released + b->peak; b->unsent++) {
        Task t = b->order.task[b->unsent];
        Save *save = save_of(b, t.chunk, t.micro);
        if (save->send < 0) continue;
        emit_wait(b, &save->send);
        slot_release(b, t.chunk, t.micro);
    }
}

static void emit_forward(Build *b, Task t)
{
    Schedule *s = b->s;
    Save *save = save_of(b, t.chunk, t.micro);
    CHECK(!takes(b, t.chunk) || save->recv >= 0, "schedule %s, stage %d: no RECV for chunk %d micro-batch %d",
          schedule_name(s->kind), s->stage, t.chunk, t.micro);
    if (takes(b, t.chunk)) emit_wait(b, &save->recv);
    else save->slot = slot_take(b, t.chunk);
    emit(b, (ScheduleRow){ FORWARD, t.chunk, t.micro, save->slot, -1, -1 });
    if (gives(b, t.chunk))
        save->send = emit(b, (ScheduleRow){ SEND, t.chunk, t.micro, save->slot, (s->stage + 1) % s->stages, -1 });
    if (s->kind != SCHEDULE_FORWARD) return;
    if (alone(b) && t.chunk > 0) slot_release(b, t.chunk - 1, t.micro);
    if (last(b, t.chunk)) slot_release(b, t.chunk, t.micro);
}

static void emit_weight(Build *b, Task t)
{
    emit(b, (ScheduleRow){ BACKWARD_WEIGHT, t.chunk, t.micro, save_of(b, t.chunk, t.micro)->slot, -1, -1 });
    slot_release(b, t.chunk, t.micro);
}

static void emit_backward(Build *b, Task t, bool fused)
{
    Schedule *s = b->s;
    Save *save = save_of(b, t.chunk, t.micro);
    int prev = (s->stage + s->stages - 1) % s->stages, buffer = t.micro % 2;
    CHECK(!gives(b, t.chunk) || save->recv_grad >= 0,
          "schedule %s, stage %d: no RECV_GRAD for chunk %d micro-batch %d", schedule_name(s->kind), s->stage,
          t.chunk, t.micro);
    emit_wait(b, &save->recv_grad);
    emit_wait(b, &save->send);         /* done long ago: its gradient is back */
    if (t.micro >= 2) emit_wait(b, &save_of(b, t.chunk, t.micro - 2)->send_grad);
    emit(b, (ScheduleRow){ BACKWARD_INPUT, t.chunk, t.micro, save->slot, -1, buffer });
    save->backward = true;
    if (fused) emit_weight(b, t);
    if (takes(b, t.chunk)) save->send_grad = emit(b, (ScheduleRow){ SEND_GRAD, t.chunk, t.micro, -1, prev, buffer });
}

static void emit_rows(Build *b)
{
    Schedule *s = b->s;
    for (int n = 0; n < b->order.tasks; n++) {
        Task t = b->order.task[n];
        if (s->kind == SCHEDULE_FORWARD) make_room(b, n);
        post_receives(b);
        if (t.verb == FORWARD) {
            emit_forward(b, t);
            continue;
        }
        bool fused = s->kind != SCHEDULE_ZB_H1 || s->stage == 0;   /* its BACKWARD_WEIGHT is the next task */
        if (t.verb == BACKWARD_INPUT) emit_backward(b, t, fused);
        else emit_weight(b, t);
        if (t.verb == BACKWARD_INPUT && fused) n++;
        if ((t.verb == BACKWARD_WEIGHT || fused) && t.micro == s->micros - 1)
            emit(b, (ScheduleRow){ REDUCE, t.chunk, -1, -1, -1, -1 });
    }
    for (int n = 0; n < b->order.tasks; n++) {
        Task t = b->order.task[n];
        if (t.verb == FORWARD) emit_wait(b, &save_of(b, t.chunk, t.micro)->send);
        else if (t.verb == BACKWARD_INPUT) emit_wait(b, &save_of(b, t.chunk, t.micro)->send_grad);
    }
    if (s->kind != SCHEDULE_FORWARD) emit(b, (ScheduleRow){ STEP, -1, -1, -1, -1, -1 });
}

/* ---- making one ---- */

static Status build_open(Build *b)
{
    Schedule *s = b->s;
    int total = s->micros * s->chunks;
    int prev = (s->stage + s->stages - 1) % s->stages, next = (s->stage + 1) % s->stages;
    b->peak  = schedule_peak(s->kind, s->stages, s->stage, s->chunks, s->micros);
    b->save  = malloc((size_t)total * sizeof *b->save);
    b->taken = calloc((size_t)s->chunks * (size_t)b->peak, sizeof *b->taken);
    s->row   = malloc((11 * (size_t)total + CHUNKS_MAX + 1) * sizeof *s->row);   /* 11 a save, REDUCE, STEP */
    if (!b->save || !b->taken || !s->row)
        return fail(NO_MEMORY, "the schedule of %d micro-batches finds no memory", s->micros);
    TRY(order_make(&b->order, s, s->stage));
    b->inbox[0].stage = prev;
    b->inbox[1].stage = next;
    if (prev != s->stage) TRY(order_make(&b->inbox[0].order, s, prev));
    if (next != prev) TRY(order_make(&b->inbox[1].order, s, next));
    for (int n = 0; n < total; n++) {
        Task t = nth(s, FORWARD, n);
        *save_of(b, t.chunk, t.micro) = (Save){ -1, n, -1, -1, -1, -1, false };
    }
    return OK;
}

static void build_close(Build *b)
{
    free(b->order.task);
    free(b->inbox[0].order.task);
    free(b->inbox[1].order.task);
    free(b->save);
    free(b->taken);
}

static Status judge(const Schedule *s)
{
    const char *name = schedule_name(s->kind);
    if (s->stages < 1 || s->stage < 0 || s->stage >= s->stages)
        return fail(BAD_OPTION, "schedule %s: there is no stage %d of %d", name, s->stage, s->stages);
    if (s->micros < 1 || s->chunks < 1 || s->chunks > CHUNKS_MAX || s->micros > MICROS_MAX)
        return fail(BAD_OPTION, "schedule %s: %d micro-batches in %d chunks; 1 to %d in 1 to %d work", name,
                    s->micros, s->chunks, MICROS_MAX, CHUNKS_MAX);
    if (s->chunks > 1 && (s->kind == SCHEDULE_1F1B || s->kind == SCHEDULE_ZB_H1))
        return fail(BAD_OPTION, "schedule %s takes one chunk a stage, not %d; %s takes several", name,
                    s->chunks, schedule_name(SCHEDULE_INTERLEAVED));
    if (s->kind == SCHEDULE_INTERLEAVED && s->micros % s->stages != 0) {
        int good = s->micros < s->stages ? s->stages : s->micros / s->stages * s->stages;
        return fail(BAD_OPTION, "schedule %s: %d micro-batches are no multiple of %d stages; %d or %d would work",
                    name, s->micros, s->stages, good, good + s->stages);
    }
    return OK;
}

Status schedule_make(Schedule *schedule, ScheduleKind kind, int stages, int stage, int chunks, int micros)
{
    *schedule = (Schedule){ kind, stages, stage, chunks, micros, .row = NULL };
    TRY(judge(schedule));
    Build b = { .s = schedule };
    Status status = build_open(&b);
    if (status == OK) emit_rows(&b);
    else schedule_free(schedule);
    build_close(&b);
    return status;
}

void schedule_free(Schedule *schedule)
{
    free(schedule->row);
    schedule->row  = NULL;
    schedule->rows = 0;
}
