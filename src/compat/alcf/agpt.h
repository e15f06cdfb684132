#ifndef COMPAT_ALCF_AGPT_H
#define COMPAT_ALCF_AGPT_H
/* Argonne's train_aGPT_7B.sh as options: its variables (agpt.def) from the environment, its defaults, its
 * arithmetic of ranks and batches, the machine that it would find, and the names of its folders. */
#include "compat/import.h"

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

/* What is not an option: what was found on the machine, and the name of the run's folders. known: another
 * process has found it already. */
typedef struct {
    AgptFound found;
    bool      known;
    char      name[AGPT_NAME];
} AgptRun;

/* The variables of the environment, weaker than the command line, and the script's own values, weaker than
 * files of --config, beside the options so far. BAD_OPTION where variables are refused: all of them are
 * named, the last one in the message; what was found is known then, too. */
Status agpt_words(OptionWords *words, AgptRun *run, const Options *so_far);

/* What the script's programs take by default with these optimizers. */
typedef struct { const char *optimizers; OptionIndex option; const char *value; } AgptDefault;
extern const AgptDefault agpt_optimizer_defaults[];
extern const int         agpt_optimizer_defaults_count;

/* Of a word NAME=VALUE, or of a variable of the environment: whether train_aGPT_7B.sh has it. right: the name
 * that is meant instead, NULL where none is near; certain: somebody has mistaken it before. */
bool agpt_variable(const char *name, const char **right, bool *certain);

/* For its help. Variable i, from 0: its names, the first of which counts, and its default, "" where there is
 * none or another variable says it; false behind the last one. */
typedef struct { const char *names, *fallback, *what; } AgptHelp;
bool agpt_help(AgptHelp *help, int i);

/* ---- what `jotun agpt` does before a run trains ---- */

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
 * logs/latest. The script's .env, a copy of the environment, is not written: it has people's secrets. */
Status agpt_open_folders(Options *o, const char *name);
#endif
