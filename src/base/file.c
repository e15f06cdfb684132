/* Files and directories by way of the seam, so that tests can fail any write, fsync or rename. Every
 * failure is a Status whose message names the path, what was attempted and the system's reason. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/seam.h"

/* A wrong path is the user's to correct (exit code 1), a full or broken disk is not (exit code 3). */
static Status file_fail(const char *path, const char *verb)
{
    int    cause = errno;
    Status code  = IO_FAILED;
    switch (cause) {
    case ENOENT: case EACCES: case EPERM: case EROFS:
    case EISDIR: case ENOTDIR: case ENAMETOOLONG: case ELOOP:
        code = BAD_FILE;
    }
    return fail(code, "%s: cannot be %s: %s", path, verb, strerror(cause));
}

Status path_join(char path[1024], const char *folder, const char *name)
{
    if (snprintf(path, 1024, "%s/%s", folder, name) < 1024) return OK;
    return fail(BAD_OPTION, "%.200s...: with /%.100s the path is longer than 1023 bytes", folder, name);
}

/* ---- reading ---- */
bool file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

static Status map_open_file(FileMap *map, int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0) return file_fail(map->path, "read");
    if (!S_ISREG(about.st_mode)) return fail(BAD_FILE, "%s: cannot be read: it is not a file", map->path);
    if (about.st_size == 0) return OK;
    void *data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return file_fail(map->path, "mapped");
    map->data = data;
    map->size = (size_t)about.st_size;
    map->device = about.st_dev;
    map->inode  = about.st_ino;
    return OK;
}

Status file_map(FileMap *map, const char *path)
{
    *map = (FileMap){ .data = (const uint8_t *)"" };
    if (strlen(path) >= sizeof map->path)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof map->path - 1);
    memcpy(map->path, path, strlen(path) + 1);
    int fd = seam.open(path, O_RDONLY, 0);
    if (fd < 0) return file_fail(path, "read");
    Status status = map_open_file(map, fd);
    seam.close(fd);
    return status;
}

void file_unmap(FileMap *map)
{
    if (map->size) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (FileMap){ .data = (const uint8_t *)"" };
}

Status file_map_check(const FileMap *map)
{
    struct stat about;
    if (stat(map->path, &about) != 0 || about.st_dev != map->device || about.st_ino != map->inode) return OK;
    if ((size_t)about.st_size >= map->size) return OK;
    return fail(BAD_FILE, "%s: has %lld bytes, and had %zu when it was opened: it was cut meanwhile", map->path, (long long)about.st_size,
                map->size);
}

/* ---- writing ---- */

/* "No such file" of a file to be made means a folder: the first one that is missing. */
static Status create_fail(const char *path)
{
    char part[PATH_MAX];
    int  cause = errno;
    bool cut   = cause == ENOENT && (size_t)snprintf(part, sizeof part, "%s", path) < sizeof part;
    for (char *slash = part; cut && (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = '\0';
        if (!file_exists(part)) return fail(BAD_FILE, "%s: cannot be created: there is no folder %s", path, part);
    }
    errno = cause;
    return file_fail(path, "created");
}

Status file_create(int *fd, const char *path)
{
    *fd = seam.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return *fd < 0 ? create_fail(path) : OK;
}

Status file_lock(int fd, const char *path, bool *taken)
{
    int done;
    do done = flock(fd, LOCK_EX | LOCK_NB); while (done != 0 && errno == EINTR);
    *taken = done == 0 || errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS;    /* a file system without locks */
    return *taken || errno == EWOULDBLOCK ? OK : file_fail(path, "locked");
}

/* Has the name still this file? Who held the lock before may have renamed or removed it. */
static bool has_name(int fd, const char *path)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

Status file_create_alone(int *fd, const char *path)
{
    for (;;) {
        *fd = seam.open(path, O_WRONLY | O_CREAT, 0666);
        if (*fd < 0) return create_fail(path);
        bool   taken;
        Status status = file_lock(*fd, path, &taken);
        if (status == OK && !taken)
            status = fail(BAD_FILE, "%s: another process is writing it; wait until that one ends, or write to another name", path);
        if (status == OK && has_name(*fd, path)) {
            if (ftruncate(*fd, 0) == 0) return OK;
            status = file_fail(path, "emptied");
        }
        seam.close(*fd);
        *fd = -1;
        TRY(status);
    }
}

/* pwrite may write less than it was given, for instance when the disk becomes full; the rest is written
 * again, and then the error is seen. */
Status file_write(int fd, const char *path, const void *data, size_t bytes, int64_t at)
{
    const char *from = data;
    while (bytes) {
        ssize_t n = seam.write(fd, from, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_fail(path, "written");
        if (n == 0) return fail(IO_FAILED, "%s: cannot be written: the disk takes no more bytes", path);
        from  += n;
        bytes -= (size_t)n;
        at    += n;
    }
    return OK;
}

/* close() is checked as well, because network file systems report a failed write only then. */
Status file_finish(int fd, const char *path)
{
    int done;
    do done = seam.sync(fd); while (done != 0 && errno == EINTR);
    Status status = done != 0 ? file_fail(path, "made safe on disk") : OK;
    if (seam.close(fd) != 0 && status == OK) status = file_fail(path, "closed");
    return status;
}

static Status write_part(const char *part, const void *data, size_t bytes)
{
    int fd;
    TRY(file_create(&fd, part));
    Status written = file_write(fd, part, data, bytes, 0);
    if (written != OK) {
        seam.close(fd);
        return written;
    }
    return file_finish(fd, part);
}

Status file_rename(const char *from, const char *to)
{
    return seam.rename(from, to) == 0 ? OK : fail(IO_FAILED, "%s: cannot be renamed to %s: %m", from, to);
}

/* A rename is durable only when the directory that holds the name is synced, too. */
Status folder_sync_for(const char *path)
{
    char        folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)        return folder_sync(".");
    if (slash == path) return folder_sync("/");
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return folder_sync(folder);
}

/* Atomic replace: the data is written and synced under another name in the same directory, then renamed.
 * After a crash `path` is the whole old file or the whole new one. The rename must not come before the
 * fsync, or some file systems show an empty file. */
static Status replace(const char *path, const void *data, size_t bytes)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof part - 6);
    Status status = write_part(part, data, bytes);
    if (status == OK) status = file_rename(part, path);
    if (status != OK) {
        unlink(part);                          /* not through the seam: the clean-up of an injected failure */
        return status;
    }
    return folder_sync_for(path);
}

/* ---- writing to devices and pipes, which cannot be replaced and in which pwrite cannot seek ---- */

/* The descriptor that a path such as /dev/stdout names, or -1. Opening /dev/fd/N again would start at byte
 * 0 of a file that others write to as well; a duplicate of the descriptor shares its position. */
static int own_descriptor(const char *path)
{
    int number = -1, end = 0;
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    return sscanf(path, "/dev/fd/%d%n", &number, &end) == 1 && path[end] == '\0' ? number : -1;
}

static Status write_straight(int fd, const char *path, const void *data, size_t bytes)
{
    const char *from = data;
    if (fd < 0) return file_fail(path, "opened");
    Status status = OK;
    while (bytes && status == OK) {
        ssize_t n = write(fd, from, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = file_fail(path, "written");
        else from += n, bytes -= (size_t)n;
    }
    if (close(fd) != 0 && status == OK) status = file_fail(path, "closed");
    return status;
}

/* One link read: *path, relative to the link's own folder. *more: it was one. */
static Status link_step(char path[PATH_MAX], bool *more)
{
    char    told[PATH_MAX], next[2 * PATH_MAX];
    ssize_t bytes = readlink(path, told, sizeof told - 1);
    *more = bytes >= 0;
    if (!*more) return OK;                     /* a file, or nothing yet */
    told[bytes] = '\0';
    char *slash = told[0] == '/' ? NULL : strrchr(path, '/');
    int   total = snprintf(next, sizeof next, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, told);
    if (total >= PATH_MAX)
        return fail(BAD_FILE, "%.80s...: the link's path is longer than %d bytes", next, PATH_MAX - 1);
    memcpy(path, next, (size_t)total + 1);
    return OK;
}

/* Resolves symbolic links, so that the file they name is replaced and the links stay. 40 is Linux's own
 * limit. */
static Status links_follow(char target[PATH_MAX], const char *path)
{
    bool more = true;
    if ((size_t)snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX)
        return fail(BAD_FILE, "%.80s...: the path is longer than %d bytes", path, PATH_MAX - 1);
    for (int i = 0; i < 40; i++) {
        TRY(link_step(target, &more));
        if (!more) return OK;
    }
    errno = ELOOP;
    return file_fail(path, "created");
}

Status file_write_whole(const char *path, const void *data, size_t bytes)
{
    struct stat about;
    char        target[PATH_MAX];
    int         own = own_descriptor(path);
    if (own >= 0) return write_straight(dup(own), path, data, bytes);
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return write_straight(open(path, O_WRONLY | O_CLOEXEC), path, data, bytes);
    TRY(links_follow(target, path));
    return replace(target, data, bytes);
}

/* Tests a replacement without changing anything: the temporary file is created and removed. */
static Status replaceable(const char *target)
{
    struct stat about;
    char        part[PATH_MAX];
    int         fd;
    if (stat(target, &about) == 0 && S_ISDIR(about.st_mode))
        return fail(BAD_FILE, "%s: cannot be written: it is a folder", target);
    if ((size_t)snprintf(part, sizeof part, "%s.part", target) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", target, sizeof part - 6);
    TRY(file_create(&fd, part));
    seam.close(fd);
    unlink(part);
    return OK;
}

Status file_writable(const char *path)
{
    struct stat about;
    char        target[PATH_MAX];
    if (own_descriptor(path) >= 0) return OK;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return access(path, W_OK) == 0 ? OK : file_fail(path, "written");
    TRY(links_follow(target, path));
    return replaceable(target);
}

/* ---- folders ---- */
static Status make_one(const char *path)
{
    struct stat about;
    if (seam.mkdir(path, 0777) == 0) return OK;
    if (errno != EEXIST) return file_fail(path, "made");
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return OK;
    return fail(BAD_FILE, "%s: cannot be made: there is a file of that name", path);
}

/* Like mkdir -p for the directories above the last component. */
Status folder_make_for(const char *path)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof part - 1);
    for (char *slash = part; (slash = strchr(slash + 1, '/')); ) {
        *slash = '\0';
        if (!file_exists(part)) TRY(make_one(part));
        *slash = '/';
    }
    return OK;
}

Status folder_make(const char *path)
{
    TRY(folder_make_for(path));
    return make_one(path);
}

Status folder_sync(const char *path)
{
    int fd = seam.open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return file_fail(path, "opened");
    return file_finish(fd, path);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about, (void)kind, (void)walk;
    return seam.remove(path);
}

/* Depth first, so that directories are empty when they are removed; links are removed, not followed. */
Status folder_remove(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0) return errno == ENOENT ? OK : file_fail(path, "removed");
    if (!S_ISDIR(about.st_mode)) return fail(BAD_FILE, "%s: cannot be removed as a folder: it is none", path);
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 ? file_fail(path, "removed") : OK;
}
