/* The page that Prometheus reads. */
#include "serve/metrics.h"
#include <stdbool.h>
#include <string.h>
#include "base/array.h"
#include "base/json_text.h"
#include "base/utf8.h"

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

void metric_observe(ModelMetrics *m, MetricHistogram histogram, int64_t nanoseconds)
{
    int i = 0;
    while (i < METRIC_BUCKETS && (double)nanoseconds > bound[i] * 1e9) i++;
    m->histogram[histogram].bucket[i]++;
    m->histogram[histogram].nanoseconds += nanoseconds;
}

static Status head(Buffer *out, const char *name, const char *help, const char *type)
{
    return buffer_format(out, "# HELP jotun_%s %s\n# TYPE jotun_%s %s\n", name, help, name, type);
}

/* model="NAME", as the format escapes it; what is not UTF-8 becomes U+FFFD. */
static Status label(Buffer *out, const char *name)
{
    Buffer repaired = { 0 };
    Status status = utf8_repair(&repaired, name, (int64_t)strlen(name));
    if (status == OK) status = buffer_format(out, "model=\"");
    for (int64_t i = 0; status == OK && i < repaired.bytes; i++) {
        char c = repaired.text[i];
        if (c == '\n')                     status = buffer_add(out, "\\n", 2);
        else if (c == '\\' || c == '"')     status = buffer_format(out, "\\%c", c);
        else                               status = buffer_add(out, &c, 1);
    }
    buffer_free(&repaired);
    return status == OK ? buffer_add(out, "\"", 1) : status;
}

/* jotun_NAMEsuffix{model="...", to be closed by the caller */
static Status series(Buffer *out, const char *name, const char *suffix, const char *model)
{
    TRY(buffer_format(out, "jotun_%s%s{", name, suffix));
    return label(out, model);
}

/* The buckets of the format are cumulated. */
static Status histogram_write(Buffer *out, const NamedMetrics *of, int h)
{
    const char *name = histogram_rows[h].name;
    ModelMetrics *m = of->metrics;
    long long sum = 0;
    for (int i = 0; i <= METRIC_BUCKETS; i++) {
        sum += m->histogram[h].bucket[i];
        TRY(series(out, name, "_bucket", of->name));
        if (i < METRIC_BUCKETS) TRY(buffer_format(out, ",le=\"%g\"} %lld\n", bound[i], sum));
        else                    TRY(buffer_format(out, ",le=\"+Inf\"} %lld\n", sum));
    }
    TRY(series(out, name, "_sum", of->name));
    TRY(buffer_format(out, "} %.9f\n", (double)m->histogram[h].nanoseconds / 1e9));
    TRY(series(out, name, "_count", of->name));
    return buffer_format(out, "} %lld\n", sum);
}

static Status server_write(Buffer *out, ServerMetrics *m)
{
    TRY(head(out, "requests_total", "answers by their status of HTTP", "counter"));
    for (int i = 0; i < METRIC_STATUSES; i++)
        if (m->status[i])
            TRY(buffer_format(out, "jotun_requests_total{status=\"%d\"} %lld\n", i,
                                 (long long)m->status[i]));
    TRY(head(out, "connections", "open connections", "gauge"));
    return buffer_format(out, "jotun_connections %lld\n", (long long)m->connections);
}

Status metrics_write(Buffer *out, ServerMetrics *server, const NamedMetrics *model, int models)
{
    TRY(server_write(out, server));
    for (size_t i = 0; i < COUNT(value_rows); i++) {
        const char *name = value_rows[i].name;
        TRY(head(out, name, value_rows[i].help, value_rows[i].grows ? "counter" : "gauge"));
        for (int k = 0; k < models; k++) {
            TRY(series(out, name, "", model[k].name));
            TRY(buffer_format(out, "} %lld\n", (long long)model[k].metrics->value[value_rows[i].metric]));
        }
    }
    for (int h = 0; h < HISTOGRAMS; h++) {
        TRY(head(out, histogram_rows[h].name, histogram_rows[h].help, "histogram"));
        for (int k = 0; k < models; k++) TRY(histogram_write(out, &model[k], h));
    }
    return OK;
}
