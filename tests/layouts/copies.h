#ifndef TESTS_LAYOUTS_COPIES_H
#define TESTS_LAYOUTS_COPIES_H
/* What weights are to the bit after a step, in every type, so that no bound is needed: those of 16 bits are the rounded
 * master weights of their owner, and those that several ranks hold are equal on all of them, whichever axis made the
 * copies: data-parallel ranks and replicas, tensor parallelism, tied embeddings, key-value heads. Master weights too. */
#include "train/trainer.h"

typedef struct { TensorShard part; bool master; uint64_t hash; } CopyRow;      /* part: without its memory */
/* Of a rank. rounded: elements of 16 bits that were compared with their master weights */
typedef struct { CopyRow *row; int rows; int64_t rounded; } Copies;            /* row: owned */

/* Of this rank; communicates nothing but waits for weights that are being gathered. BAD_SHAPE where one is not its
 * rounded master weight. */
Status copies_take   (Copies *copies, Trainer *trainer);
/* Adds to *compared the parts that are equal on several ranks, for each rank but the first. BAD_SHAPE where they are
 * not. */
Status copies_compare(const Copies *copies, int ranks, int *compared);
void   copies_free   (Copies *copies);
#endif
