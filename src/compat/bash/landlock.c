/* Bash where a machine forbids namespaces: a Landlock domain in which nothing but a private folder can be
 * written, only readers of text can be started, and other processes cannot be seen into or signalled.
 *
 *   parent   makes the private folder with a copy of the working folders, and removes it
 *   keeper   reaps what the script leaves, watches it, kills it, and sends what it left
 *   bash     in the domain; of root, as a user whom nobody else is, so that the number of its processes can
 * be limited, and kill -9 -1 reaches none but its own
 *
 * Landlock cannot cover one file of a folder that may be read: around each secret all its neighbours are
 * allowed one by one. */
#include "compat/bash/shut_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"

/* As the kernel numbers them; headers of older systems lack some. */
enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD = 445, LANDLOCK_RESTRICT = 446 };
enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    TRUNCATE = 1 << 14,
    ALL = (1 << 16) - 1
};
struct ruleset {
    uint64_t fs, net, scoped;
};
struct beneath {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));

typedef struct {
    const RunInput *in;
    RunInput seen;                   /* with the paths that the script sees */
    char at[256];                    /* the private folder */
    char script[1280], folder[1280]; /* in the copy */
    char home[1024], note[512];
    int abi, rules;
    pid_t parent;
    int user;         /* in the place of root; -1: the user's own */
    rlim_t processes; /* the most of this user: those that are there, and the run's */
} Domain;

static const char *const readers[] = {
    "bash", "dash", "env", "cat", "tac", "head", "tail", "sed", "awk", "gawk", "mawk", "nawk",
    "original-awk", "grep", "egrep", "fgrep", "cut", "tr", "sort", "uniq", "wc", "tee", "date", "dirname",
    "basename", "readlink", "realpath", "pwd", "ls", "mkdir", "rmdir", "touch", "rm", "cp", "mv", "ln",
    "expr", "seq", "bc", "dc", "printf", "echo", "test", "[", "true", "false", "id", "whoami", "hostname",
    "uname", "arch", "nproc", "getconf", "mktemp", "find", "xargs", "jq", "yq", "paste", "nl", "od", "xxd",
    "hexdump", "base64", "base32", "md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "flock", "stat",
    "du", "df", "which", "shuf", "comm", "join", "rev", "fold", "fmt", "column", "envsubst", "numfmt",
    "factor", "split", "csplit", "lscpu", "free", "ps", "sync", "tput", "clear", "chmod", "chown",
    "install", "diff", "cmp", "patch", "yes", "timeout", "nohup", "nice", "ionice", "stdbuf", "setsid",
    "taskset", "time", "logger", "getopt", "mkfifo", "truncate", "dd", "gzip", "gunzip", "zcat", "tar",
    "git", "file", "locale", "tty", "groups", "logname", "hostid", "kill", "pidof", "pgrep", "pkill", "cal",
    "sleep", NULL
};

/* ---- the rules ---- */

static void allow(Domain *d, const char *path, uint64_t access)
{
    struct stat about;
    struct beneath rule = { access, open(path, O_PATH | O_CLOEXEC) };
    if (rule.fd < 0) return;
    if (fstat(rule.fd, &about) == 0 && !S_ISDIR(about.st_mode))
        rule.access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
    (void)syscall(LANDLOCK_ADD, d->rules, 1, &rule, 0);
    close(rule.fd);
}

/* Whether a secret lies below the folder, so that its entries have to be allowed one by one. */
static bool holds_secrets(const Domain *d, const char *folder)
{
    size_t letters = strlen(folder);
    if (!strcmp(folder, "/etc")) return true;
    if (strncmp(d->home, folder, letters) == 0 && (d->home[letters] == '/' || !d->home[letters])) return true;
    if (geteuid() == 0 && !strncmp(folder, "/home", 5)) {
        int depth = 0;
        for (const char *c = folder; *c; c++) depth += *c == '/';
        return depth <= 2;
    }
    size_t home = strlen(d->home);
    return home > 1 && !strncmp(folder, d->home, home) &&
           (!strcmp(folder + home, "/.cache") || !strcmp(folder + home, "/.local") ||
            !strcmp(folder + home, "/.local/share"));
}

static bool is_secret_of_anyone(const Domain *d, const char *path)
{
    char home[1024];
    if (run_is_secret(path, d->home)) return true;
    if (strncmp(path, "/home/", 6)) return false;
    snprintf(home, sizeof home, "%.*s", (int)(6 + strcspn(path + 6, "/")), path);
    return run_is_secret(path, home);
}

static void allow_reading(Domain *d, const char *folder)
{
    static const char *const others[] = { "/proc", "/sys", "/dev", "/tmp", "/run", "/var/tmp" };
    char path[2048];
    DIR *entries = opendir(*folder ? folder : "/");
    for (struct dirent *e; entries && (e = readdir(entries));) {
        bool other = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
        if (other || snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= 1024) continue;
        for (size_t i = 0; i < COUNT(others); i++) other |= !strcmp(path, others[i]);
        if (other || is_secret_of_anyone(d, path)) continue;
        if (holds_secrets(d, path)) allow_reading(d, path);
        else allow(d, path, READ_FILE | READ_DIR);
    }
    if (entries) closedir(entries);
}

static void allow_system(Domain *d)
{
    static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                           "/dev/urandom" };
    static const char *const facts[] = { "/proc/cpuinfo", "/proc/meminfo",     "/proc/sys/kernel",
                                         "/proc/version", "/proc/filesystems", "/proc/stat",
                                         "/proc/uptime",  "/proc/loadavg" };
    for (size_t i = 0; i < COUNT(devices); i++)
        allow(d, devices[i], READ_FILE | WRITE_FILE);
    for (size_t i = 0; i < COUNT(facts); i++) allow(d, facts[i], READ_FILE | READ_DIR);
    allow(d, "/", READ_DIR);
}

static void allow_programs(Domain *d)
{
    static const char *const folders[] = { "/usr/bin", "/bin", "/usr/local/bin" };
    char path[1100];
    glob_t loaders;
    for (size_t i = 0; i < COUNT(folders); i++)
        for (const char *const *name = readers; *name; name++) {
            snprintf(path, sizeof path, "%s/%s", folders[i], *name);
            allow(d, path, EXECUTE | READ_FILE);
        }
    allow(d, d->in->bash, EXECUTE | READ_FILE);
    allow(d, d->in->recorder, EXECUTE | READ_FILE);
    if (glob("/lib*/ld-*.so*", 0, NULL, &loaders) == 0) {
        for (size_t i = 0; i < loaders.gl_pathc; i++) allow(d, loaders.gl_pathv[i], EXECUTE | READ_FILE);
        globfree(&loaders);
    }
    if (glob("/lib/*/ld-*.so*", 0, NULL, &loaders) == 0) {
        for (size_t i = 0; i < loaders.gl_pathc; i++) allow(d, loaders.gl_pathv[i], EXECUTE | READ_FILE);
        globfree(&loaders);
    }
}

static void allow_private(Domain *d, uint64_t all)
{
    static const struct {
        const char *name;
        uint64_t access;
    } parts[] = {
        { "bin", EXECUTE | READ_FILE | READ_DIR },
        { "missing", EXECUTE | READ_FILE },
        { "jotun", EXECUTE | READ_FILE },
        { "prelude", READ_FILE },
        { "answers", READ_FILE },
        { "calls", READ_FILE | WRITE_FILE | TRUNCATE },
        { "trace", READ_FILE | WRITE_FILE | TRUNCATE },
        { "copy", ALL },
        { "tmp", ALL },
    };
    char path[512];
    for (size_t i = 0; i < COUNT(parts); i++) {
        snprintf(path, sizeof path, "%s/%s", d->at, parts[i].name);
        allow(d, path, parts[i].access & all);
    }
    allow(d, d->at, READ_DIR);
}

static bool make_rules(Domain *d)
{
    const uint64_t most = d->abi >= 5 ? ALL : d->abi >= 3 ? ALL >> 1 : d->abi >= 2 ? ALL >> 2 : ALL >> 3;
    struct ruleset set = { most, d->abi >= 4 ? 3 : 0, d->abi >= 6 ? 3 : 0 };
    d->rules = (int)syscall(LANDLOCK_CREATE, &set, d->abi >= 6 ? 24 : d->abi >= 4 ? 16 : 8, 0);
    if (d->rules < 0) return false;
    allow_system(d);
    allow_reading(d, "");
    for (int i = 0; i < d->in->tops; i++) /* below /tmp they are not read otherwise */
        if (!strncmp(d->in->top[i], "/tmp/", 5) || !strncmp(d->in->top[i], "/run/", 5))
            allow(d, d->in->top[i], READ_FILE | READ_DIR);
    allow(d, d->in->script, READ_FILE);
    allow_programs(d);
    allow_private(d, most);
    return true;
}

/* ---- a user whom nobody else is ---- */

static void keep_reading(void)
{
    const uint32_t kept = 1u << CAP_DAC_READ_SEARCH | 1u << CAP_DAC_OVERRIDE;
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    if (syscall(SYS_capget, &head, data)) return;
    uint32_t have = data[0].permitted & kept;
    data[0] = (struct __user_cap_data_struct){ have, have, have };
    data[1] = (struct __user_cap_data_struct){ 0, 0, 0 };
    if (syscall(SYS_capset, &head, data)) _exit(126);
    for (int c = 0; c < 32; c++)
        if (have & 1u << c) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0);
}

static bool confine(void *context)
{
    Domain *d = context;
    if (d->user >= 0) {
        for (int c = 0; c <= 63; c++)
            if (c != CAP_DAC_READ_SEARCH && c != CAP_DAC_OVERRIDE) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
        if (syscall(SYS_setgroups, 0, NULL) || setresgid((gid_t)d->user, (gid_t)d->user, (gid_t)d->user) ||
            setresuid((uid_t)d->user, (uid_t)d->user, (uid_t)d->user))
            _exit(126);
        keep_reading();
    }
    setrlimit(RLIMIT_NPROC, &(struct rlimit){ d->processes, d->processes });
    if (syscall(LANDLOCK_RESTRICT, d->rules, 0)) {
        dprintf(STDERR_FILENO, "jotun: Landlock: %s\n", strerror(errno));
        _exit(126);
    }
    return d->abi >= 6 || d->user >= 0; /* before, signals reach the user's other processes */
}

/* A user and group number that is mapped here and has no name; -1: there is none. */
static int free_user(void)
{
    static const int from[] = { 2147400000, 61600, 54300 };
    for (size_t i = 0; i < COUNT(from); i++)
        for (int k = 0; k < 64; k++) {
            int user = from[i] + (int)((unsigned)(getpid() + k) % 90);
            if (getpwuid((uid_t)user)) continue;
            pid_t child = fork();
            int how = 1;
            if (child == 0)
                _exit(setresgid((gid_t)user, (gid_t)user, (gid_t)user) ||
                      setresuid((uid_t)user, (uid_t)user, (uid_t)user));
            if (child > 0) waitpid(child, &how, 0);
            if (how == 0) return user;
            break; /* the whole range is not mapped */
        }
    return -1;
}

/* ---- the keeper ---- */

static int below(pid_t pid, pid_t *list, int count, int most)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "re");
    int first = count;
    while (f && fscanf(f, "%d", &child) == 1) {
        if (count < most) list[count] = child;
        count++;
    }
    if (f) fclose(f);
    for (int i = first, end = count < most ? count : most; i < end; i++)
        count = below(list[i], list, count, most);
    return count;
}

static int run_processes(void *context, pid_t *list, int most)
{
    (void)context;
    return below(getpid(), list, 0, most);
}

static int64_t folder_bytes(const char *folder, int depth, int64_t sum)
{
    char path[2048];
    DIR *entries = depth < 40 ? opendir(folder) : NULL;
    for (struct dirent *e; entries && sum <= 2 * (int64_t)RUN_PRIVATE_BYTES && (e = readdir(entries));) {
        struct stat about;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path ||
            lstat(path, &about))
            continue;
        sum += 512 + (S_ISREG(about.st_mode) ? about.st_blocks * 512 : 0);
        if (S_ISDIR(about.st_mode)) sum = folder_bytes(path, depth + 1, sum);
    }
    if (entries) closedir(entries);
    return sum;
}

static int64_t private_bytes(void *context)
{
    return folder_bytes(((Domain *)context)->at, 0, 0);
}

/* Stops all before it kills one: what is stopped starts no other, and keeps its place among the processes
 * that the user may have, so that at some point no new one can come. */
static void kill_run(const Domain *d)
{
    static pid_t list[4096];
    int count = 0;
    for (int before = -1, rounds = 0; rounds < 1000 && count != before; rounds++) {
        before = count;
        count = below(getpid(), list, 0, 4096);
        for (int i = 0; i < count && i < 4096; i++) kill(list[i], SIGSTOP);
    }
    for (int rounds = 0; rounds < 10000; rounds++) {
        if (d->user >= 0) {
            pid_t killer = fork(); /* all of the user's at once */
            if (killer == 0) {
                if (!setresuid((uid_t)d->user, (uid_t)d->user, (uid_t)d->user)) kill(-1, SIGKILL);
                _exit(0);
            }
        }
        count = below(getpid(), list, 0, 4096);
        for (int i = 0; i < count && i < 4096; i++) kill(list[i], SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD) return;
        usleep(1000);
    }
}

static void keep(Domain *d, int report) __attribute__((noreturn));
static void keep(Domain *d, int report)
{
    RunFiles files;
    int status;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    setsid();
    signal(SIGPIPE, SIG_IGN);
    if (run_files_open(&files, d->at) != OK) run_report_failure(report, fail_text());
    if (!make_rules(d)) run_report_failure(report, "Landlock");
    run_forget_environment();
    pid_t bash = fork();
    if (bash == 0) {
        run_become_bash(&d->seen, &files, d->at, d->rules, confine, d);
    }
    if (bash < 0) run_report_failure(report, "no process for bash");
    Watch watch = { bash, d->in->seconds, run_processes, private_bytes, d };
    RunEnd end = run_watch(&watch, &status);
    kill_run(d);
    if (getppid() != d->parent) (void)folder_remove(d->at); /* which it cannot do any more */
    run_report(report, end, status, d->note, &files);
    _exit(0);
}

/* ---- the private folder ---- */

/* Where programs may be started from, which /tmp and /dev/shm forbid on some machines. */
static Status make_place(Domain *d)
{
    const char *folders[] = { getenv("TMPDIR"), "/tmp", "/dev/shm", d->in->folder };
    for (size_t i = 0; i < COUNT(folders); i++) {
        struct statvfs about;
        char path[128];
        if (!folders[i] || strlen(folders[i]) > 100 || folders[i][0] != '/' || statvfs(folders[i], &about) ||
            about.f_flag & ST_NOEXEC)
            continue;
        snprintf(path, sizeof path, "%s/jotun-XXXXXX", folders[i]);
        if (!mkdtemp(path)) continue;
        snprintf(d->at, sizeof d->at, "%s", path);
        return OK;
    }
    return fail(BAD_OPTION,
                "no folder for temporary files in which programs may be started; name one in TMPDIR");
}

/* PRIVATE/copy/a/b/run.sh for /a/b/run.sh, where that is copied. */
static void translate(const Domain *d, char *out, size_t size, const char *path, const bool *copied)
{
    for (int i = 0; i < d->in->tops; i++) {
        size_t letters = strlen(d->in->top[i]);
        if (!copied[i] || strncmp(path, d->in->top[i], letters) || (path[letters] && path[letters] != '/'))
            continue;
        snprintf(out, size, "%s/copy%s", d->at, path);
        return;
    }
    snprintf(out, size, "%s", path);
}

static Status copy_tops(Domain *d, bool *copied)
{
    char path[1400];
    int64_t bytes = 0;
    for (int i = 0; i < d->in->tops; i++) {
        snprintf(path, sizeof path, "%s/copy%s", d->at, d->in->top[i]);
        TRY(folder_make(path));
        copied[i] = run_copy_folder(d->in->top[i], path, &bytes, d->user);
        if (!copied[i])
            snprintf(d->note, sizeof d->note,
                     "%.400s is above %d MiB, so that it was not copied and was read-only", d->in->top[i],
                     RUN_COPY_BYTES >> 20);
    }
    return OK;
}

static Status make_private(Domain *d)
{
    char path[512], program[512];
    bool copied[TOPS] = { false };
    static const char *const folders[] = { "copy", "tmp" }, *const files[] = { "calls", "trace", "tmp",
                                                                               "copy" };
    if (chmod(d->at, 0711)) return fail(IO_FAILED, "%s: %s", d->at, strerror(errno));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", d->at, folders[i]);
        TRY(folder_make(path));
    }
    snprintf(program, sizeof program, "%s/jotun", d->at);
    if (symlink(d->in->recorder, program)) return fail(IO_FAILED, "%s: %s", program, strerror(errno));
    TRY(run_folder_make(d->at, d->at, program, d->in));
    TRY(copy_tops(d, copied));
    for (int i = 0; d->user >= 0 && i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", d->at, files[i]);
        if (chown(path, (uid_t)d->user, (gid_t)d->user))
            return fail(IO_FAILED, "%s: %s", path, strerror(errno));
    }
    translate(d, d->script, sizeof d->script, d->in->script, copied);
    translate(d, d->folder, sizeof d->folder, d->in->folder, copied);
    d->seen = *d->in;
    d->seen.script = d->script, d->seen.folder = d->folder;
    return OK;
}

/* What bash and the recorders wrote has the copy's paths; the machine's stand in their place. */
static Status restore_paths(Buffer *b, const char *at)
{
    char copy[300];
    Buffer out = { 0 };
    int64_t from = 0, letters = snprintf(copy, sizeof copy, "%s/copy", at);
    for (char *hit;
         b->text && (hit = memmem(b->text + from, (size_t)(b->bytes - from), copy, (size_t)letters));) {
        TRY(buffer_add(&out, b->text + from, hit - (b->text + from)));
        from = hit - b->text + letters;
    }
    if (!from) return OK;
    TRY(buffer_add(&out, b->text + from, b->bytes - from));
    if (!buffer_string(&out)) return fail(NO_MEMORY, "no memory for a trace");
    buffer_free(b);
    *b = out;
    return OK;
}

static Status run(RunResult *out, Domain *d)
{
    int report[2];
    TRY(make_private(d));
    if (pipe2(report, O_CLOEXEC)) return fail(BAD_OPTION, "no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t keeper = fork();
    if (keeper == 0) {
        close(report[0]);
        keep(d, report[1]);
    }
    close(report[1]);
    Status status =
        keeper > 0 ? run_receive(out, report[0], d->in->seconds) : fail(NO_MEMORY, "no process for bash");
    close(report[0]);
    if (keeper > 0) kill(keeper, SIGTERM), waitpid(keeper, NULL, 0);
    if (status == OK) status = restore_paths(&out->calls, d->at);
    if (status == OK) status = restore_paths(&out->trace, d->at);
    if (status == OK) status = restore_paths(&out->printed, d->at);
    return status;
}

Status run_in_landlock(RunResult *out, const RunInput *in)
{
    Domain d = { .in = in, .parent = getpid(), .user = -1, .abi = (int)syscall(LANDLOCK_CREATE, NULL, 0, 1) };
    const struct passwd *user = getpwuid(geteuid());
    if (d.abi < 1)
        return fail(BAD_OPTION, "Landlock is not there (Linux 5.13 and later have it): %s", strerror(errno));
    snprintf(d.home, sizeof d.home, "%s", user && user->pw_dir ? user->pw_dir : "");
    if (geteuid() == 0) d.user = free_user();
    struct rlimit now = { RLIM_INFINITY, RLIM_INFINITY };
    getrlimit(RLIMIT_NPROC, &now);
    d.processes = RUN_PROCESSES_MOST;
    if (d.user < 0) { /* beside those that the user has already */
        struct stat about;
        char path[64];
        DIR *proc = opendir("/proc");
        for (struct dirent *e; proc && (e = readdir(proc));) {
            snprintf(path, sizeof path, "/proc/%.20s/task", e->d_name); /* each thread counts */
            if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && stat(path, &about) == 0 &&
                about.st_uid == geteuid())
                d.processes += about.st_nlink;
        }
        if (proc) closedir(proc);
    }
    if (now.rlim_max < d.processes) d.processes = now.rlim_max;
    TRY(make_place(&d));
    Failure failure = { 0 };
    failure_keep(&failure, run(out, &d));
    failure_keep(&failure, folder_remove(d.at));
    return failure_report(&failure);
}
