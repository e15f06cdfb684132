/* Where a run of train_aGPT_7B.sh has its checkpoints. The script's folder has world size, layout and
 * learning rate in its name, so that a job on other hosts would begin a new run; here it resumes the run that
 * differs in these alone, unless that one is finished: then another learning rate is another run. */
#include "compat/alcf/agpt_internal.h"
#include <glob.h>
#include <jansson.h>
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

static json_int_t whole(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Whether the last checkpoint has all steps, or all samples but for less than a step, of its own run. */
static bool is_finished(const char *folder)
{
    char  path[AGPT_NAME + 128], last[64] = "";
    FILE *latest;
    snprintf(path, sizeof path, "%s/latest", folder);
    if (!(latest = fopen(path, "r"))) return false;
    if (!fgets(last, sizeof last, latest)) last[0] = 0;
    fclose(latest);
    snprintf(path, sizeof path, "%s/%.*s/manifest.json", folder, (int)strcspn(last, "\n"), last);
    json_t       *manifest = json_load_file(path, 0, NULL);
    const json_t *options  = json_object_get(manifest, "options");
    json_int_t    steps = whole(options, "train-iters"), samples = whole(options, "train-samples");
    bool          all = steps > 0 && whole(manifest, "step") >= steps;
    all |= samples > 0 && whole(manifest, "samples") + whole(options, "global-batch-size") > samples;
    json_decref(manifest);
    return all;
}

bool agpt_checkpoints(AgptFound *run, const char *name, const char *other)
{
    glob_t    found;
    long long newest = 0, newest_finished = 0;
    char      pattern[2 * AGPT_NAME];
    run->finished[0] = 0;
    snprintf(run->run, AGPT_NAME, "checkpoints/%s", name);
    if (saved_at(run->run)) return false;
    snprintf(pattern, sizeof pattern, "checkpoints/%s", other);
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *folder   = found.gl_pathv[i];
        long long   at       = saved_at(folder);
        bool        finished = at && is_finished(folder);
        long long  *before   = finished ? &newest_finished : &newest;
        if (at <= *before || strlen(folder) >= AGPT_NAME) continue;
        *before = at;
        snprintf(finished ? run->finished : run->run, AGPT_NAME, "%s", folder);
    }
    globfree(&found);
    return newest > 0;
}
