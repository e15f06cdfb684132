/* The table of the cpu back end, with one entry for each row of ops.def. */
#include "tensor/cpu/cpu.h"

size_t cpu_workspace(const Queue *q, int op, const void *arguments)
{
    switch (op) {
    case OP_matmul_forward:         return cpu_matmul_forward_workspace(q, arguments);
    case OP_matmul_activation_forward: return cpu_matmul_activation_forward_workspace(q, arguments);
    case OP_matmul_residual_forward:   return cpu_matmul_residual_forward_workspace(q, arguments);
    case OP_matmul_backward_input:  return cpu_matmul_backward_input_workspace(q, arguments);
    case OP_matmul_backward_weight: return cpu_matmul_backward_weight_workspace(q, arguments);
    case OP_fp8_matmul_forward:         return cpu_fp8_matmul_forward_workspace(q, arguments);
    case OP_fp8_matmul_backward_input:  return cpu_fp8_matmul_backward_input_workspace(q, arguments);
    case OP_fp8_matmul_backward_weight: return cpu_fp8_matmul_backward_weight_workspace(q, arguments);
    case OP_int8_matmul_forward:    return cpu_int8_matmul_forward_workspace(q, arguments);
    case OP_grouped_matmul_forward:         return cpu_grouped_matmul_forward_workspace(q, arguments);
    case OP_grouped_int8_matmul_forward:    return cpu_grouped_int8_matmul_forward_workspace(q, arguments);
    case OP_grouped_matmul_backward_input:  return cpu_grouped_matmul_backward_input_workspace(q, arguments);
    case OP_grouped_matmul_backward_weight: return cpu_grouped_matmul_backward_weight_workspace(q, arguments);
    case OP_route_sort:             return cpu_route_sort_workspace(q, arguments);
    case OP_paged_attention_forward: return cpu_paged_attention_forward_workspace(q, arguments);
    case OP_attention_forward:      return cpu_attention_forward_workspace(q, arguments);
    case OP_attention_backward:     return cpu_attention_backward_workspace(q, arguments);
    }
    return 0;
}

const Backend cpu_backend = {
    .name = "cpu", .compute = F32, .activation = CPU_ACTIVATIONS, .state = CPU_STATES,
    .dry = false, .workspace = cpu_workspace,
#define OP(heat, name, Struct, types, ...) .name = cpu_##name,
#include "tensor/ops.def"
#undef OP
};
