#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/seam.h"

/* A wrong path is the person's to mend, a full or broken disk is not. */
static Status file_fail(const char *path, const char *verb)
{
    int    cause = errno;
    Status code  = IO_FAILED;
    switch (cause) {
    case ENOENT: case EACCES: case EPERM: case EISDIR: case ENOTDIR: case ENAMETOOLONG: case EROFS:
        code = BAD_FILE;
    }
    return fail(code, "%s: cannot be %s: %s", path, verb, strerror(cause));
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

/* ---- writing ---- */
Status file_create(int *fd, const char *path)
{
    *fd = seam.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return *fd < 0 ? file_fail(path, "created") : OK;
}

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

static Status sync_folder_of(const char *path)
{
    char        folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)        return folder_sync(".");
    if (slash == path) return folder_sync("/");
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return folder_sync(folder);
}

Status file_write_whole(const char *path, const void *data, size_t bytes)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof part - 6);
    Status status = write_part(part, data, bytes);
    if (status == OK && seam.rename(part, path) != 0) status = file_fail(path, "put in its place");
    if (status != OK) {
        unlink(part);                          /* not a write: tidying may not fail by the seam */
        return status;
    }
    return sync_folder_of(path);
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

Status folder_make(const char *path)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof part - 1);
    for (char *slash = part; (slash = strchr(slash + 1, '/')); ) {
        *slash = '\0';
        if (!file_exists(part)) TRY(make_one(part));
        *slash = '/';
    }
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

Status folder_remove(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0) return errno == ENOENT ? OK : file_fail(path, "removed");
    if (!S_ISDIR(about.st_mode)) return fail(BAD_FILE, "%s: cannot be removed as a folder: it is none", path);
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 ? file_fail(path, "removed") : OK;
}
