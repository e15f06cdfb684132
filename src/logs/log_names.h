#ifndef LOGS_LOG_NAMES_H
#define LOGS_LOG_NAMES_H
/* The files or folders of earlier runs in a directory of logs. */
#include "base/status.h"

typedef struct { char **name; int count, room; } LogNames;      /* name[0 .. count) are owned */
/* The names that begin and end so, the last one in alphabetical order first. A directory that cannot be read
 * is BAD_FILE with the option's name. Freed by the caller. */
Status log_names_find(LogNames *names, const char *option, const char *directory, const char *begin,
                      const char *end);
void   log_names_free(LogNames *names);
#endif
