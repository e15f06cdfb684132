/* Tensor-parallel regions: each function picks the collective of region.h's table. With a tp axis of
 * size 1 the collectives return at once, so the plain path needs no test of its own. */
#include "comm/region.h"

/* t rows of each rank -> T rows, on the given arena */
static Tensor gather_rows(const Region *tp, Tensor x_tC, Arena *arena)
{
    int64_t T = x_tC.dim[0] * comm_size(tp->comm);
    Tensor x_TC = tensor_new(arena, "gathered rows", x_tC.dtype, T, x_tC.dim[1], x_tC.dim[2], x_tC.dim[3]);
    comm_all_gather(tp->comm, tp->queue, x_TC, x_tC);                        /* <-> tp: all-gather */
    return x_TC;
}

/* T rows of partial sums on each rank -> this rank's t rows of the sum, on the given arena */
static Tensor reduce_scatter_rows(const Region *tp, Tensor x_TC, Arena *arena)
{
    int64_t t = x_TC.dim[0] / comm_size(tp->comm);
    Tensor  x_tC = tensor_new(arena, "reduce-scatter output", x_TC.dtype, t, x_TC.dim[1], x_TC.dim[2],
                              x_TC.dim[3]);
    comm_reduce_scatter(tp->comm, tp->queue, x_tC, x_TC, tp->scratch);       /* <-> tp: reduce-scatter */
    return x_tC;
}

/* In place: the caller's tensor becomes the sum. */
static Tensor all_reduce_rows(const Region *tp, Tensor x_TC)
{
    comm_all_reduce(tp->comm, tp->queue, x_TC, tp->scratch);                 /* <-> tp: all-reduce */
    return x_TC;
}

/* Whether the tensors outside of the region are sharded over tokens. */
static bool tokens_sharded(const Region *tp)
{
    return tp->sequence_parallel && comm_size(tp->comm) > 1;
}

/* f: identity, or all-gather */
Tensor tp_enter_forward(const Region *tp, Tensor x_tC)
{
    return tokens_sharded(tp) ? gather_rows(tp, x_tC, tp->scratch) : x_tC;
}

/* The input is used by every rank's shard of the weights, so its gradients are summed. */
Tensor tp_enter_backward(const Region *tp, Tensor dx_TC, Arena *keep)
{
    return tokens_sharded(tp) ? reduce_scatter_rows(tp, dx_TC, keep) : all_reduce_rows(tp, dx_TC);
}

Tensor tp_enter_backward_begin(const Region *tp, Tensor dx_TC, Arena *keep, Pending *pending)
{
    if (!tokens_sharded(tp)) {
        *pending = comm_all_reduce_begin(tp->comm, tp->queue, dx_TC, tp->scratch);   /* <-> tp: all-reduce */
        return dx_TC;
    }
    int64_t t = dx_TC.dim[0] / comm_size(tp->comm);
    Tensor dx_tC = tensor_new(keep, "reduce-scatter output", dx_TC.dtype, t, dx_TC.dim[1], dx_TC.dim[2],
                              dx_TC.dim[3]);
    *pending = comm_reduce_scatter_begin(tp->comm, tp->queue, dx_tC, dx_TC,
                                         tp->scratch);                           /* <-> tp: reduce-scatter */
    return dx_tC;
}

/* g: each rank has a partial product over its shard of the inner dimension, and the products are summed. */
Tensor tp_leave_forward(const Region *tp, Tensor y_TC)
{
    return tokens_sharded(tp) ? reduce_scatter_rows(tp, y_TC, tp->scratch) : all_reduce_rows(tp, y_TC);
}

/* The gradient of a sum is the same for each of its terms, so no reduction is needed. */
Tensor tp_leave_backward(const Region *tp, Tensor dy_tC, Arena *keep)
{
    return tokens_sharded(tp) ? gather_rows(tp, dy_tC, keep) : dy_tC;
}

Tensor tp_rows(const Region *tp, Tensor x_T)
{
    if (!tokens_sharded(tp)) return x_T;
    int64_t t = x_T.dim[0] / comm_size(tp->comm);
    CHECK(t * comm_size(tp->comm) == x_T.dim[0], "%lld rows cannot be divided evenly among %d ranks of %s",
          (long long)x_T.dim[0], comm_size(tp->comm), comm_name(tp->comm));
    return tensor_slice(x_T, 0, comm_rank(tp->comm) * t, t);
}
