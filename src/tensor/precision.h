#ifndef TENSOR_PRECISION_H
#define TENSOR_PRECISION_H
/* All roles have one type so far (precision_uniform), and nothing reads `message` yet: reductions take
 * the type of their tensors. The type of each role that a tensor has in training: whoever makes a tensor
 * takes its type from here, and an operation takes types from its tensors.
 *
 * Where `param` is narrower than `master`, the optimizer keeps the weights in `master` and rounds them to
 * `param` after each update (Micikevicius et al. 2018, Mixed Precision Training, arXiv 1710.03740). */
#include "tensor/dtype.h"

typedef struct {
    Dtype param;           /* the weights that operations read */
    Dtype activation;      /* activations, their gradients; messages of tensor and pipeline parallelism */
    Dtype gradient;        /* sums of weight gradients over micro-batches */
    Dtype message;         /* weight gradients while they are summed over ranks */
    Dtype master;          /* the weights that the optimizer updates */
    Dtype state;           /* the optimizer's moments */
    /* a few numbers per token or head: mean and rstd of a norm, lse, delta, losses and their weights */
    Dtype statistic;
} Precision;

/* All roles in one type: F64 for the reference, F32 for training in single precision. */
static inline Precision precision_uniform(Dtype dtype)
{
    return (Precision){ dtype, dtype, dtype, dtype, dtype, dtype, dtype };
}
#endif
