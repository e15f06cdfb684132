/* The place of a run where a machine forbids namespaces: a Landlock domain in which nothing but a private
 * folder can be written, only readers of text can be started, and other processes cannot be seen into or
 * signalled. The private folder has a copy of the working folders.
 *
 * Landlock cannot cover one file of a folder that may be read: around each secret all its neighbours are
 * allowed one by one. */
#include "compat/bash/shut_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    ALL = (1 << 16) - 1,
    START = EXECUTE | READ_FILE,
    READ = READ_FILE | READ_DIR
};
struct ruleset {
    uint64_t fs, net, scoped;
};
struct beneath {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));

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

static uint64_t known_rights(const Keeper *k)
{
    return k->abi >= 5 ? ALL : k->abi >= 3 ? ALL >> 1 : k->abi >= 2 ? ALL >> 2 : ALL >> 3;
}

static void allow(const Keeper *k, uint64_t access, const char *folder, const char *name)
{
    char path[2048];
    struct stat about;
    snprintf(path, sizeof path, "%s%s%s", folder, *name ? "/" : "", name);
    struct beneath rule = { access & known_rights(k), open(path, O_PATH | O_CLOEXEC) };
    if (rule.fd < 0) return;
    if (fstat(rule.fd, &about) == 0 && !S_ISDIR(about.st_mode))
        rule.access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
    (void)syscall(LANDLOCK_ADD, k->rules, 1, &rule, 0);
    close(rule.fd);
}

/* Entries of a folder, but for secrets, and for folders that are others in namespaces, too. A link gives no
 * right to what it leads to. */
static void allow_reading(const Keeper *k, const char *folder)
{
    static const char *const others[] = { "/proc", "/sys", "/dev", "/tmp", "/run", "/var/tmp" };
    char path[2048];
    DIR *entries = opendir(*folder ? folder : "/");
    for (struct dirent *e; entries && (e = readdir(entries));) {
        bool skipped = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || e->d_type == DT_LNK;
        bool holds = false;
        size_t n = (size_t)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (skipped || n >= 1024) continue;
        for (int i = 0; i < COUNT(others); i++) skipped |= !strcmp(path, others[i]);
        for (int i = 0; i < k->secrets; i++) {
            bool below = !strncmp(k->secret[i], path, n);
            skipped |= below && !k->secret[i][n];
            holds |= below && k->secret[i][n] == '/';
        }
        if (!skipped && holds) allow_reading(k, path);
        else if (!skipped) allow(k, READ, path, "");
    }
    if (entries) closedir(entries);
}

static void allow_matching(const Keeper *k, const char *pattern)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) allow(k, START, found.gl_pathv[i], "");
    globfree(&found);
}

static void make_rules(Keeper *k)
{
    static const struct {
        const char *name;
        uint64_t access;
    } system[] = {
        { "/dev/null", READ_FILE | WRITE_FILE }, { "/dev/zero", READ_FILE | WRITE_FILE },
        { "/dev/full", READ_FILE | WRITE_FILE }, { "/dev/random", READ_FILE | WRITE_FILE },
        { "/dev/urandom", READ_FILE | WRITE_FILE }, { "/proc/cpuinfo", READ }, { "/proc/meminfo", READ },
        { "/proc/sys/kernel", READ }, { "/proc/version", READ }, { "/proc/filesystems", READ },
        { "/proc/stat", READ }, { "/proc/uptime", READ }, { "/proc/loadavg", READ }, { "/", READ_DIR },
    }, private[] = {
        { "", READ_DIR }, { "bin", START | READ_DIR }, { "missing", START },
        { "prelude", READ_FILE }, { "patterns", READ_FILE }, { "calls", READ_FILE | WRITE_FILE | TRUNCATE },
        { "trace", READ_FILE | WRITE_FILE | TRUNCATE }, { "copy", ALL }, { "tmp", ALL },
    };
    static const char *const folders[] = { "/usr/bin", "/bin", "/usr/local/bin" };
    struct ruleset set = { known_rights(k), k->abi >= 4 ? 3 : 0, k->abi >= 6 ? 3 : 0 };
    k->rules = (int)syscall(LANDLOCK_CREATE, &set, k->abi >= 6 ? 24 : k->abi >= 4 ? 16 : 8, 0);
    keeper_need(k, k->rules >= 0, "Landlock");
    for (int i = 0; i < COUNT(system); i++) /* other answers have no machine to read from */
        if (!k->in.answers || !strncmp(system[i].name, "/dev/", 5) || !system[i].name[1])
            allow(k, system[i].access, system[i].name, "");
    for (int i = 0; i < COUNT(private); i++) allow(k, private[i].access, k->at, private[i].name);
    allow_reading(k, "");
    for (int i = 0; i < k->in.tops; i++) /* below /tmp they are not read otherwise */
        if (!strncmp(k->in.top[i], "/tmp/", 5) || !strncmp(k->in.top[i], "/run/", 5))
            allow(k, READ, k->in.top[i], "");
    allow(k, READ_FILE, k->in.script, "");
    for (int i = 0; i < COUNT(folders); i++)
        for (const char *const *name = readers; *name; name++) allow(k, START, folders[i], *name);
    allow(k, START, k->in.bash, "");
    allow_matching(k, "/lib*/ld-*.so*");
    allow_matching(k, "/lib/*/ld-*.so*");
}

bool landlock_enter(const Keeper *k)
{
    return syscall(LANDLOCK_RESTRICT, k->rules, 0) == 0;
}

/* ---- its users and processes ---- */

static bool become(int user)
{
    return !setresgid((gid_t)user, (gid_t)user, (gid_t)user) &&
           !setresuid((uid_t)user, (uid_t)user, (uid_t)user);
}

/* A user and group number that is mapped here and has no name; -1: there is none. It is of this process, so
 * that runs at the same time do not end each other's processes. */
static int free_user(void)
{
    static const int from[] = { 2000000000, 54300 }, range[] = { 5000000, 7000 };
    for (int i = 0; i < COUNT(from); i++) {
        int user = from[i] + (int)getpid() % range[i], how = 1;
        while (getpwuid((uid_t)user)) user++;
        pid_t child = fork();
        if (child == 0) _exit(!become(user));
        if (child > 0) waitpid(child, &how, 0);
        if (how == 0) return user;
    }
    return -1;
}

/* Of this user, with those that are there already: each thread counts. */
static unsigned long processes_allowed(void)
{
    unsigned long count = RUN_PROCESSES_MOST;
    glob_t tasks;
    struct stat about;
    if (glob("/proc/[0-9]*/task", GLOB_NOSORT, NULL, &tasks)) return count;
    for (size_t i = 0; i < tasks.gl_pathc; i++)
        if (stat(tasks.gl_pathv[i], &about) == 0 && about.st_uid == geteuid()) count += about.st_nlink;
    globfree(&tasks);
    return count;
}

int processes_below(pid_t pid, pid_t *list, int count, int most)
{
    char pattern[64];
    int child, first = count;
    glob_t threads;
    snprintf(pattern, sizeof pattern, "/proc/%d/task/*/children", (int)pid);
    if (glob(pattern, GLOB_NOSORT, NULL, &threads)) return count;
    for (size_t i = 0; i < threads.gl_pathc; i++) {
        FILE *f = fopen(threads.gl_pathv[i], "re");
        for (; f && fscanf(f, "%d", &child) == 1; count++)
            if (count < most) list[count] = child;
        if (f) fclose(f);
    }
    globfree(&threads);
    for (int i = first, end = count < most ? count : most; i < end; i++)
        count = processes_below(list[i], list, count, most);
    return count;
}

/* Stops all before it kills one: what is stopped starts no other, and keeps its place among the processes
 * that the user may have, so that at some point no new one can come. */
void landlock_kill(const Keeper *k)
{
    static pid_t list[4096];
    int count = 0;
    for (int before = -1, rounds = 0; rounds < 1000 && count != before; rounds++) {
        before = count;
        count = processes_below(getpid(), list, 0, COUNT(list));
        for (int i = 0; i < count && i < COUNT(list); i++) kill(list[i], SIGSTOP);
    }
    for (int rounds = 0; rounds < 10000; rounds++) {
        pid_t killer = k->user >= 0 ? fork() : -1; /* all of the user's at once */
        if (killer == 0) {
            if (become(k->user)) kill(-1, SIGKILL);
            _exit(0);
        }
        if (killer > 0) waitpid(killer, NULL, 0);          /* or it would be the child that is left */
        count = processes_below(getpid(), list, 0, COUNT(list));
        for (int i = 0; i < count && i < COUNT(list); i++) kill(list[i], SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD) return;
        usleep(1000);
    }
}

/* ---- the private folder ---- */

/* Where programs may be started from, which /tmp and /dev/shm forbid on some machines. */
Status landlock_find_place(Keeper *k)
{
    const char *folders[] = { getenv("TMPDIR"), "/tmp", "/dev/shm", k->in.folder };
    k->abi = (int)syscall(LANDLOCK_CREATE, NULL, 0, 1);
    if (k->abi < 1)
        return fail(BAD_OPTION, "Landlock is not there (Linux 5.13 and later have it): %s", strerror(errno));
    for (int i = 0; i < COUNT(folders); i++) {
        struct statvfs about;
        if (!folders[i] || strlen(folders[i]) > 100 || folders[i][0] != '/' || !is_plain_path(folders[i]) ||
            statvfs(folders[i], &about) || about.f_flag & ST_NOEXEC)
            continue;
        snprintf(k->at, sizeof k->at, "%s/jotun-XXXXXX", folders[i]);
        if (mkdtemp(k->at)) return OK;
    }
    return fail(BAD_OPTION,
                "no folder for temporary files in which programs may be started; name one in TMPDIR");
}

/* PRIVATE/copy/a/b/run.sh for /a/b/run.sh, where that is copied. */
static const char *translate(const Keeper *k, char *out, const char *path, const bool *copied)
{
    for (int i = 0; i < k->in.tops; i++) {
        size_t letters = strlen(k->in.top[i]);
        bool below = !strncmp(path, k->in.top[i], letters) && (!path[letters] || path[letters] == '/');
        if (!copied[i] || !below) continue;
        snprintf(out, 1280, "%s/copy%.1000s", k->at, path);
        return out;
    }
    return path;
}

static Status make_private(Keeper *k)
{
    static const char *const written[] = { "calls", "trace", "tmp", "copy" };
    char path[1400];
    bool copied[TOPS];
    int64_t bytes = 0;
    RunOutput *r = k->output;
    if (chmod(k->at, 0711)) return fail(IO_FAILED, "%s: %s", k->at, strerror(errno));
    TRY(run_folder_make(k->at, k->at, &k->in));
    for (int i = 0; i < COUNT(written); i++) {
        snprintf(path, sizeof path, "%s/%s", k->at, written[i]);
        if (i >= 2) TRY(folder_make(path));
        if (k->user >= 0 && chown(path, (uid_t)k->user, (gid_t)k->user))
            return fail(IO_FAILED, "%s: %s", path, strerror(errno));
    }
    for (int i = 0; i < k->in.tops; i++) {
        const char *top = k->in.top[i];
        snprintf(path, sizeof path, "%s/copy%s", k->at, top);
        TRY(folder_make(path));
        copied[i] = keeper_copy(k, top, path, &bytes);
        if (!copied[i])
            snprintf(r->note, sizeof r->note,
                     "%.400s is above %d MiB, so that it was not copied and was read-only", top,
                     RUN_COPY_BYTES >> 20);
    }
    for (int i = 0; i < k->in.editeds; i++) {
        const char *at = translate(k, path, k->in.edited[i].path, copied);
        if (at != path || !keeper_write(at, k->in.edited[i].text))
            return fail(IO_FAILED, "%s is not copied", k->in.edited[i].path);
    }
    k->in.script = translate(k, k->script, k->in.script, copied);
    k->in.folder = translate(k, k->folder, k->in.folder, copied);
    snprintf(r->moved, sizeof r->moved, "%s/copy", k->at);
    return OK;
}

void landlock_build(Keeper *k)
{
    if (geteuid() == 0) k->user = free_user();
    k->processes = k->user >= 0 ? RUN_PROCESSES_MOST : processes_allowed();
    keeper_need_ok(k, make_private(k));
    make_rules(k);
}
