#include "logs/metrics_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define HISTORY "--history"

/* ---- what earlier runs left ---- */
/* The step of a line; -1: it has none. Every line of ours begins with it. */
static int64_t line_step(const char *line, size_t bytes, bool csv)
{
    static const char begin[] = "{\"step\":";
    size_t skip = csv ? 0 : sizeof begin - 1;
    int64_t step = 0;
    if (bytes <= skip || (!csv && memcmp(line, begin, skip) != 0)) return -1;
    if (line[skip] < '0' || line[skip] > '9') return -1;
    for (size_t i = skip; i < bytes && line[i] >= '0' && line[i] <= '9' && step < INT64_MAX / 16; i++)
        step = 10 * step + (line[i] - '0');
    return step;
}

/* Up to the end of the last line that is not of a later step; a header and foreign lines are none. csv: a
 * bool */
static LogKept lines_kept(void *csv, const FileMap *map, int64_t resumed)
{
    const char *text = (const char *)map->data;
    LogKept     kept = { 0 };
    for (size_t at = 0, next; at < map->size; at = next) {
        const char *end = memchr(text + at, '\n', map->size - at);
        if (!end) break;
        next = (size_t)(end - text) + 1;
        kept.removed++;
        if (line_step(text + at, next - at, *(const bool *)csv) <= resumed)
            kept = (LogKept){ .bytes = next };
    }
    return kept;
}

/* ---- the columns of a CSV file ---- */
static bool same_key(int fact, const char *key, size_t bytes)
{
    const char *own = fact == METRICS_SPLIT ? "split" : log_fact_rows[fact].key;
    return strlen(own) == bytes && memcmp(own, key, bytes) == 0;
}

/* The header of a new file: "step", "split", then each key once, in the order of the rows. */
static void own_columns(MetricsFile *m)
{
    for (int fact = 0; fact < LOG_FACTS; fact++) {
        const char *key = log_fact_rows[fact].key;
        bool seen = !*key || (log_fact_rows[fact].when == LOG_WITH_HISTORY && !m->history);
        for (int i = 0; i < m->columns && !seen; i++) seen = same_key(m->column[i], key, strlen(key));
        if (!seen) m->column[m->columns++] = fact;
        if (fact == FACT_step) m->column[m->columns++] = METRICS_SPLIT;
    }
}

static void add_header(MetricsFile *m)
{
    m->line.bytes = 0;
    for (int i = 0; i < m->columns; i++) {
        if (i > 0) buffer_add_text_or_stop(&m->line, ",");
        bool split = m->column[i] == METRICS_SPLIT;
        buffer_add_text_or_stop(&m->line, split ? "split" : log_fact_rows[m->column[i]].key);
    }
    buffer_add_text_or_stop(&m->line, "\n");
    log_file_add(&m->file, m->line.text, m->line.bytes);
}

static int fact_of(const char *key, size_t bytes)
{
    for (int fact = 0; fact <= METRICS_SPLIT; fact++)
        if (bytes > 0 && same_key(fact, key, bytes)) return fact;
    return METRICS_UNKNOWN;
}

/* The columns of a header; those of an earlier version may be fewer. */
static Status columns_of(MetricsFile *m, const char *header, size_t bytes)
{
    const char *path = m->file.path;
    for (size_t at = 0, size; at <= bytes; at += size + 1) {
        const char *end = memchr(header + at, ',', bytes - at);
        size = end ? (size_t)(end - header) - at : bytes - at;
        if (m->columns == METRICS_COLUMNS_MAX)
            return fail(BAD_FILE, "%s %s has more than %d columns; give another file", m->file.option, path,
                        METRICS_COLUMNS_MAX);
        m->column[m->columns++] = fact_of(header + at, size);
    }
    if (m->column[0] == FACT_step) return OK;
    return fail(BAD_FILE, "%s %s: its first line is not a header that begins with \"step\"; give "
                "another file", m->file.option, path);
}

static Status columns_open(MetricsFile *m)
{
    struct stat about;
    FileMap map;
    if (fstat(m->file.fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        TRY(file_map(&map, m->file.path));
        const char *text = (const char *)map.data, *end = memchr(text, '\n', map.size);
        Status status = columns_of(m, text, end ? (size_t)(end - text) : 0);
        file_unmap(&map);
        return status;
    }
    own_columns(m);
    add_header(m);
    return OK;
}

/* ---- */
Status metrics_file_open(MetricsFile *m, const char *option, const char *path, int64_t resumed)
{
    size_t length = strlen(path);
    *m = (MetricsFile){ .csv = length > 4 && strcasecmp(path + length - 4, ".csv") == 0,
                        .history = !strcmp(option, HISTORY) };
    LogCut cut = { .option = option, .place = path, .records = "lines", .resumed = resumed,
                   .kept = lines_kept, .context = &m->csv };
    if (resumed > 0) TRY(log_cut(&cut, path));
    log_cut_tell(&cut);
    TRY(log_file_open(&m->file, option, path, false));
    log_file_end_line(&m->file);
    return m->csv ? columns_open(m) : OK;
}

/* JSON has no NaN and no infinity: they are written as null. */
static void add_json(MetricsFile *m, const LogRecord *r)
{
    char number[40];
    const char *before = "{\"";
    for (int i = 0; i < r->count; i++) {
        const LogFactRow *row = &log_fact_rows[r->value[i].fact];
        if (!*row->key || (row->when == LOG_WITH_HISTORY && !m->history)) continue;
        buffer_add_text_or_stop(&m->line, before);
        buffer_add_text_or_stop(&m->line, row->key);
        buffer_add_text_or_stop(&m->line, "\":");
        buffer_add_text_or_stop(&m->line, log_number(number, row->form, r->value[i].value, "null"));
        before = ",\"";
        if (i > 0 || !r->split) continue;
        buffer_add_text_or_stop(&m->line, ",\"split\":\"");
        buffer_add_text_or_stop(&m->line, r->split);
        buffer_add_text_or_stop(&m->line, "\"");
    }
    buffer_add_text_or_stop(&m->line, "}\n");
}

/* An evaluation's row has the name of its split, a training step's "train". A value that is not finite is
 * nan, one that the record lacks is empty. */
static void add_row(MetricsFile *m, const LogRecord *r)
{
    char number[40];
    for (int c = 0; c < m->columns; c++) {
        if (c > 0) buffer_add_text_or_stop(&m->line, ",");
        if (m->column[c] == METRICS_SPLIT) buffer_add_text_or_stop(&m->line, r->split ? r->split : "train");
        if (m->column[c] >= LOG_FACTS) continue;
        const char *key = log_fact_rows[m->column[c]].key;
        for (int i = 0; i < r->count; i++) {
            const LogFactRow *row = &log_fact_rows[r->value[i].fact];
            if (strcmp(row->key, key) != 0) continue;
            buffer_add_text_or_stop(&m->line, log_number(number, row->form, r->value[i].value, "nan"));
        }
    }
    buffer_add_text_or_stop(&m->line, "\n");
}

void metrics_file_add(MetricsFile *m, const LogRecord *r)
{
    if (!m->file.open) return;
    m->line.bytes = 0;
    if (m->csv) add_row(m, r);
    else        add_json(m, r);
    log_file_add(&m->file, m->line.text, m->line.bytes);
}

/* The split "sample" is no data set's, so that who reads losses passes over the line. */
void metrics_file_add_sample(MetricsFile *m, const LogSample *s)
{
    char head[100];
    if (!m->file.open || m->csv) return;
    char *prompt = log_quoted(s->prompt), *text = log_quoted(s->text);
    snprintf(head, sizeof head, "{\"step\":%lld,\"split\":\"sample\",\"sample\":%lld,\"prompt\":",
             (long long)s->step, (long long)s->number);
    const char *part[] = { head, prompt, ",\"text\":", text, "}\n" };
    m->line.bytes = 0;
    for (int i = 0; i < 5; i++) buffer_add_text_or_stop(&m->line, part[i]);
    log_file_add(&m->file, m->line.text, m->line.bytes);
    free(prompt);
    free(text);
}

Status metrics_file_close(MetricsFile *m, Status status, const char *saved)
{
    buffer_free(&m->line);
    return log_file_close(&m->file, status, saved);
}
