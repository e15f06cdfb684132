/* The table of the cpu back end, with one entry for each row of ops.def. */
#include "tensor/cpu/cpu.h"

const Backend cpu_backend = {
    .name = "cpu", .compute = F32, .dry = false,
#define OP(heat, name, Struct, ...) .name = cpu_##name,
#include "tensor/ops.def"
#undef OP
};
