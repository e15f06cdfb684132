#ifndef TENSOR_OPS_H
#define TENSOR_OPS_H
/* The operations of a model. Each row of ops.def gives an argument struct, a wrapper that counts, times
 * and checks, and an entry in the table of each back end. A wrapper is called with named arguments:
 *
 *     matmul_forward(q, (MatmulForward){ .y_TK = h, .x_TC = x, .w_KC = w });
 *
 * A tensor that is not named is absent. A wrong type or shape is a CHECK that names the op and the tensor:
 * wrappers check types, back ends shapes. */
#include "tensor/onebit.h"
#include "tensor/queue.h"
#include "tensor/route.h"

/* GELU by tanh and by erf (Hendrycks & Gimpel 2016), squared ReLU (So et al. 2021), ReLU, SiLU; and those
 * that are gated (Shazeer 2020): SwiGLU, GEGLU with either GELU, and with x sigmoid(1.702 x). */
typedef enum { ACT_GELU_TANH, ACT_GELU_ERF, ACT_SQUARED_RELU, ACT_RELU, ACT_SILU, ACT_SWIGLU,
               ACT_GEGLU_TANH, ACT_GEGLU_ERF, ACT_QUICK_GEGLU, ACT_KINDS } ActivationKind;
#define ACT_GATED(kind) ((kind) >= ACT_SWIGLU)          /* in kernels of GPUs too */

/* What attention's rows of ops.def say of scores, beside the tensors; forward and backward have one. */
typedef struct {
    int64_t  q0, k0;                   /* positions in the sequence of the first query and the first key */
    int64_t  head0, heads, span;       /* first query head, of all heads of the model; length of a sequence */
    int64_t  window;                   /* positions that a query looks back on, its own one counted; 0: all */
    bool     alibi;                    /* scores fall by alibi_slope for each position back to the key */
    double   scale, softcap, p;        /* p: of dropout */
    uint64_t site;
} AttentionRule;

/* What the rows of rotary position embedding say of a head: its first 2 `pairs` channels turn, pair i by
 * position times frequency[i], and are multiplied by `scale`. A pair is channels i and i + pairs, as in
 * GPT-NeoX and Llama, or interleaved, channels 2 i and 2 i + 1. How a model makes the frequencies:
 * model/attention/rope.h. */
enum { ROPE_PAIRS_MOST = 256 };
typedef struct {
    int64_t pairs;
    bool    interleaved;
    double  scale, frequency[ROPE_PAIRS_MOST];
} RopeRule;

/* Where the elements of a flat range are in their logical tensor, in row-major order. Element i of the range
 * is element e = first + i of this rank's part, which begins at `offset`. With columns 0 the part has no
 * gaps, and the place is offset + e; else it has boxes of `rows` rows and `columns` columns, one in each
 * matrix of global_rows and global_columns, of which experts have many. */
typedef struct { int64_t first, offset, columns, global_columns, rows, global_rows; } ElementPlace;

#define OP(heat, name, Struct, types, ...) typedef struct { __VA_ARGS__ } Struct;
#include "tensor/ops.def"
#undef OP

/* A set of types: the bits 1 << dtype. */
typedef uint32_t DtypeSet;

struct Backend {
    const char *name;                    /* what --device calls it */
    /* F64 or F32: the type of sums within an op, of statistics, of weight gradients and of the weights that
     * the optimizer updates */
    Dtype       compute;
    /* the types of activations and parameters; of the optimizer's states */
    DtypeSet    activation, state;
    bool        device;                  /* its tensors are not in host memory; also of a dry one */
    bool        dry;                     /* ops compute nothing and data pointers may be NULL */
    /* A dry one: the back end of the run that is measured, where that lacks operations; else NULL. */
    const struct Backend *measured;
    /* Bytes that an op needs while it runs, from shapes and threads alone. NULL: no op needs any. */
    size_t    (*workspace)(const Queue *q, int op, const void *arguments);
    /* Why an op with such arguments takes a kernel that is many times slower than the one for others, and
     * which those are, from shapes and types alone; NULL: it does not. NULL: no op does. */
    const char *(*slow)(int op, const void *arguments);
#define OP(heat, name, Struct, types, ...) void (*name)(Queue *, const Struct *);
#include "tensor/ops.def"
#undef OP
};

#ifdef __cplusplus
extern "C" {
#endif
#define OP(heat, name, Struct, types, ...) void name(Queue *q, Struct arguments);
#include "tensor/ops.def"
#undef OP

extern const Backend ref_backend;        /* naive loops in double, the reference in tests */
extern const Backend cpu_backend;        /* float, vectorized, threaded */
extern const Backend dry_ref_backend;    /* computes nothing, counts flops and bytes; F64 */
extern const Backend dry_cpu_backend;    /* the same with F32 */
const char *op_name(int op);
const char *op_types(int op);            /* the letters of its row, one for each tensor */
bool     op_on_cuda(int op);             /* src/tensor/cuda has a kernel for it */
Tensor   tensor_none(void);              /* an absent tensor: dim[0] == 0 */
bool     tensor_present(Tensor x);
/* The key of the dropout with number `site` in this step; it differs in every step and at every site. */
uint64_t dropout_key(const StepState *step_state, uint64_t site);
/* Attention with linear biases (ALiBi): what is taken from a score for each position that the key is before
 * the query, in one of all `heads` of the model. With n the largest power of 2 up to `heads` it is
 * 2^(-8 (head + 1) / n) in the first n heads, and 2^(-4 (2 j + 1) / n) in head n + j. */
double   alibi_slope(int64_t head, int64_t heads);
/* The cost of an op, from its shapes alone. flops counts matrix products and attention; bytes is the sum
 * of the sizes of all its tensors, which are read or written once. */
void     op_work(int op, const void *arguments, double *flops, double *bytes);
#ifdef __cplusplus
}
#endif
#endif
