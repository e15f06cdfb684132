#ifndef COMM_REGION_H
#define COMM_REGION_H
/* Entering and leaving a tensor-parallel region: the conjugate operators f and g of Megatron-LM
 * (arXiv:1909.08053), and with sequence parallelism their variants that shard tokens outside of the
 * region (arXiv:2205.05198). All communicate on the tp axis.
 * T tokens    t tokens on this rank (T / tp with sequence parallelism, else T)    C channels
 *
 *                     without sequence parallelism   with sequence parallelism
 * tp_enter_forward    x_TC itself                    all-gather       t -> T
 * tp_enter_backward   all-reduce in place            reduce-scatter   T -> t
 * tp_leave_forward    all-reduce in place            reduce-scatter   T -> t
 * tp_leave_backward   dy_TC itself                   all-gather       t -> T
 *
 * Results that are not the argument itself are pushed on `scratch` and belong to it. */
#include "comm/comm.h"

/* comm: the tp axis; sequence_parallel: tokens are sharded outside of regions. Owns none of them. */
typedef struct { Comm *comm; Queue *queue; Arena *scratch; bool sequence_parallel; } Region;

Tensor tp_enter_forward (const Region *tp, Tensor x_tC);
/* The reduce-scattered tensor is pushed on `keep` instead of scratch. */
Tensor tp_enter_backward(const Region *tp, Tensor dx_TC, Arena *keep);
/* The same, of which comm_wait(tp->comm, *pending) completes the result: until then neither it nor dx_TC is
 * touched, and scratch keeps what the reduction needs. */
Tensor tp_enter_backward_begin(const Region *tp, Tensor dx_TC, Arena *keep, Pending *pending);
Tensor tp_leave_forward (const Region *tp, Tensor y_TC);
/* The gathered tensor is pushed on `keep` instead of scratch, because weight gradients computed later
 * read it. */
Tensor tp_leave_backward(const Region *tp, Tensor dy_tC, Arena *keep);
/* This rank's t rows of a tensor [T, ...], as a view; the tensor itself without sequence parallelism. No
 * communication. A T that tp does not divide is a CHECK. */
Tensor tp_rows(const Region *tp, Tensor x_T);
#endif
