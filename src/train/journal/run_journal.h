#ifndef TRAIN_JOURNAL_RUN_JOURNAL_H
#define TRAIN_JOURNAL_RUN_JOURNAL_H
/* The events of a training run in its journal (logs/journal.h, docs/formats.md). Rank 0 has it open; on the
 * others, where it is zeros, the same calls do nothing. No communication. */
#include "logs/journal.h"
#include "train/step.h"
#include "train/trainer.h"
#include "train/trainer_moe.h"

/* Since the last line of steps: all `steps`, with their samples and seconds; sums over the `averaged` ones,
 * which were not skipped; low, high: of their losses, at low_step and
 * high_step. */
typedef struct {
    Journal file;
    double  losses, low, high, norms, seconds, waited;
    MoeReport moe;                            /* sums, as losses */
    int64_t steps, averaged, samples, low_step, high_step;
    int64_t skips;                            /* lines of skipped steps of this run */
    int64_t from;                             /* seam clock when the run began */
} RunJournal;

/* Opens it in the directory of --save and writes what the run is. peak: FLOP/s of which MFU is a share, 0:
 * not known; resumed: the checkpoint that the run continues, NULL: none. */
void run_journal_open (RunJournal *journal, const Trainer *trainer, double peak, const char *resumed);
/* The step that the trainer has just done. A line has the means of --log-interval steps, and after 4,096
 * such lines of 2, 4, ... times as many, which follows from the number of the step alone, so that a run of a
 * million steps has some ten thousand. */
void run_journal_step (RunJournal *journal, const Trainer *trainer, StepReport report, double seconds);
void run_journal_evaluation(RunJournal *journal, const Trainer *trainer, const char *split, double loss,
                            double bits_per_byte, double seconds);
void run_journal_sample(RunJournal *journal, const LogSample *sample);
/* Seconds of something that is no step: "save", "samples", "profile", "rewind". */
void run_journal_pause(RunJournal *journal, const Trainer *trainer, const char *what, double seconds);
/* The run has gone back from one step to another. */
void run_journal_rewind(RunJournal *journal, const Trainer *trainer, int64_t from, double seconds);
/* How the run ended, and its memory at most. */
void run_journal_close(RunJournal *journal, const Trainer *trainer, Status status);
#endif
