#ifndef TRAIN_TRAINER_FP8_H
#define TRAIN_TRAINER_FP8_H
#include "train/trainer.h"

/* Scales of the 8-bit inputs of linear maps, and the history they follow from. All but the first do nothing
 * without delayed scaling; trainer_fp8_init sets what a run begins with. */
/* Opens the communicator over which amax is joined; NULL: there is none. <-> tp+cp, with delayed scaling also
 * dp */
Comm   *trainer_fp8_comm (const Trainer *trainer);
void    trainer_fp8_open (Trainer *trainer);
void    trainer_fp8_init (Trainer *trainer);
void    trainer_fp8_begin(Trainer *trainer);                        /* a step */
/* The scales of the next step. <-> tp+cp+dp: all-reduce of a few numbers for each block of the stage */
void    trainer_fp8_end  (Trainer *trainer);
/* What a checkpoint has of a block, number `i` of FP8_SAVED: the logical tensor, and this rank's view of it,
 * with count 0 where it has none. */
enum { FP8_SAVED = 2 };
LogicalTensor trainer_fp8_tensor(const Trainer *trainer, int64_t layer, int i);
TensorShard   trainer_fp8_shard (const Trainer *trainer, int64_t layer, int i);
/* What the scales make of amax, of x and w, and of dy: it follows from formats and margin. 0: none. */
typedef struct { double x, dy; } Fp8Largest;
Fp8Largest    trainer_fp8_largest(const Trainer *trainer);
/* The scales of the layer, which were loaded from a run with `was`, become those of this run. */
void          trainer_fp8_adapt  (Trainer *trainer, int64_t layer, Fp8Largest was);
#endif
