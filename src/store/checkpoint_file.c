/* Creating, writing and mapping one safetensors file of a checkpoint. */
#include "store/checkpoint_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/seam.h"
#include "store/tensor_entry.h"

/* Bytes that are copied at once from or to the memory of a device. */
enum { DEVICE_PIECE = 8 << 20 };

Status checkpoint_file_plan(CheckpointFilePlan *plan, const CheckpointFile *contents)
{
    *plan = (CheckpointFilePlan){ .contents = contents };
    plan->layout = calloc((size_t)contents->tensors + 1, sizeof *plan->layout);
    if (!plan->layout)
        return fail(NO_MEMORY, "%s: no memory for the offsets of %d tensors", contents->name,
                    contents->tensors);
    for (int t = 0; t < contents->tensors; t++) {
        const LogicalTensor *from = &contents->tensor[t];
        SafeTensor          *to   = &plan->layout[t];
        to->dtype = from->dtype;
        to->dims  = from->dims;
        memcpy(to->name, from->name, sizeof to->name);
        memcpy(to->dim, from->dim, sizeof to->dim);
    }
    return safetensors_header(plan->layout, contents->tensors, &plan->header, &plan->header_bytes,
                              &plan->bytes);
}

void checkpoint_file_free(CheckpointFilePlan *plan)
{
    free(plan->layout);
    free(plan->header);
    *plan = (CheckpointFilePlan){ 0 };
}

/* ---- writing ---- */

Status checkpoint_file_create(const CheckpointFilePlan *plan, const char *folder)
{
    char path[1024];
    int  fd;
    TRY(path_join(path, folder, plan->contents->name));
    TRY(file_create(&fd, path));
    Status status = file_write(fd, path, plan->header, plan->header_bytes, 0);
    if (status == OK && plan->bytes > plan->header_bytes)
        status = file_write(fd, path, "", 1, (int64_t)plan->bytes - 1);
    if (status == OK) return file_finish(fd, path);
    seam.close(fd);
    return status;
}

/* Not file_create, which would truncate the file while other ranks write to it. */
Status checkpoint_file_open(int *fd, char path[1024], const CheckpointFilePlan *plan, const char *folder)
{
    TRY(path_join(path, folder, plan->contents->name));
    *fd = seam.open(path, O_WRONLY, 0);
    return *fd >= 0 ? OK : fail(IO_FAILED, "%s: cannot be opened for writing: %s", path, strerror(errno));
}

static Status run_write(int fd, const char *path, size_t width, const char *from, int64_t first,
                        int64_t count,
                        int64_t at, uint64_t *checksum)
{
    *checksum += elements_checksum(from, width, first, count);
    return file_write(fd, path, from, (size_t)count * width, at);
}

/* By pieces that are copied from the memory of the device. */
static Status device_run_write(int fd, const char *path, Queue *q, size_t width, const char *from,
                               TensorShardRun run, int64_t at, uint64_t *checksum)
{
    int64_t most = DEVICE_PIECE / (int64_t)width;
    char *piece = malloc((size_t)(run.count < most ? run.count : most) * width);
    if (!piece) return fail(NO_MEMORY, "%s: no memory to copy from the device", path);
    Status status = OK;
    for (int64_t done = 0, n; status == OK && done < run.count; done += n) {
        n = run.count - done < most ? run.count - done : most;
        queue_read(q, piece, from + (size_t)done * width, (size_t)n * width);
        status = run_write(fd, path, width, piece, run.global + done, n, at + done * (int64_t)width,
                           checksum);
    }
    free(piece);
    return status;
}

Status checkpoint_file_write(int fd, const char *path, const CheckpointFilePlan *plan, int tensor,
                             const TensorShard *shard, uint64_t *checksum)
{
    const SafeTensor *place  = &plan->layout[tensor];
    const char       *local  = shard->local.data;
    size_t            width  = dtype_width(place->dtype);
    int64_t           cursor = 0;
    TensorShardRun    run;
    while (tensor_shard_next_run(shard, &cursor, &run)) {
        const char *from = local + (size_t)run.local * width;
        int64_t at = (int64_t)(place->at + (size_t)run.global * width);
        if (shard->queue) TRY(device_run_write(fd, path, shard->queue, width, from, run, at, checksum));
        else TRY(run_write(fd, path, width, from, run.global, run.count, at, checksum));
    }
    return OK;
}

/* h(i, x) = mix(i * odd + x), with the finalizer of splitmix64 (Steele, Lea, Flood 2014) as mix. mix is a
 * bijection, so a change of a single element always changes the sum. memcpy, because the file's data may
 * be unaligned. */
#define SUM_OF(type)                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                      \
        type     x;                                                                            \
        memcpy(&x, (const char *)data + (size_t)i * sizeof x, sizeof x);                       \
        uint64_t h = (uint64_t)(first + i) * 0x9E3779B97F4A7C15 + x;                           \
        h    = (h ^ h >> 30) * 0xBF58476D1CE4E5B9;                                             \
        h    = (h ^ h >> 27) * 0x94D049BB133111EB;                                             \
        sum += h ^ h >> 31;                                                                    \
    }

uint64_t elements_checksum(const void *data, size_t width, int64_t first, int64_t count)
{
    uint64_t sum = 0;
    CHECK(width == 1 || width == 2 || width == 4 || width == 8, "elements of %zu bytes have no sum", width);
    if (width == 1) SUM_OF(uint8_t)
    if (width == 2) SUM_OF(uint16_t)
    if (width == 4) SUM_OF(uint32_t)
    if (width == 8) SUM_OF(uint64_t)
    return sum;
}

/* ---- reading ---- */

static int tensor_name_order(const void *a, const void *b)
{
    return strcmp(((const SafeTensor *)a)->name, ((const SafeTensor *)b)->name);
}

/* Sorts the file's tensors into the order of contents->tensor; each must be in the file with the same dtype
 * and shape. */
static Status tensors_order(SafeFile *file, const CheckpointFile *contents)
{
    SafeTensor *ordered = calloc((size_t)contents->tensors + 1, sizeof *ordered);
    if (!ordered)
        return fail(NO_MEMORY, "%s: no memory for a list of %d tensors", file->map.path, contents->tensors);
    Status status = OK;
    qsort(file->tensor, (size_t)file->tensors, sizeof *file->tensor, tensor_name_order);
    for (int t = 0; t < contents->tensors && status == OK; t++) {
        const LogicalTensor *wanted = &contents->tensor[t];
        SafeTensor           key    = { .dims = 0 };
        memcpy(key.name, wanted->name, sizeof key.name);
        const SafeTensor *found   = bsearch(&key, file->tensor, (size_t)file->tensors, sizeof key,
                                            tensor_name_order);
        LogicalTensor     logical = found ? safetensors_logical(found) : (LogicalTensor){ 0 };
        if (found && tensor_entry_equal(&logical, wanted)) ordered[t] = *found;
        else
            status = fail(BAD_FILE,
                          "%s: its header and the manifest differ about tensor '%s'; one of them is damaged",
                          file->map.path, wanted->name);
    }
    free(file->tensor);
    file->tensor = ordered;
    return status;
}

Status checkpoint_file_map(SafeFile *file, const char *folder, const CheckpointFile *contents, int64_t bytes)
{
    char path[1024];
    TRY(path_join(path, folder, contents->name));
    TRY(safetensors_open(file, path));
    Status status = OK;
    if ((int64_t)file->map.size != bytes)
        status = fail(BAD_FILE, "%s: %zu bytes, the manifest says %lld", path, file->map.size,
                      (long long)bytes);
    else if (file->tensors != contents->tensors)
        status = fail(BAD_FILE, "%s: %d tensors, the manifest says %d", path, file->tensors,
                      contents->tensors);
    else
        status = tensors_order(file, contents);
    if (status != OK) safetensors_close(file);
    return status;
}

uint64_t checkpoint_file_checksum(const SafeFile *file, int tensor)
{
    const SafeTensor *t = &file->tensor[tensor];
    return XXH3_64bits(file->map.data + t->at, t->bytes);
}
