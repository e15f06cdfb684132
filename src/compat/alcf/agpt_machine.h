#ifndef COMPAT_ALCF_AGPT_MACHINE_H
#define COMPAT_ALCF_AGPT_MACHINE_H
/* What `jotun agpt` finds on the machine: a job, its hosts, and files. */
#include <stdbool.h>
#include "base/status.h"

/* The machine, as the environment and this host tell. job: "PBS job 12", ""; hostfile: "" where there is
 * none; per_host: ranks of a host, 0 where nothing says how many; gpus: those of this host that have a
 * driver; name: of a MACHINE row, "" */
typedef struct {
    char job[128], hostfile[1024], name[32];
    int  hosts, per_host, gpus;
} AgptMachine;
/* BAD_FILE where HOSTFILE cannot be read, BAD_OPTION where NGPU_PER_HOST is no number, or MACHINE one that
 * the script has no choices for. */
Status agpt_machine(AgptMachine *machine);

/* What the options follow from beside the variables: the machine and files, which one rank looks for, so that
 * the others need not. resumes: `run`, the folder of the checkpoints, is that of another run; finished: the
 * folder of such a run that has no steps left, "" where there is none. The others:
 * whether the script's own list of data, its tokenizer of Llama and the one that is named are there. */
enum { AGPT_NAME = 1024 };
typedef struct {
    AgptMachine machine;
    bool        data_list, llama, tokenizer, resumes;
    char        run[AGPT_NAME], finished[AGPT_NAME];
} AgptFound;
#endif
