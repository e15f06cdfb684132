#ifndef LOGS_METRICS_FILE_H
#define LOGS_METRICS_FILE_H
/* The file of --metrics, or one of --history: one JSON object for each record, or where its name ends in
 * .csv a table with a header. A CSV file keeps the columns that its header has, of which "step" is the
 * first. */
#include "base/buffer.h"
#include "logs/log_file.h"
#include "logs/log_record.h"

enum { METRICS_SPLIT = LOG_FACTS, METRICS_UNKNOWN, METRICS_COLUMNS_MAX = 64 };
typedef struct {
    LogFile file;
    bool    csv;
    bool    history;                         /* has the facts of --history as columns */
    int     columns;                         /* of a CSV file */
    /* by column: the facts of its key, the first of them; METRICS_SPLIT; METRICS_UNKNOWN stays empty */
    int     column[METRICS_COLUMNS_MAX];
    Buffer  line;
} MetricsFile;

/* resumed: the step that the run continues after, 0 for none: lines of later steps at the end of the file are
 * removed, because the run takes these steps again. A last line that a killed run left incomplete is ended.
 * BAD_FILE where the file cannot be opened, or is no CSV file of jotun's. */
Status metrics_file_open (MetricsFile *metrics, const char *option, const char *path, int64_t resumed);
void   metrics_file_add  (MetricsFile *metrics, const LogRecord *record);
/* A CSV file, which is a table of numbers, has no samples. */
void   metrics_file_add_sample(MetricsFile *metrics, const LogSample *sample);
Status metrics_file_close(MetricsFile *metrics, Status status, const char *saved);
#endif
