#ifndef LOGS_HISTORY_H
#define LOGS_HISTORY_H
/* The history of a run (--history DIR): the numbers of each step, those that differ between ranks with their
 * mean, maximum, minimum and standard deviation, as a table (metrics.csv) and as JSON lines (metrics.jsonl);
 * and at the end of the run a picture of each number (plots/NAME.svg) and the same in letters (NAME.txt). */
#include "logs/metrics_file.h"

typedef struct { MetricsFile csv, jsonl; char folder[1024]; } History;

/* resumed: as in metrics_file_open. The directory is made where there is none. BAD_FILE, IO_FAILED. */
Status  history_open (History *history, const char *folder, int64_t resumed);
void    history_add  (History *history, const LogRecord *record);
/* Draws the whole table, what earlier runs wrote included. Returns `status`, or the first failure. */
Status  history_close(History *history, Status status, const char *saved);
#endif
