#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H
/* The commands, and the words about them. */
#include <stdio.h>
#include "conf/options.h"

#define JOTUN_VERSION "0.1.0"           /* a test holds it to the project's in CMakeLists.txt */

typedef Status CommandRun(int argc, char **argv);
typedef struct { const char *name, *words, *job; int takes; CommandRun *run; } Command;
extern const Command commands[];
extern const int     command_count;

#define COMMAND(function, ...) CommandRun cmd_##function;
#include "cli/commands.def"
#undef COMMAND

/* The command named by argv[0], or by argv[0] and argv[1] ("data info"); *used: how many words name it. */
Status command_find(const Command **found, int *used, int argc, char **argv);

void help_program (FILE *out);
void help_command (FILE *out, const Command *command);
void help_markdown(FILE *out);          /* docs/options.md */
void help_man     (FILE *out);          /* jotun.1 */
#endif
