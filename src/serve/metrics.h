#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H
/* Counters of a server, in Prometheus' text format 0.0.4. All functions may be called by any thread. */
#include <stdatomic.h>
#include <stdint.h>
#include "corpus/read/buffer.h"

typedef enum {
#define COUNTER(name, ...) METRIC_##name,
#define GAUGE(name, ...)   METRIC_##name,
#include "serve/metrics.def"
    METRICS
} Metric;

typedef enum {
#define HISTOGRAM(name, ...) HISTOGRAM_##name,
#include "serve/metrics.def"
    HISTOGRAMS
} MetricHistogram;

enum { METRIC_BUCKETS = 16, METRIC_STATUSES = 600 };

/* bucket: not cumulated; the last one is of what is above all bounds. It begins as { 0 }. */
typedef struct {
    _Atomic int64_t value[METRICS], status[METRIC_STATUSES];
    struct { _Atomic int64_t bucket[METRIC_BUCKETS + 1], nanoseconds; } histogram[HISTOGRAMS];
} ServerMetrics;

static inline void metric_add(ServerMetrics *m, Metric metric, int64_t n) { m->value[metric] += n; }
static inline void metric_set(ServerMetrics *m, Metric metric, int64_t n) { m->value[metric] = n; }
void   metric_answered(ServerMetrics *metrics, int status);                          /* of HTTP */
void   metric_observe(ServerMetrics *metrics, MetricHistogram histogram, int64_t nanoseconds);
/* Appends the page. NO_MEMORY */
Status metrics_write(Buffer *out, ServerMetrics *metrics);
#endif
