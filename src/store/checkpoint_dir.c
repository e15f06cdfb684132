/* Listing, checking, publishing and removing the step directories of a --save directory. Readers may run
 * at any time, also while another process saves, so every change is a rename that leaves each name either
 * complete or absent. */
#include "store/checkpoint_dir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/message.h"
#include "base/seam.h"

static const struct { const char *prefix, *suffix; } NAMES[] = {
    [FOLDER_WHOLE] = { "", "" }, [FOLDER_OLD] = { ".", ".old" }, [FOLDER_PART] = { ".", ".part" } };

static void step_name(char name[64], CheckpointFolder f)
{
    snprintf(name, 64, "%sstep_%08lld%s", NAMES[f.kind].prefix, (long long)f.step, NAMES[f.kind].suffix);
}

Status checkpoint_dir_path(char path[1024], const char *dir, CheckpointFolder folder)
{
    char name[64];
    step_name(name, folder);
    return path_join(path, dir, name);
}

/* ---- listing and checking ---- */

/* Accepts exactly the names that step_name writes: the number is formatted again and compared, so that
 * step_1 or step_00000001x is no step. */
static bool step_parse(CheckpointFolder *folder, const char *name)
{
    char again[64];
    const char *digits = name + (name[0] == '.') + strlen("step_");
    if (strlen(name) < strlen("step_") + 8 || strlen(name) > 40) return false;
    for (CheckpointFolderKind kind = FOLDER_WHOLE; kind <= FOLDER_PART; kind++) {
        *folder = (CheckpointFolder){ strtoll(digits, NULL, 10), kind };
        step_name(again, *folder);
        if (folder->step >= 0 && strcmp(again, name) == 0) return true;
    }
    return false;
}

static int step_order(const void *a, const void *b)
{
    const CheckpointFolder *x = a, *y = b;
    if (x->step != y->step) return x->step > y->step ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

Status checkpoint_dir_list(const char *dir, CheckpointFolder **list, int *count)
{
    CheckpointFolder folder;
    Status           status = OK;
    int              room   = 0;
    *list  = NULL;
    *count = 0;
    DIR *stream = opendir(dir);
    if (!stream && errno == ENOENT) return OK;
    if (!stream) return fail(BAD_FILE, "%s: cannot be listed: %s", dir, strerror(errno));
    for (struct dirent *entry; status == OK && (entry = readdir(stream));) {
        if (!step_parse(&folder, entry->d_name)) continue;
        status = ARRAY_RESERVE(*list, room, *count + 1);
        if (status == OK) (*list)[(*count)++] = folder;
    }
    closedir(stream);
    if (*count) qsort(*list, (size_t)*count, sizeof **list, step_order);
    if (status == OK) return OK;
    free(*list);
    *list  = NULL;
    *count = 0;
    return status;
}

static Status size_check(const Manifest *m, const ManifestFile *file)
{
    char        path[1024];
    struct stat about;
    TRY(path_join(path, m->folder, file->contents.name));
    if (stat(path, &about) != 0)
        return fail(errno == ENOENT ? BAD_FILE : IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
    if (about.st_size == file->bytes) return OK;
    return fail(BAD_FILE, "%s: %lld bytes, the manifest says %lld", path, (long long)about.st_size,
                (long long)file->bytes);
}

Status checkpoint_dir_check(const char *folder)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, folder));
    Status status = OK;
    for (int f = 0; status == OK && f < manifest.files; f++)
        status = size_check(&manifest, &manifest.file[f]);
    manifest_free(&manifest);
    return status;
}

/* Opens the manifest once by itself, because checkpoint_dir_check reports every unreadable file as
 * BAD_FILE, which would make a file without read permission look like a damaged one. */
Status checkpoint_dir_inspect(const char *dir, CheckpointFolder folder, char path[1024], bool *complete)
{
    char manifest[1024];
    *complete = false;
    TRY(checkpoint_dir_path(path, dir, folder));
    if (!file_exists(path)) return OK;
    TRY(path_join(manifest, path, "manifest.json"));
    int fd = seam.open(manifest, O_RDONLY, 0);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return fail(BAD_FILE, "%s: cannot be read: %s", manifest, strerror(errno));
    if (fd >= 0) seam.close(fd);
    Status status = checkpoint_dir_check(path);
    *complete = status == OK;
    return status == BAD_FILE ? OK : status;
}

static bool step_complete(const char *dir, CheckpointFolder folder)
{
    char path[1024];
    bool complete;
    return checkpoint_dir_inspect(dir, folder, path, &complete) == OK && complete;
}

/* ---- finding ---- */

Status checkpoint_dir_latest(const char *dir, CheckpointFolder *folder, bool *named)
{
    char    path[1024], name[64];
    FileMap map;
    *named = false;
    TRY(path_join(path, dir, "latest"));
    if (!file_exists(path)) return OK;
    TRY(file_map(&map, path));
    int bytes = (int)(map.size < sizeof name ? map.size : sizeof name - 1);
    snprintf(name, sizeof name, "%.*s", bytes, (const char *)map.data);
    file_unmap(&map);
    /* A user may have edited the file, and editors add a line end. */
    name[strcspn(name, "\r\n")] = 0;
    *named = step_parse(folder, name) && folder->kind == FOLDER_WHOLE;
    return OK;
}

Status checkpoint_dir_newest(const char *dir, int64_t below, char path[1024], int64_t *step, bool *found)
{
    CheckpointFolder *list;
    int               count;
    Status            status = OK;
    *found = false;
    *step  = -1;
    TRY(checkpoint_dir_list(dir, &list, &count));
    for (int i = 0; i < count && status == OK && !*found; i++) {
        if (list[i].kind == FOLDER_PART || list[i].step >= below) continue;
        *step  = list[i].step;
        status = checkpoint_dir_inspect(dir, list[i], path, found);
    }
    free(list);
    return status;
}

/* The last component in `name`, what precedes it in `dir`; "." where there is nothing. */
static void parent_split(const char *path, char dir[1024], char name[256])
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s", path);
    for (size_t n = strlen(whole); n > 1 && whole[n - 1] == '/'; n--) whole[n - 1] = 0;
    char *slash = strrchr(whole, '/');
    snprintf(name, 256, "%.255s", slash ? slash + 1 : whole);
    snprintf(dir, 1024, "%.*s", slash == whole ? 1 : slash ? (int)(slash - whole) : 1, slash ? whole : ".");
}

bool checkpoint_dir_split(const char *path, char dir[1024], CheckpointFolder *folder)
{
    char name[256];
    parent_split(path, dir, name);
    return step_parse(folder, name);
}

Status checkpoint_dir_steps(char *text, size_t size, const char *dir, int64_t above)
{
    CheckpointFolder *list;
    int               count;
    *text = 0;
    TRY(checkpoint_dir_list(dir, &list, &count));
    for (int i = count - 1; i >= 0; i--) {
        if (list[i].kind != FOLDER_WHOLE || list[i].step <= above) continue;
        if (!message_item(text, size, ", ", "%lld", (long long)list[i].step)) break;
    }
    free(list);
    return OK;
}

Status checkpoint_dir_missing(const char *path)
{
    char dir[1024], name[256], steps[400];
    if (file_exists(path)) return OK;
    parent_split(path, dir, name);
    bool step = !strncmp(name, "step_", 5) && strspn(name + 5, "0123456789");
    TRY(checkpoint_dir_steps(steps, sizeof steps, dir, -1));
    if (*steps)
        return fail(BAD_FILE, "%s: there is no such checkpoint; %s holds those of the steps %s: give one of "
                    "them, or %s for the latest", path, dir, steps, dir);
    if (!step) return OK;
    return fail(BAD_FILE, "%s: there is no such checkpoint, and %s holds none; give the directory that jotun "
                "train --save wrote", path, dir);
}

/* A speedrun writes speedrun.json and trains into checkpoint/. */
Status checkpoint_dir_inner(char inner[1024], const char *dir)
{
    char state[1024], latest[1024];
    TRY(path_join(state, dir, "speedrun.json"));
    TRY(path_join(latest, dir, "latest"));
    TRY(path_join(inner, dir, "checkpoint"));
    if (!file_exists(state) || file_exists(latest) || !file_exists(inner)) snprintf(inner, 1024, "%s", dir);
    return OK;
}

bool checkpoint_dir_is_step(const char *path)
{
    char             manifest[1024], dir[1024];
    CheckpointFolder folder;
    if (path_join(manifest, path, "manifest.json") == OK && file_exists(manifest)) return true;
    return checkpoint_dir_split(path, dir, &folder) && file_exists(path);
}

Status checkpoint_dir_advise(Status status, const char *path)
{
    char             dir[1024], before[1024];
    Failure          why = { 0 };                               /* the search below may fail as well */
    CheckpointFolder folder;
    int64_t          step;
    bool             found;
    if (status != BAD_FILE) return status;
    failure_keep(&why, status);
    if (!checkpoint_dir_split(path, dir, &folder) ||
        checkpoint_dir_newest(dir, folder.step, before, &step, &found) != OK || !found)
        return failure_report(&why);
    return fail(status, "%s; the files of the checkpoint before it have their sizes, and jotun checkpoint "
                "verify %s checks their bytes: --load %s", why.text, before, before);
}

/* ---- changing ---- */

/* Renames to .part first and syncs that, because a directory that is half removed must not have a
 * checkpoint's name. */
static Status step_remove(const char *dir, CheckpointFolder folder)
{
    char path[1024], part[1024];
    TRY(checkpoint_dir_path(path, dir, folder));
    TRY(checkpoint_dir_path(part, dir, (CheckpointFolder){ folder.step, FOLDER_PART }));
    TRY(folder_remove(part));
    if (folder.kind == FOLDER_PART) return OK;
    TRY(file_rename(path, part));
    TRY(folder_sync(dir));
    return folder_remove(part);
}

/* "abandoned_step_00000030", or with a number behind it where that is taken: no name that step_parse
 * accepts. */
static Status abandoned_path(char path[1024], const char *dir, int64_t step)
{
    char   step_only[64], name[96];
    step_name(step_only, (CheckpointFolder){ step, FOLDER_WHOLE });
    snprintf(name, sizeof name, "abandoned_%s", step_only);
    TRY(path_join(path, dir, name));
    for (int i = 2; file_exists(path); i++) {
        snprintf(name, sizeof name, "abandoned_%s_%d", step_only, i);
        TRY(path_join(path, dir, name));
    }
    return OK;
}

static Status latest_write(const char *dir, int64_t step)
{
    char name[64], latest[1024];
    TRY(path_join(latest, dir, "latest"));
    step_name(name, (CheckpointFolder){ step, FOLDER_WHOLE });
    return file_write_whole(latest, name, strlen(name));
}

/* `latest` is written first: a kill between two renames leaves no later step that would be found. */
Status checkpoint_dir_abandon(const char *dir, int64_t above)
{
    CheckpointFolder *list;
    int               count, renamed = 0;
    Status            status = OK;
    char              path[1024], aside[1024];
    TRY(checkpoint_dir_path(path, dir, (CheckpointFolder){ above, FOLDER_WHOLE }));
    bool here = file_exists(path);
    TRY(checkpoint_dir_list(dir, &list, &count));
    for (int i = 0; i < count && status == OK && list[i].step > above; i++) {
        if (list[i].kind == FOLDER_PART) continue;
        if (renamed++ == 0 && here) status = latest_write(dir, above);
        if (status == OK) status = checkpoint_dir_path(path, dir, list[i]);
        if (status == OK) status = abandoned_path(aside, dir, list[i].step);
        if (status == OK) status = file_rename(path, aside);
    }
    free(list);
    return status == OK && renamed ? folder_sync(dir) : status;
}

/* If a save was killed between the two renames of part_rename, the previous checkpoint gets its name back. */
static Status old_folders_restore(const char *dir)
{
    CheckpointFolder *list;
    int               count;
    Status            status = OK;
    char              old[1024], whole[1024];
    TRY(checkpoint_dir_list(dir, &list, &count));
    for (int i = 0; i < count && status == OK; i++) {
        if (list[i].kind != FOLDER_OLD) continue;
        status = checkpoint_dir_path(old, dir, list[i]);
        if (status == OK)
            status = checkpoint_dir_path(whole, dir, (CheckpointFolder){ list[i].step, FOLDER_WHOLE });
        if (status == OK && !file_exists(whole)) status = file_rename(old, whole);
    }
    free(list);
    return status;
}

Status checkpoint_dir_begin(const char *dir, int64_t step)
{
    char part[1024];
    TRY(checkpoint_dir_path(part, dir, (CheckpointFolder){ step, FOLDER_PART }));
    if (!file_exists(dir)) {
        char parent[1024];
        TRY(folder_make(dir));
        TRY(path_join(parent, dir, ".."));
        TRY(folder_sync(parent));
    }
    TRY(old_folders_restore(dir));
    TRY(folder_remove(part));
    return folder_make(part);
}

/* rename cannot replace a directory that is not empty, so a previous checkpoint of the same step is moved
 * away first and moved back if the second rename fails. */
static Status part_rename(const char *dir, int64_t step)
{
    char part[1024], whole[1024], old[1024];
    TRY(checkpoint_dir_path(part,  dir, (CheckpointFolder){ step, FOLDER_PART }));
    TRY(checkpoint_dir_path(whole, dir, (CheckpointFolder){ step, FOLDER_WHOLE }));
    TRY(checkpoint_dir_path(old, dir, (CheckpointFolder){ step, FOLDER_OLD }));
    bool again = file_exists(whole);
    if (again) {
        TRY(folder_remove(old));
        TRY(file_rename(whole, old));
    }
    Status status = file_rename(part, whole);
    /* The message of the first failure is kept. */
    if (status != OK && again) seam.rename(old, whole);
    return status;
}

/* The sync precedes the write of `latest`, so that `latest` never names a step whose rename a power cut
 * can undo. */
Status checkpoint_dir_publish(const char *dir, int64_t step)
{
    TRY(part_rename(dir, step));
    TRY(folder_sync(dir));
    return latest_write(dir, step);
}

/* The new link is made under another name and renamed, so that DIR/name always names a checkpoint. */
Status checkpoint_dir_link(const char *dir, const char *name, int64_t step)
{
    char target[64], path[1024], made[1024], hidden[80];
    snprintf(hidden, sizeof hidden, ".%.60s.new", name);
    step_name(target, (CheckpointFolder){ step, FOLDER_WHOLE });
    TRY(path_join(path, dir, name));
    TRY(path_join(made, dir, hidden));
    seam.remove(made);                                     /* of a process that was killed here */
    if (symlink(target, made) != 0)
        return fail(IO_FAILED, "%s: a link cannot be made: %s", made, strerror(errno));
    TRY(file_rename(made, path));
    return folder_sync(dir);
}

/* The step that DIR/best links to; -1: none. */
static int64_t best_step(const char *dir)
{
    char path[1024], target[64];
    CheckpointFolder folder;
    if (path_join(path, dir, "best") != OK) return -1;
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    if (bytes <= 0) return -1;
    target[bytes] = 0;
    return step_parse(&folder, target) ? folder.step : -1;
}

static void prune_one(const char *dir, CheckpointFolder f)
{
    if (step_remove(dir, f) != OK) log_line("an old checkpoint could not be removed: %s", fail_text());
}

void checkpoint_dir_prune(const char *dir, int64_t step, int keep_last)
{
    CheckpointFolder *list;
    int               count, kept = 1;         /* the one just written counts as kept */
    int64_t           best = best_step(dir);
    if (checkpoint_dir_list(dir, &list, &count) != OK) return;
    /* Left-overs of killed saves; an .old directory only if the checkpoint that replaces it is complete. */
    for (int i = 0; i < count; i++) {
        bool old = list[i].kind == FOLDER_OLD &&
            step_complete(dir, (CheckpointFolder){ list[i].step, FOLDER_WHOLE });
        if (list[i].kind == FOLDER_PART || old) prune_one(dir, list[i]);
    }
    for (int i = 0; i < count && keep_last > 0; i++) {
        bool older = list[i].kind == FOLDER_WHOLE && list[i].step < step && list[i].step != best;
        if (older && step_complete(dir, list[i]) && ++kept > keep_last)
            prune_one(dir, list[i]);
    }
    free(list);
}
