#ifndef BASE_THREAD_H
#define BASE_THREAD_H
/* A thread that receives no signals: those are for the threads of the run. */
#include <pthread.h>

int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);     /* 0, or the errno of pthread_create */
#endif
