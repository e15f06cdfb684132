#ifndef TENSOR_QUEUE_H
#define TENSOR_QUEUE_H
/* What a computation runs on. An op is enqueued, not done: the host reads nothing before queue_wait. On a CPU
 * each op is done when its call returns, and queue_wait costs nothing.
 *
 * The tensors of a queue are in the memory of its device, which the host reads and writes by queue_read and
 * queue_write alone. On a CPU that is host memory, and both are copies. */
#include "base/team.h"
#include "tensor/kernel_family.h"
#include "tensor/op.h"
#include "tensor/tensor.h"
#include "tensor/step_state.h"

typedef struct Backend Backend;        /* tensor/ops.h */
/* slow: of a dry queue, what Backend.slow said of the first such call; NULL: of none */
typedef struct { int64_t calls; double seconds, flops, bytes; const char *slow; } OpCount;

/* The first result of an operation in which a NaN or an infinity was found: op and unit as in ThreadContext,
 * and which element of which tensor it is, and which of its arguments have such elements as well. */
typedef struct { bool found; const char *op; int unit; char text[240]; } OpFinding;

typedef struct Queue {
    const Backend *backend;
    KernelFamily   kernels;            /* of the cpu back end; queue_open sets this machine's best */
    Team    *team;
    int      threads;                  /* of the team; in a dry run, of the run that is measured */
    StepState    *step_state;          /* what ops read: in the memory of the device */
    StepState    *host_state;          /* the caller's; on a CPU the same */
    StepState    *pinned_state;        /* where it arrives from the device; owned; NULL on a CPU */
    void         *device;              /* of the back end: a stream (tensor/cuda/stream.h); NULL on a CPU */
    const ArenaMemory *memory;         /* where arenas of its tensors are opened; NULL: in host memory */
    const ArenaMemory *pinned;         /* and arenas of the host from which it copies; NULL: anywhere */
    /* Where ops take the memory that they need while they run; not owned. NULL where no op needs any. */
    Arena   *workspace;
    void    *op_workspace;             /* of the running op, pushed on `workspace`; NULL in a dry run */
    size_t   op_workspace_bytes;
    /* Called again and again while the host waits for the device, and after each wait; NULL: nothing is.
     * Where a message between devices fails the wait would have no end (comm_waiting). */
    void   (*waiting)(void *context);
    void    *waiting_context;
    bool     watch;                    /* a NaN or infinity in the first output of an op is a CHECK */
    OpFinding *finding;                /* the same is written here instead; NULL: it is not looked for */
    bool     timed;                    /* fill count[].seconds */
    OpCount  count[OP_COUNT];          /* by op, in the order of ops.def */
} Queue;

#ifdef __cplusplus
extern "C" {
#endif
/* device: ref, cpu, cuda, or one of these after "dry-". BAD_OPTION for any other, and for cuda where there is
 * no GPU or no kernels for one were built; NO_MEMORY where the threads cannot be started. After a failure
 * there is nothing to close. "cuda:5" is the GPU with that number modulo how many there are, so
 * that ranks may share one. threads: also in a dry run those of the run that is measured,
 * since the workspace of an op depends on them. */
Status queue_open (Queue *q, const char *device, int threads, StepState *step_state);
void   queue_close(Queue *q);
void   queue_wait (Queue *q);                     /* the host may read after this */
/* Copies `bytes` from the device's memory to the host's: waits for all that was enqueued before. */
void   queue_read (Queue *q, void *host, const void *device, size_t bytes);
/* The other way, in the order of the queue; `host` may be changed when it returns. */
void   queue_write(Queue *q, void *device, const void *host, size_t bytes);
/* Memory of the host that a device reads and writes by itself (pinned). NULL where there is not so much. It
 * is freed before the queue is closed. */
void  *queue_host_alloc (Queue *q, size_t bytes);
void   queue_host_free  (Queue *q, void *memory);
/* As queue_read and queue_write, without waiting: `host`, of queue_host_alloc, is complete, or may be
 * changed, after queue_wait. */
void   queue_read_begin (Queue *q, void *host, const void *device, size_t bytes);
void   queue_write_begin(Queue *q, void *device, const void *host, size_t bytes);
/* ---- order between queues of a device, without the host ----
 * A lane is a queue beside others on the GPU with that number (as "cuda:N" has it), for copies and for the
 * calls of libraries, which go before those of other queues: it has no team and runs no ops. Failures as of
 * queue_open; queue_close closes it.
 *
 * What a queue is given after queue_follow runs after what the event's queue had been given at the last
 * queue_event_record. On a CPU all of it is done already: an event is passed, and following waits for
 * nothing. */
typedef struct { void *device; Queue *queue; } QueueEvent;   /* zero, and on a CPU: nothing is recorded */
Status queue_lane_open   (Queue *lane, int number);
void   queue_event_open  (QueueEvent *event, const Queue *q);      /* for queues of q's device */
void   queue_event_close (QueueEvent *event);                      /* does not wait */
void   queue_event_record(QueueEvent *event, Queue *q);
bool   queue_event_passed(const QueueEvent *event);   /* without waiting; any thread may ask */
void   queue_event_wait  (const QueueEvent *event);   /* does not wait where it has passed already */
void   queue_follow (Queue *q, const QueueEvent *event);
bool   queue_passed (Queue *q);                   /* without waiting: all that it was given is done */
void  *queue_stream (const Queue *q);             /* what libraries take: a cudaStream_t; NULL on a CPU */
/* The address of the GPU with that number, which no other one of the host has. BAD_OPTION: there is none. */
Status queue_device_address(char *address, int bytes, int number);
/* Of the GPU with that number: its name as the runtime gives it, "NVIDIA H100 80GB HBM3", its memory, and how
 * many GPUs this process sees. BAD_OPTION: there is none. */
typedef struct { char name[256]; size_t bytes; int devices; } DeviceFacts;
Status queue_device_facts(DeviceFacts *facts, int number);
/* The step's state to the device, before a step, and back after it: what read_begin has asked for is in
 * host_state after queue_wait and queue_state_read. */
void   queue_state_write(Queue *q);
void   queue_state_read_begin(Queue *q);
void   queue_state_read (Queue *q);
/* Whether the present step is skipped, which clip_and_skip decides: waits for a device. */
bool   queue_skips(Queue *q);
/* The name of an op that the queue has counted and for which the back end of its runs has no kernel, e.g. in
 * a dry run on "dry-cuda"; NULL: there is none. */
const char *queue_lacks(const Queue *q);
/* The ops of a dry queue that take slow kernels in its run, up to SLOW_OPS of them: their names, those with
 * the same reason together, "attention_forward and attention_backward". Returns how many. */
enum { SLOW_OPS = 4 };
typedef struct { char ops[64]; const char *why; } SlowOps;
int  queue_slow(const Queue *q, SlowOps slow[SLOW_OPS]);
/* Every op is recorded here when it is done: counted, and where the rank is profiled as an event of its
 * trace. begin: of seam.clock, or 0 where neither the queue is timed nor the rank profiled. */
void   queue_record(Queue *q, int op, int64_t begin, double flops, double bytes);
double queue_flops(const Queue *q);
double queue_bytes(const Queue *q);
#ifdef __cplusplus
}
#endif
#endif
