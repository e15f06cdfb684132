#ifndef CORPUS_DEDUP_SPILL_H
#define CORPUS_DEDUP_SPILL_H
/* Fixed-size records in many partitions, each read back as a whole and in the order in which it was
 * written: in memory up to a limit, then in one file of the work folder. The file is unlinked as soon as it
 * is open, so nothing of it remains, however the program ends. One thread adds; after the last record many
 * threads may read. */
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { SPILL_PARTITIONS = 1024 };

/* A file without a name in `folder`, which is made where it is missing. what: "near duplicates", for
 * messages. BAD_FILE or IO_FAILED: it cannot be made there. Any number of threads may write different bytes
 * of it. disk: bytes written. */
typedef struct { int fd; char what[64], path[1100]; _Atomic int64_t disk; } SpillFile;
Status  spill_file_open (SpillFile *file, const char *what, const char *folder);
Status  spill_file_write(SpillFile *file, const void *data, size_t bytes, int64_t at);
void    spill_file_close(SpillFile *file);

typedef struct Spill Spill;
/* record: bytes of one. memory: bytes that records may take while they are added; reading a partition takes
 * its size in addition. *spill is NULL after a failure. */
Status  spill_open (Spill **spill, const char *what, const char *folder, size_t record, int partitions,
                    int64_t memory);
Status  spill_add  (Spill *spill, int partition, const void *record);  /* IO_FAILED: the disk is full */
int64_t spill_count(const Spill *spill, int partition);                /* records */
/* All records; out: [spill_count] records. */
Status  spill_read (const Spill *spill, int partition, void *out);
/* Frees its memory, once it has been read. */
void    spill_drop (Spill *spill, int partition);
int64_t spill_disk (const Spill *spill);                               /* bytes written to the file */
void    spill_close(Spill *spill);                                     /* NULL is allowed */
#endif
