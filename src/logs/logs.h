#ifndef LOGS_LOGS_H
#define LOGS_LOGS_H
/* The logs of a training run: the file of --metrics, event files of TensorBoard. All of them take the same
 * records, by the names of logs/facts.def. One rank has them, rank 0, where losses and times are known
 * without a message (Megatron-LM's writer is its last rank, which has the loss). They are opened before the
 * first step and written between two steps.
 *
 * A run that resumes after step N first removes from these files what an earlier run has written of later
 * steps, so that each step is there once. */
#include "logs/event_file.h"
#include "logs/metrics_file.h"

/* Strings are not owned. */
typedef struct {
    const char *metrics;                     /* file; NULL: none */
    const char *tensorboard;                 /* directory; NULL: none */
    int64_t     interval;                    /* steps between events of TensorBoard */
    int         with;                        /* LOG_WITH_... bits: tags that are written on demand */
    const char *options;                     /* of the run, as one JSON object in text */
    const char *saved;                       /* where the run is saved, for messages; NULL: nowhere */
} LogsConfig;

typedef struct {
    LogsConfig  config;
    MetricsFile metrics;
    EventFile   events;
    /* the values of one record by their names, and those that have a twin */
    LogNamed    named[LOG_FACTS], twin[LOG_FACTS];
    char        name[LOG_FACTS][64];
} Logs;

/* Logs that are all closed, so that logs_add does nothing: of the other ranks. */
Logs   logs_none(void);
/* resumed: the step that the run continues after; 0 for none. BAD_FILE, IO_FAILED. */
Status logs_open (Logs *logs, const LogsConfig *config, int64_t resumed);
void   logs_add  (Logs *logs, const LogRecord *record);
/* Returns `status`, or IO_FAILED where that is OK and records were lost. */
Status logs_close(Logs *logs, Status status);
#endif
