/* A fork-join thread pool. A worker spins for some microseconds before it sleeps, since the next
 * operation of a step usually follows at once and a wake-up through the kernel costs more than a small
 * operation. */
#include "base/team.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/thread.h"

/* Polls of some 20 ns: 50 microseconds, in which the caller does what one thread does between two products
 * of a token, such as a norm. A wake-up through the kernel costs 20 to 50. */
enum { SPINS = 2500 };

/* The threads of all pools of the process that have several. With more of them than cores, as of ranks that
 * are threads or of two models of one server, a thread that spins would keep a core from one that has
 * work. */
static atomic_int process_threads;

typedef struct { Team *team; pthread_t thread; int index; } Worker;

/* The items of a thread that nobody has claimed: [next, end). In a cache line of its own, since its thread
 * alone writes to it most of the time. */
typedef struct { _Alignas(64) _Atomic int64_t next; int64_t end; } Share;

struct Team {
    int             threads;                   /* the caller included */
    int             started;                   /* threads that run beside the caller */
    int             cores;                     /* of the process, when the pool was made */
    Worker         *worker;                    /* threads - 1 of them; the caller works as well */
    pthread_mutex_t lock;
    pthread_cond_t  wake, finished, passed;    /* for the workers; for the caller; for those at a barrier */
    atomic_long     jobs;                      /* jobs posted so far; incremented under the lock */
    atomic_int      busy;                      /* threads that have not finished the job */
    atomic_bool     closing;
    /* The job. The caller writes it before it increments jobs and workers read it after they see the
     * increment. Both are sequentially consistent, so the writes are visible to the workers; busy reaching
     * 0 orders the opposite way. */
    TeamThreadBody *run;
    void           *run_context;
    /* copied to the workers, so that their CHECKs name the caller's rank */
    ThreadContext   caller;
    /* The loop of team_for, which is a job as well. */
    TeamBody       *body;
    void           *context;
    int64_t         n, chunk;                  /* items, items in a chunk */
    _Atomic int64_t next;                      /* the first item that no thread has claimed */
    Share          *share;                     /* [threads], of team_claim */
    /* The barrier. */
    atomic_int      arrived;                   /* threads that wait at it */
    atomic_long     barriers;                  /* barriers that all threads have passed */
    /* The hook, and when it was called last, in ns of a clock that is read without a system call. */
    void          (*poll)(void *context);
    void           *poll_context;
    int64_t         polled;
};

enum { POLL_PERIOD = 50000 };                  /* ns */

/* Tells a core that shares its execution units with another hardware thread that this one only polls. */
static void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Claims chunks until none is left. Which thread runs a chunk varies, what a chunk computes does not. */
static void run_chunks(void *context, int thread, int threads)
{
    Team *team = context;
    (void)threads;
    for (;;) {
        int64_t begin = atomic_fetch_add(&team->next, team->chunk);
        if (begin >= team->n) return;
        int64_t left = team->n - begin;
        team->body(team->context, begin, begin + (left < team->chunk ? left : team->chunk));
        if (thread == 0) team_poll(team);
    }
}

void team_poll_hook(Team *team, void (*poll)(void *context), void *context)
{
    team->poll         = poll;
    team->poll_context = context;
}

void team_poll(Team *team)
{
    struct timespec now;
    if (!team->poll || clock_gettime(CLOCK_MONOTONIC, &now) != 0) return;
    int64_t time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (time - team->polled < POLL_PERIOD) return;
    team->poll(team->poll_context);
    team->polled = time;
}

/* Polls before a thread sleeps */
static int spins(const Team *team) { return atomic_load(&process_threads) <= team->cores ? SPINS : 0; }

/* Waits until more jobs are posted than this worker has done. The counter is checked again under the lock,
 * under which it is incremented, so that a wake-up between the check and the wait cannot be lost. */
static void await_job(Team *team, long done)
{
    for (int i = 0, most = spins(team); i < most && atomic_load(&team->jobs) == done; i++) spin_pause();
    if (atomic_load(&team->jobs) != done) return;
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->jobs) == done) pthread_cond_wait(&team->wake, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void *worker(void *argument)
{
    const Worker *self = argument;
    Team *team = self->team;
    for (long done = 0;; done++) {
        await_job(team, done);
        if (atomic_load(&team->closing)) return NULL;
        *thread_context() = team->caller;
        team->run(team->run_context, self->index, team->threads);
        if (atomic_fetch_sub(&team->busy, 1) > 1) continue;
        /* The last one signals under the lock, or the caller could test busy, miss the signal and sleep
         * for ever. */
        pthread_mutex_lock(&team->lock);
        pthread_cond_signal(&team->finished);
        pthread_mutex_unlock(&team->lock);
    }
}

static void post_job(Team *team)
{
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->jobs, 1);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
}

static void await_workers(Team *team)
{
    for (int i = 0, most = spins(team); i < most && atomic_load(&team->busy); i++) spin_pause();
    if (!atomic_load(&team->busy)) return;
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->busy)) pthread_cond_wait(&team->finished, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void team_run(Team *team, TeamThreadBody *body, void *context)
{
    if (team->threads == 1) {
        body(context, 0, 1);
        return;
    }
    team->run         = body;
    team->run_context = context;
    team->caller      = *thread_context();
    atomic_store(&team->busy, team->threads - 1);
    post_job(team);
    body(context, 0, team->threads);
    await_workers(team);
}

void team_for(Team *team, int64_t n, int64_t chunk, TeamBody *body, void *context)
{
    CHECK(chunk > 0, "team_for needs chunks of 1 item or more, got %lld", (long long)chunk);
    if (n <= 0) return;
    team->body    = body;
    team->context = context;
    team->n       = n;
    team->chunk   = chunk;
    atomic_store(&team->next, 0);
    if (n <= chunk) run_chunks(team, 0, 1);    /* a single chunk: waking the workers would only cost time */
    else team_run(team, run_chunks, team);
}

void team_share(Team *team, int64_t n)
{
    for (int t = 0; t < team->threads; t++) {
        atomic_store_explicit(&team->share[t].next, n * t / team->threads, memory_order_relaxed);
        team->share[t].end = n * (t + 1) / team->threads;
    }
}

/* `next` is read first, so that claims that fail do not write to the lines of others again and again. */
int64_t team_claim(Team *team, int thread)
{
    for (int i = 0; i < team->threads; i++) {
        Share *share = &team->share[(thread + i) % team->threads];
        if (atomic_load_explicit(&share->next, memory_order_relaxed) >= share->end) continue;
        int64_t item = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
        if (item < share->end) return item;
    }
    return -1;
}

/* The last thread to arrive lets the others go. It resets `arrived` before it does, because a thread that
 * is let go may arrive at the next barrier at once. */
void team_barrier(Team *team)
{
    if (team->threads == 1) return;
    long passed = atomic_load(&team->barriers);
    if (atomic_fetch_add(&team->arrived, 1) == team->threads - 1) {
        atomic_store(&team->arrived, 0);
        pthread_mutex_lock(&team->lock);
        atomic_fetch_add(&team->barriers, 1);
        pthread_cond_broadcast(&team->passed);
        pthread_mutex_unlock(&team->lock);
        return;
    }
    for (int i = 0, most = spins(team); i < most && atomic_load(&team->barriers) == passed; i++) spin_pause();
    if (atomic_load(&team->barriers) != passed) return;
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->barriers) == passed) pthread_cond_wait(&team->passed, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

Status team_open(Team **out, int threads)
{
    *out = NULL;
    if (threads < 1) return fail(BAD_OPTION, "%d threads: a thread pool needs 1 or more", threads);
    Team *team = calloc(1, sizeof *team);
    if (!team) return fail(NO_MEMORY, "no memory for a pool of %d threads", threads);
    team->threads = threads;
    team->cores   = team_cores();
    team->worker  = calloc((size_t)threads, sizeof *team->worker);
    team->share   = aligned_alloc(_Alignof(Share), (size_t)threads * sizeof *team->share);
    if (threads > 1) atomic_fetch_add(&process_threads, threads);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->finished, NULL);
    pthread_cond_init(&team->passed, NULL);
    int error = team->worker && team->share ? 0 : ENOMEM, started = 0;
    for (; !error && started < threads - 1; started = team->started) {
        Worker *next = &team->worker[started];
        *next = (Worker){ .team = team, .index = started + 1 };
        error = thread_start(&next->thread, worker, next);
        team->started += !error;
    }
    if (!error) {
        *out = team;
        return OK;
    }
    team_close(team);
    return fail(NO_MEMORY, "the system cannot start thread %d of %d: %s", started + 2, threads,
                strerror(error));
}

/* Posts an empty job, which the workers answer by returning because `closing` is set before it. */
void team_close(Team *team)
{
    if (!team) return;
    atomic_store(&team->closing, true);
    post_job(team);
    for (int i = 0; i < team->started; i++) pthread_join(team->worker[i].thread, NULL);
    pthread_cond_destroy(&team->passed);
    pthread_cond_destroy(&team->finished);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    if (team->threads > 1) atomic_fetch_sub(&process_threads, team->threads);
    free(team->worker);
    free(team->share);
    free(team);
}

int team_size(const Team *team) { return team->threads; }

int team_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return CPU_COUNT(&set);
}
