/* Checks all checkpoints of a directory. Unlike a resuming run it never takes an older one in the place of a
 * damaged one. */
#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"
#include "store/checkpoint.h"
#include "store/checkpoint_dir.h"

Status checkpoint_dir_none(const char *dir)
{
    return fail(BAD_FILE, "%s: holds no checkpoint; give the directory that --save named, or a step's own",
                dir);
}

/* How many checkpoints were read and how many are damaged; the first defect. */
typedef struct { int looked, bad; Failure first; } Findings;

static void findings_add(Findings *all, Status status, const char *path)
{
    all->looked++;
    if (status == OK) {
        printf("%s: every checksum is right\n", path);
        return;
    }
    printf("%s: DAMAGED: %s\n", path, fail_text());
    all->bad++;
    failure_keep(&all->first, status);
}

/* A folder that was renamed aside counts only where no new checkpoint of its step has taken its name;
 * otherwise a run is about to remove it. A folder that a run is still writing is no checkpoint yet. */
static Status step_verify(const char *dir, const CheckpointFolder *list, int i, Findings *all)
{
    char path[1024];
    bool replaced = list[i].kind == FOLDER_OLD && i > 0 && list[i - 1].step == list[i].step;
    if (list[i].kind == FOLDER_PART || replaced) return OK;
    TRY(checkpoint_dir_path(path, dir, list[i]));
    Status status = checkpoint_verify(path, true);
    /* A run with --keep-last may remove a checkpoint while it is read, which is no damage. */
    if (status != OK && !file_exists(path)) printf("%s: removed meanwhile\n", path);
    else findings_add(all, status, path);
    return OK;
}

/* The file "latest" must name a step that has a complete folder. */
static Status latest_verify(const char *dir, const CheckpointFolder *list, int count, Findings *all)
{
    CheckpointFolder latest;
    bool             named, there = false;
    TRY(checkpoint_dir_latest(dir, &latest, &named));
    for (int i = 0; i < count; i++) there |= list[i].step == latest.step && list[i].kind != FOLDER_PART;
    if (!named || there) return OK;
    Status status = fail(BAD_FILE, "%s/latest names step %lld, which is not there", dir,
                         (long long)latest.step);
    printf("%s\n", fail_text());
    failure_keep(&all->first, status);
    return OK;
}

static Status steps_verify(const char *dir, Findings *all)
{
    CheckpointFolder *list;
    int               count;
    TRY(checkpoint_dir_list(dir, &list, &count));
    Status status = OK;
    for (int i = 0; status == OK && i < count; i++) status = step_verify(dir, list, i, all);
    if (status == OK) status = latest_verify(dir, list, count, all);
    free(list);
    return status;
}

Status checkpoint_verify_all(const char *dir)
{
    Findings all = { 0 };
    char inner[1024];
    TRY(checkpoint_dir_inner(inner, dir));
    dir = inner;
    if (checkpoint_dir_is_step(dir)) findings_add(&all, checkpoint_verify(dir, true), dir);
    else TRY(steps_verify(dir, &all));
    if (all.looked == 0 && all.first.status == OK) return checkpoint_dir_none(dir);
    Status status = failure_report(&all.first);
    if (all.bad == 0) return status;
    return fail_prefix(status, "%s: %d of %d checkpoints are damaged; the first: ", dir, all.bad, all.looked);
}
