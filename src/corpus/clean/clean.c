/* The three stages of a run in order, and its work directory: who may use it, what identifies the run that
 * is kept there, and when it is removed. */
#include "corpus/clean/clean.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/seam.h"
#include "corpus/clean/scan.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "corpus/clean/eta.h"
#include "corpus/clean/path_check.h"
#include "corpus/clean/report.h"
#include "corpus/clean/resolve_duplicates.h"
#include "corpus/clean/write.h"

typedef struct {
    const CleanPlan *plan;
    char             folder[1024];          /* the work directory */
    Buffer           identity;              /* text: all that the result depends on */
    DocumentFilter   filter;
    CleanCounts     *counts;
    ProgressFile     progress;
    DocumentStore   *store;
    DuplicateSets    duplicates;
    int              lock;                  /* descriptor of the lock file; -1: not open */
    bool             claimed;               /* this process alone uses the directory */
} CleanRun;

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

/* Paths are of any bytes, and the progress file is JSON: where a text is not UTF-8, bytes beyond ASCII become
 * \xHH. */
static Status identity_to_utf8(Buffer *text)
{
    Buffer out = { 0 };
    Status status = OK;
    if (utf8_broken(text->text, text->bytes) < 0) return OK;
    for (int64_t i = 0; status == OK && i < text->bytes; i++) {
        unsigned char c = (unsigned char)text->text[i];
        status = c < 0x80 ? buffer_add(&out, &text->text[i], 1) : buffer_format(&out, "\\x%02x", c);
    }
    buffer_free(text);
    *text = out;
    return status;
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
    TRY(identity_to_utf8(&r->identity));
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
    CleanScan scan = { .plan = r->plan, .filter = &r->filter, .folder = r->plan->sample ? NULL : r->folder,
                       .identity = r->identity.text, .store = r->store, .progress = r->progress,
                       .counts = r->counts };
    TRY(clean_scan(&scan));
    if (!r->counts->in.documents) {
        TRY(progress_file_forget(r->folder));                          /* there is nothing to resume */
        return fail(BAD_FILE, "%s: no documents in it", r->plan->path[0]);
    }
    TRY(clean_resolve_duplicates(&r->duplicates, &r->filter, r->store, r->folder));
    TRY(write_all(r->counts, &r->filter, r->store, &r->duplicates));
    MinHashCounts minhash = r->filter.minhash ? minhash_counts(r->filter.minhash) : (MinHashCounts){ 0 };
    return report_write(&r->filter, r->counts, r->filter.minhash ? &minhash : NULL);
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
    TRY(clean_paths_check(r->plan));
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
    duplicate_sets_close(&r->duplicates);
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
