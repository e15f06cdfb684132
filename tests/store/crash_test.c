/* At every call that touches the disk, in turn: it fails, the process dies, or the power goes. Whatever
 * the moment, a whole checkpoint is found after it, the old or the new, bit for bit, and the next save
 * does its work. */
#include "store/fixture.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/seam.h"

#if defined(__SANITIZE_ADDRESS__)
enum { EACH = 11 };                                /* a fork takes a sanitizer long: not every call then */
#elif defined(__SANITIZE_THREAD__)
enum { EACH = 60 };
#else
enum { EACH = 1 };
#endif

typedef enum { FAIL_ONCE, FAIL_ON, KILL, LOSE_DATA, LOSE_NAMES, LOSE_OLDER } Way;
typedef enum { DIRTY, MADE, MOVED } Kind;

/* What the disk does not hold for sure: bytes of a file not synced, a name in a folder not synced. */
typedef struct { Kind kind; int fd, writer; ino_t inode; char from[64], to[64], before[64]; } Loose;

static struct {
    pthread_mutex_t lock;
    Way             way;
    long            calls, at;                     /* at 0: only counts */
    Loose           loose[512];
    int             count;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the power goes ---- */

static void lose(const Loose *l)
{
    struct stat about;
    /* the size came through, the bytes did not */
    if (l->kind == DIRTY && disk.way != LOSE_NAMES && fstat(l->fd, &about) == 0)
        if (ftruncate(l->fd, 0) != 0 || ftruncate(l->fd, about.st_size) != 0) abort();
    if (l->kind == DIRTY || disk.way == LOSE_DATA) return;
    if (l->kind == MADE) renameat(l->fd, l->to, l->fd, "lost");
    if (l->kind == MOVED && renameat(l->fd, l->to, l->fd, l->from) == 0 && l->before[0]) {
        int fd = openat(l->fd, l->to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (write(fd, l->before, strlen(l->before)) < 0) abort();
        close(fd);
    }
}

static void die(void)
{
    int last = disk.way == LOSE_OLDER ? disk.count - 2 : disk.count - 1;  /* the newest overtook the others */
    for (int i = last; i >= 0 && disk.way >= LOSE_DATA; i--) lose(&disk.loose[i]);
    _exit(0);
}

/* True where this call has to fail. Called with the lock. */
static bool reached(void)
{
    if (!disk.at || ++disk.calls < disk.at) return false;
    if (disk.way >= KILL) die();
    errno = ENOSPC;
    return disk.way == FAIL_ON || disk.calls == disk.at;
}

static void note(Kind kind, int fd, int writer, const char *from, const char *to)
{
    struct stat about;
    if (disk.count == 512 || fstat(fd, &about) != 0) abort();
    Loose *l = &disk.loose[disk.count++];
    *l = (Loose){ .kind = kind, .fd = fd, .writer = writer, .inode = about.st_ino };
    snprintf(l->from, sizeof l->from, "%s", from);
    snprintf(l->to, sizeof l->to, "%s", to);
    int old = kind == MOVED ? openat(fd, to, O_RDONLY) : -1;
    if (old >= 0 && read(old, l->before, sizeof l->before - 1) < 0) l->before[0] = 0;
    if (old >= 0) close(old);
}

/* The folder a path is in, held open: the folder itself may be renamed later. */
static void note_name(Kind kind, const char *from, const char *to)
{
    char        folder[1024];
    const char *slash = strrchr(to, '/');
    if (disk.way < LOSE_DATA) return;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - to) : 1, slash ? to : ".");
    const char *base = strrchr(from, '/');
    note(kind, open(folder, O_RDONLY), -1, base ? base + 1 : from, slash ? slash + 1 : to);
}

/* As on a file system of many nodes: what was written through one descriptor is safe when that one is
 * synced. */
static void settle(int fd)
{
    struct stat about;
    int         kept = 0;
    fstat(fd, &about);
    for (int i = 0; i < disk.count; i++) {
        const Loose *l = &disk.loose[i];
        if (l->kind == DIRTY ? l->writer != fd : l->inode != about.st_ino) disk.loose[kept++] = *l;
        else close(l->fd);
    }
    disk.count = kept;
}

static void orphan(int fd)
{
    for (int i = 0; i < disk.count; i++)
        if (disk.loose[i].writer == fd) disk.loose[i].writer = -1;
}

/* ---- the seam ---- */

#define LOCKED(type, failed, body)               \
    pthread_mutex_lock(&disk.lock);              \
    type result = failed;                        \
    if (!reached()) { body }                     \
    int cause = errno;                           \
    pthread_mutex_unlock(&disk.lock);            \
    errno = cause;                               \
    return result;

static int disk_open(const char *path, int flags, mode_t mode)
{
    if (!(flags & (O_CREAT | O_WRONLY))) return open(path, flags, mode);  /* to read: nothing to lose */
    LOCKED(int, -1, if ((flags & O_CREAT) && !file_exists(path)) note_name(MADE, path, path);
           result = open(path, flags, mode);)
}
/* takes two goes for most of it */
static ssize_t disk_write(int fd, const void *data, size_t bytes, off_t at)
{
    LOCKED(ssize_t, -1, if (disk.way >= LOSE_DATA) note(DIRTY, dup(fd), fd, "", "");
           result = pwrite(fd, data, (bytes + 1) / 2, at);)
}
static int disk_sync(int fd)
{
    LOCKED(int, -1, settle(fd); result = 0;)
}
static int disk_close(int fd)
{
    pthread_mutex_lock(&disk.lock);
    orphan(fd);
    pthread_mutex_unlock(&disk.lock);
    return close(fd);
}
static int disk_rename(const char *from, const char *to)
{
    LOCKED(int, -1, note_name(MOVED, from, to); result = rename(from, to);)
}
static int disk_mkdir(const char *path, mode_t mode)
{
    LOCKED(int, -1, result = mkdir(path, mode); if (result == 0) note_name(MADE, path, path);)
}
static int disk_remove(const char *path)
{
    LOCKED(int, -1, result = remove(path);)
}

static void disk_set(Way way, long at)
{
    disk.way = way;
    disk.at = at;
    disk.calls = 0;
    disk.count = 0;
    seam.open = disk_open;
    seam.write = disk_write;
    seam.sync = disk_sync;
    seam.close = disk_close;
    seam.rename = disk_rename;
    seam.mkdir = disk_mkdir;
    seam.remove = disk_remove;
}

/* ---- one crash, and what is there after it ---- */

enum { OLD = 1, NEW = 2, NEXT = 3 };               /* sets of values */

static Status save_values(const char *dir, int64_t step, int64_t values, int keep_last)
{
    Saving saving = { .dir = dir, .step = step, .values = values, .keep_last = keep_last };
    return transport_threads_run(2, save_body, &saving);
}

/* `latest` names what is there. (Between the two renames of a step saved again it is there under another
 * name.) */
static void assert_latest(const char *dir, const char *path)
{
    char    name[128];
    FileMap map;
    snprintf(name, sizeof name, "%s/latest", dir);
    assert_int_equal(file_map(&map, name), OK);
    snprintf(name, sizeof name, "%s/%.*s", dir, (int)map.size, (const char *)map.data);
    file_unmap(&map);
    assert_true(file_exists(name) || strstr(path, ".old"));
}

static void assert_found(const char *dir, bool old_will_do)
{
    char path[1024];
    bool found;
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_true(found);
    assert_latest(dir, path);
    assert_true(loads_equal(path, 1, 7, NEW) || (old_will_do && loads_equal(path, 1, 7, OLD)));
}

/* Names in the folder with these words in them; what the crash itself has thrown aside does not count. */
static int names(const char *dir, const char *words)
{
    int  n = 0;
    DIR *stream = opendir(dir);
    for (struct dirent *e; (e = readdir(stream));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "lost") &&
             strstr(e->d_name, words);
    closedir(stream);
    return n;
}

static void fail_and_look(const char *dir, int64_t step, int keep_last, bool *reached_end)
{
    Status status = save_values(dir, step, NEW, keep_last);
    *reached_end  = disk.calls < disk.at;
    seam = seam_system;
    assert_found(dir, status != OK);
    if (status == OK) return;
    assert_int_equal(status, IO_FAILED);
    assert_non_null(strstr(fail_text(), "No space left"));
    assert_non_null(strstr(fail_text(), dir));
    if (disk.way != FAIL_ONCE) return;
    char old[128];
    snprintf(old, sizeof old, "%s/step_00000001", dir);
    assert_true(file_exists(old));
    assert_int_equal(names(dir, ".part"), 0);
}

static void die_and_look(const char *dir, int64_t step, int keep_last, bool *reached_end)
{
    int   result;
    pid_t child = fork();
    if (child == 0) _exit(save_values(dir, step, NEW, keep_last) == OK ? 77 : 1);  /* 77: lived to its end */
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && (WEXITSTATUS(result) == 0 || WEXITSTATUS(result) == 77));
    *reached_end = WEXITSTATUS(result) == 77;
    seam = seam_system;
    assert_found(dir, !*reached_end);
}

/* The step before is 1; `step` 1 saves it again, 2 is a new one. */
static long every_call(Way way, int64_t step, int keep_last)
{
    char dir[64];
    bool ended = false;
    long at, looked = 0;
    for (at = 1; !ended; at += EACH) {
        folder_fresh(dir, "crash");
        seam.sync = disk_sync;  /* the system's own takes time and adds nothing to a test */
        assert_int_equal(save_values(dir, 1, OLD, 0), OK);
        disk_set(way, at);
        (way < KILL ? fail_and_look : die_and_look)(dir, step, keep_last, &ended);
        seam.sync = disk_sync;
        disk.at = 0;
        /* it goes on after that, and leaves itself and `latest` */
        assert_int_equal(save_values(dir, 3, NEXT, 1), OK);
        char path[1024];
        bool found;
        assert_int_equal(checkpoint_find(dir, path, &found), OK);
        assert_true(found && loads_equal(path, 2, 5, NEXT));
        assert_int_equal(names(dir, ""), 2);
        seam = seam_system;
        looked++;
    }
    assert_int_equal(folder_remove(dir), OK);
    return looked - 1;
}

static void try_all(Way way)
{
    long calls = every_call(way, 2, 1) + every_call(way, 1, 1);
    print_message("           %ld calls\n", calls);
    assert_in_range(calls, 100 / EACH, 1000);
}

static void a_call_that_fails_once(void **unused)    { (void)unused; try_all(FAIL_ONCE); }
static void a_disk_that_stays_full(void **unused)    { (void)unused; try_all(FAIL_ON); }
static void a_process_that_is_killed(void **unused)  { (void)unused; try_all(KILL); }
static void power_that_takes_the_data(void **unused) { (void)unused; try_all(LOSE_DATA); }
static void power_that_takes_the_names(void **unused) { (void)unused; try_all(LOSE_NAMES); }
static void power_that_takes_all_but_the_last(void **unused)     { (void)unused; try_all(LOSE_OLDER); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_fails_once),    cmocka_unit_test(a_disk_that_stays_full),
        cmocka_unit_test(a_process_that_is_killed),  cmocka_unit_test(power_that_takes_the_data),
        cmocka_unit_test(power_that_takes_the_names), cmocka_unit_test(power_that_takes_all_but_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
