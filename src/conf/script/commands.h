#ifndef CONF_SCRIPT_COMMANDS_H
#define CONF_SCRIPT_COMMANDS_H
/* The commands of a script in their order: assignments are made, if and case are decided, the command that
 * starts a program is taken, functions are read where they are called, all others are not followed. */
#include "conf/script/inside.h"

/* line: of the text's first line in the file. Returns what the last command says: 1 (it succeeds), 0 or -1
 * (not known). */
int commands_read(Reader *r, const char *begin, const char *end, int line);
/* Commands that are not followed: those of a loop, or of a condition that is not known. */
void commands_skip(Reader *r, const char *begin, const char *end, int line, bool in_loop);
void arguments_read(Reader *r); /* a file that is a list of arguments */
#endif
