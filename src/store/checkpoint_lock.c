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

/* What the user named: the option, and its directory. */
typedef struct { const char *option, *dir; } Place;

static Status holder_fail(int lock, Place place)
{
    char    text[128];
    ssize_t bytes = pread(lock, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = 0;
    text[strcspn(text, "\r\n")] = 0;
    return fail(BAD_OPTION, "%s: another run (%s) saves here; wait until it ends or give another %s",
                place.dir, text[0] ? text : "unknown", place.option);
}

static Status lock_open(int *lock, Place place)
{
    char path[1024];
    bool taken;
    TRY(path_join(path, place.dir, ".lock"));
    *lock = seam.open(path, O_RDWR | O_CREAT, 0666);
    if (*lock < 0) return fail(BAD_FILE, "%s: cannot be opened for writing: %s", path, strerror(errno));
    TRY(file_lock(*lock, path, &taken));
    if (!taken) return holder_fail(*lock, place);
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

static Status other_run_refuse(Place place, const char *loaded)
{
    const char *dir = place.dir;
    char    path[1024];
    bool    found;
    int64_t step;
    if (is_within(loaded, dir)) return OK;
    TRY(checkpoint_dir_newest(dir, INT64_MAX, path, &step, &found));
    if (!found) return OK;
    return fail(BAD_OPTION,
                "%s %s holds checkpoints up to step %lld of another run; give --load %s to resume that"
                " run, or another directory", place.option, dir, (long long)step, dir);
}

/* An atomic replace needs all operations of a save: it finds a full disk, a read-only file system and
 * missing permissions. */
static Status probe(const char *dir)
{
    static const char text[] = "jotun can write here\n";
    char path[1024];
    TRY(path_join(path, dir, ".probe"));
    Status status = file_write_whole(path, text, sizeof text - 1);
    bool   removed = seam.remove(path) == 0;
    if (status != OK) return status;
    return removed ? OK : fail(IO_FAILED, "%s: cannot be removed: %s", path, strerror(errno));
}

/* The messages of file operations name paths, also of files that are there for a moment alone; the user knows
 * the option. */
static Status save_refuse(Status status, Place place)
{
    if (status == OK) return OK;
    const char *why    = fail_text();
    size_t      same   = strlen(place.dir);
    bool        named  = !strncmp(why, place.dir, same) && why[same] == ':';
    const char *inside = !strncmp(why, place.dir, same) && why[same] == '/' ? strstr(why, ": ") : NULL;
    return fail(status, "%s %s%s%s; give a directory that can be written to", place.option,
                named ? "" : place.dir, named ? "" : inside ? ": a file in it" : ": ",
                inside ? inside + 1 : why);
}

/* A run inside a checkpoint would be found by no --load of the directory above it. */
static Status step_refuse(Place place)
{
    char             above[1024];
    CheckpointFolder folder;
    if (!checkpoint_dir_split(place.dir, above, &folder) && !checkpoint_dir_is_step(place.dir)) return OK;
    return fail(BAD_OPTION, "%s %s is a checkpoint's own directory; give the one it is in, %s %s",
                place.option, place.dir, place.option, above);
}

static Status place_take(Place place, int *lock)
{
    TRY(step_refuse(place));
    TRY(save_refuse(folder_make(place.dir), place));
    Status status = lock_open(lock, place);
    return *lock < 0 ? save_refuse(status, place) : status;
}

Status checkpoint_lock(const char *option, const char *dir, const char *loaded, int *lock)
{
    Place place = { option, dir };
    bool  made  = !file_exists(dir);
    char  file[1024];
    *lock = -1;
    Status status = place_take(place, lock);
    if (status == OK) status = other_run_refuse(place, loaded);
    if (status == OK) status = save_refuse(probe(dir), place);
    if (status == OK || *lock < 0) return status;
    /* Nothing is left of a directory that this call made. */
    if (made && path_join(file, dir, ".lock") == OK && seam.remove(file) == 0) seam.remove(dir);
    seam.close(*lock);
    *lock = -1;
    return status;
}
