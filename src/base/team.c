#include "base/team.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/thread.h"

enum { SPINS = 256 };                          /* some microseconds: the time between two ops */

struct Team {
    int             threads, started;
    int             spins;
    pthread_t      *thread;                    /* threads - 1 of them; the caller works as well */
    pthread_mutex_t lock;
    pthread_cond_t  wake, rest;
    atomic_long     jobs;                      /* raised under the lock when a job is ready */
    atomic_int      busy;                      /* threads that have not finished the job */
    atomic_bool     closing;
    /* the job; written before jobs is raised, read after */
    TeamBody       *body;
    void           *context;
    int64_t         n, chunk;
    ThreadContext           place;
    _Atomic int64_t next;
};

static void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void work(Team *team)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&team->next, team->chunk);
        if (begin >= team->n) return;
        int64_t left = team->n - begin;
        team->body(team->context, begin, begin + (left < team->chunk ? left : team->chunk));
    }
}

static void await_job(Team *team, long done)
{
    for (int i = 0; i < team->spins && atomic_load(&team->jobs) == done; i++) pause_a_little();
    if (atomic_load(&team->jobs) != done) return;
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->jobs) == done) pthread_cond_wait(&team->wake, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void *worker(void *argument)
{
    Team *team = argument;
    for (long done = 0;; done++) {
        await_job(team, done);
        if (atomic_load(&team->closing)) return NULL;
        *thread_context() = team->place;                /* a stop in here names the rank it works for */
        work(team);
        if (atomic_fetch_sub(&team->busy, 1) > 1) continue;
        pthread_mutex_lock(&team->lock);
        pthread_cond_signal(&team->rest);
        pthread_mutex_unlock(&team->lock);
    }
}

static void raise_job(Team *team)
{
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->jobs, 1);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
}

static void await_rest(Team *team)
{
    for (int i = 0; i < team->spins && atomic_load(&team->busy); i++) pause_a_little();
    if (!atomic_load(&team->busy)) return;
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->busy)) pthread_cond_wait(&team->rest, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void team_for(Team *team, int64_t n, int64_t chunk, TeamBody *body, void *context)
{
    CHECK(chunk > 0, "team_for wants chunks of 1 or more, got %lld", (long long)chunk);
    if (n <= 0) return;
    team->body    = body;
    team->context = context;
    team->n       = n;
    team->chunk   = chunk;
    team->place   = *thread_context();
    atomic_store(&team->next, 0);
    if (team->threads == 1 || n <= chunk) {    /* nothing to share */
        work(team);
        return;
    }
    atomic_store(&team->busy, team->threads - 1);
    raise_job(team);
    work(team);
    await_rest(team);
}

Status team_open(Team **out, int threads)
{
    *out = NULL;
    if (threads < 1) return fail(BAD_OPTION, "%d threads cannot work; 1 or more can", threads);
    Team *team = calloc(1, sizeof *team);
    if (team) team->thread = calloc((size_t)threads, sizeof *team->thread);
    if (!team || !team->thread) {
        free(team);
        return fail(NO_MEMORY, "no memory for a team of %d threads", threads);
    }
    team->threads = threads;
    team->spins   = threads <= team_cores() ? SPINS : 0;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->rest, NULL);
    int error = 0;
    while (!error && team->started < threads - 1) {
        error = thread_start(&team->thread[team->started], worker, team);
        team->started += !error;
    }
    if (!error) {
        *out = team;
        return OK;
    }
    int started = team->started;
    team_close(team);
    return fail(NO_MEMORY, "thread %d of %d does not start: %s", started + 2, threads, strerror(error));
}

void team_close(Team *team)
{
    if (!team) return;
    atomic_store(&team->closing, true);
    raise_job(team);
    for (int i = 0; i < team->started; i++) pthread_join(team->thread[i], NULL);
    pthread_cond_destroy(&team->rest);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    free(team->thread);
    free(team);
}

int team_size(const Team *team) { return team->threads; }

int team_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return CPU_COUNT(&set);
}
