#include "logs/log_names.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"

static int later_first(const void *a, const void *b) { return strcmp(*(char *const *)b, *(char *const *)a); }

Status log_names_find(LogNames *names, const char *option, const char *directory, const char *begin,
                      const char *end)
{
    DIR *folder = opendir(directory);
    *names = (LogNames){ 0 };
    if (!folder) return fail(BAD_FILE, "%s %s cannot be read: %s", option, directory, strerror(errno));
    for (struct dirent *e; (e = readdir(folder));) {
        size_t length = strlen(e->d_name), first = strlen(begin), last = strlen(end);
        if (length < first + last || strncmp(e->d_name, begin, first) != 0) continue;
        if (strcmp(e->d_name + length - last, end) != 0) continue;
        ARRAY_RESERVE_OR_STOP(names->name, names->room, names->count + 1);
        CHECK((names->name[names->count++] = strdup(e->d_name)), "no memory for names of logs");
    }
    closedir(folder);
    if (names->count > 0) qsort(names->name, (size_t)names->count, sizeof *names->name, later_first);
    return OK;
}

void log_names_free(LogNames *names)
{
    for (int i = 0; i < names->count; i++) free(names->name[i]);
    free(names->name);
    *names = (LogNames){ 0 };
}
