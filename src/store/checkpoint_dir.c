#include "store/checkpoint_dir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"

static const struct { const char *before, *after; } WORDS[] = {
    [FOLDER_WHOLE] = { "", "" }, [FOLDER_ASIDE] = { ".", ".old" }, [FOLDER_PART] = { ".", ".part" } };

static void step_name(char name[64], CheckpointFolder f)
{
    snprintf(name, 64, "%sstep_%08lld%s", WORDS[f.kind].before, (long long)f.step, WORDS[f.kind].after);
}

Status checkpoint_dir_path(char path[1024], const char *dir, CheckpointFolder folder)
{
    char name[64];
    step_name(name, folder);
    return path_join(path, dir, name);
}

/* ---- looking ---- */

/* Exactly a name we write: what is read is told again and compared. */
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

static Status list_read(DIR *stream, const char *dir, CheckpointFolder **list, int *count)
{
    CheckpointFolder folder;
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (!step_parse(&folder, entry->d_name)) continue;
        CheckpointFolder *more = realloc(*list, ((size_t)*count + 1) * sizeof folder);
        if (!more) return fail(NO_MEMORY, "%s: no memory for a list of checkpoints", dir);
        *list = more;
        more[(*count)++] = folder;
    }
    return OK;
}

Status checkpoint_dir_list(const char *dir, CheckpointFolder **list, int *count)
{
    *list  = NULL;
    *count = 0;
    DIR *stream = opendir(dir);
    if (!stream && errno == ENOENT) return OK;
    if (!stream) return fail(BAD_FILE, "%s: cannot be listed: %s", dir, strerror(errno));
    Status status = list_read(stream, dir, list, count);
    closedir(stream);
    if (*count) qsort(*list, (size_t)*count, sizeof **list, step_order);
    if (status == OK) return OK;
    free(*list);
    *list  = NULL;
    *count = 0;
    return status;
}

static Status sizes_check(const Manifest *m)
{
    for (int f = 0; f < m->files; f++) {
        char        path[1024];
        struct stat about;
        TRY(path_join(path, m->folder, m->file[f].bundle.file));
        if (stat(path, &about) != 0)
            return fail(errno == ENOENT ? BAD_FILE : IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
        if (about.st_size != m->file[f].bytes)
            return fail(BAD_FILE, "%s: %lld bytes, the manifest says %lld", path, (long long)about.st_size,
                        (long long)m->file[f].bytes);
    }
    return OK;
}

Status checkpoint_dir_check(const char *folder)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, folder));
    Status status = sizes_check(&manifest);
    manifest_free(&manifest);
    return status;
}

/* A file not to be read is not one that is not there. */
static Status file_readable(const char *path)
{
    int fd = seam.open(path, O_RDONLY, 0);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (fd >= 0) seam.close(fd);
    return OK;
}

/* Damaged or not there is *whole false; hidden by rights or by a sick disk is a failure, since it must not
 * send a run back to an older one in silence. */
static Status step_look(const char *dir, CheckpointFolder folder, char path[1024], bool *whole)
{
    char manifest[1024];
    *whole = false;
    TRY(checkpoint_dir_path(path, dir, folder));
    if (!file_exists(path)) return OK;
    TRY(path_join(manifest, path, "manifest.json"));
    TRY(file_readable(manifest));
    Status status = checkpoint_dir_check(path);
    *whole = status == OK;
    return status == BAD_FILE ? OK : status;
}

static bool step_good(const char *dir, CheckpointFolder folder)
{
    char path[1024];
    bool whole;
    return step_look(dir, folder, path, &whole) == OK && whole;
}

/* ---- finding ---- */

/* *named false where there is none, or no name in it. */
static Status latest_read(const char *dir, CheckpointFolder *folder, bool *named)
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
    name[strcspn(name, "\r\n")] = 0;                               /* an editor's line end is no harm */
    *named = step_parse(folder, name) && folder->kind == FOLDER_WHOLE;
    return OK;
}

/* *seen: there is something that wants to be a checkpoint */
static Status list_newest(const CheckpointFolder *list, int count, const char *dir, int64_t below, char path[1024],
                          CheckpointFolder *newest, bool *found, bool *seen)
{
    for (int i = 0; i < count && !*found; i++) {
        if (list[i].kind == FOLDER_PART || list[i].step >= below) continue;
        *seen   = true;
        *newest = list[i];
        TRY(step_look(dir, list[i], path, found));
    }
    return OK;
}

static Status newest_whole(const char *dir, int64_t below, char path[1024], CheckpointFolder *newest, bool *found, bool *seen)
{
    CheckpointFolder *list;
    int         count;
    *found = *seen = false;
    TRY(checkpoint_dir_list(dir, &list, &count));
    Status status = list_newest(list, count, dir, below, path, newest, found, seen);
    free(list);
    return status;
}

Status checkpoint_dir_newest(const char *dir, int64_t below, char path[1024], int64_t *step, bool *found)
{
    CheckpointFolder newest = { 0 };
    bool       seen;
    Status     status = newest_whole(dir, below, path, &newest, found, &seen);
    *step = newest.step;
    return status;
}

/* DIR and N of DIR/step_N or DIR/step_N/ */
static bool path_split(const char *path, char dir[1024], CheckpointFolder *folder)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "%s", path);
    for (size_t n = strlen(whole); n > 1 && whole[n - 1] == '/'; n--) whole[n - 1] = 0;
    char *slash = strrchr(whole, '/');
    if (!step_parse(folder, slash ? slash + 1 : whole)) return false;
    snprintf(dir, 1024, "%.*s", slash ? (int)(slash - whole) : 1, slash ? whole : ".");
    return true;
}

Status checkpoint_dir_advise(Status status, const char *path)
{
    char       words[512], dir[1024], before[1024];
    CheckpointFolder folder;
    int64_t    step;
    bool       found;
    if (status != BAD_FILE) return status;
    snprintf(words, sizeof words, "%s", fail_text());
    if (!path_split(path, dir, &folder) || checkpoint_dir_newest(dir, folder.step, before, &step, &found) != OK || !found)
        return fail(status, "%s", words);
    return fail(status, "%s; the one before it: --load %s", words, before);
}

/* The one `latest` names, or the same put aside. */
static Status latest_find(const char *dir, char path[1024], CheckpointFolder *folder, bool *named, bool *found)
{
    TRY(latest_read(dir, folder, named));
    if (!*named) return OK;
    TRY(step_look(dir, *folder, path, found));
    return *found ? OK : step_look(dir, (CheckpointFolder){ folder->step, FOLDER_ASIDE }, path, found);
}

/* To begin anew beside checkpoints that are all damaged would throw a run away in silence: that is an
 * error. */
Status checkpoint_find(const char *dir, char path[1024], bool *found)
{
    CheckpointFolder latest, newest;
    bool       named, seen;
    TRY(path_join(path, dir, "manifest.json"));
    *found = file_exists(path);
    if (*found) {                                                  /* dir is itself one step's folder */
        snprintf(path, 1024, "%s", dir);
        return checkpoint_dir_advise(checkpoint_dir_check(dir), dir);
    }
    TRY(latest_find(dir, path, &latest, &named, found));
    if (*found) return OK;
    TRY(newest_whole(dir, INT64_MAX, path, &newest, found, &seen));
    if (seen && !*found)
        return fail(BAD_FILE, "%s: no checkpoint in it is whole; one of them: %.300s", dir, fail_text());
    if (named && *found && thread_context()->rank <= 0)
        log_line("%s/latest names step %lld, which is not whole; taking %s", dir, (long long)latest.step, path);
    return OK;
}

/* ---- changing: by one rank only ---- */

static Status move(const char *from, const char *to)
{
    if (seam.rename(from, to) == 0) return OK;
    return fail(IO_FAILED, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
}

/* Under the name .part first, and that durable: what is half removed must not have a checkpoint's name. */
static Status step_remove(const char *dir, CheckpointFolder folder)
{
    char path[1024], part[1024];
    TRY(checkpoint_dir_path(path, dir, folder));
    TRY(checkpoint_dir_path(part, dir, (CheckpointFolder){ folder.step, FOLDER_PART }));
    TRY(folder_remove(part));
    if (folder.kind == FOLDER_PART) return OK;
    TRY(move(path, part));
    TRY(folder_sync(dir));
    return folder_remove(part);
}

/* Killed between the two renames of checkpoint_dir_publish: the old one gets its name back. */
static Status asides_mend(const char *dir)
{
    CheckpointFolder *list;
    int         count;
    Status      status = OK;
    char        aside[1024], whole[1024];
    TRY(checkpoint_dir_list(dir, &list, &count));
    for (int i = 0; i < count && status == OK; i++) {
        if (list[i].kind != FOLDER_ASIDE) continue;
        status = checkpoint_dir_path(aside, dir, list[i]);
        if (status == OK) status = checkpoint_dir_path(whole, dir, (CheckpointFolder){ list[i].step, FOLDER_WHOLE });
        if (status == OK && !file_exists(whole)) status = move(aside, whole);
    }
    free(list);
    return status;
}

static Status parent_sync(const char *dir)
{
    char path[1024];
    TRY(path_join(path, dir, ".."));
    return folder_sync(path);
}

Status checkpoint_dir_begin(const char *dir, int64_t step)
{
    char part[1024];
    TRY(checkpoint_dir_path(part, dir, (CheckpointFolder){ step, FOLDER_PART }));
    if (!file_exists(dir)) {
        TRY(folder_make(dir));
        TRY(parent_sync(dir));
    }
    TRY(asides_mend(dir));
    TRY(folder_remove(part));
    return folder_make(part);
}

static Status part_rename(const char *dir, int64_t step)
{
    char part[1024], whole[1024], aside[1024];
    TRY(checkpoint_dir_path(part,  dir, (CheckpointFolder){ step, FOLDER_PART }));
    TRY(checkpoint_dir_path(whole, dir, (CheckpointFolder){ step, FOLDER_WHOLE }));
    TRY(checkpoint_dir_path(aside, dir, (CheckpointFolder){ step, FOLDER_ASIDE }));
    bool again = file_exists(whole);
    if (again) {
        TRY(folder_remove(aside));
        TRY(move(whole, aside));
    }
    Status status = move(part, whole);
    if (status != OK && again) seam.rename(aside, whole);          /* what the first message says stands */
    return status;
}

Status checkpoint_dir_publish(const char *dir, int64_t step)
{
    char name[64], latest[1024];
    TRY(part_rename(dir, step));
    TRY(folder_sync(dir));
    TRY(path_join(latest, dir, "latest"));
    step_name(name, (CheckpointFolder){ step, FOLDER_WHOLE });
    return file_write_whole(latest, name, strlen(name));
}

/* Left-overs of kills; an aside only where its successor is good. */
static bool left_over(const char *dir, CheckpointFolder f)
{
    return f.kind == FOLDER_PART || (f.kind == FOLDER_ASIDE && step_good(dir, (CheckpointFolder){ f.step, FOLDER_WHOLE }));
}

static void sweep_one(const char *dir, CheckpointFolder f)
{
    if (step_remove(dir, f) != OK) log_line("an old checkpoint stays: %s", fail_text());
}

void checkpoint_dir_sweep(const char *dir, int64_t step, int keep_last)
{
    CheckpointFolder *list;
    int         count, kept = 1;                                   /* the one just written */
    if (checkpoint_dir_list(dir, &list, &count) != OK) return;
    for (int i = 0; i < count; i++)
        if (left_over(dir, list[i])) sweep_one(dir, list[i]);
    for (int i = 0; i < count && keep_last > 0; i++) {
        bool older = list[i].kind == FOLDER_WHOLE && list[i].step < step;
        if (older && step_good(dir, list[i]) && ++kept > keep_last)
            sweep_one(dir, list[i]);
    }
    free(list);
}
