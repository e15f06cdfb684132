#ifndef DATA_PREFETCH_H
#define DATA_PREFETCH_H
/* Batches made ready by a thread of its own while the step runs. What it fills is what loader_fill gives, in the order in which a step
 * takes its micro-batches; where another step is asked for than the one that comes next, it begins anew there. Its batches lie on the
 * host arena, and after prefetch_open it allocates nothing.
 *
 *     Prefetch *p;
 *     TRY(prefetch_open(&p, &(PrefetchSetup){ &loader, micro, count, vocabulary, host }));
 *     status = prefetch_take(p, &batch, step, 0);  ... 1, 2 ... count - 1, then those of step + 1                            */
#include "data/loader.h"

typedef struct {
    const Loader *loader;                     /* stays where it is, and as it is but for prefetch_rest */
    const int *micro;                         /* micro-batches of a step in the order they are taken; copied */
    int       count;
    int64_t   vocabulary;
    Arena    *host;                           /* dry: counted, nothing is started */
} PrefetchSetup;

typedef struct Prefetch Prefetch;
Status prefetch_open (Prefetch **prefetch, const PrefetchSetup *setup);
/* The i-th micro-batch of a step into `batch`, which has the shapes of the loader's. What loader_fill said; then batch is as it was. */
Status prefetch_take (Prefetch *prefetch, Batch *batch, int64_t step, int i);
double prefetch_waited(Prefetch *prefetch);   /* seconds that prefetch_take waited for data since the last call of this */
void   prefetch_rest (Prefetch *prefetch);    /* the loader is not looked at until the next take: so that it may be changed */
void   prefetch_close(Prefetch *prefetch);    /* NULL is fine */
#endif
