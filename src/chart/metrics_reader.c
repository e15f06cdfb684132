#include "chart/metrics_reader.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/file.h"

Status metrics_reader_open(MetricsReader *r, const char *path, const char *const *key, int keys)
{
    CHECK(keys <= METRICS_READ_MAX, "%d keys of metrics; there is room for %d", keys, METRICS_READ_MAX);
    *r = (MetricsReader){ .key = key, .keys = keys };
    return file_stream(&r->in, path);
}

void metrics_reader_close(MetricsReader *r)
{
    if (r->in) fclose(r->in);
    free(r->line);
    *r = (MetricsReader){ 0 };
}

static void line_put(MetricsReader *r, int c)
{
    ARRAY_RESERVE_OR_STOP(r->line, r->room, r->bytes + 2);
    r->line[r->bytes++] = (char)c;
    r->line[r->bytes] = '\0';
}

bool metrics_reader_line(MetricsReader *r)
{
    bool too_long;
    do {
        int c;
        r->bytes = 0;
        too_long = false;
        while ((c = getc_unlocked(r->in)) != EOF && c != '\n')
            if (r->bytes < METRICS_LINE_MOST) line_put(r, c);
            else too_long = true;
        if (c == EOF) return false;
        r->lines++;
        r->strange += too_long;
    } while (too_long);
    if (r->bytes == 0) line_put(r, ' '), r->bytes = 0, r->line[0] = '\0';
    return true;
}

/* ---- a flat JSON object ---- */

static const char *blanks(const char *c) { return c + strspn(c, " \t\r\n"); }

/* Behind the quote that ends the text; NULL: there is none. */
static const char *text_end(const char *c)
{
    for (c++; *c && *c != '"'; c++)
        if (*c == '\\' && !*++c) return NULL;
    return *c ? c + 1 : NULL;
}

/* Behind an object or an array, however deep. */
static const char *nested_end(const char *c)
{
    int64_t depth = 0;
    do {
        if (!*c) return NULL;
        if (*c == '"') {
            c = text_end(c);
            if (!c) return NULL;
            continue;
        }
        depth += *c == '{' || *c == '[';
        depth -= *c == '}' || *c == ']';
        c++;
    } while (depth > 0);
    return c;
}

/* Behind the value; NULL: it is none. */
static const char *value_read(double *value, const char *c)
{
    char *end;
    *value = NAN;
    if (*c == '"') return text_end(c);
    if (*c == '{' || *c == '[') return nested_end(c);
    if (!strncmp(c, "null", 4)) return c + 4;
    if (!strncmp(c, "true", 4)) return *value = 1, c + 4;
    if (!strncmp(c, "false", 5)) return *value = 0, c + 5;
    if (*c != '-' && (*c < '0' || *c > '9')) return NULL;
    *value = strtod(c, &end);
    return end > c ? end : NULL;
}

bool metrics_line_json(MetricsLine *line, const char *text, size_t bytes, const char *const *key, int keys)
{
    *line = (MetricsLine){ .text = text, .bytes = bytes };
    for (int k = 0; k < keys; k++) line->value[k] = NAN;
    if (strlen(text) != bytes) return false;                       /* a byte 0 in the line */
    const char *c = blanks(text);
    if (*c++ != '{') return false;
    for (c = blanks(c); *c == '"';) {
        double value;
        const char *name = c + 1, *end = text_end(c);
        if (!end) return false;
        size_t letters = (size_t)(end - name) - 1;
        c = blanks(end);
        if (*c++ != ':') return false;
        c = blanks(c);
        const char *begin = c;
        c = value_read(&value, c);
        if (!c) return false;
        for (int k = 0; k < keys; k++)
            if (!strncmp(name, key[k], letters) && !key[k][letters]) line->value[k] = value;
        if (letters == 5 && !memcmp(name, "split", 5) && *begin == '"')
            snprintf(line->split, sizeof line->split, "%.*s", (int)(c - begin < 64 ? c - begin - 2 : 62),
                     begin + 1);
        c = blanks(c);
        if (*c != ',') break;
        c = blanks(c + 1);
    }
    return *c == '}' && !*blanks(c + 1);
}

/* ---- a table ---- */

static void header_read(MetricsReader *r)
{
    r->columns = 0;
    for (const char *c = r->line; r->columns < METRICS_HEADER_MAX; c++) {
        size_t letters = strcspn(c, ",\r");
        int    column  = letters == 5 && !memcmp(c, "split", 5) ? -2 : -1;
        for (int k = 0; k < r->keys; k++)
            if (!strncmp(c, r->key[k], letters) && !r->key[k][letters]) column = k;
        r->column[r->columns++] = column;
        c += letters;
        if (*c != ',') break;
    }
}

/* A row of as many fields as the header, which is said of a line that a kill has cut. */
static bool row_read(MetricsReader *r, MetricsLine *line)
{
    *line = (MetricsLine){ .text = r->line, .bytes = r->bytes };
    for (int k = 0; k < r->keys; k++) line->value[k] = NAN;
    int i = 0;
    for (const char *c = r->line;; c++) {
        size_t letters = strcspn(c, ",\r");
        int    column  = i < r->columns ? r->column[i] : -1;
        char  *end;
        double value = letters ? strtod(c, &end) : NAN;
        if (column >= 0 && letters && end == c + letters) line->value[column] = value;
        if (column == -2 && strncmp(c, "train,", 6) != 0)
            snprintf(line->split, sizeof line->split, "%.*s", (int)letters, c);
        i++;
        c += letters;
        if (*c != ',') break;
    }
    return i == r->columns;
}

bool metrics_reader_next(MetricsReader *r, MetricsLine *line)
{
    while (metrics_reader_line(r)) {
        bool understood = false;
        if (*r->line == '{') {
            understood = metrics_line_json(line, r->line, r->bytes, r->key, r->keys);
        } else if (!strncmp(r->line, "step,", 5)) {
            header_read(r);
            continue;
        } else if (r->columns > 0) understood = row_read(r, line);
        if (understood) return true;
        r->strange++;
    }
    return false;
}
