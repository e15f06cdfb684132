#ifndef CONVERT_MEGATRON_INTERNAL_H
#define CONVERT_MEGATRON_INTERNAL_H
/* What the files of Megatron-LM's two formats of checkpoints share. */
#include <jansson.h>
#include "convert/torch/torch_optimizer.h"

/* ---- names of tensors in all versions, as one: "decoder.layers.3.mlp.linear_fc1.weight", with the number of
 * the layer in the model, and "mlp.experts.5.linear_fc1.weight" with that of the expert. The rows are in
 * megatron_names.def ---- */

typedef enum {
    MEGATRON_SAME, MEGATRON_ROWS, MEGATRON_COLUMNS, MEGATRON_DOWN, MEGATRON_UP,
    MEGATRON_UNTRAINED, MEGATRON_COPY, MEGATRON_BUFFER
} MegatronJoin;

/* A layer or an expert that a name leaves out, because all of them are one tensor; and no
 * layer, no expert. */
enum { MEGATRON_ALL = -1, MEGATRON_NONE = -2 };

typedef struct {
    const char  *part;                     /* the row's name, a literal */
    MegatronJoin join;
    int          layer, expert;            /* the name's own numbers, of this file alone; or the two above */
} MegatronName;

/* False: no row has this name. */
bool megatron_name(MegatronName *out, const char *name);
static inline bool megatron_is_unused(const MegatronName *name) { return name->join >= MEGATRON_COPY; }
/* Whether training changes it, so that optimizers have its states. */
static inline bool megatron_is_parameter(const MegatronName *name)
{
    return name->join != MEGATRON_UNTRAINED && name->join != MEGATRON_BUFFER;
}
/* The name as it is everywhere here; layer and expert are counted over the whole model. */
void megatron_name_print(char out[96], const MegatronName *name, int layer, int expert);

/* ---- reading ---- */

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
/* How many rows of a tensor are tokens, of the embedding and the head; 0: all. */
int64_t megatron_rows(const MegatronRead *m, const char *tensor);

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
