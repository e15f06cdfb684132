#ifndef TENSOR_OPS_H
#define TENSOR_OPS_H
/* From each row of ops.def: the argument struct, the wrapper (counts, times, watches) and the back ends' tables.
 *     matmul_forward(q, (MatmulForward){ .y_TK = h, .x_TC = x, .w_KC = w });                                        */
#include "tensor/queue.h"

typedef enum { ACT_GELU_TANH, ACT_GELU_ERF, ACT_SQUARED_RELU, ACT_SILU, ACT_SWIGLU } ActivationKind;

#define OP(heat, name, Struct, ...) typedef struct { __VA_ARGS__ } Struct;
#include "tensor/ops.def"
#undef OP

#define OP(heat, name, Struct, ...) OP_##name,
enum Op {
#include "tensor/ops.def"
    OP_COUNT };
#undef OP

struct Backend {
    const char *name;
    Dtype       real;
    bool        dry;
#define OP(heat, name, Struct, ...) void (*name)(Queue *, const Struct *);
#include "tensor/ops.def"
#undef OP
};

#ifdef __cplusplus
extern "C" {
#endif
#define OP(heat, name, Struct, ...) void name(Queue *q, Struct arguments);
#include "tensor/ops.def"
#undef OP

extern const Backend ref_backend;        /* double, naive: the oracle */
extern const Backend cpu_backend;        /* float, threaded */
extern const Backend dry_ref_backend;    /* computes nothing; counts flops and bytes; sizes as ref */
extern const Backend dry_cpu_backend;    /* the same, sizes as cpu */
const char *op_name(int op);
bool     op_on_cuda(int op);             /* its kernel is written */
Tensor   tensor_none(void);              /* an absent tensor: dim[0] == 0 */
bool     tensor_present(Tensor x);
uint64_t dropout_key(const StepState *step_state, uint64_t site);      /* mixes seed, step and site */
void     op_work(int op, const void *arguments, double *flops, double *bytes);   /* what an op costs, from its shapes alone */
#ifdef __cplusplus
}
#endif
#endif
