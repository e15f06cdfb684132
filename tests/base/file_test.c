/* Mapping, short writes, atomic replacement, directories, links, devices and locks, and failures injected
 * by JOTUN_FAULT. */
#include "base/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/guard.h"
#include "base/seam.h"

static char root[] = "/tmp/jotun_file_XXXXXX";

static const char *at(const char *name)
{
    static char path[4][256];
    static int  turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", root, name);
    return path[turn];
}

static void assert_holds(const char *path, const char *text)
{
    FileMap map;
    assert_int_equal(file_map(&map, path), OK);
    assert_int_equal(map.size, strlen(text));
    assert_memory_equal(map.data, text, map.size);
    file_unmap(&map);
}

static void maps(void **state)
{
    (void)state;
    FileMap map;
    assert_int_equal(file_write_whole(at("empty"), "", 0), OK);
    assert_holds(at("empty"), "");
    assert_int_equal(file_map(&map, at("missing")), BAD_FILE);
    assert_contains(fail_text(), "/missing: cannot be read: No such file");
    assert_false(file_exists(at("missing")));
    assert_int_equal(file_map(&map, root), BAD_FILE);
    assert_contains(fail_text(), "it is a folder and not a file");
    assert_int_equal(file_map(&map, "/dev/null"), BAD_FILE);
    assert_contains(fail_text(), "it is not a file but a pipe or a device");
    char path[3000];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_int_equal(file_map(&map, path), BAD_FILE);
    assert_contains(fail_text(), "longer than 1023 bytes");
}

/* ---- a disk that takes three bytes at a time and is often disturbed ---- */
static int disturbed;
static ssize_t small_write(int fd, const void *data, size_t bytes, off_t where)
{
    if (disturbed++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return seam_system.write(fd, data, bytes < 3 ? bytes : 3, where);
}

static void short_writes_go_on(void **state)
{
    (void)state;
    int fd;
    seam.write = small_write;
    assert_int_equal(file_create(&fd, at("parts")), OK);
    assert_int_equal(file_write(fd, at("parts"), "middle", 6, 5), OK);
    assert_int_equal(file_write(fd, at("parts"), "from ", 5, 0), OK);
    assert_int_equal(file_finish(fd, at("parts")), OK);
    seam = seam_system;
    assert_holds(at("parts"), "from middle");
    assert_int_equal(file_create(&fd, root), BAD_FILE);
    assert_contains(fail_text(), "Is a directory");
}

/* ---- a disk that fails at its k-th call, whichever it is ---- */
static int calls, fails_at;
static bool fails_now(void)
{
    errno = EIO;
    return ++calls == fails_at;
}
static int bad_open(const char *path, int flags, mode_t mode)
{
    return fails_now() ? -1 : seam_system.open(path, flags, mode);
}
static ssize_t bad_write(int fd, const void *data, size_t bytes, off_t where)
{
    return fails_now() ? -1 : seam_system.write(fd, data, bytes < 4 ? bytes : 4, where);
}
static int bad_sync(int fd) { return fails_now() ? -1 : seam_system.sync(fd); }
static int bad_close(int fd)
{
    int closed = seam_system.close(fd);
    return fails_now() ? -1 : closed;
}
static int bad_rename(const char *from, const char *to)
{
    return fails_now() ? -1 : seam_system.rename(from, to);
}

static void whole_or_not(void **state)
{
    (void)state;
    int failures = 0;
    for (fails_at = 1;; fails_at++) {
        seam = seam_system;
        assert_int_equal(file_write_whole(at("step"), "old text", 8), OK);
        seam.open = bad_open, seam.write = bad_write, seam.sync = bad_sync;
        seam.close = bad_close, seam.rename = bad_rename;
        calls         = 0;
        Status status = file_write_whole(at("step"), "new words", 9);
        bool   failed = calls >= fails_at;
        seam          = seam_system;
        assert_int_equal(status, failed ? IO_FAILED : OK);
        assert_false(file_exists(at("step.part")));
        if (!failed) break;
        failures++;
        assert_contains(fail_text(), "Input/output error");
        assert_holds(at("step"), failures <= 7 ? "old text" : "new words");      /* the 7th is the rename */
    }
    assert_int_equal(failures, 10);   /* open, 3 writes, sync, close, rename; folder: open, sync, close */
    assert_holds(at("step"), "new words");
}

static void folders(void **state)
{
    (void)state;
    assert_int_equal(folder_make(at("a/b/c")), OK);
    assert_int_equal(folder_make(at("a/b/c")), OK);
    assert_int_equal(folder_make(at("safe")), OK);
    assert_int_equal(file_write_whole(at("safe/keep"), "kept", 4), OK);
    assert_int_equal(file_write_whole(at("a/b/file"), "x", 1), OK);
    assert_int_equal(symlink(at("safe"), at("a/b/c/link")), 0);
    assert_int_equal(folder_make(at("a/b/file")), BAD_FILE);
    assert_contains(fail_text(), "there is a file of that name");
    assert_int_equal(folder_make(at("a/b/file/more")), BAD_FILE);
    assert_int_equal(folder_remove(at("safe/keep")), BAD_FILE);
    assert_int_equal(folder_remove(at("a")), OK);
    assert_false(file_exists(at("a")));
    assert_int_equal(folder_remove(at("a")), OK);
    assert_holds(at("safe/keep"), "kept");     /* the link went, what it names stays */
}

static int others;                             /* how often another process has made a directory and removed it */

static int made_and_removed_by_another(const char *path, mode_t mode)
{
    if (others-- <= 0) return seam_system.mkdir(path, mode);
    errno = EEXIST;
    return -1;
}

static void folders_of_others(void **state)
{
    (void)state;
    seam.mkdir = made_and_removed_by_another;
    others = 2;
    assert_int_equal(folder_make(at("shared")), OK);
    others = 1000000;
    assert_int_equal(folder_make(at("contested")), BAD_FILE);
    seam.mkdir = seam_system.mkdir;
    assert_contains(fail_text(), "another process keeps removing it");
    assert_int_equal(symlink(at("nowhere"), at("loose")), 0);
    assert_int_equal(folder_make(at("loose")), BAD_FILE);
    assert_contains(fail_text(), "it is a link to a file or directory that does not exist");
}

static void missing_folders(void **state)
{
    (void)state;
    char words[300];
    snprintf(words, sizeof words, "cannot be created: there is no directory %s", at("none"));
    assert_int_equal(file_write_whole(at("none/such/file"), "x", 1), BAD_FILE);
    size_t n = strlen(words);
    assert_contains(fail_text(), words);
    assert_int_equal(strstr(fail_text(), words)[n], '\0');           /* the first one missing, not the last */
    assert_int_equal(folder_make_for(at("none/such/file")), OK);
    assert_false(file_exists(at("none/such/file")));
    assert_int_equal(file_write_whole(at("none/such/file"), "x", 1), OK);
    assert_int_equal(folder_make_for("file_without_folder"), OK);
}

/* ---- what is no file, and what only names one ---- */
static void links(void **state)
{
    (void)state;
    struct stat about;
    assert_int_equal(folder_make(at("deep")), OK);
    assert_int_equal(file_write_whole(at("deep/file"), "old", 3), OK);
    assert_int_equal(symlink("deep/second", at("first")), 0);
    assert_int_equal(symlink("file", at("deep/second")), 0);
    assert_int_equal(file_write_whole(at("first"), "new text", 8), OK);
    assert_holds(at("deep/file"), "new text");
    assert_int_equal(lstat(at("first"), &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_false(file_exists(at("first.part")));
    assert_int_equal(symlink("deep/to_come", at("dangling")), 0);
    assert_int_equal(file_write_whole(at("dangling"), "made", 4), OK);
    assert_holds(at("deep/to_come"), "made");
    assert_int_equal(symlink("round", at("round")), 0);
    assert_int_equal(file_write_whole(at("round"), "x", 1), BAD_FILE);
    assert_contains(fail_text(), "Too many levels of symbolic links");
}

static void devices(void **state)
{
    (void)state;
    struct stat about;
    assert_int_equal(file_write_whole("/dev/full", "x", 1), IO_FAILED);
    assert_contains(fail_text(), "/dev/full: cannot be written: No space left on device");
    assert_int_equal(file_write_whole("/dev/null", "x", 1), OK);
    assert_int_equal(stat("/dev/null", &about), 0);
    assert_true(S_ISCHR(about.st_mode));
    assert_false(file_exists("/dev/null.part") || file_exists("/dev/full.part"));
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    int  reader = open(at("pipe"), O_RDONLY | O_NONBLOCK);
    char text[16] = "";
    assert_int_equal(file_write_whole(at("pipe"), "through", 7), OK);
    assert_int_equal(read(reader, text, sizeof text), 7);
    assert_string_equal(text, "through");
    close(reader);
    assert_int_equal(file_write_whole("/dev/fd/999", "x", 1), IO_FAILED);
}

/* To a file others write to as well: between what they wrote before and after. */
static void writes_to_standard_error(void *path)
{
    dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666), STDERR_FILENO);
    dprintf(STDERR_FILENO, "before ");
    if (file_write_whole("/dev/stderr", "within ", 7) != OK || file_write_whole("/dev/fd/2", "again ", 6) != OK) _exit(1);
    dprintf(STDERR_FILENO, "after");
}

static void own_output(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(writes_to_standard_error, (void *)(uintptr_t)at("output")).exit_code, 0);
    assert_holds(at("output"), "before within again after");
}

static void read_last(void *map)
{
    const FileMap *m = map;
    if (((const volatile uint8_t *)m->data)[m->size - 1] != 'x') abort();
}

static void cut_while_mapped(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();                                    /* its handler of signals does not return a jump out of ours */
#endif
    static char text[20000];
    FileMap map;
    memset(text, 'x', sizeof text);
    assert_int_equal(file_write_whole(at("long"), text, sizeof text), OK);
    assert_int_equal(file_map(&map, at("long")), OK);
    assert_null(guard_run(read_last, &map));
    assert_int_equal(file_map_check(&map), OK);
    assert_int_equal(truncate(at("long"), 19999), 0);                    /* within the last page */
    assert_int_equal(file_map_check(&map), BAD_FILE);
    assert_contains(fail_text(), "long: has 19999 bytes, and had 20000 when it was opened");
    assert_int_equal(truncate(at("long"), 100), 0);
    for (int i = 0; i < 2; i++) assert_ptr_equal(guard_run(read_last, &map), map.data + map.size - 1);
    assert_int_equal(file_write_whole(at("long"), "new", 3), OK);        /* another file: the map has lost nothing by that */
    assert_int_equal(file_map_check(&map), OK);
    file_unmap(&map);
}

static void locks(void **state)
{
    (void)state;
    int  first, second;
    bool taken;
    assert_int_equal(file_create(&first, at("locked")), OK);
    assert_int_equal(file_lock(first, at("locked"), &taken), OK);
    assert_true(taken);
    assert_int_equal(file_create(&second, at("locked")), OK);
    assert_false(file_is_free(at("locked")));                     /* first holds it */
    assert_int_equal(file_lock(second, at("locked"), &taken), OK);
    assert_false(taken);
    close(first);
    assert_int_equal(file_lock(second, at("locked"), &taken), OK);
    assert_true(taken);
    close(second);
    assert_true(file_is_free(at("locked")));
    assert_false(file_is_free(at("not there")));
    assert_int_equal(file_lock(second, at("locked"), &taken), IO_FAILED);
    assert_contains(fail_text(), "locked: cannot be locked: Bad file descriptor");
}

static void joins(void **state)
{
    (void)state;
    char path[1024], folder[1024] = "";
    assert_int_equal(path_join(path, "a/b", "c"), OK);
    assert_string_equal(path, "a/b/c");
    memset(folder, 'f', 1021);
    assert_int_equal(path_join(path, folder, "c"), OK);
    assert_int_equal(strlen(path), 1023);
    assert_int_equal(path_join(path, folder, "cd"), BAD_OPTION);
    assert_contains(fail_text(), "with /cd the path is longer than 1023 bytes");
}

/* ---- JOTUN_FAULT ---- */
static void writes_under_fault(void *fault)
{
    setenv("JOTUN_FAULT", fault, 1);
    seam_fault_open();
    for (int i = 0; i < 3; i++) {
        seam_point("step");
        if (file_write_whole(at("fault"), "abc", 3) != OK) dprintf(STDERR_FILENO, "%d: %s\n", i, fail_text());
    }
}

static void faults_from_outside(void **state)
{
    (void)state;
    Ended second = run_in_child(writes_under_fault, "write:2:fail");
    assert_int_equal(second.exit_code, 0);
    assert_contains(second.text, "1: ");
    assert_contains(second.text, "fault: cannot be written: No space left on device\n");
    assert_null(strstr(second.text, "2: "));
    assert_int_equal(run_in_child(writes_under_fault, "rename:3:kill").signal, SIGKILL);
    assert_holds(at("fault"), "abc");
    assert_int_equal(run_in_child(writes_under_fault, "sync:6:exit").exit_code, 3);
    assert_int_equal(run_in_child(writes_under_fault, "sync:7:exit").exit_code, 0);
    assert_int_equal(run_in_child(writes_under_fault, "step:1:kill").signal, SIGKILL);
    assert_contains(run_in_child(writes_under_fault, "step:2:fail").text, "step number 2 fails as requested");
    const char *bad[] = { "write", "write:0:fail", "write:1:burn", "write:1:failed", "write:x:fail" };
    for (int i = 0; i < 5; i++) {
        Ended refused = run_in_child(writes_under_fault, (void *)(uintptr_t)bad[i]);
        assert_int_equal(refused.exit_code, 3);
        assert_contains(refused.text, "is not point:n:action");
    }
}

static int open_root(void **state)  { (void)state; return mkdtemp(root) ? 0 : -1; }
static int close_root(void **state) { (void)state; return folder_remove(root) == OK ? 0 : -1; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),
        cmocka_unit_test(short_writes_go_on),
        cmocka_unit_test(whole_or_not),
        cmocka_unit_test(folders),
        cmocka_unit_test(folders_of_others),
        cmocka_unit_test(missing_folders),
        cmocka_unit_test(links),
        cmocka_unit_test(devices),
        cmocka_unit_test(own_output),
        cmocka_unit_test(cut_while_mapped),
        cmocka_unit_test(locks),
        cmocka_unit_test(joins),
        cmocka_unit_test(faults_from_outside),
    };
    return cmocka_run_group_tests(tests, open_root, close_root);
}
