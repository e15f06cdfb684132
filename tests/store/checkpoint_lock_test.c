/* What is found out before the first step, what is said of a checkpoint that cannot be read, and what the
 * message of a damaged one advises. */
#include "store/fixture.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include "base/seam.h"

static void assert_said(Status got, Status wanted, const char *words)
{
    if (got == wanted && strstr(fail_text(), words)) return;
    print_error("status %d, '%s' is not in '%s'\n", got, words, fail_text());
    _fail(__FILE__, __LINE__);
}

static void a_folder_is_made_and_left_empty(void **unused)
{
    (void)unused;
    char dir[64], deep[128], path[1024];
    int  lock;
    bool found;
    snprintf(deep, sizeof deep, "%s/runs/one", folder_fresh(dir, "claim"));
    assert_int_equal(checkpoint_lock("--save", deep, NULL, &lock), OK);
    assert_true(lock >= 0);
    snprintf(path, sizeof path, "%s/.probe", deep);
    assert_false(file_exists(path));
    assert_int_equal(checkpoint_find(deep, path, &found), OK);
    assert_false(found);
    close(lock);
    assert_int_equal(checkpoint_lock("--save", deep, NULL, &lock), OK);
    close(lock);
    assert_int_equal(folder_remove(dir), OK);
}

/* ---- two runs ---- */

/* The child claims, says so, and keeps what it has until it is killed. */
static pid_t claim_in_child(const char *dir)
{
    int pipes[2], lock;
    char said;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);                                                 /* a failed test kills nobody */
        said = checkpoint_lock("--save", dir, NULL, &lock) == OK ? 'y' : 'n';
        if (write(pipes[1], &said, 1) == 1) pause();
        _exit(1);
    }
    assert_int_equal(read(pipes[0], &said, 1), 1);
    assert_int_equal(said, 'y');
    close(pipes[0]);
    close(pipes[1]);
    return child;
}

static void a_second_run_is_refused(void **unused)
{
    (void)unused;
    char  dir[64], words[128];
    int   lock;
    pid_t first = claim_in_child(folder_fresh(dir, "two"));
    snprintf(words, sizeof words, "another run (pid %d on host ", (int)first);
    assert_said(checkpoint_lock("--save", dir, NULL, &lock), BAD_OPTION, words);
    assert_said(checkpoint_lock("--save", dir, NULL, &lock), BAD_OPTION, ") saves here; wait until it ends or give another --save");
    assert_int_equal(lock, -1);
    kill(first, SIGKILL);                                          /* a killed run leaves no lock behind */
    assert_int_equal(waitpid(first, NULL, 0), first);
    assert_int_equal(checkpoint_lock("--save", dir, NULL, &lock), OK);
    close(lock);
    assert_int_equal(folder_remove(dir), OK);
}

static void anothers_checkpoints_are_refused(void **unused)
{
    (void)unused;
    char dir[64], other[64], path[1024], loaded[1100];
    int  lock;
    bool found;
    folder_fresh(dir, "mine");
    for (int64_t step = 2; step <= 4; step += 2) assert_int_equal(save(dir, 1, 1, step, 0), OK);
    assert_int_equal(save(folder_fresh(other, "other"), 1, 1, 8, 0), OK);
    assert_said(checkpoint_lock("--save", dir, NULL, &lock), BAD_OPTION, "holds checkpoints up to step 4 of another run; give --load ");
    snprintf(loaded, sizeof loaded, "%s/step_00000008", other);
    assert_said(checkpoint_lock("--save", dir, loaded, &lock), BAD_OPTION, "up to step 4 of another run");
    snprintf(loaded, sizeof loaded, "%s/../%s/step_00000002/", dir, strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir);
    assert_int_equal(checkpoint_lock("--save", dir, loaded, &lock), OK);    /* an older one of its own: a branch */
    assert_int_equal(save(dir, 1, 1, 6, 1), OK);                   /* the lock is in nobody's way */
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_true(found && loads_equal(path, 1, 1, 6));
    assert_int_equal(checkpoint_verify(path, false), OK);
    close(lock);
    for (int i = 0; i < 2; i++) assert_int_equal(folder_remove(i ? other : dir), OK);
}

/* ---- a disk that refuses ---- */

static const char *refused;                                        /* the end of a path */
static int         cause;
static int refuse_open(const char *path, int flags, mode_t mode)
{
    size_t n = strlen(path), m = strlen(refused);
    if (n < m || strcmp(path + n - m, refused) != 0) return seam_system.open(path, flags, mode);
    errno = cause;
    return -1;
}

static void refuse(const char *end, int error)
{
    refused   = end;
    cause     = error;
    seam.open = end ? refuse_open : seam_system.open;
}

static ssize_t full_write(int fd, const void *data, size_t bytes, off_t at)
{
    (void)fd, (void)data, (void)bytes, (void)at;
    errno = ENOSPC;
    return -1;
}

static void a_bad_folder_is_told_at_once(void **unused)
{
    (void)unused;
    char dir[64], file[128];
    int  lock;
    assert_int_equal(folder_make(folder_fresh(dir, "bad")), OK);
    refuse(".lock", EROFS);
    assert_said(checkpoint_lock("--save", dir, NULL, &lock), BAD_FILE, "Read-only file system");
    refuse(NULL, 0);
    seam.write = full_write;
    assert_said(checkpoint_lock("--save", dir, NULL, &lock), IO_FAILED, "No space left on device");
    seam.write = seam_system.write;
    assert_int_equal(checkpoint_lock("--save", dir, NULL, &lock), OK);      /* the refused one gave its lock back */
    close(lock);
    snprintf(file, sizeof file, "%s/file", dir);
    assert_int_equal(file_write_whole(file, "x", 1), OK);
    assert_said(checkpoint_lock("--save", file, NULL, &lock), BAD_FILE, "there is a file of that name");
    assert_int_equal(folder_remove(dir), OK);
}

static void one_that_may_not_be_read_is_no_damage(void **unused)
{
    (void)unused;
    static const int causes[] = { EACCES, EIO };
    char dir[64], path[1024], latest[128];
    int  lock;
    bool found;
    folder_fresh(dir, "rights");
    for (int64_t step = 2; step <= 4; step += 2) assert_int_equal(save(dir, 1, 1, step, 0), OK);
    for (int i = 0; i < 2; i++) {
        refuse("step_00000004/manifest.json", causes[i]);
        assert_said(checkpoint_find(dir, path, &found), BAD_FILE, "step_00000004/manifest.json: cannot be read: ");
        assert_said(checkpoint_lock("--save", dir, NULL, &lock), BAD_FILE, "step_00000004/manifest.json: cannot be read: ");
        refuse("latest", causes[i]);
        assert_int_not_equal(checkpoint_find(dir, path, &found), OK);
    }
    snprintf(latest, sizeof latest, "%s/latest", dir);
    assert_int_equal(unlink(latest), 0);
    refuse("step_00000004/manifest.json", EACCES);
    assert_said(checkpoint_find(dir, path, &found), BAD_FILE, "Permission denied");
    refuse(NULL, 0);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    assert_true(found && loads_equal(path, 1, 1, 4));
    assert_int_equal(folder_remove(dir), OK);
}

/* ---- advice ---- */

static void flip_last_bit(const char *dir, int step)
{
    char path[128];
    snprintf(path, sizeof path, "%s/step_%08d/head.safetensors", dir, step);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, -1, SEEK_END);
    int byte = fgetc(f);
    fseek(f, -1, SEEK_END);
    fputc(byte ^ 1, f);
    fclose(f);
}

static Status load(const char *path)
{
    Cut   *cut    = cut_make(1, 1, 0);
    Status status = load_pieces(path, cut->shard, cut->count);
    cut_free(cut);
    return status;
}

static void damage_names_the_one_before(void **unused)
{
    (void)unused;
    char dir[64], path[1024], words[300];
    bool found;
    folder_fresh(dir, "advice");
    for (int64_t step = 2; step <= 4; step += 2) assert_int_equal(save(dir, 1, 1, step, 0), OK);
    flip_last_bit(dir, 4);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    snprintf(words, sizeof words, "; the files of the checkpoint before it have their sizes, and jotun checkpoint verify"
             " %s/step_00000002 checks their bytes: --load %s/step_00000002", dir, dir);
    assert_said(load(path), BAD_FILE, words);
    assert_said(load(path), BAD_FILE, "tensor 'head.gain', bytes ");
    snprintf(path, sizeof path, "%s/step_00000002", dir);
    assert_int_equal(load(path), OK);
    flip_last_bit(dir, 2);
    assert_said(load(path), BAD_FILE, "the file is damaged");      /* the first one: there is none before it */
    assert_null(strstr(fail_text(), "--load"));
    assert_int_equal(folder_remove(dir), OK);
}

static void tensors_nobody_asked_for_are_named(void **unused)
{
    (void)unused;
    char          dir[64], path[1024];
    bool          found;
    LogicalTensor all[16];
    int           count = 0;
    for (int b = 0; b < FILES; b++)
        for (int t = 0; t < files[b].tensors; t++) all[count++] = files[b].tensor[t];
    assert_int_equal(save(folder_fresh(dir, "cover"), 1, 1, 1, 0), OK);
    assert_int_equal(checkpoint_find(dir, path, &found), OK);
    Checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(&checkpoint, path), OK);
    assert_int_equal(checkpoint_covers(checkpoint, all, count, false), OK);
    assert_said(checkpoint_covers(checkpoint, all, count - 1, false), BAD_SHAPE, "contains tensor 'head.gain'");
    strcpy(all[count - 1].name, "head");                           /* gain as if it were a state of head */
    assert_said(checkpoint_covers(checkpoint, all, count, false), BAD_SHAPE, "contains tensor 'head.gain'");
    assert_int_equal(checkpoint_covers(checkpoint, all, count, true), OK);
    assert_said(checkpoint_covers(checkpoint, all + 2, count - 2, true), BAD_SHAPE, "contains tensor 'embed.weight',");
    checkpoint_close(checkpoint);
    assert_int_equal(folder_remove(dir), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_made_and_left_empty),       cmocka_unit_test(a_second_run_is_refused),
        cmocka_unit_test(anothers_checkpoints_are_refused),      cmocka_unit_test(a_bad_folder_is_told_at_once),
        cmocka_unit_test(one_that_may_not_be_read_is_no_damage), cmocka_unit_test(damage_names_the_one_before),
        cmocka_unit_test(tensors_nobody_asked_for_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
