/* The choice of a back end by its name, and sums over what the ops have counted. */
#include "tensor/queue.h"

#include <string.h>
#include "base/seam.h"
#include "base/trace.h"
#include "tensor/ops.h"

static Status refuse_cuda(void)
{
    return fail(BAD_OPTION, "--device cuda is not supported yet; use --device cpu");
}

Status queue_open(Queue *q, const char *device, int threads, StepState *step_state)
{
    static const struct { const char *device; const Backend *backend; } table[] = {
        { "ref",     &ref_backend },     { "cpu",     &cpu_backend },
        { "dry-ref", &dry_ref_backend }, { "dry-cpu", &dry_cpu_backend },
    };
    memset(q, 0, sizeof *q);
    q->step_state = step_state;
    q->kernels = kernel_family_best();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(device, table[i].device) == 0) q->backend = table[i].backend;
    if (strcmp(device, "cuda") == 0) return refuse_cuda();
    if (!q->backend)
        return fail(BAD_OPTION, "device %s is unknown; give cpu, ref, dry-cpu or dry-ref", device);
    q->threads = threads;
    return team_open(&q->team, q->backend->dry ? 1 : threads);      /* a dry run computes nothing */
}

void queue_close(Queue *q)
{
    team_close(q->team);
    memset(q, 0, sizeof *q);
}

/* On a CPU an op is done when its call returns. */
void queue_wait(Queue *q) { (void)q; }

void queue_record(Queue *q, int op, int64_t begin, double flops, double bytes)
{
    OpCount *count = &q->count[op];
    Trace   *trace = thread_context()->trace;
    if (trace) trace_add(trace, TRACE_OP, NULL, op_name(op), begin, flops, bytes);
    if (q->timed) count->seconds += (double)(seam.clock() - begin) * 1e-9;
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
