#include "comm/data_abort.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Of a process with more ranks on devices the last ones are not aborted. */
enum { MOST = 64, WAIT_US = 1000000, LOOK_US = 1000 };
static _Atomic(DataTransport *) joined[MOST];
static atomic_bool aborting, aborted;

static void replace(DataTransport *old, DataTransport *new)
{
    for (int i = 0; i < MOST; i++) {
        DataTransport *expected = old;
        if (atomic_compare_exchange_strong(&joined[i], &expected, new)) return;
    }
}

void data_abort_join(DataTransport *data)
{
    stop_world_before(data_abort_all);
    replace(NULL, data);
}

void data_abort_leave(DataTransport *data) { replace(data, NULL); }
bool data_aborting(void)                   { return atomic_load(&aborting); }

void data_abort_stay(void)
{
    while (data_aborting()) pause();
}

static void *abort_joined(void *unused)
{
    for (int i = 0; i < MOST; i++) {
        DataTransport *data = atomic_load(&joined[i]);
        if (data) data->abort(data);
    }
    atomic_store(&aborted, true);
    return unused;
}

static bool has_joined(void)
{
    for (int i = 0; i < MOST; i++)
        if (atomic_load(&joined[i])) return true;
    return false;
}

/* An abort can hang in the driver, and the process must end. */
void data_abort_all(void)
{
    pthread_t thread;
    if (atomic_exchange(&aborting, true) || !has_joined()) return;
    if (pthread_create(&thread, NULL, abort_joined, NULL) != 0) return;
    pthread_detach(thread);
    for (int us = 0; us < WAIT_US && !atomic_load(&aborted); us += LOOK_US) usleep(LOOK_US);
}
