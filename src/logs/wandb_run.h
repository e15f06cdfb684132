#ifndef LOGS_WANDB_RUN_H
#define LOGS_WANDB_RUN_H
/* A run of Weights & Biases that is recorded offline, as its own program records one: the folder
 * DIRECTORY/wandb/offline-run-DATE_TIME-ID with run-ID.wandb, which `wandb sync` uploads
 * (docs/formats.md#weights-and-biases). Nothing is sent. */
#include "base/buffer.h"
#include "logs/log_file.h"
#include "logs/log_record.h"

/* Strings are not owned. name, entity: NULL for none, which the service chooses. */
typedef struct { const char *project, *name, *entity, *directory; } WandbConfig;

typedef struct {
    LogFile file;
    size_t  at;                              /* bytes of the file */
    char    id[9], folder[1024];
    int64_t records, step;                   /* records written; step of the row */
    double  begun, earlier;                  /* seconds since 1970; of the run before this process */
    /* items of the row that is not written yet, a record, and framed records */
    Buffer  row, record, framed;
    struct json_t *summary;                  /* the last value of each key; owned */
} WandbRun;

/* resumed: the step that the run continues after, 0 for none. A resumed run has a folder of its own with the
 * same id, which wandb-resume.json keeps as wandb does; records of later steps at the end of the earlier
 * folders' files are removed. options: one JSON object in text, the run's configuration. BAD_FILE,
 * IO_FAILED. */
Status wandb_run_open (WandbRun *run, const WandbConfig *config, double time, int64_t resumed,
                       const char *options);
/* Adds values to the row of a step. The row is written by wandb_run_commit, and where a later step begins. */
void   wandb_run_add  (WandbRun *run, double time, int64_t step, const LogNamed *value, int count);
void   wandb_run_add_text(WandbRun *run, double time, int64_t step, const char *name, const char *text);
void   wandb_run_commit(WandbRun *run);
/* Writes the exit code and wandb-summary.json. Returns `status`, or IO_FAILED where that is OK and records
 * were lost. */
Status wandb_run_close(WandbRun *run, Status status, const char *saved);
#endif
