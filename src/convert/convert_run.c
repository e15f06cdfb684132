/* Gathering tensors window by window, and writing them as safetensors files beside the output's place. */
#include "convert/convert_run.h"
#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/log.h"
#include "base/ordered_pipeline.h"
#include "base/seam.h"
#include "store/safetensors.h"

/* One window is written, one is gathered, and one is ready between them. */
enum { WINDOWS = 3, WINDOW_BYTES = 16 << 20, ROOM_BYTES = 16 << 20, EXPECT_BYTES = 128 << 20 };

/* ---- the output's place ---- */

static Status hidden_name(char part[1024], const char *output)
{
    char folder[1024], name[1024];
    snprintf(folder, sizeof folder, "%s", output);
    snprintf(name, sizeof name, "%s", output);
    if (snprintf(part, 1024, "%.900s/.%.100s.part", dirname(folder), basename(name)) >= 1020)
        return fail(BAD_OPTION, "--output %.80s...: longer than a path may be; give a shorter one", output);
    return OK;
}

Status convert_run_count(ConvertRun *c, const char *folder)
{
    struct statvfs disk;
    char           need[24], have[24];
    c->done = c->total = 0;
    for (int i = 0; i < c->plan->tensors; i++) c->total += c->plan->tensor[i].bytes;
    if (statvfs(folder, &disk) != 0) return OK;                /* the writes will tell */
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (room >= (double)(c->total + ROOM_BYTES)) return OK;
    return fail(IO_FAILED,
                "--output %s: the disk has %s of free space, and the weights need %s; free some, or "
                "give an output on another disk",
                c->output, log_bytes(have, room), log_bytes(need, (double)c->total));
}

static Status taken(const ConvertRun *c)
{
    return fail(BAD_OPTION, "--output %s: is there already; give another path, or remove it", c->output);
}

/* The messages of file operations name the hidden folder; the user knows the option. */
static Status place_refuse(const ConvertRun *c, Status status)
{
    const char *why = fail_text();
    size_t same = strlen(c->part);
    bool named = !strncmp(why, c->part, same) && why[same] == ':';
    return fail(status, "--output %s: %s", c->output, named ? why + same + 2 : why);
}

/* Opens the hidden folder and locks it; -1: there is none. *alone: nobody else holds the lock, or there are
 * no locks here. */
static int part_lock(const ConvertRun *c, bool *alone)
{
    int fd = open(c->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *alone = true;
    if (fd >= 0 && file_lock(fd, c->part, alone) != OK) *alone = true;
    return fd;
}

/* A conversion that was killed has left its folder, which is removed; one under way holds the lock. */
static Status part_take(ConvertRun *c)
{
    bool alone;
    int  fd = part_lock(c, &alone);
    if (fd >= 0) close(fd);
    if (!alone)
        return fail(BAD_OPTION, "another conversion is writing it; wait until it ends, or give another path");
    TRY(folder_remove(c->part));
    TRY(folder_make(c->part));
    c->lock = part_lock(c, &alone);
    return OK;
}

Status convert_run_begin(ConvertRun *c)
{
    TRY(hidden_name(c->part, c->output));
    if (file_exists(c->output) && rmdir(c->output) != 0) return taken(c);
    Status status = part_take(c);
    if (status != OK) return place_refuse(c, status);
    status = convert_run_count(c, c->part);
    return status == OK ? OK : convert_run_finish(c, status);
}

/* Hidden names are of a conversion that was killed, or of one under way, whose lock the writer respects. */
Status convert_run_place(const ConvertRun *c)
{
    bool hidden = true;
    if (!file_exists(c->output)) return OK;
    DIR *folder = opendir(c->output);
    if (!folder) return taken(c);
    for (struct dirent *entry; hidden && (entry = readdir(folder));) hidden = entry->d_name[0] == '.';
    closedir(folder);
    return hidden ? OK : taken(c);
}

Status convert_run_stopped(const ConvertRun *c)
{
    return c->stop && *c->stop ? fail(INTERRUPTED, "stopped by a signal; nothing is written") : OK;
}

Status convert_run_finish(ConvertRun *c, Status status)
{
    Failure failure = { 0 };
    if (status == OK) status = folder_sync(c->part);
    if (status == OK) status = convert_run_stopped(c);                     /* the last look */
    char from[1024];
    snprintf(from, sizeof from, "%s", c->part);
    if (status == OK && c->single) status = path_join(from, c->part, CONVERT_RUN_FILE);
    if (status == OK) status = file_rename(from, c->output);
    if (status == OK && c->single) folder_remove(c->part);
    if (failure_keep(&failure, status) != OK) folder_remove(c->part);
    if (c->lock >= 0) close(c->lock);
    return status == OK ? folder_sync_for(c->output) : failure_report(&failure);
}

/* ---- windows ---- */

/* What the thread that gathers has of its own. */
typedef struct {
    ConvertRun   *c;
    int           tensor, end;             /* the next one, and the one after the last */
    int64_t       first;                   /* the next element of it */
    const ForeignTensor *source;           /* of the tensor, where it is read in order; else NULL */
    ForeignSum   *sum;                     /* which its bytes should have; NULL: none, or it is compared */
    XXH3_state_t *hash;                    /* of what was read of it */
    char         *memory;                  /* [WINDOWS, WINDOW_BYTES] */
    ConvertWindow window[WINDOWS];
    Failure       failure;
} Gathering;

/* Counts what of a window is not finite. */
static void look(ConvertRun *c, const ConvertWindow *w)
{
    const PlanTensor *tensor = w->tensor;
    NotFinite        *found  = &c->not_finite;
    int64_t           count  = dtype_not_finite(w->data, tensor->dtype, w->count);
    if (count == 0) return;
    if (!found->first) found->first = tensor;
    if (tensor == found->first) found->in_first += count;
    found->tensors += tensor != found->last;
    found->elements += count;
    found->last = tensor;
}

/* The disk reads what the next tensor needs while this one is gathered. */
static void tensor_expect(const ConvertRun *c, const PlanTensor *tensor)
{
    for (int i = 0; i < tensor->copies; i++)
        foreign_expect(c->plan->copy[tensor->first + i].from, EXPECT_BYTES / tensor->copies);
}

/* The source where the tensor is the whole of it, in its order; else NULL. */
static const ForeignTensor *source_in_order(const ConvertRun *c, const PlanTensor *tensor)
{
    const PlanCopy *copy = &c->plan->copy[tensor->first];
    if (tensor->copies != 1 || !plan_copy_in_order(tensor, copy) || copy->from_first) return NULL;
    bool whole = foreign_count(copy->from) == plan_count(tensor) && foreign_elements(copy->from, 0);
    return whole ? copy->from : NULL;
}

/* A tensor in the order of its source is verified on the way, another one before. */
static Status tensor_begin(Gathering *g, const PlanTensor *tensor)
{
    ConvertRun *c = g->c;
    if (g->tensor + 1 < g->end) tensor_expect(c, tensor + 1);
    g->source = source_in_order(c, tensor);
    g->sum = g->source ? foreign_sum_of(&c->from->file, g->source->piece->data) : NULL;
    XXH3_64bits_reset(g->hash);
    return g->sum ? OK : plan_verify(c->plan, &c->from->file, tensor, 0, 1);
}

/* Its elements, which are not gathered where they lie in the file as they are written. */
static Status window_gather(Gathering *g, ConvertWindow *w, char *memory)
{
    ConvertRun *c = g->c;
    Dtype       dtype = w->tensor->dtype;
    w->data = memory;
    if (!g->source) {
        plan_gather(c->plan, w->tensor, w->first, w->count, memory, dtype);
        foreign_release(&c->from->file);
        return OK;
    }
    const char *data  = foreign_elements(g->source, w->first);
    int64_t     bytes = w->count * (int64_t)dtype_width(g->source->dtype);
    foreign_fetch(data, bytes);
    if (g->sum) XXH3_64bits_update(g->hash, data, (size_t)bytes);
    w->mapped = g->source->dtype == dtype;
    if (w->mapped) w->data = data;
    else {
        plan_gather(c->plan, w->tensor, w->first, w->count, memory, dtype);
        foreign_forget(data, bytes);
    }
    bool last = w->first + w->count == plan_count(w->tensor);
    return g->sum && last ? foreign_compare(&c->from->file, g->sum, XXH3_64bits_digest(g->hash)) : OK;
}

static bool window_fill(void *context, int slot, int64_t *weight)
{
    Gathering  *g = context;
    ConvertRun *c = g->c;
    (void)weight;
    while (g->tensor < g->end && g->first == plan_count(&c->plan->tensor[g->tensor]))
        g->tensor++, g->first = 0;
    if (g->tensor == g->end || (c->stop && *c->stop)) return false;
    const PlanTensor *tensor = &c->plan->tensor[g->tensor];
    Status status = g->first == 0 ? tensor_begin(g, tensor) : OK;
    int64_t left = plan_count(tensor) - g->first;
    int64_t most = WINDOW_BYTES / (int64_t)dtype_width(tensor->dtype);
    ConvertWindow *w = &g->window[slot];
    *w = (ConvertWindow){ .tensor = tensor, .first = g->first, .count = left < most ? left : most };
    if (status == OK) status = window_gather(g, w, g->memory + (size_t)slot * WINDOW_BYTES);
    if (status == OK) look(c, w);
    g->first += w->count;
    return failure_keep(&g->failure, status) == OK;
}

static Status windows_put(Gathering *g, ConvertPut *put, void *context)
{
    ConvertRun      *c = g->c;
    OrderedPipeline *pipeline;
    Status           status = OK;
    OrderedPipelinePlan plan = { .what = "the windows of a conversion", .slots = WINDOWS, .reader = true,
                                 .context = g, .fill = window_fill };
    TRY(ordered_pipeline_open(&pipeline, &plan));
    for (int slot; status == OK && (slot = ordered_pipeline_next(pipeline)) >= 0;) {
        const ConvertWindow *window = &g->window[slot];
        if (c->stop && *c->stop) break;
        if ((status = put(context, window)) != OK) break;
        const PlanTensor *t = window->tensor;
        if (window->mapped) foreign_forget(window->data, window->count * (int64_t)dtype_width(t->dtype));
        c->done += (int64_t)((double)t->bytes * (double)window->count / (double)plan_count(t));
        if (c->progress) c->progress(c->context, c->done, c->total);
    }
    ordered_pipeline_close(pipeline);
    if (status != OK) return status;
    TRY(convert_run_stopped(c));
    return failure_report(&g->failure);
}

Status convert_run_windows(ConvertRun *c, int first, int count, ConvertPut *put, void *context)
{
    Gathering g = { .c = c, .tensor = first, .end = first + count, .hash = XXH3_createState(),
                    .memory = malloc((size_t)WINDOWS * WINDOW_BYTES) };
    Status status = g.memory && g.hash ? OK : fail(NO_MEMORY, "no memory for %d windows", WINDOWS);
    if (status == OK) status = windows_put(&g, put, context);
    XXH3_freeState(g.hash);
    free(g.memory);
    return status;
}

/* ---- one file ---- */

Status convert_run_write(const ConvertFile *file, const void *data, int64_t bytes, int64_t at)
{
    TRY(file_write(file->fd, file->path, data, (size_t)bytes, at));
    /* The disk begins now, so that the last fsync does not wait for all of it. */
    sync_file_range(file->fd, at, bytes, SYNC_FILE_RANGE_WRITE);
    return OK;
}

Status convert_run_file(ConvertRun *c, const char *name, const ConvertBytes *other, int others, int first,
                        int count, ConvertPut *put, void *layout)
{
    Status      status = OK;
    ConvertFile file = { .layout = layout };
    TRY(path_join(file.path, c->part, name));
    TRY(file_create(&file.fd, file.path));
    for (const ConvertBytes *b = other; b < other + others && status == OK; b++)
        status = file_write(file.fd, file.path, b->data, (size_t)b->bytes, b->at);
    if (status == OK) status = convert_run_windows(c, first, count, put, &file);
    if (status == OK) return file_finish(file.fd, file.path);
    seam.close(file.fd);
    return status;
}

/* place: [count] of the tensors from `first` of the plan on */
typedef struct { const PlanTensor *first; SafeTensor *place; } Places;

static Status window_write(void *context, const ConvertWindow *w)
{
    const ConvertFile *file   = context;
    const Places      *places = file->layout;
    const SafeTensor  *place  = &places->place[w->tensor - places->first];
    int64_t width = (int64_t)dtype_width(place->dtype);
    return convert_run_write(file, w->data, w->count * width, (int64_t)place->at + w->first * width);
}

Status convert_run_weights(ConvertRun *c, const char *name, int first, int count)
{
    char  *header = NULL;
    size_t header_bytes, file_bytes;
    Places places = { &c->plan->tensor[first], calloc((size_t)count + 1, sizeof *places.place) };
    if (!places.place) return fail(NO_MEMORY, "no memory to write %s", name);
    for (int i = 0; i < count; i++) {
        const PlanTensor *t = &places.first[i];
        places.place[i] = (SafeTensor){ .dtype = t->dtype, .dims = t->as.dims };
        memcpy(places.place[i].name, t->as.name, sizeof places.place[i].name);
        memcpy(places.place[i].dim, t->as.shape, sizeof places.place[i].dim);
    }
    Status status = safetensors_header(places.place, count, &header, &header_bytes, &file_bytes);
    if (status == OK)
        status = convert_run_file(c, name, &(ConvertBytes){ header, (int64_t)header_bytes, 0 }, 1, first,
                                  count, window_write, &places);
    free(header);
    free(places.place);
    return status;
}
