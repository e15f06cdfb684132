#include "logs/log_record.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/array.h"
#include "base/message.h"
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

const double *log_value(const LogRecord *r, const char *fact)
{
    for (int i = 0; i < r->count; i++)
        if (!strcmp(log_fact_names[r->value[i].fact], fact)) return &r->value[i].value;
    return NULL;
}

int log_other_line(char *out, size_t size, LogLine line, const LogRecord *r, const char *text)
{
    const LogLineForm *form = &compat_line_forms[line];
    time_t second = (time_t)floor(r->time);
    struct tm when;
    char date[32], exact[48], number[160];
    localtime_r(&second, &when);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &when);
    snprintf(exact, sizeof exact, "%s.%06d", date, (int)((r->time - (double)second) * 1e6));
    const struct { const char *fact, *text; } texts[] = { { "date", date }, { "exact_date", exact },
                                                          { "text", text } };
    int fields = 0;
    *out = 0;
    for (const LogLinePart *part = compat_line_parts; part->format; part++) {
        if (!(part->lines >> line & 1)) continue;
        for (int i = 0; i < COUNT(texts); i++)
            if (!strcmp(texts[i].fact, part->fact)) message_add(out, size, part->format, texts[i].text);
        const double *value = log_value(r, part->fact);
        if (!value || (part->when == KNOWN && isnan(*value)) || (part->when == POSITIVE && !(*value > 0)))
            continue;
        double x = isnan(*value) ? NAN : *value;                 /* Python writes no sign before nan */
        double unit = pow(10, part->round - 1);
        if (part->round && isfinite(x)) x = nearbyint(x * unit) / unit;
        snprintf(number, sizeof number, part->format, x);
        if (!part->label) message_add(out, size, "%s", number);
        else {
            message_add(out, size, "%s", fields++ ? form->between : "");
            message_add(out, size, form->field, text, part->label, number);
        }
    }
    message_add(out, size, "%s", form->end);
    return (int)strlen(out);
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

char *log_option(char key[LOG_OPTION_NAME], const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    CHECK(text, "no memory for the text of %s", name);
    snprintf(key, LOG_OPTION_NAME, "%s", name);
    for (char *c = key; *c; c++)
        if (*c == '-') *c = '_';
    return text;
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
