#ifndef TRAIN_HISTORY_RANK_NUMBERS_H
#define TRAIN_HISTORY_RANK_NUMBERS_H
/* Numbers of a step that differ between ranks, for --history: what the loss, the time, the wait for data and
 * the memory of all ranks are on average, at most and at least, and their standard deviation. */
#include "logs/log_record.h"
#include "train/trainer.h"

/* Of this rank. loss: NAN where it computes none; memory: of its process, in bytes */
typedef struct { double loss, seconds, data_seconds, memory; } RankNumbers;

/* <-> tp, dp+cp, pp, where the run keeps a history: all-reduces of 8 and 12 numbers; else nothing is sent.
 * Rank 0 puts the facts. */
void rank_numbers_put(LogRecord *record, Trainer *trainer, RankNumbers mine);
#endif
