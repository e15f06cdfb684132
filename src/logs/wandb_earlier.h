#ifndef LOGS_WANDB_EARLIER_H
#define LOGS_WANDB_EARLIER_H
/* What earlier starts of a run have left in DIRECTORY/wandb: its id, and record files. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* An id has eight of these. */
#define WANDB_ID_SIGNS "abcdefghijklmnopqrstuvwxyz0123456789"
/* The id in wandb-resume.json; *known is false where there is none. */
Status wandb_earlier_id(char id[9], bool *known, const char *directory);
/* Writes wandb-resume.json. */
Status wandb_earlier_keep_id(const char *directory, const char *id);
/* Removes the records behind the last one of step `resumed` or earlier from the record files of this id.
 * *seconds: the run time at that record; 0 where there is none. */
Status wandb_earlier_cut(double *seconds, const char *directory, const char *id, int64_t resumed);
#endif
