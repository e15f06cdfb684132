#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H
/* Pipeline schedules as arrays of rows, communication included; made from integers alone, proved by a pure checker, run by
 * parallel/pipeline.c, simulated by parallel/schedule_simulate.c, drawn by plan/. A picture is above order_make in schedule.c.
 *
 * p stages, v chunks a stage, m micro-batches. Chunk c of stage i is virtual stage c p + i of p v: what it makes goes to the
 * next virtual stage (stage (i + 1) mod p). A slot holds the saved activations of one (chunk, micro-batch) from its RECV or
 * FORWARD to its BACKWARD_WEIGHT; slot numbers are per chunk, 0 .. schedule.slots[chunk] - 1. FORWARD (evaluation) has no backward:
 * there a slot is free when its SEND has been waited for or, without a SEND, when the forward that reads it is done.
 *
 * Messages. RECV writes into the slot of its (chunk, micro-batch), which is alive from that row on; it is waited for before the
 * FORWARD. SEND reads that slot, and is waited for before BACKWARD_INPUT. Gradients go through four buffers a chunk: two that
 * RECV_GRAD writes, two that SEND_GRAD reads, taken in turn (row.buffer = micro % 2). A receive buffer is in use from RECV_GRAD
 * until BACKWARD_INPUT is done; a send buffer from BACKWARD_INPUT, which writes it, until its SEND_GRAD was waited for. Of one stage
 * to another the n-th send meets the n-th receive, activations and gradients counted together (with two stages they mix).
 * Rows of one chunk come in the order of micro-batches, so sums of gradients have one order under every schedule.
 *
 * A fused backward is BACKWARD_INPUT with its BACKWARD_WEIGHT in the very next row: so always in 1F1B and interleaved, and on stage
 * 0 of ZB-H1. SEND_GRAD comes after both there, after BACKWARD_INPUT elsewhere; REDUCE right behind them.
 *
 * With p = 1 all neighbours are on the same rank and there are no messages: FORWARD of chunk c reads the output in the slot of
 * (c - 1, micro), and BACKWARD_INPUT of chunk c reads the send buffer `buffer` which BACKWARD_INPUT of c + 1 wrote.          */
#include <stdint.h>
#include "base/status.h"

typedef enum { SCHEDULE_1F1B, SCHEDULE_INTERLEAVED, SCHEDULE_ZB_H1, SCHEDULE_FORWARD } ScheduleKind;

typedef enum {
    RECV, FORWARD, SEND,                       /* activations: RECV posts and WAIT completes; SEND likewise */
    RECV_GRAD, BACKWARD_INPUT, BACKWARD_WEIGHT, SEND_GRAD,
    WAIT,                                      /* for the message posted by row `peer` of this array (a row index) */
    REDUCE,                                    /* chunk's gradients are complete on this rank: its buckets may start */
    STEP                                       /* the optimizer; always the last row of a training schedule */
} ScheduleVerb;

typedef struct {
    ScheduleVerb verb;
    int  chunk, micro;                         /* WAIT repeats those of the message; -1 where there is none */
    int  slot;                                 /* RECV FORWARD SEND BACKWARD_INPUT BACKWARD_WEIGHT; else -1 */
    int  peer;                                 /* the other stage of a message; the row waited for in WAIT; else -1 */
    int  buffer;                               /* RECV_GRAD SEND_GRAD BACKWARD_INPUT (reads and writes that number); else -1 */
} ScheduleRow;

enum { CHUNKS_MAX = 16 };
typedef struct {
    ScheduleKind kind;
    int stages, stage, chunks, micros;
    int rows;  ScheduleRow *row;                       /* owned: schedule_free */
    int slots[CHUNKS_MAX];                     /* slots of each chunk */
} Schedule;

/* BAD_OPTION says what would work (interleaved wants micros to be a multiple of stages; 1F1B and ZB-H1 one chunk). */
Status schedule_make(Schedule *schedule, ScheduleKind kind, int stages, int stage, int chunks, int micros);
void   schedule_free(Schedule *schedule);
const char *schedule_verb_name(ScheduleVerb verb);
const char *schedule_name(ScheduleKind kind);

/* Proves for all p stages together: each send meets its receive in order and with the same (chunk, micro-batch); every (chunk,
 * micro-batch) is done once, forward before backward before weight, and in the order the data flows; no slot is written while alive and
 * none is above slots[]; nothing deadlocks even when a SEND returns only after its receive is posted; REDUCE follows the chunk's last
 * BACKWARD_WEIGHT; peak of live slots over chunks is as stated by schedule_peak. BAD_OPTION with stage and row where not. */
Status schedule_check(const Schedule *all, int stages);
/* Live (chunk, micro) saves at most, by formula: 1F1B min(m, p - i); interleaved min(m v, warm-up + 1) with Megatron's warm-up of
 * 2 (p - i - 1) + (v - 1) p; ZB-H1 min(m, p); FORWARD min(2, m v), and min(2, v) on one stage. A RECV is posted ahead only where
 * its slot stays below this. */
int    schedule_peak (ScheduleKind kind, int stages, int stage, int chunks, int micros);
typedef struct { double of[STEP + 1]; } ScheduleCost;      /* time of a row, by verb */
/* Runs all stages against each other, rows taking the times of `cost` and a WAIT ending when the other end is posted too. *end: when
 * each row is done, stage 0's rows, then stage 1's ...; malloc'ed, the caller's also on failure. BAD_OPTION with stage and row where two
 * ends of a message differ or a stage waits for ever. */
Status schedule_replay(const Schedule *all, int stages, const ScheduleCost *cost, double **end);
/* Ends of the last row when forward takes f, input backward b, weight backward w per chunk and messages take none; fills idle time of each stage. */
double schedule_simulate(const Schedule *all, int stages, double f, double b, double w, double *idle);
/* When each row is done in that simulation: stage 0's rows, then stage 1's ...; malloc'ed. Schedules must pass schedule_check. */
double *schedule_ends(const Schedule *all, int stages, double f, double b, double w);
#endif
