#ifndef BASE_TRACE_H
#define BASE_TRACE_H
/* What a rank does, with times, while it is profiled. Only the rank's own thread records:
 * thread_context()->trace is its trace, or NULL, and then nothing is measured. Memory is bounded: of more
 * events than there is room for, the later ones are only counted. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* TRACE_STEP holds all others of its step. TRACE_WAIT: the rank waits for a message. TRACE_MESSAGE: from the
 * beginning of a message that was waited for later to the end of that wait; the rank does other things. */
typedef enum { TRACE_OP, TRACE_WAIT, TRACE_MESSAGE, TRACE_STEP } TraceKind;
/* name: of the op, or "dp all-gather"; begin, end: nanoseconds of seam.clock; own: of them those that are in
 * no other op or wait within this one, since messages progress, and sums are computed, within both; bytes: of
 * a message those that this rank sends */
typedef struct {
    char      name[40];
    TraceKind kind;
    int       step;
    int64_t   begin, end, own;
    double    flops, bytes;
} TraceEvent;
typedef struct Trace { TraceEvent *event; int64_t count, size, lost; int step; } Trace;

Status trace_open (Trace *trace, int64_t size);           /* NO_MEMORY */
void   trace_close(Trace *trace);                         /* also of one that is all zero */
/* Records an event that ends now. group: goes before the name, with a blank; NULL: nothing does. */
void   trace_add  (Trace *trace, TraceKind kind, const char *group, const char *name, int64_t begin,
                   double flops, double bytes);
#endif
