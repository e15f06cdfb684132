#ifndef CLI_AGPT_START_H
#define CLI_AGPT_START_H
/* What `jotun agpt` does before a run trains: ranks on several hosts, and the run's folders. */
#include "compat/alcf/agpt.h"

/* The machine and the ranks, in one line of the log. */
void agpt_tell(const Options *o, const AgptMachine *machine);
/* Where the job has several hosts and no launcher has started this process: becomes mpiexec or srun, which
 * starts `jotun agpt` with these words on all of them, and does not return. BAD_OPTION where it cannot. */
Status agpt_start_ranks(const Options *o, const AgptMachine *machine, int argc, char **argv);
/* As the script: logs/NAME/TIME_RANKS_HOST/output.log, which has the log from now on, its path in
 * logs/latest; .env, the environment without secrets, in the folder of the checkpoints. */
Status agpt_open_folders(const Options *o);
#endif
