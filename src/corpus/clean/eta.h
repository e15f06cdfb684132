#ifndef CORPUS_CLEAN_ETA_H
#define CORPUS_CLEAN_ETA_H
/* Progress lines of a long task: how much is done, the throughput, and the estimated time left. A line is
 * printed at most every 0.2 s on a terminal and every 10 s elsewhere, so the functions may be called for
 * each item. */
#include <stdint.h>

typedef struct {
    const char *what;                   /* begins the line: "clean: reading" */
    /* Nanoseconds of seam.clock: the start and the last line. What was done before the start, and all
     * there is to do, -1 where that is unknown. */
    int64_t     begun, reported, from, total;
} Eta;

Eta    eta_begin  (const char *what, int64_t from, int64_t total);
void   eta_bytes  (Eta *eta, int64_t done);                             /* done and total are bytes */
/* `done` and the total count `things`, as "documents". */
void   eta_count  (Eta *eta, int64_t done, const char *things);
double eta_seconds(const Eta *eta);                                     /* since the start, above 0 */
#endif
