#ifndef TRAIN_BEST_H
#define TRAIN_BEST_H
/* The checkpoint with the lowest validation loss (--keep-best): DIR/best is a link to it, and --keep-last
 * keeps it. The loss is in the checkpoint's manifest, so that a resumed run compares with it. Only rank 0
 * knows which is best; the others learn it by the flags after an evaluation. */
#include "train/trainer.h"

typedef struct {
    bool   keeps;                     /* --keep-best, on rank 0 */
    double loss;                      /* of the best checkpoint; infinity: there is none */
    bool   due;                       /* on all ranks: the present step is to be saved and linked */
} Best;

/* After loading: takes the loss of DIR/best, unless that is of a later step than the run's. No
 * communication. */
Best   best_open(const Trainer *trainer);
/* Whether the validation loss is lower than that of the best checkpoint. On rank 0; false on the others. */
bool   best_beaten(const Best *best, double loss);
/* After the present step was saved: makes DIR/best name it where it is due. No communication; rank 0's
 * Status is that of the run. */
Status best_publish(Best *best, const Trainer *trainer);
#endif
