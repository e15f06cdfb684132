#ifndef DATA_PREFETCH_H
#define DATA_PREFETCH_H
/* Fills batches on a thread of its own while the step runs. It fills what loader_fill gives, in the order
 * in which a step takes its micro-batches; if another batch is requested than the next one, it restarts
 * there. Its two buffers, of a micro-batch each, are on the host arena, which is pinned where a
 * device copies from it, and after the first steps it allocates nothing.
 *
 *     Prefetch *p;
 *     TRY(prefetch_open(&p, &(PrefetchSetup){ &loader, batch_sizes, order, orders, vocabulary, host }));
 *     status = prefetch_take(p, q, &batch, first, 0);  ... 1, 2 ... count - 1, then those of the next step */
#include "base/batch_schedule.h"
#include "data/loader.h"

/* [count] the micro-batches of a step of so many samples, in the order in which the step takes them. */
typedef struct { int64_t samples; const int *micro; int count; } StepOrder;

typedef struct {
    const Loader *loader;                     /* must not move or change */
    BatchSchedule batch;                      /* the samples of each step */
    const StepOrder *order;                   /* [orders] one for each of its sizes; the caller's */
    int       orders;
    int64_t   vocabulary;
    Arena    *host;                           /* dry: memory is counted and no thread is started */
} PrefetchSetup;

typedef struct Prefetch Prefetch;
Status prefetch_open (Prefetch **prefetch, const PrefetchSetup *setup);
/* Copies the i-th micro-batch of the step that begins at sample `first` into `batch`, which has the shapes of
 * loader_batch_new, in the memory of the queue's device; q NULL: in host memory. Returns loader_fill's Status
 * and message; on failure batch is unchanged. */
Status prefetch_take (Prefetch *prefetch, Queue *q, Batch *batch, int64_t first, int i);
/* Seconds that prefetch_take waited since the last call of this function. */
double prefetch_waited(Prefetch *prefetch);
void   prefetch_close(Prefetch *prefetch);    /* NULL is allowed */
#endif
