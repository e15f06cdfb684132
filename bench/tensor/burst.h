#ifndef BENCH_TENSOR_BURST_H
#define BENCH_TENSOR_BURST_H
/* The speed of multiply-adds alone, measured right before and after a kernel. */
#include "../measure.h"
#include "tensor/cpu/burst.h"
#include "tensor/cpu/gemm.h"

enum { REPETITIONS = 5, BURSTS = 5 };
static Seconds bursts_run(Team *team, Burst burst)
{
    Seconds begun = now();
    for (int i = 0; i < BURSTS; i++) burst_run(team, burst);
    return since(begun);
}
#endif
