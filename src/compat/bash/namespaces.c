/* The place of a run in namespaces. The keeper is their first process, which makes, in this order: a new root
 * on a tmpfs, the machine's folders below it read-only, /proc and /dev of its own, overlays on the working
 * folders, the private folder, covers over secrets and programs. When the keeper ends, the kernel ends all
 * others.
 *
 * The tmpfs is mounted on /sys, which no script needs; overlays and copies lie beside the new root in it. */
#include "compat/bash/shut_in.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/array.h"

#define PRIVATE "/.jotun"  /* the private folder as the script sees it */
#define BASE "/sys"        /* the tmpfs */
#define NEW BASE "/new"    /* the root to be */

enum { PLAIN = MS_NOSUID | MS_NODEV };

/* "root/path", with its folders made as far as they are missing. */
static const char *place(char out[1100], const char *root, const char *path, bool folder)
{
    int letters = snprintf(out, 1100, "%s%s", root, path);
    if (letters >= 1100) return out;
    for (char *c = out + strlen(root) + 1; *c; c++)
        if (*c == '/') *c = 0, mkdir(out, 0755), *c = '/';
    if (folder) mkdir(out, 0755);
    return out;
}

static bool bind(const char *from, const char *to, unsigned long more)
{
    return mount(from, to, NULL, MS_BIND | more, NULL) == 0;
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) close(fd);
}

/* ---- the root ---- */

/* What is in the machine's root, but for the folders that get others here. */
static void make_root(Keeper *k)
{
    static const char others[] = "/./../proc/sys/dev/tmp/run/lost+found/";
    char size[64], name[300], to[300], target[1024];
    snprintf(size, sizeof size, "mode=0755,size=%d,nr_inodes=40000", RUN_PRIVATE_BYTES);
    keeper_need(k, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mounts cannot be made private");
    keeper_need(k, mount("tmpfs", BASE, "tmpfs", PLAIN, size) == 0, "a tmpfs on " BASE);
    keeper_need(k, mkdir(NEW, 0755) == 0 && bind(NEW, NEW, 0), "a new root");
    DIR *root = opendir("/");
    keeper_need(k, root != NULL, "the root cannot be read");
    for (struct dirent *e; (e = readdir(root));) {
        struct stat about;
        snprintf(name, sizeof name, "/%s/", e->d_name);
        if (strstr(others, name)) continue;
        name[strlen(name) - 1] = 0;
        snprintf(to, sizeof to, NEW "%.255s", name);
        if (lstat(name, &about)) continue;
        ssize_t n = S_ISLNK(about.st_mode) ? readlink(name, target, sizeof target - 1) : 0;
        if (n > 0) target[n] = 0, (void)!symlink(target, to);
        else if (S_ISDIR(about.st_mode) && mkdir(to, 0755) == 0) keeper_need(k, bind(name, to, MS_REC), name);
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
    for (int i = 0; i < COUNT(names); i++) {
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

/* Every mount of a folder and below it becomes read-only. One that this user cannot even reach may stay. */
static void make_read_only(Keeper *k, const char *folder)
{
    char line[8192], path[4096], options[1024];
    FILE *list = fopen("/proc/self/mountinfo", "re");
    keeper_need(k, list != NULL, "/proc/self/mountinfo");
    while (fgets(line, sizeof line, list)) {
        if (sscanf(line, "%*s %*s %*s %*s %4095s %1023s", path, options) != 2) continue;
        unescape(path);
        size_t n = strlen(folder);
        bool below = !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
        if (!below || !strcmp(path, NEW)) continue;
        unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN | locked_flags(options);
        keeper_need(k, mount(NULL, path, NULL, flags, NULL) == 0 || errno == EACCES || errno == ENOENT, path);
    }
    fclose(list);
}

static void mount_system(Keeper *k)
{
    static const char *const folders[] = { "proc", "dev", "tmp", "run", "sys", "dev/shm" };
    static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                           "/dev/urandom" };
    static const char *const links[][2] = { { "/proc/self/fd", NEW "/dev/fd" },
                                            { "fd/0", NEW "/dev/stdin" },
                                            { "fd/1", NEW "/dev/stdout" },
                                            { "fd/2", NEW "/dev/stderr" } };
    char to[1100];
    for (int i = 0; i < COUNT(folders); i++) {
        snprintf(to, sizeof to, NEW "/%s", folders[i]);
        keeper_need(k, mkdir(to, i == 2 || i == 5 ? 01777 : 0755) == 0, to);
    }
    keeper_need(k, mount("proc", NEW "/proc", "proc", PLAIN | MS_NOEXEC, NULL) == 0, "a /proc of its own");
    for (int i = 0; i < COUNT(devices); i++) {
        make_file(place(to, NEW, devices[i], false));
        keeper_need(k, bind(devices[i], to, 0), to);
    }
    for (int i = 0; i < COUNT(links); i++) (void)!symlink(links[i][0], links[i][1]);
    /* Of this namespace since Linux 6.14, before that the whole machine's. Most other settings still are, and
     * root may write them: from here on /proc is read-only. */
    struct utsname kernel;
    int major, minor;
    bool own_pids = uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
                    (major > 6 || (major == 6 && minor >= 14));
    int fd = own_pids ? open(NEW "/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC) : -1;
    if (fd >= 0) (void)!write(fd, "2048", 4), close(fd);
    const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN | MS_NOEXEC;
    keeper_need(k, mount(NULL, NEW "/proc", NULL, flags, NULL) == 0, "a read-only /proc");
}

/* Runs with other answers see another machine: one that has GPUs and what the script looks for, and one whose
 * files are empty. */
static void change_machine(Keeper *k)
{
    static const char *const files[] = { "/proc/cpuinfo", "/proc/meminfo",   "/proc/stat",
                                         "/proc/uptime",  "/proc/loadavg",   "/proc/version",
                                         "/etc/hostname", "/etc/os-release", "/etc/machine-id" };
    static const char *const devices[] = { "nvidia0",   "nvidia1", "nvidia2",        "nvidia3",
                                           "nvidia4",   "nvidia5", "nvidia6",        "nvidia7",
                                           "nvidiactl", "kfd",     "dri/renderD128", "dri/renderD129" };
    static const char *const folders[] = {
        "class/net/ib0",   "class/infiniband/mlx5_0",   "class/infiniband/mlx5_1",
        "class/drm/card0", "devices/system/node/node0", "devices/system/node/node1"
    };
    char to[1100], name[64];
    make_file(BASE "/machine");
    int fd = open(BASE "/machine", O_WRONLY | O_CLOEXEC);
    if (k->in.answers != 2) dprintf(fd, "%d\n%s", k->in.answers, k->in.patterns ? k->in.patterns : "");
    close(fd);
    for (int i = 0; i < COUNT(files); i++)
        if (access(files[i], F_OK) == 0)
            keeper_need(k, snprintf(to, sizeof to, NEW "%s", files[i]) && bind(BASE "/machine", to, 0),
                        files[i]);
    for (int i = 0; k->in.answers != 2 && i < COUNT(devices); i++) {
        snprintf(name, sizeof name, "/dev/%s", devices[i]);
        make_file(place(to, NEW, name, false));
        keeper_need(k, bind("/dev/null", to, 0), to);
    }
    for (int i = 0; k->in.answers != 2 && i < COUNT(folders); i++) {
        snprintf(name, sizeof name, "/sys/%s", folders[i]);
        place(to, NEW, name, true);
    }
}

/* ---- the working folders ---- */

static bool overlay(const char *lower, const char *top, const char *work)
{
    char up[128], at[128], options[512];
    struct stat about;
    snprintf(up, sizeof up, "%s/up", work), snprintf(at, sizeof at, "%s/at", work);
    if (mkdir(work, 0755) || mkdir(up, 0755) || mkdir(at, 0755)) return false;
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

/* The folder as the script may change it: an overlay, else a copy, else read-only. A colon in a path would
 * end it in the overlay's options, so that the lower folder has a name of its own. */
static void make_writable(Keeper *k, int i)
{
    const char *folder = k->in.top[i];
    char top[1100], lower[64], work[64], copy[64];
    int64_t bytes = 0;
    place(top, NEW, folder, true);
    snprintf(lower, sizeof lower, BASE "/lower%d", i), snprintf(work, sizeof work, BASE "/upper%d", i);
    snprintf(copy, sizeof copy, BASE "/copy%d", i);
    keeper_need(k, mkdir(lower, 0755) == 0 && bind(folder, lower, 0), folder);
    if (!k->copies && overlay(lower, top, work)) return;
    if (keeper_copy(k, lower, copy, &bytes) && bind(copy, top, 0)) return;
    keeper_need(k, bind(folder, top, MS_REC), folder);
    make_read_only(k, top);
    snprintf(k->output->note, sizeof k->output->note,
             "%.400s is above %d MiB and no overlay can be mounted here, so that it was read-only", folder,
             RUN_COPY_BYTES >> 20);
}

/* The script, where it is a file below /tmp or /run, outside of the working folders. */
static void bind_script(Keeper *k)
{
    char new[1100];
    if (access(place(new, NEW, k->in.script, false), F_OK) == 0) return;
    make_file(new);
    keeper_need(k, bind(k->in.script, new, 0), k->in.script);
    (void)!mount(NULL, new, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | PLAIN, NULL);
}

/* Another text over a file of the script's. */
static void cover_edited(Keeper *k, int i)
{
    char text[64], at[1100];
    struct stat about;
    snprintf(text, sizeof text, BASE "/edited%d", i);
    snprintf(at, sizeof at, NEW "%s", k->in.edited[i].path);
    keeper_need(k, keeper_write(text, k->in.edited[i].text), text);
    keeper_need(k, stat(at, &about) == 0 && chmod(text, about.st_mode & 0777) == 0 && bind(text, at, 0), at);
}

/* ---- covers ---- */

static void cover_secrets(Keeper *k)
{
    char at[1100];
    struct stat about;
    mkdir(BASE "/none", 0555);
    make_file(BASE "/nothing");
    chmod(BASE "/nothing", 0444);
    for (int i = 0; i < k->secrets; i++) {
        keeper_need(k, snprintf(at, sizeof at, NEW "%s", k->secret[i]) < COUNT(at), k->secret[i]);
        if (lstat(at, &about)) continue;
        bool done = bind(S_ISDIR(about.st_mode) ? BASE "/none" : BASE "/nothing", at, 0);
        keeper_need(k, done || errno == EACCES, k->secret[i]);
    }
}

/* Recorders over the real programs of a folder, and beside them: an overlay of two folders that only read. */
static void cover_programs(Keeper *k, const char *folder)
{
    char at[128], options[256], bin[256], real[256];
    struct stat about;
    DIR *programs = opendir(folder);
    snprintf(at, sizeof at, NEW "%s", folder);
    bool own = programs && lstat(at, &about) == 0 && S_ISDIR(about.st_mode);
    for (struct dirent *e; own && (e = readdir(programs));) { /* python3.11, which only the machine knows */
        snprintf(bin, sizeof bin, NEW PRIVATE "/bin/%.100s", e->d_name);
        if (is_python_name(e->d_name)) (void)!symlink(PRIVATE "/missing", bin);
    }
    snprintf(options, sizeof options, "lowerdir=" NEW PRIVATE "/bin:%s", folder);
    bool over = own && !k->copies && mount("overlay", at, "overlay", PLAIN | MS_RDONLY, options) == 0;
    if (programs) rewinddir(programs);
    for (struct dirent *e; own && !over && (e = readdir(programs));) {
        snprintf(bin, sizeof bin, NEW PRIVATE "/bin/%.100s", e->d_name);
        snprintf(real, sizeof real, "%s/%.100s", at, e->d_name);
        if (e->d_name[0] != '.' && lstat(bin, &about) == 0)
            keeper_need(k, bind(NEW PRIVATE "/missing", real, 0), real);
    }
    if (programs) closedir(programs);
}

static void make_private(Keeper *k)
{
    char size[64];
    snprintf(size, sizeof size, "mode=0755,size=%d,nr_inodes=4000", RUN_TEXTS * RUN_FILE_BYTES);
    mkdir(NEW PRIVATE, 0755);
    keeper_need(k, mount("tmpfs", NEW PRIVATE, "tmpfs", PLAIN, size) == 0, "a tmpfs for records");
    snprintf(k->at, sizeof k->at, PRIVATE);
    keeper_need_ok(k, run_folder_make(NEW PRIVATE, PRIVATE, &k->in));
}

/* What an earlier run missed, where it can be made; files are what other answers are about. The script has
 * named these paths, so that the machine's root must be gone: they may lead anywhere, by links or /proc. */
static void make_lacking(Keeper *k)
{
    char at[1100];
    for (const Lacking *l = k->in.lacking; l < k->in.lacking + k->in.lackings; l++) {
        if (l->is_folder) place(at, "", l->path, true);
        else if (k->in.answers) {
            int fd = open(place(at, "", l->path, false), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
            if (fd >= 0) dprintf(fd, "%s", k->in.answers == 2 ? "8 8\n" : "6\n"), close(fd);
        }
    }
}

void namespaces_build(Keeper *k)
{
    umask(0);
    make_root(k);
    make_read_only(k, NEW);
    mount_system(k);
    if (k->in.answers) change_machine(k);
    for (int i = 0; i < k->in.tops; i++) make_writable(k, i);
    bind_script(k);
    for (int i = 0; i < k->in.editeds; i++) cover_edited(k, i);
    make_private(k);
    cover_secrets(k);
    cover_programs(k, "/usr/bin");
    cover_programs(k, "/usr/local/bin");
    cover_programs(k, "/bin");
    keeper_need(k, chdir(NEW) == 0 && syscall(SYS_pivot_root, ".", ".") == 0, "pivot_root into the new root");
    keeper_need(k, umount2(".", MNT_DETACH) == 0 && chdir("/") == 0, "the machine's root cannot be left");
    make_lacking(k);
    if (k->in.host) (void)!sethostname(k->in.host, strlen(k->in.host));
}

/* ---- users ---- */

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
bool namespaces_map_users(pid_t pid)
{
    char uids[64], gids[64];
    const char *all = "0 0 4294967295";
    snprintf(uids, sizeof uids, "%u %u 1", geteuid(), geteuid());
    snprintf(gids, sizeof gids, "%u %u 1", getegid(), getegid());
    if (geteuid() == 0 && write_map(pid, "uid_map", all) && write_map(pid, "gid_map", all)) return true;
    return (write_map(pid, "uid_map", uids) || geteuid() == 0) &&
           (write_map(pid, "setgroups", "deny") || true) && write_map(pid, "gid_map", gids);
}
