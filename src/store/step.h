#ifndef STORE_STEP_H
#define STORE_STEP_H
/* The folders of a --save directory: their names, which of them are whole, and how one takes its place.
 *
 *     step_00001000           a checkpoint: only ever renamed into place whole
 *     .step_00001000.part     being written or being removed: never a checkpoint
 *     .step_00001000.old      a whole checkpoint put aside while a new one of the same step takes its name
 *     latest                  the name of the newest good one
 *     .lock, .probe           of the run that saves here (claim.c): no checkpoints, passed over by all below */
#include "store/manifest.h"

typedef enum { STEP_WHOLE, STEP_ASIDE, STEP_PART } StepKind;
typedef struct { int64_t step; StepKind kind; } StepFolder;

Status step_path(char path[1024], const char *dir, StepFolder folder);
Status step_list(const char *dir, StepFolder **list, int *count);  /* highest step first; the caller frees */
/* The manifest is whole and each file it names has the size it says. Reads no weights. */
Status step_check(const char *folder);

/* The highest whole one of a step below `below`, damaged ones passed over. Where one cannot be read for
 * another reason than damage, that is the failure. */
Status step_newest(const char *dir, int64_t below, char path[1024], int64_t *step, bool *found);
/* `status` of the step's folder `path`; of damage (BAD_FILE) fail_text() then names the whole one before it. */
Status step_advise(Status status, const char *path);

/* What an earlier kill left is mended or removed, and an empty .part folder made. */
Status step_begin  (const char *dir, int64_t step);
/* .part takes its name, the folder is synced, `latest` names it. */
Status step_publish(const char *dir, int64_t step);
/* Left-overs go, and (keep_last > 0) good checkpoints of lower steps beyond keep_last - 1 of them; higher
 * steps are another branch of the run and stay. What cannot be removed is told and left. */
void   step_sweep  (const char *dir, int64_t step, int keep_last);
#endif
