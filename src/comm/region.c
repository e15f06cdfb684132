#include "comm/region.h"

static Tensor gathered(const Region *tp, Tensor x_tC, Arena *arena)
{
    int64_t T = x_tC.dim[0] * comm_size(tp->comm);
    Tensor x_TC = tensor_new(arena, "gathered rows", x_tC.dtype, T, x_tC.dim[1], x_tC.dim[2], x_tC.dim[3]);
    comm_all_gather(tp->comm, tp->queue, x_TC, x_tC);                        /* <-> tp: all-gather */
    return x_TC;
}

static Tensor scattered(const Region *tp, Tensor x_TC)
{
    int64_t t = x_TC.dim[0] / comm_size(tp->comm);
    Tensor  x_tC = tensor_new(tp->scratch, "summed rows", x_TC.dtype, t, x_TC.dim[1], x_TC.dim[2], x_TC.dim[3]);
    comm_reduce_scatter(tp->comm, tp->queue, x_tC, x_TC, tp->scratch);       /* <-> tp: reduce-scatter */
    return x_tC;
}

static Tensor reduced(const Region *tp, Tensor x_TC)
{
    comm_all_reduce(tp->comm, tp->queue, x_TC, tp->scratch);                 /* <-> tp: all-reduce */
    return x_TC;
}

static bool cut(const Region *tp)
{
    return tp->sequence && comm_size(tp->comm) > 1;
}

Tensor tp_enter_forward(const Region *tp, Tensor x_tC)
{
    return cut(tp) ? gathered(tp, x_tC, tp->scratch) : x_tC;
}

Tensor tp_enter_backward(const Region *tp, Tensor dx_TC)
{
    return cut(tp) ? scattered(tp, dx_TC) : reduced(tp, dx_TC);
}

Tensor tp_leave_forward(const Region *tp, Tensor y_TC)
{
    return cut(tp) ? scattered(tp, y_TC) : reduced(tp, y_TC);
}

Tensor tp_leave_backward(const Region *tp, Tensor dy_tC, Arena *keep)
{
    return cut(tp) ? gathered(tp, dy_tC, keep) : dy_tC;
}

Tensor tp_rows(const Region *tp, Tensor x_T)
{
    if (!cut(tp)) return x_T;
    int64_t t = x_T.dim[0] / comm_size(tp->comm);
    CHECK(t * comm_size(tp->comm) == x_T.dim[0], "%lld rows do not divide among %d ranks of %s",
          (long long)x_T.dim[0], comm_size(tp->comm), comm_name(tp->comm));
    return tensor_slice(x_T, 0, comm_rank(tp->comm) * t, t);
}
