#ifndef CONF_SCRIPT_COMMANDS_H
#define CONF_SCRIPT_COMMANDS_H
/* The commands of a script in their order: assignments are made, if and case are decided, the command that
 * starts a program is taken, functions are read where they are called, all others are not followed. */
#include "conf/script/inside.h"

void arguments_read(Reader *r); /* a file that is a list of arguments */
#endif
