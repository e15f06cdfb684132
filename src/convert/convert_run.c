/* Writing safetensors files window by window, beside the place of the output. */
#include "convert/convert_run.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <xxhash.h>
#include "base/log.h"
#include "base/seam.h"
#include "store/safetensors.h"

enum { WINDOW_BYTES = 16 << 20, ROOM_BYTES = 16 << 20, EXPECT_BYTES = 128 << 20 };

static Dtype weight_dtype(const ConvertRun *c, const PlanTensor *tensor)
{
    return c->cast ? c->dtype : tensor->dtype;
}

Dtype convert_run_dtype(const ConvertRun *c, const PlanTensor *tensor)
{
    return tensor->as.keeps_type ? tensor->dtype : weight_dtype(c, tensor);
}

/* ---- the output's place ---- */

static Status hidden_name(char part[1024], const char *output)
{
    char folder[1024], name[1024];
    snprintf(folder, sizeof folder, "%s", output);
    snprintf(name, sizeof name, "%s", output);
    if (snprintf(part, 1024, "%.900s/.%.100s.part", dirname(folder), basename(name)) >= 1020)
        return fail(BAD_OPTION, "--output %.80s...: longer than a path may be", output);
    return OK;
}

static Status room_check(const ConvertRun *c)
{
    struct statvfs disk;
    char           need[24], have[24];
    if (statvfs(c->part, &disk) != 0) return OK;               /* the writes will tell */
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (room >= (double)(c->total + ROOM_BYTES)) return OK;
    return fail(IO_FAILED,
                "--output %s: the disk has %s of free space, and the weights need %s; free some, or "
                "give an output on another disk",
                c->output, log_bytes(have, room), log_bytes(need, (double)c->total));
}

Status convert_run_begin(ConvertRun *c)
{
    TRY(hidden_name(c->part, c->output));
    if (file_exists(c->output) && rmdir(c->output) != 0)
        return fail(BAD_OPTION, "--output %s: is there already; give another path, or remove it", c->output);
    c->done = c->total = 0;
    for (int i = 0; i < c->plan->tensors; i++) {
        const PlanTensor *t = &c->plan->tensor[i];
        c->total += plan_count(t) * (int64_t)dtype_width(convert_run_dtype(c, t));
    }
    TRY(folder_remove(c->part));
    TRY(folder_make(c->part));
    return room_check(c);
}

Status convert_run_finish(ConvertRun *c, Status status)
{
    char why[512];
    if (status == OK) status = folder_sync(c->part);
    char from[1024];
    snprintf(from, sizeof from, "%s", c->part);
    if (status == OK && c->single) status = path_join(from, c->part, CONVERT_RUN_FILE);
    if (status == OK) status = file_rename(from, c->output);
    if (status == OK && c->single) folder_remove(c->part);
    if (status == OK) return folder_sync_for(c->output);
    snprintf(why, sizeof why, "%s", fail_text());
    if (c->part[0]) folder_remove(c->part);
    return fail(status, "%s", why);
}

/* ---- one file ---- */

typedef struct { int fd; char path[1024], *window; XXH3_state_t *hash; } Output;

static Status tensor_write(ConvertRun *c, Output *out, const PlanTensor *tensor, const SafeTensor *place)
{
    int64_t width = (int64_t)dtype_width(place->dtype), count = plan_count(tensor),
            most = WINDOW_BYTES / width, n;
    XXH3_64bits_reset(out->hash);
    TRY(plan_verify(c->plan, &c->from->file, tensor, 0, 1));
    for (int64_t first = 0; first < count; first += n) {
        n = count - first < most ? count - first : most;
        if (c->stop && *c->stop) return fail(INTERRUPTED, "stopped by a signal; nothing is written");
        plan_gather(c->plan, tensor, first, n, out->window, place->dtype);
        XXH3_64bits_update(out->hash, out->window, (size_t)(n * width));
        int64_t at = (int64_t)place->at + first * width;
        TRY(file_write(out->fd, out->path, out->window, (size_t)(n * width), at));
        /* The disk begins now, so that the last fsync does not wait for all of it. */
        sync_file_range(out->fd, at, n * width, SYNC_FILE_RANGE_WRITE);
        foreign_release(&c->from->file);
        c->done += n * width;
        if (c->progress) c->progress(c->context, c->done, c->total);
    }
    return OK;
}

/* The disk reads what the next tensor needs while this one is written. */
static void tensor_expect(const ConvertRun *c, const PlanTensor *tensor)
{
    for (int i = 0; i < tensor->copies; i++)
        foreign_expect(c->plan->copy[tensor->first + i].from, EXPECT_BYTES / tensor->copies);
}

static Status file_fill(ConvertRun *c, Output *out, const char *name, int first, int count, int64_t *bytes,
                        uint64_t *checksum, SafeTensor *place)
{
    char  *header;
    size_t header_bytes, file_bytes;
    for (int i = 0; i < count; i++) {
        const PlanTensor *t = &c->plan->tensor[first + i];
        place[i] = (SafeTensor){ .dtype = convert_run_dtype(c, t), .dims = t->as.dims };
        memcpy(place[i].name, t->as.name, sizeof place[i].name);
        memcpy(place[i].dim, t->as.shape, sizeof place[i].dim);
    }
    TRY(safetensors_header(place, count, &header, &header_bytes, &file_bytes));
    if (bytes) *bytes = (int64_t)file_bytes;
    Status status = path_join(out->path, c->part, name);
    if (status == OK) status = file_create(&out->fd, out->path);
    if (status == OK) status = file_write(out->fd, out->path, header, header_bytes, 0);
    free(header);
    for (int i = 0; i < count && status == OK; i++) {
        if (i + 1 < count) tensor_expect(c, &c->plan->tensor[first + i + 1]);
        status = tensor_write(c, out, &c->plan->tensor[first + i], &place[i]);
        if (checksum) checksum[i] = XXH3_64bits_digest(out->hash);
    }
    if (out->fd < 0) return status;
    if (status == OK) return file_finish(out->fd, out->path);
    seam.close(out->fd);
    return status;
}

Status convert_run_weights(ConvertRun *c, const char *name, int first, int count, int64_t *bytes,
                          uint64_t *checksum)
{
    Output      out = { .fd = -1, .window = malloc(WINDOW_BYTES), .hash = XXH3_createState() };
    SafeTensor *place = calloc((size_t)count + 1, sizeof *place);
    Status status = out.window && out.hash && place ? OK : fail(NO_MEMORY, "no memory to write %s", name);
    if (status == OK) status = file_fill(c, &out, name, first, count, bytes, checksum, place);
    XXH3_freeState(out.hash);
    free(out.window);
    free(place);
    return status;
}
