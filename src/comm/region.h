#ifndef COMM_REGION_H
#define COMM_REGION_H
/* The two joints of tensor parallelism (f and g of Megatron-LM, arXiv 1909.08053; with sequence parallelism arXiv 2205.05198).
 * t tokens held (T / tp under sequence parallel, else T)   T tokens   C channels.  Tensors made here are pushed on `scratch`.
 *
 *                     plain                     sequence parallel
 * tp_enter_forward    x_TC itself               all-gather       t -> T
 * tp_enter_backward   all-reduce in place       reduce-scatter   T -> t
 * tp_leave_forward    all-reduce in place       reduce-scatter   T -> t
 * tp_leave_backward   dy_TC itself              all-gather       t -> T                                              */
#include "comm/comm.h"

typedef struct { Comm *comm; Queue *queue; Arena *scratch; bool sequence; } Region;

Tensor tp_enter_forward (const Region *tp, Tensor x_tC);
Tensor tp_enter_backward(const Region *tp, Tensor dx_TC);
Tensor tp_leave_forward (const Region *tp, Tensor y_TC);
Tensor tp_leave_backward(const Region *tp, Tensor dy_tC, Arena *keep);      /* the gathered rows go to `keep` */
Tensor tp_rows(const Region *tp, Tensor x_T);         /* this rank's rows of a [T, ...] tensor: a view, all of it when plain */
#endif
