/* The folders of a run as train_aGPT_7B.sh makes them, and what it keeps there.
 *
 * The script's folder of checkpoints has world size, layout and learning rate in its name, so that a job on
 * other hosts would begin a new run; here it resumes the run that differs only in these, unless that one is
 * finished: then another learning rate is another run. */
#include "compat/alcf/agpt_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "conf/conf.h"

enum { PATH_LETTERS = 1024 };

static Status append_line(const char *path, const char *line)
{
    TRY(folder_make_for(path));
    FILE *out = fopen(path, "a");
    if (!out) return fail(IO_FAILED, "%s: cannot be written: %s", path, strerror(errno));
    fprintf(out, "%s\n", line);
    bool good = !ferror(out);
    good      = fclose(out) == 0 && good;
    return good ? OK : fail(IO_FAILED, "%s: cannot be written: %s", path, strerror(errno));
}

/* The log of this start begins with the command of jotun train that says the same. */
static Status open_log(Options *o, const char *name)
{
    char      path[PATH_LETTERS], host[64] = "", when[32];
    time_t    now = time(NULL);
    struct tm local;
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "?");
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    if (snprintf(path, sizeof path, "logs/%s/%s_%lld_%s/output.log", name, when, (long long)o->ranks,
                 host) >= (int)sizeof path)
        return fail(BAD_OPTION, "logs/%s/...: the path is longer than %d letters", name,
                    PATH_LETTERS - 1);
    const char *command = options_command(o, SOURCE_PRESET);
    TRY(append_line(path, command));
    TRY(append_line(".cache/train_args.txt", command));
    TRY(append_line("logs/latest", path));
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return fail(IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
    log_copy(fd);
    log_line("this log is also in %s; checkpoints are in %s", path, o->save);
    return OK;
}

Status agpt_open_folders(Options *o, const char *name)
{
    TRY(folder_make(o->save));
    if (o->data_cache_path) TRY(folder_make(o->data_cache_path));
    return open_log(o, name);
}

/* ---- checkpoints ---- */

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
