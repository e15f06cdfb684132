#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H
/* A bundle as a safetensors file: one rank creates it at its full size, all ranks write their shards into
 * it, and one rank reads it back. */
#include "store/checkpoint_contents.h"
#include "store/safetensors.h"
#include "tensor/tensor_shard.h"

typedef struct {
    const Bundle *bundle;
    SafeTensor   *layout;                  /* [bundle->tensors] where each tensor is in the file; owned */
    char         *header;                  /* [header_bytes] owned */
    size_t        header_bytes, bytes;     /* of the header with its length prefix; of the whole file */
} BundlePlan;

Status bundle_plan  (BundlePlan *plan, const Bundle *bundle);
void   bundle_free  (BundlePlan *plan);
/* Writes the header and the last byte; the data between them is a hole that the ranks fill. */
Status bundle_create(const BundlePlan *plan, const char *folder);
/* Opens an existing file for bundle_write and gives its path for messages; file_finish closes it. */
Status bundle_open  (int *fd, char path[1024], const BundlePlan *plan, const char *folder);
/* Writes a shard at its offsets. Adds elements_sum of the shard's memory to *sum, so that any byte that
 * changes between this memory and the disk is found when the file is read back. */
Status bundle_write (int fd, const char *path, const BundlePlan *plan, int tensor, const TensorShard *shard,
                     uint64_t *sum);
/* Maps the file as it can be read now. BAD_FILE unless its size is `bytes` and its header lists exactly
 * the bundle's tensors. Sorts file->tensor into the bundle's order, so that index t is the bundle's tensor
 * t. */
Status bundle_map   (SafeFile *file, const char *folder, const Bundle *bundle, int64_t bytes);
uint64_t bundle_sum (const SafeFile *file, int tensor);                /* XXH3 of a tensor's bytes */

/* A sum of hashes of (index in the tensor, element), modulo 2^64. The sums of disjoint ranges add up to
 * that of the whole tensor in any order, so it does not depend on the layout; XXH3 has no such property.
 * `first` is the index of data[0]; width is 1, 4 or 8 bytes. */
uint64_t elements_sum(const void *data, size_t width, int64_t first, int64_t count);
#endif
