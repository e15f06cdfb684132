/* Bash as a process of namespaces of its own. The steps in their order:
 *
 *   parent   clone() with all namespaces; writes the maps of users and groups
 *   first    process of the namespaces: a new root on a tmpfs, the machine's folders below it read-only,
 *            overlays on the working folders, secrets covered, /proc and /dev of its own; forks bash, watches
 * it, sends what it left, and ends, with which the kernel ends all that is left bash     without any
 * capability
 *
 * The first process has our environment and memory; it overwrites the one and closes /proc/1 to the script.
 */
#include "compat/bash/shut_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/array.h"

#define PRIVATE "/.jotun" /* the private folder as the script sees it */
#define NEW "/new"        /* the new root, until it is the root */
#define OLD "/old"        /* the machine's root, until it is gone */

enum { PLAIN = MS_NOSUID | MS_NODEV };

typedef struct {
    const RunInput *in;
    int report; /* the pipe to the parent */
    bool root;  /* the user is the machine's root */
    char home[1024];
    char note[512];
} First;

static void need(First *f, bool done, const char *what)
{
    if (!done) run_report_failure(f->report, what);
}

/* ---- the new root ---- */

/* "new" + path, with its folders made as far as they are missing. */
static const char *place(char out[1100], const char *root, const char *path, bool folder)
{
    int letters = snprintf(out, 1100, "%s%s", root, path);
    if (letters >= 1100) return out;
    for (char *c = out + strlen(root) + 1; *c; c++)
        if (*c == '/') *c = 0, mkdir(out, 0755), *c = '/';
    if (folder) mkdir(out, 0755);
    return out;
}

static void enter_new_root(First *f)
{
    need(f, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mounts cannot be made private");
    char size[64];
    snprintf(size, sizeof size, "mode=0755,size=%d,nr_inodes=40000", RUN_PRIVATE_BYTES);
    need(f, mount("tmpfs", "/tmp", "tmpfs", PLAIN, size) == 0, "a tmpfs on /tmp");
    need(f, !mkdir("/tmp" NEW, 0755) && !mkdir("/tmp" OLD, 0755) && !mkdir("/tmp/lower", 0755),
         "folders in /tmp");
    need(f, mount("/tmp" NEW, "/tmp" NEW, NULL, MS_BIND, NULL) == 0, "a bind mount");
    need(f, syscall(SYS_pivot_root, "/tmp", "/tmp" OLD) == 0 && chdir("/") == 0, "pivot_root");
}

/* What is in the machine's root, but for the folders that get others here. */
static void bind_root(First *f)
{
    static const char *const others[] = { ".", "..", "proc", "sys", "dev", "tmp", "run", "lost+found", NULL };
    char from[1100], to[1100], target[1024];
    DIR *root = opendir(OLD);
    need(f, root != NULL, "the root cannot be read");
    for (struct dirent *e; (e = readdir(root));) {
        bool other = false;
        struct stat about;
        for (const char *const *o = others; *o; o++) other |= !strcmp(*o, e->d_name);
        snprintf(from, sizeof from, OLD "/%s", e->d_name);
        snprintf(to, sizeof to, NEW "/%s", e->d_name);
        if (other || lstat(from, &about)) continue;
        ssize_t n = S_ISLNK(about.st_mode) ? readlink(from, target, sizeof target - 1) : 0;
        if (n > 0) target[n] = 0, (void)!symlink(target, to);
        else if (S_ISDIR(about.st_mode) && mkdir(to, 0755) == 0)
            need(f, mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0, from);
    }
    closedir(root);
}

/* The flags of a mount that a user namespace may not take away. */
static unsigned long locked_flags(const char *options)
{
    static const struct {
        const char *name;
        unsigned long flag;
    } names[] = {
        { "nosuid", MS_NOSUID },   { "nodev", MS_NODEV },           { "noexec", MS_NOEXEC },
        { "noatime", MS_NOATIME }, { "nodiratime", MS_NODIRATIME }, { "relatime", MS_RELATIME },
    };
    unsigned long flags = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *at = strstr(options, names[i].name);
        if (at && (at == options || at[-1] == ',')) flags |= names[i].flag;
    }
    return flags;
}

/* \040 and the like in a path of /proc/self/mountinfo */
static void unescape(char *path)
{
    char *to = path;
    for (char *from = path; *from; from++) {
        bool octal = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] && from[3];
        *to++ = octal ? (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0')) : *from;
        if (octal) from += 3;
    }
    *to = 0;
}

/* Every mount below the new root becomes read-only. One that this user cannot even reach may stay. */
static void make_read_only(First *f)
{
    char line[8192], path[4096], options[1024];
    FILE *list = fopen(OLD "/proc/self/mountinfo", "re");
    if (!list) list = fopen("/proc/self/mountinfo", "re");
    need(f, list != NULL, "/proc/self/mountinfo");
    while (fgets(line, sizeof line, list)) {
        if (sscanf(line, "%*s %*s %*s %*s %4095s %1023s", path, options) != 2) continue;
        unescape(path);
        if (strncmp(path, NEW "/", strlen(NEW) + 1)) continue;
        unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN | locked_flags(options);
        need(f, mount(NULL, path, NULL, flags, NULL) == 0 || errno == EACCES || errno == ENOENT, path);
    }
    fclose(list);
}

static void mount_system(First *f)
{
    static const char *const devices[] = { "null", "zero", "full", "random", "urandom" };
    static const char *const links[][2] = {
        { "/proc/self/fd", "fd" }, { "fd/0", "stdin" }, { "fd/1", "stdout" }, { "fd/2", "stderr" }
    };
    char from[64], to[64];
    for (int i = 0; i < 5; i++) {
        static const char *const folders[] = { "/proc", "/dev", "/tmp", "/run", "/sys" };
        snprintf(to, sizeof to, NEW "%s", folders[i]);
        need(f, mkdir(to, 0755) == 0, to);
    }
    chmod(NEW "/tmp", 01777);
    need(f, mount("proc", NEW "/proc", "proc", PLAIN | MS_NOEXEC, NULL) == 0, "a /proc of its own");
    for (int i = 0; i < 5; i++) {
        snprintf(from, sizeof from, OLD "/dev/%s", devices[i]);
        snprintf(to, sizeof to, NEW "/dev/%s", devices[i]);
        int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0) close(fd);
        need(f, mount(from, to, NULL, MS_BIND, NULL) == 0, to);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(to, sizeof to, NEW "/dev/%s", links[i][1]);
        (void)!symlink(links[i][0], to);
    }
    mkdir(NEW "/dev/shm", 01777);
    /* Of this namespace since Linux 6.14. Most other settings are the whole machine's, and root may write
     * them: from here on /proc is read-only. */
    int fd = open(NEW "/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) (void)!write(fd, "2048", 4), close(fd);
    const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN | MS_NOEXEC;
    need(f, mount(NULL, NEW "/proc", NULL, flags, NULL) == 0, "a read-only /proc");
}

/* ---- the working folders ---- */

static bool overlay(const char *lower, const char *top, const char *work)
{
    char up[128], at[128], options[512];
    snprintf(up, sizeof up, "%s/up", work), snprintf(at, sizeof at, "%s/at", work);
    if (mkdir(work, 0755) || mkdir(up, 0755) || mkdir(at, 0755)) return false;
    struct stat about;
    if (stat(lower, &about) == 0) {
        chmod(up, about.st_mode & 07777);
        (void)!chown(up, about.st_uid, about.st_gid);
    }
    int used = snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s", lower, up, at);
    snprintf(options + used, sizeof options - (size_t)used, ",userxattr");
    if (mount("overlay", top, "overlay", PLAIN, options) == 0) return true;
    options[used] = 0;
    return mount("overlay", top, "overlay", PLAIN, options) == 0;
}

static bool copied(const char *from, const char *top, const char *to)
{
    int64_t bytes = 0;
    return run_copy_folder(from, to, &bytes, -1) && mount(to, top, NULL, MS_BIND, NULL) == 0;
}

/* The folder as the script may change it: an overlay, else a copy, else read-only. A colon in a path would
 * end it in the overlay's options, so that the lower folder has a name of its own. */
static void make_writable(First *f, int i)
{
    char old[1100], top[1100], lower[64], work[64];
    place(old, OLD, f->in->top[i], false), place(top, NEW, f->in->top[i], true);
    snprintf(lower, sizeof lower, "/lower/%d", i), snprintf(work, sizeof work, "/upper%d", i);
    need(f, mkdir(lower, 0755) == 0 && mount(old, lower, NULL, MS_BIND, NULL) == 0, f->in->top[i]);
    if (overlay(lower, top, work)) return;
    snprintf(work, sizeof work, "/copy%d", i);
    if (copied(lower, top, work)) return;
    need(f, mount(old, top, NULL, MS_BIND | MS_REC, NULL) == 0, f->in->top[i]);
    snprintf(f->note, sizeof f->note,
             "%.400s is above %d MiB and no overlay can be mounted here, so that it was read-only",
             f->in->top[i], RUN_COPY_BYTES >> 20);
}

/* A file outside of the working folders that has to be there, below /tmp or /run: the script, the recorder.
 */
static void bind_file(First *f, const char *from, const char *to)
{
    char old[1100], new[1100];
    place(old, OLD, from, false), place(new, NEW, to, false);
    int fd = open(new, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) close(fd);
    need(f, mount(old, new, NULL, MS_BIND, NULL) == 0, from);
    (void)!mount(NULL, new, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN, NULL);
}

/* ---- secrets ---- */

static void cover(First *f, const char *path)
{
    char at[2304];
    struct stat about;
    snprintf(at, sizeof at, NEW "%s", path);
    if (lstat(at, &about)) return;
    bool done = S_ISDIR(about.st_mode)   ? mount("/none", at, NULL, MS_BIND, NULL) == 0
                : S_ISREG(about.st_mode) ? mount("/nothing", at, NULL, MS_BIND, NULL) == 0
                                         : true; /* a link leads to what is covered by its own name */
    need(f, done || errno == EACCES, path);
}

static void cover_below(First *f, const char *folder, const char *home)
{
    char path[2200], at[1100];
    DIR *entries;
    snprintf(at, sizeof at, NEW "%s", folder);
    if (!(entries = opendir(at))) return;
    for (struct dirent *e; (e = readdir(entries));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strlen(path) < 1024 && run_is_secret(path, home)) cover(f, path);
    }
    closedir(entries);
}

static void cover_home(First *f, const char *home)
{
    static const char *const deeper[] = { "", "/.cache", "/.local/share" };
    char folder[1100];
    for (size_t i = 0; strlen(home) > 1 && i < COUNT(deeper); i++) {
        snprintf(folder, sizeof folder, "%s%s", home, deeper[i]);
        cover_below(f, folder, home);
    }
}

static void cover_secrets(First *f)
{
    mkdir("/none", 0555);
    int fd = open("/nothing", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
    if (fd >= 0) close(fd);
    cover_below(f, "/etc", "");
    cover_home(f, f->home);
    if (!f->root) return; /* who may read everybody's */
    char home[1100];
    const struct passwd *root = getpwuid(0);
    DIR *homes = opendir(NEW "/home");
    if (root && root->pw_dir) cover_home(f, root->pw_dir);
    for (struct dirent *e; homes && (e = readdir(homes));) {
        snprintf(home, sizeof home, "/home/%s", e->d_name);
        if (e->d_name[0] != '.') cover_home(f, home);
    }
    if (homes) closedir(homes);
}

/* ---- recorders ---- */

/* python3.11 beside python3, of which the machine alone knows the names */
static bool is_python(const char *name)
{
    return !strncmp(name, "python", 6) && !name[6 + strspn(name + 6, "0123456789.")];
}

/* Recorders over the real programs of a folder, and beside them: an overlay of two folders that only read. */
static void cover_programs(First *f, const char *folder)
{
    char at[128], old[128], options[256], to[256], from[256];
    snprintf(at, sizeof at, NEW "%s", folder), snprintf(old, sizeof old, OLD "%s", folder);
    DIR *programs = opendir(old);
    struct stat about;
    if (!programs || lstat(at, &about) || !S_ISDIR(about.st_mode)) {
        if (programs) closedir(programs);
        return;
    }
    for (struct dirent *e; (e = readdir(programs));) {
        snprintf(to, sizeof to, NEW PRIVATE "/bin/%.100s", e->d_name);
        if (is_python(e->d_name)) (void)!symlink("../missing", to);
    }
    rewinddir(programs);
    snprintf(options, sizeof options, "lowerdir=" NEW PRIVATE "/over:%s", old);
    bool over = mount("overlay", at, "overlay", PLAIN | MS_RDONLY, options) == 0;
    for (struct dirent *e; !over && (e = readdir(programs));) {
        snprintf(to, sizeof to, NEW PRIVATE "/bin/%.100s", e->d_name),
            snprintf(from, sizeof from, "%s/%.100s", at, e->d_name);
        if (lstat(to, &about) == 0 && lstat(from, &about) == 0)
            need(f, mount(NEW PRIVATE "/missing", from, NULL, MS_BIND, NULL) == 0, from);
    }
    closedir(programs);
}

/* In an overlay the links of bin/ would lead to a place beside it. */
static void make_over(void)
{
    char from[256], to[256];
    DIR *bin = opendir(NEW PRIVATE "/bin");
    mkdir(NEW PRIVATE "/over", 0755);
    for (struct dirent *e; bin && (e = readdir(bin));) {
        snprintf(to, sizeof to, NEW PRIVATE "/over/%.100s", e->d_name);
        snprintf(from, sizeof from, PRIVATE "/bin/%.100s", e->d_name);
        if (e->d_name[0] != '.') (void)!symlink(from, to);
    }
    if (bin) closedir(bin);
}

static void make_private(First *f)
{
    char size[64];
    snprintf(size, sizeof size, "mode=0755,size=%d,nr_inodes=4000", 3 * RUN_FILE_BYTES);
    mkdir(NEW PRIVATE, 0755);
    need(f, mount("tmpfs", NEW PRIVATE, "tmpfs", PLAIN, size) == 0, "a tmpfs for records");
    bind_file(f, f->in->recorder, PRIVATE "/jotun");
    if (run_folder_make(NEW PRIVATE, PRIVATE, PRIVATE "/jotun", f->in) != OK) {
        errno = EIO;
        run_report_failure(f->report, fail_text());
    }
    chmod(NEW PRIVATE "/calls", 0666), chmod(NEW PRIVATE "/trace", 0666);
}

/* What an earlier run missed, where a new file can be made. */
static void make_lacking(First *f)
{
    char at[1100], link[1200];
    for (int i = 0; i < f->in->lackings; i++) {
        const Lacking *l = &f->in->lacking[i];
        place(at, NEW, l->path, l->kind == LACKING_FOLDER);
        snprintf(link, sizeof link, PRIVATE "/bin/%.100s", strrchr(l->path, '/') + 1);
        if (l->kind == LACKING_PROGRAM) (void)!symlink(link, at);
        if (l->kind != LACKING_FILE) continue;
        int fd = open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0) dprintf(fd, "%s", f->in->answers == 2 ? "8 8\n" : "6\n"), close(fd);
    }
}

static void leave_old_root(First *f)
{
    need(f, umount2(OLD, MNT_DETACH) == 0, "the machine's root cannot be left");
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    need(f, root >= 0 && chdir(NEW) == 0 && syscall(SYS_pivot_root, ".", ".") == 0,
         "pivot_root into the new root");
    need(f, fchdir(root) == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0,
         "the first root cannot be left");
    close(root);
}

/* ---- processes ---- */

/* Root keeps what reading other people's files takes, so that it reads a script as it would outside. */
static bool drop_capabilities(void *context)
{
    const First *f = context;
    uint32_t kept = f->root ? 1u << CAP_DAC_READ_SEARCH | 1u << CAP_DAC_OVERRIDE : 0;
    for (int c = 0; c <= 63; c++)
        if (c > 31 || !(kept & 1u << c)) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { kept, kept, kept }, { 0, 0, 0 } };
    if (syscall(SYS_capset, &head, data)) _exit(126);
    return true;
}

static int all_processes(void *context, pid_t *list, int most)
{
    (void)context;
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));) {
        int pid = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? (int)strtol(e->d_name, NULL, 10) : 0;
        if (pid <= 1) continue;
        if (count < most) list[count] = pid;
        count++;
    }
    if (proc) closedir(proc);
    return count;
}

static void build(First *f)
{
    enter_new_root(f);
    bind_root(f);
    make_read_only(f);
    mount_system(f);
    for (int i = 0; i < f->in->tops; i++) make_writable(f, i);
    char old[1100], new[1100];
    place(old, OLD, f->in->script, false), place(new, NEW, f->in->script, false);
    if (access(new, F_OK) && access(old, F_OK) == 0) bind_file(f, f->in->script, f->in->script);
    make_private(f);
    make_over();
    cover_secrets(f);
    cover_programs(f, "/usr/bin");
    cover_programs(f, "/usr/local/bin");
    cover_programs(f, "/bin");
    make_lacking(f);
    leave_old_root(f);
    if (f->in->host) (void)!sethostname(f->in->host, strlen(f->in->host));
}

static void first_process(First *f) __attribute__((noreturn));
static void first_process(First *f)
{
    RunFiles files;
    int status;
    umask(0);
    build(f);
    run_forget_environment();
    if (run_files_open(&files, PRIVATE) != OK) run_report_failure(f->report, fail_text());
    pid_t bash = fork();
    if (bash == 0) run_become_bash(f->in, &files, PRIVATE, -1, drop_capabilities, f);
    if (bash < 0) run_report_failure(f->report, "no process for bash");
    Watch watch = { bash, f->in->seconds, all_processes, NULL, f };
    RunEnd end = run_watch(&watch, &status);
    if (end != END_NORMALLY) kill(-1, SIGKILL);
    run_report(f->report, end, status, f->note, &files);
    _exit(0);
}

static bool write_map(pid_t pid, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return done;
}

/* Each user and group is itself; root's namespace knows all of them where that is allowed. */
static bool write_maps(pid_t pid)
{
    char uids[64], gids[64];
    const char *all = "0 0 4294967295";
    snprintf(uids, sizeof uids, "%u %u 1", geteuid(), geteuid());
    snprintf(gids, sizeof gids, "%u %u 1", getegid(), getegid());
    if (geteuid() == 0 && write_map(pid, "uid_map", all) && write_map(pid, "gid_map", all)) return true;
    return (write_map(pid, "uid_map", uids) || geteuid() == 0) &&
           (write_map(pid, "setgroups", "deny") || true) && write_map(pid, "gid_map", gids);
}

/* The parent: starts the first process, lets it go on once its users are mapped, and reads its report. */
static Status start(RunResult *out, const RunInput *in, unsigned long flags)
{
    int report[2], go[2];
    char byte = 0;
    First f = { .in = in, .root = geteuid() == 0 };
    const struct passwd *user = getpwuid(geteuid());
    snprintf(f.home, sizeof f.home, "%s", user && user->pw_dir ? user->pw_dir : "");
    if (pipe2(report, O_CLOEXEC)) return fail(BAD_OPTION, "no pipe: %s", strerror(errno));
    if (pipe2(go, O_CLOEXEC))
        return close(report[0]), close(report[1]), fail(BAD_OPTION, "no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t first = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (first == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        f.report = report[1];
        close(report[0]), close(go[1]);
        if (read(go[0], &byte, 1) != 1) _exit(125);
        setsid();
        first_process(&f);
    }
    int refused = first < 0 ? errno : 0;
    close(report[1]), close(go[0]);
    bool mapped = first > 0 && (!(flags & CLONE_NEWUSER) || write_maps(first));
    if (mapped) mapped = write(go[1], &byte, 1) == 1;
    close(go[1]);
    Status status = mapped    ? run_receive(out, report[0], in->seconds)
                    : refused ? fail(BAD_OPTION, "clone: %s", strerror(refused))
                              : fail(BAD_OPTION, "the maps of users: %s", strerror(errno));
    close(report[0]);
    if (first > 0) kill(first, SIGKILL), waitpid(first, NULL, 0);
    return status;
}

Status run_in_namespaces(RunResult *out, const RunInput *in)
{
    const unsigned long inner =
        CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    Status status = start(out, in, inner | CLONE_NEWUSER);
    if (status == OK || geteuid() != 0) return status;
    run_free(out);
    return start(out, in, inner); /* root needs no namespace of users for the others */
}
