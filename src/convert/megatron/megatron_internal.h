#ifndef CONVERT_MEGATRON_INTERNAL_H
#define CONVERT_MEGATRON_INTERNAL_H
/* What the two formats of Megatron-LM's checkpoints share. */
#include <jansson.h>
#include "convert/megatron/megatron_names.h"
#include "convert/torch/torch_file.h"

typedef struct {
    ForeignFile *file;
    const char  *folder;                   /* of the iteration */
    json_t      *options;                  /* by megatron_arguments; owned by the caller */
    bool         gated;                    /* the MLP has a gate */
    int64_t      query_down, kv_down;      /* rows of latent attention's matrices down; 0: it has none */
    int64_t      vocabulary;               /* rows of the embedding that are tokens; 0: all */
    int          layers;
} MegatronRead;

/* Options, and what else of *m follows from the saved arguments (a Namespace). BAD_FILE where they say that
 * the model computes something that no option here does. */
Status megatron_arguments(MegatronRead *m, const PickleValue *args, const char *path);
/* Appends a tensor of the whole model, or a state of it; of the embedding and the head without the rows that
 * pad them. */
Status megatron_tensor(MegatronRead *m, int *index, ForeignKind kind, const MegatronName *name, int layer,
                       int expert, Dtype dtype, int dims, const int64_t *shape);
/* Appends a box of it; rows beyond the tensor are left out. */
Status megatron_box   (MegatronRead *m, int index, ForeignPiece piece);
/* Elements [first, first + count) along `dim` of a piece. */
ForeignPiece megatron_part(const ForeignPiece *piece, int dim, int64_t first, int64_t count, size_t width);

/* Where the run stood: "iteration" of a file's dictionary and args; of one that begins at 0, nothing. */
void   megatron_position(ForeignPosition *position, const PickleValue *root);
/* Updates that a saved optimizer has done, by any "step" or "common_step" in it, or else, without the loss
 * scaling of fp16, which skips updates, iterations. */
void   megatron_updates (ForeignPosition *position, const PickleValue *root);

/* Leaves the states out where nothing says how many updates were done. */
void   megatron_leave_uncounted(MegatronRead *m);
/* A tensor that has no row. */
Status megatron_refuse(const char *path, const char *tensor);

bool   megatron_is_legacy(const char *folder);
Status megatron_legacy_read(MegatronRead *m);
bool   megatron_is_dist(const char *folder);
Status megatron_dist_read(MegatronRead *m);
#endif
