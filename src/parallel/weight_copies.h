#ifndef PARALLEL_WEIGHT_COPIES_H
#define PARALLEL_WEIGHT_COPIES_H
/* Weights of which several ranks hold copies, compared by checksums of their bytes (--test-mode). The copies
 * of a run are equal to the bit; where they are not, memory or a message was changed without any sign. Copies
 * that NCCL's sums may round differently are left out. */
#include "parallel/buckets.h"

/* Room for checksums: [2 n] of the n parameters of this rank; on `host` what is read of them. */
typedef struct { Tensor sum_2N; void *read; } WeightCopies;

void weight_copies_open(WeightCopies *copies, const Buckets *buckets, Arena *persistent, Arena *host);
/* Whether all copies are equal; false: `text` says which weights differ, and among which ranks. Ranks whose
 * copies are the same as before get false as well: of two nobody knows which one is right.
 * <-> tp kv tied shard replica: all-reduce of 2 numbers for each parameter */
bool weight_copies_equal(const WeightCopies *copies, Buckets *buckets, char text[200]);
#endif
