/* The heartbeat: a small struct that the rank's thread writes when a wait begins and ends. That costs
 * two uncontended locks for each wait and sends nothing; the watchdog's thread does the rest. */
#include "comm/heartbeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/seam.h"

Heartbeat *heartbeat_open(Recorder *recorder)
{
    Heartbeat *heartbeat = calloc(1, sizeof *heartbeat);
    CHECK(heartbeat, "no memory for the heartbeat of a rank");
    pthread_mutex_init(&heartbeat->lock, NULL);
    heartbeat->progress.waited = heartbeat->progress.worked = -1;
    heartbeat->file_calls = &thread_context()->file_calls;
    heartbeat->recorder   = recorder;
    return heartbeat;
}

void heartbeat_close(Heartbeat *heartbeat)
{
    if (!heartbeat) return;
    pthread_mutex_destroy(&heartbeat->lock);
    free(heartbeat);
}

void heartbeat_enter(Heartbeat *heartbeat, const char *comm, const char *verb, int64_t number,
                     const int *members, int count)
{
    pthread_mutex_lock(&heartbeat->lock);
    snprintf(heartbeat->progress.comm, sizeof heartbeat->progress.comm, "%s", comm);
    snprintf(heartbeat->progress.verb, sizeof heartbeat->progress.verb, "%s", verb);
    heartbeat->progress.number = number;
    heartbeat->progress.step   = thread_context()->step;
    heartbeat->progress.waited = 0;
    heartbeat->since   = seam.clock();
    heartbeat->members = members;
    heartbeat->count   = count;
    pthread_mutex_unlock(&heartbeat->lock);
}

void heartbeat_leave(Heartbeat *heartbeat)
{
    pthread_mutex_lock(&heartbeat->lock);
    heartbeat->progress.waited = -1;
    heartbeat->members = NULL;
    heartbeat->moved   = seam.clock();                /* the wait was not file I/O without progress */
    pthread_mutex_unlock(&heartbeat->lock);
}

/* The counter runs for the whole life of the thread, so its value at the begin is subtracted later. */
void heartbeat_work(Heartbeat *heartbeat, const char *what)
{
    pthread_mutex_lock(&heartbeat->lock);
    snprintf(heartbeat->progress.work, sizeof heartbeat->progress.work, "%s", what ? what : "");
    heartbeat->moved = seam.clock();
    heartbeat->calls_seen   = __atomic_load_n(heartbeat->file_calls, __ATOMIC_RELAXED);
    heartbeat->calls_before = heartbeat->calls_seen;
    pthread_mutex_unlock(&heartbeat->lock);
}

/* Nanoseconds from the later of both to `now`. Never negative: a wait may begin after `now` was read. */
static int64_t time_since(int64_t start, int64_t awake, int64_t now)
{
    if (start < awake) start = awake;
    return now > start ? now - start : 0;
}

/* What heartbeat_look makes. */
typedef struct { RankProgress *progress; int64_t now, awake, slow; int **list; } Look;

/* Stride 0: they ascend by no one stride. */
static RankRange range_of(const int *ranks, int n)
{
    int stride = n > 1 ? ranks[1] - ranks[0] : 1;
    for (int i = 1; i < n; i++)
        if (ranks[i] - ranks[i - 1] != stride) stride = 0;
    return (RankRange){ ranks[0], stride > 0 ? stride : 0, n };
}

static void look_at_members(const Look *look, const int *members, int n)
{
    if (look->progress->waited < look->slow) return;
    RankRange range = range_of(members, n);
    if (range.stride == 0) {
        *look->list = malloc((size_t)n * sizeof **look->list);
        if (!*look->list) return;
        memcpy(*look->list, members, (size_t)n * sizeof **look->list);
    }
    look->progress->needs = range;
}

/* The rank's own thread does not wait, or only for its device. */
static void look_at_call(void *context, const RecordedCall *call, int64_t since)
{
    const Look   *look = context;
    RankProgress *progress = look->progress;
    snprintf(progress->comm, sizeof progress->comm, "%s", call->comm);
    snprintf(progress->verb, sizeof progress->verb, "%s", call->verb);
    progress->number = call->number;
    progress->step   = call->step;
    progress->waited = time_since(since, look->awake, look->now);
    progress->device = true;
    look_at_members(look, call->members ? call->members : call->pair, call->count);
}

/* A changed counter of file calls is progress, however slow each call is. The counter is read with
 * relaxed order: it is a statistic, and no other memory depends on it. */
RankProgress heartbeat_look(Heartbeat *heartbeat, int64_t now, int64_t awake, int64_t slow, int **list)
{
    *list = NULL;
    pthread_mutex_lock(&heartbeat->lock);
    RankProgress progress = heartbeat->progress;
    long calls = __atomic_load_n(heartbeat->file_calls, __ATOMIC_RELAXED);
    if (calls != heartbeat->calls_seen) heartbeat->moved = now;
    heartbeat->calls_seen = calls;
    progress.file_calls   = calls - heartbeat->calls_before;
    Look look = { &progress, now, awake, slow, list };
    if (progress.waited >= 0) {
        progress.waited = time_since(heartbeat->since, awake, now);
        look_at_members(&look, heartbeat->members, heartbeat->count);
    } else if (*progress.work) {
        progress.worked = time_since(heartbeat->moved, awake, now);
    } else {
        recorder_oldest(heartbeat->recorder, now, look_at_call, &look);
    }
    pthread_mutex_unlock(&heartbeat->lock);
    return progress;
}
