#ifndef DATA_PREFETCH_H
#define DATA_PREFETCH_H
/* Fills batches on a thread of its own while the step runs. It fills what loader_fill gives, in the order
 * in which a step takes its micro-batches; if another batch is requested than the next one, it restarts
 * there. Its two buffers, of a micro-batch each, are on the host arena, and after prefetch_open it allocates
 * nothing.
 *
 *     Prefetch *p;
 *     TRY(prefetch_open(&p, &(PrefetchSetup){ &loader, micro, count, vocabulary, host }));
 *     status = prefetch_take(p, q, &batch, step, 0);  ... 1, 2 ... count - 1, then those of step + 1 */
#include "data/loader.h"

typedef struct {
    const Loader *loader;                     /* must not move; must not change except after prefetch_pause */
    /* [count] micro-batches of a step in the order they are taken; copied. */
    const int *micro;
    int       count;
    int64_t   vocabulary;
    Arena    *host;                           /* dry: memory is counted and no thread is started */
} PrefetchSetup;

typedef struct Prefetch Prefetch;
Status prefetch_open (Prefetch **prefetch, const PrefetchSetup *setup);
/* Copies the i-th micro-batch of a step into `batch`, which has the shapes of loader_batch_new, in the
 * memory of the queue's device; q NULL: in host memory. Returns loader_fill's Status and message; on failure
 * batch is unchanged. */
Status prefetch_take (Prefetch *prefetch, Queue *q, Batch *batch, int64_t step, int i);
/* Seconds that prefetch_take waited since the last call of this function. */
double prefetch_waited(Prefetch *prefetch);
/* Stops reading the loader until the next take, so that it may be changed. */
void   prefetch_pause(Prefetch *prefetch);
void   prefetch_close(Prefetch *prefetch);    /* NULL is allowed */
#endif
