/* The dry back ends: every op does nothing, because the wrappers in tensor/ops.c count flops and bytes.
 * They differ only in the compute type, so that a dry run takes as many bytes of memory as the run it
 * measures. */
#include "tensor/cpu/cpu.h"

#define OP(heat, name, Struct, types, ...) static void dry_##name(Queue *q, const Struct *a) { (void)q, (void)a; }
#include "tensor/ops.def"
#undef OP

#define OP(heat, name, Struct, types, ...) .name = dry_##name,
const Backend dry_ref_backend = {
    .name = "dry-ref", .compute = F64, .activation = 1u << F64, .state = 1u << F64, .dry = true,
#include "tensor/ops.def"
};
const Backend dry_cpu_backend = {
    .name = "dry-cpu", .compute = F32, .activation = CPU_ACTIVATIONS, .state = CPU_STATES, .dry = true,
    .workspace = cpu_workspace,
#include "tensor/ops.def"
};
#undef OP
