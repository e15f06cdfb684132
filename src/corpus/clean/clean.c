#include "corpus/clean/clean.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "corpus/clean/scan.h"
#include "corpus/read/json_text.h"
#include "corpus/clean/eta.h"
#include "corpus/clean/path_check.h"
#include "corpus/clean/report.h"
#include "corpus/clean/resolve_duplicates.h"
#include "corpus/clean/write.h"

typedef struct {
    const CleanPlan *plan;
    char     folder[1024];                  /* of work */
    Buffer   identity;
    DocumentFilter    filter;
    CleanCounts   *counts;
    ProgressFile   progress;
    DocumentStore   *store;
    DuplicateSets  duplicates;
    CleanWritten  written;
    int      lock;                          /* -1: not open */
    bool     claimed;                       /* the folder is ours alone */
} CleanRun;

/* ---- the work folder ---- */

/* A folder of that name which is somebody's is left alone. Empty, or with a lock, which may have come just now, it is ours. */
static bool folder_ours(const char *folder, const char *lock)
{
    return file_exists(lock) || rmdir(folder) == 0 || errno == ENOENT || file_exists(lock);
}

/* *held: the lock is still the one of that name. A run that ended may have taken it away with the folder meanwhile. */
static Status lock_take(CleanRun *r, const char *path, bool *held)
{
    struct stat mine, there;
    *held = false;
    r->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->lock < 0 && errno == ENOENT) return OK;
    if (r->lock < 0) return fail(IO_FAILED, "%s: cannot be opened: %m", path);
    if (flock(r->lock, LOCK_EX | LOCK_NB)) return fail(BAD_FILE, "%s: another run works there; wait for it, or name --output otherwise", r->folder);
    *held = !fstat(r->lock, &mine) && !stat(path, &there) && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
    if (*held) return OK;
    close(r->lock);
    r->lock = -1;
    return OK;
}

/* One run at a time. A run that just ends takes its lock away before its other files: that is over in a moment. */
static Status folder_claim(CleanRun *r)
{
    enum { LOOKS = 30 };
    static const struct timespec moment = { .tv_nsec = 10000000 };
    char path[1100];
    snprintf(path, sizeof path, "%s/lock", r->folder);
    while (!r->claimed) {
        bool ours = false;
        for (int look = 0; look < LOOKS && !ours; look++) {
            if (look) nanosleep(&moment, NULL);
            TRY(folder_make(r->folder));
            ours = folder_ours(r->folder, path);
        }
        if (!ours)
            return fail(BAD_FILE, "%s: is wanted to work in, and holds other files; name --output otherwise", r->folder);
        TRY(folder_make(r->folder));
        TRY(lock_take(r, path, &r->claimed));
    }
    return OK;
}

/* Beside the output; a sample's is one that goes at its end */
static Status folder_make_work(CleanRun *r)
{
    const CleanPlan *p = r->plan;
    const char *place = getenv("TMPDIR");
    if (p->sample) {
        snprintf(r->folder, sizeof r->folder, "%s/jotun-clean-XXXXXX", place && *place ? place : "/tmp");
        r->claimed = mkdtemp(r->folder);
        return r->claimed ? OK : fail(IO_FAILED, "%s: cannot be made: %m", r->folder);
    }
    size_t bytes = strlen(p->output);
    while (bytes > 1 && p->output[bytes - 1] == '/') bytes--;
    if ((size_t)snprintf(r->folder, sizeof r->folder, "%.*s.work", (int)bytes, p->output) >= sizeof r->folder - 16)
        return fail(BAD_OPTION, "--output %.80s...: longer than a path may be", p->output);
    TRY(folder_claim(r));
    bool standard = false;                      /* nobody can read standard input twice */
    for (int i = 0; i < p->paths; i++) standard = standard || !strcmp(p->path[i], "-");
    return p->restart || standard ? progress_file_forget(r->folder) : OK;
}

static Status file_line(Buffer *out, const char *what, const char *path)
{
    struct stat about;
    if (!strcmp(path, "-")) return OK;
    if (stat(path, &about)) return fail(BAD_FILE, "%s: cannot be read: %m", path);
    TRY(buffer_add(out, what, (int64_t)strlen(what)));
    TRY(buffer_add(out, path, (int64_t)strlen(path)));
    return json_text_words(out, ", %lld bytes of %lld.%09ld\n", (long long)about.st_size, (long long)about.st_mtim.tv_sec,
                      about.st_mtim.tv_nsec);
}

/* All that the result depends on: options, and the files as they are now */
static Status identity_make(CleanRun *r)
{
    const CleanPlan *p = r->plan;
    TRY(buffer_add(&r->identity, p->identity, (int64_t)strlen(p->identity)));
    if (p->model)     TRY(file_line(&r->identity, "model ", p->model));
    if (p->bad_words) TRY(file_line(&r->identity, "bad words ", p->bad_words));
    for (int i = 0; i < p->contamination.paths; i++) TRY(file_line(&r->identity, "test set ", p->contamination.path[i]));
    for (int i = 0; i < p->paths; i++) TRY(file_line(&r->identity, "input ", p->path[i]));
    return buffer_add(&r->identity, "", 1);
}

static Status work_open(CleanRun *r)
{
    bool found = false;
    r->counts = clean_counts_new(r->filter.languages + 1);
    if (!r->counts) return fail(NO_MEMORY, "no memory to count");
    TRY(identity_make(r));
    if (!r->plan->sample) TRY(progress_file_read(&r->progress, r->counts, &found, r->folder, r->identity.text));
    if (found) log_line("clean: goes on in %s, %" PRId64 " documents are there", r->folder, r->progress.size.documents);
    return document_store_open(&r->store, r->folder, r->filter.keys, r->progress.size);
}

/* ---- the three parts ---- */

static Status parts_do(CleanRun *r)
{
    CleanScan g = { .plan = r->plan, .filter = &r->filter, .folder = r->plan->sample ? NULL : r->folder, .identity = r->identity.text,
                 .store = r->store, .progress = r->progress, .counts = r->counts };
    TRY(clean_scan(&g));
    if (!r->counts->in.documents) {
        TRY(progress_file_forget(r->folder));                          /* nothing to go on with */
        return fail(BAD_FILE, "%s: no documents in it", r->plan->path[0]);
    }
    TRY(clean_resolve_duplicates(&r->duplicates, &r->filter, r->store, r->folder));
    TRY(write_all(&r->written, r->counts, &r->filter, r->store, &r->duplicates));
    MinHashCounts near = r->filter.near ? minhash_counts(r->filter.near) : (MinHashCounts){ 0 };
    return report_write(&r->filter, r->counts, r->filter.near ? &near : NULL);
}

static void sums_check(const CleanCounts *t)
{
    Count sum = t->kept;
    for (int i = 0; i < DROP_REASONS; i++) {
        sum.documents += t->dropped[i].documents;
        sum.bytes     += t->dropped[i].bytes;
    }
    CHECK(sum.documents == t->in.documents && sum.bytes == t->in.bytes, "%" PRId64 " documents of %" PRId64 " bytes came, %" PRId64
          " of %" PRId64 " are accounted for", t->in.documents, t->in.bytes, sum.documents, sum.bytes);
}

static Status run_all(CleanRun *r)
{
    TRY(clean_paths_check(r->plan));
    TRY(folder_make_work(r));
    TRY(document_filter_open(&r->filter, r->plan, r->folder));
    TRY(work_open(r));
    TRY(parts_do(r));
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
    char   time[24];
    CleanRun    r = { .plan = plan, .lock = -1 };
    Eta   eta = eta_begin("clean", 0, 0);
    Status status = run_all(&r);
    log_progress_end();
    if (status == OK) {
        report_print(stdout, plan, r.counts);
        log_line("clean: %" PRId64 " of %" PRId64 " documents in %s, %.1f MB/s: %s", r.counts->kept.documents, r.counts->in.documents,
                 log_time(time, eta_seconds(&eta)), (double)r.counts->in.bytes / eta_seconds(&eta) * 1e-6,
                 plan->sample ? "a sample, nothing was written" : plan->output);
    }
    Status removed = OK;
    if (r.claimed && (status == OK || plan->sample || !progress_file_there(r.folder))) removed = folder_remove(r.folder);
    run_close(&r);
    return status == OK ? removed : status;
}
