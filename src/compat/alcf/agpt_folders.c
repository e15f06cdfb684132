/* The folders of a run as train_aGPT_7B.sh makes them, and what it keeps there. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "compat/alcf/agpt_start.h"
#include "conf/conf.h"

extern char **environ;
enum { PATH_LETTERS = 1024 };

/* Whether the name has the word, or with `alone` has it between underscores. In any case of its letters. */
static bool has_word(const char *name, const char *word, bool alone)
{
    size_t letters = strlen(word);
    for (const char *at = name; *at; at++) {
        if (strncasecmp(at, word, letters)) continue;
        bool begins = at == name || at[-1] == '_', ends = !at[letters] || at[letters] == '_';
        if (!alone || (begins && ends)) return true;
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

/* As printenv, without colours and without what should not lie in a shared folder; for its owner alone. */
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
