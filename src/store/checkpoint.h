#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H
/* Checkpoints of logical tensors. DIR/step_00001000/ holds one safetensors file per parameter block
 * (with its optimizer states) and manifest.json: shapes, checksums, position, options. Every file
 * holds whole logical tensors: each rank writes its shards at their offsets, so a checkpoint does not
 * depend on the parallel layout, and its bytes are the same under all of them.
 *
 * A save writes into a hidden directory (`.step_00001000.part`), syncs it and renames it as a whole;
 * DIR/latest names the newest checkpoint. When checkpoint_save returns OK, all of it is durable. If a save
 * fails, is killed or loses power, checkpoint_find finds either the previous checkpoint or the new one,
 * complete; the protocol is at the top of checkpoint.c. */
#include "comm/agree.h"
#include "store/manifest.h"
#include "tensor/tensor_shard.h"

/* Called by rank 0 only, before the first step. Creates `dir` and its parents, writes and removes a file
 * in it, and locks it (DIR/.lock). The lock is held while the descriptor *lock is open, that is until the
 * process ends; *lock is -1 on failure. BAD_OPTION if dir is or is named like a step directory, if
 * another run holds the lock, or if dir holds complete checkpoints and `loaded`, the step directory that
 * this run was loaded from (NULL: none), is not one of them. option: "--save", or what else named dir. */
Status checkpoint_lock(const char *option, const char *dir, const char *loaded, int *lock);
/* Collective over world: an all-gather of checksums and five agreements. The shards of all ranks together
 * must hold each element of each tensor of `files` exactly once, which is checked (BAD_SHAPE). A shard
 * has its tensor's dtype. keep_last > 0: of the complete checkpoints up to this step only that many are
 * kept. On failure all ranks return the same Status and message, and earlier checkpoints are unchanged. */
Status checkpoint_save(Comm *world, const char *dir, const CheckpointState *state,
                       const CheckpointFile *files, int nfiles, const TensorShard *shards, int nshards,
                       int keep_last);
/* The newest complete checkpoint: the one that DIR/latest names, else the highest step below that one, or
 * of all where there is no `latest`, whose manifest is valid; or `dir` itself if it is a step directory.
 * *found is false if there is none. BAD_FILE if there are checkpoints and none is complete, if one cannot
 * be read for another reason than damage (permissions, I/O errors), and if `dir` does not exist but names
 * a step or is beside the steps of a run. Not collective. */
Status checkpoint_find(const char *dir, char path[1024], bool *found);
/* The same without the line in the log where `latest` names a damaged checkpoint: for a look at a checkpoint
 * that is opened later. */
Status checkpoint_find_silent(const char *dir, char path[1024], bool *found);

/* What the manifest of the step directory `path` says of the run; BAD_FILE if it is missing or damaged. Valid
 * until it is freed. */
typedef struct { CheckpointState state; Manifest manifest; } CheckpointFacts;
Status checkpoint_facts     (CheckpointFacts *facts, const char *path);
void   checkpoint_facts_free(CheckpointFacts *facts);
/* The same without its texts. */
Status checkpoint_state(const char *path, CheckpointState *state);

/* One step directory, opened for reading; its manifest is read once. Not collective: every rank reads its
 * own shards. */
typedef struct Checkpoint Checkpoint;
Status checkpoint_open (Checkpoint **checkpoint, const char *path);  /* on failure *checkpoint is NULL */
void   checkpoint_close(Checkpoint *checkpoint);                     /* NULL is allowed */
/* Valid until the checkpoint is closed; its texts are NULL. */
const CheckpointState *checkpoint_position(const Checkpoint *checkpoint);
/* Whether it has a tensor of this name and shape. */
bool   checkpoint_has(const Checkpoint *checkpoint, const LogicalTensor *tensor);
/* Fills the shards' memory, under any layout. Checks name, dims, dtype and, if `verify`, checksums;
 * floating-point types are converted to the shard's dtype. BAD_SHAPE if a tensor is missing or differs,
 * BAD_FILE if a file is damaged; the message then names the complete checkpoint before it. */
Status checkpoint_load(Checkpoint *checkpoint, const TensorShard *shards, int nshards, bool verify);
/* Gives the pages of the files that were read back to the system, where they count as memory of this
 * process. */
void   checkpoint_release(const Checkpoint *checkpoint);
/* BAD_SHAPE naming a tensor of the checkpoint that is not one of `all` by name, for example of a deeper
 * model. weights_only: optimizer states (`<name>.<state>` of one of `all`) are ignored. */
Status checkpoint_covers(const Checkpoint *checkpoint, const LogicalTensor *all, int count,
                         bool weights_only);
/* Checks every checksum of one step directory and continues after a bad one; `list` prints one line per
 * tensor to standard output. Returns the first error. */
Status checkpoint_verify(const char *path, bool list);
/* The same of all checkpoints of `dir`, or of `dir` where it is one, with a line for each; and that `latest`
 * names one of them. */
Status checkpoint_verify_all(const char *dir);
#endif
