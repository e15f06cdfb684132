#ifndef CONVERT_LINKS_H
#define CONVERT_LINKS_H
/* Which elements of which tensors of another program are a model's parameters: the rows of names.def for one
 * model. Both directions of a conversion follow from the same links. Sizes are in elements. */
#include "model/params.h"

enum { LINK_DIMS = 4 };
typedef enum {
#define NAMING(naming, ...) NAMING_##naming,
#include "convert/names.def"
    NAMINGS
} Naming;

/* A tensor as one side names it; unused dims are 1 and come last. keeps_type: a cast of weights leaves it
 * alone, as biases of experts */
typedef struct { char name[96]; int dims; int64_t shape[LINK_DIMS]; bool keeps_type; } LinkTensor;
/* The box of `size` elements whose element i is element first + i[0] stride[0] + ... of each side's tensor in
 * row-major order. */
typedef struct {
    LinkTensor ours, theirs;
    int64_t    size[LINK_DIMS];
    int64_t    our_first, our_stride[LINK_DIMS], their_first, their_stride[LINK_DIMS];
} Link;
typedef struct { Link *link; int count, room; } Links;                             /* owned */

/* One link for each parameter, or two where it is two tensors there, of experts one for each expert, in the
 * order of parameter blocks. BAD_SHAPE, naming the parameter, where the naming has no row for one that the
 * model has. */
Status links_make(Links *links, Naming naming, const ModelConfig *config);
void   links_free(Links *links);
/* What all names of the naming may lack: "model." */
const char *links_prefix(Naming naming);
/* What says the sizes of a model there: "config.json" */
const char *links_facts(Naming naming);
/* Whether a checkpoint with this naming may have a tensor of this name that holds no parameter. */
bool   links_surplus(Naming naming, const char *name, bool tied);
/* Whether the name is of layer *layer, and the layer is one of multi-token prediction where the checkpoint
 * has a tensor called `mark`. False where the naming has no such layers. */
bool   links_mtp(int64_t *layer, char mark[96], Naming naming, const char *name);
#endif
