#ifndef CONVERT_TORCH_PARAMETERS_H
#define CONVERT_TORCH_PARAMETERS_H
/* The tensors of a file of torch.save by their names, each with its states, and those of the files of
 * tensor-parallel ranks joined to the tensors of the model. */
#include "convert/torch/torch_file.h"

enum { TORCH_NAME_BYTES = 160 };

/* tensor: the weight and its states, by kind; NULL: there is none. Of the pickle, not owned. */
typedef struct {
    char                name[TORCH_NAME_BYTES];
    int                 chunk;             /* the virtual stage, of a rank that has several */
    bool                trained, expert;   /* optimizers have its states; it is one expert's */
    const PickleTensor *tensor[FOREIGN_KINDS];
} TorchParameter;
typedef struct { TorchParameter *item; size_t items, room; } TorchParameters;          /* item: owned */

/* Appends the weights of a dictionary, in its order, all as trained. nested: a dictionary in it has weights
 * too, whose names are joined by dots, and what is no tensor (Transformer Engine's states, None) is passed
 * over; else that is BAD_FILE. */
Status torch_weights(TorchParameters *list, const PickleValue *dict, int chunk, bool nested,
                     const char *label);

/* How ranks divide a tensor: along `dim`, or each has the whole where that is -1. runs: parts that a rank has
 * and that lie apart in the whole, as the gate's rows and the other half's of an MLP. [first, end): rows that
 * are no padding; end 0: all from `first` on. */
typedef struct { int dim, runs; int64_t first, end; } TorchSplit;

/* Appends the tensor `name`, whose parts are tensor[kind] of item `at` of each rank's list, and these as its
 * pieces. BAD_FILE: they are not the same tensor, or one that cannot have been divided so. */
Status torch_join(ForeignFile *file, const char *name, const TorchParameters *lists, int ranks, size_t at,
                  ForeignKind kind, TorchSplit split, const char *label);
#endif
