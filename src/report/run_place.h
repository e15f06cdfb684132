#ifndef REPORT_RUN_PLACE_H
#define REPORT_RUN_PLACE_H
/* Where a run lies: the file that is read of what a person names, the names of runs beside each other, and
 * whether the process that wrote the file is still there. */
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* given: a directory of --save, of --history or of a speedrun, or a file. BAD_FILE, with what
 * would be taken. */
Status run_place_file(char path[1024], const char *given);
/* The name of a run: the last one of its path, "run" of "runs/run/", or the one before it of
 * "run/checkpoint", as every speedrun calls its own. */
const char *run_name_of(size_t *bytes, const char *path);
/* Names that tell the runs of these paths apart: as much more of the path as that takes. The caller frees
 * name[i]. Two equal paths have one name. */
void run_names_apart(char **name, const char *const *path, int paths);
/* Whether the run in the directory of a journal has no process any more, as the lock says that each holds
 * there. False where that is not known: on another host than this, or where files have no locks. */
bool run_place_left(const char *journal, const char *host);
#endif
