#ifndef LOGS_LOGS_H
#define LOGS_LOGS_H
/* The logs of a training run: the file of --metrics, the history, event files of TensorBoard, a run of
 * Weights & Biases (W&B) that is recorded offline. All of them take the same records, by the names of
 * logs/facts.def. One rank has them, rank 0, where losses and times are known without a message (Megatron-
 * LM's writer is its last rank, which has the loss). They are opened before the first step and written
 * between two steps.
 *
 * A run that resumes after step N first removes from these files what an earlier run has written of later
 * steps, so that each step is there once. */
#include "logs/event_file.h"
#include "logs/history.h"
#include "logs/metrics_file.h"
#include "logs/wandb_run.h"

/* Strings are not owned. */
typedef struct {
    const char *metrics;                     /* file; NULL: none */
    const char *history;                     /* directory; NULL: none */
    const char *tensorboard;                 /* directory; NULL: none */
    WandbConfig wandb;                       /* its project NULL: none */
    bool        other_keys;                  /* W&B has the names of compat/log_names.h, not Megatron-LM's */
    int64_t     interval;                    /* steps between records of TensorBoard and W&B */
    int         with;                        /* LOG_WITH_... bits: tags that are written on demand */
    const char *options;                     /* of the run, as one JSON object in text */
    const char *version, *command;           /* of the program; a command line that does the same again */
    const char *saved;                       /* where the run is saved, for messages; NULL: nowhere */
} LogsConfig;

typedef struct {
    LogsConfig  config;
    MetricsFile metrics;
    History     history;
    EventFile   events;
    WandbRun    wandb;
    /* the values of one record by their names, and those that have a twin */
    LogNamed    named[2 * LOG_FACTS], twin[LOG_FACTS];
    char        name[2 * LOG_FACTS][64];
} Logs;

/* Logs of zeros are closed, so that logs_add does nothing: of the other ranks. resumed: the step that the run
 * continues after; 0 for none. BAD_FILE, IO_FAILED. */
Status logs_open (Logs *logs, const LogsConfig *config, int64_t resumed);
void   logs_add  (Logs *logs, const LogRecord *record);
/* A line of --metrics unless that is a table, a text of TensorBoard and W&B. */
void   logs_add_sample(Logs *logs, const LogSample *sample);
/* Writes the row of W&B, which holds a step and its evaluations. Called before a checkpoint is saved, so that
 * the logs have each step that it has. */
void   logs_commit(Logs *logs);
/* Returns `status`, or IO_FAILED where that is OK and records were lost. */
Status logs_close(Logs *logs, Status status);
#endif
