/* The page that Prometheus reads. */
#include "serve/metrics.h"
#include <stdbool.h>
#include "corpus/read/json_text.h"

static const double bound[METRIC_BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
                                              5, 10, 30, 60, 300 };

/* grows: a counter */
static const struct { Metric metric; bool grows; const char *name, *help; } value_rows[] = {
#define COUNTER(name, help) { METRIC_##name, true,  #name "_total", help },
#define GAUGE(name, help)   { METRIC_##name, false, #name, help },
#include "serve/metrics.def"
};

static const struct { const char *name, *help; } histogram_rows[] = {
#define HISTOGRAM(name, help) { #name, help },
#include "serve/metrics.def"
};

void metric_answered(ServerMetrics *m, int status)
{
    if (status >= 0 && status < METRIC_STATUSES) m->status[status]++;
}

void metric_observe(ServerMetrics *m, MetricHistogram histogram, int64_t nanoseconds)
{
    int i = 0;
    while (i < METRIC_BUCKETS && (double)nanoseconds > bound[i] * 1e9) i++;
    m->histogram[histogram].bucket[i]++;
    m->histogram[histogram].nanoseconds += nanoseconds;
}

static Status head(Buffer *out, const char *name, const char *help, const char *type)
{
    return json_text_format(out, "# HELP jotun_%s %s\n# TYPE jotun_%s %s\n", name, help, name, type);
}

/* The buckets of the format are cumulated. */
static Status histogram_write(Buffer *out, ServerMetrics *m, int h)
{
    const char *name = histogram_rows[h].name;
    long long sum = 0;
    TRY(head(out, name, histogram_rows[h].help, "histogram"));
    for (int i = 0; i < METRIC_BUCKETS; i++) {
        sum += m->histogram[h].bucket[i];
        TRY(json_text_format(out, "jotun_%s_bucket{le=\"%g\"} %lld\n", name, bound[i], sum));
    }
    sum += m->histogram[h].bucket[METRIC_BUCKETS];
    TRY(json_text_format(out, "jotun_%s_bucket{le=\"+Inf\"} %lld\n", name, sum));
    return json_text_format(out, "jotun_%s_sum %.9f\njotun_%s_count %lld\n", name,
                            (double)m->histogram[h].nanoseconds / 1e9, name, sum);
}

Status metrics_write(Buffer *out, ServerMetrics *m)
{
    TRY(head(out, "requests_total", "answers by their status of HTTP", "counter"));
    for (int i = 0; i < METRIC_STATUSES; i++)
        if (m->status[i])
            TRY(json_text_format(out, "jotun_requests_total{status=\"%d\"} %lld\n", i,
                                 (long long)m->status[i]));
    for (size_t i = 0; i < sizeof value_rows / sizeof value_rows[0]; i++) {
        const char *name = value_rows[i].name;
        TRY(head(out, name, value_rows[i].help, value_rows[i].grows ? "counter" : "gauge"));
        TRY(json_text_format(out, "jotun_%s %lld\n", name, (long long)m->value[value_rows[i].metric]));
    }
    for (int h = 0; h < HISTOGRAMS; h++) TRY(histogram_write(out, m, h));
    return OK;
}
