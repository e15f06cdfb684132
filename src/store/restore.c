/* Finding, loading and verifying checkpoints. Loading reshards: every rank maps the files that its shards
 * are in and copies the ranges that it holds, whatever layout the checkpoint was saved under. No rank
 * communicates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/log.h"
#include "store/checkpoint_file.h"
#include "store/checkpoint.h"
#include "store/checkpoint_dir.h"
#include "store/checkpoint_tokenizer.h"
#include "store/manifest.h"
#include "store/tensor_entry.h"

struct Checkpoint {
    Manifest  manifest;
    SafeFile *file;                        /* [files] mapped on first use; `tensor` is NULL before that */
    bool     *verified;                    /* [tensors] the checksum was computed and is right */
};

/* ---- finding ---- */

/* If there are checkpoints and all are damaged, that is an error: a run that silently began at step 0
 * would later replace them. Steps above that of `latest` are of a run that was given up for an earlier
 * step, and are never taken in its place. The .old directory of the latest step is tried too, since a
 * save of the same step may have been killed. *named: DIR/latest names *latest, which is not complete. */
static Status newest_find(const char *dir, char path[1024], bool *found, CheckpointFolder *latest,
                          bool *named)
{
    int64_t newest;
    char    later[300];
    *named = false;
    *found = checkpoint_dir_is_step(dir);
    TRY(checkpoint_dir_missing(dir));
    if (*found) {
        snprintf(path, 1024, "%s", dir);
        return checkpoint_dir_advise(checkpoint_dir_check(dir), dir);
    }
    TRY(checkpoint_dir_latest(dir, latest, named));
    if (*named)            TRY(checkpoint_dir_inspect(dir, *latest, path, found));
    if (*named && !*found)
        TRY(checkpoint_dir_inspect(dir, (CheckpointFolder){ latest->step, FOLDER_OLD }, path, found));
    if (*found) {
        *named = false;                                   /* it is complete: nothing is to be reported */
        return OK;
    }
    int64_t end = *named && latest->step < INT64_MAX ? latest->step + 1 : INT64_MAX;
    TRY(checkpoint_dir_newest(dir, end, path, &newest, found));
    if (newest >= 0 && !*found)
        return fail(BAD_FILE, "%s: no checkpoint in it%s is complete; one of them: %.300s", dir,
                    *named ? " up to the one that `latest` names" : "", fail_text());
    TRY(checkpoint_dir_steps(later, sizeof later, dir, end - 1));
    if (!*found && *later)
        return fail(BAD_FILE, "%s/latest names step %lld, and neither it nor one before it is there; "
                    "--load %s/step_N takes one of the later steps %s", dir, (long long)latest->step, dir,
                    later);
    return OK;
}

/* What is wrong with a step directory that is not complete, for a line in the log. */
static const char *defect_of(const char *dir, CheckpointFolder folder)
{
    char path[1024];
    if (checkpoint_dir_path(path, dir, folder) == OK && !file_exists(path)) return "it is not there";
    return checkpoint_dir_check(path) == OK ? "it is complete now" : fail_text();
}

/* Where no `latest` tells which is the newest: a later one than that which is loaded is damaged. */
static Status log_damaged(const char *dir, const char *path)
{
    CheckpointFolder *list, taken;
    char folder[1024];
    int  count;
    if (!checkpoint_dir_split(path, folder, &taken)) return OK;
    TRY(checkpoint_dir_list(dir, &list, &count));
    for (int i = 0; i < count && list[i].step > taken.step; i++)
        if (list[i].kind == FOLDER_WHOLE)
            log_line("%s: its checkpoint of step %lld is not complete: %s; loading %s", dir,
                     (long long)list[i].step, defect_of(dir, list[i]), path);
    free(list);
    return OK;
}

Status checkpoint_find(const char *dir, char path[1024], bool *found)
{
    CheckpointFolder latest;
    bool             named, known;
    char             inner[1024];
    TRY(checkpoint_dir_inner(inner, dir));
    dir = inner;
    TRY(newest_find(dir, path, found, &latest, &named));
    bool tells = *found && !named && thread_context()->rank <= 0 && !checkpoint_dir_is_step(dir);
    if (tells) TRY(checkpoint_dir_latest(dir, &latest, &known));
    if (tells && !known) return log_damaged(dir, path);
    if (named && *found && thread_context()->rank <= 0)
        log_line("%s/latest names step %lld, which is not complete: %s; loading %s", dir,
                 (long long)latest.step, defect_of(dir, latest), path);
    return OK;
}

Status checkpoint_find_silent(const char *dir, char path[1024], bool *found)
{
    CheckpointFolder latest;
    bool             named;
    char             inner[1024];
    TRY(checkpoint_dir_inner(inner, dir));
    return newest_find(inner, path, found, &latest, &named);
}

/* ---- opening ---- */

static Status checkpoint_read(Checkpoint *c, const char *path)
{
    TRY(manifest_read(&c->manifest, path));
    c->file     = calloc((size_t)c->manifest.files + 1, sizeof *c->file);
    c->verified = calloc((size_t)c->manifest.tensors + 1, sizeof *c->verified);
    if (c->file && c->verified) return OK;
    return fail(NO_MEMORY, "%s: no memory to read %d tensors", path, c->manifest.tensors);
}

Status checkpoint_open(Checkpoint **checkpoint, const char *path)
{
    if (!(*checkpoint = calloc(1, sizeof **checkpoint)))
        return fail(NO_MEMORY, "%s: no memory to read it", path);
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
    free(c->verified);
    manifest_free(&c->manifest);
    free(c);
}

void checkpoint_release(const Checkpoint *c)
{
    for (int f = 0; f < c->manifest.files; f++)
        if (c->file[f].map.size) madvise((void *)c->file[f].map.data, c->file[f].map.size, MADV_DONTNEED);
}

const CheckpointState *checkpoint_position(const Checkpoint *c) { return &c->manifest.state; }

/* Computes a tensor's checksum at most once, however many shards of it the rank holds. */
static Status checksum_check(Checkpoint *c, const ManifestEntry *entry)
{
    const ManifestFile *file = &c->manifest.file[entry->file];
    const SafeFile     *map  = &c->file[entry->file];
    bool               *done = &c->verified[file->first + entry->tensor];
    if (*done) return OK;
    if (checkpoint_file_checksum(map, entry->tensor) != file->checksum[entry->tensor])
        return fail(BAD_FILE,
                    "%s: tensor '%s', bytes %zu to %zu, has another checksum than when it was saved; the "
                    "file is damaged, load another checkpoint",
                    map->map.path, entry->name, map->tensor[entry->tensor].at,
                    map->tensor[entry->tensor].at + map->tensor[entry->tensor].bytes);
    *done = true;
    return OK;
}

static Status file_map_once(Checkpoint *c, int f)
{
    const ManifestFile *file = &c->manifest.file[f];
    if (c->file[f].tensor) return OK;
    return checkpoint_file_map(&c->file[f], c->manifest.folder, &file->contents, file->bytes);
}

/* ---- a tensor that is missing or differs ---- */

static size_t prefix_shared(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

/* Names the tensor with the longest common prefix, which shows a different naming scheme or number of
 * layers. */
static Status missing_fail(const Manifest *m, const char *name)
{
    const char *nearest = NULL;
    for (int i = 0; i < m->tensors; i++)
        if (!nearest || prefix_shared(name, m->sorted[i].name) > prefix_shared(name, nearest))
            nearest = m->sorted[i].name;
    return fail(BAD_SHAPE, "%s: has no tensor '%s'; the nearest name among its %d tensors is '%s'",
                m->folder, name, m->tensors, nearest ? nearest : "");
}

/* Floating-point types may differ: they are converted. */
static Status shard_fits(const Manifest *m, const TensorShard *shard, const LogicalTensor *tensor)
{
    LogicalTensor wanted = { .dims = shard->dims, .dtype = shard->local.dtype };
    char          asked[128], held[128];
    memcpy(wanted.name, shard->name, sizeof wanted.name);
    memcpy(wanted.dim, shard->global, sizeof wanted.dim);
    tensor_entry_text(asked, &wanted);
    if (dtype_is_float(wanted.dtype) && dtype_is_float(tensor->dtype)) wanted.dtype = tensor->dtype;
    if (tensor_entry_equal(&wanted, tensor)) return OK;
    return fail(BAD_SHAPE,
                "%s: tensor '%s' is %s, this run needs %s; give the options of the model that was saved",
                m->folder, shard->name, tensor_entry_text(held, tensor), asked);
}

/* ---- copying ---- */

/* To the memory of a device, by pieces that are converted on the host. */
static void device_copy(Queue *q, uint8_t *to, Dtype kept, const uint8_t *from, Dtype held, int64_t count)
{
    uint8_t piece[64 << 10];
    int64_t most = (int64_t)(sizeof piece / dtype_width(kept));
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < most ? count - done : most;
        const uint8_t *at = from + (size_t)done * dtype_width(held);
        uint8_t *there = to + (size_t)done * dtype_width(kept);
        if (kept != held) dtype_convert(piece, kept, at, held, n);
        queue_write(q, there, kept == held ? at : piece, (size_t)n * dtype_width(kept));
    }
}

/* Copies one contiguous range. `data` is the tensor in the mapped file, which need not be aligned. */
static void run_copy(const TensorShard *shard, TensorShardRun run, const uint8_t *data, Dtype held)
{
    Dtype    kept = shard->local.dtype;
    uint8_t *to   = (uint8_t *)shard->local.data + (size_t)run.local * dtype_width(kept);
    const uint8_t *from = data + (size_t)run.global * dtype_width(held);
    if (shard->queue) device_copy(shard->queue, to, kept, from, held, run.count);
    else if (kept == held) memcpy(to, from, (size_t)run.count * dtype_width(kept));
    else dtype_convert(to, kept, from, held, run.count);
}

static Status shard_load(Checkpoint *c, const TensorShard *shard, bool verify)
{
    const ManifestEntry *entry = manifest_find(&c->manifest, shard->name);
    if (!entry) return missing_fail(&c->manifest, shard->name);
    TRY(shard_fits(&c->manifest, shard, manifest_tensor(&c->manifest, entry)));
    if (shard->count == 0) return OK;
    TRY(file_map_once(c, entry->file));
    if (verify) TRY(checksum_check(c, entry));
    const SafeTensor *tensor = &c->file[entry->file].tensor[entry->tensor];
    int64_t           cursor = 0;
    TensorShardRun    run;
    while (tensor_shard_next_run(shard, &cursor, &run))
        run_copy(shard, run, c->file[entry->file].map.data + tensor->at, tensor->dtype);
    return OK;
}

bool checkpoint_has(const Checkpoint *c, const LogicalTensor *tensor)
{
    const ManifestEntry *entry = manifest_find(&c->manifest, tensor->name);
    const LogicalTensor *found = entry ? manifest_tensor(&c->manifest, entry) : NULL;
    bool same = found && found->dims == tensor->dims;
    for (int d = 0; same && d < tensor->dims; d++) same = found->dim[d] == tensor->dim[d];
    return same;
}

Status checkpoint_load(Checkpoint *c, const TensorShard *shards, int nshards, bool verify)
{
    for (int p = 0; p < nshards; p++) {
        Status status = shard_load(c, &shards[p], verify);
        if (status != OK) return checkpoint_dir_advise(status, c->manifest.folder);
    }
    return OK;
}

/* ---- covering: whether the run uses every tensor of the checkpoint ---- */

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether `name` is one of the sorted names or, if only weights are loaded, `<name>.<state>` of one of
 * them. */
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
            status = fail(BAD_SHAPE,
                          "%s: contains tensor '%s', which this run does not have; it was saved with another "
                          "model or optimizer, whose options are needed", m->folder, m->sorted[i].name);
    free(sorted);
    return status;
}

/* ---- the manifest alone ---- */

Status checkpoint_state(const char *path, CheckpointState *state)
{
    Manifest manifest;
    TRY(manifest_read(&manifest, path));
    *state = manifest.state;
    manifest_free(&manifest);
    return OK;
}

Status checkpoint_facts(CheckpointFacts *facts, const char *path)
{
    *facts = (CheckpointFacts){ 0 };
    TRY(manifest_read(&facts->manifest, path));
    Manifest *m = &facts->manifest;
    facts->state = m->state;
    facts->state.options = m->options;
    facts->state.data_fingerprint = m->data_fingerprint;
    facts->state.kernels = m->kernels;
    facts->state.given = m->given;
    facts->state.tokenizer.name = m->tokenizer;
    facts->state.tokenizer.fingerprint = m->fingerprint;
    return OK;
}

void checkpoint_facts_free(CheckpointFacts *facts)
{
    manifest_free(&facts->manifest);
    *facts = (CheckpointFacts){ 0 };
}

/* ---- verifying: continues after an error, so that one pass lists all of them; the first is returned ---- */

/* Closes the file again, so that at most one file is mapped at a time. */
static void file_verify(Checkpoint *c, int f, bool list, Failure *first)
{
    const ManifestFile *file   = &c->manifest.file[f];
    Status              mapped = file_map_once(c, f);
    char                text[128];
    failure_keep(first, mapped);
    for (int t = 0; t < file->contents.tensors; t++) {
        ManifestEntry entry  = { file->contents.tensor[t].name, f, t };
        Status        status = mapped == OK ? checksum_check(c, &entry) : mapped;
        failure_keep(first, status);
        if (list)
            printf("%-8s %016llx  %s  %s  %s\n", status == OK ? "good" : "DAMAGED",
                   (unsigned long long)file->checksum[t], file->contents.name, entry.name,
                   tensor_entry_text(text, &file->contents.tensor[t]));
    }
    safetensors_close(&c->file[f]);
}

static void tokenizer_verify(const Checkpoint *c, bool list, Failure *first)
{
    const TokenizerRecord *t = &c->manifest.state.tokenizer;
    for (int i = 0; i < t->copies; i++) {
        TokenizerRecord one = { .copies = 1, .copy = { t->copy[i] } };
        Status status = checkpoint_tokenizer_check(c->manifest.folder, &one);
        failure_keep(first, status);
        if (list)
            printf("%-8s %016llx  tokenizer/%s  %lld bytes\n", status == OK ? "good" : "DAMAGED",
                   (unsigned long long)t->copy[i].checksum, t->copy[i].name, (long long)t->copy[i].bytes);
    }
}

/* Two step folders whose names were exchanged are each whole. */
static Status name_verify(const Checkpoint *c)
{
    char dir[1024];
    CheckpointFolder named;
    const Manifest *m = &c->manifest;
    if (!checkpoint_dir_split(m->folder, dir, &named) || named.step == m->state.step) return OK;
    return fail(BAD_FILE, "%s: its manifest is that of step %lld; the folder was renamed", m->folder,
                (long long)m->state.step);
}

Status checkpoint_verify(const char *path, bool list)
{
    Checkpoint *c;
    Failure     first = { 0 };
    TRY(checkpoint_open(&c, path));
    for (int f = 0; f < c->manifest.files; f++) file_verify(c, f, list, &first);
    tokenizer_verify(c, list, &first);
    failure_keep(&first, name_verify(c));
    checkpoint_close(c);
    return failure_report(&first);
}
