#ifndef CONF_IMPORT_AGPT_H
#define CONF_IMPORT_AGPT_H
/* Argonne's train_aGPT_7B.sh as options: its variables (agpt.def) from the environment, its defaults, its
 * arithmetic of ranks and batches, the machine that it would find, and the names of its folders. */
#include "conf/import/import.h"

/* The machine, as the environment and this host tell. job: "PBS job 12", ""; hostfile: "" where there is
 * none; per_host: ranks of a host, 0 where nothing says how many; gpus: those of this host that have a
 * driver; name: of a MACHINE row, "" */
typedef struct {
    char job[128], hostfile[1024], name[32];
    int  hosts, per_host, gpus;
} AgptMachine;
/* BAD_FILE where HOSTFILE cannot be read, BAD_OPTION where NGPU_PER_HOST is no number. */
Status agpt_machine(AgptMachine *machine);
/* A line where MACHINE names one that the script has no choices for. */
void   agpt_machine_report(const AgptMachine *machine);

/* What the options follow from beside the variables: the machine and files, which one rank looks for and
 * tells the others. resumes: `run`, the folder of the checkpoints, is that of another run. The others: whether
 * the script's own list of data, its tokenizer of Llama and the one that is named are there. */
enum { AGPT_NAME = 1024 };
typedef struct {
    AgptMachine machine;
    bool        data_list, llama, tokenizer, resumes;
    char        run[AGPT_NAME];
} AgptFound;

/* The variables of the environment, weaker than the command line, and the script's own values, weaker than
 * files of --config. found: as another process has found it; NULL: this one looks. Sets o->run_name and
 * o->agpt_found. BAD_OPTION where variables are refused: all of them are named, the last one in the
 * message. */
Status import_agpt(Options *o, const AgptFound *found);

/* Of a word NAME=VALUE, or of a variable of the environment: whether train_aGPT_7B.sh has it. right: the name
 * that is meant instead, NULL where none is near; certain: somebody has mistaken it before. */
bool agpt_variable(const char *name, const char **right, bool *certain);

/* For the files of this front end alone. */
/* The folder of the run's checkpoints: `name` under checkpoints, or the newest run there that differs from it
 * in what `other` leaves open (a pattern of glob) and can be resumed. Returns whether another one was found.
 */
bool agpt_checkpoints(char path[AGPT_NAME], const char *name, const char *other);
#endif
