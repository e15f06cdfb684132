#ifndef COMPAT_BASH_LAUNCH_SCRIPT_H
#define COMPAT_BASH_LAUNCH_SCRIPT_H
/* The arguments that a launch script gives to the program that it starts, found by running the script in the
 * system's own bash where nothing can be harmed and no program starts.
 *
 *     TP=2                                                            $ jotun config --from-megatron run.sh
 *     ARGS=(--num-layers ${DEPTH:-12} --tensor-model-parallel-size $TP)
 *     srun bash -c "torchrun pretrain_gpt.py ${ARGS[*]} --bf16"       one call, of pretrain_gpt.py
 *
 * Bash is shut in: read-only files, a private copy of the working folder, no network, an empty environment
 * but what the caller names, limits of time, memory, processes and output (shut_in.h). In the place of
 * python, torchrun, srun and their like stand recorders, which write down their words and start nothing but
 * the recorder that they were to start (record.bash).
 *
 * A script asks its machine: nvidia-smi, scontrol, the host's name, files and variables that are not there.
 * The answers here are made up, so that what depends on them must not be taken as the script's. The script
 * runs four times with other answers each (runs.c), once more for each condition that they decide, with its
 * other outcome (conditions.c), and once without a trace. A word counts as agreed where all runs give it. */
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* ---- what is asked ---- */

/* LAUNCH_COPIES: namespaces as on a machine that forbids overlays */
typedef enum { LAUNCH_ANY_WAY, LAUNCH_NAMESPACES, LAUNCH_LANDLOCK, LAUNCH_COPIES } LaunchWay;

typedef struct {
    const char *script;          /* a path; or a folder that launch_offer has made */
    const char *const *argument; /* [arguments] $1 ... */
    const char *const *variable; /* [variables] NAME=value, for its environment */
    int arguments, variables;
    /* Whether a program is looked for: where a strict run reaches none such, a lenient one may. NULL: any. */
    bool (*wanted)(const char *program);
    bool (*trains)(const char *program); /* anything, so that it replaces another training; NULL: any does */
    LaunchWay way;        /* LAUNCH_ANY_WAY: namespaces, or else Landlock */
    int seconds;          /* the most that one run may take; 0: 10 */
} LaunchInput;

/* Splits "NAME=value... SCRIPT [ARGUMENT|NAME=value...] [-- ARGUMENT...]" as it stands on a command line.
 * argument and variable have room for `count` texts, and point into `words`. BAD_USAGE without a script. */
Status launch_words(LaunchInput *out, const char **argument, const char **variable, int count,
                    const char *const *words);

/* ---- what is found ---- */

typedef struct {
    const char *text;
    const char *file; /* where it is written; "": not known */
    int line;
    bool agreed;            /* false: with other answers bash gives another word, or none */
    const char *decided_by; /* "nvidia-smi (run.sh:3, GPUS)", "$SCRATCH (run.sh:7)"; "": it is agreed */
    const char *unset;      /* the word with the names of unset variables in place of their values */
    const char *lacks;      /* what is empty behind it: "$DEPTH (run.sh:4)"; "": nothing */
} LaunchWord;

/* A file as it was at the call. */
typedef struct {
    const char *path, *text; /* path: as the call names it */
    const char *file;        /* of the line that made it */
    int line;
    bool agreed;
    const char *decided_by;
} LaunchFile;

typedef struct {
    const char *program; /* "pretrain_gpt.py"; of `python -m`, the module */
    const char *folder;  /* in which it is started */
    const char *file;    /* of the line that starts it; "": not known */
    int line;
    LaunchWord *word;     /* [words] its arguments */
    LaunchWord *launcher; /* [launchers] what stands before it: srun -N 2 torchrun --nproc_per_node 8 */
    LaunchWord *other;    /* [others] options, and values of a list, that only other answers give */
    LaunchFile *made;     /* [files] the JSON files that its words name */
    int words, launchers, others, files;
    const char *instead;    /* what other answers start first: "t.py (run.sh:2)"; NULL: it is, with all */
    const char *decided_by; /* of such a call: "grep (run.sh:1)" */
} LaunchCall;

typedef struct {
    const char *file; /* "": of the script as a whole */
    int line;
    const char *text;
} LaunchNote;

typedef struct {
    LaunchCall *call; /* [calls] in the order in which they were started */
    LaunchNote *note; /* [notes] failures that were skipped, writes that were refused */
    int calls, notes;
    bool untried; /* not all conditions that depend on what this machine answers were run otherwise */
    void *owner; /* of everything that the record names */
} LaunchRecord;

/* BAD_FILE where the script cannot be read, starts no program, or exceeds a limit; BAD_OPTION where this
 * machine can shut nothing in, with the way out. The record is closed by launch_close, also after failure. */
Status launch_record(LaunchRecord *out, const LaunchInput *in);
void launch_close(LaunchRecord *record);

/* A file that is a list of arguments, which no bash has to read: its first word begins with --. */
bool launch_is_list(const char *text, const char *end);

/* ---- the recorder, for machines that can shut nothing in ---- */

/* Makes a folder with recorders. out: what a person writes before the name of the script, to run it with
 * them. BAD_FILE where the folder is there. */
Status launch_offer(char *out, size_t size, const char *folder);
#endif
