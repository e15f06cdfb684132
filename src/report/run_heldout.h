#ifndef REPORT_RUN_HELDOUT_H
#define REPORT_RUN_HELDOUT_H
/* What a speedrun measured after its training, over all documents that it had held out; validation while it
 * trains sees some batches of them. */

/* bits: a byte; NAN: the run is none of a speedrun, or not evaluated yet. bytes: of the documents */
typedef struct { double bits, documents, bytes; } RunHeldout;

/* journal: of the run. From speedrun.json beside its directory. */
RunHeldout run_heldout_read(const char *journal);
#endif
