/* Time limits of the start under MPI, by a POSIX timer whose expiry runs in a thread of its own: the
 * waiting thread is blocked inside MPI and cannot look at a clock. */
#include "comm/start.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "base/status.h"

/* mpirun on a slow file system takes seconds to start the last process; a shorter limit would end
 * healthy jobs. */
static const double LIMIT_MIN = 30;
static double  limit;                                 /* seconds; 0: none */
static int     own_rank;
static bool    waiting;
static timer_t timer;

/* The timer's thread: MPI must not be called here, so the process only prints and ends. */
static void limit_passed(union sigval what)
{
    char line[256];
    if (own_rank > 1) {                               /* all ranks wait: the printing ones come first */
        usleep(500000);
        _exit(3);
    }
    int n = snprintf(line, sizeof line,
                     "jotun: %s has not ended in %.3g s: another rank may have died, or hosts start slowly; "
                     "a larger --watchdog-seconds gives them more time; the job is stopped\n",
                     (const char *)what.sival_ptr, limit);
    log_write(line, (size_t)n);
    _exit(3);
}

void start_limit(double seconds, int rank)
{
    own_rank = rank;
    limit = seconds > 0 && seconds < LIMIT_MIN ? LIMIT_MIN : seconds;
}

void start_begin(const char *what)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = limit_passed,
                              .sigev_value = { .sival_ptr = (void *)what } };
    struct itimerspec once = { .it_value = { (time_t)limit, (long)((limit - (double)(time_t)limit) * 1e9) } };
    if (limit <= 0 || waiting) return;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &once, NULL) == 0,
          "no timer for %s", what);
    waiting = true;
}

void start_end(void)
{
    /* Ranks that are threads call this at the same time, but have no limit and do not touch `waiting`. */
    if (limit <= 0 || !waiting) return;
    timer_delete(timer);
    waiting = false;
}
