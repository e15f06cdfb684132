#ifndef TENSOR_QUEUE_H
#define TENSOR_QUEUE_H
/* What a computation runs on. An op is enqueued, not done: the host reads nothing before queue_wait. On a CPU
 * each op is done when its call returns, and queue_wait costs nothing. */
#include "base/team.h"
#include "tensor/kernel_family.h"
#include "tensor/op.h"
#include "tensor/tensor.h"
#include "tensor/step_state.h"

typedef struct Backend Backend;        /* tensor/ops.h */
typedef struct { int64_t calls; double seconds, flops, bytes; } OpCount;

typedef struct Queue {
    const Backend *backend;
    KernelFamily   kernels;            /* of the cpu back end; queue_open sets this machine's best */
    Team    *team;
    int      threads;                  /* of the team; in a dry run, of the run that is measured */
    StepState    *step_state;
    /* Where ops take the memory that they need while they run; not owned. NULL where no op needs any. */
    Arena   *workspace;
    void    *op_workspace;             /* of the running op, pushed on `workspace`; NULL in a dry run */
    size_t   op_workspace_bytes;
    bool     watch;                    /* a NaN or infinity in the first output of an op is a CHECK */
    bool     timed;                    /* fill count[].seconds */
    OpCount  count[OP_COUNT];          /* by op, in the order of ops.def */
} Queue;

#ifdef __cplusplus
extern "C" {
#endif
/* device: ref, cpu, dry-ref or dry-cpu. BAD_OPTION for any other, cuda included; NO_MEMORY where the threads
 * cannot be started. After a failure there is nothing to close. threads: also in a dry run those of the run
 * that is measured, since the workspace of an op depends on them. */
Status queue_open (Queue *q, const char *device, int threads, StepState *step_state);
void   queue_close(Queue *q);
void   queue_wait (Queue *q);                     /* the host may read after this */
/* Every op is recorded here when it is done: counted, and where the rank is profiled as an event of its
 * trace. begin: of seam.clock, or 0 where neither the queue is timed nor the rank profiled. */
void   queue_record(Queue *q, int op, int64_t begin, double flops, double bytes);
double queue_flops(const Queue *q);
double queue_bytes(const Queue *q);
#ifdef __cplusplus
}
#endif
#endif
