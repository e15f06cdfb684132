/* Compares all files that a run reads with all that it writes. An input is identified by device and inode,
 * so that a symbolic or hard link to it is found too; an output need not exist yet, so outputs are also
 * compared by directory and name. */
#include "corpus/clean/path_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "corpus/clean/report.h"
#include "corpus/clean/write.h"

typedef struct { dev_t device; ino_t number; } FileId;
/* device_allowed: the report may be /dev/stdout, which is written to directly; other outputs are renamed
 * into place. */
typedef struct { const char *option, *path; bool device_allowed; } OutputFile;
enum { OUTPUTS = 6 };

typedef struct {
    FileId    *input;                       /* sorted by by_file_id */
    int64_t    inputs;
    OutputFile output[OUTPUTS];
    int        outputs;
    char       page[1100];                  /* path of the report's HTML page */
} PathCheck;

static int by_file_id(const void *a, const void *b)
{
    const FileId *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* ---- what is read ---- */

/* Only regular files: a pipe or a device that is read cannot be overwritten by a rename. */
static void input_add(PathCheck *p, const char *path)
{
    struct stat info;
    if (!path || (strcmp(path, "-") ? stat(path, &info) : fstat(0, &info)) || !S_ISREG(info.st_mode)) return;
    p->input[p->inputs++] = (FileId){ info.st_dev, info.st_ino };
}

static Status inputs_collect(PathCheck *p, const CleanPlan *plan)
{
    p->input = malloc(((size_t)plan->paths + (size_t)plan->contamination.paths + 2) * sizeof *p->input);
    if (!p->input) return fail(NO_MEMORY, "no memory to compare %d input files", plan->paths);
    for (int i = 0; i < plan->paths; i++) input_add(p, plan->path[i]);
    for (int i = 0; i < plan->contamination.paths; i++) input_add(p, plan->contamination.path[i]);
    input_add(p, plan->model);
    input_add(p, plan->bad_words);
    qsort(p->input, (size_t)p->inputs, sizeof *p->input, by_file_id);
    return OK;
}

/* ---- what is written ---- */

static Status path_check(const PathCheck *p, const char *option, const char *path, bool device_allowed)
{
    struct stat info;
    if (stat(path, &info)) return OK;
    if (S_ISDIR(info.st_mode)) return fail(BAD_OPTION, "%s %s: is a directory; give a file", option, path);
    if (!S_ISREG(info.st_mode))
        return device_allowed
                   ? OK
                   : fail(BAD_OPTION,
                          "%s %s: is not a regular file, and the output would replace it; give a file",
                          option, path);
    FileId id = { info.st_dev, info.st_ino };
    if (!bsearch(&id, p->input, (size_t)p->inputs, sizeof id, by_file_id)) return OK;
    return fail(BAD_OPTION, "%s %s: is also an input and would be overwritten; give another file", option,
                path);
}

/* The output, or the shards of it that exist now; their numbers have no gaps, so the first missing one
 * ends the search. */
static Status shards_check(const PathCheck *p, const CleanPlan *plan)
{
    char path[1100];
    struct stat info;
    for (int64_t number = 0; ; number++) {
        TRY(write_path(path, sizeof path, plan, number));
        TRY(path_check(p, "--output", path, false));
        if ((!plan->folder && !plan->shard_bytes) || stat(path, &info)) return OK;
    }
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether both paths are, or will be, the same regular file. Where one does not exist yet, they are the
 * same if their names are equal and their directories are. The "." makes "DIR/." of a directory, and "."
 * of a path without one. */
static bool same_file(const char *a, const char *b)
{
    char parent[2][1100];
    struct stat x, y;
    if (!strcmp(a, b)) return true;
    if (!stat(a, &x) && !stat(b, &y))
        return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    if (strcmp(last_component(a), last_component(b)) != 0) return false;
    snprintf(parent[0], sizeof parent[0], "%.*s.", (int)(last_component(a) - a), a);
    snprintf(parent[1], sizeof parent[1], "%.*s.", (int)(last_component(b) - b), b);
    return !stat(parent[0], &x) && !stat(parent[1], &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void output_add(PathCheck *p, const char *option, const char *path, bool device_allowed)
{
    if (path) p->output[p->outputs++] = (OutputFile){ option, path, device_allowed };
}

/* Shards are left to shards_check, as their number is not known. A sample writes only its report. */
static void outputs_collect(PathCheck *p, const CleanPlan *plan)
{
    bool one = !plan->folder && !plan->shard_bytes;
    if (plan->report) report_page_path(p->page, sizeof p->page, plan->report);
    output_add(p, "--report", plan->report, true);
    output_add(p, "the page of --report", plan->report ? p->page : NULL, true);
    if (plan->sample) return;
    output_add(p, "--output", one ? plan->output : NULL, false);
    output_add(p, "--dropped", plan->dropped, false);
    output_add(p, "--clusters", plan->clusters, false);
    output_add(p, "--pairs", plan->pairs, false);
}

static Status outputs_check(const PathCheck *p)
{
    for (int i = 0; i < p->outputs; i++) {
        const OutputFile *t = &p->output[i];
        TRY(path_check(p, t->option, t->path, t->device_allowed));
        for (int k = 0; k < i; k++)
            if (same_file(t->path, p->output[k].path))
                return fail(BAD_OPTION, "%s %s: is also the file of %s; give another file", t->option,
                            t->path, p->output[k].option);
    }
    return OK;
}

Status clean_paths_check(const CleanPlan *plan)
{
    PathCheck p = { 0 };
    Status status = inputs_collect(&p, plan);
    outputs_collect(&p, plan);
    if (status == OK) status = outputs_check(&p);
    if (status == OK && !plan->sample) status = shards_check(&p, plan);
    free(p.input);
    return status;
}
