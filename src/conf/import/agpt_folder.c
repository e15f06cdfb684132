/* Where a run of train_aGPT_7B.sh has its checkpoints. The script's folder has world size, layout and
 * learning rate in its name, so that a job on other hosts would begin a new run; here it resumes the run that
 * differs in these alone. */
#include "conf/import/agpt_internal.h"
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* When the run was saved last; 0: never. */
static long long saved_at(const char *folder)
{
    struct stat about;
    char        latest[AGPT_NAME + 16];
    snprintf(latest, sizeof latest, "%s/latest", folder);
    if (stat(latest, &about) != 0) return 0;
    return (long long)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
}

bool agpt_checkpoints(char path[AGPT_NAME], const char *name, const char *other)
{
    glob_t    found;
    long long newest = 0;
    char      pattern[2 * AGPT_NAME];
    snprintf(path, AGPT_NAME, "checkpoints/%s", name);
    if (saved_at(path)) return false;
    snprintf(pattern, sizeof pattern, "checkpoints/%s", other);
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        long long at = saved_at(found.gl_pathv[i]);
        if (at <= newest || strlen(found.gl_pathv[i]) >= AGPT_NAME) continue;
        newest = at;
        snprintf(path, AGPT_NAME, "%s", found.gl_pathv[i]);
    }
    globfree(&found);
    return newest > 0;
}
