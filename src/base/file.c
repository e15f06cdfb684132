/* Mapping, writing, atomically replacing and syncing files and directories. Everything that changes the
 * disk uses `seam` (base/seam.h), so that tests can fail the k-th operation. */
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

/* MAKE_ATTEMPTS: of mkdir, while another process makes and removes the same directory. */
enum { MAKE_ATTEMPTS = 100 };

/* Fails with errno's text. A wrong path is BAD_FILE, which the user can correct; a full or broken disk is
 * IO_FAILED. */
static Status file_fail(const char *path, const char *verb)
{
    int    cause = errno;
    Status code  = IO_FAILED;
    switch (cause) {
    case ENOENT: case EACCES: case EPERM: case EISDIR:
    case ENOTDIR: case ENAMETOOLONG: case EROFS: case ELOOP:
        code = BAD_FILE;
    }
    return fail(code, "%s: cannot be %s: %s", path, verb, strerror(cause));
}

Status path_join(char path[1024], const char *folder, const char *name)
{
    if (snprintf(path, 1024, "%s/%s", folder, name) < 1024) return OK;
    return fail(BAD_OPTION, "%.200s...: with /%.100s the path is longer than 1023 bytes", folder, name);
}

bool path_ends(const char *path, size_t bytes, const char *ending)
{
    size_t length = strlen(ending);
    return bytes > length && !memcmp(path + bytes - length, ending, length);
}

const char *path_leaf(const char *path, size_t bytes)
{
    while (bytes > 1 && path[bytes - 1] == '/') bytes--;
    const char *slash = bytes ? memrchr(path, '/', bytes - 1) : NULL;
    return slash ? slash + 1 : path;
}

/* ---- reading ---- */

Status file_fetched(const char *path, const void *data, size_t size)
{
    static const char pointer[] = "version https://git-lfs.";
    if (size < sizeof pointer || memcmp(data, pointer, sizeof pointer - 1) != 0) return OK;
    return fail(BAD_FILE, "%s: a pointer of Git LFS in the place of the file; fetch the files themselves: "
                "git lfs pull", path);
}

bool file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

/* Files are mapped, which needs a length that stays. */
static Status refuse_kind(const char *path, mode_t mode)
{
    return S_ISDIR(mode) ? fail(BAD_FILE, "%s: cannot be read: it is a folder and not a file", path)
                         : fail(BAD_FILE, "%s: cannot be read: it is not a file but a pipe or a device, such "
                                "as <(...) of a shell; write its contents to a file first", path);
}

static Status map_begin(FileMap *map, const char *path)
{
    *map = (FileMap){ .data = (const uint8_t *)"" };
    if (strlen(path) >= sizeof map->path)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof map->path - 1);
    memcpy(map->path, path, strlen(path) + 1);
    return OK;
}

/* Maps an open file, at the addresses that are reserved where there are some, which have its size. */
static Status map_open_file(FileMap *map, int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0) return file_fail(map->path, "read");
    if (!S_ISREG(about.st_mode)) return refuse_kind(map->path, about.st_mode);
    if (map->reserved && (size_t)about.st_size != map->size)
        return fail(BAD_FILE, "%s: has %lld bytes here, and %zu where it was listed; all hosts must see the"
                    " same files, which nobody changes meanwhile", map->path, (long long)about.st_size,
                    map->size);
    if (about.st_size == 0) return OK;
    void *at   = map->reserved ? (void *)(uintptr_t)map->data : NULL;
    void *data = mmap(at, (size_t)about.st_size, PROT_READ, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
    if (data == MAP_FAILED) return file_fail(map->path, "mapped");
    map->data = data;
    map->size = (size_t)about.st_size;
    map->device   = about.st_dev;
    map->inode    = about.st_ino;
    map->reserved = false;
    return OK;
}

static Status map_file(FileMap *map)
{
    int fd = seam.open(map->path, O_RDONLY | O_NONBLOCK, 0);    /* a pipe without a writer does not wait */
    if (fd < 0) return file_fail(map->path, "read");
    Status status = map_open_file(map, fd);
    seam.close(fd);
    return status;
}

Status file_map(FileMap *map, const char *path)
{
    TRY(map_begin(map, path));
    return map_file(map);
}

Status file_map_fill(FileMap *map) { return map->reserved ? map_file(map) : OK; }

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a pipe" : "a device";
}

Status file_stream(FILE **in, const char *path)
{
    struct stat about;
    *in = NULL;
    int fd = seam.open(path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) return file_fail(path, "read");
    Status status = fstat(fd, &about) != 0 ? file_fail(path, "read") : OK;
    if (status == OK && !S_ISREG(about.st_mode))
        status = fail(BAD_FILE,
                      "%s: is %s, not a regular file, and might never end; copy what it holds into a file, "
                      "or remove it",
                      path, kind_of(about.st_mode));
    if (status == OK && !(*in = fdopen(fd, "r"))) status = file_fail(path, "read");
    if (status != OK) seam.close(fd);
    return status;
}

static bool map_memory(FileMap *map, size_t size, int protection)
{
    void *data = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return false;
    map->data = data;
    map->size = size;
    return true;
}

Status file_map_reserve(FileMap *map, const char *path, size_t size)
{
    TRY(map_begin(map, path));
    if (size == 0) return OK;
    map->reserved = map_memory(map, size, PROT_NONE);
    return map->reserved ? OK : file_fail(path, "mapped");
}

Status file_map_zeros(FileMap *map, size_t size)
{
    TRY(map_begin(map, ""));
    return map_memory(map, size, PROT_READ) ? OK : fail(NO_MEMORY, "no memory for %zu bytes of zeros", size);
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
    return fail(BAD_FILE,
                "%s: has %lld bytes, and had %zu when it was opened: it was truncated meanwhile; restore it"
                " and resume", map->path, (long long)about.st_size, map->size);
}

Status file_read_at(int fd, const char *path, void *data, size_t bytes, int64_t at)
{
    for (char *to = data; bytes; ) {
        ssize_t n = pread(fd, to, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return fail(IO_FAILED, "%s: byte %lld cannot be read: %s", path, (long long)at,
                        n ? strerror(errno) : "the file ends there");
        to    += n;
        bytes -= (size_t)n;
        at    += n;
    }
    return OK;
}

/* ---- writing ---- */

/* ENOENT for a file that is to be created means a missing directory; the message names the first one that
 * is missing. */
static Status create_fail(const char *path)
{
    char part[PATH_MAX];
    int  cause = errno;
    bool search = cause == ENOENT && (size_t)snprintf(part, sizeof part, "%s", path) < sizeof part;
    for (char *slash = part; search && (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = '\0';
        if (!file_exists(part))
            return fail(BAD_FILE, "%s: cannot be created: there is no directory %s", path, part);
    }
    errno = cause;
    return file_fail(path, "created");
}

/* shown: the path for messages, that of the file that a temporary one becomes */
static Status create_as(int *fd, const char *path, const char *shown)
{
    *fd = seam.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return *fd < 0 ? create_fail(shown) : OK;
}

Status file_create(int *fd, const char *path) { return create_as(fd, path, path); }

enum { LOOK_US = 10000 };

static int lock_try(int fd, int kind)
{
    int done;
    do done = flock(fd, kind | LOCK_NB); while (done != 0 && errno == EINTR);
    return done;
}

bool file_is_free(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return false;
    bool nobody = lock_try(fd, LOCK_SH) == 0;                  /* given back at once, by close */
    close(fd);
    return nobody;
}

/* flock, not fcntl: its lock belongs to the open file, so closing another descriptor of the same file does
 * not release it. The last three errors mean that the file system has no locks. */
Status file_lock(int fd, const char *path, bool *taken)
{
    int done = lock_try(fd, LOCK_EX);
    if (done != 0 && errno == EWOULDBLOCK) {             /* perhaps by file_is_free, for a moment */
        usleep(LOOK_US);
        done = lock_try(fd, LOCK_EX);
    }
    *taken = done == 0 || errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS;
    return *taken || errno == EWOULDBLOCK ? OK : file_fail(path, "locked");
}

/* Whether the path still names the open file: a previous holder of the lock may have renamed or removed
 * it. */
static bool has_name(int fd, const char *path)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
        held.st_ino == named.st_ino;
}

/* Opens without O_TRUNC and truncates under the lock, so that a file which another process is writing is
 * never emptied. Opens again if the path named another file by the time the lock was held. */
Status file_create_alone(int *fd, const char *path)
{
    for (;;) {
        *fd = seam.open(path, O_WRONLY | O_CREAT, 0666);
        if (*fd < 0) return create_fail(path);
        bool   taken;
        Status status = file_lock(*fd, path, &taken);
        if (status == OK && !taken)
            status = fail(BAD_FILE,
                          "%s: another process is writing it; wait until it ends, or write to another name",
                          path);
        if (status == OK && has_name(*fd, path)) {
            if (ftruncate(*fd, 0) == 0) return OK;
            status = file_fail(path, "emptied");
        }
        seam.close(*fd);
        *fd = -1;
        TRY(status);
    }
}

Status file_write(int fd, const char *path, const void *data, size_t bytes, int64_t at)
{
    const char *from = data;
    while (bytes) {
        ssize_t n = seam.write(fd, from, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_fail(path, "written");
        if (n == 0) return fail(IO_FAILED, "%s: cannot be written: the disk accepts no more bytes", path);
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
    Status status = done != 0 ? file_fail(path, "synced to disk") : OK;
    if (seam.close(fd) != 0 && status == OK) status = file_fail(path, "closed");
    return status;
}

static Status write_part(const char *part, const char *shown, const void *data, size_t bytes)
{
    int fd;
    TRY(create_as(&fd, part, shown));
    Status written = file_write(fd, shown, data, bytes, 0);
    if (written != OK) {
        seam.close(fd);
        return written;
    }
    return file_finish(fd, shown);
}

Status file_rename(const char *from, const char *to)
{
    return seam.rename(from, to) == 0 ? OK : fail(IO_FAILED, "%s: cannot be renamed to %s: %m", from, to);
}

Status folder_sync_for(const char *path)
{
    char        folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)        return folder_sync(".");
    if (slash == path) return folder_sync("/");
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return folder_sync(folder);
}

/* Atomic replace: readers see the old file or the new one, and after the directory's sync so does a
 * reboot. */
static Status file_replace(const char *path, const void *data, size_t bytes)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof part - 6);
    Status status = write_part(part, path, data, bytes);
    if (status == OK) status = file_rename(part, path);
    if (status != OK) {
        /* Not by the seam: an injected fault must not keep the left-over. */
        unlink(part);
        return status;
    }
    return folder_sync_for(path);
}

/* ---- writing to devices and pipes: they cannot be replaced, so nothing is atomic, and the seam is not
 * used ---- */

/* The descriptor that a path names, or -1. Opening /dev/fd/N again would write from byte 0 of
 * that file, over what others have written; a duplicate continues at the shared offset. */
static int own_descriptor(const char *path)
{
    int number = -1, end = 0;
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    return sscanf(path, "/dev/fd/%d%n", &number, &end) == 1 && path[end] == '\0' ? number : -1;
}

static Status write_directly(int fd, const char *path, const void *data, size_t bytes)
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

/* Replaces `path` by what it links to; a relative link counts from the link's own directory. *more: it was
 * a link. */
static Status link_step(char path[PATH_MAX], bool *more)
{
    char    link[PATH_MAX], next[2 * PATH_MAX];
    ssize_t bytes = readlink(path, link, sizeof link - 1);
    *more = bytes >= 0;
    if (!*more) return OK;                     /* it is a file or does not exist yet */
    link[bytes] = '\0';
    char *slash = link[0] == '/' ? NULL : strrchr(path, '/');
    int   total = snprintf(next, sizeof next, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, link);
    if (total >= PATH_MAX)
        return fail(BAD_FILE, "%.80s...: the link's path is longer than %d bytes", next, PATH_MAX - 1);
    memcpy(path, next, (size_t)total + 1);
    return OK;
}

/* The file that a chain of links names, also if it does not exist; realpath would fail on that. At most 40
 * links are followed, as by Linux. */
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
    if (own >= 0) return write_directly(dup(own), path, data, bytes);
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return write_directly(open(path, O_WRONLY | O_CLOEXEC), path, data, bytes);
    TRY(links_follow(target, path));
    return file_replace(target, data, bytes);
}

/* Creates and removes the temporary file that file_replace would write, which tests directory, permissions
 * and name. */
static Status replace_test(const char *target)
{
    struct stat about;
    char        part[PATH_MAX];
    int         fd;
    if (stat(target, &about) == 0 && S_ISDIR(about.st_mode))
        return fail(BAD_FILE, "%s: cannot be written: it is a directory", target);
    if ((size_t)snprintf(part, sizeof part, "%s.part", target) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", target, sizeof part - 6);
    TRY(create_as(&fd, part, target));
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
    return replace_test(target);
}

/* ---- directories ---- */

/* An existing directory is no error: another rank or process may have made it meanwhile. Where it has also
 * removed it by the time of stat, mkdir is tried again; a link to nothing exists and cannot be followed, so
 * the number of attempts is limited. */
static Status directory_make(const char *path)
{
    struct stat about;
    for (int attempt = 0; attempt < MAKE_ATTEMPTS; attempt++) {
        if (seam.mkdir(path, 0777) == 0) return OK;
        if (errno != EEXIST) return file_fail(path, "made");
        if (stat(path, &about) == 0) {
            if (S_ISDIR(about.st_mode)) return OK;
            return fail(BAD_FILE, "%s: cannot be made: there is a file of that name", path);
        }
        if (errno != ENOENT) return file_fail(path, "made");
    }
    return fail(BAD_FILE, "%s: cannot be made: it is a link to a file or directory that does not exist, or"
                " another process keeps removing it", path);
}

Status folder_make_for(const char *path)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return fail(BAD_FILE, "%.80s...: the path is longer than %zu bytes", path, sizeof part - 1);
    for (char *slash = part; (slash = strchr(slash + 1, '/')); ) {
        *slash = '\0';
        if (!file_exists(part)) TRY(directory_make(part));
        *slash = '/';
    }
    return OK;
}

Status folder_make(const char *path)
{
    TRY(folder_make_for(path));
    return directory_make(path);
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

/* FTW_DEPTH: contents precede their directory. FTW_PHYS: links are removed, not followed. */
Status folder_remove(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0) return errno == ENOENT ? OK : file_fail(path, "removed");
    if (!S_ISDIR(about.st_mode)) return fail(BAD_FILE, "%s: cannot be removed: it is not a directory", path);
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 ? file_fail(path, "removed") : OK;
}
