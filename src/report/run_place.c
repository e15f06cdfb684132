#include "report/run_place.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

/* A speedrun calls its own run so. */
static const char speedrun_run[] = "checkpoint";

static bool folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The metrics beside a speedrun's checkpoint know less than the journal in it, so that this comes first. */
static Status speedrun_journal(char path[1024], const char *given, bool *found)
{
    char inner[1024];
    TRY(path_join(path, given, "speedrun.json"));
    *found = file_exists(path);
    TRY(path_join(inner, given, speedrun_run));
    TRY(path_join(path, inner, "journal.jsonl"));
    *found = *found && file_exists(path);
    return OK;
}

Status run_place_file(char path[1024], const char *given)
{
    static const char *const name[] = { "journal.jsonl", "metrics.jsonl", "metrics.csv" };
    bool found;
    if (!folder(given)) {
        if (!file_exists(given))
            return fail(
                BAD_FILE,
                "%s: there is no such file or directory; give the directory of a run's --save, or its "
                "file of --metrics",
                given);
        snprintf(path, 1024, "%.1023s", given);
        return OK;
    }
    TRY(speedrun_journal(path, given, &found));
    if (found) return OK;
    for (int i = 0; i < 3; i++) {
        TRY(path_join(path, given, name[i]));
        if (file_exists(path)) return OK;
    }
    return fail(BAD_FILE,
                "%s has no journal.jsonl, which jotun train --save %s writes; a directory of --history and a "
                "file of --metrics are taken too",
                given, given);
}

/* ---- names ---- */

const char *run_name_of(size_t *bytes, const char *path)
{
    const char *leaf = path_leaf(path, strlen(path));
    *bytes = strcspn(leaf, "/");
    if (*bytes != sizeof speedrun_run - 1 || memcmp(leaf, speedrun_run, *bytes)) return leaf;
    const char *above = path_leaf(path, (size_t)(leaf - path));
    size_t letters = strcspn(above, "/");
    if (above == leaf || letters == 0 || (letters <= 2 && !memcmp(above, "..", letters))) return leaf;
    *bytes = letters;
    return above;
}

/* A part of a path. */
typedef struct { const char *at; size_t bytes; } PathPart;

static bool shared(const PathPart *part, int parts, int i)
{
    for (int j = 0; j < parts; j++)
        if (j != i && part[j].bytes == part[i].bytes && !memcmp(part[j].at, part[i].at, part[i].bytes))
            return true;
    return false;
}

/* With one more name of the path before it. */
static PathPart longer(PathPart part, const char *path)
{
    const char *at = path_leaf(path, (size_t)(part.at - path));
    return (PathPart){ at, (size_t)(part.at - at) + part.bytes };
}

void run_names_apart(char **name, const char *const *path, int paths)
{
    PathPart *part = malloc((size_t)paths * 2 * sizeof *part), *next = part + paths;
    CHECK(part, "no memory for the names of %d runs", paths);
    for (int i = 0; i < paths; i++) part[i].at = run_name_of(&part[i].bytes, path[i]);
    for (bool grows = true; grows;) {
        grows = false;
        for (int i = 0; i < paths; i++) {
            next[i] = part[i].at > path[i] && shared(part, paths, i) ? longer(part[i], path[i]) : part[i];
            grows |= next[i].at != part[i].at;
        }
        memcpy(part, next, (size_t)paths * sizeof *part);
    }
    for (int i = 0; i < paths; i++) {
        name[i] = strndup(part[i].at, part[i].bytes);
        CHECK(name[i], "no memory for a name");
    }
    free(part);
}

/* ---- the process ---- */

bool run_place_left(const char *journal, const char *host)
{
    char here[256] = "", path[1024];
    const char *leaf = path_leaf(journal, strlen(journal));
    if (!host || gethostname(here, sizeof here - 1) != 0 || strcmp(here, host) != 0) return false;
    if (snprintf(path, sizeof path, "%.*s.lock", (int)(leaf - journal), journal) >= (int)sizeof path)
        return false;
    return file_is_free(path);
}
