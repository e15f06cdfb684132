/* Saving a checkpoint. All ranks run the same five phases. Each phase ends with an agreement, so that a
 * failure of one rank stops all, and all report the message of the lowest failing rank.
 *
 *     phase    ranks      action                                                      durable after it
 *     begin    rank 0     repairs what a killed save left, makes .step_N.part/        -
 *     create   owners     each bundle's file: header, full size                       headers
 *     write    all        their shards at their offsets; fsync of what they wrote     all data
 *     sum      owners     map their files, check them, checksum each tensor           -
 *     publish  all        all-gather the shares and check that each element was       -
 *                         written once and reads back as it is in memory
 *              rank 0     manifest.json by atomic replace, fsync of .part/            all of .part/
 *                         step_N -> .step_N.old if the step is saved again            -
 *                         .step_N.part -> step_N, fsync of the directory              the new checkpoint
 *                         `latest` by atomic replace                                  the name of the newest
 *                         left-overs and old checkpoints removed                      -
 *
 * A kill or a power cut before the rename leaves a .part directory, which no reader opens and the next
 * save removes. Between the two renames of a step that is saved again it leaves .step_N.old, which
 * checkpoint_find reads and the next save renames back. After the rename the checkpoint is complete;
 * `latest` may still name the previous one, which still exists, since nothing is removed before `latest`
 * is durable. A failure (a full disk) at any point removes .part and changes nothing else. Each writer
 * syncs what it wrote, because on a distributed file system no other node can. A failed fsync is a failed
 * save and is not retried, because the kernel may have dropped the dirty pages and would then report
 * success. */
#include "store/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "base/seam.h"
#include "store/bundle.h"
#include "store/tensor_entry.h"
#include "store/checkpoint_dir.h"

/* A rank's contribution to the checks of one tensor; all fields are summed over ranks, modulo 2^64.
 *
 * `coverage` sums mark(end) - mark(start) over the contiguous ranges that the rank wrote, where mark is a
 * random function. If each element was written exactly once, the sum over all ranks telescopes to
 * mark(count) - mark(0); otherwise it has that value with probability 2^-64. An overlap as large as a gap,
 * which `count` does not detect, changes it.
 *
 * `difference` is the elements_sum of what the rank wrote, computed from memory; the owner subtracts the
 * sum of the whole tensor as it reads back from the file. Over all ranks it is 0 unless a bit has changed
 * on the way.
 *
 * `checksum` is the XXH3 of the file's bytes for the owner and 0 for other ranks. */
typedef struct { uint64_t count, coverage, difference, checksum; } TensorShare;

typedef struct {
    Comm               *world;
    int                 rank, size;        /* in world */
    const char         *dir;               /* the --save directory */
    char                part[1024];        /* dir/.step_N.part, where everything is written */
    Manifest            manifest;
    BundlePlan         *plan;              /* [bundles] */
    TensorShare        *share;             /* [tensors] of this rank; after save_gather the sum over ranks */
    TensorShare        *gathered;          /* [ranks, tensors of the largest bundle] */
    const TensorShard  *shards;            /* [nshards] of this rank; the caller's */
    int                 nshards;
    const ManifestEntry **entry;           /* [nshards] the tensor of each shard */
    Queue               queue;             /* on the host: shares are host memory on every training device */
} CheckpointSave;

/* The end of a message about what reads back. */
#define CHANGED_BITS                                                                                        \
    "otherwise than it is in memory: bits changed on their way to the disk; this checkpoint is removed and"  \
    " earlier ones are kept; test this machine's memory and disk"

/* Bundles are assigned to ranks in turn; the owner creates the file and reads it back. */
static bool save_owns(const CheckpointSave *s, int bundle) { return bundle % s->size == s->rank; }

/* ---- begin ---- */

/* The shard's name, dtype and global shape must be those of its tensor: offsets in the file follow from
 * them. */
static Status shard_check(const TensorShard *shard, const LogicalTensor *tensor)
{
    LogicalTensor wanted = { .dims = shard->dims, .dtype = shard->local.dtype };
    char          held[128], planned[128];
    memcpy(wanted.name, shard->name, sizeof wanted.name);
    memcpy(wanted.dim, shard->global, sizeof wanted.dim);
    if (tensor_entry_equal(&wanted, tensor)) return OK;
    return fail(BAD_SHAPE, "tensor '%s' is a shard of %s in memory but %s in its bundle", shard->name,
                tensor_entry_text(held, &wanted), tensor_entry_text(planned, tensor));
}

static Status shards_find(CheckpointSave *s)
{
    for (int p = 0; p < s->nshards; p++) {
        s->entry[p] = manifest_find(&s->manifest, s->shards[p].name);
        if (!s->entry[p])
            return fail(BAD_SHAPE, "tensor '%s' is in no bundle of the checkpoint", s->shards[p].name);
        TRY(shard_check(&s->shards[p], manifest_tensor(&s->manifest, s->entry[p])));
    }
    return OK;
}

static Status save_allocate(CheckpointSave *s)
{
    TRY(queue_open(&s->queue, "ref", 1, NULL));
    int widest = 0;
    for (int b = 0; b < s->manifest.files; b++)
        if (s->manifest.file[b].bundle.tensors > widest) widest = s->manifest.file[b].bundle.tensors;
    s->plan     = calloc((size_t)s->manifest.files + 1, sizeof *s->plan);
    s->share    = calloc((size_t)s->manifest.tensors + 1, sizeof *s->share);
    s->gathered = calloc((size_t)s->size * (size_t)widest + 1, sizeof *s->gathered);
    s->entry    = calloc((size_t)s->nshards + 1, sizeof *s->entry);
    if (s->plan && s->share && s->gathered && s->entry) return OK;
    return fail(NO_MEMORY, "no memory to plan a checkpoint of %d tensors", s->manifest.tensors);
}

static Status save_begin(CheckpointSave *s, const CheckpointState *state, const Bundle *bundles, int nbundles)
{
    TRY(manifest_plan(&s->manifest, state, bundles, nbundles));
    TRY(save_allocate(s));
    TRY(shards_find(s));
    for (int b = 0; b < nbundles; b++) {
        TRY(bundle_plan(&s->plan[b], &bundles[b]));
        s->manifest.file[b].bytes = (int64_t)s->plan[b].bytes;
    }
    TRY(checkpoint_dir_path(s->part, s->dir, (CheckpointFolder){ state->step, FOLDER_PART }));
    return s->rank == 0 ? checkpoint_dir_begin(s->dir, state->step) : OK;
}

static void save_end(CheckpointSave *s)
{
    for (int b = 0; s->plan && b < s->manifest.files; b++) bundle_free(&s->plan[b]);
    free(s->plan);
    free(s->share);
    free(s->gathered);
    free(s->entry);
    if (s->queue.team) queue_close(&s->queue);
    manifest_free(&s->manifest);
}

/* ---- create, write, sum ---- */

static Status save_create(CheckpointSave *s)
{
    for (int b = 0; b < s->manifest.files; b++)
        if (save_owns(s, b)) TRY(bundle_create(&s->plan[b], s->part));
    return OK;
}

/* The random function of TensorShare.coverage; the tensor's index makes the marks of two tensors
 * independent. */
static uint64_t coverage_mark(int tensor, int64_t element)
{
    return random_mix((uint64_t)tensor + 1, (uint64_t)element);
}

static void share_add(TensorShare *share, int tensor, const TensorShard *shard)
{
    int64_t        cursor = 0;
    TensorShardRun run;
    while (tensor_shard_next_run(shard, &cursor, &run)) {
        share->count += (uint64_t)run.count;
        share->coverage += coverage_mark(tensor, run.global + run.count) - coverage_mark(tensor, run.global);
    }
}

static Status shards_write(CheckpointSave *s, int b, int fd, const char *path)
{
    for (int p = 0; p < s->nshards; p++) {
        const ManifestEntry *entry = s->entry[p];
        if (entry->file != b) continue;
        int tensor = s->manifest.file[b].first + entry->tensor;
        TRY(bundle_write(fd, path, &s->plan[b], entry->tensor, &s->shards[p], &s->share[tensor].difference));
        share_add(&s->share[tensor], tensor, &s->shards[p]);
    }
    return OK;
}

static bool writes_into(const CheckpointSave *s, int b)
{
    for (int p = 0; p < s->nshards; p++)
        if (s->entry[p]->file == b && s->shards[p].count > 0) return true;
    return false;
}

/* A rank opens and syncs only the files that it writes to; under ZeRO or tensor parallelism these may be
 * all of them. */
static Status save_write(CheckpointSave *s)
{
    for (int b = 0; b < s->manifest.files; b++) {
        char path[1024];
        int  fd;
        if (!writes_into(s, b)) continue;
        TRY(bundle_open(&fd, path, &s->plan[b], s->part));
        Status status = shards_write(s, b, fd, path);
        if (status != OK) {
            seam.close(fd);
            return status;
        }
        TRY(file_finish(fd, path));
    }
    return OK;
}

/* Bits of the header are compared before it is parsed, so that one that changed is not taken for a file
 * that somebody wrote wrongly. */
static Status header_check(const BundlePlan *plan, const char *folder)
{
    char    path[1024];
    FileMap map;
    TRY(path_join(path, folder, plan->bundle->file));
    TRY(file_map(&map, path));
    bool same = map.size >= plan->header_bytes && !memcmp(map.data, plan->header, plan->header_bytes);
    file_unmap(&map);
    return same ? OK : fail(IO_FAILED, "%s: the header reads back " CHANGED_BITS, path);
}

/* Reads the data back. The manifest's checksums are of what the file holds, and `difference` compares that
 * with memory. */
static void file_sum(const SafeFile *map, TensorShare *share)
{
    for (int t = 0; t < map->tensors; t++) {
        const SafeTensor *tensor = &map->tensor[t];
        size_t            width  = dtype_width(tensor->dtype);
        share[t].checksum = bundle_sum(map, t);
        share[t].difference -= elements_sum(map->map.data + tensor->at, width, 0,
                                            (int64_t)(tensor->bytes / width));
    }
}

static Status save_sum(CheckpointSave *s)
{
    for (int b = 0; b < s->manifest.files; b++) {
        const ManifestFile *file = &s->manifest.file[b];
        SafeFile            map;
        if (!save_owns(s, b)) continue;
        TRY(header_check(&s->plan[b], s->part));
        TRY(bundle_map(&map, s->part, &file->bundle, file->bytes));
        file_sum(&map, &s->share[file->first]);
        safetensors_close(&map);
    }
    return OK;
}

/* ---- publish ---- */

/* Gathers one bundle at a time: the buffer grows with the number of ranks and should not grow with the
 * model as well. An all-gather followed by a local sum gives every rank the same numbers, so that all
 * ranks check them alike. */
static void save_gather(CheckpointSave *s)
{
    for (int b = 0; b < s->manifest.files; b++) {
        int64_t tensors = s->manifest.file[b].bundle.tensors;
        if (tensors == 0) continue;
        int64_t bytes = tensors * (int64_t)sizeof(TensorShare), all = bytes * s->size;
        TensorShare *mine = &s->share[s->manifest.file[b].first];
        Tensor  out = tensor_at(s->gathered, U8, &all, 1), in = tensor_at(mine, U8, &bytes, 1);
        comm_all_gather(s->world, &s->queue, out, in);                 /* <-> world: all-gather */
        memset(mine, 0, (size_t)bytes);
        for (int64_t i = 0; i < s->size * tensors; i++) {
            mine[i % tensors].count      += s->gathered[i].count;
            mine[i % tensors].coverage   += s->gathered[i].coverage;
            mine[i % tensors].difference += s->gathered[i].difference;
            mine[i % tensors].checksum   += s->gathered[i].checksum;   /* only the owner's is not zero */
        }
    }
}

static Status share_check(const TensorShare *share, int index, const LogicalTensor *tensor, const char *file)
{
    uint64_t count = (uint64_t)tensor_entry_count(tensor);
    if (share->count != count)
        return fail(BAD_SHAPE, "tensor '%s' has %llu elements, but all ranks together hold %llu",
                    tensor->name, (unsigned long long)count, (unsigned long long)share->count);
    if (share->coverage != coverage_mark(index, (int64_t)count) - coverage_mark(index, 0))
        return fail(BAD_SHAPE, "tensor '%s' has elements that two ranks hold and as many that no rank holds",
                    tensor->name);
    if (share->difference != 0)
        return fail(IO_FAILED, "%s: tensor '%s' reads back " CHANGED_BITS, file, tensor->name);
    return OK;
}

static Status shares_check(CheckpointSave *s)
{
    for (int b = 0; b < s->manifest.files; b++) {
        ManifestFile *file = &s->manifest.file[b];
        char          path[1024];
        TRY(path_join(path, s->part, file->bundle.file));
        for (int t = 0; t < file->bundle.tensors; t++) {
            TRY(share_check(&s->share[file->first + t], file->first + t, &file->bundle.tensor[t], path));
            file->checksum[t] = s->share[file->first + t].checksum;
        }
    }
    return OK;
}

/* All ranks check the shares, since all have their sums; rank 0 alone changes names. */
static Status save_publish(CheckpointSave *s, int keep_last)
{
    int64_t step = s->manifest.state.step;
    TRY(shares_check(s));
    if (s->rank != 0) return OK;
    TRY(manifest_write(&s->manifest, s->part));
    /* A manifest that does not read back is not published. */
    TRY(checkpoint_dir_check(s->part));
    TRY(checkpoint_dir_publish(s->dir, step));
    checkpoint_dir_sweep(s->dir, step, keep_last);
    return OK;
}

static Status save_phases(CheckpointSave *s, const CheckpointState *state, const Bundle *bundles,
                          int nbundles, int keep_last)
{
    /* Each agreement communicates, so every rank must reach every one of them, also a rank that has
     * nothing to write. */
    TRY(agree(s->world, save_begin(s, state, bundles, nbundles)));
    TRY(agree(s->world, save_create(s)));
    TRY(agree(s->world, save_write(s)));
    TRY(agree(s->world, save_sum(s)));
    save_gather(s);
    return agree(s->world, save_publish(s, keep_last));
}

Status checkpoint_save(Comm *world, const char *dir, const CheckpointState *state, const Bundle *bundles,
                       int nbundles, const TensorShard *shards, int nshards, int keep_last)
{
    CheckpointSave s = { .world = world, .rank = comm_rank(world), .size = comm_size(world), .dir = dir,
               .shards = shards, .nshards = nshards };
    Status status = save_phases(&s, state, bundles, nbundles, keep_last);
    char   message[512];                       /* kept, since folder_remove may replace it by its own */
    snprintf(message, sizeof message, "%s", fail_text());
    if (status != OK && s.rank == 0 && s.part[0]) folder_remove(s.part);
    save_end(&s);
    return status == OK ? OK : fail(status, "%s", message);
}
