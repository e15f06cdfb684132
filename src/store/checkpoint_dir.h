#ifndef STORE_CHECKPOINT_DIR_H
#define STORE_CHECKPOINT_DIR_H
/* The folders of a --save directory: their names, which of them are whole, and how one takes its place.
 *
 *     step_00001000           a checkpoint: only ever renamed into place whole
 *     .step_00001000.part     being written or being removed: never a checkpoint
 *     .step_00001000.old      a whole checkpoint put aside while a new one of the same step takes its name
 *     latest                  the name of the newest good one
 *     .lock, .probe           of the run that saves here (claim.c): no checkpoints, passed over by all below */
#include "store/manifest.h"

typedef enum { FOLDER_WHOLE, FOLDER_ASIDE, FOLDER_PART } CheckpointFolderKind;
typedef struct { int64_t step; CheckpointFolderKind kind; } CheckpointFolder;

Status checkpoint_dir_path(char path[1024], const char *dir, CheckpointFolder folder);
Status checkpoint_dir_list(const char *dir, CheckpointFolder **list, int *count);  /* highest step first; the caller frees */
/* The manifest is whole and each file it names has the size it says. Reads no weights. */
Status checkpoint_dir_check(const char *folder);

/* Is it one step's folder, whole or not: it holds a manifest, or has the name of one? */
bool   step_is(const char *path);
Status step_latest(const char *dir, CheckpointFolder *folder, bool *named);   /* what `latest` says; *named false: it is not there, or says nothing */

/* The highest whole one of a step below `below`, damaged ones passed over; *found false and *step >= 0: there are only
 * damaged ones, fail_text() says why. Where one cannot be read for another reason than damage, that is the failure. */
Status checkpoint_dir_newest(const char *dir, int64_t below, char path[1024], int64_t *step, bool *found);
/* `status` of the step's folder `path`; of damage (BAD_FILE) fail_text() then names the whole one before it. */
Status checkpoint_dir_advise(Status status, const char *path);

/* What an earlier kill left is mended or removed, and an empty .part folder made. */
Status checkpoint_dir_begin  (const char *dir, int64_t step);
/* .part takes its name, the folder is synced, `latest` names it. */
Status checkpoint_dir_publish(const char *dir, int64_t step);
/* Left-overs go, and (keep_last > 0) good checkpoints of lower steps beyond keep_last - 1 of them; higher
 * steps are another branch of the run and stay. What cannot be removed is told and left. */
void   checkpoint_dir_sweep  (const char *dir, int64_t step, int keep_last);
#endif
