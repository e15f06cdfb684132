#ifndef BASE_THREAD_H
#define BASE_THREAD_H
/* Starts threads that receive no signals except SIGBUS, so that SIGINT and SIGTERM reach the threads of
 * the run, which poll for them between steps. */
#include <pthread.h>

/* Returns 0, or the error number of pthread_create. The caller joins the thread. */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);
#endif
