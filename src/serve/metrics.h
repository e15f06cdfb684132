#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H
/* Counters of a server and of each of its models, in Prometheus' text format 0.0.4. All functions may be
 * called by any thread. */
#include <stdatomic.h>
#include <stdint.h>
#include "base/buffer.h"

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

/* Of a model. bucket: not cumulated; the last one is of what is above all bounds. It begins as { 0 }. */
typedef struct {
    _Atomic int64_t value[METRICS];
    struct { _Atomic int64_t bucket[METRIC_BUCKETS + 1], nanoseconds; } histogram[HISTOGRAMS];
} ModelMetrics;

/* Of the server. It begins as { 0 }. */
typedef struct { _Atomic int64_t connections, status[METRIC_STATUSES]; } ServerMetrics;

/* name: the model's, the value of the label */
typedef struct { const char *name; ModelMetrics *metrics; } NamedMetrics;

static inline void metric_add(ModelMetrics *m, Metric metric, int64_t n) { m->value[metric] += n; }
static inline void metric_set(ModelMetrics *m, Metric metric, int64_t n) { m->value[metric] = n; }
void   metric_observe(ModelMetrics *metrics, MetricHistogram histogram, int64_t nanoseconds);
void   metric_answered(ServerMetrics *metrics, int status);                          /* of HTTP */
/* Appends the page. NO_MEMORY */
Status metrics_write(Buffer *out, ServerMetrics *server, const NamedMetrics *model, int models);
#endif
