#ifndef CONF_SCHEDULE_H
#define CONF_SCHEDULE_H
/* Options of the training schedule: batch size, duration, learning rate, weight decay. */
#include "base/batch_schedule.h"
#include "base/length_schedule.h"
#include "conf/conf.h"

/* The batch size that --global-batch-size, --rampup-batch-size, --step-batch-size-schedule and
 * --decrease-batch-size-if-needed say, with options_data_parallel: step[0 .. *steps). BAD_OPTION where one of
 * them cannot be read. */
Status options_batch(BatchStep step[BATCH_STEPS_MAX], int *steps, const Options *o);
/* The last batch size of --step-batch-size-schedule; 0 without it. */
Status options_last_batch(int64_t *size, const Options *o);
/* The lengths that --seq-length-warmup says; without it all are --seq-length. BAD_OPTION where it cannot be
 * read. */
Status options_lengths(LengthSchedule *lengths, const Options *o);
/* The samples of the whole steps of --train-tokens; -1: under --seq-length-warmup without a batch size. */
int64_t options_token_samples(const Options *o);
/* Lengths of the schedules, in samples: of the whole run (0: not given), of warm-up, until the end of the
 * decay, of WSD's decay, until the end of the weight decay's change. */
typedef struct { int64_t whole, decay, wsd, weight_decay; double warmup; } ScheduleSamples;
ScheduleSamples options_schedule_samples(const Options *o);
/* A length of a schedule and the options that say it in steps, samples or a share of the samples. */
enum { LENGTH_WARMUP, LENGTH_DECAY, LENGTH_WSD, SCHEDULE_LENGTHS, LENGTH_WAYS = 3 };
typedef struct { int ways; OptionIndex way[LENGTH_WAYS]; } ScheduleLength;
extern const ScheduleLength schedule_lengths[SCHEDULE_LENGTHS];
/* Which of a length's options counts: its steps where none has a value. */
OptionIndex options_length_said(const Options *o, int length);
double      options_length     (const Options *o, int length);          /* in samples */
/* The steps of --iterations-to-skip, step[0 .. *steps). BAD_OPTION where a word is no step. */
enum { LEFT_OUT_MAX = 1024 };
Status options_left_out(int64_t step[LEFT_OUT_MAX], int *steps, const Options *o);
/* Rules of conf/rules.c: each step of the run has whole micro-batches, and as many as its pipeline takes; one
 * way to say a duration; rates that rise, decay and end in this order. */
Status rule_batch   (const Options *o);
Status rule_lengths (const Options *o);
Status rule_duration(const Options *o);
Status rule_rate    (const Options *o);
#endif
