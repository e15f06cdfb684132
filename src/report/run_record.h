#ifndef REPORT_RUN_RECORD_H
#define REPORT_RUN_RECORD_H
/* What a training run has written about itself, read from the journal of its --save directory, or from a
 * file of --metrics or --history. Steps that the run took again (after a resume, after a spike) count once:
 * the last time stands, and the seconds of the earlier times are what the run has lost.
 *
 * Memory is bounded however long the run is: where there are too many points neighbours are joined, with
 * their means, and of evaluations and samples of text every second step is left out. The facts of the starts
 * are kept as JSON, which takes up to 60 times their bytes. Time: one pass over the file. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* The rows of run_numbers, in this order. */
typedef enum { RUN_LOSS, RUN_LR, RUN_NORM, RUN_SECONDS, RUN_WAITED, RUN_SPEED, RUN_MFU, RUN_MEMORY, RUN_SCALE,
               RUN_EXPERT_LOAD, RUN_DROPPED, RUN_BALANCE, RUN_Z,
               RUN_NUMBERS } RunNumber;
/* key: in lines of the journal and of metrics; title: for people */
typedef struct { const char *key, *title; } RunNumberRow;
extern const RunNumberRow run_numbers[RUN_NUMBERS];

enum { RUN_POINTS_MOST = 16384, RUN_KEPT_MOST = 4096, RUN_SAMPLES_MOST = 512, RUN_TEXT_MOST = 4000,
       RUN_TROUBLES_MOST = 500 };

/* The mean of `steps` steps up to `step`; NAN: not known. hours: that the run has run by then; low, high: the
 * range over these steps; low_at, high_at: the steps of the two, the first where several have the value. */
typedef struct {
    int64_t step, steps;
    double  hours, tokens, flops;
    double  value[RUN_NUMBERS], low[RUN_NUMBERS], high[RUN_NUMBERS];
    double  low_at[RUN_NUMBERS], high_at[RUN_NUMBERS];
} RunPoint;
typedef struct {
    int64_t step, turn;
    char    split[64];
    double  hours, tokens, loss, perplexity, bits;
} RunEvaluation;
/* texts: owned, at most RUN_TEXT_MOST bytes of them; bytes: of the whole text */
typedef struct {
    int64_t step, turn, number;
    char   *prompt, *text;
    size_t  prompt_bytes, text_bytes;
} RunSample;
/* A step that was skipped, or from which the run went back to step `to`. */
typedef struct { int64_t step, to; char why[24]; double loss, norm; } RunTrouble;

/* Where the time of a start went, in seconds. waiting and repeated are parts of steps. */
typedef struct { double loading, steps, waiting, evaluations, saves, samples, other, repeated; } RunTimes;
/* From a start of the program to its end. facts: of its line in the journal (NULL: of a metrics file),
 * without "options" where a later start follows; stop: of its last line, NULL: it was killed, or still runs.
 * changed: options that differ from the start before it; owned. begin, end: seconds since 1970. */
typedef struct {
    json_t  *facts, *stop;
    char    *changed;
    double   begin, end;
    int64_t  first, last, repeated_steps, saves, evaluations;
    RunTimes times;
} RunStart;

typedef struct {
    char          *name, *path; /* as it was given; the file that was read. Owned, as what follows */
    bool           journal;
    RunStart      *start;      int starts;
    RunPoint      *point;      int points;
    RunEvaluation *evaluation; int evaluations;
    RunSample     *sample;     int samples;
    RunTrouble    *trouble;    int troubles;
    int64_t        skipped, rewinds;         /* all, those beyond RUN_TROUBLES_MOST too */
    int64_t        lines, strange; /* of the file; those that are not understood, a cut last one too */
    int64_t        size;           /* bytes of the file when it was opened, for a reader that follows */
    double         flops_full, flops_causal, peak;      /* FLOPs of a token; FLOP/s; 0: not known */
    int64_t        turns, kept_every; /* steps with evaluations or samples; of these every n-th is kept */
} RunRecord;

/* path: a directory of --save or --history, or a file. BAD_FILE, with what would be taken; a file without a
 * line of a run is refused too. */
Status run_record_read(RunRecord *run, const char *path);
void   run_record_free(RunRecord *run);
/* The last start's facts: a value by its name, NULL where it is not known. */
const json_t *run_fact     (const RunRecord *run, const char *name);
const char   *run_fact_text(const RunRecord *run, const char *name);
double        run_fact_number(const RunRecord *run, const char *name);      /* NAN: not known */
/* Whether the last start has ended, by its own words. A file of metrics does not tell: true. */
bool          run_ended(const RunRecord *run);
/* The last evaluation of a split; NULL: there is none. The least loss of its evaluations is in *best. */
const RunEvaluation *run_last_evaluation(const RunRecord *run, const char *split, double *best);
/* One point of two, of which b is the later one. */
RunPoint      run_points_joined(const RunPoint *a, const RunPoint *b);
/* The sum of all starts; stopped: seconds between them. */
RunTimes      run_times(const RunRecord *run, double *total, double *stopped);
#endif
