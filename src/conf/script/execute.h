#ifndef CONF_SCRIPT_EXECUTE_H
#define CONF_SCRIPT_EXECUTE_H
/* Commands whose words are known. */
#include "conf/script/inside.h"

/* Returns what it says: 1 (it succeeds), 0, or -1 where only running it would tell. last: of the command
 * before it. */
int  execute(Reader *r, const ScriptWords *words, int last);
bool is_any(const char *word, const char *words); /* words: separated by blanks */
bool ends_with(const char *text, const char *end);
#endif
