#ifndef PARALLEL_SCHEDULE_H
#define PARALLEL_SCHEDULE_H
/* Pipeline schedules as arrays of rows, communication included; made from integers alone, proved by a pure checker, run by
 * parallel/pipeline.c, drawn and simulated by plan/.
 *
 * p stages, v chunks a stage, m micro-batches. Chunk c of stage i is virtual stage c p + i of p v: what it makes goes to the
 * next virtual stage (stage (i + 1) mod p). A slot holds the saved activations of one (chunk, micro-batch) from its RECV or
 * FORWARD to its BACKWARD_WEIGHT; slot numbers are per chunk, 0 .. schedule.slots[chunk] - 1.                              */
#include <stdint.h>
#include "base/status.h"

typedef enum { SCHEDULE_1F1B, SCHEDULE_INTERLEAVED, SCHEDULE_ZB_H1, SCHEDULE_FORWARD } ScheduleKind;

typedef enum {
    RECV, FORWARD, SEND,                       /* activations: RECV posts and WAIT completes; SEND likewise */
    RECV_GRAD, BACKWARD_INPUT, BACKWARD_WEIGHT, SEND_GRAD,
    WAIT,                                      /* for the message posted by row `peer` of this array (a row index) */
    REDUCE,                                    /* chunk's gradients are complete on this rank: its buckets may start */
    STEP                                       /* the optimizer; always the last row of a training schedule */
} Verb;

typedef struct { Verb verb; int chunk, micro, slot, peer; } Row;   /* peer: the other stage of a message; the row waited for in WAIT; else -1 */

enum { CHUNKS_MAX = 16 };
typedef struct {
    ScheduleKind kind;
    int stages, stage, chunks, micros;
    int rows;  Row *row;                       /* owned: schedule_free */
    int slots[CHUNKS_MAX];                     /* slots of each chunk */
} Schedule;

/* BAD_OPTION says what would work (interleaved wants micros to be a multiple of stages; 1F1B and ZB-H1 one chunk). */
Status schedule_make(Schedule *schedule, ScheduleKind kind, int stages, int stage, int chunks, int micros);
void   schedule_free(Schedule *schedule);
const char *verb_name(Verb verb);
const char *schedule_name(ScheduleKind kind);

/* Proves for all p stages together: each send meets its receive in order and with the same (chunk, micro-batch); every (chunk,
 * micro-batch) is done once, forward before backward before weight, and in the order the data flows; no slot is written while alive and
 * none is above slots[]; nothing deadlocks even when a SEND returns only after its receive is posted; REDUCE follows the chunk's last
 * BACKWARD_WEIGHT; peak of live slots over chunks is as stated by schedule_peak. BAD_OPTION with stage and row where not. */
Status schedule_check(const Schedule *all, int stages);
int    schedule_peak (ScheduleKind kind, int stages, int stage, int chunks, int micros);    /* live (chunk, micro) saves at most, by formula */
/* Ends of the last row when forward takes f, input backward b, weight backward w per chunk and messages take none; fills idle time of each stage. */
double schedule_simulate(const Schedule *all, int stages, double f, double b, double w, double *idle);
#endif
