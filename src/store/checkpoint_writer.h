#ifndef STORE_CHECKPOINT_WRITER_H
#define STORE_CHECKPOINT_WRITER_H
/* Writes a checkpoint from logical tensors, by one process and without a trainer: for checkpoints that are
 * made of another program's weights. Memory is that of the caller's window and of the tensors' names;
 * nothing holds a tensor. The result is what checkpoint_save writes: the same files, checksums, atomic
 * publication. A file that is complete is synced and read back by a thread while the next one is written.
 *
 *     CheckpointState state = { .lacks = CHECKPOINT_STATES | CHECKPOINT_POSITION, .options = json };
 *     TRY(checkpoint_writer_open(&writer, "--output", dir, &state, files, nfiles));
 *     for each tensor of each file, for each window of it:
 *         status = checkpoint_writer_put(writer, name, count, data);
 *     if (status == OK) status = checkpoint_writer_finish(writer);
 *     checkpoint_writer_close(writer);
 */
#include "model/params.h"
#include "store/checkpoint_contents.h"
#include "base/status.h"

typedef struct CheckpointWriter CheckpointWriter;
/* Makes dir where it is missing, locks it, and begins dir/step_N of state->step, which is 0 where the
 * checkpoint lacks a position. files and their tensors are the caller's and outlive the writer. BAD_OPTION
 * where dir holds complete checkpoints or another run saves there; BAD_SHAPE where two tensors have one
 * name. option: what named dir, for messages. On failure *writer is NULL. */
Status checkpoint_writer_open  (CheckpointWriter **writer, const char *option, const char *dir,
                                const CheckpointState *state, const CheckpointFile *files, int nfiles);
/* The next `count` elements of the tensor in row-major order, in its type of `files`. Each tensor is put
 * from its first element to its last; tensors may alternate, but a file is synced whenever another one is
 * written to. BAD_SHAPE: there is no such tensor, or it has fewer elements. A file that could not be synced
 * or reads back otherwise is reported by a later call. */
Status checkpoint_writer_put   (CheckpointWriter *writer, const char *name, int64_t count, const void *data);
/* Reads all back and compares it with what was put, then publishes the checkpoint and makes dir/latest name
 * it. BAD_SHAPE names a tensor that was not put as a whole. */
Status checkpoint_writer_finish(CheckpointWriter *writer);
/* Without a finish before it, or after one that failed, nothing remains of the checkpoint, nor of dir where
 * the writer made it. NULL is allowed. */
void   checkpoint_writer_close (CheckpointWriter *writer);

/* The files of a checkpoint of `model` with its weights alone in `dtype`, one file for each unit and one for
 * the token embedding, in the order of the model. Routed experts are in the file of their unit. bias: the
 * biases of experts as well (model->moe.bias), which are F32. Returns their number; the caller frees by
 * checkpoint_files_free. */
int  checkpoint_weight_files(CheckpointFile **files, const ModelConfig *model, Dtype dtype, bool bias);
void checkpoint_files_free  (CheckpointFile *files, int nfiles);
/* What weight_files consists of, and a trainer adds states to: the name of the file of parameter block
 * `block`, a parameter (or with a name of a state, its state), and the biases of a layer's experts. */
void          checkpoint_file_name  (char name[64], int64_t block);
LogicalTensor checkpoint_param      (const Param *param, Dtype dtype);
LogicalTensor checkpoint_expert_bias(const ModelConfig *model, int64_t layer, Dtype dtype);
#endif
