#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H
/* Checkpoints of logical tensors. DIR/step_00001000/ holds safetensors files, one a bundle (a block of the
 * model with its states), and manifest.json: shapes, checksums, position, options. Every file holds whole
 * logical tensors: each rank writes its shards at their places, so no layout is in a checkpoint and the
 * bytes are the same under all of them.
 *
 * Written in a folder beside (`.step_00001000.part`), synced, renamed whole; DIR/latest names the newest
 * good one. When checkpoint_save says OK all of it is durable; whenever it fails, is killed or loses its
 * power, checkpoint_find finds the checkpoint before it or the new one, whole (checkpoint.c tells how). */
#include "comm/agree.h"
#include "tensor/tensor_shard.h"

typedef struct { char name[96]; int dims; int64_t dim[4]; Dtype dtype; } LogicalTensor;
typedef struct { char file[64]; int tensors; LogicalTensor *tensor; } Bundle;   /* "block_0003.safetensors" */

typedef struct {
    int64_t step, samples, updates;        /* steps done, samples consumed, optimizer updates done */
    uint64_t seed;
    const char *options;                   /* to be saved: the resolved options as one JSON object; NULL where read */
    const char *data;                      /* likewise: what tells the run's data from others, a line each; NULL: nothing */
} CheckpointState;

/* Before the first step, by rank 0 only: makes dir with its parents, writes and removes a file in it, and
 * locks it (DIR/.lock, held while *lock is open: to the end of the process; -1 on failure). BAD_OPTION where
 * another run holds the lock, or where dir holds whole checkpoints and `loaded`, the step's folder this run
 * began with (NULL: none), is not one of them. */
Status checkpoint_lock(const char *dir, const char *loaded, int *lock);
/* Collective. The shards of all ranks together hold each element of each tensor of the bundles once; that
 * is checked. A shard's type is its tensor's. keep_last > 0: older good checkpoints beyond so many go. */
Status checkpoint_save(Comm *world, const char *dir, const CheckpointState *state,
                       const Bundle *bundles, int nbundles, const TensorShard *shards, int nshards, int keep_last);
/* The newest good one: dir/latest, else the highest step whose manifest is whole; or dir, where that is
 * itself a step's folder. *found false where there is none; BAD_FILE where there are and none is whole, and
 * where one may not or cannot be read (rights, a sick disk). Not collective. */
Status checkpoint_find(const char *dir, char path[1024], bool *found);
Status checkpoint_state(const char *path, CheckpointState *state);
Status checkpoint_options(const char *path, char **options);         /* to be freed */
Status checkpoint_data(const char *path, char **data);               /* likewise; NULL where it keeps none */
/* One step's folder, open to be read: its manifest is read once. Not collective: every rank reads its own shards. */
typedef struct Checkpoint Checkpoint;
Status checkpoint_open (Checkpoint **checkpoint, const char *path);  /* on failure *checkpoint is NULL */
void   checkpoint_close(Checkpoint *checkpoint);                     /* NULL is fine */
const CheckpointState *checkpoint_position(const Checkpoint *checkpoint);   /* until it is closed; `options` and `data` are NULL */
/* Checks name, dims, dtype and (verify) checksums. F32 and F64 are turned into the shard's type. Of damage in DIR/step_N
 * the message names the whole one before. */
Status checkpoint_load(Checkpoint *checkpoint, const TensorShard *shards, int nshards, bool verify);
/* BAD_SHAPE naming a tensor of the checkpoint that is not one of `all` by name: a deeper model's.
 * weights_only: `<name>.<state>` of one of them is passed over. */
Status checkpoint_covers(const Checkpoint *checkpoint, const LogicalTensor *all, int count, bool weights_only);
/* Checks every checksum of one step's folder, and goes on after a bad one; prints one line a tensor where `list`. The
 * first that is wrong is what is returned. */
Status checkpoint_verify(const char *path, bool list);
#endif
