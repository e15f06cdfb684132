#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H
/* The commands of the program, from the rows of commands.def, and how one of them is found by its name. */
#include <stdio.h>
#include "compat/compat.h"
#include "conf/options.h"

#define JOTUN_VERSION "0.1.0"           /* a test compares it with the version in CMakeLists.txt */

/* o: what the words of the command say. The exit code follows from the Status, whose message main prints. */
typedef Status CommandRun(Options *o);
/* argv is what follows the command's name. */
typedef Status RawCommandRun(int argc, char **argv);
/* words: its positional arguments, for help; job: what it does, in one line; takes: the set of its options;
 * runs: which function; program: its name where it is a command of another program (compat/commands.def);
 * NULL: it is jotun's own */
typedef struct { const char *name, *words, *job; CommandSet takes; int runs; const char *program; } Command;
extern const Command commands[];
extern const int     command_count;
Status command_run(const Command *command, int argc, char **argv);

#define COMMAND(function, ...)     CommandRun    cmd_##function;
#define RAW_COMMAND(function, ...) RawCommandRun cmd_##function;
#include "conf/commands.def"
RawCommandRun cmd_agpt;

/* Whether it divides its work over ranks; any other would do all of it once for each. */
bool command_divides(const Command *command);
/* The command named by argv[0], or by argv[0] and argv[1] ("data info"); *used: how many words name it.
 * BAD_USAGE: none. */
Status command_find(const Command **found, int *used, int argc, char **argv);
/* Whether its name has two words of which this is the first: "data" of "data info". */
bool command_begins(const Command *command, const char *first_word);
#endif
