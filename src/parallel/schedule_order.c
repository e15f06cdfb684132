/* The order of a stage's computations, by kind of schedule; where virtual stages are; how many slots an order
 * needs; which shapes are accepted. */
#include "parallel/schedule_order.h"

#include <stdlib.h>

enum { MICROS_MAX = 1 << 22 };                 /* keeps the count of rows an int */

static int min_int(int a, int b) { return a < b ? a : b; }
static int max_int(int a, int b) { return a > b ? a : b; }

const char *schedule_name(ScheduleKind kind)
{
    static const char *const names[] = { "1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "forward" };
    return (unsigned)kind <= SCHEDULE_FORWARD ? names[kind] : "no schedule";
}

bool schedule_defers(ScheduleKind kind) { return kind == SCHEDULE_ZB_H1 || kind == SCHEDULE_ZB_V; }

/* ---- virtual stages ---- */

int schedule_virtual(const ScheduleShape *shape, int stage, int chunk)
{
    return shape->v_shaped && chunk == 1 ? 2 * shape->stages - 1 - stage : chunk * shape->stages + stage;
}

SchedulePlace schedule_place(const ScheduleShape *shape, int v)
{
    int chunk = v / shape->stages, stage = v % shape->stages;
    return (SchedulePlace){ shape->v_shaped && chunk == 1 ? shape->stages - 1 - stage : stage, chunk };
}

int schedule_before(const ScheduleShape *shape, int stage, int chunk)
{
    int v = schedule_virtual(shape, stage, chunk);
    return v > 0 ? schedule_place(shape, v - 1).stage : -1;
}

int schedule_after(const ScheduleShape *shape, int stage, int chunk)
{
    int v = schedule_virtual(shape, stage, chunk);
    return v + 1 < shape->stages * shape->chunks ? schedule_place(shape, v + 1).stage : -1;
}

/* ---- warm-up and slots ---- */

/* One stage has groups of one: nothing is gained by more. */
static int group_of(const ScheduleShape *shape)
{
    bool chosen = shape->kind == SCHEDULE_INTERLEAVED && shape->stages > 1 && shape->group;
    return chosen ? shape->group : shape->stages;
}

/* Warm-up: the number of forwards that a stage runs before its first backward. For interleaved schedules it
 * is Megatron-LM's. */
static int warm_up(const ScheduleShape *shape, int stage)
{
    int below = shape->stages - stage - 1;
    switch (shape->kind) {
    case SCHEDULE_GPIPE:       return shape->micros - 1;
    case SCHEDULE_1F1B:        return (1 + shape->extra) * below;
    case SCHEDULE_INTERLEAVED: return 2 * below + (shape->chunks - 1) * group_of(shape);
    default:                   return below;
    }
}

int schedule_peak(const ScheduleShape *shape, int stage)
{
    int m = shape->micros, p = shape->stages, all = m * shape->chunks;
    switch (shape->kind) {
    case SCHEDULE_GPIPE:
    case SCHEDULE_INTERLEAVED: return min_int(all, warm_up(shape, stage) + 1);
    case SCHEDULE_1F1B:
        return min_int(all, warm_up(shape, stage) + 1 + (shape->extra > 0 && stage > 0));
    case SCHEDULE_ZB_H1:       return min_int(all, p);
    case SCHEDULE_ZB_V:        return min_int(m, 2 * p - 1 - stage) + min_int(m, stage + 1);
    case SCHEDULE_FORWARD:     break;
    }
    return min_int(2, p == 1 ? shape->chunks : all);     /* one slot computed or sent, one received */
}

int schedule_buffers(const ScheduleShape *shape) { return 2 + group_of(shape) - shape->stages; }

/* ---- 1F1B and its relatives ---- */

/* The n-th forward or backward of any stage. Micro-batches are processed in groups, each group through all
 * chunks, backward through the chunks in reverse. The last group may be smaller. */
static ComputeTask nth_task(const ScheduleShape *shape, ScheduleVerb verb, int n)
{
    int whole = group_of(shape), group = n / (whole * shape->chunks), rest = n % (whole * shape->chunks);
    int size  = min_int(whole, shape->micros - group * whole);
    int chunk = rest / size;
    if (verb != FORWARD) chunk = shape->chunks - 1 - chunk;
    return (ComputeTask){ verb, chunk, group * whole + rest % size };
}

static void order_add(ComputeOrder *order, const ScheduleShape *shape, ScheduleVerb verb, int n)
{
    if (n >= 0 && n < shape->micros * shape->chunks) order->task[order->tasks++] = nth_task(shape, verb, n);
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
 * longer warm-up, through the chunks; that of GPipe is all forwards but one. ZB-H1 delays backward_weight by
 * `late` iterations, and the delayed ones fill the idle time of the cool-down. With one stage a micro-batch
 * passes through all chunks, forward and backward, before the next one. */
static void order_one_by_one(ComputeOrder *order, const ScheduleShape *shape, int stage)
{
    bool one  = shape->stages == 1;
    int total = shape->micros * shape->chunks, stride = one ? shape->chunks : 1;
    int warm  = one && shape->kind != SCHEDULE_GPIPE ? 0 : warm_up(shape, stage);
    /* every stage has p slots in use, as stage 0 has */
    int late  = shape->kind == SCHEDULE_ZB_H1 ? stage : 0;
    for (int n = 0; n < total + warm + late; n += stride) {
        for (int j = 0; j < stride; j++) order_add(order, shape, FORWARD, n + j);
        for (int j = 0; j < stride && shape->kind != SCHEDULE_FORWARD; j++) {
            order_add(order, shape, BACKWARD_INPUT, n - warm + j);
            order_add(order, shape, BACKWARD_WEIGHT, n - warm - late + j);
        }
    }
}

/* ---- v-shaped ---- */

/* Adds the next computation of that kind and chunk; those of micro-batches that do not exist are counted and
 * left out. */
typedef struct { ComputeOrder *order; int micros, done[STEP][2]; } OrderV;

static void add_v(OrderV *v, ScheduleVerb verb, int chunk)
{
    int micro = v->done[verb][chunk]++;
    if (micro < v->micros) v->order->task[v->order->tasks++] = (ComputeTask){ verb, chunk, micro };
}

static void backward_v(OrderV *v, int chunk)
{
    add_v(v, BACKWARD_INPUT, chunk);
    add_v(v, BACKWARD_WEIGHT, chunk);
}

/* ZB-V of 3 stages and 6 micro-batches; for each computation its chunk is below.
 *
 *   stage 0   012340aA1bB2cC5aA3dDbB4eEcC5fFdDeEfF..
 *             000001111111110001110011100111000000
 *   stage 1   .012031aA2bB4aA3cC5bB4dDcC5eEdfeDfEFF.
 *              000101111110001110001110011101000010
 *   stage 2   ..001122aA3aA3bB4bB4cC5cC5dDdeeffDEFEF
 *               010101110001110001110001110101001100
 *
 * Forwards go down the stages in chunk 0 and up again in chunk 1, so the last virtual stage is on stage 0. A
 * stage fills the time until its chunk 1 gets work with forwards of chunk 0; in the steady state it
 * alternates between the chunks: forward, backward and weight gradient of each. In the cool-down the
 * gradients for the input, which other stages wait for, come first, and delayed weight gradients fill what is
 * idle. As if there were 2 p - 1 micro-batches at least: fewer leave gaps. */
static void order_zb_v(ComputeOrder *order, const ScheduleShape *shape, int stage)
{
    OrderV v = { .order = order, .micros = shape->micros };
    int below = shape->stages - 1 - stage, micros = max_int(shape->micros, 2 * shape->stages - 1);
    for (int i = 0; i < 2 * below + 1; i++) add_v(&v, FORWARD, 0);
    for (int i = 0; i < stage; i++) { add_v(&v, FORWARD, 1); add_v(&v, FORWARD, 0); }
    for (int i = 0; i < below + 1; i++) { add_v(&v, FORWARD, 1); backward_v(&v, 1); }
    while (v.done[FORWARD][1] < micros) {
        if (v.done[FORWARD][0] < micros) add_v(&v, FORWARD, 0);
        backward_v(&v, 0);
        add_v(&v, FORWARD, 1);
        backward_v(&v, 1);
    }
    for (int i = 0; i < stage; i++) { add_v(&v, BACKWARD_INPUT, 0); add_v(&v, BACKWARD_INPUT, 1); }
    for (int i = 0; i < below + 1; i++) backward_v(&v, 0);
    for (int chunk = 1; chunk >= 0; chunk--)
        while (v.done[BACKWARD_WEIGHT][chunk] < micros) add_v(&v, BACKWARD_WEIGHT, chunk);
}

/* Evaluation. If every chunk takes one unit of time, micro-batch k is at virtual stage s at time 2 k + s; the
 * times of the two chunks of a stage are even and odd, so it is never idle and never has to choose. */
static void order_forward_v(ComputeOrder *order, const ScheduleShape *shape, int stage)
{
    OrderV v = { .order = order, .micros = shape->micros };
    for (int i = 0; i < shape->stages - stage; i++) add_v(&v, FORWARD, 0);
    for (int i = 0; i < shape->micros; i++) { add_v(&v, FORWARD, 1); add_v(&v, FORWARD, 0); }
}

Status compute_order_make(ComputeOrder *order, const ScheduleShape *shape, int stage)
{
    size_t tasks = 3 * (size_t)shape->micros * (size_t)shape->chunks;
    *order = (ComputeOrder){ .task = malloc(tasks * sizeof(ComputeTask)) };
    if (!order->task) return fail(NO_MEMORY, "no memory for the schedule of %d micro-batches", shape->micros);
    if (!shape->v_shaped || shape->stages == 1) order_one_by_one(order, shape, stage);
    else if (shape->kind == SCHEDULE_ZB_V)      order_zb_v(order, shape, stage);
    else                                        order_forward_v(order, shape, stage);
    return OK;
}

/* ---- which shapes are accepted ---- */

static Status group_accepts(const ScheduleShape *shape)
{
    const char *name = schedule_name(shape->kind);
    int p = shape->stages, m = shape->micros, group = group_of(shape), last = m % group;
    if (group < p || (group > m && shape->group))
        return fail(BAD_OPTION, "schedule %s: groups of %d micro-batches in a pipeline of %d stages and %d "
                    "micro-batches; %d to %d work", name, group, p, m, p, max_int(p, m));
    if (last == 0 || last >= p) return OK;
    int good = m < group ? group : m - last;
    return fail(BAD_OPTION, "schedule %s: %d micro-batches in groups of %d leave %d for the last group, "
                "which are fewer than %d stages; %d or %d would work", name, m, group, last, p, good,
                good + group);
}

Status schedule_accepts(const ScheduleShape *shape)
{
    const char *name = schedule_name(shape->kind);
    int chunks = shape->chunks;
    bool several = shape->kind == SCHEDULE_INTERLEAVED || shape->kind == SCHEDULE_FORWARD;
    if (shape->stages < 1 || shape->micros < 1 || chunks < 1 || chunks > CHUNKS_MAX ||
        shape->micros > MICROS_MAX)
        return fail(BAD_OPTION, "schedule %s: %d micro-batches in %d chunks; 1 to %d in 1 to %d work", name,
                    shape->micros, chunks, MICROS_MAX, CHUNKS_MAX);
    if (shape->v_shaped && shape->kind != SCHEDULE_ZB_V && shape->kind != SCHEDULE_FORWARD)
        return fail(BAD_OPTION, "schedule %s has no v-shaped chunks; %s has", name,
                    schedule_name(SCHEDULE_ZB_V));
    if (shape->v_shaped && chunks != 2)
        return fail(BAD_OPTION, "schedule %s takes two chunks per stage, not %d", name, chunks);
    if (!shape->v_shaped && (shape->kind == SCHEDULE_ZB_V || (chunks > 1 && !several)))
        return fail(BAD_OPTION, "schedule %s takes %s, not %d; %s takes several", name,
                    shape->kind == SCHEDULE_ZB_V ? "two v-shaped chunks per stage" : "one chunk per stage",
                    chunks, schedule_name(SCHEDULE_INTERLEAVED));
    if (shape->extra < 0 || (shape->extra > 0 && shape->kind != SCHEDULE_1F1B))
        return fail(BAD_OPTION, "schedule %s with %d extra forwards in its warm-up; %s takes some", name,
                    shape->extra, schedule_name(SCHEDULE_1F1B));
    if (shape->blocking && (several || shape->v_shaped || shape->extra > 0))
        return fail(BAD_OPTION, "schedule %s: blocking messages with several chunks or an extra warm-up "
                    "would wait for each other; 1f1b, gpipe and zb-h1 can block", name);
    return shape->kind == SCHEDULE_INTERLEAVED ? group_accepts(shape) : OK;
}
