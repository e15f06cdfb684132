/* The three stages of a run in order, what it may read and write, and its work directory: who may use it,
 * what identifies the run that is kept there, and when it is removed. */
#include "corpus/clean/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"
#include "corpus/clean/eta.h"

/* ---- checks before anything is read ---- */

/* No file is both read and written, and no two outputs are the same file; otherwise a corpus would be
 * replaced by its own clean documents. An input is identified by device and inode, so that a symbolic or
 * hard link to it is found too; an output need not exist yet, so outputs are also compared by directory and
 * name. */

typedef struct { dev_t device; ino_t number; } FileId;
typedef struct { FileId *file; int64_t count; } InputIds;                /* sorted by by_file_id */

static int by_file_id(const void *a, const void *b)
{
    const FileId *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Only regular files: a pipe or a device that is read cannot be overwritten by a rename. */
static void input_add(InputIds *inputs, const char *path)
{
    struct stat info;
    if (!path || (strcmp(path, "-") ? stat(path, &info) : fstat(0, &info)) || !S_ISREG(info.st_mode)) return;
    inputs->file[inputs->count++] = (FileId){ info.st_dev, info.st_ino };
}

static Status inputs_collect(InputIds *inputs, const CleanPlan *plan)
{
    size_t most  = (size_t)plan->paths + (size_t)plan->contamination.paths + 2;
    inputs->file = malloc(most * sizeof *inputs->file);
    if (!inputs->file) return fail(NO_MEMORY, "no memory to compare %d input files", plan->paths);
    for (int i = 0; i < plan->paths; i++) input_add(inputs, plan->path[i]);
    for (int i = 0; i < plan->contamination.paths; i++) input_add(inputs, plan->contamination.path[i]);
    input_add(inputs, plan->model);
    input_add(inputs, plan->bad_words);
    qsort(inputs->file, (size_t)inputs->count, sizeof *inputs->file, by_file_id);
    return OK;
}

static Status path_check(const InputIds *inputs, const char *option, const char *path, bool device_allowed)
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
    if (!bsearch(&id, inputs->file, (size_t)inputs->count, sizeof id, by_file_id)) return OK;
    return fail(BAD_OPTION, "%s %s: is also an input and would be overwritten; give another file", option,
                path);
}

/* The output, or the shards of it that exist now; their numbers have no gaps, so the first missing one
 * ends the search. */
static Status shards_check(const InputIds *inputs, const CleanPlan *plan)
{
    char path[1100];
    struct stat info;
    for (int64_t number = 0; ; number++) {
        TRY(write_path(path, sizeof path, plan, number));
        TRY(path_check(inputs, "--output", path, false));
        if ((!plan->folder && !plan->shard_bytes) || stat(path, &info)) return OK;
    }
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
    const char *name_a = path_leaf(a, strlen(a)), *name_b = path_leaf(b, strlen(b));
    if (strcmp(name_a, name_b) != 0) return false;
    snprintf(parent[0], sizeof parent[0], "%.*s.", (int)(name_a - a), a);
    snprintf(parent[1], sizeof parent[1], "%.*s.", (int)(name_b - b), b);
    return !stat(parent[0], &x) && !stat(parent[1], &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Shards are left to shards_check, as their number is not known. A sample writes only its report. The report
 * may be /dev/stdout, which is written to directly; other outputs are renamed into place. */
static Status outputs_check(const InputIds *inputs, const CleanPlan *plan)
{
    char page[1100];
    bool one = !plan->folder && !plan->shard_bytes;
    if (plan->report) report_page_path(page, sizeof page, plan->report);
    const struct { const char *option, *path; } output[] = {
        { "--report", plan->report }, { "the page of --report", plan->report ? page : NULL },
        { "--output", one ? plan->output : NULL }, { "--dropped", plan->dropped },
        { "--clusters", plan->clusters }, { "--pairs", plan->pairs } };
    for (int i = 0; i < (plan->sample ? 2 : COUNT(output)); i++) {
        const char *path = output[i].path;
        if (!path) continue;
        TRY(path_check(inputs, output[i].option, path, i < 2));
        for (int k = 0; k < i; k++)
            if (output[k].path && same_file(path, output[k].path))
                return fail(BAD_OPTION, "%s %s: is also the file of %s; give another file", output[i].option,
                            path, output[k].option);
    }
    return OK;
}

static Status paths_check(const CleanPlan *plan)
{
    InputIds inputs = { 0 };
    Status status = inputs_collect(&inputs, plan);
    if (status == OK) status = outputs_check(&inputs, plan);
    if (status == OK && !plan->sample) status = shards_check(&inputs, plan);
    free(inputs.file);
    return status;
}

/* ---- the work directory ---- */

static const char *const lock_name = "lock";

/* A directory of that name that holds somebody's files is left alone. It may be used if it has a lock file
 * or is empty. The lock is looked for again at the end, because another run may have created it after the
 * first look. */
static bool folder_usable(const char *folder, const char *lock)
{
    return file_exists(lock) || rmdir(folder) == 0 || errno == ENOENT || file_exists(lock);
}

/* *held: this process has locked the file that is at `path` now. A run that ends removes the directory
 * with its lock; a lock on the removed file protects nothing, so device and inode of both are compared and
 * the caller tries again. */
static Status lock_try(CleanRun *r, const char *path, bool *held)
{
    struct stat mine, at_path;
    *held = false;
    r->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->lock < 0 && errno == ENOENT) return OK;
    if (r->lock < 0) return fail(IO_FAILED, "%s: cannot be opened: %m", path);
    TRY(file_lock(r->lock, path, held));
    if (!*held)
        return fail(BAD_FILE, "%s: another run is working in this directory; wait for it, or give another"
                    " --output", r->folder);
    *held = !fstat(r->lock, &mine) && !stat(path, &at_path) && mine.st_dev == at_path.st_dev &&
            mine.st_ino == at_path.st_ino;
    if (*held) return OK;
    close(r->lock);
    r->lock = -1;
    return OK;
}

/* Locks the work directory for this process. */
static Status folder_claim(CleanRun *r)
{
    char path[1024];
    TRY(path_join(path, r->folder, lock_name));
    while (!r->claimed) {
        TRY(folder_make(r->folder));
        if (!folder_usable(r->folder, path))
            return fail(BAD_FILE, "%s: is needed as work directory and holds other files; move them, or give"
                        " another --output", r->folder);
        TRY(folder_make(r->folder));
        TRY(lock_try(r, path, &r->claimed));
    }
    return OK;
}

/* Removes the work directory, its lock as the last file: a run that is killed meanwhile leaves a directory
 * that counts as jotun's. Another run may enter it once the lock is removed, so it is no fault if it then
 * exists still. */
static Status folder_remove_work(const char *folder)
{
    char path[1024];
    DIR *stream = opendir(folder);
    if (!stream) return fail(IO_FAILED, "%s: cannot be read: %m", folder);
    Status status = progress_file_forget(folder);
    for (struct dirent *entry; status == OK && (entry = readdir(stream)) != NULL;) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || !strcmp(entry->d_name, lock_name))
            continue;
        status = path_join(path, folder, entry->d_name);
        if (status == OK && seam.remove(path)) status = fail(IO_FAILED, "%s: cannot be removed: %m", path);
    }
    closedir(stream);
    if (status == OK) status = path_join(path, folder, lock_name);
    if (status == OK && seam.remove(path) && errno != ENOENT)
        status = fail(IO_FAILED, "%s: cannot be removed: %m", path);
    if (status == OK && seam.remove(folder) && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        status = fail(IO_FAILED, "%s: cannot be removed: %m", folder);
    return status;
}

/* The work directory is beside the output, where there is space for the text, and has its name, so that
 * the same command finds it again. A sample has a temporary one, which is always removed. */
static Status folder_make_work(CleanRun *r)
{
    const CleanPlan *p = r->plan;
    const char *temporary = getenv("TMPDIR");
    if (p->sample) {
        snprintf(r->folder, sizeof r->folder, "%s/jotun-clean-XXXXXX",
                 temporary && *temporary ? temporary : "/tmp");
        r->claimed = mkdtemp(r->folder);
        return r->claimed ? OK : fail(IO_FAILED, "%s: cannot be made: %m", r->folder);
    }
    size_t bytes = strlen(p->output);
    while (bytes > 1 && p->output[bytes - 1] == '/') bytes--;
    if ((size_t)snprintf(r->folder, sizeof r->folder, "%.*s.work", (int)bytes, p->output) >=
        sizeof r->folder - 16)
        return fail(BAD_OPTION, "--output %.80s...: the path is too long, give a shorter one", p->output);
    TRY(folder_claim(r));
    /* Standard input cannot be read a second time, so no run resumes on it. */
    bool standard = false;
    for (int i = 0; i < p->paths; i++) standard = standard || !strcmp(p->path[i], "-");
    return p->restart || standard ? progress_file_forget(r->folder) : OK;
}

/* One line about a file the result depends on. A changed size or modification time makes it another run. */
static Status identity_add_file(Buffer *out, const char *what, const char *path)
{
    struct stat about;
    if (!strcmp(path, "-")) return OK;
    if (stat(path, &about)) return fail(BAD_FILE, "%s: cannot be read: %m", path);
    TRY(buffer_add(out, what, (int64_t)strlen(what)));
    TRY(buffer_add(out, path, (int64_t)strlen(path)));
    return buffer_format(out, ", %lld bytes of %lld.%09ld\n", (long long)about.st_size,
                            (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
}

/* All that the result depends on: the options, and the size and time of each file. Workers and memory are
 * not in it, because they change no byte of the output. */
static Status identity_make(CleanRun *r)
{
    const CleanPlan *p = r->plan;
    TRY(buffer_add(&r->identity, p->identity, (int64_t)strlen(p->identity)));
    if (p->model)     TRY(identity_add_file(&r->identity, "model ", p->model));
    if (p->bad_words) TRY(identity_add_file(&r->identity, "bad words ", p->bad_words));
    for (int i = 0; i < p->contamination.paths; i++)
        TRY(identity_add_file(&r->identity, "test set ", p->contamination.path[i]));
    for (int i = 0; i < p->paths; i++) TRY(identity_add_file(&r->identity, "input ", p->path[i]));
    return buffer_add(&r->identity, "", 1);
}

static Status work_open(CleanRun *r)
{
    bool found = false;
    r->counts = clean_counts_new(r->filter.languages + 1);
    if (!r->counts) return fail(NO_MEMORY, "no memory to count");
    TRY(identity_make(r));
    if (!r->plan->sample)
        TRY(progress_file_read(&r->progress, r->counts, &found, r->folder, r->identity.text));
    if (found)
        log_line("clean: resumes in %s, which has %" PRId64 " documents", r->folder,
                 r->progress.size.documents);
    return document_store_open(&r->store, r->folder, r->filter.keys, r->progress.size);
}

/* ---- the three stages ---- */

static Status stages_run(CleanRun *r)
{
    TRY(clean_scan(r));
    if (!r->counts->in.documents) {
        TRY(progress_file_forget(r->folder));                          /* there is nothing to resume */
        return fail(BAD_FILE, "%s: no documents in it", r->plan->path[0]);
    }
    TRY(clean_resolve_duplicates(r));
    TRY(clean_write(r));
    return report_write(r);
}

/* Every document that was read is either kept or counted under exactly one reason, to the byte. */
static void sums_check(const CleanCounts *t)
{
    Count sum = t->kept;
    for (int i = 0; i < DROP_REASONS; i++) {
        sum.documents += t->dropped[i].documents;
        sum.bytes     += t->dropped[i].bytes;
    }
    CHECK(sum.documents == t->in.documents && sum.bytes == t->in.bytes,
          "%" PRId64 " documents of %" PRId64 " bytes were read, %" PRId64 " of %" PRId64
          " are counted as kept or dropped",
          t->in.documents, t->in.bytes, sum.documents, sum.bytes);
}

/* Paths are checked before the work directory is made, so that a mistaken command creates nothing. */
static Status run_all(CleanRun *r)
{
    TRY(paths_check(r->plan));
    TRY(folder_make_work(r));
    TRY(document_filter_open(&r->filter, r->plan, r->folder));
    TRY(work_open(r));
    TRY(stages_run(r));
    sums_check(r->counts);
    return OK;
}

static void run_close(CleanRun *r)
{
    if (r->lock >= 0) close(r->lock);
    exact_close(r->duplicates.exact);
    exact_close(r->duplicates.parts);
    free(r->duplicates.jaccard);
    document_filter_close(&r->filter);
    document_store_close(r->store);
    buffer_free(&r->identity);
    free(r->counts);
}

Status clean_run(const CleanPlan *plan)
{
    char     time[24];
    CleanRun r = { .plan = plan, .lock = -1 };
    Eta      eta = eta_begin("clean", 0, 0);
    Status status = run_all(&r);
    log_progress_end();
    if (status == OK) {
        report_print(stdout, plan, r.counts);
        log_line("clean: %" PRId64 " of %" PRId64 " documents in %s, %.1f MB/s: %s", r.counts->kept.documents,
                 r.counts->in.documents, log_time(time, eta_seconds(&eta)),
                 (double)r.counts->in.bytes / eta_seconds(&eta) * 1e-6,
                 plan->sample ? "a sample, nothing was written" : plan->output);
    }
    /* The directory is kept only where a later run can resume in it. It is removed before the lock is
     * closed, so that no other run enters it meanwhile. */
    Status removed = OK;
    if (r.claimed && (status == OK || plan->sample || !progress_file_there(r.folder)))
        removed = folder_remove_work(r.folder);
    run_close(&r);
    return status == OK ? removed : status;
}
