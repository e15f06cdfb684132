/* The events of all ranks go to rank 0, which writes them as JSON and adds them up for the table. */
#include "train/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/seam.h"
#include "train/rank_peak.h"

/* Of 96 bytes each; a step of GPT-2 124M has about a thousand for each micro-batch. */
enum { EVENTS = 100000, ROWS = 128 };
/* Not the first step, which is slower, nor the second, whose data may not have been read ahead. */
enum { FIRST = 3, STEPS = 3 };

/* ---- the steps ---- */

Status profile_open(Profile *p, const Trainer *t)
{
    const TrainConfig *config = t->config;
    *p = (Profile){ .file = -1 };
    if (!config->profile) return OK;
    int64_t first = config->profile_start ? config->profile_start : t->run.step + FIRST;
    int64_t last  = config->profile_end ? config->profile_end : first + STEPS - 1;
    if (last < first)
        return fail(BAD_OPTION, "--profile-step-end %lld is before --profile-step-start %lld",
                    (long long)last, (long long)first);
    if (first <= t->run.step || last > t->run.steps)
        return fail(BAD_OPTION, "--profile: this run has the steps %lld to %lld, and %lld to %lld were to be "
                    "profiled; give --profile-step-start and --profile-step-end within them",
                    (long long)t->run.step + 1, (long long)t->run.steps, (long long)first, (long long)last);
    TRY(trace_open(&p->trace, EVENTS));
    p->first = first, p->last = last;
    if (t->mesh.rank != 0) return OK;
    p->file = open(config->profile, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (p->file >= 0) return OK;
    return fail(BAD_FILE, "--profile %s cannot be opened: %s; give a file that can be written to",
                config->profile, strerror(errno));
}

void profile_begin(Profile *p, Trainer *t)
{
    int64_t step = t->run.step + 1;
    if (p->first == 0 || step < p->first || step > p->last) return;
    /* Hosts have clocks of their own, whose zero is this moment. */
    if (step == p->first) {
        comm_barrier(t->comms.world);                                                  /* <-> world */
        p->clock = seam.clock();
    }
    p->trace.step = (int)step;
    p->begun = seam.clock();
    thread_context()->trace = &p->trace;
}

void profile_end(Profile *p, const Trainer *t)
{
    char name[32];
    if (!thread_context()->trace) return;
    snprintf(name, sizeof name, "step %lld", (long long)t->run.step);
    trace_add(&p->trace, TRACE_STEP, NULL, name, p->begun, 0, 0);
    thread_context()->trace = NULL;
}

/* ---- the file ---- */

/* Of one name on all ranks. */
typedef struct { char name[40]; TraceKind kind; double calls, seconds, flops, bytes; } Row;
typedef struct {
    FILE   *out;
    const Trainer *trainer;
    int64_t clock, lost;
    Row     row[ROWS];
    int     rows;
} Writing;

/* What ranks send: this, and then the events. */
typedef struct { int64_t clock, lost, count; MeshSize at; } Header;

static void row_add(Writing *w, const TraceEvent *e)
{
    int i = 0;
    const char *name = e->kind == TRACE_STEP ? "step" : e->name;
    while (i < w->rows && (w->row[i].kind != e->kind || strcmp(w->row[i].name, name) != 0)) i++;
    if (i == ROWS) return;
    if (i == w->rows) {
        w->row[w->rows++] = (Row){ .kind = e->kind };
        snprintf(w->row[i].name, sizeof w->row[i].name, "%s", name);
    }
    w->row[i].calls   += 1;
    w->row[i].seconds += 1e-9 * (double)e->own;
    w->row[i].flops   += e->flops;
    w->row[i].bytes   += e->bytes;
}

static void name_thread(FILE *out, int rank, int thread, const char *name)
{
    fprintf(out, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,"
            "\"args\":{\"name\":\"%s\"}},\n", rank, thread, name);
}

/* The rows of a rank in the picture: steps and what they hold, and below messages that overlap with it. */
static void name_rank(FILE *out, int rank, MeshSize at)
{
    fprintf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":"
            "{\"name\":\"rank %d: pp %d, dp %d, cp %d, tp %d\"}},\n", rank, rank, at.pp, at.dp, at.cp, at.tp);
    name_thread(out, rank, 0, "operations and waits");
    name_thread(out, rank, 1, "messages");
}

static void event_write(FILE *out, int rank, const TraceEvent *e, int64_t clock)
{
    static const char *const category[] = { "op", "wait", "message", "step" };
    fprintf(out, "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,"
            "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%d",
            e->name, category[e->kind], rank, e->kind == TRACE_MESSAGE, 1e-3 * (double)(e->begin - clock),
            1e-3 * (double)(e->end - e->begin), e->step);
    if (e->flops > 0) fprintf(out, ",\"flops\":%.0f", e->flops);
    if (e->bytes > 0) fprintf(out, ",\"bytes\":%.0f", e->bytes);
    fprintf(out, "}},\n");
}

static void rank_write(void *context, int rank, const void *data, size_t bytes)
{
    Writing *w = context;
    Header   header;
    TraceEvent event;
    CHECK(bytes >= sizeof header, "a profile of %zu bytes from rank %d", bytes, rank);
    memcpy(&header, data, sizeof header);
    w->lost += header.lost;
    name_rank(w->out, rank, header.at);
    for (int64_t i = 0; i < header.count; i++) {
        memcpy(&event, (const char *)data + sizeof header + (size_t)i * sizeof event, sizeof event);
        event_write(w->out, rank, &event, header.clock);
        row_add(w, &event);
    }
}

/* ---- the table ---- */

static int slowest_first(const void *a, const void *b)
{
    double x = ((const Row *)a)->seconds, y = ((const Row *)b)->seconds;
    return (x < y) - (x > y);
}

/* The time that the work of an op takes at least, as a share of the time that it took. What stays in a cache
 * may be faster than memory, and then the share is above 1. */
static double share_of_limit(const Row *r, const RankPeak *peak)
{
    double compute = peak->flops > 0 ? r->flops / (peak->flops / peak->ranks) : 0;
    double memory  = peak->host.copy > 0 ? r->bytes / (peak->host.copy / peak->ranks) : 0;
    return (compute > memory ? compute : memory) / r->seconds;
}

static void row_print(const Row *r, double steps, double total, const RankPeak *peak)
{
    char flops[24] = "", bytes[24] = "", limit[24] = "";
    bool op = r->kind == TRACE_OP;
    if (r->flops > 0) snprintf(flops, sizeof flops, "%.1f", 1e-9 * r->flops / r->seconds);
    if (r->bytes > 0) snprintf(bytes, sizeof bytes, "%.1f", 1e-9 * r->bytes / r->seconds);
    if (op && peak->flops > 0 && r->seconds > 0)
        snprintf(limit, sizeof limit, "%.1f %%", 100 * share_of_limit(r, peak));
    printf("%-5s%-28s %9.1f %10.3f %7.1f %% %9s %9s %9s\n", op ? "" : "wait ", r->name, r->calls / steps,
           1e3 * r->seconds / steps, 100 * r->seconds / total, flops, bytes, limit);
}

/* Means over ranks and steps. */
static void table_print(Writing *w, const Profile *p)
{
    const Trainer *t = w->trainer;
    RankPeak peak = rank_peak(t, true);
    char source[320], memory[40] = "";
    double steps = (double)(p->last - p->first + 1) * t->mesh.world, total = 0, parts = 0;
    for (int i = 0; i < w->rows; i++) total += w->row[i].kind == TRACE_STEP ? w->row[i].seconds : 0;
    qsort(w->row, (size_t)w->rows, sizeof w->row[0], slowest_first);
    log_progress_end();
    printf("profile of the steps %lld to %lld, a rank's mean: %s\n", (long long)p->first, (long long)p->last,
           t->config->profile);
    printf("%-33s %9s %10s %9s %9s %9s %9s\n", "operation", "calls", "ms", "share", "GFLOP/s", "GB/s",
           "of limit");
    for (int i = 0; i < w->rows; i++) {
        if (w->row[i].kind != TRACE_OP && w->row[i].kind != TRACE_WAIT) continue;
        row_print(&w->row[i], steps, total, &peak);
        parts += w->row[i].seconds;
    }
    printf("%-33s %9s %10.3f %7.1f %%\n", "in no operation", "", 1e3 * (total - parts) / steps,
           100 * (total - parts) / total);
    printf("%-33s %9s %10.3f %7.1f %%\n", "step", "", 1e3 * total / steps, 100.0);
    if (peak.host.copy > 0)
        snprintf(memory, sizeof memory, "%.1f GB/s, ", 1e-9 * peak.host.copy / peak.ranks);
    if (peak.flops > 0)
        printf("limit of a rank: %.1f GFLOP/s in %s, %s%s\n", 1e-9 * peak.flops / peak.ranks,
               peak_type_name(peak.type), memory, rank_peak_source(source, &peak));
    if (w->lost > 0)
        printf("%lld events are missing, since a rank keeps %d; fewer steps (--profile-step-end) have "
               "fewer\n",
               (long long)w->lost, EVENTS);
    fflush(stdout);
}

/* ---- the end ---- */

static void write_failed(const Trainer *t)
{
    log_progress_end();
    log_line("--profile %s cannot be written: %s; training continues", t->config->profile, strerror(errno));
}

/* Header and events of this rank in one piece; the caller frees it. */
static char *profile_pack(const Profile *p, const Trainer *t, size_t *bytes)
{
    Header header = { p->clock, p->trace.lost, p->trace.count, t->mesh.at };
    *bytes = sizeof header + (size_t)p->trace.count * sizeof *p->trace.event;
    char *data = malloc(*bytes);
    CHECK(data, "no memory for a profile of %zu bytes", *bytes);
    memcpy(data, &header, sizeof header);
    memcpy(data + sizeof header, p->trace.event, *bytes - sizeof header);
    return data;
}

static void profile_file(Profile *p, Trainer *t)
{
    size_t  bytes;
    char   *data = profile_pack(p, t, &bytes);
    Writing w = { .trainer = t };
    bool    first = t->mesh.rank == 0, written = true;
    if (first) CHECK((w.out = fdopen(p->file, "w")) != NULL, "fdopen: %s", strerror(errno));
    /* only now: a run that is interrupted before leaves an older file as it was (a pipe has no length) */
    if (first && ftruncate(p->file, 0) != 0 && errno != EINVAL) write_failed(t);
    if (first) fprintf(w.out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    comm_collect(t->comms.world, data, bytes, rank_write, &w);                          /* <-> world */
    free(data);
    if (!first) return;
    /* JSON has no comma after the last element. */
    fprintf(w.out, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,"
            "\"args\":{\"sort_index\":0}}\n]}\n");
    written = !ferror(w.out);
    written = fclose(w.out) == 0 && written;
    p->file = -1;
    if (!written) write_failed(t);
    table_print(&w, p);
}

bool profile_write(Profile *p, Trainer *t)
{
    if (p->first == 0 || t->run.step != p->last) return false;
    watchdog_work(t->comms.world, "writing the profile");
    profile_file(p, t);                                                           /* <-> world */
    watchdog_work(t->comms.world, NULL);
    trace_close(&p->trace);
    p->first = 0;
    return true;
}

void profile_close(Profile *p, const Trainer *t)
{
    thread_context()->trace = NULL;
    if (p->first > 0 && t->mesh.rank == 0)
        log_line("--profile %s: the run ended after step %lld, before the steps %lld to %lld were done: "
                 "nothing is written", t->config->profile, (long long)t->run.step, (long long)p->first,
                 (long long)p->last);
    if (p->file >= 0) close(p->file);
    trace_close(&p->trace);
    *p = (Profile){ .file = -1 };
}
