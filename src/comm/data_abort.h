#ifndef COMM_DATA_ABORT_H
#define COMM_DATA_ABORT_H
/* The end of calls that run on devices, when a job stops: kernels of NCCL would spin for ever on GPUs whose
 * process is held up by them. The transports of this process that have an `abort`. */
#include "comm/data_transport.h"

void data_abort_join (DataTransport *data);
void data_abort_leave(DataTransport *data);
/* Calls `abort` of each, in a thread of its own, and returns after a second at the latest. By the watchdog
 * and by stop_world, just before the process ends. Only the first call does anything. */
void data_abort_all(void);
bool data_aborting(void);                             /* it was called */
/* A rank that finds the job aborted stays here until the process ends: NCCL's kernels return from an abort as
 * if their messages had come, and no rank may go on with what was in memory instead. */
void data_abort_stay(void);
#endif
