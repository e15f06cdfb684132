#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H
/* Pipeline schedules as arrays of rows, communication included. They are made from integers alone
 * (schedule.c), proved by a checker that does not know how they were made (schedule_check.c), run by
 * parallel/pipeline.c, simulated by schedule_simulate.c and drawn by plan/. A drawn example of 1F1B is above
 * order_make in schedule.c.
 *
 *     1F1B          PipeDream-Flush, arXiv 2006.09503: after the warm-up one forward, one backward
 *     interleaved   arXiv 2104.04473: several chunks per stage, which shortens the bubble
 *     ZB-H1         arXiv 2401.10241: weight gradients fill the bubble, in the memory of 1F1B's first stage
 *     forward       evaluation: no backward
 *
 * p stages, v chunks per stage, m micro-batches. Chunk c of stage i is virtual stage c p + i of p v: its
 * output is the input of the next virtual stage, which is on stage (i + 1) mod p. A slot holds the saved
 * activations of one (chunk, micro-batch) from its RECV or FORWARD to its BACKWARD_WEIGHT. All chunks of a
 * stage share one pool of slots, 0 .. schedule.slots - 1. Each (chunk, micro-batch) takes the lowest free
 * slot; that colours its intervals with as few numbers as are ever in use at once, so slots is
 * schedule_peak. FORWARD schedules have no backward: there a slot is free after the WAIT for its SEND or,
 * without a SEND, after the forward that reads it.
 *
 * Messages. RECV writes into the slot of its (chunk, micro-batch), which is in use from that row on; its WAIT
 * is before the FORWARD. SEND reads that slot, and its WAIT is before BACKWARD_INPUT. Gradients use four
 * buffers per chunk: two that RECV_GRAD writes and two that SEND_GRAD reads, alternating (row.buffer = micro
 * % 2). A receive buffer is in use from RECV_GRAD until BACKWARD_INPUT is done; a send buffer from
 * BACKWARD_INPUT, which writes it, until the WAIT for its SEND_GRAD. The n-th send from one stage to another
 * matches the n-th receive there, activations and gradients counted together (with two stages they mix). Rows
 * of one chunk are in the order of micro-batches, so gradients are summed in the same order under every
 * schedule.
 *
 * A fused backward is BACKWARD_INPUT with its BACKWARD_WEIGHT in the next row: always in 1F1B and
 * interleaved, and on stage 0 of ZB-H1. SEND_GRAD follows both of them there, and BACKWARD_INPUT elsewhere;
 * REDUCE follows the last BACKWARD_WEIGHT.
 *
 * With p = 1 all virtual stages are on one rank and there are no messages: FORWARD of chunk c reads the
 * output in the slot of (c - 1, micro), and BACKWARD_INPUT of chunk c reads the send buffer `buffer` that
 * BACKWARD_INPUT of c + 1 wrote. */
#include <stdint.h>
#include "base/status.h"

typedef enum { SCHEDULE_1F1B, SCHEDULE_INTERLEAVED, SCHEDULE_ZB_H1, SCHEDULE_FORWARD } ScheduleKind;

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
    ScheduleKind kind;
    int stages, stage, chunks, micros;         /* p, this stage, v, m */
    int rows;  ScheduleRow *row;               /* owned: schedule_free */
    int slots;                                 /* of the pool */
} Schedule;

/* BAD_OPTION, with values that would work: interleaved needs m to be a multiple of p, 1F1B and ZB-H1 take one
 * chunk. */
Status schedule_accepts(ScheduleKind kind, int stages, int stage, int chunks, int micros);
/* The rows of one stage. Fails as schedule_accepts does, or with NO_MEMORY. Time and memory are proportional
 * to m v. */
Status schedule_make(Schedule *schedule, ScheduleKind kind, int stages, int stage, int chunks, int micros);
void   schedule_free(Schedule *schedule);
const char *schedule_verb_name(ScheduleVerb verb);
const char *schedule_name(ScheduleKind kind);

/* Proves for all p stages together: every send matches a receive, in order and with the same (chunk,
 * micro-batch); every (chunk, micro-batch) is done once, forward before backward_input before
 * backward_weight, and in the order of the data flow; no slot or buffer is written while in use, and no slot
 * number exceeds slots; nothing deadlocks even if a SEND returns only after its receive is posted; REDUCE
 * follows the chunk's last BACKWARD_WEIGHT; the peak number of slots in use, and slots itself, are what
 * schedule_peak says. BAD_OPTION with stage and row where one of these is false. */
Status schedule_check(const Schedule *all, int stages);

/* The largest number of slots in use at once on a stage: 1F1B min(m, p - i); interleaved min(m v, warm-up +
 * 1) with Megatron-LM's warm-up of 2 (p - i - 1) + (v - 1) p; ZB-H1 min(m, p); FORWARD min(2, m v), and
 * min(2, v) on one stage. A RECV is posted early only while the slots in use stay below this, so early
 * receives cost no memory. */
int    schedule_peak (ScheduleKind kind, int stages, int stage, int chunks, int micros);

typedef struct { double of[STEP + 1]; } ScheduleCost;      /* time of a row, by verb */
/* Runs all stages against each other. Rows take the times of `cost`; a WAIT ends when the other end has been
 * posted too. *end: when each row is done, stage 0's rows, then stage 1's ...; malloc'ed, and the caller's to
 * free even on failure. BAD_OPTION with stage and row where the two ends of a message differ or the stages
 * deadlock. */
Status schedule_replay(const Schedule *all, int stages, const ScheduleCost *cost, double **end);
/* Returns when the last row ends if forward takes f, backward_input b and backward_weight w per chunk and
 * messages no time; fills idle[stages] with the idle time of each stage. The schedules must have passed
 * schedule_check, here and below. */
double schedule_simulate(const Schedule *all, int stages, double f, double b, double w, double *idle);
/* When each row ends in that simulation, in the order of schedule_replay; malloc'ed. */
double *schedule_ends(const Schedule *all, int stages, double f, double b, double w);
#endif
