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
#endif
