/* The watchdog's thread. Every period it reads the heartbeats of its own process. Rank 0's watchdog
 * receives the heartbeats of all other processes and decides; theirs watch only rank 0 and end when it
 * tells them to. On a failure one line is written to stderr and the process ends with exit code 3, by
 * _exit: the rank's own thread may be blocked in the transport for ever, so it cannot be asked to
 * return.
 *
 * How a failure is recognized: a closed connection is a dead process; silence beyond the limit is a
 * frozen one, because a watchdog sends heartbeats even while its rank waits; a wait beyond the limit
 * with fresh heartbeats is a lost message or a rank that never reached the collective. */
#include "comm/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/array.h"
#include "base/log.h"
#include "base/seam.h"
#include "comm/agree.h"
#include "comm/data_abort.h"
#include "comm/heartbeat_tcp.h"
#include "comm/start.h"

/* A heartbeat is sent every PERIOD_MS; one that is later than MISSED_MS may come from a frozen process.
 * File I/O without progress is allowed for WORK_LIMITS times the limit, because a slow disk can take
 * minutes for one fsync. READY: connections that are read between two looks at the clock. */
enum { PERIOD_MS = 250, MISSED_MS = 1000 };
enum { WORK_LIMITS = 10, NOBODY = -1, READY = 64 };
static const int64_t MS = 1000000;

/* What the ranks exchange when the watchdog opens. heartbeat and watchdog are valid only where ranks are
 * threads. started: the start time of the process in clock ticks since boot, which tells it from a later
 * process with the same pid; 0 in w->identity where this process does not see it: on another host, or in
 * another container. */
typedef struct {
    char    host[64];
    int64_t pid;
    unsigned long long started;
    Heartbeat *heartbeat;
    Watchdog  *watchdog;
} RankIdentity;

/* The latest heartbeat of a rank. */
typedef struct {
    RankProgress progress;
    int64_t heard;                                    /* seam.clock when it was received */
    int    *list, room;                               /* ranks of progress.needs where stride is 0; owned */
    bool    left;                                     /* has said goodbye: not watched any more */
} ObservedRank;

struct Watchdog {
    int       rank, size, users;                      /* users: ranks that have not closed it */
    bool      threads;                                /* ranks are threads: one watchdog, no TCP */
    int64_t   limit;                                  /* nanoseconds */
    int64_t   awake;                                  /* seam.clock; time before it counts for no rank */
    int64_t   worked;                                 /* the same for the last file I/O of any rank */
    RankIdentity *identity;                           /* [size] */
    ObservedRank *seen;                               /* [size] */
    bool     *marked;                                 /* [size] the ranks that a message lists */
    int      *fd;                                     /* [size] connections; -1: none */
    UnsentBytes *unsent;                              /* [size] of the connections */
    pthread_mutex_t sending;                          /* protects fd and unsent: ranks send FRAME_STOP */
    ReceivedFrame *received;                          /* [size] of the connections; the thread's own */
    int       poller;                                 /* epoll of the connections and wake[0], as `size` */
    int       wake[2];                                /* a pipe: closing its write end ends the thread */
    pthread_mutex_t lock;                             /* protects `seen` and the life of heartbeats */
    pthread_t thread;
};

/* ---- the text of a message ---- */
/* One line, built in pieces and truncated where it is too long. `at` leaves space for the newline of
 * end_job. */
typedef struct { char line[2048]; size_t at; } VerdictText;

static void text_add(VerdictText *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void text_add(VerdictText *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->line + text->at, sizeof text->line - text->at, format, args);
    va_end(args);
    text->at += n < 0 ? 0 : (size_t)n;
    if (text->at > sizeof text->line - 2) text->at = sizeof text->line - 2;
}

/* "all-gather #7 of tp, step 40", and the file I/O in progress. */
static void text_add_progress(VerdictText *text, const RankProgress *progress)
{
    if (!*progress->verb)
        text_add(text, "no collective yet");
    else
        text_add(text, "%s #%lld of %s", progress->verb, (long long)progress->number, progress->comm);
    if (*progress->verb && progress->step >= 0) text_add(text, ", step %lld", (long long)progress->step);
    if (*progress->work)
        text_add(text, ", busy %s, %lld file operations done", progress->work,
                 (long long)progress->file_calls);
}

/* "rank 1" or "ranks 0, 2": the marked ranks, of which at most 16 are listed. Returns how many are marked. */
static int text_add_ranks(VerdictText *text, const bool *marked, int size)
{
    int count = 0, listed = 0;
    for (int r = 0; r < size; r++) count += marked[r];
    text_add(text, count == 1 ? "rank " : "ranks ");
    for (int r = 0; r < size && listed < 16; r++)
        if (marked[r]) text_add(text, "%s%d", listed++ ? ", " : "", r);
    if (listed < count) text_add(text, " and %d more", count - listed);
    return count;
}

/* Sends a frame to every connected process: to all from rank 0, to rank 0 from the others. */
static void send_to_all(Watchdog *w, const HeartbeatFrame *frame, const int *members)
{
    pthread_mutex_lock(&w->sending);
    for (int r = 0; r < w->size && !w->threads; r++)
        if (w->fd[r] >= 0) heartbeat_tcp_send(w->fd[r], &w->unsent[r], frame, members);
    pthread_mutex_unlock(&w->sending);
}

static void broadcast(Watchdog *w, HeartbeatFrameKind kind, int victim)
{
    send_to_all(w, &(HeartbeatFrame){ .kind = (int32_t)kind, .rank = w->rank, .victim = victim }, NULL);
}

/* Closes a connection over which a goodbye was sent. */
static void leave(Watchdog *w, int rank)
{
    pthread_mutex_lock(&w->sending);
    int fd = w->fd[rank];
    w->fd[rank] = -1;
    pthread_mutex_unlock(&w->sending);
    if (fd >= 0) epoll_ctl(w->poller, EPOLL_CTL_DEL, fd, NULL);
    if (fd >= 0) heartbeat_tcp_leave(fd, &w->unsent[rank]);
}

/* ---- ending the job ---- */
/* Field 22 (starttime) of /proc/PID/stat, see proc(5); 0 where this host has no such process, or one that
 * has ended and waits for its parent (field 3, its state, is Z or X). */
static unsigned long long process_start_time(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n  = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *at = strrchr(text, ')');                    /* ends field 2, a name that may contain blanks */
    if (at && at[1] && (at[2] == 'Z' || at[2] == 'X')) return 0;
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

/* This process sees that of the rank, which has not ended. */
static bool is_running(const RankIdentity *of)
{
    return of->started && process_start_time(of->pid) == of->started;
}

/* A process stopped by SIGSTOP or blocked in the kernel does not end by itself, and some launchers wait
 * for it for ever. Only processes of the same host can kill it. */
static void kill_frozen(const Watchdog *w, int rank)
{
    if (rank < 0 || rank >= w->size || rank == w->rank) return;
    if (is_running(&w->identity[rank])) kill((pid_t)w->identity[rank].pid, SIGKILL);
}

/* Tells the other processes to end, and ends after LAUNCHER_READS_US, like all of them: on a busy host
 * MPICH's launcher can drop a line that is followed at once by the end of the processes. They get the message
 * before that time, in which this process may be ended by its launcher or by the MPI library (UCX aborts
 * where it reads the memory of a dead process): a connection that closes without a FRAME_STOP looks like a
 * death, which another rank would report. */
enum { LAUNCHER_READS_US = 250000 };
static void stop_job(Watchdog *w, int victim) __attribute__((noreturn));
static void stop_job(Watchdog *w, int victim)
{
    broadcast(w, FRAME_STOP, victim);
    data_abort_all();
    usleep(LAUNCHER_READS_US);
    kill_frozen(w, victim);
    pthread_mutex_lock(&w->sending);
    if (!w->threads) heartbeat_tcp_flush(w->fd, w->unsent, w->size, true);
    _exit(3);
}

/* The line is written before anything else is tried, since a launcher may kill this process at any moment.
 * Does not return. */
static void end_job(Watchdog *w, VerdictText *text, int victim)
{
    text->line[text->at++] = '\n';
    log_write(text->line, text->at);
    log_write(stop_world_advised(), strlen(stop_world_advised()));
    stop_job(w, victim);
}

/* ---- failures and their messages ---- */
/* Rank i of those of the long wait that `seen` is in. */
static int needed(const ObservedRank *seen, int i)
{
    RankRange needs = seen->progress.needs;
    return needs.stride ? needs.first + i * needs.stride : seen->list[i];
}

static bool waits_for(const ObservedRank *seen, int rank)
{
    RankRange needs = seen->progress.needs;
    int from = rank - needs.first;
    if (needs.stride) return from >= 0 && from % needs.stride == 0 && from / needs.stride < needs.count;
    for (int i = 0; i < needs.count; i++)
        if (seen->list[i] == rank) return true;
    return false;
}

/* Other ranks of this host whose processes have ended. One of them may be the cause: UCX, below MPICH, aborts
 * a rank that reads the memory of a dead one. */
static void text_add_ended_ranks(VerdictText *text, const Watchdog *w, int rank)
{
    int ended = 0;
    for (int r = 0; r < w->size; r++) {
        const RankIdentity *identity = &w->identity[r];
        w->marked[r] = r != rank && !w->seen[r].left && identity->started && !is_running(identity);
        ended += w->marked[r];
    }
    if (ended == 0) return;
    text_add(text, "; ");
    text_add_ranks(text, w->marked, w->size);
    text_add(text, " of this host ended too");
}

/* A connection was closed without a goodbye: the system does that when a process ends for any reason. */
static void report_dead(Watchdog *w, int rank)
{
    if (w->rank > 1) {                                /* all see the death of rank 0: rank 1 reports it */
        usleep(500000);
        _exit(3);
    }
    VerdictText text = { .at = 0 };
    text_add(&text, "jotun: rank %d on host %s", rank, w->identity[rank].host);
    text_add(&text, " (pid %lld) died; last seen in ", (long long)w->identity[rank].pid);
    text_add_progress(&text, &w->seen[rank].progress);
    text_add_ended_ranks(&text, w, rank);
    text_add(&text, "; the job is stopped");
    end_job(w, &text, NOBODY);
}

/* What comes from a rank is no heartbeat, and nothing behind it can be read. Only this rank knows. */
static void report_invalid(Watchdog *w, int rank)
{
    VerdictText text = { .at = 0 };
    text_add(&text, "jotun: the watchdog's connection from rank %d on host %s", rank, w->identity[rank].host);
    text_add(&text, " (pid %lld) to rank %d is broken: what comes on it is no heartbeat; last seen in ",
             (long long)w->identity[rank].pid, w->rank);
    text_add_progress(&text, &w->seen[rank].progress);
    text_add(&text, "; the job is stopped");
    end_job(w, &text, NOBODY);
}

/* A rank is frozen (its heartbeats ended), or its file I/O makes no progress. Also lists who waits for it. */
static void report_unresponsive(Watchdog *w, int rank, bool frozen)
{
    const RankProgress *progress = &w->seen[rank].progress;
    bool *marked = w->marked;
    if (w->rank > 1) {                                /* it is rank 0, and rank 1 reports it */
        usleep(500000);
        kill_frozen(w, rank);
        _exit(3);
    }
    VerdictText text = { .at = 0 };
    text_add(&text, "jotun: rank %d on host %s", rank, w->identity[rank].host);
    if (frozen)
        text_add(&text, " has been silent for %.3g s, last seen in ", (double)w->limit * 1e-9);
    else
        text_add(&text, " has made no progress for %.3g s, last seen in ", (double)progress->worked * 1e-9);
    text_add_progress(&text, progress);
    int waiting = 0;
    for (int r = 0; r < w->size; r++) waiting += marked[r] = r != rank && waits_for(&w->seen[r], rank);
    if (waiting > 0) {
        text_add(&text, "; ");
        text_add_ranks(&text, marked, w->size);
        text_add(&text, waiting == 1 ? " waits for it" : " wait for it");
    }
    text_add(&text, "; the job is stopped");
    end_job(w, &text, frozen ? rank : NOBODY);
}

/* Whether rank m has reached the operation in which rank r waits. The members of a collective, and
 * the ranks of a ring in an exchange, have the same comm, verb and number; the two ends of a message have the
 * same number, but one sends and the other receives. */
static bool in_same_operation(const Watchdog *w, int m, int r)
{
    const RankProgress *a = &w->seen[m].progress, *b = &w->seen[r].progress;
    if (m == r) return true;
    if (a->waited < 0 || a->number != b->number || strcmp(a->comm, b->comm) != 0) return false;
    if (strcmp(b->verb, "send") == 0 || strcmp(b->verb, "recv") == 0)
        return strcmp(a->verb, b->verb) != 0 && waits_for(&w->seen[m], r);
    return strcmp(a->verb, b->verb) == 0;
}

/* Rank `rank` waited too long. Lists the ranks that wait in the same operation and the members that are
 * missing from it, with what the first of those did last. If none is missing, the transport has lost a
 * message. */
static void report_stuck(Watchdog *w, int rank, bool *marked)
{
    ObservedRank *seen = &w->seen[rank];
    VerdictText  text = { .at = 0 };
    for (int m = 0; m < w->size; m++) marked[m] = waits_for(seen, m) && in_same_operation(w, m, rank);
    text_add(&text, "jotun: ");
    int waiting = text_add_ranks(&text, marked, w->size);
    text_add(&text, " %s waited %.3g s in ", waiting == 1 ? "has" : "have", (double)w->limit * 1e-9);
    text_add_progress(&text, &seen->progress);
    bool all = waiting == seen->progress.needs.count;
    if (all && seen->progress.device) {
        text_add(&text, ", and all have begun it: a kernel before it does not end, or a message was lost; "
                 "NCCL_DEBUG=INFO shows what NCCL was given");
    } else if (all) {
        text_add(&text, ", and all are in it: a message was lost");
    } else {
        for (int m = 0; m < w->size; m++) marked[m] = waits_for(seen, m) && !in_same_operation(w, m, rank);
        text_add(&text, "; ");
        int missing = text_add_ranks(&text, marked, w->size), first = 0;
        while (!marked[first]) first++;
        text_add(&text, " %s not in it (last: ", missing == 1 ? "is" : "are");
        text_add_progress(&text, &w->seen[first].progress);
        text_add(&text, ")");
    }
    text_add(&text, "; the job is stopped");
    end_job(w, &text, NOBODY);
}

/* True where rank r waits for ranks that are missing from its operation, and none of those waits long
 * itself. Then they are the cause, and not another wait further down the chain. */
static bool waits_for_running_rank(const Watchdog *w, int r)
{
    const ObservedRank *seen = &w->seen[r];
    bool missing = false;
    for (int i = 0; i < seen->progress.needs.count; i++) {
        int m = needed(seen, i);
        if (in_same_operation(w, m, r)) continue;
        if (w->seen[m].progress.waited >= w->limit / 2) return false;
        missing = true;
    }
    return missing;
}

/* The rank whose wait is reported: one that waits for running ranks, since the others wait for it in
 * turn; the longest wait where all wait for each other in a circle (a deadlock). */
static int wait_to_report(const Watchdog *w)
{
    int longest = 0;
    for (int r = 0; r < w->size; r++) {
        if (waits_for_running_rank(w, r)) return r;
        if (w->seen[r].progress.waited > w->seen[longest].progress.waited) longest = r;
    }
    return longest;
}

/* Waiting before the end of the last file I/O does not count: who waits for a rank that saves, directly
 * or through others, waits for a healthy rank. */
static void check_file_io(Watchdog *w, int64_t now)
{
    for (int r = 0; r < w->size; r++) {
        if (w->seen[r].left || w->seen[r].progress.worked < 0) continue;
        if (w->seen[r].progress.worked > WORK_LIMITS * w->limit) report_unresponsive(w, r, false);
        w->worked = now;
    }
    for (int r = 0; r < w->size; r++)
        if (w->seen[r].progress.waited > now - w->worked) w->seen[r].progress.waited = now - w->worked;
}

/* One look at all observed ranks. Ends the job where one has failed. */
static void check_ranks(Watchdog *w, int64_t now)
{
    bool  late = false, over = false;
    int   watched = w->rank == 0 ? w->size : 1;       /* the others watch rank 0 alone */
    if (w->rank == 0) check_file_io(w, now);
    for (int r = 0; r < watched; r++) {
        ObservedRank   *seen  = &w->seen[r];
        int64_t since = seen->heard > w->awake ? seen->heard : w->awake;
        if (seen->left) continue;
        /* Twice MISSED_MS, because heartbeats arrive only once per period, whatever the limit is. */
        if (now - since > w->limit && now - since > 2 * MISSED_MS * MS) report_unresponsive(w, r, true);
        late |= now - since > MISSED_MS * MS;
        over |= seen->progress.waited > w->limit && seen->progress.needs.count > 0;
    }
    /* While a heartbeat is late, its rank may be frozen, which would be the cause of the long wait and
     * the better message. */
    if (over && !late && w->rank == 0)
        report_stuck(w, wait_to_report(w), w->marked);
}

/* ---- heartbeats ---- */
/* Stores a heartbeat. Where memory for the list of ranks is refused, the wait is not checked; the next
 * one may be. */
static void observe(Watchdog *w, int rank, const RankProgress *progress, const int *list)
{
    ObservedRank *seen  = &w->seen[rank];
    RankRange    *needs = &seen->progress.needs;
    seen->progress = *progress;
    seen->heard    = seam.clock();
    if (needs->count == 0 || needs->stride > 0) return;
    if (ARRAY_RESERVE(seen->list, seen->room, needs->count) == OK)
        memcpy(seen->list, list, (size_t)needs->count * sizeof *list);
    else
        needs->count = 0;
}

/* Reads the heartbeat of a rank of this process, observes it and sends it. The ranks that it waits for
 * are included once half of the limit has passed, so that they are known when the limit does; those of rank 0
 * are not sent, since only rank 0 judges waits. */
static void send_own_progress(Watchdog *w, int rank, int64_t now)
{
    int *list;
    HeartbeatFrame frame = { .kind = FRAME_PROGRESS, .rank = rank };
    frame.progress = heartbeat_look(w->identity[rank].heartbeat, now, w->awake, w->limit / 2, &list);
    observe(w, rank, &frame.progress, list);
    if (rank == 0) frame.progress.needs = (RankRange){ 0 };
    else if (list) frame.members = frame.progress.needs.count;
    send_to_all(w, &frame, list);
    free(list);
}

static void mark_left(Watchdog *w, int rank)
{
    w->seen[rank].left = true;
    w->seen[rank].progress.waited = -1;
    w->seen[rank].progress.needs.count = 0;
}

/* A goodbye is answered with a goodbye, so that neither end takes the close of the connection for a death. */
static void receive_frame(Watchdog *w, int rank)
{
    ReceivedFrame *received = &w->received[rank];
    ReceivedState  state    = heartbeat_tcp_recv(w->fd[rank], received, rank, w->size);
    if (state == RECEIVED_CLOSED) report_dead(w, rank);
    if (state == RECEIVED_INVALID) report_invalid(w, rank);
    if (state != RECEIVED_FRAME) return;
    HeartbeatFrame *frame = &received->frame;
    if (frame->kind == FRAME_STOP) stop_job(w, frame->victim);       /* the sender has printed the reason */
    if (frame->kind == FRAME_PROGRESS) {
        observe(w, rank, &frame->progress, received->members);
    } else {
        HeartbeatFrame goodbye = { .kind = FRAME_GOODBYE, .rank = w->rank };
        mark_left(w, rank);
        pthread_mutex_lock(&w->sending);
        heartbeat_tcp_send(w->fd[rank], &w->unsent[rank], &goodbye, NULL);
        pthread_mutex_unlock(&w->sending);
        leave(w, rank);
    }
}

/* Receives frames for one period; false where watchdog_close has closed the pipe. The clock is read
 * again after each frame, because many frames must not prolong the period; a clock that jumps back ends
 * it. */
static bool receive_for_one_period(Watchdog *w)
{
    struct epoll_event ready[READY];
    int64_t start = seam.clock(), passed = 0;
    do {
        int count = epoll_wait(w->poller, ready, READY, PERIOD_MS - (int)(passed / MS));
        if (count <= 0) return true;
        for (int i = 0; i < count; i++) {
            int from = (int)ready[i].data.u32;
            if (from == w->size) return false;
            receive_frame(w, from);
        }
        passed = seam.clock() - start;
    } while (passed >= 0 && passed < PERIOD_MS * MS);
    return true;
}

/* The thread. The lock is released while it polls, so that ranks can leave at any time. */
static void *watch(void *context)
{
    Watchdog *w    = context;
    int64_t   last = seam.clock();
    w->awake = last;
    do {
        int64_t now = seam.clock();
        /* This process itself was stopped (a debugger, a suspended laptop) or the clock has jumped: the
         * silence of the others in that time is not their fault. */
        if (now - last > 4 * PERIOD_MS * MS) w->awake = now;
        last = now;
        pthread_mutex_lock(&w->lock);
        for (int r = 0; r < w->size; r++)
            if ((w->threads || r == w->rank) && !w->seen[r].left) send_own_progress(w, r, now);
        check_ranks(w, now);
        pthread_mutex_unlock(&w->lock);
    } while (receive_for_one_period(w));
    broadcast(w, FRAME_GOODBYE, NOBODY);
    for (int r = 0; r < w->size && !w->threads; r++) leave(w, r);
    return NULL;
}

/* ---- opening and closing ---- */
/* For watchdog_stopping, which stop_world's hook calls without a context. Set only where a process is
 * one rank. */
static _Atomic(Watchdog *) process_watchdog;

void watchdog_stopping(void)
{
    Watchdog *w = atomic_load(&process_watchdog);
    if (!w) return;
    broadcast(w, FRAME_STOP, NOBODY);
    pthread_mutex_lock(&w->sending);
    heartbeat_tcp_flush(w->fd, w->unsent, w->size, false);           /* the thread reads the connections */
    pthread_mutex_unlock(&w->sending);
}

void watchdog_work(Comm *world, const char *what)
{
    heartbeat_work(world->heartbeat, what);
}

static void watchdog_free(Watchdog *w)
{
    if (!w) return;
    for (int r = 0; w->seen && r < w->size; r++) free(w->seen[r].list);
    free(w->seen);
    free(w->marked);
    free(w->identity);
    for (int r = 0; w->unsent && r < w->size; r++) free(w->unsent[r].bytes);
    free(w->unsent);
    for (int r = 0; w->received && r < w->size; r++) free(w->received[r].members);
    free(w->received);
    free(w->fd);
    if (w->poller >= 0) close(w->poller);
    free(w);
}

static Status watchdog_make(Watchdog **out, const Comm *world, double seconds, bool threads)
{
    size_t    n = (size_t)world->size;
    Watchdog *w = calloc(1, sizeof *w);
    *out = w;
    if (w) {
        *w = (Watchdog){ .rank = world->rank, .size = world->size, .users = threads ? world->size : 1,
                         .threads = threads, .limit = (int64_t)(seconds * 1e9),
                         .poller = epoll_create1(EPOLL_CLOEXEC) };
        w->identity = calloc(n, sizeof *w->identity);
        w->seen     = calloc(n, sizeof *w->seen);
        w->marked   = calloc(n, sizeof *w->marked);
        w->fd       = calloc(n, sizeof *w->fd);
        w->unsent   = calloc(n, sizeof *w->unsent);
        w->received = calloc(n, sizeof *w->received);
        pthread_mutex_init(&w->lock, NULL);
        pthread_mutex_init(&w->sending, NULL);
    }
    if (!w || !w->identity || !w->seen || !w->marked || !w->fd || !w->unsent || !w->received ||
        w->poller < 0 || pipe2(w->wake, O_CLOEXEC) != 0)
        return fail(NO_MEMORY, "no memory or descriptor for the watchdog of %d ranks", world->size);
    return OK;
}

static void identity_fill(RankIdentity *identity, const Comm *world, Watchdog *w)
{
    *identity = (RankIdentity){ .pid = getpid(), .started = process_start_time(getpid()),
                                .heartbeat = world->heartbeat, .watchdog = w };
    if (gethostname(identity->host, sizeof identity->host - 1) != 0)
        snprintf(identity->host, sizeof identity->host, "?");
}

/* Collective. Gathers all identities and opens the connections. Ranks that are threads get rank 0's
 * watchdog from its identity, since they share its memory. */
static Status exchange_identities(Watchdog **w, Comm *world)
{
    RankIdentity mine, *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the watchdog of %d ranks", world->size);
    identity_fill(&mine, world, *w);
    comm_gather_bytes(world, "watchdog", all, &mine, sizeof mine);
    bool one_host = true;
    for (int r = 0; r < world->size; r++) {
        one_host &= strcmp(all[r].host, all[0].host) == 0;
        if (strcmp(all[r].host, mine.host) != 0 || !is_running(&all[r])) all[r].started = 0;
    }
    if (*w)
        memcpy((*w)->identity, all, (size_t)world->size * sizeof *all);
    else
        *w = all[0].watchdog;
    free(all);
    return (*w)->threads ? OK : heartbeat_tcp_open((*w)->fd, world, one_host);
}

/* The thread waits for descriptor `fd`, and finds it as `number`. */
static void await(Watchdog *w, int fd, int number)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)number };
    CHECK(epoll_ctl(w->poller, EPOLL_CTL_ADD, fd, &event) == 0, "watchdog: epoll: %s", strerror(errno));
}

static void await_all(Watchdog *w)
{
    await(w, w->wake[0], w->size);
    for (int r = 0; r < w->size && !w->threads; r++)
        if (w->fd[r] >= 0) await(w, w->fd[r], r);
}

/* The leader makes the watchdog: every process under MPI, rank 0 among threads. A failure is agreed on,
 * so that no rank runs on without a watchdog that the others expect. */
static Status watchdog_start(Watchdog **watchdog, Comm *world, double seconds)
{
    bool      threads  = world->transport->kind == TRANSPORT_THREADS;
    bool      leader   = !threads || world->rank == 0;
    Watchdog *w        = NULL;
    Status    status   = agree(world, leader ? watchdog_make(&w, world, seconds, threads) : OK);
    if (status == OK) status = exchange_identities(&w, world);
    if (status != OK) {
        watchdog_free(leader ? w : NULL);
        return status;
    }
    if (leader) {
        await_all(w);
        CHECK(pthread_create(&w->thread, NULL, watch, w) == 0,
              "the system refuses a thread for the watchdog");
    }
    if (!threads) atomic_store(&process_watchdog, w);
    *watchdog = w;
    return OK;
}

Status watchdog_open(Watchdog **watchdog, Comm *world, double seconds)
{
    *watchdog = NULL;
    if (world->dry) return OK;
    Status status = seconds > 0 && world->size > 1 ? watchdog_start(watchdog, world, seconds) : OK;
    start_end();
    return status;
}

/* The last rank of the process ends the thread. Its goodbye is sent by the thread itself, after the loop. */
void watchdog_close(Watchdog *w, Comm *world)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    mark_left(w, world->rank);
    bool last = --w->users == 0;
    pthread_mutex_unlock(&w->lock);
    if (!last) return;
    atomic_store(&process_watchdog, NULL);
    close(w->wake[1]);
    pthread_join(w->thread, NULL);
    close(w->wake[0]);
    watchdog_free(w);
}
