/* Slot k % slots holds the k-th item. An item is counted by `filled`, then by `taken` when a worker has it, then by `given`. */
#include "base/ordered_pipeline.h"

#include <stdlib.h>
#include "base/seam.h"
#include "base/thread.h"

typedef enum { SLOT_EMPTY, SLOT_FILLED, SLOT_DONE } PipelineSlotState;
typedef struct { PipelineSlotState state; int64_t weight; } PipelineSlot;
typedef struct { OrderedPipeline *pipeline; int worker; pthread_t thread; } PipelineThread;     /* worker -1: the reader */

struct OrderedPipeline {
    OrderedPipelinePlan plan;
    pthread_mutex_t lock;
    pthread_cond_t  change;
    ThreadContext           place;                      /* of the opening thread: a CHECK in `fill` or `work` names its rank */
    PipelineThread *thread;
    PipelineSlot   *slot;
    int             started, working;           /* threads that run; calls of `work` under way */
    int64_t         filled, taken, given;
    int64_t         weight, waited;             /* of all slots that are not empty; nanoseconds */
    bool            filling, ended, paused, closing;
    bool            held;                       /* item given - 1 is with the caller */
};

/* ---- the threads; the lock is held but for the calls of fill and work ---- */

static PipelineSlot *slot_of(OrderedPipeline *p, int64_t item) { return &p->slot[item % p->plan.slots]; }

static bool too_heavy(const OrderedPipeline *p, int64_t weight)
{
    return p->plan.weight_most && p->weight && p->weight + weight > p->plan.weight_most && !p->closing && !p->paused;
}

static void next_fill(OrderedPipeline *p)
{
    int64_t weight = 0;
    p->filling = true;
    pthread_mutex_unlock(&p->lock);
    bool more = p->plan.fill(p->plan.context, (int)(p->filled % p->plan.slots), &weight);
    pthread_mutex_lock(&p->lock);
    while (more && too_heavy(p, weight)) pthread_cond_wait(&p->change, &p->lock);
    p->filling = false;
    p->ended   = !more;
    if (more && !p->paused) {
        *slot_of(p, p->filled++) = (PipelineSlot){ p->plan.work ? SLOT_FILLED : SLOT_DONE, weight };
        p->taken  += !p->plan.work;
        p->weight += weight;
    }
    pthread_cond_broadcast(&p->change);
}

static void next_work(OrderedPipeline *p, int worker)
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

/* Work comes before filling: what is filled waits for nobody, and a worker keeps what it has just filled in its cache. */
static void *thread_run(void *argument)
{
    const PipelineThread *t = argument;
    OrderedPipeline *p = t->pipeline;
    bool fills = !p->plan.reader || t->worker < 0;
    *thread_context() = p->place;
    pthread_mutex_lock(&p->lock);
    while (!p->closing && !(p->ended && p->taken == p->filled)) {
        bool empty = slot_of(p, p->filled)->state == SLOT_EMPTY;
        if (t->worker >= 0 && p->taken < p->filled && !p->paused)              next_work(p, t->worker);
        else if (fills && empty && !p->filling && !p->ended && !p->paused)     next_fill(p);
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
            return fail(NO_MEMORY, "%s: thread %d of %d does not start; ask for fewer", p->plan.what, p->started + 1, threads);
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
    *p = (OrderedPipeline){ .plan = *plan, .place = *thread_context(), .paused = plan->paused };
    p->slot   = calloc((size_t)plan->slots, sizeof *p->slot);
    p->thread = calloc((size_t)plan->workers + 1, sizeof *p->thread);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
    Status status = p->slot && p->thread ? threads_start(p) : fail(NO_MEMORY, "%s: no memory for its threads", plan->what);
    if (status == OK) *pipeline = p;
    else              ordered_pipeline_close(p);
    return status;
}

/* With the lock */
static void held_release(OrderedPipeline *p)
{
    if (!p->held) return;
    PipelineSlot *slot = slot_of(p, p->given - 1);
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
    CHECK(!p->paused, "%s: the next item of a paused pipeline is asked for", p->plan.what);
    held_release(p);
    const PipelineSlot *slot = slot_of(p, p->given);
    int64_t begun = -1;                         /* the clock is read only where there is something to wait for */
    while (slot->state != SLOT_DONE && !(p->ended && p->given == p->filled)) {
        if (begun < 0) begun = seam.clock();
        pthread_cond_wait(&p->change, &p->lock);
    }
    if (begun >= 0) p->waited += seam.clock() - begun;
    p->held   = slot->state == SLOT_DONE;
    p->given += p->held;
    int next = p->held ? (int)((p->given - 1) % p->plan.slots) : -1;
    pthread_mutex_unlock(&p->lock);
    return next;
}

void ordered_pipeline_pause(OrderedPipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->paused = true;
    pthread_cond_broadcast(&p->change);
    while (p->filling || p->working) pthread_cond_wait(&p->change, &p->lock);
    for (int i = 0; i < p->plan.slots; i++) p->slot[i] = (PipelineSlot){ SLOT_EMPTY, 0 };
    p->filled = p->taken = p->given;
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
