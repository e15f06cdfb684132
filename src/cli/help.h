#ifndef CLI_HELP_H
#define CLI_HELP_H
/* Help on a terminal, docs/options.md, man pages and bash completion, all made from the rows of commands
 * and options. */
#include "cli/command.h"

/* The exit codes of the program, for help and man pages; base/status.c decides which one a Status has. */
typedef struct { const char *code, *meaning; } ExitCode;
/* What a signal does to `jotun train`, and what Open MPI's mpirun does to its ranks. */
#define HELP_SIGNALS \
    "SIGINT, SIGTERM, SIGHUP and SIGUSR1 save after the step at hand. Open MPI's mpirun kills the ranks\n" \
    "about 2 seconds after SIGINT or SIGTERM; send it SIGUSR1, which it forwards.\n"
enum { EXIT_CODES = 5 };
extern const ExitCode exit_codes[EXIT_CODES];

void help_program    (FILE *out);
void help_command    (FILE *out, const Command *command);
void help_subcommands(FILE *out, const char *first_word);        /* of "tokenizer": encode, decode ... */
void help_markdown   (FILE *out);                                /* docs/options.md */
/* The word for an option's value: "N", "DIR", "LayerNorm|RMSNorm", "" of a flag. Returns out. */
const char *help_value(char *out, size_t size, OptionIndex option);

/* What of the other command `jotun sweep` takes. */
#define HELP_SWEEP \
    "Options of jotun train stand beside them. A number or choice may be a list, --lr 1e-3,2e-3,4e-3,\n" \
    "and a flag too, --swiglu=true,false: every combination is a run. --seed 1,2,3 repeats each with\n" \
    "other seeds.\n"

/* A man page of section 1: jotun.1, or that of a command. */
void   manual_program(FILE *out);
void   manual_command(FILE *out, const Command *command);
/* All pages into a folder that exists: jotun.1, jotun-train.1, jotun-tokenizer-encode.1 ... IO_FAILED
 * where one cannot be written. */
Status manual_write  (const char *folder);

/* A script for bash that completes commands, options, words of choices and file names. */
void   completion_bash(FILE *out);
#endif
