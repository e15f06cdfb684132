#ifndef CONF_SCRIPT_FUNCTIONS_H
#define CONF_SCRIPT_FUNCTIONS_H
/* Functions of a script. A body is read at each call, with the arguments of the call as $1 ... and with
 * variables of its own. What all calls read is at most SCRIPT_CALLED bytes, where each call counts a little
 * more than its body. */
#include "conf/script/inside.h"

Function *function_find(const Reader *r, const char *name, size_t letters);
void      function_define(Reader *r, Function f); /* replaces one of its name */
/* words: the function's name and its arguments. Returns what its last command says, as commands_read. */
int function_call(Reader *r, const Function *f, const ScriptWords *words, int line);
/* A call of a loop, or under a condition that is not known: the variables it sets become unknown. */
void function_skip(Reader *r, Function *f, bool in_loop, int line);
/* The variable gets its value back after the call that is read. */
void function_local(Reader *r, const char *name, size_t letters);
#endif
