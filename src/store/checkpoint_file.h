#ifndef STORE_CHECKPOINT_FILE_H
#define STORE_CHECKPOINT_FILE_H
/* One safetensors file of a checkpoint while it is saved: one rank creates it at its full size, all ranks
 * write their shards into it, and one rank reads it back. Nothing here communicates. */
#include "store/checkpoint_contents.h"
#include "store/safetensors.h"
#include "tensor/tensor_shard.h"

typedef struct {
    const CheckpointFile *contents;        /* the caller's, which must outlive the plan */
    SafeTensor   *layout;                  /* [contents->tensors] where each tensor is in the file; owned */
    char         *header;                  /* [header_bytes] owned */
    size_t        header_bytes, bytes;     /* of the header with its length prefix; of the whole file */
} CheckpointFilePlan;

/* Computes header and offsets. BAD_SHAPE if two tensors have one name or a size overflows; NO_MEMORY. After a
 * failure too, checkpoint_file_free is needed. */
Status checkpoint_file_plan  (CheckpointFilePlan *plan, const CheckpointFile *contents);
void   checkpoint_file_free  (CheckpointFilePlan *plan);
/* Writes the header and the last byte; the data between them is a hole that the ranks fill. IO_FAILED, as in
 * the two functions below. */
Status checkpoint_file_create(const CheckpointFilePlan *plan, const char *folder);
/* Opens an existing file for checkpoint_file_write and gives its path for messages; file_finish closes it. */
Status checkpoint_file_open  (int *fd, char path[1024], const CheckpointFilePlan *plan, const char *folder);
/* Writes a shard at its offsets. Adds elements_checksum of the shard's memory to *checksum, so that any byte
 * that changes between this memory and the disk is found when the file is read back. */
Status checkpoint_file_write (int fd, const char *path, const CheckpointFilePlan *plan, int tensor,
                              const TensorShard *shard, uint64_t *checksum);
/* Maps the file as it can be read now. BAD_FILE unless its size is `bytes` and its header lists exactly the
 * tensors of `contents`. Sorts file->tensor into their order, so that index t is contents->tensor[t]. */
Status checkpoint_file_map   (SafeFile *file, const char *folder, const CheckpointFile *contents,
                              int64_t bytes);
uint64_t checkpoint_file_checksum(const SafeFile *file, int tensor);   /* XXH3 of a tensor's bytes */

/* A sum of hashes of (index in the tensor, element), modulo 2^64. The sums of disjoint ranges add up to
 * that of the whole tensor in any order, so it does not depend on the layout; XXH3 has no such property.
 * `first` is the index of data[0]; width is 1, 4 or 8 bytes. */
uint64_t elements_checksum(const void *data, size_t width, int64_t first, int64_t count);
#endif
