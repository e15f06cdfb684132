#ifndef CHART_METRICS_READER_H
#define CHART_METRICS_READER_H
/* The lines of a metrics file, one after another: flat JSON objects, or a table with a header whose first
 * column is "step". It reads a file that another process appends to: an incomplete last line is no line.
 * Memory: that of the longest line, at most METRICS_LINE_MOST bytes; a longer one is left out and counted
 * with those that are not understood. Time: one pass. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

enum { METRICS_READ_MAX = 32, METRICS_LINE_MOST = 16 << 20, METRICS_HEADER_MAX = 128 };
typedef struct {
    FILE *in;
    const char *const *key;                  /* [keys] the caller's */
    int     keys;
    int     columns;                         /* of the table; 0: no header was read yet */
    int     column[METRICS_HEADER_MAX];      /* its key; -1: another one, -2: split */
    char   *line;                            /* owned; ends with a byte 0 */
    size_t  bytes, room;
    int64_t lines, strange;                  /* whole lines so far; those of them that are not understood */
} MetricsReader;
/* split: "" for a training step, else what the line says, cut to its room. value: by key, NAN where the line
 * has none, null or a text; true is 1. text: the whole line, until the next one is read. */
typedef struct {
    char        split[64];
    double      value[METRICS_READ_MAX];
    const char *text;
    size_t      bytes;
} MetricsLine;

/* key: [keys], at most METRICS_READ_MAX. BAD_FILE. */
Status metrics_reader_open (MetricsReader *reader, const char *path, const char *const *key, int keys);
/* The next line that is understood; false: there is none. */
bool   metrics_reader_next (MetricsReader *reader, MetricsLine *line);
/* The numbers of one line that is a flat JSON object, of `bytes` bytes and a byte 0 behind them. False where
 * it is none. Values that are objects or arrays are left out. */
bool metrics_line_json(MetricsLine *line, const char *text, size_t bytes, const char *const *key, int keys);
/* The next whole line, of any text, as reader->line; false: there is none. */
bool   metrics_reader_line (MetricsReader *reader);
void   metrics_reader_close(MetricsReader *reader);
#endif
