#ifndef COMPAT_BASH_SHUT_IN_H
#define COMPAT_BASH_SHUT_IN_H
/* One run of bash that can harm nothing, in one of two ways.
 *
 * Namespaces (namespaces.c). A process becomes the first one of user, mount, process, network, IPC, host-name
 * and cgroup namespaces of its own. Its root is a new tmpfs into which the machine's folders are mounted
 * read-only, secrets are covered, and the working folder gets an overlay, so that the script may write there
 * and nothing of it stays. When the first process ends, the kernel kills all others.
 *
 * Landlock (landlock.c), where a machine forbids namespaces. The working folder is copied to a private one.
 * Nothing else can be written, and only readers of text can be started. The keeper of the run is the reaper
 * of what the script leaves, and kills it. Root becomes a user whom nobody else is.
 *
 * In both ways seccomp refuses system calls that neither of them covers (shut_in.c), the limits of a process
 * are set, and a keeper counts processes, memory and time, which binds root as well. What a run leaves are
 * three texts: the calls of the recorders, bash's trace, and what it printed. */
#include <stdbool.h>
#include <sys/types.h>
#include "base/buffer.h"
#include "base/status.h"
#include "compat/bash/launch_script.h"

/* Something that an earlier run missed, which this one is given. */
typedef enum { LACKING_FOLDER, LACKING_FILE, LACKING_PROGRAM } LackingKind;
typedef struct {
    char path[1024]; /* absolute */
    LackingKind kind;
} Lacking;

enum { TOPS = 3 };

typedef struct {
    const char *recorder, *bash; /* absolute paths of programs */
    const char *script;          /* absolute */
    const char *const *argument;
    int arguments;
    const char *const *variable; /* [variables] the whole environment, but what a way has to add */
    int variables;
    const char *folder;   /* in which the script starts */
    char top[TOPS][1024]; /* [tops] folders whose changes are private; `folder` is below one */
    int tops;
    const Lacking *lacking;
    int lackings;
    const char *host; /* the name of the host; NULL: its own */
    int answers;      /* which answers recorders give: 0, 1 or 2 */
    bool lenient;     /* errexit, nounset, exit and a failing cd are skipped */
    int seconds;
} RunInput;

typedef enum { END_NORMALLY, END_TIME, END_PROCESSES, END_MEMORY, END_DISK } RunEnd;

typedef struct {
    Buffer calls, trace, printed;
    RunEnd end;
    int status;     /* of bash: its exit code, or 128 and the signal */
    char note[512]; /* what of the working folder could not be made private; "": nothing */
} RunResult;

/* BAD_OPTION where the machine does not allow this way. The result is freed by run_free after failure, too.
 */
Status run_in_namespaces(RunResult *out, const RunInput *in);
Status run_in_landlock(RunResult *out, const RunInput *in);
void run_free(RunResult *result);

/* ---- for the two ways ---- */

enum {
    RUN_FILE_BYTES = 32 << 20,
    RUN_PRIVATE_BYTES = 96 << 20,
    RUN_COPY_BYTES = 64 << 20,
    RUN_MEMORY_MIB = 2048,
    RUN_PROCESSES_MOST = 400,
    RUN_OPEN_FILES = 256
};

/* The three files of a run; they are open in the keeper. */
typedef struct {
    int calls, trace, printed;
} RunFiles;

/* Makes the private folder `at`: bin/, prelude and the three files. seen_as: the
 * path by which the script sees it; program: that of the recorder there. */
Status run_folder_make(const char *at, const char *seen_as, const char *program, const RunInput *in);
Status run_files_open(RunFiles *files, const char *at);
/* Names for which recorders stand, in all runs and in those with other answers; ended by NULL. */
extern const char *const recorded_names[], *const asked_names[];

/* In the child: becomes bash with the limits, descriptors and environment of a run. Never returns; writes why
 * to the file of what is printed. at: of the private folder as the script sees it. rules: a descriptor that
 * `confine` needs, of Landlock's rules, under which changes of modes, owners and times report success and do
 * nothing; -1: none. confine: what is done last, which returns whether signals of the run reach nothing
 * outside. */
void run_become_bash(const RunInput *in, const RunFiles *files, const char *at, int rules,
                     bool (*confine)(void *), void *context) __attribute__((noreturn));

/* What the keeper looks after until bash and all that it left have ended, or a limit is exceeded. */
typedef struct {
    pid_t bash;
    int seconds;
    int (*processes)(void *context, pid_t *list, int most); /* of the run, now */
    int64_t (*private_bytes)(void *context);                /* NULL: bounded otherwise */
    void *context;
} Watch;
RunEnd run_watch(const Watch *watch, int *status);

/* From the keeper to the process that waits for it. */
void run_report(int pipe, RunEnd end, int status, const char *note, const RunFiles *files);
void run_report_failure(int pipe, const char *what) __attribute__((noreturn));
Status run_receive(RunResult *out, int pipe, int seconds);

/* Copies a folder; *bytes counts and stops the copy above RUN_COPY_BYTES, which is false. */
bool run_copy_folder(const char *from, const char *to, int64_t *bytes, int owner);
/* Overwrites the environment of this process, which others could read in /proc. */
void run_forget_environment(void);
bool run_is_secret(const char *path, const char *home); /* a path that no script may read */
#endif
