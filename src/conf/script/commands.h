#ifndef CONF_SCRIPT_COMMANDS_H
#define CONF_SCRIPT_COMMANDS_H
/* The commands of a script in their order: assignments are made, if and case are decided, the command that
 * starts a program is taken, all others are not followed. */
#include "conf/script/inside.h"

/* line: of the text's first line in the file. */
void commands_read(Reader *r, const char *begin, const char *end, int line);
void arguments_read(Reader *r); /* a file that is a list of arguments */
#endif
