#ifndef CLI_PROCESS_CHILD_PROCESS_H
#define CLI_PROCESS_CHILD_PROCESS_H
/* A command of jotun as a child process: it has its own memory and signals, and does not outlive this
 * process. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/status.h"

typedef struct {
    char *const *word;          /* of the command line behind `jotun`; NULL ends it */
    int          out, err;      /* descriptors that take its standard output and error; -1: as ours */
    int          orphan_signal; /* what it gets when this process dies */
    bool         group;         /* a process group of its own and no input, so that a terminal's Ctrl-C
                                 * reaches this process alone, which passes it on */
} ChildStart;

/* NO_MEMORY: there is no process to be had. */
Status child_start(pid_t *process, ChildStart start);
/* Whether it has ended, and then its state as waitpid has it. */
bool child_ended(pid_t process, int *state);
/* Exit code 0 */
bool child_succeeded(int state);
/* "exit code 1" or "ended by signal 9 (Killed)" */
void child_end_words(char *text, size_t room, int state);
#endif
