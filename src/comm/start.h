#ifndef COMM_START_H
#define COMM_START_H
/* Bounds the waits of a start under MPI, which nobody else watches: a rank that dies before the watchdog is
 * up would leave the others waiting for ever. One wait at a time, in the one process that is this rank. */

/* seconds: how long each wait may last, at least 30, since processes start slowly; 0: for ever, which is also
 * so until this is called. rank: the launcher's word for this process; of those that wait, 0 and 1 say so.
 * Once, before the first wait. */
void start_limit(double seconds, int rank);
/* what: "MPI_Init". A longer wait is said on stderr and ends the process with exit code 3. */
void start_begin(const char *what);
void start_end  (void);                      /* nothing where none has begun */
#endif
