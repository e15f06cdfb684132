/* Slot k % slots holds the k-th filling. One lock is enough, since what goes round is a millisecond's work. */
#include "corpus/belt.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

typedef enum { EMPTY, FULL, DONE } SlotState;
typedef struct { SlotState state; int64_t weight; } Slot;
typedef struct { Belt *belt; int number; } Worker;

struct Belt {
    BeltPlan        plan;
    pthread_mutex_t lock;
    pthread_cond_t  change;
    pthread_t      *thread;                     /* who fills, then the workers */
    Worker         *worker;
    Slot           *slot;
    int             started;
    int64_t         filled, taken, given;       /* each counter only grows */
    int64_t         weight;
    bool            finished, closing;          /* finished: nothing more will be filled */
};

static void *working(void *argument)
{
    const Worker *w = argument;
    Belt *b = w->belt;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (b->taken == b->filled && !b->finished && !b->closing) pthread_cond_wait(&b->change, &b->lock);
        if (b->closing || b->taken == b->filled) break;
        int slot = (int)(b->taken++ % b->plan.slots);
        pthread_mutex_unlock(&b->lock);
        b->plan.work(b->plan.context, w->number, slot);
        pthread_mutex_lock(&b->lock);
        b->slot[slot].state = DONE;
        pthread_cond_broadcast(&b->change);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- filling ---- */

/* The next slot when it is empty; -1 when all is to end */
static int slot_await(Belt *b)
{
    int slot = (int)(b->filled % b->plan.slots);
    pthread_mutex_lock(&b->lock);
    while (b->slot[slot].state != EMPTY && !b->closing) pthread_cond_wait(&b->change, &b->lock);
    bool closing = b->closing;
    pthread_mutex_unlock(&b->lock);
    return closing ? -1 : slot;
}

/* What is heavy waits until there is room for it, at the latest until it is alone. */
static void slot_give(Belt *b, int slot, int64_t weight)
{
    pthread_mutex_lock(&b->lock);
    while (b->weight && b->weight + weight > b->plan.weight_most && !b->closing) pthread_cond_wait(&b->change, &b->lock);
    b->weight += weight;
    b->slot[slot] = (Slot){ FULL, weight };
    b->filled++;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
}

static void *filling(void *argument)
{
    Belt *b = argument;
    int64_t weight = 0;
    for (int slot; (slot = slot_await(b)) >= 0 && b->plan.fill(b->plan.context, slot, &weight); ) slot_give(b, slot, weight);
    pthread_mutex_lock(&b->lock);
    b->finished = true;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- the caller ---- */

/* Signals are for the thread that asked. */
static int threads_start(Belt *b)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (!error && b->started <= b->plan.workers) {
        Worker *w = &b->worker[b->started];
        *w    = (Worker){ b, b->started - 1 };
        error = pthread_create(&b->thread[b->started], NULL, b->started ? working : filling, b->started ? (void *)w : b);
        b->started += !error;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

Status belt_open(Belt **belt, const BeltPlan *plan)
{
    *belt = NULL;
    CHECK(plan->workers > 0 && plan->slots > 0, "%d workers, %d slots", plan->workers, plan->slots);
    Belt *b = calloc(1, sizeof *b);
    if (!b) return fail(NO_MEMORY, "no memory for %d workers", plan->workers);
    b->plan   = *plan;
    b->slot   = calloc((size_t)plan->slots, sizeof *b->slot);
    b->thread = calloc((size_t)plan->workers + 1, sizeof *b->thread);
    b->worker = calloc((size_t)plan->workers + 1, sizeof *b->worker);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->change, NULL);
    Status status = OK;
    if (!b->slot || !b->thread || !b->worker) status = fail(NO_MEMORY, "no memory for %d workers", plan->workers);
    else if (threads_start(b)) status = fail(NO_MEMORY, "--workers %d: thread %d does not start; ask for fewer", plan->workers, b->started);
    if (status == OK) *belt = b;
    else              belt_close(b);
    return status;
}

int belt_next(Belt *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->given) {                                     /* the slot of before goes back */
        Slot *before = &b->slot[(b->given - 1) % b->plan.slots];
        b->weight -= before->weight;
        *before = (Slot){ EMPTY, 0 };
        pthread_cond_broadcast(&b->change);
    }
    int slot = (int)(b->given % b->plan.slots);
    while (b->slot[slot].state != DONE && !(b->finished && b->given == b->filled)) pthread_cond_wait(&b->change, &b->lock);
    bool more = b->slot[slot].state == DONE;
    pthread_mutex_unlock(&b->lock);
    b->given += more;
    return more ? slot : -1;
}

void belt_close(Belt *b)
{
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < b->started; i++) pthread_join(b->thread[i], NULL);
    pthread_cond_destroy(&b->change);
    pthread_mutex_destroy(&b->lock);
    free(b->slot);
    free(b->thread);
    free(b->worker);
    free(b);
}
