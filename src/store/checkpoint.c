/* Saving. All ranks go through five phases, each ended by an agreement, so that a failure of one ends all
 * and the lowest failing rank's words are everyone's.
 *
 *     phase    who        what                                                        durable after it
 *     begin    rank 0     mends what a kill left, makes .step_N.part/                 -
 *     create   owners     each bundle's file: header, full size                       headers
 *     write    all        their shards' runs at their places; sync what they wrote    all data
 *     sum      owners     map their files, check them, sum each tensor's bytes        -
 *     publish  rank 0     each element was written once, and reads back as it is in   -
 *                         memory: all ranks' shares tell
 *                         manifest.json whole (it, then .part/ itself synced)         all of .part/
 *                         step_N -> .step_N.old where the step is saved again         -
 *                         .step_N.part -> step_N, folder synced                       the new checkpoint
 *                         `latest` whole                                              who is newest
 *                         left-overs and old checkpoints removed                      -
 *
 * A kill or a power cut before the rename leaves a .part folder, which nobody reads and the next save
 * removes. Between the two renames of a step saved again it leaves .step_N.old, which checkpoint_find
 * reads and the next save renames back. After the rename the checkpoint is whole; `latest` may still name
 * the one before, which is there, since nothing is removed before `latest` is durable. A failure (a full
 * disk) at any point removes .part and touches nothing else. A writer syncs what it wrote: on a file
 * system of many nodes no other can. An fsync that fails is a failed save; it is never tried again, since
 * the system may have dropped the pages. */
#include "store/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "base/seam.h"
#include "store/bundle.h"
#include "store/tensor_entry.h"
#include "store/checkpoint_dir.h"

/* What a rank adds for one tensor. `chain` sums, over its runs, mark(end) - mark(start), where mark is a
 * random function: over all ranks that telescopes to mark(all) - mark(0) where each element was written
 * exactly once, and (but for one case in 2^64) nowhere else. An overlap as large as a gap, which a count
 * does not see, breaks it. `drift` is the elements_sum of what it wrote, taken from memory, less (for the owner) that of
 * the whole tensor as the file has it: over all ranks 0, unless a bit has changed on the way. */
typedef struct { uint64_t count, chain, drift, checksum; } Share;

typedef struct {
    Comm               *world;
    int                 rank, size;
    const char         *dir;
    char                part[1024];
    Manifest            manifest;
    BundlePlan         *plan;              /* of each bundle */
    Share              *share;             /* this rank's, of each tensor; after the gather everybody's */
    Share              *gathered;          /* of each rank, of each tensor of one bundle */
    const TensorShard        *shards;
    int                 nshards;
    const ManifestEntry **entry;             /* of each shard */
    Queue               queue;             /* of the host: shares are plain memory, whatever device trains */
} Save;

static bool save_owns(const Save *s, int bundle) { return bundle % s->size == s->rank; }

/* ---- begin ---- */

static Status piece_check(const TensorShard *shard, const LogicalTensor *tensor)
{
    LogicalTensor wanted = { .dims = shard->dims, .dtype = shard->local.dtype };
    char          held[128], planned[128];
    memcpy(wanted.name, shard->name, sizeof wanted.name);
    memcpy(wanted.dim, shard->global, sizeof wanted.dim);
    if (tensor_entry_equal(&wanted, tensor)) return OK;
    return fail(BAD_SHAPE, "tensor '%s' is a shard of %s in memory but %s in its bundle", shard->name,
                tensor_entry_text(held, &wanted), tensor_entry_text(planned, tensor));
}

static Status pieces_find(Save *s)
{
    for (int p = 0; p < s->nshards; p++) {
        s->entry[p] = manifest_find(&s->manifest, s->shards[p].name);
        if (!s->entry[p])
            return fail(BAD_SHAPE, "tensor '%s' is in no bundle of the checkpoint", s->shards[p].name);
        TRY(piece_check(&s->shards[p], manifest_tensor(&s->manifest, s->entry[p])));
    }
    return OK;
}

static Status save_allocate(Save *s)
{
    TRY(queue_open(&s->queue, "ref", 1, NULL));
    int widest = 0;
    for (int b = 0; b < s->manifest.files; b++)
        if (s->manifest.file[b].bundle.tensors > widest) widest = s->manifest.file[b].bundle.tensors;
    s->plan     = calloc((size_t)s->manifest.files + 1, sizeof *s->plan);
    s->share    = calloc((size_t)s->manifest.tensors + 1, sizeof *s->share);
    s->gathered = calloc((size_t)s->size * (size_t)widest + 1, sizeof *s->gathered);
    s->entry     = calloc((size_t)s->nshards + 1, sizeof *s->entry);
    if (s->plan && s->share && s->gathered && s->entry) return OK;
    return fail(NO_MEMORY, "no memory to plan a checkpoint of %d tensors", s->manifest.tensors);
}

static Status save_begin(Save *s, const CheckpointState *state, const Bundle *bundles, int nbundles)
{
    TRY(manifest_plan(&s->manifest, state, bundles, nbundles));
    TRY(save_allocate(s));
    TRY(pieces_find(s));
    for (int b = 0; b < nbundles; b++) {
        TRY(bundle_plan(&s->plan[b], &bundles[b]));
        s->manifest.file[b].bytes = (int64_t)s->plan[b].bytes;
    }
    TRY(checkpoint_dir_path(s->part, s->dir, (CheckpointFolder){ state->step, FOLDER_PART }));
    return s->rank == 0 ? checkpoint_dir_begin(s->dir, state->step) : OK;
}

static void save_end(Save *s)
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

static Status save_create(Save *s)
{
    for (int b = 0; b < s->manifest.files; b++)
        if (save_owns(s, b)) TRY(bundle_create(&s->plan[b], s->part));
    return OK;
}

static uint64_t chain_mark(int tensor, int64_t element)
{
    return random_mix((uint64_t)tensor + 1, (uint64_t)element);
}

static void share_add(Share *share, int tensor, const TensorShard *shard)
{
    int64_t  cursor = 0;
    TensorShardRun run;
    while (tensor_shard_next_run(shard, &cursor, &run)) {
        share->count += (uint64_t)run.count;
        share->chain += chain_mark(tensor, run.global + run.count) - chain_mark(tensor, run.global);
    }
}

static Status pieces_write(Save *s, int b, int fd, const char *path)
{
    for (int p = 0; p < s->nshards; p++) {
        const ManifestEntry *entry = s->entry[p];
        if (entry->file != b) continue;
        int tensor = s->manifest.file[b].first + entry->tensor;
        TRY(bundle_write(fd, path, &s->plan[b], entry->tensor, &s->shards[p], &s->share[tensor].drift));
        share_add(&s->share[tensor], tensor, &s->shards[p]);
    }
    return OK;
}

static bool writes_into(const Save *s, int b)
{
    for (int p = 0; p < s->nshards; p++)
        if (s->entry[p]->file == b && s->shards[p].count > 0) return true;
    return false;
}

static Status save_write(Save *s)
{
    for (int b = 0; b < s->manifest.files; b++) {
        char path[1024];
        int  fd;
        if (!writes_into(s, b)) continue;
        TRY(bundle_open(&fd, path, &s->plan[b], s->part));
        Status status = pieces_write(s, b, fd, path);
        if (status != OK) {
            seam.close(fd);
            return status;
        }
        TRY(file_finish(fd, path));
    }
    return OK;
}

static Status file_sum(const SafeFile *map, const BundlePlan *plan, Share *share)
{
    if (memcmp(map->map.data, plan->header, plan->header_bytes) != 0)
        return fail(IO_FAILED, "%s: its header reads back otherwise than it was written; test this machine's memory and disk",
                    map->map.path);
    for (int t = 0; t < map->tensors; t++) {
        const SafeTensor *tensor = &map->tensor[t];
        size_t            width  = dtype_width(tensor->dtype);
        share[t].checksum = bundle_sum(map, t);
        share[t].drift   -= elements_sum(map->map.data + tensor->at, width, 0, (int64_t)(tensor->bytes / width));
    }
    return OK;
}

static Status save_sum(Save *s)
{
    for (int b = 0; b < s->manifest.files; b++) {
        const ManifestFile *file = &s->manifest.file[b];
        SafeFile            map;
        if (!save_owns(s, b)) continue;
        TRY(bundle_map(&map, s->part, &file->bundle, file->bytes));
        Status status = file_sum(&map, &s->plan[b], &s->share[file->first]);
        safetensors_close(&map);
        TRY(status);
    }
    return OK;
}

/* ---- publish ---- */

/* A bundle at a time: what is gathered grows with the ranks, and should not grow with the model as well. */
static void save_gather(Save *s)
{
    for (int b = 0; b < s->manifest.files; b++) {
        int64_t tensors = s->manifest.file[b].bundle.tensors;
        if (tensors == 0) continue;
        int64_t bytes = tensors * (int64_t)sizeof(Share), all = bytes * s->size;
        Share  *mine  = &s->share[s->manifest.file[b].first];
        Tensor  out = tensor_at(s->gathered, U8, &all, 1), in = tensor_at(mine, U8, &bytes, 1);
        comm_all_gather(s->world, &s->queue, out, in);                 /* <-> world: all-gather */
        memset(mine, 0, (size_t)bytes);
        for (int64_t i = 0; i < s->size * tensors; i++) {
            mine[i % tensors].count += s->gathered[i].count;
            mine[i % tensors].chain += s->gathered[i].chain;
            mine[i % tensors].drift += s->gathered[i].drift;
            mine[i % tensors].checksum += s->gathered[i].checksum;     /* zero but for the owner's */
        }
    }
}

static Status share_check(const Share *share, int index, const LogicalTensor *tensor, const char *file)
{
    uint64_t count = (uint64_t)tensor_entry_count(tensor);
    if (share->count != count)
        return fail(BAD_SHAPE, "tensor '%s' has %llu elements, but all ranks together hold %llu",
                    tensor->name, (unsigned long long)count, (unsigned long long)share->count);
    if (share->chain != chain_mark(index, (int64_t)count) - chain_mark(index, 0))
        return fail(BAD_SHAPE, "tensor '%s' has elements that two ranks hold and as many that none does",
                    tensor->name);
    if (share->drift != 0)
        return fail(IO_FAILED, "%s: tensor '%s' reads back otherwise than it is in memory: bits changed on their way to the disk; "
                    "it is not kept, and older checkpoints stay; test this machine's memory and disk", file, tensor->name);
    return OK;
}

static Status shares_check(Save *s)
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

static Status save_publish(Save *s, int keep_last)
{
    int64_t step = s->manifest.state.step;
    TRY(shares_check(s));
    if (s->rank != 0) return OK;
    TRY(manifest_write(&s->manifest, s->part));
    TRY(checkpoint_dir_check(s->part));                      /* what could not be read is not published */
    TRY(checkpoint_dir_publish(s->dir, step));
    checkpoint_dir_sweep(s->dir, step, keep_last);
    return OK;
}

static Status save_phases(Save *s, const CheckpointState *state, const Bundle *bundles, int nbundles,
                          int keep_last)
{
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
    Save s = { .world = world, .rank = comm_rank(world), .size = comm_size(world), .dir = dir,
               .shards = shards, .nshards = nshards };
    Status status = save_phases(&s, state, bundles, nbundles, keep_last);
    char   words[512];
    snprintf(words, sizeof words, "%s", fail_text());
    if (status != OK && s.rank == 0 && s.part[0]) folder_remove(s.part);
    save_end(&s);
    return status == OK ? OK : fail(status, "%s", words);
}
