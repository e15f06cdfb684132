/* A bounded buffer between a producer, workers and one consumer, under one lock and one condition
 * variable.
 *
 * Slot k % slots holds the k-th item. Three counters follow the items in order: `filled` counts those that
 * fill has made, `claimed` those that a worker has taken, `delivered` those that the caller has received.
 * Always delivered <= claimed <= filled <= delivered + slots, since a slot is filled again only when it is
 * empty: that is the back-pressure.
 *
 * All fields are read and written with the lock held. fill and work run without it; a slot's state and the
 * counters make sure that one thread at a time uses the slot's data, and the lock orders their accesses to
 * it. */
#include "base/ordered_pipeline.h"

#include <stdlib.h>
#include "base/seam.h"
#include "base/thread.h"

typedef enum { SLOT_EMPTY, SLOT_FILLED, SLOT_DONE } PipelineSlotState;
typedef struct { PipelineSlotState state; int64_t weight; } PipelineSlot;
/* Worker -1: reader. */
typedef struct { OrderedPipeline *pipeline; int worker; pthread_t thread; } PipelineThread;

struct OrderedPipeline {
    OrderedPipelinePlan plan;
    pthread_mutex_t lock;
    /* Signalled after every changed that another thread may wait for. */
    pthread_cond_t  changed;
    /* Of the opening thread: a CHECK in `fill` or `work` names its rank. */
    ThreadContext   opener;
    PipelineThread *thread;                     /* [workers + reader] */
    PipelineSlot   *slot;                       /* [slots] */
    int             started, working;           /* threads that run; calls of `work` in progress */
    int64_t         filled, claimed, delivered;
    int64_t         weight, waited;             /* of all slots that are not empty; nanoseconds */
    /* A call of `fill` is in progress; `fill` has returned false. */
    bool            filling, ended;
    bool            paused, closing;
    bool            held;                       /* the caller has item delivered - 1 */
};

/* ---- the threads ---- */

static PipelineSlot *slot_of(OrderedPipeline *p, int64_t item) { return &p->slot[item % p->plan.slots]; }

/* The limit does not apply while no slot has weight: one item that is heavier than the limit must not wait
 * forever. */
static bool too_heavy(const OrderedPipeline *p, int64_t weight)
{
    return p->plan.weight_most && p->weight && p->weight + weight > p->plan.weight_most && !p->closing &&
        !p->paused;
}

/* Fills the next slot; `filling` keeps other threads from it while the lock is released. A filled item
 * whose weight exceeds the limit waits here, before it is counted. */
static void next_fill(OrderedPipeline *p)
{
    int64_t weight = 0;
    p->filling = true;
    pthread_mutex_unlock(&p->lock);
    bool more = p->plan.fill(p->plan.context, (int)(p->filled % p->plan.slots), &weight);
    pthread_mutex_lock(&p->lock);
    while (more && too_heavy(p, weight)) pthread_cond_wait(&p->changed, &p->lock);
    p->filling = false;
    p->ended   = !more;
    if (more && !p->paused) {
        *slot_of(p, p->filled++) = (PipelineSlot){ p->plan.work ? SLOT_FILLED : SLOT_DONE, weight };
        p->claimed += !p->plan.work;
        p->weight  += weight;
    }
    pthread_cond_broadcast(&p->changed);
}

static void next_work(OrderedPipeline *p, int worker)
{
    int64_t item = p->claimed++;
    p->working++;
    pthread_mutex_unlock(&p->lock);
    p->plan.work(p->plan.context, worker, (int)(item % p->plan.slots));
    pthread_mutex_lock(&p->lock);
    p->working--;
    slot_of(p, item)->state = SLOT_DONE;
    pthread_cond_broadcast(&p->changed);
}

/* Work has priority over filling: a filled item can be worked on at once, and a worker finds what it has
 * just filled in its CPU cache. */
static void *thread_run(void *argument)
{
    const PipelineThread *t = argument;
    OrderedPipeline *p = t->pipeline;
    bool fills = !p->plan.reader || t->worker < 0;
    *thread_context() = p->opener;
    pthread_mutex_lock(&p->lock);
    while (!p->closing && !(p->ended && p->claimed == p->filled)) {
        bool empty = slot_of(p, p->filled)->state == SLOT_EMPTY;
        if (t->worker >= 0 && p->claimed < p->filled && !p->paused)        next_work(p, t->worker);
        else if (fills && empty && !p->filling && !p->ended && !p->paused) next_fill(p);
        else pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the caller ---- */

static Status threads_start(OrderedPipeline *p)
{
    int threads = p->plan.workers + p->plan.reader;
    while (p->started < threads) {
        PipelineThread *t = &p->thread[p->started];
        t->pipeline = p;
        t->worker   = p->started - p->plan.reader;
        if (thread_start(&t->thread, thread_run, t))
            return fail(NO_MEMORY, "%s: thread %d of %d does not start; ask for fewer", p->plan.what,
                        p->started + 1, threads);
        p->started++;
    }
    return OK;
}

Status ordered_pipeline_open(OrderedPipeline **pipeline, const OrderedPipelinePlan *plan)
{
    bool fills = plan->reader || (plan->workers && !plan->weight_most);
    CHECK(plan->slots > 0 && plan->workers >= 0 && !plan->workers == !plan->work && fills,
          "%d workers, %d slots, reader %d", plan->workers, plan->slots, plan->reader);
    OrderedPipeline *p = calloc(1, sizeof *p);
    *pipeline = NULL;
    if (!p) return fail(NO_MEMORY, "%s: no memory for its threads", plan->what);
    *p = (OrderedPipeline){ .plan = *plan, .opener = *thread_context(), .paused = plan->paused };
    p->slot   = calloc((size_t)plan->slots, sizeof *p->slot);
    p->thread = calloc((size_t)plan->workers + 1, sizeof *p->thread);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    Status status = p->slot &&
        p->thread ? threads_start(p) : fail(NO_MEMORY, "%s: no memory for its threads", plan->what);
    if (status == OK) *pipeline = p;
    else              ordered_pipeline_close(p);
    return status;
}

/* Empties the caller's slot; the lock is held. */
static void held_release(OrderedPipeline *p)
{
    if (!p->held) return;
    PipelineSlot *slot = slot_of(p, p->delivered - 1);
    p->weight -= slot->weight;
    *slot   = (PipelineSlot){ SLOT_EMPTY, 0 };
    p->held = false;
    pthread_cond_broadcast(&p->changed);
}

void ordered_pipeline_release(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    held_release(p);
    pthread_mutex_unlock(&p->lock);
}

int ordered_pipeline_next(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    CHECK(!p->paused, "%s: the next item of a paused pipeline was requested", p->plan.what);
    held_release(p);
    const PipelineSlot *slot = slot_of(p, p->delivered);
    int64_t begun = -1;                         /* the clock is read only if there is something to wait for */
    while (slot->state != SLOT_DONE && !(p->ended && p->delivered == p->filled)) {
        if (begun < 0) begun = seam.clock();
        pthread_cond_wait(&p->changed, &p->lock);
    }
    if (begun >= 0) p->waited += seam.clock() - begun;
    p->held       = slot->state == SLOT_DONE;
    p->delivered += p->held;
    int next = p->held ? (int)((p->delivered - 1) % p->plan.slots) : -1;
    pthread_mutex_unlock(&p->lock);
    return next;
}

/* Waits for calls in progress, then drops all items: counting starts again at the next item to deliver. */
void ordered_pipeline_pause(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->paused = true;
    pthread_cond_broadcast(&p->changed);
    while (p->filling || p->working) pthread_cond_wait(&p->changed, &p->lock);
    for (int i = 0; i < p->plan.slots; i++) p->slot[i] = (PipelineSlot){ SLOT_EMPTY, 0 };
    p->filled = p->claimed = p->delivered;
    p->weight = 0;
    p->held   = false;
    pthread_mutex_unlock(&p->lock);
}

void ordered_pipeline_resume(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->paused = false;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

int64_t ordered_pipeline_waited(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    int64_t waited = p->waited;
    p->waited = 0;
    pthread_mutex_unlock(&p->lock);
    return waited;
}

void ordered_pipeline_close(OrderedPipeline *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++) pthread_join(p->thread[i].thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->slot);
    free(p->thread);
    free(p);
}
