/* The watching thread of a process. Rank 0's sees all heartbeats and judges; under MPI the others send theirs to it,
 * watch only rank 0, and hear from it when the job ends. A verdict is one line on stderr and the end of the process
 * with exit code 3: the rank's own thread may sit in the transport for ever, so it is not asked. */
#include "comm/watchdog.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "comm/agree.h"
#include "comm/heartbeat_tcp.h"
#include "comm/start.h"

enum { PERIOD_MS = 250, MISSED_MS = 1000 };       /* a heartbeat each period; later than `missed` is suspicious */
enum { WORK_LIMITS = 10, NOBODY = -1 };           /* so many limits may pass in work on files without a sign of progress */
static const int64_t MS = 1000000;

/* heartbeat, watchdog: among threads alone. born: of the process, in the system's own units; no later one has it. */
typedef struct { char host[64]; int64_t pid; unsigned long long born; Heartbeat *heartbeat; Watchdog *watchdog; } Card;
typedef struct {
    RankProgress    progress;
    int64_t heard;                                    /* when its last heartbeat came */
    int    *needs, count;                             /* whom it waits for, where it waits long */
    bool    left;
} Seen;

struct Watchdog {
    int       rank, size, users;
    bool      together;                               /* all ranks are threads of this process */
    int64_t   limit, awake;                           /* nanoseconds; time before `awake` counts for nobody */
    int64_t   worked;                                 /* nobody's waiting before then counts: a rank worked on files */
    Card     *card;                                   /* by rank */
    Seen     *seen;
    bool     *marked;                                 /* by rank: whom a verdict speaks of */
    int      *fd, *room;
    struct pollfd  *polled;
    int       bell[2];                                /* a pipe: closing it ends the thread */
    pthread_mutex_t lock;                             /* a rank that leaves takes its heartbeat along */
    pthread_t thread;
};

/* ---- words ---- */
typedef struct { char text[2048]; size_t at; } Line;

static void say(Line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(Line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line->text + line->at, sizeof line->text - line->at, format, args);
    va_end(args);
    line->at += n < 0 ? 0 : (size_t)n;
    if (line->at > sizeof line->text - 2) line->at = sizeof line->text - 2;
}

static void say_beat(Line *line, const RankProgress *progress)
{
    if (!*progress->verb)
        say(line, "no collective yet");
    else
        say(line, "%s #%lld of %s", progress->verb, (long long)progress->number, progress->comm);
    if (*progress->verb && progress->step >= 0) say(line, ", step %lld", (long long)progress->step);
    if (*progress->work) say(line, ", busy %s, %lld file operations done", progress->work, (long long)progress->file_calls);
}

static void say_rank(Line *line, const Watchdog *w, int rank)
{
    say(line, "rank %d on host %s", rank, w->card[rank].host);
}

/* "rank 1" or "ranks 0, 2", of the marked ones; returns how many. */
static int say_ranks(Line *line, const bool *marked, int size)
{
    int count = 0, said = 0;
    for (int r = 0; r < size; r++) count += marked[r];
    say(line, count == 1 ? "rank " : "ranks ");
    for (int r = 0; r < size && said < 16; r++)
        if (marked[r]) say(line, "%s%d", said++ ? ", " : "", r);
    if (said < count) say(line, " and %d more", count - said);
    return count;
}

static void tell(const Watchdog *w, HeartbeatFrameKind kind, int victim)
{
    for (int r = 0; r < w->size && !w->together; r++)
        if (w->fd[r] >= 0)
            heartbeat_tcp_send(w->fd[r], &(HeartbeatFrame){ .kind = (int32_t)kind, .rank = w->rank, .victim = victim }, NULL);
}

/* ---- the end ---- */
/* When a process of this host started, field 22 of its stat; 0: it is not there. */
static unsigned long long process_born(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n  = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *at = strrchr(text, ')');                    /* ends field 2, a name that may hold blanks */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

/* A stopped process does not end by itself, and some launchers wait for it. */
static void kill_frozen(const Watchdog *w, int rank)
{
    if (rank < 0 || rank >= w->size || rank == w->rank) return;
    const Card *card = &w->card[rank];
    if (strcmp(card->host, w->card[w->rank].host) == 0 && card->born && process_born(card->pid) == card->born)
        kill((pid_t)card->pid, SIGKILL);
}

static void end_job(Watchdog *w, Line *line, int victim)
{
    line->text[line->at++] = '\n';
    log_write(line->text, line->at);
    kill_frozen(w, victim);
    tell(w, FRAME_STOP, victim);
    _exit(3);
}

/* ---- verdicts ---- */
static bool needs(const Seen *seen, int rank)
{
    for (int i = 0; i < seen->count; i++)
        if (seen->needs[i] == rank) return true;
    return false;
}

static void dead(Watchdog *w, int rank)
{
    if (w->rank > 1) {                                /* rank 0 is gone: rank 1 says it */
        usleep(500000);
        _exit(3);
    }
    Line line = { .at = 0 };
    say(&line, "jotun: ");
    say_rank(&line, w, rank);
    say(&line, " (pid %lld) died; last seen in ", (long long)w->card[rank].pid);
    say_beat(&line, &w->seen[rank].progress);
    say(&line, "; the job is stopped");
    end_job(w, &line, NOBODY);
}

/* Frozen, or in work on files that does not go on: the one verdict on a rank that others wait for wherever they are. */
static void held_up(Watchdog *w, int rank, bool frozen)
{
    const RankProgress *progress = &w->seen[rank].progress;
    bool *marked = w->marked;
    if (w->rank > 1) {                                /* rank 0 it is: rank 1 says it */
        usleep(500000);
        kill_frozen(w, rank);
        _exit(3);
    }
    Line line = { .at = 0 };
    say(&line, "jotun: ");
    say_rank(&line, w, rank);
    if (frozen)
        say(&line, " has been silent for %.3g s, last seen in ", (double)w->limit * 1e-9);
    else
        say(&line, " has made no progress for %.3g s, last seen in ", (double)progress->worked * 1e-9);
    say_beat(&line, progress);
    int waiting = 0;
    for (int r = 0; r < w->size; r++) waiting += marked[r] = r != rank && needs(&w->seen[r], rank);
    if (waiting > 0) {
        say(&line, "; ");
        say_ranks(&line, marked, w->size);
        say(&line, waiting == 1 ? " waits for it" : " wait for it");
    }
    say(&line, "; the job is stopped");
    end_job(w, &line, frozen ? rank : NOBODY);
}

/* Is rank m in what rank r waits in? The two ends of a message have other verbs and the same number. */
static bool in_it(const Watchdog *w, int m, int r)
{
    const RankProgress *a = &w->seen[m].progress, *b = &w->seen[r].progress;
    if (m == r) return true;
    if (a->waited < 0 || a->number != b->number || strcmp(a->comm, b->comm) != 0) return false;
    if (strcmp(b->verb, "send") == 0 || strcmp(b->verb, "recv") == 0)
        return strcmp(a->verb, b->verb) != 0 && needs(&w->seen[m], r);
    return strcmp(a->verb, b->verb) == 0;
}

static void stuck(Watchdog *w, int rank, bool *marked)
{
    Seen *seen = &w->seen[rank];
    Line  line = { .at = 0 };
    for (int m = 0; m < w->size; m++) marked[m] = needs(seen, m) && in_it(w, m, rank);
    say(&line, "jotun: ");
    int waiting = say_ranks(&line, marked, w->size);
    say(&line, " %s waited %.3g s in ", waiting == 1 ? "has" : "have", (double)w->limit * 1e-9);
    say_beat(&line, &seen->progress);
    if (waiting == seen->count) {
        say(&line, ", and all are in it: a message was lost");
    } else {
        for (int m = 0; m < w->size; m++) marked[m] = needs(seen, m) && !in_it(w, m, rank);
        say(&line, "; ");
        int missing = say_ranks(&line, marked, w->size), first = 0;
        while (!marked[first]) first++;
        say(&line, " %s not in it (last: ", missing == 1 ? "is" : "are");
        say_beat(&line, &w->seen[first].progress);
        say(&line, ")");
    }
    say(&line, "; the job is stopped");
    end_job(w, &line, NOBODY);
}

/* Do all whom rank r misses in its wait stand outside any long one? Then they hold up the others. */
static bool heads_queue(const Watchdog *w, int r)
{
    const Seen *seen = &w->seen[r];
    bool missing = false;
    for (int i = 0; i < seen->count; i++)
        if (!in_it(w, seen->needs[i], r)) {
            if (w->seen[seen->needs[i]].progress.waited >= w->limit / 2) return false;
            missing = true;
        }
    return missing;
}

/* The wait to name: the head of the queue, or the longest where they wait in a ring. */
static int head_of_queue(const Watchdog *w)
{
    int longest = 0;
    for (int r = 0; r < w->size; r++) {
        if (heads_queue(w, r)) return r;
        if (w->seen[r].progress.waited > w->seen[longest].progress.waited) longest = r;
    }
    return longest;
}

/* No waiting before the last work on files counts: who waits for it, through others too, waits for a healthy rank. */
static void judge_work(Watchdog *w, int64_t now)
{
    for (int r = 0; r < w->size; r++) {
        if (w->seen[r].left || w->seen[r].progress.worked < 0) continue;
        if (w->seen[r].progress.worked > WORK_LIMITS * w->limit) held_up(w, r, false);
        w->worked = now;
    }
    for (int r = 0; r < w->size; r++)
        if (w->seen[r].progress.waited > now - w->worked) w->seen[r].progress.waited = now - w->worked;
}

static void judge(Watchdog *w, int64_t now)
{
    bool  late = false, over = false;
    int   watched = w->rank == 0 ? w->size : 1;       /* the others watch rank 0 alone */
    if (w->rank == 0) judge_work(w, now);
    for (int r = 0; r < watched; r++) {
        Seen   *seen  = &w->seen[r];
        int64_t since = seen->heard > w->awake ? seen->heard : w->awake;
        if (seen->left) continue;
        if (now - since > w->limit && now - since > 2 * MISSED_MS * MS) held_up(w, r, true);   /* heartbeats come each period only */
        late |= now - since > MISSED_MS * MS;
        over |= seen->progress.waited > w->limit && seen->count > 0;
    }
    if (over && !late && w->rank == 0)      /* a late heartbeat may be a frozen rank: the better word */
        stuck(w, head_of_queue(w), w->marked);
}

/* ---- heartbeats ---- */
static void note(Watchdog *w, int rank, const RankProgress *progress, const int *ranks, int count)
{
    Seen *seen  = &w->seen[rank];
    seen->progress  = *progress;
    seen->heard = seam.clock();
    seen->count = 0;
    int *room   = count > 0 ? realloc(seen->needs, (size_t)count * sizeof *room) : NULL;
    if (!room) return;
    memcpy(room, ranks, (size_t)count * sizeof *room);
    seen->needs = room;
    seen->count = count;
}

static void own_pulse(Watchdog *w, int rank)
{
    int *ranks, count;
    RankProgress progress = heartbeat_look(w->card[rank].heartbeat, w->awake, w->limit / 2, &ranks, &count);
    note(w, rank, &progress, ranks, count);
    HeartbeatFrame frame = { .kind = FRAME_PROGRESS, .rank = rank, .members = count, .progress = progress };
    for (int r = 0; r < w->size && !w->together; r++)
        if (w->fd[r] >= 0) heartbeat_tcp_send(w->fd[r], &frame, ranks);
    free(ranks);
}

static void leave(Watchdog *w, int rank)
{
    w->seen[rank].left        = true;
    w->seen[rank].count       = 0;
    w->seen[rank].progress.waited = -1;
}

static void hear(Watchdog *w, int rank)
{
    HeartbeatFrame frame;
    if (!heartbeat_tcp_recv(w->fd[rank], &frame, w->room, w->size))
        dead(w, rank);
    else if (frame.kind == FRAME_STOP) {               /* whoever stops the job has said why */
        kill_frozen(w, frame.victim);
        tell(w, FRAME_STOP, frame.victim);
        _exit(3);
    }
    else if (frame.kind == FRAME_PROGRESS)
        note(w, rank, &frame.progress, w->room, frame.members);
    else {
        leave(w, rank);
        heartbeat_tcp_send(w->fd[rank], &(HeartbeatFrame){ .kind = FRAME_GOODBYE, .rank = w->rank }, NULL);
        heartbeat_tcp_leave(w->fd[rank]);
        w->fd[rank] = -1;
    }
}

/* Listens for a period; false when the bell has rung. */
static bool listen_for_a_period(Watchdog *w)
{
    int64_t start = seam.clock(), passed = 0;
    do {
        for (int r = 0; r < w->size; r++)
            w->polled[r] = (struct pollfd){ .fd = w->together ? -1 : w->fd[r], .events = POLLIN };
        w->polled[w->size] = (struct pollfd){ .fd = w->bell[0], .events = POLLIN };
        if (poll(w->polled, (nfds_t)w->size + 1, PERIOD_MS - (int)(passed / MS)) <= 0) return true;
        if (w->polled[w->size].revents) return false;
        for (int r = 0; r < w->size; r++)
            if (w->polled[r].revents) hear(w, r);
        passed = seam.clock() - start;
    } while (passed >= 0 && passed < PERIOD_MS * MS);
    return true;
}

static void *watch(void *context)
{
    Watchdog *w    = context;
    int64_t   last = seam.clock();
    w->awake = last;
    do {
        int64_t now = seam.clock();
        if (now - last > 4 * PERIOD_MS * MS)     /* this process itself was stopped, or the clock has jumped */
            w->awake = now;
        last = now;
        pthread_mutex_lock(&w->lock);
        for (int r = 0; r < w->size; r++)
            if ((w->together || r == w->rank) && !w->seen[r].left) own_pulse(w, r);
        judge(w, now);
        pthread_mutex_unlock(&w->lock);
    } while (listen_for_a_period(w));
    tell(w, FRAME_GOODBYE, NOBODY);
    for (int r = 0; r < w->size && !w->together; r++)
        if (w->fd[r] >= 0) heartbeat_tcp_leave(w->fd[r]);
    return NULL;
}

/* ---- opening and closing ---- */
static _Atomic(Watchdog *) of_process;                /* never set among threads */

void watchdog_stopping(void)
{
    Watchdog *w = atomic_load(&of_process);
    if (w) tell(w, FRAME_STOP, NOBODY);
}

void watchdog_work(Comm *world, const char *what)
{
    heartbeat_work(world->heartbeat, what);
}

static void watchdog_free(Watchdog *w)
{
    if (!w) return;
    for (int r = 0; w->seen && r < w->size; r++) free(w->seen[r].needs);
    free(w->seen);
    free(w->marked);
    free(w->card);
    free(w->fd);
    free(w->room);
    free(w->polled);
    free(w);
}

static Status watchdog_make(Watchdog **out, const Comm *world, double seconds, bool together)
{
    size_t    n = (size_t)world->size;
    Watchdog *w = calloc(1, sizeof *w);
    *out = w;
    if (w) {
        *w = (Watchdog){ .rank = world->rank, .size = world->size, .users = together ? world->size : 1,
                         .together = together, .limit = (int64_t)(seconds * 1e9) };
        w->card   = calloc(n, sizeof *w->card);
        w->seen   = calloc(n, sizeof *w->seen);
        w->marked = calloc(n, sizeof *w->marked);
        w->fd     = calloc(n, sizeof *w->fd);
        w->room   = calloc(n, sizeof *w->room);
        w->polled = calloc(n + 1, sizeof *w->polled);
        pthread_mutex_init(&w->lock, NULL);
    }
    if (!w || !w->card || !w->seen || !w->marked || !w->fd || !w->room || !w->polled || pipe2(w->bell, O_CLOEXEC) != 0)
        return fail(NO_MEMORY, "no memory for the watchdog of %d ranks", world->size);
    return OK;
}

static void card_fill(Card *card, const Comm *world, Watchdog *w)
{
    *card = (Card){ .pid = getpid(), .born = process_born(getpid()), .heartbeat = world->heartbeat, .watchdog = w };
    if (gethostname(card->host, sizeof card->host - 1) != 0) snprintf(card->host, sizeof card->host, "?");
}

/* Everyone's card; of threads, all get rank 0's watchdog. */
static Status watchdog_meet(Watchdog **w, Comm *world)
{
    Card mine, *all = malloc((size_t)world->size * sizeof *all);
    CHECK(all, "no memory for the watchdog of %d ranks", world->size);
    card_fill(&mine, world, *w);
    comm_gather_bytes(world, "watchdog", all, &mine, sizeof mine);
    bool one_host = true;
    for (int r = 0; r < world->size; r++) one_host &= strcmp(all[r].host, all[0].host) == 0;
    if (*w)
        memcpy((*w)->card, all, (size_t)world->size * sizeof *all);
    else
        *w = all[0].watchdog;
    free(all);
    return (*w)->together ? OK : heartbeat_tcp_open((*w)->fd, world, one_host);
}

static Status watchdog_start(Watchdog **watchdog, Comm *world, double seconds)
{
    bool      together = strcmp(world->transport->name, "threads") == 0;
    bool      leader   = !together || world->rank == 0;
    Watchdog *w        = NULL;
    Status    status   = agree(world, leader ? watchdog_make(&w, world, seconds, together) : OK);
    if (status == OK) status = watchdog_meet(&w, world);
    if (status != OK) {
        watchdog_free(leader ? w : NULL);
        return status;
    }
    if (leader)
        CHECK(pthread_create(&w->thread, NULL, watch, w) == 0, "no thread for the watchdog");
    if (!together) atomic_store(&of_process, w);
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

void watchdog_close(Watchdog *w, Comm *world)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    leave(w, world->rank);
    bool last = --w->users == 0;
    pthread_mutex_unlock(&w->lock);
    if (!last) return;
    atomic_store(&of_process, NULL);
    close(w->bell[1]);
    pthread_join(w->thread, NULL);
    close(w->bell[0]);
    watchdog_free(w);
}
