#include "logs/log_file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/log.h"

Status log_file_open(LogFile *f, const char *option, const char *path, bool alone)
{
    *f = (LogFile){ .option = option };
    if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path)
        return fail(BAD_OPTION, "%s %s: the name is longer than 1,023 bytes", option, path);
    f->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (alone ? O_EXCL : 0), 0666);
    if (f->fd < 0)
        return fail(BAD_FILE, "%s %s cannot be opened: %s; give a file that can be written to", option, path,
                    strerror(errno));
    f->open = true;
    return OK;
}

void log_file_end_line(const LogFile *f)
{
    struct stat about;
    char last = '\n';
    if (fstat(f->fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0) return;
    int read_only = open(f->path, O_RDONLY | O_CLOEXEC);
    bool known = read_only >= 0 && pread(read_only, &last, 1, about.st_size - 1) == 1;
    if (known && last != '\n' && write(f->fd, "\n", 1) != 1)
        log_line("%s %s: its last line is incomplete and cannot be ended: %s", f->option, f->path,
                 strerror(errno));
    if (read_only >= 0) close(read_only);
}

/* Counts a lost record and reports the first one only: a full disk stays full for the rest of the run. */
static bool lose(LogFile *f, int why)
{
    if (f->lost++ > 0) return false;
    f->why = why;
    log_line("%s %s: lines are lost from here on: %s; training continues", f->option, f->path, strerror(why));
    return false;
}

/* A part of a record that a full disk took is removed. O_APPEND makes the file position irrelevant. */
bool log_file_add(LogFile *f, const void *record, size_t bytes)
{
    size_t written = 0;
    ssize_t n = 1;
    if (!f->open) return false;
    while (written < bytes && (n > 0 || (n < 0 && errno == EINTR))) {
        n = write(f->fd, (const char *)record + written, bytes - written);
        if (n > 0) written += (size_t)n;
    }
    if (written == bytes) return true;
    int why = n < 0 ? errno : ENOSPC;
    struct stat about;
    if (written > 0 && fstat(f->fd, &about) == 0 && S_ISREG(about.st_mode) &&
        ftruncate(f->fd, about.st_size - (off_t)written) != 0)
        log_line("%s %s ends with an incomplete line, which cannot be removed: %s", f->option, f->path,
                 strerror(errno));
    return lose(f, why);
}

Status log_file_close(LogFile *f, Status status, const char *saved)
{
    if (f->open && close(f->fd) != 0) lose(f, errno);
    f->open = false;
    if (f->lost == 0 || status != OK) return status;
    return fail(IO_FAILED, "%s %s lacks %lld lines of this run: %s; the training itself is done%s%s",
                f->option, f->path, (long long)f->lost, strerror(f->why), saved ? " and saved in " : "",
                saved ? saved : "");
}

/* ---- files of earlier runs ---- */

static int later_first(const void *a, const void *b) { return strcmp(*(char *const *)b, *(char *const *)a); }

Status log_names_find(LogNames *names, const char *option, const char *directory, const char *begin,
                      const char *end)
{
    DIR *folder = opendir(directory);
    *names = (LogNames){ 0 };
    if (!folder) return fail(BAD_FILE, "%s %s cannot be read: %s", option, directory, strerror(errno));
    for (struct dirent *e; (e = readdir(folder));) {
        size_t length = strlen(e->d_name), first = strlen(begin), last = strlen(end);
        if (length < first + last || strncmp(e->d_name, begin, first) != 0) continue;
        if (strcmp(e->d_name + length - last, end) != 0) continue;
        ARRAY_RESERVE_OR_STOP(names->name, names->room, names->count + 1);
        CHECK((names->name[names->count++] = strdup(e->d_name)), "no memory for names of logs");
    }
    closedir(folder);
    if (names->count > 0) qsort(names->name, (size_t)names->count, sizeof *names->name, later_first);
    return OK;
}

void log_names_free(LogNames *names)
{
    for (int i = 0; i < names->count; i++) free(names->name[i]);
    free(names->name);
    *names = (LogNames){ 0 };
}

/* ---- cutting ---- */

Status log_cut(LogCut *c, const char *path)
{
    struct stat about;
    FileMap     map;
    if (c->reaches || stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0) return OK;
    TRY(file_map(&map, path));
    LogKept kept = c->kept(c->context, &map, c->resumed);
    bool    cut  = kept.bytes < map.size;
    file_unmap(&map);
    c->reaches  = kept.reaches;
    c->removed += kept.removed;
    if (!cut || truncate(path, (off_t)kept.bytes) == 0) return OK;
    return fail(BAD_FILE, "%s %s: what a killed run wrote after its checkpoint cannot be removed: %s",
                c->option, path, strerror(errno));
}

void log_cut_tell(const LogCut *c)
{
    if (c->removed > 0)
        log_line("%s %s: %lld %s of steps after %lld are removed, because the run takes these steps again",
                 c->option, c->place, (long long)c->removed, c->records, (long long)c->resumed);
}
