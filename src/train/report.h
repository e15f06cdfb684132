#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H
/* The output of a training run: a progress line on stderr, which a terminal shows in place, and the logs
 * (logs/logs.h). Only rank 0 prints; on the other ranks the same calls do nothing, so that the loop needs no
 * tests. */
#include "logs/logs.h"
#include "train/history/rank_numbers.h"
#include "train/journal/run_journal.h"
#include "train/step.h"
#include "train/trainer.h"

/* Of fairseq's lines: sums over the steps that were not skipped, and the seconds of all. losses: of all
 * tokens together; norms: one of each step; clipped: steps whose gradients were. */
typedef struct { double losses, tokens, norms, seconds; int64_t steps, samples, clipped; } EpochSums;

typedef struct {
    const TrainConfig *config;        /* not owned */
    Logs    logs;
    RunJournal journal;
    bool    prints;                   /* this rank prints: rank 0 */
    int     ranks;                    /* of the run */
    int64_t consumed;                 /* samples up to the last reported step */
    int64_t sampled_step;             /* the step whose weights make samples of text */
    int64_t started_at, step_at;      /* seam clock in ns: when the run began, when the last step ended */
    int64_t first_step, first_sample; /* steps and samples that were done when the run began */
    /* FLOP/s of all ranks, of which MFU and HFU are shares; 0: not known. hardware_flops, [1] causal */
    double  peak, hardware[2];
    /* since the last progress line: the sum of the losses of `averaged` steps, which were not skipped, and
     * how many were not finite; all `steps`, their samples and seconds */
    double  losses, seconds, mtp[MTP_MOST];           /* mtp: sums of the losses of its depths */
    int64_t averaged, steps, samples, not_finite;
    int64_t skipped;                  /* steps of the run that were skipped */
    EpochSums line, epoch;          /* since the last line within an epoch; since the epoch began */
} Report;

/* Opens the logs and finds the peak (train/rank_peak.h). resumed:
 * the checkpoint that the run continues, NULL: none. BAD_FILE and IO_FAILED where a log cannot be opened.
 * <-> world, as run_peak */
Status report_open (Report *report, const Trainer *trainer, const char *resumed);
/* Returns `status`, or IO_FAILED where that is OK and records of a log were lost. */
Status report_close(Report *report, const Trainer *trainer, Status status);
/* <-> world, with --history. One record of the logs, and at --log-interval a progress line, whose loss and
 * speed are means over the steps since the last one. r: the step that the trainer has just done. */
void   report_step (Report *report, Trainer *trainer, StepReport r);
/* The run has gone back to the trainer's step, whose successors are reported again. */
void   report_rewind(Report *report, const Trainer *trainer, int64_t from);
/* train/report_start.c: the lines before the first step: parameters, layout, memory; samples of a step and of
 * the run; what repeats or has no effect. On rank 0, after loading. No communication. */
void   report_start(const Trainer *trainer);
/* At the end of a run: a warning where each of its steps was skipped. */
void   report_untrained(const Report *report, const Trainer *trainer);
/* Before a checkpoint is saved: the logs have each step that it has. */
void   report_commit(Report *report);
/* The time since the last step belongs to something else, and not to the next step's throughput. what: its
 * event in the journal, "save", "samples" or "profile". */
void   report_pause(Report *report, const Trainer *trainer, const char *what);
/* A SampleTake: one line on stderr, and the logs. report: a Report whose trainer has done `sampled_step`. */
void   report_sample(void *report, int64_t number, const char *prompt, const char *text);
/* One record of the logs and one line on stderr, of a data set. loss: mean over its tokens, in nats. */
void   report_evaluation(Report *report, const Trainer *trainer, int set, double loss, double bits_per_byte);
#endif
