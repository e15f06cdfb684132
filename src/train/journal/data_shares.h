#ifndef TRAIN_JOURNAL_DATA_SHARES_H
#define TRAIN_JOURNAL_DATA_SHARES_H
/* What a run reads of each of its data sets. */
#include "train/trainer.h"

/* share: of the samples of training; samples: that the whole run reads; tokens: of the data set; epochs of
 * it. name: of the trainer's datasets. */
typedef struct { const char *name; double share, samples, tokens, epochs; } DataShare;

int       data_shares(const Trainer *trainer);              /* how many data sets of training there are */
DataShare data_share (const Trainer *trainer, int i);
#endif
