#ifndef TENSOR_CPU_BURST_H
#define TENSOR_CPU_BURST_H
/* The speed of a machine itself, with which kernels are compared: its multiply-adds alone, from registers and
 * so many independent ones that none waits for another, and its memory. */
#include "base/team.h"
#include "tensor/dtype.h"
#include "tensor/kernel_family.h"

/* flops: of one step of the loop; name: the instruction, for people */
typedef void BurstLoop(int64_t steps);
typedef struct { BurstLoop *loop; double flops; const char *name; } Burst;
enum { BURST_STEPS = 500000 };         /* of up to 12 million cycles together: 2 to 4 ms */

/* The multiply-add of the family on inputs of this type, F32 or BF16; the one of F32 where the family has no
 * instruction for pairs of bf16. */
Burst  burst_of  (KernelFamily family, Dtype input);
/* Whether it has one. */
bool   burst_has_pairs(KernelFamily family);
/* Every thread of the team runs BURST_STEPS steps. Returns the FLOPs of all threads together. */
double burst_run (Team *team, Burst burst);
/* FLOP/s of all threads together, the best of the bursts that fit into `seconds`. Of each thread its CPU time
 * counts, so that other programs on the same cores change nothing. */
double burst_peak(Team *team, Burst burst, double seconds);
/* Bytes per second, read and written ones together, with which the team copies memory beyond the caches: the
 * best of what fits into `seconds`. NO_MEMORY: there are no 256 MiB. */
Status burst_copy(double *bytes, Team *team, double seconds);
#endif
