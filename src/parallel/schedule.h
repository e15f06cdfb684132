#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H
/* Pipeline schedules as arrays of rows, communication included. They are made from integers alone
 * (schedule_order.c: the order of the computations; schedule_rows.c: the rows), proved by a checker that does
 * not know how they were made (schedule_check.c, schedule_replay.c), run by parallel/pipeline.c, simulated by
 * schedule_simulate.c and drawn by plan/. Drawn examples are in schedule_order.c.
 *
 *     GPipe         arXiv 1811.06965: all forwards, then all backwards
 *     1F1B          PipeDream-Flush, arXiv 2006.09503: after the warm-up one forward, one backward
 *     interleaved   arXiv 2104.04473: several chunks per stage, which shortens the bubble
 *     ZB-H1         arXiv 2401.10241: weight gradients fill the bubble, in the memory of 1F1B's first stage
 *     ZB-V          arXiv 2405.15362: the same with two chunks per stage, of which the second one runs
 *                   through the stages in reverse, so that a stage gets its first backward early
 *     forward       evaluation: no backward
 *
 * p stages, v chunks per stage, m micro-batches. There are p v virtual stages; the output of one is the input
 * of the next one. Chunk c of stage i is virtual stage c p + i or, v-shaped (ZB-V, two chunks), virtual
 * stage i for chunk 0 and 2 p - 1 - i for chunk 1: so embedding and head are both on stage 0, and on stage
 * p - 1 chunk 0 hands its output to chunk 1 without a message.
 *
 * A slot holds the saved activations of one (chunk, micro-batch) from its RECV or FORWARD to its
 * BACKWARD_WEIGHT. All chunks of a stage share one pool of slots, 0 .. schedule.slots - 1. Each (chunk,
 * micro-batch) takes the lowest free slot; that colours its intervals with as few numbers as are ever in use
 * at once, so slots is schedule_peak. FORWARD schedules have no backward: there a slot is free after the WAIT
 * for its SEND or, without a SEND, after the forward that reads it.
 *
 * Messages. RECV writes into the slot of its (chunk, micro-batch), which is in use from that row on; its WAIT
 * is before the FORWARD. SEND reads that slot, and its WAIT is before BACKWARD_INPUT. Gradients use buffers
 * of each chunk in turn: schedule_buffers of them that RECV_GRAD writes and as many that SEND_GRAD reads. A
 * receive buffer is in use from RECV_GRAD until BACKWARD_INPUT is done; a send buffer from BACKWARD_INPUT,
 * which writes it, until the WAIT for its SEND_GRAD. Messages of one kind (activations or
 * gradients) from one stage to another share a channel (parallel/channels.h): its n-th send matches its n-th
 * receive. A channel may execute its messages strictly in order, each only when both ends are posted: no
 * schedule deadlocks then, whereas one queue for all messages of two stages would (schedule_check proves
 * the first, the test of schedules shows the second).
 *
 * Rows of one chunk are in the order of micro-batches, so gradients are summed in the same order under every
 * schedule. A fused backward is BACKWARD_INPUT with its BACKWARD_WEIGHT in the next row: always where weight
 * gradients are not deferred (schedule_defers). SEND_GRAD follows both of them there, and BACKWARD_INPUT
 * elsewhere; REDUCE follows the last BACKWARD_WEIGHT.
 *
 * Between two chunks of one rank (p = 1, and the turn of the V) there are no messages: FORWARD of chunk c
 * reads the output in the slot of (c - 1, micro), and BACKWARD_INPUT of chunk c reads the send buffer
 * `buffer` that BACKWARD_INPUT of c + 1 wrote. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef enum { SCHEDULE_1F1B, SCHEDULE_GPIPE, SCHEDULE_INTERLEAVED, SCHEDULE_ZB_H1, SCHEDULE_ZB_V,
               SCHEDULE_FORWARD } ScheduleKind;

/* What a schedule is made from, the same on all stages. */
typedef struct {
    ScheduleKind kind;
    int  stages, chunks, micros;               /* p, v, m */
    bool v_shaped;                             /* which virtual stages a stage has; always under ZB-V */
    /* interleaved: micro-batches that pass a chunk before the next chunk runs (Megatron-LM's microbatch group
     * size per virtual pipeline stage); 0: p */
    int  group;
    /* 1F1B: 0, or further forwards in the warm-up for each later stage, so that messages overlap with
     * computations: a stage then has micro-batches to work on while a gradient is on its way */
    int  extra;
    /* messages do not overlap with computations: a receive is posted where it is waited for, and a send is
     * waited for before the next computation */
    bool blocking;
} ScheduleShape;

typedef enum {
    RECV, FORWARD, SEND,                    /* activations; RECV and SEND post a message, WAIT completes it */
    RECV_GRAD, BACKWARD_INPUT, BACKWARD_WEIGHT, SEND_GRAD,
    WAIT,                                    /* for the message that row `posted` of this array has posted */
    REDUCE,                         /* the chunk's gradients are complete on this rank: they can be reduced */
    STEP                       /* the optimizer; always the last row of a training schedule, and only there */
} ScheduleVerb;

typedef struct {
    ScheduleVerb verb;
    /* WAIT repeats those of its message; -1 where a row has none */
    int  chunk, micro;
    int  slot;                                 /* RECV FORWARD SEND BACKWARD_INPUT BACKWARD_WEIGHT; else -1 */
    int  peer;                                 /* the other stage of a message; else -1 */
    /* RECV_GRAD SEND_GRAD BACKWARD_INPUT (reads and writes that number); else -1 */
    int  buffer;
    int  posted;                               /* WAIT: the row that posted its message; else -1 */
} ScheduleRow;

enum { CHUNKS_MAX = 16 };
typedef struct {
    ScheduleShape shape;
    int stage;
    int rows;  ScheduleRow *row;               /* owned: schedule_free */
    int slots;                                 /* of the pool */
} Schedule;

/* BAD_OPTION, with values that would work: interleaved needs groups of at least p micro-batches, and a last
 * one of at least p too; ZB-V takes two chunks, the others but interleaved and forward one. */
Status schedule_accepts(const ScheduleShape *shape);
/* The rows of one stage. Fails as schedule_accepts does, or with NO_MEMORY. Time and memory are proportional
 * to m v. */
Status schedule_make(Schedule *schedule, const ScheduleShape *shape, int stage);
void   schedule_free(Schedule *schedule);
const char *schedule_verb_name(ScheduleVerb verb);
const char *schedule_name(ScheduleKind kind);
/* Whether weight gradients are computed apart from those of the input, some time later. */
bool   schedule_defers(ScheduleKind kind);

/* Which virtual stage a chunk of a stage is, and the reverse. */
typedef struct { int stage, chunk; } SchedulePlace;
int    schedule_virtual(const ScheduleShape *shape, int stage, int chunk);
SchedulePlace schedule_place(const ScheduleShape *shape, int virtual_stage);
/* The stages that a chunk receives activations from and sends them to, gradients go the other way: the stage
 * itself where no message is needed, -1 before the first virtual stage and after the last. */
int    schedule_before(const ScheduleShape *shape, int stage, int chunk);
int    schedule_after (const ScheduleShape *shape, int stage, int chunk);

/* Proves for all p stages together: every send matches a receive, in order and with the same (chunk,
 * micro-batch); every (chunk, micro-batch) is done once, forward before backward_input before
 * backward_weight, and in the order of the data flow; no slot or buffer is written while in use, and no slot
 * number exceeds slots; nothing deadlocks even if each channel executes its messages one after the other and
 * a SEND returns only after its receive is posted; REDUCE follows the chunk's last BACKWARD_WEIGHT; the peak
 * number of slots in use, and slots itself, are what schedule_peak says. BAD_OPTION with stage and row where
 * one of these is false. */
Status schedule_check(const Schedule *all, int stages);

/* The largest number of slots in use at once on stage i:
 *     GPipe        m
 *     1F1B         min(m, p - i); with e extra forwards min(m, (1 + e) (p - i - 1) + 1), and one more slot
 *                  behind stage 0 for the input that arrives
 *     interleaved  min(m v, warm-up + 1) with Megatron-LM's warm-up of 2 (p - i - 1) + (v - 1) group
 *     ZB-H1        min(m, p)
 *     ZB-V         min(m, 2 p - 1 - i) + min(m, i + 1): from 2 p - 1 micro-batches on 2 p chunks, each half
 *                  of a stage of 1F1B, whose first stage has p
 *     forward      min(2, m v), and min(2, v) on one stage
 * A RECV is posted early only while the slots in use stay below this, so early receives cost no memory. */
int    schedule_peak (const ScheduleShape *shape, int stage);

/* Gradients of a chunk that are received, or sent, at a time: two, of which one is computed with and one on
 * its way. Interleaved groups of more than p micro-batches need more, since a stage finishes a group in one
 * chunk before the next stage gets to it. */
int    schedule_buffers(const ScheduleShape *shape);

/* What rows and messages cost in a replay. */
typedef struct ScheduleCost {
    double of[STEP + 1];                       /* time of a row, by verb */
    /* or, where given, by stage and row */
    double (*row)(const struct ScheduleCost *cost, const Schedule *schedule, const ScheduleRow *row);
    const void *context;                       /* of `row` */
    double message;                            /* from when both ends are posted until it is received */
    /* all messages of two stages in one queue, as if they had one communicator */
    bool   one_queue;
} ScheduleCost;
/* forward takes f, backward_input b and backward_weight w per chunk; messages no time */
ScheduleCost schedule_cost(double f, double b, double w);

/* Runs all stages against each other. Each channel executes its messages in the order of their rows, one at a
 * time, each when both ends are posted; a WAIT ends when its message is done. *end: when each row is done,
 * stage 0's rows, then stage 1's ...; malloc'ed, and the caller's to free even on failure. BAD_OPTION with
 * stage and row where the two ends of a message differ or the stages deadlock. */
Status schedule_replay(const Schedule *all, int stages, const ScheduleCost *cost, double **end);
/* Returns when the last row ends, and fills idle[stages] with the time in which each stage does not compute
 * (the pipeline bubble). The schedules must have passed schedule_check, here and below. */
double schedule_simulate(const Schedule *all, int stages, const ScheduleCost *cost, double *idle);
/* When each row ends in that simulation, in the order of schedule_replay; malloc'ed. */
double *schedule_ends(const Schedule *all, int stages, const ScheduleCost *cost);
#endif
