/* Makes the rows of a schedule: the order of a stage's computations (schedule_order.c) with messages and
 * waits added. A receive is posted as early as free slots, free buffers and the sender's order allow, so that
 * messages overlap with computation. schedule_check proves the result. */
#include "parallel/schedule_order.h"

#include <stdlib.h>

const char *schedule_verb_name(ScheduleVerb verb)
{
    static const char *const names[] = { "RECV", "FORWARD", "SEND", "RECV_GRAD", "BACKWARD_INPUT",
                                         "BACKWARD_WEIGHT", "SEND_GRAD", "WAIT", "REDUCE", "STEP" };
    return (unsigned)verb <= STEP ? names[verb] : "no verb";
}

/* One (chunk, micro-batch) of this stage while the rows are made. */
typedef struct {
    int  slot, forward_index;                  /* its slot; its number among the forwards of this stage */
    int  recv, send, recv_grad, send_grad;     /* rows that posted its messages and have no WAIT yet, or -1 */
    bool backward;                             /* backward_input is done, so its receive buffer is free */
} MicroState;

/* A channel to this stage: what one neighbour sends of one kind (activations after FORWARD, gradients after
 * BACKWARD_INPUT), in the order in which it computes; its tasks before `at` are dealt with. */
enum { CHANNELS_IN = 4 };
typedef struct { int stage, at; ScheduleVerb sent; const ComputeOrder *order; } ChannelIn;

typedef struct {
    Schedule *s;
    const ScheduleShape *shape;                /* the schedule's */
    ComputeOrder order, neighbour[2];          /* of this stage, the previous one and the next one */
    ChannelIn in[CHANNELS_IN];
    int   ins;
    MicroState *save;                          /* [chunk * micros + micro] */
    bool *taken;                               /* [peak] */
    int   buffers;                             /* of gradients, of a chunk */
    int   peak, released;                      /* forward n may use a slot when n < released + peak */
    /* blocking: the last send, whose WAIT comes before the next task */
    int  *sent;
    /* evaluation: the first forward whose SEND may have no WAIT yet */
    int   unsent;
} ScheduleBuilder;

static MicroState *micro_state(const ScheduleBuilder *b, int chunk, int micro)
{
    return &b->save[chunk * b->shape->micros + micro];
}

/* Whether the chunk's input comes from another rank, and whether its output is sent to one. */
static bool is_other(const ScheduleBuilder *b, int stage) { return stage >= 0 && stage != b->s->stage; }
static bool receives(const ScheduleBuilder *b, int chunk)
{
    return is_other(b, schedule_before(b->shape, b->s->stage, chunk));
}
static bool sends(const ScheduleBuilder *b, int chunk)
{
    return is_other(b, schedule_after(b->shape, b->s->stage, chunk));
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
    CHECK(slot < b->peak, "schedule %s: none of %d slots is free", schedule_name(b->shape->kind), b->peak);
    taken[slot] = true;
    if (b->s->slots <= slot) b->s->slots = slot + 1;
    return slot;
}

static void slot_release(ScheduleBuilder *b, int chunk, int micro)
{
    b->taken[micro_state(b, chunk, micro)->slot] = false;
    b->released++;
}

/* The channel's next message to this stage, as the RECV or RECV_GRAD that matches it. The neighbour's other
 * tasks are skipped. */
static bool next_incoming(ChannelIn *in, const ScheduleBuilder *b, ComputeTask *mine)
{
    for (; in->at < in->order->tasks; in->at++) {
        ComputeTask sent = in->order->task[in->at];
        if (sent.verb != in->sent) continue;
        int there = schedule_virtual(b->shape, in->stage, sent.chunk) + (sent.verb == FORWARD ? 1 : -1);
        if (there < 0 || there >= b->shape->stages * b->shape->chunks) continue;
        SchedulePlace place = schedule_place(b->shape, there);
        if (place.stage != b->s->stage) continue;
        *mine = (ComputeTask){ sent.verb == FORWARD ? RECV : RECV_GRAD, place.chunk, sent.micro };
        return true;
    }
    return false;
}

/* Whether the target of a receive is free: a slot, or the gradient buffer of an earlier micro-batch. */
static bool receive_fits(const ScheduleBuilder *b, ComputeTask t)
{
    if (t.verb == RECV) return micro_state(b, t.chunk, t.micro)->forward_index < b->released + b->peak;
    return t.micro < b->buffers || micro_state(b, t.chunk, t.micro - b->buffers)->backward;
}

/* Whether a receive is what the task waits for. */
static bool is_input_of(ComputeTask receive, ComputeTask task)
{
    ScheduleVerb verb = receive.verb == RECV ? FORWARD : BACKWARD_INPUT;
    return task.verb == verb && task.chunk == receive.chunk && task.micro == receive.micro;
}

/* Receives of a channel must be posted in the order in which the neighbour sends, so the first that does not
 * fit blocks all later ones of that channel. Blocking: only the input of the next task. */
static void post_receives(ScheduleBuilder *b, ComputeTask next)
{
    for (ChannelIn *in = b->in; in < b->in + b->ins; in++) {
        for (ComputeTask t; next_incoming(in, b, &t) && receive_fits(b, t); in->at++) {
            MicroState *save = micro_state(b, t.chunk, t.micro);
            if (b->shape->blocking && !is_input_of(t, next)) break;
            if (t.verb == RECV) {
                save->slot = slot_take(b);
                save->recv = emit(b, (ScheduleRow){ RECV, t.chunk, t.micro, save->slot, in->stage, -1, -1 });
            } else {
                save->recv_grad = emit(b,
                    (ScheduleRow){ RECV_GRAD, t.chunk, t.micro, -1, in->stage, t.micro % b->buffers, -1 });
            }
        }
    }
}

/* Evaluation: no backward frees slots, but sends do. Waits for the oldest sends until this forward, and the
 * receive for the next one, have a slot. */
static void free_slots(ScheduleBuilder *b, int forward_index)
{
    bool ahead = forward_index + 1 < b->order.tasks && receives(b, b->order.task[forward_index + 1].chunk);
    for (; b->unsent < forward_index && forward_index + ahead >= b->released + b->peak; b->unsent++) {
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
        schedule_name(s->shape.kind), s->stage, t.chunk, t.micro);
    if (receives(b, t.chunk)) emit_wait(b, &save->recv);
    else save->slot = slot_take(b);
    emit(b, (ScheduleRow){ FORWARD, t.chunk, t.micro, save->slot, -1, -1, -1 });
    if (sends(b, t.chunk))
        save->send = emit(b, (ScheduleRow){ SEND, t.chunk, t.micro, save->slot,
                                            schedule_after(b->shape, s->stage, t.chunk), -1, -1 });
    if (s->shape.blocking && save->send >= 0) b->sent = &save->send;
    if (s->shape.kind != SCHEDULE_FORWARD) return;
    if (t.chunk > 0 && !receives(b, t.chunk)) slot_release(b, t.chunk - 1, t.micro);
    if (schedule_after(b->shape, s->stage, t.chunk) < 0) slot_release(b, t.chunk, t.micro);
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
    int prev = schedule_before(b->shape, s->stage, t.chunk), buffer = t.micro % b->buffers;
    CHECK(!sends(b, t.chunk) || save->recv_grad >= 0,
          "schedule %s, stage %d: no RECV_GRAD for chunk %d micro-batch %d",
          schedule_name(s->shape.kind), s->stage, t.chunk, t.micro);
    emit_wait(b, &save->recv_grad);
    /* costs nothing: the gradient arrived, so the receiver has the activations */
    emit_wait(b, &save->send);
    if (t.micro >= b->buffers) emit_wait(b, &micro_state(b, t.chunk, t.micro - b->buffers)->send_grad);
    emit(b, (ScheduleRow){ BACKWARD_INPUT, t.chunk, t.micro, save->slot, -1, buffer, -1 });
    save->backward = true;
    if (fused) emit_backward_weight(b, t);
    if (receives(b, t.chunk))
        save->send_grad = emit(b, (ScheduleRow){ SEND_GRAD, t.chunk, t.micro, -1, prev, buffer, -1 });
    if (s->shape.blocking && save->send_grad >= 0) b->sent = &save->send_grad;
}

/* After the last task the messages that have no WAIT yet get theirs, then the optimizer's STEP. */
static void emit_rows(ScheduleBuilder *b)
{
    /* fused: the next task is the BACKWARD_WEIGHT of this one */
    bool training = b->shape->kind != SCHEDULE_FORWARD, fused = !schedule_defers(b->shape->kind);
    for (int n = 0; n < b->order.tasks; n++) {
        ComputeTask t = b->order.task[n];
        if (!training) free_slots(b, n);
        post_receives(b, t);
        if (b->sent) emit_wait(b, b->sent);
        b->sent = NULL;
        if (t.verb == FORWARD) {
            emit_forward(b, t);
            continue;
        }
        if (t.verb == BACKWARD_INPUT) emit_backward(b, t, fused);
        else emit_backward_weight(b, t);
        if (t.verb == BACKWARD_INPUT && fused) n++;
        if ((t.verb == BACKWARD_WEIGHT || fused) && t.micro == b->shape->micros - 1)
            emit(b, (ScheduleRow){ REDUCE, t.chunk, -1, -1, -1, -1, -1 });
    }
    for (int n = 0; n < b->order.tasks; n++) {
        ComputeTask t = b->order.task[n];
        if (t.verb == FORWARD) emit_wait(b, &micro_state(b, t.chunk, t.micro)->send);
        else if (t.verb == BACKWARD_INPUT) emit_wait(b, &micro_state(b, t.chunk, t.micro)->send_grad);
    }
    if (training) emit(b, (ScheduleRow){ STEP, -1, -1, -1, -1, -1, -1 });
}

/* ---- making one ---- */

/* Channels from the neighbours, of each at most one of activations and one of gradients. With two stages both
 * neighbours are the same. */
static Status channels_open(ScheduleBuilder *b)
{
    int p = b->shape->stages, stage = b->s->stage, at[2] = { (stage + p - 1) % p, (stage + 1) % p };
    for (int i = 0; i < 2; i++) {
        if (at[i] == stage || (i == 1 && at[1] == at[0])) continue;
        TRY(compute_order_make(&b->neighbour[i], b->shape, at[i]));
        b->in[b->ins++] = (ChannelIn){ at[i], 0, FORWARD, &b->neighbour[i] };
        b->in[b->ins++] = (ChannelIn){ at[i], 0, BACKWARD_INPUT, &b->neighbour[i] };
    }
    return OK;
}

static Status builder_open(ScheduleBuilder *b)
{
    size_t total = (size_t)b->shape->micros * (size_t)b->shape->chunks;
    b->peak  = schedule_peak(b->shape, b->s->stage);
    b->buffers = schedule_buffers(b->shape);
    b->save  = malloc(total * sizeof *b->save);
    b->taken = calloc((size_t)b->peak, sizeof *b->taken);
    /* 11 per micro-batch and chunk; REDUCE; STEP */
    b->s->row = malloc((11 * total + CHUNKS_MAX + 1) * sizeof *b->s->row);
    if (!b->save || !b->taken || !b->s->row)
        return fail(NO_MEMORY, "no memory for the schedule of %d micro-batches", b->shape->micros);
    TRY(compute_order_make(&b->order, b->shape, b->s->stage));
    TRY(channels_open(b));
    for (int n = 0, forwards = 0; n < b->order.tasks; n++) {
        ComputeTask t = b->order.task[n];
        if (t.verb != FORWARD) continue;
        *micro_state(b, t.chunk, t.micro) = (MicroState){ -1, forwards++, -1, -1, -1, -1, false };
    }
    return OK;
}

static void builder_close(ScheduleBuilder *b)
{
    free(b->order.task);
    free(b->neighbour[0].task);
    free(b->neighbour[1].task);
    free(b->save);
    free(b->taken);
}

Status schedule_make(Schedule *schedule, const ScheduleShape *shape, int stage)
{
    *schedule = (Schedule){ *shape, stage, .row = NULL };
    TRY(schedule_accepts(shape));
    if (stage < 0 || stage >= shape->stages)
        return fail(BAD_OPTION, "schedule %s: there is no stage %d of %d", schedule_name(shape->kind), stage,
                    shape->stages);
    ScheduleBuilder b = { .s = schedule, .shape = &schedule->shape };
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
