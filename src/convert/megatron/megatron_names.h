#ifndef CONVERT_MEGATRON_NAMES_H
#define CONVERT_MEGATRON_NAMES_H
/* Names of Megatron-LM's tensors in all its versions, as one: "decoder.layers.3.mlp.linear_fc1.weight", with
 * the number of the layer in the model, and "mlp.experts.5.linear_fc1.weight" with that of the expert. The
 * rows are in megatron_names.def. */
#include <stdbool.h>

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
#endif
