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

/* Whether the name has the word, or with `whole` has it between underscores. In any case of its letters. */
static bool has_word(const char *name, const char *word, bool whole)
{
    size_t letters = strlen(word);
    for (const char *at = name; *at; at++) {
        if (strncasecmp(at, word, letters)) continue;
        bool begins = at == name || at[-1] == '_', ends = !at[letters] || at[letters] == '_';
        if (!whole || (begins && ends)) return true;
    }
    return false;
}

/* A name that says that its value opens something. PAT is a personal access token, and no part of PATH; the
 * script's own variables, such as TOKENIZER_MODEL, are none of these, nor are the folders of the shell. */
static bool is_secret(const char *name)
{
    static const char *const words[] = {"PASS", "PWD", "SECRET", "TOKEN", "KEY", "CREDENTIAL"};
    const char *right;
    bool certain;
    bool harmless = !strcmp(name, "PWD") || !strcmp(name, "OLDPWD");
    if (harmless || agpt_variable(name, &right, &certain)) return false;
    for (size_t i = 0; i < COUNT(words); i++)
        if (has_word(name, words[i], false)) return true;
    return has_word(name, "PAT", true);
}

/* The value without what stands before the @ of a URL: https://user:password@host. */
static void write_value(FILE *out, const char *value)
{
    for (const char *url; (url = strstr(value, "://")); ) {
        url += 3;
        const char *end = url + strcspn(url, "/?# \t\n\"',;"), *at = end;
        while (at > url && *at != '@') at--;
        fprintf(out, "%.*s%s", (int)(url - value), value, at > url ? "***" : "");
        value = at;
    }
    fprintf(out, "%s\n", value);
}

/* As printenv, without colours and without what should not lie in a shared folder; only for its owner. */
static Status write_environment(const char *folder)
{
    char   path[PATH_LETTERS], name[PATH_LETTERS], *text = NULL;
    size_t bytes;
    TRY(path_join(path, folder, ".env"));
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return fail(NO_MEMORY, "no memory for the environment");
    for (char **variable = environ; *variable; variable++) {
        int letters = (int)strcspn(*variable, "=");
        if (!strncmp(*variable, "LS_COLORS=", 10) || letters >= PATH_LETTERS) continue;
        snprintf(name, sizeof name, "%.*s", letters, *variable);
        if (is_secret(name)) fprintf(out, "# %s is left out\n", name);
        else write_value(out, *variable);
    }
    bool   whole = fclose(out) == 0;
    mode_t mask  = umask(077);
    Status status =
        whole ? file_write_whole(path, text, bytes) : fail(NO_MEMORY, "no memory for the environment");
    umask(mask);
    free(text);
    return status;
}

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
static Status open_log(const Options *o, const char *name)
{
    char      path[PATH_LETTERS], host[64] = "", when[32], *command = NULL;
    size_t    bytes;
    time_t    now = time(NULL);
    struct tm local;
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "?");
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    if (snprintf(path, sizeof path, "logs/%s/%s_%lld_%s/output.log", name, when, (long long)o->ranks,
                 host) >= (int)sizeof path)
        return fail(BAD_OPTION, "logs/%s/...: the path is longer than %d letters", name,
                    PATH_LETTERS - 1);
    FILE *out = open_memstream(&command, &bytes);
    if (!out) return fail(NO_MEMORY, "no memory for the command");
    fprintf(out, "jotun train");
    options_show_command(out, o, SOURCE_PRESET);
    if (fclose(out)) return fail(NO_MEMORY, "no memory for the command");
    command[strcspn(command, "\n")] = 0;
    Status status                   = append_line(path, command);
    if (status == OK) status = append_line(".cache/train_args.txt", command);
    if (status == OK) status = append_line("logs/latest", path);
    free(command);
    TRY(status);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return fail(IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
    log_copy(fd);
    log_line("this log is also in %s; checkpoints are in %s", path, o->save);
    return OK;
}

Status agpt_open_folders(const Options *o, const char *name)
{
    TRY(folder_make(o->save));
    if (o->data_cache_path) TRY(folder_make(o->data_cache_path));
    TRY(write_environment(o->save));
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
