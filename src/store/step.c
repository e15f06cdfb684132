#include "store/step.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"

static const struct { const char *before, *after; } WORDS[] = {
    [STEP_WHOLE] = { "", "" }, [STEP_ASIDE] = { ".", ".old" }, [STEP_PART] = { ".", ".part" } };

static Status path_join(char path[1024], const char *dir, const char *name)
{
    if (snprintf(path, 1024, "%s/%s", dir, name) < 1024) return OK;
    return fail(BAD_OPTION, "%.200s...: path too long", dir);
}

static void step_name(char name[64], StepFolder f)
{
    snprintf(name, 64, "%sstep_%08lld%s", WORDS[f.kind].before, (long long)f.step, WORDS[f.kind].after);
}

Status step_path(char path[1024], const char *dir, StepFolder folder)
{
    char name[64];
    step_name(name, folder);
    return path_join(path, dir, name);
}

/* ---- looking ---- */

/* Exactly a name we write: what is read is told again and compared. */
static bool step_parse(StepFolder *folder, const char *name)
{
    char again[64];
    const char *digits = name + (name[0] == '.') + strlen("step_");
    if (strlen(name) < strlen("step_") + 8 || strlen(name) > 40) return false;
    for (StepKind kind = STEP_WHOLE; kind <= STEP_PART; kind++) {
        *folder = (StepFolder){ strtoll(digits, NULL, 10), kind };
        step_name(again, *folder);
        if (folder->step >= 0 && strcmp(again, name) == 0) return true;
    }
    return false;
}

static int step_order(const void *a, const void *b)
{
    const StepFolder *x = a, *y = b;
    if (x->step != y->step) return x->step > y->step ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

static Status list_read(DIR *stream, const char *dir, StepFolder **list, int *count)
{
    StepFolder folder;
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (!step_parse(&folder, entry->d_name)) continue;
        StepFolder *more = realloc(*list, ((size_t)*count + 1) * sizeof folder);
        if (!more) return fail(NO_MEMORY, "%s: no memory for a list of checkpoints", dir);
        *list = more;
        more[(*count)++] = folder;
    }
    return OK;
}

Status step_list(const char *dir, StepFolder **list, int *count)
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
        if (stat(path, &about) != 0) return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
        if (about.st_size != m->file[f].bytes)
            return fail(BAD_FILE, "%s: %lld bytes, the manifest says %lld", path, (long long)about.st_size,
                        (long long)m->file[f].bytes);
    }
    return OK;
}

Status step_check(const char *folder)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, folder));
    Status status = sizes_check(&manifest);
    manifest_free(&manifest);
    return status;
}

static bool step_good(const char *dir, int64_t step, StepKind kind, char path[1024])
{
    return step_path(path, dir, (StepFolder){ step, kind }) == OK && file_exists(path) &&
           step_check(path) == OK;
}

/* ---- finding ---- */

static bool latest_read(const char *dir, int64_t *step)
{
    char       path[1024], name[64];
    FileMap    map;
    StepFolder folder;
    if (path_join(path, dir, "latest") != OK || !file_exists(path) || file_map(&map, path) != OK)
        return false;
    int bytes = (int)(map.size < sizeof name ? map.size : sizeof name - 1);
    snprintf(name, sizeof name, "%.*s", bytes, (const char *)map.data);
    file_unmap(&map);
    name[strcspn(name, "\r\n")] = 0;                               /* an editor's line end is no harm */
    if (!step_parse(&folder, name) || folder.kind != STEP_WHOLE) return false;
    *step = folder.step;
    return true;
}

/* *seen: there is something that wants to be a checkpoint */
static Status newest_whole(const char *dir, char path[1024], bool *found, bool *seen)
{
    StepFolder *list;
    int         count;
    TRY(step_list(dir, &list, &count));
    for (int i = 0; i < count && !*found; i++) {
        if (list[i].kind == STEP_PART) continue;
        *seen  = true;
        *found = step_good(dir, list[i].step, list[i].kind, path);
    }
    free(list);
    return OK;
}

/* To begin anew beside checkpoints that are all damaged would throw a run away in silence: that is an
 * error. */
Status checkpoint_find(const char *dir, char path[1024], bool *found)
{
    int64_t step;
    bool    seen = false;
    TRY(path_join(path, dir, "manifest.json"));
    *found = file_exists(path);
    if (*found) {                                                  /* dir is itself one step's folder */
        snprintf(path, 1024, "%s", dir);
        return step_check(dir);
    }
    bool named = latest_read(dir, &step);
    *found = named && (step_good(dir, step, STEP_WHOLE, path) || step_good(dir, step, STEP_ASIDE, path));
    if (*found) return OK;
    TRY(newest_whole(dir, path, found, &seen));
    if (seen && !*found)
        return fail(BAD_FILE, "%s: no checkpoint in it is whole; one of them: %.300s", dir, fail_text());
    if (named && *found && place()->rank <= 0)
        log_line("%s/latest names step %lld, which is not whole; taking %s", dir, (long long)step, path);
    return OK;
}

/* ---- changing: by one rank only ---- */

static Status move(const char *from, const char *to)
{
    if (seam.rename(from, to) == 0) return OK;
    return fail(IO_FAILED, "%s: cannot be renamed to %s: %s", from, to, strerror(errno));
}

/* Under the name .part first, and that durable: what is half removed must not have a checkpoint's name. */
static Status step_remove(const char *dir, StepFolder folder)
{
    char path[1024], part[1024];
    TRY(step_path(path, dir, folder));
    TRY(step_path(part, dir, (StepFolder){ folder.step, STEP_PART }));
    TRY(folder_remove(part));
    if (folder.kind == STEP_PART) return OK;
    TRY(move(path, part));
    TRY(folder_sync(dir));
    return folder_remove(part);
}

/* Killed between the two renames of step_publish: the old one gets its name back. */
static Status asides_mend(const char *dir)
{
    StepFolder *list;
    int         count;
    Status      status = OK;
    char        aside[1024], whole[1024];
    TRY(step_list(dir, &list, &count));
    for (int i = 0; i < count && status == OK; i++) {
        if (list[i].kind != STEP_ASIDE) continue;
        status = step_path(aside, dir, list[i]);
        if (status == OK) status = step_path(whole, dir, (StepFolder){ list[i].step, STEP_WHOLE });
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

Status step_begin(const char *dir, int64_t step)
{
    char part[1024];
    TRY(step_path(part, dir, (StepFolder){ step, STEP_PART }));
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
    TRY(step_path(part,  dir, (StepFolder){ step, STEP_PART }));
    TRY(step_path(whole, dir, (StepFolder){ step, STEP_WHOLE }));
    TRY(step_path(aside, dir, (StepFolder){ step, STEP_ASIDE }));
    bool again = file_exists(whole);
    if (again) {
        TRY(folder_remove(aside));
        TRY(move(whole, aside));
    }
    Status status = move(part, whole);
    if (status != OK && again) seam.rename(aside, whole);          /* what the first message says stands */
    return status;
}

Status step_publish(const char *dir, int64_t step)
{
    char name[64], latest[1024];
    TRY(part_rename(dir, step));
    TRY(folder_sync(dir));
    TRY(path_join(latest, dir, "latest"));
    step_name(name, (StepFolder){ step, STEP_WHOLE });
    return file_write_whole(latest, name, strlen(name));
}

/* Left-overs of kills; an aside only where its successor is good. */
static bool left_over(const char *dir, StepFolder f)
{
    char path[1024];
    return f.kind == STEP_PART || (f.kind == STEP_ASIDE && step_good(dir, f.step, STEP_WHOLE, path));
}

static void sweep_one(const char *dir, StepFolder f)
{
    if (step_remove(dir, f) != OK) log_line("an old checkpoint stays: %s", fail_text());
}

void step_sweep(const char *dir, int64_t step, int keep_last)
{
    StepFolder *list;
    int         count, kept = 1;                                   /* the one just written */
    char        path[1024];
    if (step_list(dir, &list, &count) != OK) return;
    for (int i = 0; i < count; i++)
        if (left_over(dir, list[i])) sweep_one(dir, list[i]);
    for (int i = 0; i < count && keep_last > 0; i++) {
        bool older = list[i].kind == STEP_WHOLE && list[i].step < step;
        if (older && step_good(dir, list[i].step, STEP_WHOLE, path) && ++kept > keep_last)
            sweep_one(dir, list[i]);
    }
    free(list);
}
