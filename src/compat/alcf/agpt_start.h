#ifndef COMPAT_ALCF_AGPT_START_H
#define COMPAT_ALCF_AGPT_START_H
/* What `jotun agpt` does before a run trains: ranks on several hosts, and the run's folders. */
#include "compat/alcf/agpt.h"

/* Of the words of its command line: sets the variables of words NAME=VALUE, which may stand anywhere but as
 * the value of an option; option: the others, in their order. BAD_OPTION where a name is mistaken for one of
 * the script's. Enters the folder in which the job was submitted. */
Status agpt_prepare(char **option, int *options, int argc, char **argv);
/* The machine and the ranks, in one line of the log. launcher: what has started them; NULL: nothing. */
void agpt_tell(const Options *o, const AgptMachine *machine, const char *launcher);
/* Where the job has several hosts and no launcher has started this process: becomes mpiexec or srun, which
 * starts `jotun agpt` with these words on all of them, and does not return. BAD_OPTION where it cannot. */
Status agpt_start_ranks(const Options *o, const AgptMachine *machine, int argc, char **argv);
/* As the script: logs/NAME/TIME_RANKS_HOST/output.log, which has the log from now on, its path in
 * logs/latest; .env, the environment without secrets, in the folder of the checkpoints. */
Status agpt_open_folders(const Options *o, const char *name);
#endif
