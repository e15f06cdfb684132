#include "comm/start.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "base/status.h"

static const double SECONDS_LEAST = 30;
static double  limit;
static int     own_rank;
static bool    waiting;
static timer_t timer;

static void too_long(union sigval what)
{
    char line[256];
    if (own_rank > 1) {                               /* who says it comes first */
        usleep(500000);
        _exit(3);
    }
    int n = snprintf(line, sizeof line,
                     "jotun: %s has not ended in %.3g s: another rank may have died, or hosts start slowly; "
                     "--watchdog-seconds gives more time; the job is stopped\n",
                     (const char *)what.sival_ptr, limit);
    log_write(line, (size_t)n);
    _exit(3);
}

void start_limit(double seconds, int rank)
{
    own_rank = rank;
    limit = seconds > 0 && seconds < SECONDS_LEAST ? SECONDS_LEAST : seconds;
}

void start_begin(const char *what)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = too_long,
                              .sigev_value = { .sival_ptr = (void *)what } };
    struct itimerspec once = { .it_value = { (time_t)limit, (long)((limit - (double)(time_t)limit) * 1e9) } };
    if (limit <= 0 || waiting) return;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &once, NULL) == 0,
          "no timer for %s", what);
    waiting = true;
}

void start_end(void)
{
    if (limit <= 0 || !waiting) return;               /* ranks that are threads come here together, without a limit */
    timer_delete(timer);
    waiting = false;
}
