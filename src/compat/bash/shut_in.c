/* What both ways of shutting bash in share: the private folder, the system calls that are refused, the
 * limits, the keeper's watch, and how the texts of a run come to the process that waits for them. */
#include "compat/bash/shut_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
extern const unsigned char launch_prelude[];
extern const unsigned long launch_prelude_bytes;

const char *const recorded_names[] = {
    "python", "python2", "python3", "ipython", "torchrun", "deepspeed", "accelerate", "horovodrun", "ray",
    "srun", "sbatch", "salloc", "qsub", "bsub", "mpirun", "mpiexec", "mpiexec.hydra", "mpiexec.slurm",
    "mpirun_rsh", "orterun", "prterun", "prun", "jsrun", "lrun", "aprun", "ibrun", "flux", "singularity",
    "apptainer", "docker", "podman", "nerdctl", "enroot", "sarus", "shifter", "udocker", "ch-run", "uv",
    "poetry", "conda", "mamba", "micromamba", "pip", "pip3", "sudo", "nsys", "ncu", "rocprof", "rocprofv3",
    "numactl", "ssh", "pdsh", "clush", "scp", "rsync", "curl", "wget", "aria2c", "sh", "sleep", "scontrol",
    "sinfo", "squeue", "sacct", "scancel", "module", "ml", "nvidia-smi", "rocm-smi", "amd-smi", "xpu-smi",
    "ip", "ifconfig", "ibstat", "lspci", "aws", "gsutil", "azcopy", "kubectl", "wandb", "huggingface-cli",
    "nvcc", NULL
};
const char *const asked_names[] = { "hostname", "nproc", "lscpu",  "free", "df",
                                    "uname",    "arch",  "hostid", NULL };

/* ---- the private folder ---- */

static Status put(const char *at, const char *name, const void *data, size_t bytes, mode_t mode)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", at, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    bool written = fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes;
    if (fd >= 0) fchmod(fd, mode), close(fd);
    return written ? OK : fail(IO_FAILED, "%s cannot be written: %s", path, strerror(errno));
}

/* A recorder is a file of one line: the kernel starts the program that the line names, with the file's path.
 */
static Status put_recorders(const char *at, const char *seen_as, const char *program, int answers)
{
    char line[256], path[1200], digit = (char)('0' + answers);
    int bytes = snprintf(line, sizeof line, "#!%s --record-call=%s\n", program, seen_as);
    if (bytes >= (int)sizeof line - 2)
        return fail(BAD_OPTION,
                    "%s and %s are too long paths for the first line of a script, which has 255 bytes",
                    program, seen_as);
    TRY(put(at, "missing", line, (size_t)bytes, 0755));
    TRY(put(at, "answers", &digit, 1, 0644));
    snprintf(path, sizeof path, "%s/bin", at);
    if (mkdir(path, 0755)) return fail(IO_FAILED, "%s cannot be made: %s", path, strerror(errno));
    for (int set = 0; set < 1 + (answers > 0); set++)
        for (const char *const *name = set ? asked_names : recorded_names; *name; name++) {
            snprintf(path, sizeof path, "%s/bin/%s", at, *name);
            if (symlink("../missing", path) && errno != EEXIST)
                return fail(IO_FAILED, "%s cannot be made: %s", path, strerror(errno));
        }
    return OK;
}

static bool is_plain_path(const char *path)
{
    return path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+@%,-")] == 0;
}

/* Where recorders cannot cover programs, and missing files cannot be made, functions of their names stand in
 * their place. */
static Status put_prelude(const char *at, const char *seen_as, const RunInput *in)
{
    Buffer text = { 0 };
    bool covered = !strcmp(seen_as, "/.jotun"); /* by recorders, which Landlock cannot do */
    Status status = buffer_format(&text, "JOTUN_RUN=%s JOTUN_LENIENT=%s JOTUN_EXEC=%s\n", seen_as,
                                  in->lenient ? "1" : "", covered ? "" : "1");
    if (status == OK) status = buffer_add(&text, launch_prelude, (int64_t)launch_prelude_bytes);
    if (status == OK && in->host) /* after which the trace is on */
        status = buffer_format(&text, "HOSTNAME=%s\n", in->host);
    for (const char *const *name = recorded_names; !covered && *name && status == OK; name++)
        for (int i = 0; i < 3 && status == OK; i++) {
            static const char *const folders[] = { "/usr/bin", "/usr/local/bin", "/bin" };
            if (strcmp(*name, "sh") && strcmp(*name, "sleep"))
                status = buffer_format(&text, "function %s/%s { %s/bin/%s \"$@\"; }\n", folders[i], *name,
                                       seen_as, *name);
        }
    for (int i = 0; status == OK && i < in->lackings; i++) {
        const Lacking *l = &in->lacking[i];
        if (l->kind != LACKING_PROGRAM || !is_plain_path(l->path)) continue;
        status = buffer_format(&text, "[ -e %s ] || function %s { %s/bin/%s \"$@\"; }\n", l->path, l->path,
                               seen_as, path_leaf(l->path, strlen(l->path)));
    }
    bool files = false;
    for (int i = 0; i < in->lackings; i++) files |= in->lacking[i].kind == LACKING_FILE;
    static const char *const readers[] = { "cat", "head", "tail", "jq", "wc", "sed", "awk" };
    for (size_t i = 0; files && !covered && status == OK && i < COUNT(readers); i++)
        status = buffer_format(&text, "%s() { command %s \"$@\" || echo %d; }\n", readers[i], readers[i],
                               in->answers == 2 ? 8 : 6);
    if (status == OK) status = put(at, "prelude", text.text, (size_t)text.bytes, 0644);
    buffer_free(&text);
    return status;
}

Status run_folder_make(const char *at, const char *seen_as, const char *program, const RunInput *in)
{
    TRY(put_recorders(at, seen_as, program, in->answers));
    TRY(put_prelude(at, seen_as, in));
    TRY(put(at, "calls", "", 0, 0666));
    TRY(put(at, "trace", "", 0, 0666));
    return put(at, "printed", "", 0, 0666);
}

static int open_file(const char *at, const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", at, name);
    return open(path, O_RDWR | O_APPEND | O_CLOEXEC);
}

Status run_files_open(RunFiles *f, const char *at)
{
    *f = (RunFiles){ open_file(at, "calls"), open_file(at, "trace"), open_file(at, "printed") };
    if (f->calls >= 0 && f->trace >= 0 && f->printed >= 0) return OK;
    return fail(IO_FAILED, "the files in %s cannot be opened: %s", at, strerror(errno));
}

static bool copy_file(const char *from, const char *to, const struct stat *about, int64_t *bytes, int owner)
{
    char buffer[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t n = in >= 0 && out >= 0 ? 1 : -1;
    while (n > 0 && (n = read(in, buffer, sizeof buffer)) > 0)
        if ((*bytes += n) > RUN_COPY_BYTES || write(out, buffer, (size_t)n) != n) n = -1;
    if (out >= 0) {
        fchmod(out, about->st_mode & 0777);
        if (owner >= 0 && fchown(out, (uid_t)owner, (gid_t)owner)) n = -1;
        close(out);
    }
    if (in >= 0) close(in);
    return n == 0 || (n < 0 && in < 0 && errno == EACCES); /* what cannot be read is missing there */
}

static bool copy_entry(const char *from, const char *to, int64_t *bytes, int owner)
{
    struct stat about;
    char target[1024];
    if (lstat(from, &about)) return true;
    if (S_ISDIR(about.st_mode)) return run_copy_folder(from, to, bytes, owner);
    if (S_ISREG(about.st_mode)) return copy_file(from, to, &about, bytes, owner);
    ssize_t n = S_ISLNK(about.st_mode) ? readlink(from, target, sizeof target - 1) : -1;
    if (n <= 0) return true;
    target[n] = 0;
    return symlink(target, to) == 0;
}

/* Git's folder is not what a script reads, and often larger than everything else. */
bool run_copy_folder(const char *from, const char *to, int64_t *bytes, int owner)
{
    char source[2048], target[2048];
    if (mkdir(to, 0755) && errno != EEXIST) return false;
    if (owner >= 0 && chown(to, (uid_t)owner, (gid_t)owner)) return false;
    DIR *folder = opendir(from);
    bool all = true;
    *bytes += 1024; /* so that the number of files is bounded as well */
    for (struct dirent *e; folder && all && (e = readdir(folder));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, ".git")) continue;
        bool fits = snprintf(source, sizeof source, "%s/%s", from, e->d_name) < (int)sizeof source &&
                    snprintf(target, sizeof target, "%s/%s", to, e->d_name) < (int)sizeof target;
        *bytes += 512;
        all = fits && *bytes <= RUN_COPY_BYTES && copy_entry(source, target, bytes, owner);
    }
    if (folder) closedir(folder);
    return all;
}

/* ---- secrets ---- */

bool run_is_secret(const char *path, const char *home)
{
    static const char *const files[] = {
        "/etc/shadow",      "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers",
        "/etc/krb5.keytab", "/etc/munge",   "/etc/ssh",     "/etc/sssd",     NULL
    };
    static const char *const beneath[] = {
        ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pgpass", ".config",
        ".git-credentials", ".npmrc", ".pypirc", ".boto", ".s3cfg", ".wandb", ".bash_history",
        ".python_history", ".cache/huggingface", ".huggingface", ".local/share/keyrings", ".mozilla",
        ".oci", ".vault-token", NULL
    };
    for (const char *const *f = files; *f; f++)
        if (!strcmp(path, *f)) return true;
    size_t letters = strlen(home);
    if (letters < 2 || strncmp(path, home, letters) || path[letters] != '/') return false;
    for (const char *const *f = beneath; *f; f++)
        if (!strcmp(path + letters + 1, *f)) return true;
    return false;
}

void run_forget_environment(void)
{
    for (char **v = environ; v && *v; v++) memset(*v, 0, strlen(*v));
    static char *none[] = { NULL };
    environ = none;
    prctl(PR_SET_DUMPABLE, 0); /* closes /proc/PID to everybody else */
}

/* ---- system calls ---- */

#if defined(__x86_64__)
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#elif defined(__riscv) && __riscv_xlen == 64
enum { ARCHITECTURE = AUDIT_ARCH_RISCV64 };
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { ARCHITECTURE = AUDIT_ARCH_PPC64LE };
#else
enum { ARCHITECTURE = 0 }; /* no filter can be written: nothing is run */
#endif

/* Numbers that all of these machines share, and older headers lack. */
enum {
    IO_URING_SETUP = 425,
    IO_URING_ENTER,
    IO_URING_REGISTER,
    OPEN_TREE = 428,
    MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK,
    PIDFD_SEND_SIGNAL = 424,
    CLONE3 = 435,
    PIDFD_GETFD = 438,
    PROCESS_MADVISE = 440,
    MOUNT_SETATTR = 442,
    MEMFD_SECRET = 447,
    FCHMODAT2 = 452,
    SETXATTRAT = 463,
    REMOVEXATTRAT = 466
};

/* Sockets by path reach daemons past every namespace and past Landlock; the others have had holes, or act on
 * what lies outside the run. */
static const int refused[] = {
    SYS_socket, SYS_socketpair, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_mount,
    SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_bpf, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_perf_event_open, SYS_userfaultfd, SYS_shmget, SYS_msgget, SYS_semget, SYS_mq_open,
    SYS_quotactl, SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_swapon, SYS_swapoff, SYS_acct, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime,
    SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_personality, SYS_name_to_handle_at,
    SYS_open_by_handle_at, SYS_fanotify_init, SYS_lookup_dcookie, SYS_vhangup, IO_URING_SETUP,
    IO_URING_ENTER, IO_URING_REGISTER, OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK,
    PIDFD_GETFD, PROCESS_MADVISE, MOUNT_SETATTR, MEMFD_SECRET,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};
/* Landlock does not see these. They report success, since `touch` and `cp` end with a failure otherwise. */
static const int pretended[] = {
    SYS_fchmod, SYS_fchmodat, FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr,
    SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SETXATTRAT,
    REMOVEXATTRAT, SYS_setpriority, SYS_ioprio_set, SYS_sched_setaffinity, SYS_sched_setscheduler,
    SYS_sched_setparam, SYS_sched_setattr,
#ifdef SYS_chmod
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
};
enum { REFUSED = COUNT(refused), PRETENDED = COUNT(pretended) };

/* kills: signals may be sent, because nothing outside can be reached by them. */
static bool forbid_system_calls(bool pretend, bool kills)
{
    enum { MOST = 2 * (REFUSED + PRETENDED) + 50 };
    struct sock_filter code[MOST];
    int n = 0;
    const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM, succeed = SECCOMP_RET_ERRNO | 0,
                   lacking = SECCOMP_RET_ERRNO | ENOSYS;
    const uint32_t namespaces =
        0x7e020000 | 0x80; /* CLONE_NEW*: user, mount, pid, net, ipc, uts, cgroup, time */
#define ADD(...) code[n++] = (struct sock_filter)__VA_ARGS__
#define IF_CALL(number, answer)                                                                              \
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(number), 0, 1)), ADD(BPF_STMT(BPF_RET | BPF_K, answer))
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
#if defined(__x86_64__)
    ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1)); /* x32: the same calls under other numbers */
    ADD(BPF_STMT(BPF_RET | BPF_K, lacking));
#endif
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLONE3, 0,
                 1)); /* its flags are in memory; libraries then use clone */
    ADD(BPF_STMT(BPF_RET | BPF_K, lacking));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])));
    ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, namespaces, 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, refuse));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 4)); /* of this process only */
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
    ADD(BPF_STMT(BPF_RET | BPF_K, refuse));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0,
                 5)); /* TIOCSTI and TIOCLINUX type into a terminal */
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x5412, 1, 0));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x541c, 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, refuse));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    for (int i = 0; i < REFUSED; i++) IF_CALL(refused[i], refuse);
    static const int signals[] = { SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
                                   PIDFD_SEND_SIGNAL };
    for (size_t i = 0; !kills && i < COUNT(signals); i++) IF_CALL(signals[i], refuse);
    for (int i = 0; pretend && i < PRETENDED; i++) IF_CALL(pretended[i], succeed);
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
#undef ADD
#undef IF_CALL
    CHECK(n <= MOST, "a filter of %d steps", n);
    struct sock_fprog program = { (unsigned short)n, code };
    return ARCHITECTURE != 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* ---- becoming bash ---- */

static void limit(int what, rlim_t most)
{
    struct rlimit now;
    if (getrlimit(what, &now) == 0 && now.rlim_max < most) most = now.rlim_max;
    setrlimit(what, &(struct rlimit){ most, most });
}

static void limit_process(const RunInput *in)
{
    limit(RLIMIT_CPU, (rlim_t)in->seconds);
    limit(RLIMIT_FSIZE, RUN_FILE_BYTES);
    limit(RLIMIT_NOFILE, RUN_OPEN_FILES);
    limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__) /* which maps terabytes, also in the recorder */
    limit(RLIMIT_AS, (rlim_t)1 << 30);
#endif
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The private folder replaces /tmp where the way has no /tmp of its own. */
static char **environment_of(const RunInput *in, const char *at, bool own_tmp)
{
    static char run[1100], path[1200], tmp[1100];
    char **out = calloc((size_t)in->variables + 5, sizeof *out);
    if (!out) _exit(126);
    int n = 0;
    snprintf(run, sizeof run, "BASH_ENV=%s/prelude", at);
    snprintf(path, sizeof path, "PATH=%s/bin:/usr/local/bin:/usr/bin:/bin", at);
    for (int i = 0; i < in->variables; i++)
        if (strncmp(in->variable[i], "BASH_ENV=", 9)) out[n++] = (char *)(uintptr_t)in->variable[i];
    out[n++] = run, out[n++] = path;
    snprintf(tmp, sizeof tmp, "TMPDIR=%s/tmp", at);
    if (own_tmp) out[n++] = tmp;
    return out;
}

static void stop_child(const char *what)
{
    dprintf(STDERR_FILENO, "jotun: %s: %s\n", what, strerror(errno));
    _exit(126);
}

void run_become_bash(const RunInput *in, const RunFiles *files, const char *at, int rules,
                     bool (*confine)(void *), void *context)
{
    char **argv = calloc((size_t)in->arguments + 3, sizeof *argv),
         **variables = environment_of(in, at, rules >= 0);
    if (!argv) _exit(126);
    argv[0] = (char *)(uintptr_t)in->bash, argv[1] = (char *)(uintptr_t)in->script;
    for (int i = 0; i < in->arguments; i++) argv[2 + i] = (char *)(uintptr_t)in->argument[i];
    setsid();
    umask(022);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(files->printed, 1) < 0 || dup2(files->printed, 2) < 0)
        _exit(126);
    for (int fd = 3; fd < 1024; fd++)
        if (fd != rules) close(fd);
    if (chdir(in->folder)) stop_child(in->folder);
    limit_process(in);
    bool kills = true;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) stop_child("no_new_privs");
    if (confine) kills = confine(context);
    if (!forbid_system_calls(rules >= 0, kills)) stop_child("seccomp");
    execve(in->bash, argv, variables);
    stop_child(in->bash);
    _exit(126);
}

/* ---- the keeper's watch ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Memory that a process does not share with files, in MiB. */
static int64_t private_memory(pid_t pid)
{
    char path[64];
    long long total, resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    int n = fscanf(f, "%lld %lld %lld", &total, &resident, &shared);
    fclose(f);
    return n == 3 ? (resident - shared) * (sysconf(_SC_PAGESIZE) >> 10) >> 10 : 0;
}

static bool exceeds(const Watch *w, double began, int rounds, RunEnd *end)
{
    static pid_t list[4 * RUN_PROCESSES_MOST];
    int count = w->processes(w->context, list, 4 * RUN_PROCESSES_MOST);
    int64_t memory = 0;
    for (int i = 0; i < count && count <= RUN_PROCESSES_MOST; i++) memory += private_memory(list[i]);
    *end = count > RUN_PROCESSES_MOST   ? END_PROCESSES
           : memory > RUN_MEMORY_MIB    ? END_MEMORY
           : now() - began > w->seconds ? END_TIME
           : rounds % 16 == 15 && w->private_bytes && w->private_bytes(w->context) > RUN_PRIVATE_BYTES
               ? END_DISK
               : END_NORMALLY;
    return *end != END_NORMALLY;
}

/* Looks every 10 ms, and at once when a process ends. After bash has ended, what it left in the background
 * gets half a second: a program that it starts there must be recorded. */
RunEnd run_watch(const Watch *w, int *status)
{
    double began = now(), ended = 0;
    RunEnd end = END_NORMALLY;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigaddset(&child, SIGTERM);                         /* the process that waits for the report has ended */
    sigprocmask(SIG_BLOCK, &child, NULL);
    *status = -1;
    for (int rounds = 0;; rounds++) {
        int how;
        pid_t pid;
        while ((pid = waitpid(-1, &how, WNOHANG)) > 0)
            if (pid == w->bash)
                *status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how), ended = now();
        if (pid < 0 && errno == ECHILD) break;
        if (ended > 0 && (w->processes(w->context, &pid, 1) == 0 || now() - ended > 0.5)) break;
        if (exceeds(w, began, rounds, &end)) break;
        if (sigtimedwait(&child, NULL, &(struct timespec){ 0, 10000000 }) == SIGTERM) return END_TIME;
    }
    return end;
}

/* ---- the report ---- */

typedef struct {
    uint32_t magic;
    int32_t end, status;
    char note[512];
    int64_t bytes[3];
} Report;
enum { REPORT = 0x4a6f7475, FAILURE = 0x4661696c };

static void send_bytes(int pipe, const void *data, size_t bytes)
{
    for (const char *p = data; bytes > 0;) {
        ssize_t n = write(pipe, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(125);
        p += n, bytes -= (size_t)n;
    }
}

void run_report(int pipe, RunEnd end, int status, const char *note, const RunFiles *files)
{
    const int fd[3] = { files->calls, files->trace, files->printed };
    Report r = { .magic = REPORT, .end = end, .status = status };
    struct stat about;
    char data[65536];
    snprintf(r.note, sizeof r.note, "%s", note);
    for (int i = 0; i < 3; i++) {
        r.bytes[i] = fstat(fd[i], &about) == 0 ? about.st_size : 0;
        if (r.bytes[i] > RUN_FILE_BYTES) r.bytes[i] = RUN_FILE_BYTES;
    }
    send_bytes(pipe, &r, sizeof r);
    for (int i = 0; i < 3; i++)
        for (int64_t at = 0; at < r.bytes[i];) {
            int64_t left = r.bytes[i] - at;
            ssize_t n = pread(fd[i], data, left < (int64_t)sizeof data ? (size_t)left : sizeof data, at);
            if (n <= 0) _exit(125);
            send_bytes(pipe, data, (size_t)n);
            at += n;
        }
}

void run_report_failure(int pipe, const char *what)
{
    Report r = { .magic = FAILURE };
    snprintf(r.note, sizeof r.note, "%s: %s", what, strerror(errno));
    send_bytes(pipe, &r, sizeof r);
    _exit(125);
}

static Status receive_bytes(int pipe, void *data, int64_t bytes, double until)
{
    for (char *p = data; bytes > 0;) {
        struct pollfd ready = { .fd = pipe, .events = POLLIN };
        int left = (int)((until - now()) * 1000);
        int some = poll(&ready, 1, left > 0 ? left : 0);
        if (some < 0 && errno == EINTR) continue;
        ssize_t n = some > 0 ? read(pipe, p, (size_t)bytes) : -1;
        if (n <= 0)
            return fail(BAD_OPTION,
                        n == 0 ? "the first process has ended" : "the first process does not answer");
        p += n, bytes -= n;
    }
    return OK;
}

Status run_receive(RunResult *out, int pipe, int seconds)
{
    Report r;
    Buffer *part[3] = { &out->calls, &out->trace, &out->printed };
    double until = now() + seconds + 20; /* the keeper ends the run; this is for its own failure */
    TRY(receive_bytes(pipe, &r, sizeof r, until));
    r.note[sizeof r.note - 1] = 0;
    if (r.magic != REPORT) return fail(BAD_OPTION, "%s", r.note);
    out->end = (RunEnd)r.end, out->status = r.status;
    memcpy(out->note, r.note, sizeof out->note);
    for (int i = 0; i < 3; i++) {
        TRY(buffer_reserve(part[i], r.bytes[i] + 1));
        TRY(receive_bytes(pipe, part[i]->text, r.bytes[i], until));
        part[i]->bytes = r.bytes[i];
        part[i]->text[r.bytes[i]] = 0;
    }
    return OK;
}

void run_free(RunResult *r)
{
    buffer_free(&r->calls);
    buffer_free(&r->trace);
    buffer_free(&r->printed);
}
