/* The table of the reference back end, with one entry for each row of ops.def. */
#include "tensor/ref/ref.h"

const Backend ref_backend = {
    .name = "ref", .compute = F64, .activation = 1u << F64, .state = 1u << F64,
    .dry = false,
#define OP(heat, name, Struct, types, ...) .name = ref_##name,
#include "tensor/ops.def"
#undef OP
};
