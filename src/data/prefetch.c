/* A ring of batches. The thread fills the one behind the last that is full; the caller takes the first. All under one lock but the
 * filling itself, which has its batch to itself.                                                                         */
#include "data/prefetch.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/seam.h"

enum { AHEAD = 2 };                             /* one is taken while the other is filled */

typedef struct { Batch batch; int64_t step; int i; Status status; char why[512]; } Ready;

struct Prefetch {
    PrefetchSetup   setup;
    int            *micro;
    pthread_mutex_t lock;
    pthread_cond_t  change;
    pthread_t       thread;
    ThreadContext           place;                      /* of who opened it: for what stops the world */
    bool            started, going, busy, closing;      /* going: there is a next one to fill; busy: it is being filled */
    Ready           ready[AHEAD];
    int             first, full;
    int64_t         step;                       /* of the next to fill, */
    int             i;                          /* and its number in the step */
    int64_t         waited;                     /* nanoseconds */
};

/* ---- the thread ---- */

static void ready_fill(const Prefetch *p, Ready *r)
{
    r->status = loader_fill(p->setup.loader, &r->batch, r->step, p->micro[r->i], p->setup.vocabulary);
    if (r->status != OK) snprintf(r->why, sizeof r->why, "%s", fail_text());
}

static void *thread(void *argument)
{
    Prefetch *p = argument;
    *thread_context() = p->place;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->closing && (!p->going || p->full == AHEAD)) pthread_cond_wait(&p->change, &p->lock);
        if (p->closing) break;
        Ready *r = &p->ready[(p->first + p->full) % AHEAD];
        r->step = p->step;
        r->i    = p->i;
        p->busy = true;
        pthread_mutex_unlock(&p->lock);
        ready_fill(p, r);
        pthread_mutex_lock(&p->lock);
        p->busy = false;
        if (p->going) {                         /* else it was told to rest meanwhile, and this one is wanted no more */
            p->full++;
            p->i = (p->i + 1) % p->setup.count;
            p->step += p->i == 0;
        }
        pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the caller ---- */

/* Signals are for the threads of the run, but for the one that answers a read of a file that was cut. */
static int thread_start(Prefetch *p)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&p->thread, NULL, thread, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

Status prefetch_open(Prefetch **prefetch, const PrefetchSetup *setup)
{
    Prefetch *p = *prefetch = calloc(1, sizeof *p);
    if (!p || !(p->micro = calloc((size_t)setup->count, sizeof *p->micro))) {
        free(p);
        *prefetch = NULL;
        return fail(NO_MEMORY, "no memory to read batches ahead");
    }
    memcpy(p->micro, setup->micro, (size_t)setup->count * sizeof *p->micro);
    p->setup = *setup;
    p->place = *thread_context();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
    for (int i = 0; i < AHEAD; i++) p->ready[i].batch = loader_batch_new(&setup->loader->config, setup->host);
    if (setup->host->dry) return OK;
    p->started = thread_start(p) == 0;
    if (p->started) return OK;
    prefetch_close(p);
    *prefetch = NULL;
    return fail(NO_MEMORY, "the thread that reads batches ahead does not start");
}

static void rest(Prefetch *p)
{
    p->going = false;
    p->full  = 0;
    while (p->busy) pthread_cond_wait(&p->change, &p->lock);
}

void prefetch_rest(Prefetch *p)
{
    pthread_mutex_lock(&p->lock);
    rest(p);
    pthread_mutex_unlock(&p->lock);
}

/* Does the ring hold what is asked for, or begin with it next? */
static bool comes_next(const Prefetch *p, int64_t step, int i)
{
    const Ready *r = &p->ready[p->first];
    return p->going && (p->full ? r->step == step && r->i == i : p->step == step && p->i == i);
}

/* Until the first one is full. It is not the clock's affair where nothing is waited for. */
static void ready_await(Prefetch *p)
{
    if (p->full) return;
    int64_t begun = seam.clock();
    while (!p->full) pthread_cond_wait(&p->change, &p->lock);
    p->waited += seam.clock() - begun;
}

static void tensor_take(Tensor to, Tensor from)
{
    if (tensor_bytes(from)) memcpy(to.data, from.data, tensor_bytes(from));
}

static void batch_copy(Batch *to, const Batch *from)
{
    tensor_take(to->token_i,    from->token_i);
    tensor_take(to->target_i,   from->target_i);
    tensor_take(to->loss_weight_T,   from->loss_weight_T);
    tensor_take(to->position_i, from->position_i);
    tensor_take(to->dropout_index_i,    from->dropout_index_i);
    tensor_take(to->sample_i,   from->sample_i);
    if (from->key_range_i.data) tensor_take(to->key_range_i, from->key_range_i);
}

Status prefetch_take(Prefetch *p, Batch *batch, int64_t step, int i)
{
    CHECK(p->started && i >= 0 && i < p->setup.count, "micro-batch %d of %d, thread %d", i, p->setup.count, p->started);
    pthread_mutex_lock(&p->lock);
    if (!comes_next(p, step, i)) {
        rest(p);
        p->step  = step;
        p->i     = i;
        p->going = true;
        pthread_cond_broadcast(&p->change);
    }
    ready_await(p);
    Ready *r = &p->ready[p->first];
    pthread_mutex_unlock(&p->lock);
    Status status = r->status == OK ? OK : fail(r->status, "%s", r->why);
    if (status == OK) batch_copy(batch, &r->batch);
    pthread_mutex_lock(&p->lock);
    p->first = (p->first + 1) % AHEAD;
    p->full--;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    return status;
}

double prefetch_waited(Prefetch *p)
{
    double seconds = (double)p->waited * 1e-9;
    p->waited = 0;
    return seconds;
}

void prefetch_close(Prefetch *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    if (p->started) pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->change);
    pthread_mutex_destroy(&p->lock);
    free(p->micro);
    free(p);
}
