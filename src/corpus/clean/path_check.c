#include "corpus/clean/path_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "corpus/clean/report.h"
#include "corpus/clean/write.h"

typedef struct { dev_t device; ino_t number; } FilePlace;
typedef struct { const char *option, *path; bool straight; } Target;     /* straight: may be a device, which is then written to */
enum { TARGETS = 6 };

typedef struct {
    FilePlace  *read;                               /* sorted */
    int64_t reads;
    Target  target[TARGETS];
    int     targets;
    char    page[1100];
} Places;

static int by_place(const void *a, const void *b)
{
    const FilePlace *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* ---- what is read ---- */

static void read_add(Places *p, const char *path)
{
    struct stat about;
    if (!path || (strcmp(path, "-") ? stat(path, &about) : fstat(0, &about)) || !S_ISREG(about.st_mode)) return;
    p->read[p->reads++] = (FilePlace){ about.st_dev, about.st_ino };
}

static Status reads_find(Places *p, const CleanPlan *plan)
{
    p->read = malloc(((size_t)plan->paths + (size_t)plan->contamination.paths + 2) * sizeof *p->read);
    if (!p->read) return fail(NO_MEMORY, "no memory for the places of %d files", plan->paths);
    for (int i = 0; i < plan->paths; i++) read_add(p, plan->path[i]);
    for (int i = 0; i < plan->contamination.paths; i++) read_add(p, plan->contamination.path[i]);
    read_add(p, plan->model);
    read_add(p, plan->bad_words);
    qsort(p->read, (size_t)p->reads, sizeof *p->read, by_place);
    return OK;
}

/* ---- what is written ---- */

static Status path_check(const Places *p, const char *option, const char *path, bool straight)
{
    struct stat about;
    if (stat(path, &about)) return OK;
    if (S_ISDIR(about.st_mode)) return fail(BAD_OPTION, "%s %s: is a folder; name a file", option, path);
    if (!S_ISREG(about.st_mode))
        return straight ? OK : fail(BAD_OPTION, "%s %s: is no file, and what is written takes the place of what is there; name one",
                                    option, path);
    FilePlace place = { about.st_dev, about.st_ino };
    if (!bsearch(&place, p->read, (size_t)p->reads, sizeof place, by_place)) return OK;
    return fail(BAD_OPTION, "%s %s: is read as well, and would be lost; name another file", option, path);
}

/* Of a row of shards those that are there now */
static Status output_check(const Places *p, const CleanPlan *plan)
{
    char path[1100];
    struct stat about;
    for (int64_t number = 0; ; number++) {
        TRY(write_path(path, sizeof path, plan, number));
        TRY(path_check(p, "--output", path, false));
        if ((!plan->folder && !plan->shard_bytes) || stat(path, &about)) return OK;
    }
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Neither has to be there yet: equal names in one folder */
static bool same(const char *a, const char *b)
{
    char folder[2][1100];
    struct stat x, y;
    if (!strcmp(a, b)) return true;
    if (!stat(a, &x) && !stat(b, &y)) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    if (strcmp(name_of(a), name_of(b)) != 0) return false;
    snprintf(folder[0], sizeof folder[0], "%.*s.", (int)(name_of(a) - a), a);
    snprintf(folder[1], sizeof folder[1], "%.*s.", (int)(name_of(b) - b), b);
    return !stat(folder[0], &x) && !stat(folder[1], &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void target_add(Places *p, const char *option, const char *path, bool straight)
{
    if (path) p->target[p->targets++] = (Target){ option, path, straight };
}

static void targets_find(Places *p, const CleanPlan *plan)
{
    bool one = !plan->folder && !plan->shard_bytes;
    if (plan->report) report_page_path(p->page, sizeof p->page, plan->report);
    target_add(p, "--report", plan->report, true);
    target_add(p, "the page of --report", plan->report ? p->page : NULL, true);
    if (plan->sample) return;
    target_add(p, "--output", one ? plan->output : NULL, false);
    target_add(p, "--dropped", plan->dropped, false);
    target_add(p, "--clusters", plan->clusters, false);
    target_add(p, "--pairs", plan->pairs, false);
}

static Status targets_check(const Places *p)
{
    for (int i = 0; i < p->targets; i++) {
        const Target *t = &p->target[i];
        TRY(path_check(p, t->option, t->path, t->straight));
        for (int k = 0; k < i; k++)
            if (same(t->path, p->target[k].path))
                return fail(BAD_OPTION, "%s %s: is where %s goes; name another file", t->option, t->path, p->target[k].option);
    }
    return OK;
}

Status clean_paths_check(const CleanPlan *plan)
{
    Places p = { 0 };
    Status status = reads_find(&p, plan);
    targets_find(&p, plan);
    if (status == OK) status = targets_check(&p);
    if (status == OK && !plan->sample) status = output_check(&p, plan);
    free(p.read);
    return status;
}
