/* The choice of a back end by its name, and sums over what the ops have counted. */
#include "tensor/queue.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/array.h"
#include "base/message.h"
#include "base/seam.h"
#include "base/trace.h"
#include "tensor/cuda/device.h"
#include "tensor/ops.h"

Status queue_open(Queue *q, const char *device, int threads, StepState *step_state)
{
    static const struct { const char *device; const Backend *backend; } table[] = {
        { "ref",     &ref_backend },     { "cpu",     &cpu_backend },
        { "dry-ref", &dry_ref_backend }, { "dry-cpu", &dry_cpu_backend },
    };
    memset(q, 0, sizeof *q);
    q->step_state = q->host_state = step_state;
    q->kernels = kernel_family_best();
    for (size_t i = 0; i < COUNT(table); i++)
        if (strcmp(device, table[i].device) == 0) q->backend = table[i].backend;
    bool cuda = strncmp(device, "cuda", 4) == 0 && (!device[4] || device[4] == ':');
    int  number = cuda && device[4] ? (int)strtol(device + 5, NULL, 10) : 0;
    if (cuda || strcmp(device, "dry-cuda") == 0) TRY(cuda_queue_open(q, !cuda, number));
    if (!q->backend)
        return fail(BAD_OPTION, "device %s is unknown; give cpu, cuda, ref, dry-cpu, dry-cuda or dry-ref",
                    device);
    q->threads = threads;
    Status status = team_open(&q->team, q->backend->dry ? 1 : threads);      /* a dry run computes nothing */
    if (status != OK && q->device) cuda_queue_close(q);
    return status;
}

void queue_close(Queue *q)
{
    if (q->device) cuda_queue_close(q);
    team_close(q->team);
    memset(q, 0, sizeof *q);
}

/* While somebody asks: short waits are spun through, of long ones the processor is given to others. */
static void ask_until(Queue *q, bool (*passed)(const void *what), const void *what)
{
    enum { SPINS = 100, SLEEP_US = 50 };
    if (!q || !q->waiting) return;
    for (int tries = 0; !passed(what); tries++) {
        q->waiting(q->waiting_context);
        if (tries >= SPINS) usleep(SLEEP_US);
    }
}

static void asked(const Queue *q)
{
    if (q && q->waiting) q->waiting(q->waiting_context);
}

static bool all_passed(const void *q)       { return cuda_queue_passed((Queue *)q); }
static bool event_passed(const void *event) { return cuda_event_passed((void *)event); }

/* On a CPU an op is done when its call returns. */
void queue_wait(Queue *q)
{
    if (!q->device) return;
    ask_until(q, all_passed, q);
    cuda_queue_wait(q);
    asked(q);
}

void queue_read(Queue *q, void *host, const void *device, size_t bytes)
{
    if (q->device) {
        ask_until(q, all_passed, q);
        cuda_queue_read(q, host, device, bytes);
        asked(q);
    }
    else if (bytes) memmove(host, device, bytes);
}

void queue_write(Queue *q, void *device, const void *host, size_t bytes)
{
    if (q->device) cuda_queue_write(q, device, host, bytes);
    else if (bytes) memmove(device, host, bytes);
}

void *queue_host_alloc(Queue *q, size_t bytes) { return q->device ? cuda_host_alloc(bytes) : malloc(bytes); }

void queue_host_free(Queue *q, void *memory)
{
    if (q->device) cuda_host_free(memory);
    else free(memory);
}

void queue_read_begin(Queue *q, void *host, const void *device, size_t bytes)
{
    if (q->device) cuda_queue_copy(q, host, device, bytes);
    else queue_read(q, host, device, bytes);
}

void queue_write_begin(Queue *q, void *device, const void *host, size_t bytes)
{
    queue_write(q, device, host, bytes);              /* copies pinned memory when the queue comes to it */
}

Status queue_lane_open(Queue *lane, int number)
{
    memset(lane, 0, sizeof *lane);
    return cuda_lane_open(lane, number);
}

void queue_event_open(QueueEvent *event, const Queue *q)
{
    event->device = q->device ? cuda_event_open() : NULL;
}

void queue_event_close(QueueEvent *event)
{
    if (event->device) cuda_event_close(event->device);
    event->device = NULL;
}

void queue_event_record(QueueEvent *event, Queue *q)
{
    if (q->device) cuda_event_record(event->device, q);
    event->queue = q;
}

bool queue_event_passed(const QueueEvent *event)
{
    return !event->device || cuda_event_passed(event->device);
}

void queue_event_wait(const QueueEvent *event)
{
    if (!event->device) return;
    ask_until(event->queue, event_passed, event->device);
    cuda_event_wait(event->device);
    asked(event->queue);
}

void queue_follow(Queue *q, const QueueEvent *event)
{
    if (q->device && event->device) cuda_queue_follow(q, event->device);
}

bool  queue_passed(Queue *q)       { return !q->device || cuda_queue_passed(q); }
void *queue_stream(const Queue *q) { return q->device ? cuda_queue_stream(q) : NULL; }

Status queue_device_address(char *address, int bytes, int number)
{
    return cuda_address(address, bytes, number);
}

Status queue_device_facts(DeviceFacts *facts, int number) { return cuda_facts(facts, number); }

void queue_state_write(Queue *q)
{
    if (q->device) queue_write(q, q->step_state, q->host_state, sizeof *q->step_state);
}

void queue_state_read_begin(Queue *q)
{
    if (q->device) queue_read_begin(q, q->pinned_state, q->step_state, sizeof *q->step_state);
}

void queue_state_read(Queue *q)
{
    if (q->device) *q->host_state = *q->pinned_state;
}

bool queue_skips(Queue *q)
{
    queue_state_read_begin(q);
    queue_wait(q);
    queue_state_read(q);
    return q->host_state->skip;
}

const char *queue_lacks(const Queue *q)
{
    const Backend *b = q->backend->measured ? q->backend->measured : q->backend;
    const char *lacking = NULL;
#define OP(heat, name, Struct, types, ...) \
    if (!lacking && q->count[OP_##name].calls > 0 && !b->name) lacking = #name;
#include "tensor/ops.def"
#undef OP
    return lacking;
}

int queue_slow(const Queue *q, SlowOps slow[SLOW_OPS])
{
    int count = 0, i;
    for (int op = 0; op < OP_COUNT; op++) {
        const char *why = q->count[op].slow;
        if (!why) continue;
        for (i = 0; i < count && strcmp(slow[i].why, why) != 0; i++);
        if (i == SLOW_OPS) continue;
        if (i == count) slow[count++] = (SlowOps){ .why = why };
        char *ops = slow[i].ops;
        message_add(ops, sizeof slow[i].ops, "%s%s", *ops ? " and " : "", op_name(op));
    }
    return count;
}

void queue_record(Queue *q, int op, int64_t begin, double flops, double bytes)
{
    OpCount *count = &q->count[op];
    Trace   *trace = thread_context()->trace;
    if (trace) trace_add(trace, TRACE_OP, NULL, op_name(op), begin, flops, bytes);
    if (q->timed) count->seconds += seam_seconds_since(begin);
    count->calls   += 1;
    count->flops   += flops;
    count->bytes   += bytes;
}

double queue_flops(const Queue *q)
{
    double sum = 0;
    for (int op = 0; op < OP_COUNT; op++) sum += q->count[op].flops;
    return sum;
}

double queue_bytes(const Queue *q)
{
    double sum = 0;
    for (int op = 0; op < OP_COUNT; op++) sum += q->count[op].bytes;
    return sum;
}
