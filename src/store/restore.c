/* Loading: every rank maps the files its shards are in and copies its runs, whatever cut they were saved
 * under. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/bundle.h"
#include "store/tensor_entry.h"
#include "store/manifest.h"
#include "store/checkpoint_dir.h"

typedef struct {
    Manifest manifest;
    SafeFile *file;                        /* of each bundle; mapped when first asked for */
    bool     *summed;                      /* of each tensor: its checksum was found right */
    bool      verify;
} Restore;

static Status restore_open(Restore *r, const char *path, bool verify)
{
    *r = (Restore){ .verify = verify };
    TRY(manifest_read(&r->manifest, path));
    r->file   = calloc((size_t)r->manifest.files + 1, sizeof *r->file);
    r->summed = calloc((size_t)r->manifest.tensors + 1, sizeof *r->summed);
    if (r->file && r->summed) return OK;
    return fail(NO_MEMORY, "%s: no memory to read %d tensors", path, r->manifest.tensors);
}

static void restore_close(Restore *r)
{
    for (int f = 0; r->file && f < r->manifest.files; f++) safetensors_close(&r->file[f]);
    free(r->file);
    free(r->summed);
    manifest_free(&r->manifest);
}

static Status sum_check(Restore *r, const ManifestEntry *entry)
{
    const ManifestFile *file = &r->manifest.file[entry->file];
    const SafeFile     *map  = &r->file[entry->file];
    bool               *done = &r->summed[file->first + entry->tensor];
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

/* The file of a tensor is mapped, and the tensor summed where that is asked. */
static Status entry_ready(Restore *r, const ManifestEntry *entry)
{
    const ManifestFile *file = &r->manifest.file[entry->file];
    if (!r->file[entry->file].map.data)
        TRY(bundle_map(&r->file[entry->file], r->manifest.folder, &file->bundle, file->bytes));
    return r->verify ? sum_check(r, entry) : OK;
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

static Status piece_load(Restore *r, const TensorShard *shard)
{
    const ManifestEntry *entry = manifest_find(&r->manifest, shard->name);
    if (!entry) return missing_fail(&r->manifest, shard->name);
    TRY(piece_fits(&r->manifest, shard, manifest_tensor(&r->manifest, entry)));
    if (shard->count == 0) return OK;
    TRY(entry_ready(r, entry));
    const SafeTensor *tensor = &r->file[entry->file].tensor[entry->tensor];
    int64_t           cursor = 0;
    TensorShardRun          run;
    while (tensor_shard_next_run(shard, &cursor, &run))
        run_copy(shard, run, r->file[entry->file].map.data + tensor->at, tensor->dtype);
    return OK;
}

static Status pieces_load(Restore *r, const TensorShard *shards, int nshards)
{
    for (int p = 0; p < nshards; p++) TRY(piece_load(r, &shards[p]));
    return OK;
}

Status checkpoint_load(const char *path, const TensorShard *shards, int nshards, bool verify)
{
    Restore r;
    Status  status = restore_open(&r, path, verify);
    if (status == OK) status = pieces_load(&r, shards, nshards);
    restore_close(&r);
    return checkpoint_dir_advise(status, path);
}

/* ---- covering: the other way round, is all of the checkpoint somebody's? ---- */

static bool is_known(const char *name, const LogicalTensor *all, int count, bool weights_only)
{
    for (int i = 0; i < count; i++) {
        size_t n = strlen(all[i].name);
        if (strcmp(name, all[i].name) == 0) return true;
        if (weights_only && strncmp(name, all[i].name, n) == 0 && name[n] == '.' && !strchr(name + n + 1, '.'))
            return true;
    }
    return false;
}

static Status manifest_covers(const Manifest *m, const LogicalTensor *all, int count, bool weights_only)
{
    for (int f = 0; f < m->files; f++)
        for (int t = 0; t < m->file[f].bundle.tensors; t++) {
            const char *name = m->file[f].bundle.tensor[t].name;
            if (!is_known(name, all, count, weights_only))
                return fail(BAD_SHAPE, "%s: holds tensor '%s', for which this run has no place; it was saved with another "
                            "model or optimizer", m->folder, name);
        }
    return OK;
}

Status checkpoint_covers(const char *path, const LogicalTensor *all, int count, bool weights_only)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, path));
    Status status = manifest_covers(&manifest, all, count, weights_only);
    manifest_free(&manifest);
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

static Status file_verify(Restore *r, int f, bool list)
{
    const ManifestFile *file  = &r->manifest.file[f];
    Status              first = OK;
    char                text[128], words[512] = "";
    for (int t = 0; t < file->bundle.tensors; t++) {
        ManifestEntry entry   = { file->bundle.tensor[t].name, f, t };
        Status       status = entry_ready(r, &entry);
        if (list)
            printf("%-8s %016llx  %s  %s  %s\n", status == OK ? "good" : "DAMAGED",
                   (unsigned long long)file->checksum[t], file->bundle.file, entry.name,
                   tensor_entry_text(text, &file->bundle.tensor[t]));
        if (status != OK && first == OK) {
            first = status;
            snprintf(words, sizeof words, "%s", fail_text());
        }
    }
    return first == OK ? OK : fail(first, "%s", words);
}

static Status files_verify(Restore *r, bool list)
{
    Status first = OK;
    char   words[512] = "";
    for (int f = 0; f < r->manifest.files; f++) {
        Status status = file_verify(r, f, list);
        safetensors_close(&r->file[f]);
        if (status == OK || first != OK) continue;
        first = status;
        snprintf(words, sizeof words, "%s", fail_text());
    }
    return first == OK ? OK : fail(first, "%s", words);
}

Status checkpoint_verify(const char *path, bool list)
{
    Restore r;
    Status  status = restore_open(&r, path, true);
    if (status == OK) status = files_verify(&r, list);
    restore_close(&r);
    return status;
}
