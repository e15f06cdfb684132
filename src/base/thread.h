#ifndef BASE_THREAD_H
#define BASE_THREAD_H
/* Starts background threads with all signals blocked. Signals such as SIGINT must be handled by a thread
 * of the run, which can stop at a step boundary; a background thread would otherwise be interrupted in the
 * middle of a read. */
#include <pthread.h>

/* Runs run(argument) on a new thread. Returns 0, or the error number of pthread_create, which is tried for
 * half a second where the system has no thread left (EAGAIN). The caller joins the thread. */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);
#endif
