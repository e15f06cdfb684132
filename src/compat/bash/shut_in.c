/* One run, from its start to what it leaves. The process that asks starts a keeper, by clone() with all
 * namespaces or with none; the keeper builds the place, starts bash in it, watches it, kills what is left,
 * and copies three files into the memory that it shares with the process that asks. */
#include "compat/bash/shut_in.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/seam.h"

extern char **environ;
enum { NAMESPACES = NAMESPACES_ALL & ~0x80 }; /* but that of time */

/* ---- what a run leaves ---- */

Status run_output_new(RunOutput **out)
{
    const int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    *out = mmap(NULL, sizeof **out, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (*out == MAP_FAILED) return *out = NULL, fail(NO_MEMORY, "no memory for what a script leaves");
    return OK;
}

void run_output_free(RunOutput *output)
{
    if (output) munmap(output, sizeof *output);
}

/* ---- becoming bash ---- */

static void limit(int what, rlim_t most)
{
    struct rlimit now;
    if (getrlimit(what, &now) == 0 && now.rlim_max < most) most = now.rlim_max;
    setrlimit(what, &(struct rlimit){ most, most });
}

static void limit_process(const Keeper *k)
{
    limit(RLIMIT_CPU, (rlim_t)k->in.seconds);
    limit(RLIMIT_FSIZE, RUN_FILE_BYTES);
    limit(RLIMIT_NOFILE, 256);
    limit(RLIMIT_CORE, 0);
    if (k->rules >= 0) limit(RLIMIT_NPROC, k->processes);
    limit(RLIMIT_AS, (rlim_t)1 << 30);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Root becomes another user where Landlock does not hide its processes, and keeps what reading other people's
 * files takes, so that it reads a script as it would outside. Everybody else has no capability. */
static bool drop_rights(const Keeper *k)
{
    const uint32_t reading = 1u << CAP_DAC_READ_SEARCH | 1u << CAP_DAC_OVERRIDE;
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    uid_t user = (uid_t)k->user;
    uint32_t kept = geteuid() == 0 ? reading : 0;
    for (int c = 0; c <= 63; c++)
        if (c > 31 || !(kept & 1u << c)) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (k->user >= 0 &&
        (syscall(SYS_setgroups, 0, NULL) || setresgid(user, user, user) || setresuid(user, user, user)))
        return false;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capget, &head, data)) return false;
    kept &= data[0].permitted;
    data[0] = (struct __user_cap_data_struct){ kept, kept, kept };
    data[1] = (struct __user_cap_data_struct){ 0, 0, 0 };
    if (syscall(SYS_capset, &head, data)) return false;
    for (int c = 0; c < 32; c++)
        if (kept & 1u << c) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0);
    return true;
}

static char **environment_of(const Keeper *k)
{
    static char own[3][1200];
    char **out = calloc((size_t)k->in.variables + 4, sizeof *out);
    if (!out) _exit(126);
    int n = 0;
    for (int i = 0; i < k->in.variables; i++)
        if (strncmp(k->in.variable[i], "BASH_ENV=", 9)) out[n++] = (char *)(uintptr_t)k->in.variable[i];
    snprintf(own[0], sizeof own[0], "BASH_ENV=%s/prelude", k->at);
    snprintf(own[1], sizeof own[1], "PATH=%s/bin:/usr/local/bin:/usr/bin:/bin", k->at);
    snprintf(own[2], sizeof own[2], "TMPDIR=%s/tmp", k->at); /* where /tmp is the machine's */
    for (int i = 0; i < (k->rules >= 0 ? 3 : 2); i++) out[n++] = own[i];
    return out;
}

static void stop_child(bool done, const char *what)
{
    if (done) return;
    dprintf(STDERR_FILENO, "jotun: %s: %s\n", what, strerror(errno));
    _exit(126);
}

static void become_bash(const Keeper *k, int printed) __attribute__((noreturn));
static void become_bash(const Keeper *k, int printed)
{
    char **argv = calloc((size_t)k->in.arguments + 3, sizeof *argv), **variables = environment_of(k);
    if (!argv) _exit(126);
    argv[0] = (char *)(uintptr_t)k->in.bash, argv[1] = (char *)(uintptr_t)k->in.script;
    for (int i = 0; i < k->in.arguments; i++) argv[2 + i] = (char *)(uintptr_t)k->in.argument[i];
    setsid();
    umask(022);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(printed, 1) < 0 || dup2(printed, 2) < 0) _exit(126);
    for (int fd = 3; fd < 1024; fd++)
        if (fd != k->rules) close(fd);
    stop_child(chdir(k->in.folder) == 0, k->in.folder);
    limit_process(k);
    stop_child(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    stop_child(drop_rights(k), "capabilities");
    stop_child(k->rules < 0 || landlock_enter(k), "Landlock");
    bool kills = k->rules < 0 || k->abi >= 6 || k->user >= 0; /* else they reach the user's other processes */
    stop_child(keeper_forbid_calls(k->rules >= 0, kills), "seccomp");
    execve(k->in.bash, argv, variables);
    stop_child(false, k->in.bash);
    _exit(126);
}

/* ---- the keeper's watch ---- */

/* Memory that a process does not share with files, in MiB. */
static int64_t private_memory(pid_t pid)
{
    char path[64];
    long long resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "re");
    int n = f ? fscanf(f, "%*d %lld %lld", &resident, &shared) : 0;
    if (f) fclose(f);
    return n == 2 ? (resident - shared) * (sysconf(_SC_PAGESIZE) >> 10) >> 10 : 0;
}

/* The limit that the run exceeds. What it writes is bounded by the size of a tmpfs in namespaces. */
static RunEnd limit_exceeded(const Keeper *k, int64_t began, int rounds)
{
    static pid_t list[4 * RUN_PROCESSES_MOST];
    int count = processes_below(getpid(), list, 0, COUNT(list));
    int64_t memory = 0;
    for (int i = 0; i < count && count <= RUN_PROCESSES_MOST; i++) memory += private_memory(list[i]);
    if (count > RUN_PROCESSES_MOST) return END_PROCESSES;
    if (memory > RUN_MEMORY_MIB) return END_MEMORY;
    if (seam_seconds_since(began) > k->in.seconds) return END_TIME;
    bool disk = k->rules >= 0 && rounds % 16 == 15 && keeper_bytes(k->at) > RUN_PRIVATE_BYTES;
    return disk ? END_DISK : END_NORMALLY;
}

/* Looks every 10 ms, and at once when a process ends. After bash has ended, what it left in the background
 * gets half a second: a program that it starts there must be recorded. */
static RunEnd watch(const Keeper *k, pid_t bash)
{
    int64_t began = seam.clock(), ended = 0;
    RunEnd end = END_NORMALLY;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM); /* the process that asks has ended, or waits no longer */
    sigprocmask(SIG_BLOCK, &signals, NULL);
    for (int rounds = 0; end == END_NORMALLY; rounds++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            if (pid == bash) ended = seam.clock();
        if (pid < 0 && errno == ECHILD) break;
        if (ended && (!processes_below(getpid(), &pid, 0, 1) || seam_seconds_since(ended) > 0.5)) break;
        end = limit_exceeded(k, began, rounds);
        if (sigtimedwait(&signals, NULL, &(struct timespec){ 0, 10000000 }) == SIGTERM) end = END_TIME;
    }
    return end;
}

/* ---- the keeper ---- */

/* Others could read the environment in /proc, which is closed to them as well. */
static void forget_environment(void)
{
    for (char **v = environ; v && *v; v++) memset(*v, 0, strlen(*v));
    static char *none[] = { NULL };
    environ = none;
    prctl(PR_SET_DUMPABLE, 0);
}

bool keeper_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool whole = fd >= 0 && file_write(fd, path, text, strlen(text), 0) == OK;
    if (fd >= 0) close(fd);
    return whole;
}

static void keep(Keeper *k, bool in_namespaces) __attribute__((noreturn));
static void keep(Keeper *k, bool in_namespaces)
{
    RunOutput *r = k->output;
    char path[300];
    int file[RUN_TEXTS];
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, in_namespaces ? SIGKILL : SIGTERM, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (int rounds = 0; !r->go && rounds < 100000; rounds++) usleep(100);
    setsid();
    keeper_find_secrets(k);
    if (in_namespaces) namespaces_build(k);
    else landlock_build(k);
    const char *children = "/proc/thread-self/children"; /* by which limits and the end find all of the run */
    keeper_need(k, access(children, F_OK) == 0, children);
    forget_environment();
    for (int i = 0; i < RUN_TEXTS; i++) {
        snprintf(path, sizeof path, "%s/%s", k->at, run_files[i]);
        file[i] = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
        keeper_need(k, file[i] >= 0, path);
    }
    r->started = true;
    for (int i = 0; i < k->in.answers; i++) { /* other numbers of processes */
        pid_t none = fork();
        if (none == 0) _exit(0);
        if (none > 0) waitpid(none, NULL, 0);
    }
    pid_t bash = fork();
    if (bash == 0) become_bash(k, file[RUN_PRINTED]);
    keeper_need(k, bash > 0, "no process for bash");
    r->end = watch(k, bash);
    if (in_namespaces) kill(-1, SIGKILL);
    else landlock_kill(k);
    for (int i = 0; i < RUN_TEXTS; i++)
        for (ssize_t n = 1; n > 0 && r->bytes[i] < RUN_FILE_BYTES; r->bytes[i] += n > 0 ? n : 0)
            n = pread(file[i], r->text[i] + r->bytes[i], (size_t)(RUN_FILE_BYTES - r->bytes[i]), r->bytes[i]);
    r->done = true;
    if (!in_namespaces && getppid() != parent) (void)folder_remove(k->at); /* which it cannot do any more */
    _exit(0);
}

/* ---- the process that asks ---- */

static Status start(Keeper *k, unsigned long namespaces)
{
    RunOutput *r = k->output;
    fflush(NULL);
    memset(r, 0, offsetof(RunOutput, text));
    pid_t keeper = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
    if (keeper == 0) keep(k, namespaces != 0);
    if (keeper < 0) return fail(BAD_OPTION, "clone: %s", strerror(errno));
    bool mapped = !(namespaces & CLONE_NEWUSER) || namespaces_map_users(keeper), ended = false;
    if (!mapped) snprintf(r->why, sizeof r->why, "the maps of users: %s", strerror(errno));
    r->go = mapped;
    int64_t began = seam.clock(); /* the keeper ends the run; 20 s more are for its own failure */
    while (mapped && !ended && seam_seconds_since(began) < k->in.seconds + 20) {
        if (!r->started) began = seam.clock(); /* copies of folders take their time */
        ended = waitpid(keeper, NULL, WNOHANG) == keeper;
        if (!ended) usleep(1000);
    }
    if (!ended) kill(keeper, namespaces ? SIGKILL : SIGTERM), waitpid(keeper, NULL, 0);
    if (r->done) return OK;
    return fail(BAD_OPTION, "%s", *r->why ? r->why : "the keeper of the run has ended or does not answer");
}

Status run_shut_in(RunOutput *out, const RunInput *in, LaunchWay way)
{
    const struct passwd *user = getpwuid(geteuid()); /* which may need the network */
    Keeper k = { .in = *in, .output = out, .home = user ? user->pw_dir : NULL, .rules = -1, .user = -1 };
    k.copies = way == LAUNCH_COPIES;
    if (way != LAUNCH_LANDLOCK) {
        Status status = start(&k, NAMESPACES);
        if (status == OK || geteuid() != 0) return status;
        return start(&k, NAMESPACES & ~CLONE_NEWUSER); /* which root does not need for the others */
    }
    TRY(landlock_find_place(&k));
    Failure failure = { 0 };
    failure_keep(&failure, start(&k, 0));
    failure_keep(&failure, folder_remove(k.at));
    return failure_report(&failure);
}
