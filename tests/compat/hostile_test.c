/* Scripts that do harm: nothing outside of their private folder changes, no secret comes out, no process is left, and each ends within the
 * limits and is reported. In both ways of shutting in, as root (where the test is run by root) and as an ordinary user. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include "launch.h"

#define TOKEN "tell-tale-of-the-environment-4711"
#define PERL "P=$(ls /lib64/ld-linux-x86-64.so.2 2>/dev/null); [ $(uname -m) = x86_64 ] || P=; perl() { $P /usr/bin/perl \"$@\"; }\n"
#define CALL "\npython t.py --n 1\n"

/* $OUT: a folder outside, in /var/tmp, which the script sees in one way; with file, sub/file and a socket; link: to it, in the working folder. $VICTIM: a process outside; $PORT: of a server.
 * says: in the message of a run that has no call; NULL: there may be one. */
static const struct { const char *what, *script, *says; } rows[] = {
    { "deletes what lies outside", "rm -rf \"$OUT\"" CALL, NULL },
    { "deletes all", "rm -rf --no-preserve-root / 2>/dev/null" CALL, NULL },
    { "deletes its own folder", "rm -rf \"$PWD\"; cd ..; rm -rf folder" CALL, NULL },
    { "deletes with find", "find \"$OUT\" -delete" CALL, NULL },
    { "writes by absolute path", "echo x > \"$OUT/file\"; echo x > \"$OUT/new\"" CALL, NULL },
    { "appends", "echo x >> \"$OUT/file\"" CALL, NULL },
    { "truncates", ": > \"$OUT/file\"; truncate -s 0 \"$OUT/sub/file\"" CALL, NULL },
    { "writes through a link", "echo x > link/file; rm -rf link/sub; echo x > link/new" CALL, NULL },
    { "makes a link of its own", "ln -s \"$OUT/file\" l; echo x > l; ln -s \"$OUT\" d; touch d/new" CALL, NULL },
    { "makes a hard link", "ln \"$OUT/file\" hard && echo x >> hard; ln \"$OUT/file\" \"$OUT/hard\"" CALL, NULL },
    { "moves away", "mv \"$OUT/file\" \"$OUT/other\"; mv \"$OUT/sub\" ." CALL, NULL },
    { "moves over", "echo x > y; mv -f y \"$OUT/file\"; cp -f run.sh \"$OUT/file\"" CALL, NULL },
    { "makes folders", "mkdir \"$OUT/new\"; mkdir -p \"$OUT/a/b\"; mkfifo \"$OUT/pipe\"" CALL, NULL },
    { "changes modes", "chmod 0777 \"$OUT/file\" \"$OUT\"; chmod u+s \"$OUT/file\"" CALL, NULL },
    { "changes owners", "chown 12345 \"$OUT/file\"; chown -R 1:1 \"$OUT\"" CALL, NULL },
    { "changes times", "touch -d 2001-01-01 \"$OUT/file\"; touch \"$OUT/sub\"" CALL, NULL },
    { "edits in place", "sed -i 's/a/b/' \"$OUT/file\"" CALL, NULL },
    { "writes with dd and tee", "dd if=/dev/zero of=\"$OUT/file\" bs=1 count=9; echo x | tee \"$OUT/file\"" CALL, NULL },
    { "unpacks", "tar cf a.tar run.sh; tar xf a.tar -C \"$OUT\"; install -m 777 run.sh \"$OUT/file\"" CALL, NULL },
    { "keeps a file open", "exec 3>\"$OUT/file\" 4<>\"$OUT/sub/file\"; echo x >&3; echo x >&4" CALL, NULL },
    { "a program of its own", "cp /bin/bash b 2>/dev/null; ./b -c 'rm -rf \"$OUT\"'; chmod +x b; ./b -c 'echo x > \"$OUT/file\"'" CALL, NULL },
    { "a program through the loader", "for l in /lib64/ld-*.so* /lib/ld-*.so*; do $l /bin/rm -rf \"$OUT\"; $l /usr/bin/python3 -c 'open(\"$OUT/new\",\"w\")'; done" CALL, NULL },
    { "connects by TCP", "exec 3<>/dev/tcp/127.0.0.1/$PORT && echo secret >&3" CALL, NULL },
    { "sends by UDP", "echo secret > /dev/udp/127.0.0.1/$PORT" CALL, NULL },
    { "connects by a path", PERL "perl -e 'use Socket; socket(S,AF_UNIX,SOCK_STREAM,0) and connect(S,sockaddr_un(\"'\"$OUT/socket\"'\")) and print S \"x\"'" CALL, NULL },
    { "fork bomb", "f() { f | f & }; f; wait" CALL, NULL },
    { "forks in a loop", "while :; do tail -f /dev/null & done" CALL, NULL },
    { "forks that fork", "b='bash -c \"$B\" & bash -c \"$B\" & wait'; export B=$b; bash -c \"$B\"" CALL, NULL },
    { "endless loop", "while :; do :; done" CALL, "ended" },
    { "endless loop that ignores signals", "trap '' TERM INT HUP XCPU QUIT; while :; do :; done" CALL, "ended" },
    { "endless sleep", "tail -f /dev/null" CALL, "ended" },
    { "waits for a pipe", "mkfifo p; cat p" CALL, "ended" },
    { "endless recursion", "f() { f; }; f" CALL, NULL },
    { "endless output", "yes" CALL, NULL },
    { "endless output of its folder", "python t.py --n 1; yes \"$PWD\"\n", NULL },
    { "endless output of itself", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done" CALL, NULL },
    { "fills a file", "yes > big" CALL, NULL },
    { "fills the disk", "for ((i = 0;; i++)); do head -c 4000000 /dev/zero > f$i || break; done" CALL, NULL },
    { "fills the folder", "for ((i = 0; i < 100000; i++)); do : > f$i || break; done" CALL, NULL },
    { "takes memory", "X=xxxxxxxxxxxxxxxx; while :; do X=$X$X; done" CALL, NULL },
    { "takes memory in many", "for i in 1 2 3 4 5 6 7 8 9; do (X=$(head -c 300000000 /dev/zero | tr '\\0' x); tail -f /dev/null) & done; wait" CALL, NULL },
    { "lifts its limits", "ulimit -u unlimited; ulimit -v unlimited; ulimit -t unlimited; ulimit -f unlimited; while :; do :; done" CALL, "ended" },
    { "exec of an endless one", "exec tail -f /dev/null", "ended" },
    { "trap at its end", "trap 'rm -rf \"$OUT\"; while :; do :; done' EXIT" CALL, NULL },
    { "a library for programs", "cp run.sh evil.so; export LD_PRELOAD=$PWD/evil.so LD_LIBRARY_PATH=$PWD" CALL, NULL },
    { "passwords in an argument", "python t.py --x \"$(cat /etc/shadow /etc/gshadow 2>/dev/null)\"\n", NULL },
    { "keys in an argument", "python t.py --x \"$(cat ~/.ssh/* ~/.netrc ~/.aws/* ~/.config/* 2>/dev/null)\"\n", NULL },
    { "the first process's environment", "python t.py --x \"$(tr '\\0' ' ' < /proc/1/environ)\" \"$(cat /proc/1/cmdline | tr '\\0' ' ')\"\n", NULL },
    { "all environments", "python t.py --x \"$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' ')\" \"$(env)\"\n", NULL },
    { "the victim's environment", "python t.py --x \"$(tr '\\0' ' ' < /proc/$VICTIM/environ)\" \"$(ls -l /proc/$VICTIM/fd /proc/$PPID/fd)\"\n", NULL },
    { "memory of the first process", PERL "python t.py --x \"$(perl -e 'open(M,\"/proc/1/mem\") and print \"open\"')\" \"$(cat /proc/1/root/etc/shadow /proc/1/cwd/secret)\"\n", NULL },
    { "a survivor in a session of its own", "setsid tail -f /dev/null > /dev/null 2>&1 < /dev/null &" CALL, NULL },
    { "a survivor that ignores signals", "(trap '' HUP TERM INT; nohup setsid bash -c 'trap \"\" HUP TERM; while :; do read -t 9 < <(tail -f /dev/null); done' & ) ; disown -a" CALL, NULL },
    { "a daemon by two forks", "( ( tail -f /dev/null & ) & ) ; ( setsid bash -c 'setsid tail -f /dev/null &' & )" CALL, NULL },
    { "kills all", "kill -9 -1" CALL, NULL },
    { "kills those above it", "kill -9 $PPID; kill -9 1; kill -STOP $PPID; kill -9 0" CALL, NULL },
    { "kills a process outside", "kill -9 $VICTIM; kill -STOP $VICTIM; pkill -9 -f jotun_victim" CALL, NULL },
    { "escapes on the terminal", "printf '\\033]0;owned\\007\\033[2J\\033c' > /dev/tty; for t in /dev/pts/*; do printf '\\033c' > $t; done; read -t 1 x < /dev/tty" CALL, NULL },
    { "a forged record", "printf 'CALL\\0python\\0/\\0%s\\0001 \\0002\\0t.py\\0--forged\\0000\\000' 0 >> $JOTUN_RUN/calls" CALL, NULL },
    { "broken records", "head -c 100000 /dev/urandom >> $JOTUN_RUN/calls; printf 'CALL\\0x\\0y\\00099999999999999999\\0' >> $JOTUN_RUN/calls" CALL, NULL },
    { "no records", "rm -f $JOTUN_RUN/calls $JOTUN_RUN/trace $JOTUN_RUN/prelude; rm -rf $JOTUN_RUN" CALL, NULL },
    { "a broken trace", "head -c 100000 /dev/urandom >> $JOTUN_RUN/trace; printf '\\n\\1\\1\\1999999999999\\2\\2-5\\2x\\n\\1\\n\\0011\\2/etc/passwd\\0022\\2x=1\\n' >> $JOTUN_RUN/trace" CALL, NULL },
    { "other recorders", "rm -f $JOTUN_RUN/bin/*; cp /bin/true $JOTUN_RUN/bin/python; echo 'rm -rf $OUT' > $JOTUN_RUN/prelude" CALL, NULL },
    { "traces another process", PERL "perl -e 'syscall(101,16,'$VICTIM',0,0)==0 and syscall(62,'$VICTIM',9)'" CALL, NULL },
    { "io_uring", PERL "python t.py --x \"$(perl -e 'print syscall(425,8,\"\\0\" x 200) >= 0 ? \"made\" : \"refused\"')\"\n", NULL },
    { "mounts", "mount -t tmpfs none \"$OUT\"; mount --bind / /mnt; umount -l /proc; mount -o remount,rw /usr; echo x > \"$OUT/file\"" CALL, NULL },
    { "namespaces of its own", PERL "unshare -Urm bash -c 'mount --bind /tmp /mnt; echo x > \"$OUT/file\"'; perl -e 'syscall(272,0x10000000)==0 and print \"made\"'; nsenter -t 1 -m rm -rf \"$OUT\"" CALL, NULL },
    { "clone with flags", PERL "python t.py --x \"$(perl -e 'print syscall(56,0x10000011,0,0,0,0) >= 0 ? \"made\" : \"refused\"')\"\n", NULL },
    { "keys of the kernel", PERL "python t.py --x \"$(perl -e 'print syscall(250,0,-3,1) >= 0 ? \"made\" : \"refused\"')\"\n", NULL },
    { "shared memory", PERL "python t.py --x \"$(perl -e 'print syscall(29,4711,4096,01666) >= 0 ? \"made\" : \"refused\"')\"\n", NULL },
    { "changes the root", "chroot / rm -rf \"$OUT\"; chroot \"$OUT\" true; pivot_root . ." CALL, NULL },
    { "devices", "mknod d b 8 0 && cat d; mknod n c 1 3; head -c 1 /dev/sda /dev/vda /dev/mem /dev/kmsg; echo x > /dev/kmsg; echo x > /dev/vda" CALL, NULL },
    { "settings of the kernel", "echo 7 > /proc/sys/vm/stat_interval; echo x > /proc/self/oom_score_adj; for f in /sys/class/*/*/*; do echo 0 > $f; done 2>/dev/null" CALL, NULL },
    { "slows others", "renice 19 $VICTIM; taskset -p 1 $VICTIM; ionice -c 3 -p $VICTIM; prlimit --pid $VICTIM --nofile=1" CALL, NULL },
    { "its own memory", "exec 5<>/proc/self/mem; echo x >&5; cat /proc/self/maps > /dev/null" CALL, NULL },
    { "another user", "su -c 'rm -rf \"$OUT\"'; sudo rm -rf \"$OUT\"; /usr/bin/passwd -d root; newgrp root; chage -d 0 root" CALL, NULL },
    { "later", "echo '* * * * * rm -rf \"$OUT\"' | crontab -; echo rm | at now; systemd-run rm -rf \"$OUT\"" CALL, NULL },
    { "a race of links", "for i in 1 2 3 4 5 6 7 8 9; do ln -sfn \"$OUT\" r; echo x > r/new; ln -sfn . r; done" CALL, NULL },
    { "a long argument", "X=$(head -c 100000 /dev/zero | tr '\\0' x); python t.py --x $X $X $X\n", NULL },
    { "many arguments", "python t.py $(seq 1 15000)\n", NULL },
    { "many calls", "for ((i = 0; i < 100; i++)); do python t.py --i $i; done\n", NULL },
};
enum { ROWS = sizeof rows / sizeof rows[0], OF_FILES = 25 };         /* the first ones, which write and delete */
static const char *const way_names[] = { "", "namespaces", "Landlock", "copies" };

/* ---- what must stay as it is ---- */

static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    for (const unsigned char *p = data; bytes--; p++) h = (h ^ *p) * 1099511628211u;
    return h;
}

/* Of a file or folder with all below it: names, kinds, modes, owners, sizes, times, contents, links. */
static uint64_t fingerprint(const char *path)
{
    struct stat about;
    char data[4096], below[1024];
    uint64_t h = mix(14695981039346656037u, path, strlen(path));
    if (lstat(path, &about)) return h;
    h = mix(h, &about.st_mode, sizeof about.st_mode), h = mix(h, &about.st_uid, sizeof about.st_uid), h = mix(h, &about.st_gid, sizeof about.st_gid);
    h = mix(h, &about.st_mtim, sizeof about.st_mtim), h = mix(h, &about.st_nlink, sizeof about.st_nlink);
    if (S_ISLNK(about.st_mode)) { ssize_t n = readlink(path, data, sizeof data); return n > 0 ? mix(h, data, (size_t)n) : h; }
    if (S_ISREG(about.st_mode)) {
        int fd = open(path, O_RDONLY);
        ssize_t n = fd >= 0 ? read(fd, data, sizeof data) : -1;
        if (fd >= 0) close(fd);
        return n > 0 ? mix(h, data, (size_t)n) : h;
    }
    uint64_t sum = 0;                                           /* in any order */
    DIR *folder = S_ISDIR(about.st_mode) ? opendir(path) : NULL;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        sum += fingerprint(below);
    }
    if (folder) closedir(folder);
    return mix(h, &sum, sizeof sum);
}

/* A setting of the whole machine that a script tries to change. */
static uint64_t setting(void)
{
    long value = 0;
    FILE *f = fopen("/proc/sys/vm/stat_interval", "r");
    if (f && fscanf(f, "%ld", &value) != 1) value = 0;
    if (f) fclose(f);
    return (uint64_t)value;
}

/* All processes below this one have an unusual limit, which is left to those that lose their parents. */
static rlim_t own_limit(void)
{
    return 100000 + (rlim_t)getpid() % 700000;
}

/* Processes of this test under a filter of system calls, as all of a run are. */
static int filtered(int *list, int most)
{
    int count = 0;
    char own[64];
    DIR *proc = opendir("/proc");
    snprintf(own, sizeof own, "Max msgqueue size         %llu ", (unsigned long long)own_limit());
    for (struct dirent *e; proc && (e = readdir(proc));) {
        char path[300], line[256];
        bool filter = false, ours = false;
        if (e->d_name[0] < '1' || e->d_name[0] > '9') continue;
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "/proc/%s/%s", e->d_name, i ? "limits" : "status");
            FILE *f = fopen(path, "r");
            while (f && fgets(line, sizeof line, f))
                filter |= !strcmp(line, "Seccomp:\t2\n"), ours |= !strncmp(line, own, strlen(own));
            if (f) fclose(f);
        }
        if (filter && ours && count < most) list[count++] = atoi(e->d_name);
    }
    if (proc) closedir(proc);
    return count;
}

static bool any_left(void)
{
    int list[512];
    for (int rounds = 0; filtered(list, 512); rounds++) {       /* the kernel takes a moment */
        if (rounds == 100) return true;
        usleep(20000);
    }
    return false;
}

/* ---- the world outside ---- */

typedef struct { char at[256], out[300], folder[300]; int tcp, udp, local, port; pid_t victim; } World;

static void put_at(const char *folder, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void world_open(World *w)
{
    char path[1024];
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t bytes = sizeof here;
    snprintf(w->at, sizeof w->at, "/var/tmp/jotun_hostile_%d_%d", (int)getpid(), (int)getuid());
    snprintf(w->out, sizeof w->out, "%s/out", w->at), snprintf(w->folder, sizeof w->folder, "%s/folder", w->at);
    snprintf(path, sizeof path, "%s/sub", w->out);
    assert_int_equal(mkdir(w->at, 0755) | mkdir(w->out, 0755) | mkdir(path, 0755) | mkdir(w->folder, 0755), 0);
    put_at(w->out, "file", "as it was\n"), put_at(w->out, "sub/file", "as it was\n"), put_at(w->at, "secret", TOKEN "\n");
    snprintf(path, sizeof path, "%s/link", w->folder);
    assert_int_equal(symlink(w->out, path), 0);
    w->tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), w->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(w->tcp, (struct sockaddr *)&here, sizeof here) | listen(w->tcp, 4), 0);
    getsockname(w->tcp, (struct sockaddr *)&here, &bytes);
    w->port = ntohs(here.sin_port);
    (void)!bind(w->udp, (struct sockaddr *)&here, sizeof here);
    w->local = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%.60s/socket", w->out);
    assert_int_equal(bind(w->local, (struct sockaddr *)&name, sizeof name) | listen(w->local, 4), 0);
    setenv("JOTUN_TEST_TOKEN", TOKEN, 1);
    w->victim = fork();
    if (w->victim == 0) for (prctl(PR_SET_PDEATHSIG, SIGKILL);;) pause();
}

static void world_close(World *w)
{
    kill(w->victim, SIGKILL);
    waitpid(w->victim, NULL, 0);
    close(w->tcp), close(w->udp), close(w->local);
    folder_remove(w->at);
}

static const char *reached(World *w)
{
    char byte;
    int  how;
    if (accept(w->tcp, NULL, NULL) >= 0) return "a server was reached";
    if (recv(w->udp, &byte, 1, 0) >= 0) return "a datagram came";
    if (accept(w->local, NULL, NULL) >= 0) return "a socket was reached by its path";
    if (waitpid(w->victim, &how, WNOHANG | WUNTRACED) != 0) return "a process outside was ended or stopped";
    return NULL;
}

/* ---- one script ---- */

static bool is_leak(const LaunchRecord *r)
{
    static const char *const secrets[] = { TOKEN, "root:$", "root:!", "root:*", "made", "open", "PRIVATE KEY" };
    for (int c = 0; c < r->calls; c++)
        for (int i = 0; i < r->call[c].words; i++)
            for (size_t s = 0; s < sizeof secrets / sizeof *secrets; s++)
                if (strstr(r->call[c].word[i].text, secrets[s])) return true;
    return false;
}

/* Why the script has done harm; NULL: it has not. */
static const char *try_script(World *w, int row, LaunchWay way)
{
    static char why[4096];
    char out[400], victim[64], port[64], path[400];
    const char *variables[] = { out, victim, port };
    snprintf(out, sizeof out, "OUT=%s", w->out), snprintf(victim, sizeof victim, "VICTIM=%d", (int)w->victim), snprintf(port, sizeof port, "PORT=%d", w->port);
    put_at(w->folder, "run.sh", rows[row].script);
    snprintf(path, sizeof path, "%s/run.sh", w->folder);
    assert_int_equal(chdir(w->folder), 0);
    LaunchInput  in = { .script = path, .variable = variables, .variables = 3, .way = way, .seconds = 1 };
    LaunchRecord r;
    uint64_t     was = fingerprint(w->at), setting_was = setting();
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    Status status = launch_record(&r, &in);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const char *harm = reached(w);
    double seconds = (double)(end.tv_sec - begin.tv_sec);
    if (fingerprint(w->at) != was) harm = "something outside has changed";
    else if (setting() != setting_was) harm = "a setting of the machine has changed";
    else if (any_left()) harm = "a process is left";
    else if (status == OK && is_leak(&r)) harm = "a secret is in an argument";
    else if (seconds > 150) harm = "it was not ended within the limits";
    else if (status != OK && (status != BAD_FILE || !strstr(fail_text(), "run.sh"))) harm = fail_text();
    else if (rows[row].says && (status == OK || !strstr(fail_text(), rows[row].says))) harm = status == OK ? "it is not reported" : fail_text();
    if (harm) snprintf(why, sizeof why, "%s: %s", rows[row].what, harm), harm = why;
    if (getenv("VERBOSE")) print_message("%5.1f s  %s: %s\n", seconds, rows[row].what, status == OK ? words_of(&r.call[r.calls - 1]) : fail_text());
    launch_close(&r);
    return harm;
}

/* All scripts in one way; the number of those that do harm. Skips a way that this machine does not allow. turn: -1, or 0 or 1 for every
 * second script, which is the other half in the other way. */
static int try_all(LaunchWay way, int turn)
{
    World w;
    int   harmful = 0;
    world_open(&w);
    put_at(w.folder, "run.sh", "python t.py --n 1\n");
    char path[400];
    snprintf(path, sizeof path, "%s/run.sh", w.folder);
    LaunchInput  in = { .script = path, .way = way };
    LaunchRecord r;
    assert_int_equal(chdir(w.folder), 0);
    Status status = launch_record(&r, &in);
    launch_close(&r);
    if (status != OK) print_message("%s as user %d: not tested, %s\n", way_names[way], (int)getuid(), fail_text());
    const char *from = getenv("ROW");
    for (int i = 0; status == OK && i < ROWS; i++) {
        if ((from && !strstr(rows[i].what, from)) || (way == LAUNCH_COPIES && i >= OF_FILES)) continue;
        if (turn >= 0 && (i + (way == LAUNCH_LANDLOCK)) % 2 != turn) continue;
        const char *harm = try_script(&w, i, way);
        if (harm) print_error("%s, user %d: %s\n", way_names[way], (int)getuid(), harm), harmful++;
        if (harm && strstr(harm, "changed")) world_close(&w), world_open(&w);
    }
    assert_int_equal(chdir("/"), 0);
    world_close(&w);
    return harmful;
}

/* Root runs each script in both ways, in one of them as an ordinary user; with JOTUN_FULL as both users in both. */
static pid_t in_a_child(LaunchWay way, bool user)
{
    bool root = geteuid() == 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_MSGQUEUE, &(struct rlimit){ own_limit(), own_limit() });
        if (user && (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))) _exit(1);
        if (user) prctl(PR_SET_DUMPABLE, 1);                    /* as after an exec: /proc/PID is the user's */
        int harmful = try_all(way, root && !getenv("JOTUN_FULL") ? user : -1);
        fflush(NULL);
        _exit(harmful != 0);
    }
    return child;
}

/* At once, since most scripts wait for the end of their time. */
static void nothing_is_harmed(void **state)
{
    (void)state;
    static const LaunchWay ways[] = { LAUNCH_NAMESPACES, LAUNCH_LANDLOCK, LAUNCH_COPIES };
    pid_t child[6];
    int   how, children = geteuid() == 0 ? 6 : 3, harmful = 0;
    for (int i = 0; i < children; i++) child[i] = in_a_child(ways[i % 3], i >= 3);
    for (int i = 0; i < children; i++) harmful += waitpid(child[i], &how, 0) != child[i] || how != 0;
    assert_int_equal(harmful, 0);
}

/* A script that starts in somebody's home, which it may read and change a copy of, but for keys and passwords. */
static void a_home_keeps_its_secrets(void **state)
{
    (void)state;
    static const char *const secret[] = { ".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/token", ".cache/huggingface/token", ".git-credentials" };
    char home[64], path[128];
    if (geteuid() != 0 || access("/home", W_OK)) return;
    snprintf(home, sizeof home, "/home/jotun_hostile_%d", (int)getpid());
    assert_int_equal(mkdir(home, 0755), 0);
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++) {
        snprintf(path, sizeof path, "%s/%.*s", home, (int)strcspn(secret[i] + 1, "/") + 1, secret[i]);
        if (strchr(secret[i], '/')) assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
        if (strstr(secret[i], "huggingface")) strcat(path, "/huggingface"), assert_int_equal(mkdir(path, 0755), 0);
        put_at(home, secret[i], TOKEN "\n");
    }
    put_at(home, "plain", "read\n");
    put_at(home, "run.sh", "cp -r .ssh copy; ln -s .netrc link; python t.py --n $(cat plain) --x \"$(cat .ssh/* .aws/* .netrc .config/* .cache/*/* .git-credentials copy/* link \"$PWD\"/.[a-z]*/* 2>/dev/null)\"\n");
    snprintf(path, sizeof path, "%s/run.sh", home);
    int chdir_result = chdir(home);
    for (LaunchWay way = LAUNCH_NAMESPACES; way <= LAUNCH_COPIES; way++) {
        LaunchRecord r;
        LaunchInput  in = { .script = path, .way = way };
        Status status = launch_record(&r, &in);
        bool leaks = status == OK && is_leak(&r), read = status == OK && !strcmp(r.call->word[1].text, "read");
        launch_close(&r);
        if (status == BAD_OPTION) continue;
        if (leaks || !read) folder_remove(home);
        assert_false(leaks);
        assert_true(read);
    }
    assert_int_equal(chdir_result | chdir("/"), 0);
    folder_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_home_keeps_its_secrets), cmocka_unit_test(nothing_is_harmed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
