#ifndef TESTS_TRAIN_TIMED_BACKEND_H
#define TESTS_TRAIN_TIMED_BACKEND_H
/* A back end for tests of overlap: the operations of `cpu`, each of which takes a time in proportion to its flops by the rank's
 * clock (comm/test_transports.h). */
#include "comm/test_transports.h"
#include "tensor/ops.h"

static double timed_seconds_per_flop;                  /* set before ranks are started */

static inline void timed_work(int op, const void *arguments)
{
    double flops, bytes;
    op_work(op, arguments, &flops, &bytes);
    test_clock_add(flops * timed_seconds_per_flop);
}

#define OP(heat, name, Struct, types, ...)                     \
    static inline void timed_##name(Queue *q, const Struct *a) \
    {                                                          \
        cpu_backend.name(q, a);                                \
        timed_work(OP_##name, a);                              \
    }
#include "tensor/ops.def"
#undef OP

static inline Backend timed_backend(void)
{
    Backend timed = cpu_backend;
#define OP(heat, name, Struct, types, ...) timed.name = timed_##name;
#include "tensor/ops.def"
#undef OP
    return timed;
}
#endif
