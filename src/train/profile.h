#ifndef TRAIN_PROFILE_H
#define TRAIN_PROFILE_H
/* --profile: what every rank did in some steps, as a Chrome trace in one file that rank 0 writes, and as a
 * table by operation. Without the option every call here returns at once. */
#include "base/trace.h"
#include "train/trainer.h"

/* first, last: the steps that are profiled; first 0: none. file: of rank 0, -1 on others and when it is
 * closed */
/* clock: of seam.clock, the zero of the times in the file; begun: of the present step */
typedef struct { int64_t first, last; Trace trace; int64_t clock, begun; int file; } Profile;

/* Before the first step. BAD_OPTION where the run has none of the steps, BAD_FILE, NO_MEMORY. No
 * communication: the caller agrees. */
Status profile_open (Profile *profile, const Trainer *trainer);
/* Around each step. <-> world: before the first that is profiled */
void   profile_begin(Profile *profile, Trainer *trainer);
void   profile_end  (Profile *profile, const Trainer *trainer);
/* After a step: after the last one that is profiled writes the file, prints the table and returns true. A
 * file that cannot be written is reported, and the training continues. <-> world */
bool   profile_write(Profile *profile, Trainer *trainer);
/* Of a run that ends before the last step that is profiled: nothing is written, which is said. */
void   profile_close(Profile *profile, const Trainer *trainer);
#endif
