/* A list of events that does not grow. */
#include "base/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/seam.h"

/* Room that is kept for steps, so that a trace which is full of others still tells how long those took. */
enum { STEPS = 1000 };

Status trace_open(Trace *trace, int64_t size)
{
    size  += STEPS;
    *trace = (Trace){ .size = size, .event = malloc((size_t)size * sizeof *trace->event) };
    if (!trace->event) return fail(NO_MEMORY, "no memory for a profile of %lld events", (long long)size);
    /* Touched here, so that no page fault is measured. */
    memset(trace->event, 0, (size_t)size * sizeof *trace->event);
    return OK;
}

void trace_close(Trace *trace)
{
    free(trace->event);
    *trace = (Trace){ 0 };
}

static bool is_computed(TraceKind kind) { return kind == TRACE_OP || kind == TRACE_WAIT; }

/* Events are in the order of their ends, so those within the one that ends now are the last ones. */
static int64_t time_within(const Trace *trace, int64_t begin)
{
    int64_t within = 0;
    for (int64_t i = trace->count - 1; i >= 0 && trace->event[i].end > begin; i--)
        if (is_computed(trace->event[i].kind)) within += trace->event[i].own;
    return within;
}

void trace_add(Trace *trace, TraceKind kind, const char *group, const char *name, int64_t begin,
               double flops, double bytes)
{
    int64_t end = seam.clock();
    int64_t room = trace->size - (kind == TRACE_STEP ? 0 : STEPS);
    if (trace->count >= room) {
        trace->lost++;
        return;
    }
    TraceEvent *event = &trace->event[trace->count];
    *event = (TraceEvent){ .kind = kind, .step = trace->step, .begin = begin, .end = end, .flops = flops,
                           .bytes = bytes, .own = end - begin };
    if (is_computed(kind)) event->own -= time_within(trace, begin);
    snprintf(event->name, sizeof event->name, "%s%s%s", group ? group : "", group ? " " : "", name);
    trace->count++;
}
