/* Loading: every rank maps the files its shards are in and copies its runs, whatever cut they were saved
 * under. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/bundle.h"
#include "store/tensor_entry.h"
#include "store/manifest.h"
#include "store/checkpoint_dir.h"

struct Checkpoint {
    Manifest manifest;
    SafeFile *file;                        /* of each bundle; mapped when first asked for: its `tensor` is NULL until then */
    bool     *summed;                      /* of each tensor: its checksum was found right */
};

static Status checkpoint_read(Checkpoint *c, const char *path)
{
    TRY(manifest_read(&c->manifest, path));
    c->file   = calloc((size_t)c->manifest.files + 1, sizeof *c->file);
    c->summed = calloc((size_t)c->manifest.tensors + 1, sizeof *c->summed);
    if (c->file && c->summed) return OK;
    return fail(NO_MEMORY, "%s: no memory to read %d tensors", path, c->manifest.tensors);
}

Status checkpoint_open(Checkpoint **checkpoint, const char *path)
{
    if (!(*checkpoint = calloc(1, sizeof **checkpoint))) return fail(NO_MEMORY, "%s: no memory to read it", path);
    Status status = checkpoint_read(*checkpoint, path);
    if (status == OK) return OK;
    checkpoint_close(*checkpoint);
    *checkpoint = NULL;
    return status;
}

void checkpoint_close(Checkpoint *c)
{
    if (!c) return;
    for (int f = 0; c->file && f < c->manifest.files; f++) safetensors_close(&c->file[f]);
    free(c->file);
    free(c->summed);
    manifest_free(&c->manifest);
    free(c);
}

const CheckpointState *checkpoint_position(const Checkpoint *c) { return &c->manifest.state; }

static Status sum_check(Checkpoint *c, const ManifestEntry *entry)
{
    const ManifestFile *file = &c->manifest.file[entry->file];
    const SafeFile     *map  = &c->file[entry->file];
    bool               *done = &c->summed[file->first + entry->tensor];
    if (*done) return OK;
    if (bundle_sum(map, entry->tensor) != file->checksum[entry->tensor])
        return fail(BAD_FILE,
                    "%s: tensor '%s', bytes %zu to %zu, has another checksum than when it was saved; the "
                    "file is damaged",
                    map->map.path, entry->name, map->tensor[entry->tensor].at,
                    map->tensor[entry->tensor].at + map->tensor[entry->tensor].bytes);
    *done = true;
    return OK;
}

static Status file_ready(Checkpoint *c, int f)
{
    const ManifestFile *file = &c->manifest.file[f];
    return c->file[f].tensor ? OK : bundle_map(&c->file[f], c->manifest.folder, &file->bundle, file->bytes);
}

/* ---- what there is instead ---- */

static size_t prefix_shared(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

static Status missing_fail(const Manifest *m, const char *name)
{
    const char *nearest = NULL;
    for (int i = 0; i < m->tensors; i++)
        if (!nearest || prefix_shared(name, m->sorted[i].name) > prefix_shared(name, nearest))
            nearest = m->sorted[i].name;
    return fail(BAD_SHAPE, "%s: has no tensor '%s'; among its %d the nearest is '%s'", m->folder, name,
                m->tensors, nearest ? nearest : "");
}

static bool floating(Dtype dtype) { return dtype == F32 || dtype == F64; }

static Status piece_fits(const Manifest *m, const TensorShard *shard, const LogicalTensor *tensor)
{
    LogicalTensor wanted = { .dims = shard->dims, .dtype = shard->local.dtype };
    char          asked[128], held[128];
    memcpy(wanted.name, shard->name, sizeof wanted.name);
    memcpy(wanted.dim, shard->global, sizeof wanted.dim);
    tensor_entry_text(asked, &wanted);
    if (floating(wanted.dtype) && floating(tensor->dtype)) wanted.dtype = tensor->dtype;
    if (tensor_entry_equal(&wanted, tensor)) return OK;
    return fail(BAD_SHAPE, "%s: tensor '%s' is %s, this run wants %s", m->folder, shard->name,
                tensor_entry_text(held, tensor), asked);
}

/* ---- copying: through memcpy, since a file need not be aligned ---- */

static void run_copy(const TensorShard *shard, TensorShardRun run, const uint8_t *data, Dtype held)
{
    Dtype          kept = shard->local.dtype;
    uint8_t       *to   = (uint8_t *)shard->local.data + (size_t)run.local * dtype_width(kept);
    const uint8_t *from = data + (size_t)run.global * dtype_width(held);
    if (kept == held) {
        memcpy(to, from, (size_t)run.count * dtype_width(kept));
        return;
    }
    for (int64_t i = 0; i < run.count; i++) {
        float  f;
        double d;
        if (held == F32) {
            memcpy(&f, from + (size_t)i * sizeof f, sizeof f);
            ((double *)(void *)to)[i] = (double)f;
        } else {
            memcpy(&d, from + (size_t)i * sizeof d, sizeof d);
            ((float *)(void *)to)[i] = (float)d;
        }
    }
}

static Status piece_load(Checkpoint *c, const TensorShard *shard, bool verify)
{
    const ManifestEntry *entry = manifest_find(&c->manifest, shard->name);
    if (!entry) return missing_fail(&c->manifest, shard->name);
    TRY(piece_fits(&c->manifest, shard, manifest_tensor(&c->manifest, entry)));
    if (shard->count == 0) return OK;
    TRY(file_ready(c, entry->file));
    if (verify) TRY(sum_check(c, entry));
    const SafeTensor *tensor = &c->file[entry->file].tensor[entry->tensor];
    int64_t           cursor = 0;
    TensorShardRun          run;
    while (tensor_shard_next_run(shard, &cursor, &run))
        run_copy(shard, run, c->file[entry->file].map.data + tensor->at, tensor->dtype);
    return OK;
}

Status checkpoint_load(Checkpoint *c, const TensorShard *shards, int nshards, bool verify)
{
    for (int p = 0; p < nshards; p++) {
        Status status = piece_load(c, &shards[p], verify);
        if (status != OK) return checkpoint_dir_advise(status, c->manifest.folder);
    }
    return OK;
}

/* ---- covering: the other way round, is all of the checkpoint somebody's? ---- */

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `name`, or `<name>.<state>` of one of the sorted names where only weights are read */
static bool is_known(const char *name, const char *const *sorted, int count, bool weights_only)
{
    char        weight[sizeof ((LogicalTensor *)0)->name];
    const char *wanted = name, *dot = strrchr(name, '.');
    if (bsearch(&wanted, sorted, (size_t)count, sizeof *sorted, name_order)) return true;
    if (!weights_only || !dot) return false;
    snprintf(weight, sizeof weight, "%.*s", (int)(dot - name), name);
    wanted = weight;
    return bsearch(&wanted, sorted, (size_t)count, sizeof *sorted, name_order) != NULL;
}

Status checkpoint_covers(const Checkpoint *c, const LogicalTensor *all, int count, bool weights_only)
{
    const Manifest *m = &c->manifest;
    const char    **sorted = calloc((size_t)count + 1, sizeof *sorted);
    Status          status = OK;
    if (!sorted) return fail(NO_MEMORY, "%s: no memory for %d names", m->folder, count);
    for (int i = 0; i < count; i++) sorted[i] = all[i].name;
    qsort(sorted, (size_t)count, sizeof *sorted, name_order);
    for (int i = 0; i < m->tensors && status == OK; i++)
        if (!is_known(m->sorted[i].name, sorted, count, weights_only))
            status = fail(BAD_SHAPE, "%s: holds tensor '%s', for which this run has no place; it was saved with another "
                          "model or optimizer", m->folder, m->sorted[i].name);
    free(sorted);
    return status;
}

Status checkpoint_state(const char *path, CheckpointState *state)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, path));
    *state = manifest.state;
    manifest_free(&manifest);
    return OK;
}

Status checkpoint_options(const char *path, char **options)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, path));
    *options = manifest.options;
    manifest.options = NULL;
    manifest_free(&manifest);
    return OK;
}

Status checkpoint_data(const char *path, char **data)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, path));
    *data = manifest.data;
    manifest.data = NULL;
    manifest_free(&manifest);
    return OK;
}

/* ---- verifying: goes on after a bad one, so that one pass tells all; the first is what is returned ---- */

typedef struct { Status first; char words[512]; } Findings;

static void find(Findings *all, Status status)
{
    if (status == OK || all->first != OK) return;
    all->first = status;
    snprintf(all->words, sizeof all->words, "%s", fail_text());
}

static void file_verify(Checkpoint *c, int f, bool list, Findings *all)
{
    const ManifestFile *file  = &c->manifest.file[f];
    Status              ready = file_ready(c, f);
    char                text[128];
    find(all, ready);
    for (int t = 0; t < file->bundle.tensors; t++) {
        ManifestEntry entry   = { file->bundle.tensor[t].name, f, t };
        Status       status = ready == OK ? sum_check(c, &entry) : ready;
        find(all, status);
        if (list)
            printf("%-8s %016llx  %s  %s  %s\n", status == OK ? "good" : "DAMAGED",
                   (unsigned long long)file->checksum[t], file->bundle.file, entry.name,
                   tensor_entry_text(text, &file->bundle.tensor[t]));
    }
    safetensors_close(&c->file[f]);
}

Status checkpoint_verify(const char *path, bool list)
{
    Checkpoint *c;
    Findings    all = { OK };
    TRY(checkpoint_open(&c, path));
    for (int f = 0; f < c->manifest.files; f++) file_verify(c, f, list, &all);
    checkpoint_close(c);
    return all.first == OK ? OK : fail(all.first, "%s", all.words);
}
