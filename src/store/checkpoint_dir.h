#ifndef STORE_CHECKPOINT_DIR_H
#define STORE_CHECKPOINT_DIR_H
/* The directories inside a --save directory: their names, which of them are complete checkpoints, and the
 * renames that publish one.
 *
 *     step_00001000           a checkpoint; it gets this name by a rename, once it is complete
 *     .step_00001000.part     being written or being removed; never a checkpoint
 *     .step_00001000.old      a complete checkpoint, renamed while a new one of the same step takes its name
 *     abandoned_step_00001000 of a run that then continued from an earlier step; not looked at below
 *     latest                  the name of the newest complete checkpoint
 *     best                    a link to the checkpoint with the lowest validation loss, where a run keeps it
 *     .lock, .probe           of the run that saves here (checkpoint_lock.c); not looked at below */
#include "store/manifest.h"

typedef enum { FOLDER_WHOLE, FOLDER_OLD, FOLDER_PART } CheckpointFolderKind;      /* plain, .old, .part */
typedef struct { int64_t step; CheckpointFolderKind kind; } CheckpointFolder;

Status checkpoint_dir_path(char path[1024], const char *dir, CheckpointFolder folder);
/* Highest step first, and within a step in the order of the kinds. The caller frees *list. A missing dir
 * is an empty list. */
Status checkpoint_dir_list(const char *dir, CheckpointFolder **list, int *count);
/* OK if the manifest is valid and each file that it names has the size it gives; BAD_FILE otherwise. Reads
 * no weights. */
Status checkpoint_dir_check(const char *folder);
/* *complete: the directory exists and checkpoint_dir_check accepts it. A damaged or missing one is not an
 * error; one that cannot be read for another reason (permissions, I/O errors) is, so that a run never
 * silently resumes from an older one. */
Status checkpoint_dir_inspect(const char *dir, CheckpointFolder folder, char path[1024], bool *complete);

/* The directory of checkpoints that `dir` means: DIR/checkpoint if dir is the folder of a speedrun, otherwise
 * dir. */
Status checkpoint_dir_inner(char inner[1024], const char *dir);
/* Splits DIR/step_N or DIR/step_N/ into DIR and the step; false if the last component is no step. */
bool   checkpoint_dir_split(const char *path, char dir[1024], CheckpointFolder *folder);
/* Whether the path is a step directory, complete or not: it contains a manifest or is named like a step. */
bool   checkpoint_dir_is_step(const char *path);
/* The step that `latest` names; *named is false if the file is missing or names none. */
Status checkpoint_dir_latest(const char *dir, CheckpointFolder *folder, bool *named);

/* The complete checkpoint of the highest step below `below`; damaged ones are skipped. If *found is false
 * and *step >= 0, all of them are damaged and fail_text() gives the reason for one. Another failure than
 * damage is returned. */
Status checkpoint_dir_newest(const char *dir, int64_t below, char path[1024], int64_t *step, bool *found);
/* "10, 15, 20": the steps of dir above `above` whose directories have their plain names, ascending, as many
 * as fit in `size`. */
Status checkpoint_dir_steps(char *text, size_t size, const char *dir, int64_t above);
/* BAD_FILE, with the steps there are, if nothing is at `path` and its name or what is beside it shows that a
 * checkpoint is meant; so that no run starts at step 0 because of a mistyped step. */
Status checkpoint_dir_missing(const char *path);
/* BAD_FILE: there is none in a directory that was given for its checkpoints. */
Status checkpoint_dir_none(const char *dir);
/* Returns `status`, an error about the step directory `path`. If it is BAD_FILE, adds to fail_text() which
 * checkpoint precedes it whose files have their sizes; their bytes are not read. */
Status checkpoint_dir_advise(Status status, const char *path);

/* The functions below change the directory; rank 0 alone calls them. */

/* Before the first save of a run that continues after step `above`: writes that into `latest` and renames the
 * checkpoints of later steps to abandoned_step_N, so that checkpoint_dir_newest does not find them and
 * checkpoint_dir_prune does not count them. */
Status checkpoint_dir_abandon(const char *dir, int64_t above);
/* Repairs or removes what a killed save left, and makes an empty .part directory. */
Status checkpoint_dir_begin  (const char *dir, int64_t step);
/* Renames .part to step_N, syncs the directory and rewrites `latest`. */
Status checkpoint_dir_publish(const char *dir, int64_t step);
/* Makes the link DIR/name point to step_N, atomically and durably; one of that name is replaced. */
Status checkpoint_dir_link   (const char *dir, const char *name, int64_t step);
/* Removes left-over .part and .old directories and, if keep_last > 0, complete checkpoints of lower steps
 * beyond keep_last - 1 of them, but for the one that DIR/best links to. Higher steps, which
 * checkpoint_dir_abandon was not called for, are kept. What cannot be removed is logged. */
void   checkpoint_dir_prune  (const char *dir, int64_t step, int keep_last);
#endif
