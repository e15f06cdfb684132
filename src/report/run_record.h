#ifndef REPORT_RUN_RECORD_H
#define REPORT_RUN_RECORD_H
/* What a training run has written about itself, read from the journal of its --save directory, or from a
 * file of --metrics or --history. Steps that the run took again (after a resume, after a spike) count once:
 * the last time stands, and the seconds of the earlier times are what the run has lost.
 *
 * Memory is bounded whatever the file holds: where there are too many points or starts neighbours are
 * joined, points with their means, and of evaluations and samples of text every second step is left out. Of
 * the last start the facts are kept as JSON, of those before it a few. Time: one pass over the file. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "report/run_heldout.h"
#include "report/run_layout.h"
#include "report/run_place.h"
#include "report/run_points.h"

enum { RUN_KEPT_MOST = 4096, RUN_SAMPLES_MOST = 512, RUN_TEXT_MOST = 4000,
       RUN_TROUBLES_MOST = 500, RUN_STARTS_MOST = 4096, RUN_CHANGED_MOST = 4000 };

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
/* From a start of the program to its end. starts: joined in this one, the first of very many; stopped:
 * seconds between them. before: seconds of all starts before it. begin, end: seconds since 1970.
 * ended, how: by its last line; else it was killed, or still runs. changed: options that differ from the
 * start before it; owned. facts, stop: of the last start alone, NULL where its lines had none or were too
 * large; RunRecord.large counts these. */
typedef struct {
    json_t  *facts, *stop;
    bool     ended;
    char     how[16], layout[RUN_LAYOUT_ROOM];
    char    *changed;
    double   ranks, begin, end, before, stopped;
    int64_t  starts, first, last, repeated_steps, saves, evaluations;
    RunTimes times;
} RunStart;

typedef struct {
    char          *name, *path; /* as it was given; the file that was read. Owned, as what follows */
    bool           journal;
    RunStart      *start;      int starts;
    RunCurve       curve;
    RunEvaluation *evaluation; int evaluations, evaluation_room;
    RunSample     *sample;     int samples, sample_room;
    RunTrouble    *trouble;    int troubles, trouble_room;
    int64_t        skipped, rewinds;         /* all, those beyond RUN_TROUBLES_MOST too */
    int64_t        lines, strange; /* of the file; those that are not understood, a cut last one too */
    int64_t        large;         /* lines of starts and stops whose facts were too large to be read */
    int64_t        size;           /* bytes of the file when it was opened, for a reader that follows */
    double         flops_full, flops_causal, peak;      /* FLOPs of a token; FLOP/s; 0: not known */
    bool           lost;           /* the last start has not ended, and its process is gone */
    RunHeldout     heldout;
    int64_t        turns, kept_every; /* steps with evaluations or samples; of these every n-th is kept */
} RunRecord;

/* path: of run_place_file. BAD_FILE, with what would be taken; a file without a
 * line of a run is refused too. */
Status run_record_read(RunRecord *run, const char *path);
void   run_record_free(RunRecord *run);
/* The last start's facts: a value by its name, NULL where it is not known. */
const json_t *run_fact     (const RunRecord *run, const char *name);
const char   *run_fact_text(const RunRecord *run, const char *name);
double        run_fact_number(const RunRecord *run, const char *name);      /* NAN: not known */
/* Whether the last start has ended, by its own words. A file of metrics does not tell: true. */
bool          run_ended(const RunRecord *run);
/* Looks whether the process of the last start, which has not ended, is gone by now: RunRecord.lost is what
 * was found when the file was read. */
bool          run_is_lost(const RunRecord *run);
/* Whether it continues no more: it has ended, or its process is gone. */
bool          run_over (const RunRecord *run);
/* The last evaluation of a split; NULL: there is none. The least loss of its evaluations is in *best. */
const RunEvaluation *run_last_evaluation(const RunRecord *run, const char *split, double *best);
/* Of all, joined ones too. */
int64_t       run_starts(const RunRecord *run);
/* The sum of all starts; stopped: seconds between them. */
RunTimes      run_times(const RunRecord *run, double *total, double *stopped);
#endif
