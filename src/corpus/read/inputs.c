/* Expands files, folders and lists of files into one list of paths. Names in a folder are sorted by strcmp
 * and not by the locale, so that the documents have the same order, and thus the same numbers, on every
 * machine. */
#include "corpus/read/inputs.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/array.h"

static Status no_memory(const char *path)
{
    return fail(NO_MEMORY, "%s: no memory for the list of files", path);
}

static Status path_add(Inputs *in, const char *path)
{
    TRY(ARRAY_RESERVE(in->path, in->capacity, in->paths + 1));
    char *copy = strdup(path);
    if (!copy) return no_memory(path);
    in->path[in->paths++] = copy;
    return OK;
}

/* Counts a path that is not taken and keeps the first, which the caller reports as an example. */
static Status path_ignore(Inputs *in, const char *path)
{
    if (!in->ignored++ && !(in->ignored_first = strdup(path))) return no_memory(path);
    return OK;
}

/* ---- folders ---- */

static int by_bytes(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

/* Links to folders are not followed, since they can form a cycle; links to files are. What is not a file
 * of a known format is ignored here, while the same path given by itself would be an error. */
static Status entry_add(Inputs *in, FTS *tree, FTSENT *entry, BlockKind wanted)
{
    struct stat info;
    const char *path = entry->fts_path;
    if (entry->fts_info == FTS_DP) return OK;                       /* a folder, after its entries */
    if (entry->fts_info == FTS_DNR)
        return fail(BAD_FILE, "%s: the directory cannot be read: %s", path, strerror(entry->fts_errno));
    if (entry->fts_level > 0 && *entry->fts_name == '.') {
        fts_set(tree, entry, FTS_SKIP);
        return path_ignore(in, path);
    }
    if (entry->fts_info == FTS_D) return OK;
    bool taken = !stat(path, &info) && S_ISREG(info.st_mode) && lines_name_check(path, wanted) == OK;
    return taken ? path_add(in, path) : path_ignore(in, path);
}

static Status folder_add(Inputs *in, const char *path, BlockKind wanted)
{
    char  *const roots[] = { (char *)(uintptr_t)path, NULL };
    Status status = OK;
    FTS   *tree   = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_bytes);
    if (!tree) return no_memory(path);
    for (FTSENT *entry; status == OK && (entry = fts_read(tree)); )
        status = entry_add(in, tree, entry, wanted);
    if (status == OK && errno) status = no_memory(path);            /* fts_read sets it to 0 at the end */
    fts_close(tree);
    return status;
}

static Status folder_useless(const char *path, BlockKind wanted, bool empty)
{
    if (empty) return fail(BAD_FILE, "%s: there is no file in this directory", path);
    if (wanted > BLOCK_AUTO)
        return fail(BAD_FILE, "%s: no file in this directory can be read: hidden ones and those of .xz and "
                    ".parquet are left out; decompress them, or name the files", path);
    return fail(BAD_FILE, "%s: no file in this directory has a known ending: .txt (one document per line), "
                ".jsonl and .json (one JSON object per line)%s, each also with .gz, .zst or .bz2 added; "
                "rename them, or give their format by --input-format",
                path, wanted == BLOCK_AUTO ? ", .xml (MediaWiki)" : "");
}

/* ---- files and lists ---- */

/* A path that the user named: unlike one found in a folder, it must exist and be of a known format. */
static Status path_expand(Inputs *in, const char *path, BlockKind wanted)
{
    struct stat info;
    int64_t before = in->paths, ignored = in->ignored;
    if (!strcmp(path, "-")) return path_add(in, path);
    if (stat(path, &info)) return fail(BAD_FILE, "%s: cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        TRY(folder_add(in, path, wanted));
        return in->paths > before ? OK : folder_useless(path, wanted, in->ignored == ignored);
    }
    TRY(lines_name_check(path, wanted));
    return path_add(in, path);
}

enum { LIST_LINE_BYTES = PATH_MAX + 2 };         /* a path with its newline and NUL */

/* One line of a list. A line that fills the whole array was cut by fgets, so it is longer than any path. */
static Status listed_expand(Inputs *in, const char *list, char *line, int64_t number, BlockKind wanted)
{
    /* An empty string here means that the line began with a NUL, which no path can have. */
    if (!*line || strlen(line) == LIST_LINE_BYTES - 1)
        return fail(BAD_FILE, "@%s:%" PRId64 ": a line that can be no path; a list has one file per line",
                    list, number);
    line[strcspn(line, "\r\n")] = 0;
    if (!*line) return OK;
    if (*line == '@')
        return fail(BAD_FILE, "%s:%" PRId64 ": %s: a list in a list, which must be an argument of its own",
                    list, number, line);
    return path_expand(in, line, wanted);
}

static Status list_expand(Inputs *in, const char *list, BlockKind wanted)
{
    FILE *file = fopen(list, "r");
    if (!file) return fail(BAD_FILE, "@%s: the list of files cannot be read: %s", list, strerror(errno));
    char   line[LIST_LINE_BYTES];
    Status status = OK;
    for (int64_t number = 1; status == OK && fgets(line, sizeof line, file); number++)
        status = listed_expand(in, list, line, number, wanted);
    if (status == OK && ferror(file))
        status = fail(BAD_FILE, "@%s: the list of files cannot be read: %s", list, strerror(errno));
    fclose(file);
    return status;
}

Status inputs_expand(Inputs *in, const char *const *given, int count, BlockKind wanted)
{
    Status status = OK;
    *in = (Inputs){ 0 };
    for (int i = 0; i < count && status == OK; i++)
        status = *given[i] == '@' ? list_expand(in, given[i] + 1, wanted) : path_expand(in, given[i], wanted);
    if (status == OK && !in->paths)
        status = fail(BAD_FILE, "%s: names no file", count ? given[0] : "--input");
    if (status != OK) inputs_free(in);
    return status;
}

void inputs_free(Inputs *in)
{
    for (int64_t i = 0; i < in->paths; i++) free(in->path[i]);
    free(in->path);
    free(in->ignored_first);
    *in = (Inputs){ 0 };
}
