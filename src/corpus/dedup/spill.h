#ifndef CORPUS_DEDUP_SPILL_H
#define CORPUS_DEDUP_SPILL_H
/* Records of one size in many partitions, each read back as a whole and in the order it was written: in memory up to a
 * limit, then in one file of the work folder. The file has no name from the moment it is open, so nothing of it stays,
 * whatever ends the program. One thread adds; when all is added, many may read.                                      */
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { SPILL_PARTITIONS = 1024 };

typedef struct Spill Spill;
/* what: "near duplicates", for messages. memory: bytes, for what is gathered; partitions are read beside it */
Status  spill_open (Spill **spill, const char *what, const char *folder, size_t record, int partitions, int64_t memory);
Status  spill_add  (Spill *spill, int partition, const void *record);
int64_t spill_count(const Spill *spill, int partition);                  /* records */
Status  spill_read (const Spill *spill, int partition, void *out);       /* all of them */
void    spill_drop (Spill *spill, int partition);                        /* its memory, once it has been read */
int64_t spill_disk (const Spill *spill);                                 /* bytes written to the file */
void    spill_close(Spill *spill);
#endif
