#include "plan/free_memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The files of a control group, of version 2 and 1. cache: the line of memory.stat with the bytes of files,
 * which the kernel gives up when processes need them */
typedef struct { const char *mount, *limit, *used, *cache; } GroupFiles;
static const GroupFiles version_2 = { "/sys/fs/cgroup", "memory.max", "memory.current", "file" };
static const GroupFiles version_1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                      "memory.usage_in_bytes", "total_cache" };

/* The number after `key` and a blank or a colon at the beginning of a line, the first number where key is "".
 * NAN: there is none, as where a limit is "max". */
static double number_in(const char *path, const char *key)
{
    char   line[256];
    size_t letters = strlen(key);
    double found = NAN;
    FILE  *in = fopen(path, "re");
    while (in && isnan(found) && fgets(line, sizeof line, in)) {
        char *end, *value = line + letters;
        if (strncmp(line, key, letters) != 0 || (letters && !strchr(" :", *value))) continue;
        value += letters > 0;
        double number = strtod(value, &end);
        if (end > value) found = number;
    }
    if (in) fclose(in);
    return found;
}

static double group_number(const char *root, const GroupFiles *files, const char *group, const char *file,
                           const char *key)
{
    char path[8192];
    snprintf(path, sizeof path, "%.1000s%s%.4000s/%s", root, files->mount, group, file);
    return number_in(path, key);
}

/* What a group and those above it leave. In a container the path may be that outside of it, where only the
 * mount itself, the last one here, has files. */
static double groups_leave(const char *root, const GroupFiles *files, char *group)
{
    double least = INFINITY;
    for (;;) {
        double limit = group_number(root, files, group, files->limit, "");
        double used  = group_number(root, files, group, files->used, "");
        double cache = group_number(root, files, group, "memory.stat", files->cache);
        double taken = fmax(0, (isnan(used) ? 0 : used) - (isnan(cache) ? 0 : cache));
        if (isfinite(limit)) least = fmin(least, fmax(0, limit - taken));
        char *last = strrchr(group, '/');
        if (!last) return least;
        *last = '\0';
    }
}

/* Lines are "0::/path" of version 2, and "9:memory:/path", with other controllers beside it, of version 1. */
double free_memory(const char *root)
{
    char path[1100], line[4096];
    snprintf(path, sizeof path, "%.1000s/proc/meminfo", root);
    double kib = number_in(path, "MemAvailable"), least = isnan(kib) ? INFINITY : 1024 * kib;
    snprintf(path, sizeof path, "%.1000s/proc/self/cgroup", root);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        if (!strcmp(controllers, ":")) least = fmin(least, groups_leave(root, &version_2, group));
        else if (strstr(controllers, "memory")) least = fmin(least, groups_leave(root, &version_1, group));
    }
    if (in) fclose(in);
    return least;
}
