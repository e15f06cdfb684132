#ifndef CONVERT_FOREIGN_WEIGHTS_H
#define CONVERT_FOREIGN_WEIGHTS_H
/* A checkpoint of another program as what a run starts from: --load hf:FOLDER, and the like. One rank
 * reads its config, index and headers; each rank opens the files with its own shards and reads these, under
 * any layout. Nothing here communicates. */
#include "convert/format.h"
#include "store/checkpoint_contents.h"
#include "tensor/tensor_shard.h"

/* FOLDER of "hf:FOLDER", or "megatron:FOLDER" and the like whole (format.h), as the functions below take it;
 * NULL: `load` is a checkpoint of this program. */
const char *foreign_weights_folder(const char *load);
/* Where its run stood, and what it lacks of states and position. Its texts are NULL. Data begin at their
 * first sample where a checkpoint knows its step and not its samples. */
CheckpointState foreign_weights_state(const ForeignFile *file);
/* What a run needs before it loads. */
typedef struct {
    CheckpointState state;
    bool            counts_samples;        /* or else samples are 0 because it does not know them */
    bool            whole;                 /* what its options do not say has the default (a config.json) */
    char            states_unread[400];    /* states that it has and that are not read: why; "": none */
    char            unknown[400];          /* settings whose meaning is not known; "": none */
} ForeignFacts;
/* The facts, and the options of its model, and of its optimizer and schedule as far as it names them, as one
 * JSON object, {"num-layers": 12, ...}, with "tokenizer", which is "none" where it has none: as bytes for all
 * ranks of this build. The caller frees *packed. */
Status foreign_weights_facts(char **packed, size_t *bytes, const char *folder);
/* Returns the options, which are part of `packed`. */
const char *foreign_weights_unpack(ForeignFacts *facts, const char *packed, size_t bytes);
/* Which tensors it has, and where in its files, as bytes for all ranks; the caller frees *table. */
Status foreign_weights_table(char **table, size_t *bytes, const char *folder);
/* The same as foreign_weights_state of the file that the table is of. */
CheckpointState foreign_weights_table_state(const char *table, size_t bytes);
/* Fills the shards' memory; floating-point types are converted. states: there are shards of optimizer
 * states, <parameter>.exp_avg and .exp_avg_sq, and weights are those of the optimizer. Of the checksums that
 * the files have this rank of `ranks` compares its part. BAD_SHAPE: a tensor is missing, too many or of
 * another shape than in `model`. BAD_FILE: another checksum, or a file is missing or of another size. */
Status foreign_weights_load(const char *table, size_t bytes, const ModelConfig *model,
                            const TensorShard *shards, int nshards, bool states, int rank, int ranks);
#endif
