#ifndef TRAIN_TRAINER_CHECKPOINT_H
#define TRAIN_TRAINER_CHECKPOINT_H
#include "train/trainer.h"

/* Both are collective and fail on all ranks with the same message. Saving refuses weights that are not
 * finite. Loading takes the weights and, where the run trains, the optimizer states and the position (step,
 * samples, updates, loss scale) as far as the checkpoint has them and config->leave does not leave them out,
 * which it does until this run has saved; else they are those of a new run, with states 0. */
/* A new checkpoint in dir; keep_last as in checkpoint_save. */
Status trainer_save(Trainer *trainer, const char *dir, int64_t keep_last);
Status trainer_load(Trainer *trainer, const char *path);             /* the checkpoint at path */
/* Not collective: the step directory that `load` means, or `load` itself where it is another program's
 * checkpoint (convert/weights/foreign_weights.h); its position, and what it lacks; of another program's
 * checkpoint trainer_load alone finds them (RunState.lacked). */
Status trainer_find(const char *load, char path[1024], bool *found, CheckpointState *state);
/* CHECKPOINT_ bits: what a run takes of a checkpoint that lacks `lacks`. */
unsigned trainer_loads(const Trainer *trainer, unsigned lacks);
#endif
