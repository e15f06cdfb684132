/* The ring of an ordered pipeline. Item k is in slot k % slots. Three counters, all protected by the lock,
 * say how far each stage is: delivered <= taken <= filled <= delivered + slots. */
#include "base/ordered_pipeline.h"

#include <stdlib.h>
#include "base/seam.h"
#include "base/thread.h"

typedef enum { SLOT_EMPTY, SLOT_FILLED, SLOT_DONE } PipelineSlotState;
typedef struct { PipelineSlotState state; int64_t weight; } PipelineSlot;
/* worker is the number passed to `work`; -1: the reader, which only fills */
typedef struct { OrderedPipeline *pipeline; int worker; pthread_t thread; } PipelineThread;

struct OrderedPipeline {
    OrderedPipelinePlan plan;
    pthread_mutex_t lock;                       /* protects everything below but opener, thread and started */
    pthread_cond_t  change;                     /* broadcast at every change of state */
    /* copied to each thread: a CHECK in `fill` or `work` names the rank */
    ThreadContext   opener;
    PipelineThread *thread;                     /* started of them run */
    PipelineSlot   *slot;                       /* plan.slots of them */
    int             started;
    int             working;                    /* calls of `work` in progress */
    int64_t         filled;                     /* items filled */
    /* items that a worker has begun; without workers equal to filled */
    int64_t         taken;
    int64_t         delivered;                  /* items returned to the caller */
    /* sum over the slots that are not empty, in the user's unit */
    int64_t         weight;
    int64_t         waited;                     /* nanoseconds that the caller has waited */
    bool            filling;                    /* a call of `fill` is in progress, or waits for weight */
    bool            ended;                      /* `fill` returned false */
    bool            paused, closing;
    bool            held;                       /* the caller has item delivered - 1 */
};

/* ---- the threads: they hold the lock except during fill, work and waiting ---- */

static PipelineSlot *slot_of(OrderedPipeline *p, int64_t item) { return &p->slot[item % p->plan.slots]; }

/* A pipeline without items accepts any weight, since an item above the limit would never be accepted
 * otherwise. Closing and pausing end the wait, because the item is dropped or nobody releases slots any
 * more. */
static bool over_weight_limit(const OrderedPipeline *p, int64_t weight)
{
    return p->plan.weight_most && p->weight && p->weight + weight > p->plan.weight_most && !p->closing &&
           !p->paused;
}

/* Fills slot `filled`, which the caller of this function has seen to be empty. `filling` keeps other
 * threads from filling while the lock is released. An item that is filled during a pause is dropped: its
 * slot stays empty. */
static void fill_next(OrderedPipeline *p)
{
    int64_t weight = 0;
    p->filling = true;
    pthread_mutex_unlock(&p->lock);
    bool more = p->plan.fill(p->plan.context, (int)(p->filled % p->plan.slots), &weight);
    pthread_mutex_lock(&p->lock);
    while (more && over_weight_limit(p, weight)) pthread_cond_wait(&p->change, &p->lock);
    p->filling = false;
    p->ended   = !more;
    if (more && !p->paused) {
        *slot_of(p, p->filled++) = (PipelineSlot){ p->plan.work ? SLOT_FILLED : SLOT_DONE, weight };
        p->taken  += !p->plan.work;
        p->weight += weight;
    }
    pthread_cond_broadcast(&p->change);
}

/* Processes item `taken`. Incrementing `taken` under the lock gives the slot to this worker alone. */
static void work_next(OrderedPipeline *p, int worker)
{
    int64_t item = p->taken++;
    p->working++;
    pthread_mutex_unlock(&p->lock);
    p->plan.work(p->plan.context, worker, (int)(item % p->plan.slots));
    pthread_mutex_lock(&p->lock);
    p->working--;
    slot_of(p, item)->state = SLOT_DONE;
    pthread_cond_broadcast(&p->change);
}

/* Processing has priority over filling: it brings the caller's next item nearer, and an item that a worker
 * has just filled itself is still in that core's cache. The loop ends when the pipeline closes or when the
 * last item is taken. */
static void *thread_run(void *argument)
{
    const PipelineThread *t = argument;
    OrderedPipeline *p = t->pipeline;
    bool fills = !p->plan.reader || t->worker < 0;
    *thread_context() = p->opener;
    pthread_mutex_lock(&p->lock);
    while (!p->closing && !(p->ended && p->taken == p->filled)) {
        bool empty = slot_of(p, p->filled)->state == SLOT_EMPTY;
        if (t->worker >= 0 && p->taken < p->filled && !p->paused)              work_next(p, t->worker);
        else if (fills && empty && !p->filling && !p->ended && !p->paused)     fill_next(p);
        else pthread_cond_wait(&p->change, &p->lock);
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
            return fail(NO_MEMORY, "%s: the system cannot start thread %d of %d; use fewer threads",
                        p->plan.what, p->started + 1, threads);
        p->started++;
    }
    return OK;
}

Status ordered_pipeline_open(OrderedPipeline **pipeline, const OrderedPipelinePlan *plan)
{
    bool fills = plan->reader || (plan->workers && !plan->weight_most);
    CHECK(plan->slots > 0 && plan->workers >= 0 && !plan->workers == !plan->work && fills,
          "%s: the plan of %d workers, %d slots and reader %d contradicts itself", plan->what, plan->workers,
          plan->slots, plan->reader);
    OrderedPipeline *p = calloc(1, sizeof *p);
    *pipeline = NULL;
    if (!p) return fail(NO_MEMORY, "%s: no memory for its threads", plan->what);
    *p = (OrderedPipeline){ .plan = *plan, .opener = *thread_context(), .paused = plan->paused };
    p->slot   = calloc((size_t)plan->slots, sizeof *p->slot);
    p->thread = calloc((size_t)plan->workers + 1, sizeof *p->thread);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
    Status status = p->slot && p->thread ? threads_start(p)
                                         : fail(NO_MEMORY, "%s: no memory for its threads", plan->what);
    if (status == OK) *pipeline = p;
    else              ordered_pipeline_close(p);
    return status;
}

/* Empties the caller's slot. The lock is held. */
static void held_release(OrderedPipeline *p)
{
    if (!p->held) return;
    PipelineSlot *slot = slot_of(p, p->delivered - 1);
    p->weight -= slot->weight;
    *slot   = (PipelineSlot){ SLOT_EMPTY, 0 };
    p->held = false;
    pthread_cond_broadcast(&p->change);
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
    CHECK(!p->paused, "%s: ordered_pipeline_next is called while the pipeline is paused", p->plan.what);
    held_release(p);
    const PipelineSlot *slot = slot_of(p, p->delivered);
    /* -1: no wait so far; the clock is not read when the item is already done */
    int64_t begun = -1;
    while (slot->state != SLOT_DONE && !(p->ended && p->delivered == p->filled)) {
        if (begun < 0) begun = seam.clock();
        pthread_cond_wait(&p->change, &p->lock);
    }
    if (begun >= 0) p->waited += seam.clock() - begun;
    p->held   = slot->state == SLOT_DONE;
    p->delivered += p->held;
    int next = p->held ? (int)((p->delivered - 1) % p->plan.slots) : -1;
    pthread_mutex_unlock(&p->lock);
    return next;
}

void ordered_pipeline_pause(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->paused = true;
    pthread_cond_broadcast(&p->change);
    /* Slots may be emptied only when no thread is in a callback that uses one. */
    while (p->filling || p->working) pthread_cond_wait(&p->change, &p->lock);
    for (int i = 0; i < p->plan.slots; i++) p->slot[i] = (PipelineSlot){ SLOT_EMPTY, 0 };
    p->filled = p->taken = p->delivered;
    p->weight = 0;
    p->held   = false;
    pthread_mutex_unlock(&p->lock);
}

void ordered_pipeline_resume(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->paused = false;
    pthread_cond_broadcast(&p->change);
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
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++) pthread_join(p->thread[i].thread, NULL);
    pthread_cond_destroy(&p->change);
    pthread_mutex_destroy(&p->lock);
    free(p->slot);
    free(p->thread);
    free(p);
}
