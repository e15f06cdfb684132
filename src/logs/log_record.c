#include "logs/log_record.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/status.h"

const LogFactRow log_fact_rows[LOG_FACTS] = {
#define FACT(name, form, key, tag, twin, when) { form, key, tag, twin, when },
#include "logs/facts.def"
};
const char *const log_fact_names[LOG_FACTS] = {
#define FACT(name, ...) [FACT_##name] = #name,
#include "logs/facts.def"
};

static double present(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

LogRecord log_record(int64_t step, int64_t samples, const char *split)
{
    LogRecord r = { .step = step, .samples = samples, .split = split, .time = present() };
    log_put(&r, FACT_step, (double)step);
    return r;
}

void log_put(LogRecord *r, LogFact fact, double value)
{
    CHECK(r->count < LOG_FACTS, "a log record holds each fact once");
    r->value[r->count].fact  = fact;
    r->value[r->count].value = value;
    r->count++;
}

LogSample log_sample(int64_t step, int64_t number, const char *prompt, const char *text)
{
    return (LogSample){ step, number, present(), prompt, text };
}

char *log_quoted(const char *text)
{
    json_t *value = json_string(text);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    CHECK(quoted, "no memory for a text of %zu bytes", strlen(text));
    json_decref(value);
    return quoted;
}

const char *log_number(char out[40], LogForm form, double x, const char *other)
{
    const char *text = other;
    if (!isfinite(x)) return snprintf(out, 40, "%s", text), out;
    switch (form) {
    case LOG_EXACT: snprintf(out, 40, "%.17g", x);             break;
    case LOG_COUNT: snprintf(out, 40, "%lld", (long long)x);   break;
    case LOG_MICRO: snprintf(out, 40, "%.6f", x);              break;
    case LOG_TENTH: snprintf(out, 40, "%.1f", x);              break;
    case LOG_SHORT: snprintf(out, 40, "%.6g", x);              break;
    case LOG_TRUE:  snprintf(out, 40, "true");                 break;
    }
    return out;
}
