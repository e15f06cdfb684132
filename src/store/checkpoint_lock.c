/* What checks a --save directory before the first step, so that a run does not fail at its first save: the
 * lock against another run, the check for another run's checkpoints, and a trial write. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "base/seam.h"
#include "store/checkpoint.h"
#include "store/checkpoint_dir.h"

/* ---- the lock: a lock of the kernel, which ends with its process, so that a killed run leaves none ---- */

/* The text in the file only serves the message of another run; an error while writing it does not matter. */

static void holder_write(int lock)
{
    char host[65] = "", text[128];
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "?");
    int bytes = snprintf(text, sizeof text, "pid %d on host %s\n", (int)getpid(), host);
    if (ftruncate(lock, 0) != 0 || pwrite(lock, text, (size_t)bytes, 0) != bytes) { }
}

static Status holder_fail(int lock, const char *dir)
{
    char    text[128];
    ssize_t bytes = pread(lock, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = 0;
    text[strcspn(text, "\r\n")] = 0;
    return fail(BAD_OPTION, "%s: another run (%s) saves here; wait until it ends or give another --save", dir,
                text[0] ? text : "unknown");
}

static Status lock_open(int *lock, const char *dir)
{
    char path[1024];
    bool taken;
    TRY(path_join(path, dir, ".lock"));
    *lock = seam.open(path, O_RDWR | O_CREAT, 0666);
    if (*lock < 0) return fail(BAD_FILE, "%s: cannot be opened for writing: %s", path, strerror(errno));
    TRY(file_lock(*lock, path, &taken));
    if (!taken) return holder_fail(*lock, dir);
    holder_write(*lock);
    return OK;
}

/* ---- checkpoints that are already there ---- */

/* Compares resolved paths: the run may have been loaded through a link or a relative path. */
static bool is_within(const char *step_folder, const char *dir)
{
    char parent[1024], real[2][PATH_MAX];
    return step_folder && path_join(parent, step_folder, "..") == OK && realpath(parent, real[0]) &&
           realpath(dir, real[1]) && strcmp(real[0], real[1]) == 0;
}

static Status other_run_refuse(const char *dir, const char *loaded)
{
    char    path[1024];
    bool    found;
    int64_t step;
    if (is_within(loaded, dir)) return OK;
    TRY(checkpoint_dir_newest(dir, INT64_MAX, path, &step, &found));
    if (!found) return OK;
    return fail(BAD_OPTION,
                "--save %s holds checkpoints up to step %lld of another run; give --load %s to resume that"
                " run, or another directory", dir, (long long)step, dir);
}

/* An atomic replace needs all operations of a save: it finds a full disk, a read-only file system and
 * missing permissions. */
static Status probe(const char *dir)
{
    static const char text[] = "jotun can write here\n";
    char path[1024];
    TRY(path_join(path, dir, ".probe"));
    TRY(file_write_whole(path, text, sizeof text - 1));
    return seam.remove(path) == 0 ? OK : fail(IO_FAILED, "%s: cannot be removed: %s", path, strerror(errno));
}

/* The messages of file operations name paths; the user knows the option. */
static Status save_refuse(Status status, const char *dir)
{
    char why[400];
    if (status == OK) return OK;
    snprintf(why, sizeof why, "%s", fail_text());
    size_t same = strlen(dir);
    bool   named = !strncmp(why, dir, same) && why[same] == ':';
    return fail(status, "--save %s%s%s; give a directory that can be written to", named ? "" : dir,
                named ? "" : ": ", why);
}

/* A run inside a checkpoint would be found by no --load of the directory above it. */
static Status step_refuse(const char *dir)
{
    char             above[1024];
    CheckpointFolder folder;
    if (!checkpoint_dir_split(dir, above, &folder) && !checkpoint_dir_is_step(dir)) return OK;
    return fail(BAD_OPTION, "--save %s is a checkpoint's own directory; give the one it is in, --save %s",
                dir, above);
}

static Status place_take(const char *dir, int *lock)
{
    TRY(step_refuse(dir));
    TRY(save_refuse(folder_make(dir), dir));
    Status status = lock_open(lock, dir);
    return *lock < 0 ? save_refuse(status, dir) : status;
}

Status checkpoint_lock(const char *dir, const char *loaded, int *lock)
{
    *lock = -1;
    Status status = place_take(dir, lock);
    if (status == OK) status = other_run_refuse(dir, loaded);
    if (status == OK) status = save_refuse(probe(dir), dir);
    if (status == OK || *lock < 0) return status;
    seam.close(*lock);
    *lock = -1;
    return status;
}
