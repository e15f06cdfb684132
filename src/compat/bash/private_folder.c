/* The private folder of a run: recorders under the names of programs, what bash reads before the script, the
 * three files that a run writes; and copies of the working folders where they cannot be laid over. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/buffer.h"
#include "base/words.h"
#include "compat/bash/shut_in.h"

extern const unsigned char launch_prelude[], launch_recorder[];
extern const unsigned long launch_prelude_bytes, launch_recorder_bytes;

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
const char *const asked_names[] = { "hostname",    "nproc", "lscpu",  "free",      "df",
                                    "uname",       "arch",  "hostid", "getconf",   "systemd-detect-virt",
                                    "lsb_release", "lsblk", "uptime", "dmidecode", "ibv_devices",
                                    "lstopo",      "shuf",  "uuidgen", NULL };
const char *const run_files[RUN_TEXTS] = { "calls", "trace", "printed" };

bool is_python_name(const char *name)
{
    return !strncmp(name, "python", 6) && !name[6 + strspn(name + 6, "0123456789.")];
}

bool is_plain_path(const char *path)
{
    return !path[strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+@%,-")];
}

/* ---- its files ---- */

static Status put(const char *at, const char *name, const Buffer *text, mode_t mode)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", at, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    bool written = fd >= 0 && write(fd, text->text, (size_t)text->bytes) == text->bytes && !fchmod(fd, mode);
    if (fd >= 0) close(fd);
    return written ? OK : fail(IO_FAILED, "%s cannot be written: %s", path, strerror(errno));
}

/* Of other answers one has none of the programs that say what the machine has. */
static bool is_absent(const char *name, int answers)
{
    static const char names[] = "nvidia-smi rocm-smi amd-smi xpu-smi scontrol sinfo squeue sacct scancel "
                                "module ml ip ifconfig ibstat lspci kubectl nvcc";
    return answers == 2 && words_have(names, name, strlen(name));
}

static Status put_links(const char *at, const char *seen_as, const char *const *name, int answers)
{
    char path[1200], to[1200];
    for (; *name; name++) {
        snprintf(to, sizeof to, "%s/%s", seen_as, is_absent(*name, answers) ? "none" : "missing");
        snprintf(path, sizeof path, "%s/bin/%s", at, *name);
        if (symlink(to, path)) return fail(IO_FAILED, "%s cannot be made: %s", path, strerror(errno));
    }
    return OK;
}

/* What prelude.bash wants to know. Where the private folder is /.jotun the recorders cover real programs, and
 * missing files are made, so that bash has no need of functions in their place. */
static Status prelude(Buffer *b, const char *seen_as, const RunInput *in)
{
    bool covered = !strcmp(seen_as, "/.jotun"), files = false;
    for (int i = 0; i < in->lackings; i++) files |= !in->lacking[i].is_folder;
    const char *file = covered || !files || !in->answers ? "" : in->answers == 2 ? "8" : "6";
    TRY(buffer_format(b, "JOTUN_RUN=%s JOTUN_LENIENT=%s JOTUN_HOST=%s JOTUN_FILE=%s JOTUN_ANSWERS=%d JOTUN_TRACE=%s\n",
                      seen_as, in->lenient ? "1" : "", in->host ? in->host : "", file, in->answers,
                      in->untraced ? "+x" : "-x"));
    return buffer_add(b, launch_prelude, (int64_t)launch_prelude_bytes);
}

static Status put_all(Buffer *b, const char *at, const char *seen_as, const RunInput *in)
{
    char bin[1200];
    TRY(buffer_format(b, "#!%s -p\nJOTUN_RUN=%s JOTUN_ANSWERS=%d\n", in->bash, seen_as, in->answers));
    TRY(buffer_add(b, launch_recorder, (int64_t)launch_recorder_bytes));
    TRY(put(at, "missing", b, 0755));
    snprintf(bin, sizeof bin, "%s/bin", at);
    if (mkdir(bin, 0755)) return fail(IO_FAILED, "%s cannot be made: %s", bin, strerror(errno));
    TRY(put_links(at, seen_as, recorded_names, in->answers));
    if (in->answers) TRY(put_links(at, seen_as, asked_names, in->answers));
    b->bytes = 0;
    TRY(prelude(b, seen_as, in));
    TRY(put(at, "prelude", b, 0644));
    b->bytes = 0;
    TRY(buffer_format(b, "%s", in->patterns ? in->patterns : ""));
    TRY(put(at, "patterns", b, 0644));
    for (int i = 0; i < RUN_TEXTS; i++) TRY(put(at, run_files[i], &(Buffer){ 0 }, 0666));
    return OK;
}

Status run_folder_make(const char *at, const char *seen_as, const RunInput *in)
{
    Buffer text = { 0 };
    Status status = put_all(&text, at, seen_as, in);
    buffer_free(&text);
    return status;
}

/* ---- copies ---- */

static bool copy_file(const char *from, const char *to, const struct stat *about, int owner)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0) return errno == EACCES; /* what cannot be read is missing there */
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t n = out >= 0;
    for (off_t left = about->st_size; n > 0 && left > 0; left -= n) n = sendfile(out, in, NULL, (size_t)left);
    bool copied = out >= 0 && n >= 0 && !fchmod(out, about->st_mode & 0777) &&
                  (owner < 0 || !fchown(out, (uid_t)owner, (gid_t)owner));
    if (out >= 0) close(out);
    close(in);
    return copied;
}

static bool copy_entry(const FTSENT *e, const char *to, int owner)
{
    char target[1024];
    if (e->fts_info == FTS_D)
        return (!mkdir(to, 0755) || errno == EEXIST) &&
               (owner < 0 || !chown(to, (uid_t)owner, (gid_t)owner));
    if (e->fts_info == FTS_F) return copy_file(e->fts_path, to, e->fts_statp, owner);
    ssize_t n = e->fts_info == FTS_SL ? readlink(e->fts_path, target, sizeof target - 1) : -1;
    target[n > 0 ? n : 0] = 0;
    return n <= 0 || symlink(target, to) == 0;
}

/* Git's folder is not what a script reads, and often larger than everything else. */
bool keeper_copy(const Keeper *k, const char *from, const char *to, int64_t *bytes)
{
    char *roots[] = { (char *)(uintptr_t)from, NULL }, path[2300];
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    bool all = tree != NULL;
    for (FTSENT *e; all && (e = fts_read(tree));) {
        bool skipped = !strcmp(e->fts_name, ".git");
        for (int i = 0; i < k->secrets; i++) skipped |= !strcmp(e->fts_path, k->secret[i]);
        if (skipped) fts_set(tree, e, FTS_SKIP);
        if (skipped || e->fts_info == FTS_DP) continue;
        *bytes += 512 + (e->fts_info == FTS_F ? e->fts_statp->st_size : 0); /* files of no bytes count, too */
        all = *bytes <= RUN_COPY_BYTES &&
              snprintf(path, sizeof path, "%s%s", to, e->fts_path + strlen(from)) < (int)sizeof path &&
              copy_entry(e, path, k->user);
    }
    if (tree) fts_close(tree);
    return all;
}

int64_t keeper_bytes(const char *folder)
{
    char *roots[] = { (char *)(uintptr_t)folder, NULL };
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int64_t sum = 0;
    for (FTSENT *e; tree && sum <= RUN_PRIVATE_BYTES && (e = fts_read(tree));)
        if (e->fts_info != FTS_DP)
            sum += 512 + (e->fts_info == FTS_F ? (int64_t)e->fts_statp->st_blocks * 512 : 0);
    if (tree) fts_close(tree);
    return sum;
}

/* ---- secrets ---- */

static void add_secrets(Keeper *k, const char *folder, const char *const *name)
{
    char path[2048], *real;
    for (; *name; name++) {
        snprintf(path, sizeof path, "%s/%s", folder, *name);
        if (!(real = realpath(path, NULL))) continue;
        k->secret = realloc(k->secret, ((size_t)k->secrets + 1) * sizeof *k->secret);
        keeper_need(k, k->secret != NULL, "no memory");
        k->secret[k->secrets++] = real;
    }
}

/* Of the system, of the user, and where that is root of everybody, whose files root may read. */
void keeper_find_secrets(Keeper *k)
{
    static const char *const system[] = { "shadow",      "gshadow", "shadow-", "gshadow-", "sudoers",
                                          "krb5.keytab", "munge",   "ssh",     "sssd",     NULL };
    static const char *const own[] = {
        ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pgpass", ".config",
        ".git-credentials", ".npmrc", ".pypirc", ".boto", ".s3cfg", ".wandb", ".bash_history",
        ".python_history", ".cache/huggingface", ".huggingface", ".local/share/keyrings", ".mozilla",
        ".oci", ".vault-token", NULL
    };
    glob_t homes;
    add_secrets(k, "/etc", system);
    if (k->home && strlen(k->home) > 1) add_secrets(k, k->home, own);
    if (geteuid() != 0 || glob("/home/*", 0, NULL, &homes)) return;
    for (size_t i = 0; i < homes.gl_pathc; i++) add_secrets(k, homes.gl_pathv[i], own);
    globfree(&homes);
}
