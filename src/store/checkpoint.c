/* Saving a checkpoint. All ranks run the same five phases. Each phase ends with an agreement, so that a
 * failure of one rank stops all, and all report the message of the lowest failing rank.
 *
 *     phase    ranks      action                                                      durable after it
 *     begin    rank 0     repairs what a killed save left, makes .step_N.part/        -
 *     create   owners     each file: header, full size                            headers
 *              rank 0     tokenizer/: linked to the step before, or copied        the tokenizer
 *     write    all        their shards at their offsets; fsync of what they wrote     all data
 *     checksum owners     map their files, check them, checksum each tensor           -
 *     publish  all        all-gather the checks and check that each element was       -
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
#include "store/checkpoint_file.h"
#include "store/tensor_entry.h"
#include "store/checkpoint_dir.h"
#include "store/checkpoint_tokenizer.h"

/* A rank's contribution to the checks of one tensor; all fields are summed over ranks, modulo 2^64.
 *
 * `coverage` sums mark(end) - mark(start) over the contiguous ranges that the rank wrote, where mark is a
 * random function. If each element was written exactly once, the sum over all ranks telescopes to
 * mark(count) - mark(0); otherwise it has that value with probability 2^-64. An overlap as large as a gap,
 * which `count` does not detect, changes it.
 *
 * `difference` is the elements_checksum of what the rank wrote, computed from memory; the owner subtracts
 * that of the whole tensor as it reads back from the file. Over all ranks it is 0 unless a bit has changed
 * on the way.
 *
 * `checksum` is the XXH3 of the file's bytes for the owner and 0 for other ranks. */
typedef struct { uint64_t count, coverage, difference, checksum; } TensorCheck;

typedef struct {
    Comm               *world;
    int                 rank, size;        /* in world */
    const char         *dir;               /* the --save directory */
    char                part[1024];        /* dir/.step_N.part, where everything is written */
    Manifest            manifest;
    CheckpointFilePlan *plan;              /* [files] */
    TensorCheck        *check;             /* [tensors] of this rank; after save_gather the sum over ranks */
    TensorCheck        *gathered;          /* [ranks, tensors of the largest file] */
    const TensorShard  *shards;            /* [nshards] of this rank; the caller's */
    int                 nshards;
    const ManifestEntry **entry;           /* [nshards] the tensor of each shard */
    Queue               queue;             /* on the host: shards are host memory on every training device */
} CheckpointSave;

/* The end of a message about what reads back. */
#define CHANGED_BITS                                                                                        \
    "otherwise than it is in memory: bits changed on their way to the disk; this checkpoint is removed and"  \
    " earlier ones are kept; test this machine's memory and disk"

/* Files are assigned to ranks in turn; the owner creates the file and reads it back. */
static bool save_owns(const CheckpointSave *s, int file) { return file % s->size == s->rank; }

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
    return fail(BAD_SHAPE, "tensor '%s' is a shard of %s in memory but %s in its file", shard->name,
                tensor_entry_text(held, &wanted), tensor_entry_text(planned, tensor));
}

static Status shards_find(CheckpointSave *s)
{
    for (int p = 0; p < s->nshards; p++) {
        s->entry[p] = manifest_find(&s->manifest, s->shards[p].name);
        if (!s->entry[p])
            return fail(BAD_SHAPE, "tensor '%s' is in no file of the checkpoint", s->shards[p].name);
        TRY(shard_check(&s->shards[p], manifest_tensor(&s->manifest, s->entry[p])));
    }
    return OK;
}

static Status save_allocate(CheckpointSave *s)
{
    TRY(queue_open(&s->queue, "ref", 1, NULL));
    int widest = 0;
    for (int f = 0; f < s->manifest.files; f++)
        if (s->manifest.file[f].contents.tensors > widest) widest = s->manifest.file[f].contents.tensors;
    s->plan     = calloc((size_t)s->manifest.files + 1, sizeof *s->plan);
    s->check    = calloc((size_t)s->manifest.tensors + 1, sizeof *s->check);
    s->gathered = calloc((size_t)s->size * (size_t)widest + 1, sizeof *s->gathered);
    s->entry    = calloc((size_t)s->nshards + 1, sizeof *s->entry);
    if (s->plan && s->check && s->gathered && s->entry) return OK;
    return fail(NO_MEMORY, "no memory to plan a checkpoint of %d tensors", s->manifest.tensors);
}

static Status save_begin(CheckpointSave *s, const CheckpointState *state, const CheckpointFile *files,
                         int nfiles)
{
    TRY(manifest_plan(&s->manifest, state, files, nfiles));
    TRY(save_allocate(s));
    TRY(shards_find(s));
    for (int f = 0; f < nfiles; f++) {
        TRY(checkpoint_file_plan(&s->plan[f], &files[f]));
        s->manifest.file[f].bytes = (int64_t)s->plan[f].bytes;
    }
    TRY(checkpoint_dir_path(s->part, s->dir, (CheckpointFolder){ state->step, FOLDER_PART }));
    return s->rank == 0 ? checkpoint_dir_begin(s->dir, state->step) : OK;
}

static void save_end(CheckpointSave *s)
{
    for (int f = 0; s->plan && f < s->manifest.files; f++) checkpoint_file_free(&s->plan[f]);
    free(s->plan);
    free(s->check);
    free(s->gathered);
    free(s->entry);
    if (s->queue.team) queue_close(&s->queue);
    manifest_free(&s->manifest);
}

/* ---- create, write, checksum ---- */

static Status save_create(CheckpointSave *s)
{
    for (int f = 0; f < s->manifest.files; f++)
        if (save_owns(s, f)) TRY(checkpoint_file_create(&s->plan[f], s->part));
    return s->rank == 0 ? checkpoint_tokenizer_write(s->part, s->dir, &s->manifest.state.tokenizer) : OK;
}

/* The random function of TensorCheck.coverage; the tensor's index makes the marks of two tensors
 * independent. */
static uint64_t coverage_mark(int tensor, int64_t element)
{
    return random_mix((uint64_t)tensor + 1, (uint64_t)element);
}

static void check_add(TensorCheck *check, int tensor, const TensorShard *shard)
{
    int64_t        cursor = 0;
    TensorShardRun run;
    while (tensor_shard_next_run(shard, &cursor, &run)) {
        check->count += (uint64_t)run.count;
        check->coverage += coverage_mark(tensor, run.global + run.count) - coverage_mark(tensor, run.global);
    }
}

static Status shards_write(CheckpointSave *s, int f, int fd, const char *path)
{
    for (int p = 0; p < s->nshards; p++) {
        const ManifestEntry *entry = s->entry[p];
        if (entry->file != f) continue;
        int tensor = s->manifest.file[f].first + entry->tensor;
        TRY(checkpoint_file_write(fd, path, &s->plan[f], entry->tensor, &s->shards[p],
                                  &s->check[tensor].difference));
        check_add(&s->check[tensor], tensor, &s->shards[p]);
    }
    return OK;
}

static bool writes_into(const CheckpointSave *s, int f)
{
    for (int p = 0; p < s->nshards; p++)
        if (s->entry[p]->file == f && s->shards[p].count > 0) return true;
    return false;
}

/* A rank opens and syncs only the files that it writes to; under ZeRO or tensor parallelism these may be
 * all of them. */
static Status save_write(CheckpointSave *s)
{
    for (int f = 0; f < s->manifest.files; f++) {
        char path[1024];
        int  fd;
        if (!writes_into(s, f)) continue;
        TRY(checkpoint_file_open(&fd, path, &s->plan[f], s->part));
        Status status = shards_write(s, f, fd, path);
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
static Status header_check(const CheckpointFilePlan *plan, const char *folder)
{
    char    path[1024];
    FileMap map;
    TRY(path_join(path, folder, plan->contents->name));
    TRY(file_map(&map, path));
    bool same = map.size >= plan->header_bytes && !memcmp(map.data, plan->header, plan->header_bytes);
    file_unmap(&map);
    return same ? OK : fail(IO_FAILED, "%s: the header reads back " CHANGED_BITS, path);
}

/* Reads the data back. The manifest's checksums are of what the file holds, and `difference` compares that
 * with memory. */
static void file_checksum(const SafeFile *map, TensorCheck *check)
{
    for (int t = 0; t < map->tensors; t++) {
        const SafeTensor *tensor = &map->tensor[t];
        size_t            width  = dtype_width(tensor->dtype);
        check[t].checksum = checkpoint_file_checksum(map, t);
        check[t].difference -= elements_checksum(map->map.data + tensor->at, width, 0,
                                                 (int64_t)(tensor->bytes / width));
    }
}

static Status save_checksum(CheckpointSave *s)
{
    for (int f = 0; f < s->manifest.files; f++) {
        const ManifestFile *file = &s->manifest.file[f];
        SafeFile            map;
        if (!save_owns(s, f)) continue;
        TRY(header_check(&s->plan[f], s->part));
        TRY(checkpoint_file_map(&map, s->part, &file->contents, file->bytes));
        file_checksum(&map, &s->check[file->first]);
        safetensors_close(&map);
    }
    return OK;
}

/* ---- publish ---- */

/* Gathers the checks of one file at a time: the buffer grows with the number of ranks and should not grow
 * with the model as well. An all-gather followed by a local sum gives every rank the same numbers, so that
 * all ranks verify them alike. */
static void save_gather(CheckpointSave *s)
{
    for (int f = 0; f < s->manifest.files; f++) {
        int64_t tensors = s->manifest.file[f].contents.tensors;
        if (tensors == 0) continue;
        int64_t bytes = tensors * (int64_t)sizeof(TensorCheck), all = bytes * s->size;
        TensorCheck *mine = &s->check[s->manifest.file[f].first];
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

static Status check_verify(const TensorCheck *check, int index, const LogicalTensor *tensor, const char *file)
{
    uint64_t count = (uint64_t)tensor_entry_count(tensor);
    if (check->count != count)
        return fail(BAD_SHAPE, "tensor '%s' has %llu elements, but all ranks together hold %llu",
                    tensor->name, (unsigned long long)count, (unsigned long long)check->count);
    if (check->coverage != coverage_mark(index, (int64_t)count) - coverage_mark(index, 0))
        return fail(BAD_SHAPE, "tensor '%s' has elements that two ranks hold and as many that no rank holds",
                    tensor->name);
    if (check->difference != 0)
        return fail(IO_FAILED, "%s: tensor '%s' reads back " CHANGED_BITS, file, tensor->name);
    return OK;
}

static Status checks_verify(CheckpointSave *s)
{
    for (int f = 0; f < s->manifest.files; f++) {
        ManifestFile *file = &s->manifest.file[f];
        char          path[1024];
        TRY(path_join(path, s->part, file->contents.name));
        for (int t = 0; t < file->contents.tensors; t++) {
            TRY(check_verify(&s->check[file->first + t], file->first + t, &file->contents.tensor[t], path));
            file->checksum[t] = s->check[file->first + t].checksum;
        }
    }
    return OK;
}

/* All ranks verify the checks, since all have the sums; rank 0 alone changes names. */
static Status save_publish(CheckpointSave *s, int keep_last)
{
    int64_t step = s->manifest.state.step;
    TRY(checks_verify(s));
    if (s->rank != 0) return OK;
    TRY(manifest_write(&s->manifest, s->part));
    /* A manifest that does not read back is not published. */
    TRY(checkpoint_dir_check(s->part));
    TRY(checkpoint_dir_publish(s->dir, step));
    checkpoint_dir_prune(s->dir, step, keep_last);
    return OK;
}

static Status save_phases(CheckpointSave *s, const CheckpointState *state, const CheckpointFile *files,
                          int nfiles, int keep_last)
{
    /* Each agreement communicates, so every rank must reach every one of them, also a rank that has
     * nothing to write. */
    TRY(agree(s->world, save_begin(s, state, files, nfiles)));
    TRY(agree(s->world, save_create(s)));
    TRY(agree(s->world, save_write(s)));
    TRY(agree(s->world, save_checksum(s)));
    save_gather(s);
    return agree(s->world, save_publish(s, keep_last));
}

Status checkpoint_save(Comm *world, const char *dir, const CheckpointState *state,
                       const CheckpointFile *files, int nfiles, const TensorShard *shards, int nshards,
                       int keep_last)
{
    CheckpointSave s = { .world = world, .rank = comm_rank(world), .size = comm_size(world), .dir = dir,
               .shards = shards, .nshards = nshards };
    Failure failure = { 0 };                   /* kept, since folder_remove may fail as well */
    Status  status  = failure_keep(&failure, save_phases(&s, state, files, nfiles, keep_last));
    if (status != OK && s.rank == 0 && s.part[0]) folder_remove(s.part);
    save_end(&s);
    return failure_report(&failure);
}
