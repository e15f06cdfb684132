#ifndef CLI_SWEEP_SWEEP_H
#define CLI_SWEEP_SWEEP_H
/* The command `jotun sweep`: a series of runs of `jotun train`, each a process of its own with a folder of
 * its own below --save. What is known of a run is in its folder: the words it was started with (run.json),
 * its checkpoints, metrics and log, and once it has ended its result (result.json). So a sweep that is
 * started again continues. */
#include <stdio.h>
#include <sys/types.h>
#include "cli/child_process.h"
#include "conf/conf.h"
#include "plan/scaling_law.h"

enum {
    SWEEP_AXES_MAX = 8,
    SWEEP_VALUES_MAX = 64,
    SWEEP_RUNS_MAX = 1024,
    SWEEP_NAME = 192,
    SWEEP_DRAWS = 1000
};

/* An option with several values. number: NAN where they are words; numbers are in rising order. */
typedef struct {
    char   name[64];                       /* of the option, without dashes */
    int place; /* in Sweep.word of its --name=value; -1: depth, which is no option of train */
    int    count;
    const char *value[SWEEP_VALUES_MAX];
    double number[SWEEP_VALUES_MAX];
} SweepAxis;

typedef enum { SWEEP_WAITS, SWEEP_RUNS, SWEEP_DONE, SWEEP_FAILED } SweepState;
typedef struct {
    char    name[SWEEP_NAME], folder[1024];
    int     at[SWEEP_AXES_MAX];            /* its value of each axis; of the check's depth -1 */
    int64_t depth;                         /* 0: without --depth */
    bool    check;                         /* of --check-depth: no part of the law */
    WordList words;                        /* of jotun train, from which its losses follow */
    WordList machine;                      /* the rest: its folder, threads, logs */
    int64_t ranks;
    bool    threads;                       /* are among the words */
    double  bytes;                         /* of its ranks, by the dry run; 0: not counted */
    int64_t parameters, steps, tokens;
    double  flops;                         /* of the model, forward and backward, over the run */
    SweepState state;
    pid_t   process;
    int64_t step, first;                   /* reached; at which this process began */
    double  validation, training, loss;    /* NAN: not known; loss is the one that is compared */
    double  seconds;                       /* of its steps */
    char    failure[768];                  /* of a run that failed */
} SweepRun;

typedef struct {
    Options  *own;                         /* of the command itself */
    WordList  word;                        /* of jotun train, --name=value at the places of the axes */
    int       axes, runs;
    SweepAxis axis[SWEEP_AXES_MAX];
    SweepRun *run;                         /* [runs] */
    int       at_once;
    int       depth_axis, seed_axis;       /* -1: none */
    int       lock;                        /* descriptor that this process and its runs hold; -1 */
} Sweep;

/* sweep_words.c: the command line. The caller closes *sweep, after a failure too. */
Status sweep_words(Sweep *sweep, int argc, char **argv);
/* sweep_plan.c: all runs, each with options that jotun train takes. BAD_OPTION: the first that it would
 * refuse. */
Status sweep_plan (Sweep *sweep);
/* Of one run: its words, sizes and folder, from depth, check and `at`. For a run of the next size too. */
Status sweep_run_plan(SweepRun *run, const Sweep *sweep);
void   sweep_run_free(SweepRun *run);
/* sweep_state.c: what the folders hold. BAD_OPTION where one holds a run of other options. */
Status sweep_state_read (Sweep *sweep);
Status sweep_run_begin  (const SweepRun *run);                  /* makes the folder and writes run.json */
Status sweep_run_finish (SweepRun *run, const Sweep *sweep);    /* of a run that has ended well: its losses */
int64_t sweep_run_step  (const SweepRun *run);                  /* the last in its metrics; 0: none */
void   sweep_run_failure(SweepRun *run, const char *why);       /* with the last line of its log */
/* sweep_table.c: what is planned, to stdout; results, to stdout and results.csv. */
void   sweep_show_plan(const Sweep *sweep);
Status sweep_results  (const Sweep *sweep);
/* sweep_findings.c: the law, or the best values, the command for what follows, and the picture. */
Status sweep_findings (const Sweep *sweep);
#endif
