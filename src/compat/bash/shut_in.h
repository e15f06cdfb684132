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
 * Nothing else can be written, and only readers of text can be started. Root becomes a user whom nobody else
 * is, so that kill -9 -1 reaches none but its own.
 *
 * In both ways a keeper builds the place, starts bash, watches time, memory and processes, which binds root
 * as well, and kills what is left; seccomp refuses system calls that neither way covers (system_calls.c). */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include "base/status.h"
#include "compat/bash/launch_script.h"

enum {
    TOPS = 3,
    EDITED_MOST = 16,
    RUN_FILE_BYTES = 32 << 20,
    RUN_PRIVATE_BYTES = 96 << 20,
    RUN_COPY_BYTES = 64 << 20,
    RUN_MEMORY_MIB = 2048,
    RUN_PROCESSES_MOST = 400
};

/* Something that an earlier run missed, which this one is given. */
typedef struct {
    char path[1024]; /* absolute */
    bool is_folder;
} Lacking;

typedef struct {
    const char *bash, *script; /* absolute paths */
    const char *const *argument;
    int arguments;
    const char *const *variable; /* [variables] the whole environment, but what a way has to add */
    int variables;
    const char *folder;   /* in which the script starts */
    char top[TOPS][1024]; /* [tops] folders whose changes are private; `folder` is below one */
    int tops;
    const Lacking *lacking;
    int lackings;
    struct {
        const char *path, *text; /* of a file that has this text in the run; path: without links */
    } edited[EDITED_MOST];       /* [editeds] */
    int editeds;
    const char *patterns; /* lines that the script looks for in what programs print */
    const char *host; /* the name of the host; NULL: its own */
    int answers;      /* which answers recorders give, below ANSWERS */
    bool lenient;     /* errexit, nounset, exit and a failing cd are skipped */
    bool untraced;    /* bash does not trace */
    int seconds;
} RunInput;

typedef enum { END_NORMALLY, END_TIME, END_PROCESSES, END_MEMORY, END_DISK } RunEnd;
enum { RUN_CALLS, RUN_TRACE, RUN_PRINTED, RUN_TEXTS };

/* What a run leaves: the calls of the recorders, bash's trace, and what it printed. The keeper writes it into
 * memory that it shares with the process that asks. */
typedef struct {
    atomic_bool go, started, done; /* the keeper's users are mapped; bash runs; all has been written */
    RunEnd end;
    char why[512];   /* why bash could not be shut in; "": it was */
    char note[512];  /* what of the working folder could not be made private; "": nothing */
    char moved[300]; /* the folder below which the script saw copies of the machine's paths; "": none */
    int64_t bytes[RUN_TEXTS];
    char text[RUN_TEXTS][RUN_FILE_BYTES + 1]; /* with NUL at the end */
} RunOutput;
extern const char *const run_files[RUN_TEXTS]; /* their names in the private folder */

/* An empty one; NO_MEMORY. It is freed by run_output_free. */
Status run_output_new(RunOutput **out);
void run_output_free(RunOutput *output);

/* BAD_OPTION where the machine does not allow this way. */
Status run_shut_in(RunOutput *out, const RunInput *in, LaunchWay way);

/* ---- the private folder (private_folder.c) ---- */

/* Makes bin/ with the recorders, prelude and the three files in the folder `at`. seen_as: the path by which
 * the script sees it. */
Status run_folder_make(const char *at, const char *seen_as, const RunInput *in);
/* Names for which recorders stand, in all runs and in those with other answers; ended by NULL. */
extern const char *const recorded_names[], *const asked_names[];
bool is_python_name(const char *name); /* python, python3, python3.11 */

/* ---- between the keeper and the two ways ---- */

typedef struct {
    RunInput in; /* with the paths that the script sees */
    RunOutput *output;
    const char *home; /* NULL: the user has none */
    char at[256];     /* the private folder, as the keeper and the script see it */
    char **secret;    /* [secrets] existing paths that no script may read, without links */
    int secrets;
    bool copies;                     /* in the place of overlays */
    int abi, rules;                  /* of Landlock; rules -1: namespaces */
    int user;                        /* in the place of root; -1: the user's own */
    unsigned long processes;         /* the most of this user: those that are there, and the run's */
    char script[1280], folder[1280]; /* of `in`, where they are copied */
} Keeper;

/* The whole text in a file, which keeps its mode where it is there. */
bool keeper_write(const char *path, const char *text);
/* Ends the keeper unless it is done; `what` and errno say why. */
static inline void keeper_need(Keeper *k, bool done, const char *what)
{
    if (done) return;
    snprintf(k->output->why, sizeof k->output->why, "%.400s: %.100s", what, strerror(errno));
    _exit(125);
}
static inline void keeper_need_ok(Keeper *k, Status status)
{
    if (status == OK) return;
    snprintf(k->output->why, sizeof k->output->why, "%.500s", fail_text());
    _exit(125);
}
bool is_plain_path(const char *path); /* bash needs no quotes around it */
/* Copies a folder without .git and secrets; *bytes counts and stops the copy above RUN_COPY_BYTES, which is
 * false. */
bool keeper_copy(const Keeper *k, const char *from, const char *to, int64_t *bytes);
int64_t keeper_bytes(const char *folder); /* on the disk, of all below it */
void keeper_find_secrets(Keeper *k);
/* kills: signals may be sent. pretend: changes of modes, owners and times report success and do nothing. */
bool keeper_forbid_calls(bool pretend, bool kills);

enum { NAMESPACES_ALL = 0x7e020080 }; /* CLONE_NEW*: user, mount, pid, net, ipc, uts, cgroup, time */
bool namespaces_map_users(pid_t pid); /* by the process outside */
void namespaces_build(Keeper *k);

Status landlock_find_place(Keeper *k); /* BAD_OPTION without Landlock, or a folder for programs */
void landlock_build(Keeper *k);
bool landlock_enter(const Keeper *k); /* by the process that becomes bash */
void landlock_kill(const Keeper *k);  /* all that the run has left */

/* Adds the descendants of a process to a list of `count`, which has room for `most`; returns how many there
 * are. */
int processes_below(pid_t pid, pid_t *list, int count, int most);
#endif
