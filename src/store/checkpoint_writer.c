/* Writing a checkpoint by one process, window by window. Of each tensor a running XXH3 of what was put is
 * kept, which is compared with what the file reads back as. */
#include "store/checkpoint_writer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include "base/seam.h"
#include "base/thread.h"
#include "store/checkpoint.h"
#include "store/checkpoint_dir.h"
#include "store/checkpoint_file.h"
#include "store/checkpoint_tokenizer.h"
#include "store/tensor_entry.h"

/* hash: from the first element of the tensor to its last, then freed */
typedef struct { int64_t elements; XXH3_state_t *hash; } TensorProgress;

/* A file that a thread syncs, closes and, where it is complete, reads back. */
typedef struct {
    CheckpointWriter *writer;
    pthread_t thread;
    bool      runs;                                 /* the thread is to be joined */
    int       file, fd;
    char      path[1024];
    Failure   failure;
} FileEnd;

struct CheckpointWriter {
    char                dir[1024], part[1024];      /* part: dir/.step_N.part */
    bool                made;                       /* dir was not there */
    int                 lock;                       /* descriptor that holds the lock of dir */
    Manifest            manifest;
    CheckpointFilePlan *plan;                       /* [files] */
    TensorProgress     *progress;                   /* [tensors] */
    bool               *compared;                   /* [files] it reads back as it was put */
    int                 file, fd;                   /* the file that is open for writing; -1: none */
    char                path[1024];                 /* its path */
    FileEnd             end;
    bool                renames, published;         /* renames: publication was begun */
};

/* ---- reading back ---- */

/* XXH3 of a range of an open file, by windows: a mapping would count as memory of the process. */
static Status range_checksum(uint64_t *sum, int fd, const char *path, size_t at, size_t bytes)
{
    enum { WINDOW = 4 << 20 };
    XXH3_state_t *hash = XXH3_createState();
    char   *window = malloc(WINDOW);
    Status  status = hash && window ? OK : fail(NO_MEMORY, "%s: no memory to read it back", path);
    if (status == OK) XXH3_64bits_reset(hash);
    for (ssize_t n; status == OK && bytes > 0; at += (size_t)n, bytes -= (size_t)n) {
        n = pread(fd, window, bytes < WINDOW ? bytes : WINDOW, (off_t)at);
        if (n <= 0) status = fail(IO_FAILED, "%s: cannot be read back: %s", path, n < 0 ? strerror(errno) :
                                  "it is shorter than it was written");
        if (n <= 0) break;
        XXH3_64bits_update(hash, window, (size_t)n);
    }
    if (status == OK) *sum = XXH3_64bits_digest(hash);
    free(window);
    XXH3_freeState(hash);
    return status;
}

static Status tensor_compare(const CheckpointWriter *w, int f, int t, int fd, const char *path)
{
    const ManifestFile *file = &w->manifest.file[f];
    const SafeTensor *place = &w->plan[f].layout[t];
    int64_t all = tensor_entry_count(&file->contents.tensor[t]), put = w->progress[file->first + t].elements;
    uint64_t sum;
    if (put < all)
        return fail(BAD_SHAPE, "tensor '%s' has %lld elements, and %lld of them were given", place->name,
                    (long long)all, (long long)put);
    TRY(range_checksum(&sum, fd, path, place->at, place->bytes));
    if (all > 0 && sum != file->checksum[t])
        return fail(IO_FAILED, "%s: tensor '%s' reads back otherwise than it was written: bits changed on "
                    "their way to the disk; this checkpoint is removed; test this machine's memory and disk",
                    path,
                    place->name);
    file->checksum[t] = sum;
    return OK;
}

static Status file_compare(const CheckpointWriter *w, int f)
{
    char path[1024];
    TRY(path_join(path, w->part, w->manifest.file[f].contents.name));
    int fd = seam.open(path, O_RDONLY, 0);
    if (fd < 0) return fail(IO_FAILED, "%s: cannot be read back: %s", path, strerror(errno));
    Status status = OK;
    for (int t = 0; t < w->manifest.file[f].contents.tensors && status == OK; t++)
        status = tensor_compare(w, f, t, fd, path);
    seam.close(fd);
    return status;
}

/* ---- the end of a file ---- */

static bool file_complete(const CheckpointWriter *w, int f)
{
    const ManifestFile *file = &w->manifest.file[f];
    for (int t = 0; t < file->contents.tensors; t++)
        if (w->progress[file->first + t].elements < tensor_entry_count(&file->contents.tensor[t]))
            return false;
    return true;
}

/* Nothing is put to a complete file any more, so that this thread alone touches what belongs to it. */
static void *file_end_run(void *argument)
{
    FileEnd *end = argument;
    bool     complete = end->writer->compared[end->file];
    Status   status = file_finish(end->fd, end->path);
    if (status == OK && complete) status = file_compare(end->writer, end->file);
    failure_keep(&end->failure, status);
    return NULL;
}

/* A failure stays: the kernel may have dropped what a failed fsync should have written. */
static Status file_end_join(CheckpointWriter *w)
{
    FileEnd *end = &w->end;
    if (end->runs) pthread_join(end->thread, NULL);
    end->runs = false;
    return failure_report(&end->failure);
}

static Status file_leave(CheckpointWriter *w)
{
    FileEnd *end = &w->end;
    Status   status = file_end_join(w);
    if (w->fd < 0 || status != OK) return status;
    *end = (FileEnd){ .writer = w, .file = w->file, .fd = w->fd };
    memcpy(end->path, w->path, sizeof end->path);
    w->compared[w->file] = file_complete(w, w->file);
    w->fd = w->file = -1;
    end->runs = thread_start(&end->thread, file_end_run, end) == 0;
    if (!end->runs) file_end_run(end);
    return end->runs ? OK : file_end_join(w);
}

/* ---- opening ---- */

static Status writer_plan(CheckpointWriter *w, const CheckpointState *state, const CheckpointFile *files,
                          int nfiles)
{
    TRY(manifest_plan(&w->manifest, state, files, nfiles));
    w->plan     = calloc((size_t)nfiles + 1, sizeof *w->plan);
    w->progress = calloc((size_t)w->manifest.tensors + 1, sizeof *w->progress);
    w->compared = calloc((size_t)nfiles + 1, sizeof *w->compared);
    if (!w->plan || !w->progress || !w->compared)
        return fail(NO_MEMORY, "no memory to plan a checkpoint of %d tensors", w->manifest.tensors);
    for (int f = 0; f < nfiles; f++) {
        TRY(checkpoint_file_plan(&w->plan[f], &files[f]));
        w->manifest.file[f].bytes = (int64_t)w->plan[f].bytes;
    }
    return OK;
}

/* Every file is made at its full size at once, so that a disk that is too small is seen early where the file
 * system tells. */
static Status writer_begin(CheckpointWriter *w, const char *option, const CheckpointState *state,
                           const CheckpointFile *files, int nfiles)
{
    TRY(writer_plan(w, state, files, nfiles));
    w->made = !file_exists(w->dir);
    TRY(checkpoint_lock(option, w->dir, NULL, &w->lock));
    TRY(checkpoint_dir_path(w->part, w->dir, (CheckpointFolder){ state->step, FOLDER_PART }));
    TRY(checkpoint_dir_begin(w->dir, state->step));
    for (int f = 0; f < nfiles; f++) TRY(checkpoint_file_create(&w->plan[f], w->part));
    return checkpoint_tokenizer_write(w->part, w->dir, &state->tokenizer);
}

Status checkpoint_writer_open(CheckpointWriter **writer, const char *option, const char *dir,
                              const CheckpointState *state, const CheckpointFile *files, int nfiles)
{
    CheckpointWriter *w = *writer = calloc(1, sizeof *w);
    if (!w) return fail(NO_MEMORY, "no memory to write a checkpoint");
    w->lock = w->fd = w->file = -1;
    snprintf(w->dir, sizeof w->dir, "%s", dir);
    CHECK((state->lacks & CHECKPOINT_POSITION) == 0 || state->step == 0,
          "a checkpoint without a position is of step 0, not %lld", (long long)state->step);
    Failure failure = { 0 };
    if (failure_keep(&failure, writer_begin(w, option, state, files, nfiles)) == OK) return OK;
    checkpoint_writer_close(w);
    *writer = NULL;
    return failure_report(&failure);
}

/* Of a checkpoint whose name was not written to `latest`, the directory has its last name already. The lock
 * is held until its file and dir are gone. */
static void writer_withdraw(CheckpointWriter *w)
{
    char lock[1024], whole[1024];
    CheckpointFolder step = { w->manifest.state.step, FOLDER_WHOLE };
    if (w->renames && !file_exists(w->part) && checkpoint_dir_path(whole, w->dir, step) == OK)
        folder_remove(whole);
    if (w->part[0]) folder_remove(w->part);
    if (path_join(lock, w->dir, ".lock") == OK) seam.remove(lock);
    if (w->made) seam.remove(w->dir);
}

void checkpoint_writer_close(CheckpointWriter *w)
{
    if (!w) return;
    file_end_join(w);
    if (w->fd >= 0) seam.close(w->fd);
    if (!w->published && w->lock >= 0) writer_withdraw(w);
    for (int t = 0; w->progress && t < w->manifest.tensors; t++) XXH3_freeState(w->progress[t].hash);
    for (int f = 0; w->plan && f < w->manifest.files; f++) checkpoint_file_free(&w->plan[f]);
    free(w->progress);
    free(w->compared);
    free(w->plan);
    manifest_free(&w->manifest);
    if (w->lock >= 0) close(w->lock);
    free(w);
}

/* ---- writing ---- */

static Status file_enter(CheckpointWriter *w, int file)
{
    if (w->file == file) return OK;
    TRY(file_leave(w));
    TRY(checkpoint_file_open(&w->fd, w->path, &w->plan[file], w->part));
    w->file = file;
    return OK;
}

static Status progress_begin(TensorProgress *p)
{
    if (p->hash || p->elements > 0) return OK;
    p->hash = XXH3_createState();
    if (!p->hash) return fail(NO_MEMORY, "no memory for a checksum");
    XXH3_64bits_reset(p->hash);
    return OK;
}

Status checkpoint_writer_put(CheckpointWriter *w, const char *name, int64_t count, const void *data)
{
    const ManifestEntry *entry = manifest_find(&w->manifest, name);
    if (!entry) return fail(BAD_SHAPE, "tensor '%s' is in no file of the checkpoint", name);
    ManifestFile *file = &w->manifest.file[entry->file];
    TensorProgress *p = &w->progress[file->first + entry->tensor];
    int64_t all = tensor_entry_count(manifest_tensor(&w->manifest, entry));
    if (count < 0 || count > all - p->elements)
        return fail(BAD_SHAPE, "tensor '%s' has %lld elements, and %lld more than that were given", name,
                    (long long)all, (long long)(p->elements + count - all));
    if (count == 0) return OK;
    const SafeTensor *place = &w->plan[entry->file].layout[entry->tensor];
    size_t width = dtype_width(place->dtype);
    TRY(progress_begin(p));
    TRY(file_enter(w, entry->file));
    TRY(file_write(w->fd, w->path, data, (size_t)count * width,
                   (int64_t)(place->at + (size_t)p->elements * width)));
    /* The disk begins now, so that the fsync of the file does not wait for all of it. */
    sync_file_range(w->fd, (off64_t)(place->at + (size_t)p->elements * width),
                    (off64_t)((size_t)count * width), SYNC_FILE_RANGE_WRITE);
    XXH3_64bits_update(p->hash, data, (size_t)count * width);
    p->elements += count;
    if (p->elements < all) return OK;
    file->checksum[entry->tensor] = XXH3_64bits_digest(p->hash);
    XXH3_freeState(p->hash);
    p->hash = NULL;
    return OK;
}

/* ---- publishing ---- */

Status checkpoint_writer_finish(CheckpointWriter *w)
{
    TRY(file_leave(w));
    TRY(file_end_join(w));
    for (int f = 0; f < w->manifest.files; f++)
        if (!w->compared[f]) TRY(file_compare(w, f));
    TRY(manifest_write(&w->manifest, w->part));
    TRY(checkpoint_dir_check(w->part));
    w->renames = true;
    Status status = checkpoint_dir_publish(w->dir, w->manifest.state.step);
    w->published = status == OK;
    return status;
}

/* ---- which tensors a model has ---- */

void checkpoint_file_name(char name[64], int64_t block)
{
    snprintf(name, 64, "block_%04lld.safetensors", (long long)block);
}

LogicalTensor checkpoint_param(const Param *p, Dtype dtype)
{
    LogicalTensor tensor = { .dims = p->dims, .dim = { p->global[0], p->global[1], p->global[2], 1 },
                             .dtype = dtype };
    snprintf(tensor.name, sizeof tensor.name, "%s", p->name);
    return tensor;
}

LogicalTensor checkpoint_expert_bias(const ModelConfig *model, int64_t layer, Dtype dtype)
{
    LogicalTensor tensor = { .dims = 1, .dim = { model->experts, 1, 1, 1 }, .dtype = dtype };
    snprintf(tensor.name, sizeof tensor.name, "blocks.%lld.router.expert_bias", (long long)layer);
    return tensor;
}

/* Fills `file` with the weights of block b. false: it has none. */
static bool weight_file(CheckpointFile *file, const ModelConfig *model, int64_t b, Dtype dtype, bool bias)
{
    ParamBlock block[PARAM_FAMILIES];
    int params = 0;
    for (ParamFamily f = 0; f < PARAM_FAMILIES; f++) {
        params_block(&block[f], model, f, b, NULL);
        params += block[f].params;
    }
    if (params == 0) return false;
    *file = (CheckpointFile){ .tensor = calloc((size_t)params + 1, sizeof *file->tensor) };
    CHECK(file->tensor, "no memory for a checkpoint file of %d tensors", params);
    checkpoint_file_name(file->name, b);
    for (ParamFamily f = 0; f < PARAM_FAMILIES; f++)
        for (int p = 0; p < block[f].params; p++)
            file->tensor[file->tensors++] = checkpoint_param(&block[f].param[p], dtype);
    int64_t layer = b > 0 ? model_unit_layer(model, b - 1) : -1;
    if (bias && model_layer_is_moe(model, layer))
        file->tensor[file->tensors++] = checkpoint_expert_bias(model, layer, F32);
    return true;
}

int checkpoint_weight_files(CheckpointFile **files, const ModelConfig *model, Dtype dtype, bool bias)
{
    int64_t blocks = params_blocks(model);
    int count = 0;
    *files = calloc((size_t)blocks + 1, sizeof **files);
    CHECK(*files, "no memory for %lld checkpoint files", (long long)blocks);
    for (int64_t b = 0; b < blocks; b++) count += weight_file(&(*files)[count], model, b, dtype, bias);
    return count;
}

void checkpoint_files_free(CheckpointFile *files, int nfiles)
{
    for (int f = 0; f < nfiles; f++) free(files[f].tensor);
    free(files);
}
