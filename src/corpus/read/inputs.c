#include "corpus/read/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static Status no_memory(const char *path) { return fail(NO_MEMORY, "%s: no memory for the list of files", path); }

static Status path_add(Inputs *in, const char *path)
{
    if (in->paths == in->room) {
        int64_t room = in->room ? 2 * in->room : 64;
        char **grown = realloc(in->path, (size_t)room * sizeof *grown);
        if (!grown) return no_memory(path);
        in->path = grown;
        in->room = room;
    }
    char *copy = strdup(path);
    if (!copy) return no_memory(path);
    in->path[in->paths++] = copy;
    return OK;
}

static Status path_pass(Inputs *in, const char *path)
{
    if (!in->passed++ && !(in->passed_first = strdup(path))) return no_memory(path);
    return OK;
}

/* ---- folders ---- */

static int names_order(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int name_wanted(const struct dirent *entry) { return strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."); }

static Status folder_add(Inputs *in, const char *path, BlockKind wanted);

/* Links to folders are not followed, since they can lead in a circle. */
static Status entry_add(Inputs *in, const char *folder, const char *name, BlockKind wanted)
{
    char *path;
    struct stat about;
    size_t length = strlen(folder);
    bool slash = length && folder[length - 1] == '/';
    if (asprintf(&path, "%s%s%s", folder, slash ? "" : "/", name) < 0) return no_memory(folder);
    Status status;
    if (*name == '.') status = path_pass(in, path);
    else if (!lstat(path, &about) && S_ISDIR(about.st_mode)) status = folder_add(in, path, wanted);
    else if (stat(path, &about) || !S_ISREG(about.st_mode) || lines_name_check(path, wanted) != OK)
        status = path_pass(in, path);
    else
        status = path_add(in, path);
    free(path);
    return status;
}

static Status folder_add(Inputs *in, const char *path, BlockKind wanted)
{
    struct dirent **name;
    int count = scandir(path, &name, name_wanted, names_order);
    if (count < 0) return fail(BAD_FILE, "%s: the folder cannot be read: %s", path, strerror(errno));
    Status status = OK;
    for (int i = 0; i < count; i++) {
        if (status == OK) status = entry_add(in, path, name[i]->d_name, wanted);
        free(name[i]);
    }
    free(name);
    return status;
}

static Status folder_expand(Inputs *in, const char *path, BlockKind wanted)
{
    int64_t before = in->paths;
    TRY(folder_add(in, path, wanted));
    if (in->paths > before) return OK;
    return fail(BAD_FILE, "%s: no file in this folder is one of text; name one, or say by --input-format what they are", path);
}

/* ---- files and lists ---- */

static Status plain_expand(Inputs *in, const char *path, BlockKind wanted)
{
    struct stat about;
    if (!strcmp(path, "-")) return path_add(in, path);
    if (stat(path, &about)) return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode)) return folder_expand(in, path, wanted);
    TRY(lines_name_check(path, wanted));
    return path_add(in, path);
}

enum { LINE_ROOM = PATH_MAX + 2 };

static Status listed_expand(Inputs *in, const char *list, char *line, int64_t number, BlockKind wanted)
{
    if (!*line || strlen(line) == LINE_ROOM - 1)                /* NUL is in no path */
        return fail(BAD_FILE, "@%s:%" PRId64 ": a line that can be no path; it wants one file a line", list, number);
    line[strcspn(line, "\r\n")] = 0;
    if (!*line) return OK;
    if (*line == '@') return fail(BAD_FILE, "%s:%" PRId64 ": %s: a list in a list", list, number, line);
    return plain_expand(in, line, wanted);
}

static Status list_expand(Inputs *in, const char *list, BlockKind wanted)
{
    FILE *file = fopen(list, "r");
    if (!file) return fail(BAD_FILE, "@%s: the list of files cannot be read: %s", list, strerror(errno));
    char   line[LINE_ROOM];
    Status status = OK;
    for (int64_t number = 1; status == OK && fgets(line, sizeof line, file); number++)
        status = listed_expand(in, list, line, number, wanted);
    if (status == OK && ferror(file)) status = fail(BAD_FILE, "@%s: the list of files cannot be read: %s", list, strerror(errno));
    fclose(file);
    return status;
}

Status inputs_expand(Inputs *in, const char *const *given, int count, BlockKind wanted)
{
    Status status = OK;
    *in = (Inputs){ 0 };
    for (int i = 0; i < count && status == OK; i++)
        status = *given[i] == '@' ? list_expand(in, given[i] + 1, wanted) : plain_expand(in, given[i], wanted);
    if (status == OK && !in->paths) status = fail(BAD_FILE, "%s: names no file", count ? given[0] : "--input");
    if (status != OK) inputs_free(in);
    return status;
}

void inputs_free(Inputs *in)
{
    for (int64_t i = 0; i < in->paths; i++) free(in->path[i]);
    free(in->path);
    free(in->passed_first);
    *in = (Inputs){ 0 };
}
