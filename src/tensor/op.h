#ifndef TENSOR_OP_H
#define TENSOR_OP_H
/* The numbers of the operations, in the order of ops.def: OP_matmul_forward. */
#define OP(heat, name, Struct, types, ...) OP_##name,
enum Op {
#include "tensor/ops.def"
    OP_COUNT };
#undef OP
#endif
