#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H
/* A bundle as a file: one rank makes it at full size, all write their runs into it, one reads it back. */
#include "store/checkpoint.h"
#include "store/safetensors.h"

typedef struct {
    const Bundle *bundle;
    SafeTensor   *place;                   /* where each tensor of the bundle stands in the file */
    char         *header;
    size_t        header_bytes, bytes;     /* of the header; of the whole file */
} BundlePlan;

Status bundle_plan  (BundlePlan *plan, const Bundle *bundle);
void   bundle_free  (BundlePlan *plan);
Status bundle_create(const BundlePlan *plan, const char *folder);    /* header, last byte; between them a hole */
/* For bundle_write; file_finish closes it. */
Status bundle_open  (int *fd, char path[1024], const BundlePlan *plan, const char *folder);
/* *sum grows by elements_sum of the shard, taken from memory: whatever happens to a byte after that is found. */
Status bundle_write (int fd, const char *path, const BundlePlan *plan, int tensor, const TensorShard *shard, uint64_t *sum);
/* The file as it can be read now: refused unless its header tells exactly the bundle's tensors.
 * file->tensor is put in the bundle's order, so that index t is the bundle's tensor t. */
Status bundle_map   (SafeFile *file, const char *folder, const Bundle *bundle, int64_t bytes);
uint64_t bundle_sum (const SafeFile *file, int tensor);                /* XXH3 of a tensor's bytes */

/* A sum over elements, each hashed with its index in the tensor: sums of any runs add up (modulo 2^64) to that of the
 * whole tensor, in any order and under every layout, which XXH3's do not. `first` is the index of data[0]. */
uint64_t elements_sum(const void *data, size_t width, int64_t first, int64_t count);
#endif
