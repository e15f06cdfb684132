#ifndef LOGS_WANDB_STORE_H
#define LOGS_WANDB_STORE_H
/* The record file of the program wandb: a header of 7 bytes, then the log format of LevelDB in blocks of 32
 * KiB, but with zlib's CRC-32. A record is cut where a block ends; 6 bytes or less at its end are zeros. */
#include "base/buffer.h"

enum { WANDB_STORE_HEADER = 7 };
/* Field numbers of wandb_internal.proto of the package wandb: of a Record, and of the items and the step of
 * its history and summary. */
enum { RECORD_NUM = 1, RECORD_HISTORY = 2, RECORD_SUMMARY = 3, RECORD_RUN = 17, RECORD_EXIT = 18,
       RECORD_HEADER = 21, RECORD_ENVIRONMENT = 26, RECORD_INFO = 200 };
enum { ITEMS = 1, HISTORY_STEP = 2, STEP_NUM = 1, ITEM_KEY = 1, ITEM_VALUE = 16 };
void wandb_store_header(Buffer *out);
/* Appends a record as it is stored at byte `at` of the file. */
void wandb_store_add(Buffer *out, size_t at, const void *record, size_t size);
/* The record at byte *at of a file, which is moved behind it; `record` is filled. False at the end and before
 * a record that is incomplete or damaged. */
bool wandb_store_next(Buffer *record, const uint8_t *data, size_t size, size_t *at);

/* What earlier starts of a run have left in DIRECTORY/wandb: its id, and record files. */
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
