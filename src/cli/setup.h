#ifndef CLI_SETUP_H
#define CLI_SETUP_H
/* Where both worlds meet: options become the small structs the rooms below want, and ranks come to life. */
#include "conf/conf.h"
#include "train/trainer.h"

/* The options of a command, whole: parsed, joined with a checkpoint's where it is to give them, ranks told by the launcher, derived,
 * judged. *mpi: this process's rank where an MPI started us, else NULL. */
Status setup_options(Options *o, Transport **mpi, int command, int argc, char **argv);
/* Its two halves, for who wants to look between them: joined with the checkpoint's and derived; judged, alone and against the
 * checkpoint a run goes on with */
Status setup_values (Options *o);
Status setup_judge  (const Options *o);
/* Options are read-only from here on; the config points into them and into `json`. */
DatasetRules setup_datasets(const Options *o);
Status setup_train_config (TrainConfig *config, Options *o);
/* body once for each rank: threads of this process, or this process's own under MPI */
Status setup_run    (const Options *o, Transport *mpi, RankBody *body, void *context);
#endif
