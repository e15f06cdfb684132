#ifndef COMM_START_H
#define COMM_START_H
/* Time limits for the start of a job of several processes, over MPI or TCP. The watchdog needs a working
 * communicator, so it cannot watch the waits that come before it: MPI_Init or the exchange of the ranks'
 * addresses, and the first synchronization of all ranks. A rank that dies
 * before then would leave the others waiting for ever. One wait at a time in a process; not for ranks
 * that are threads. */

/* Sets the limit of each wait in seconds, raised to at least 30 because processes start slowly; 0, which
 * is also the state before this call, means none. rank: this process's rank according to the launcher;
 * of the waiting processes ranks 0 and 1 print the message, the others only end. Called once, before the
 * first wait. */
void start_limit(double seconds, int rank);
/* Begins a wait named `what` ("MPI_Init"), a string that outlives it. When the limit passes before
 * start_end, a line on stderr names it and the process ends with exit code 3. Does nothing without a
 * limit or while another wait is open. */
void start_begin(const char *what);
void start_end  (void);                      /* ends the wait; does nothing where none has begun */
#endif
