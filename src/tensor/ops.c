#include "tensor/ops.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/random.h"
#include "base/seam.h"

_Static_assert((int)OP_COUNT <= (int)QUEUE_OPS, "a queue counts every op");

/* A struct of arguments begins with its tensors; the few numbers after them never fill another one. */
typedef struct { const char *name, *arguments; int tensors; } OpRow;
#define OP(heat, name, Struct, ...) { #name, #__VA_ARGS__, (int)(sizeof(Struct) / sizeof(Tensor)) },
static const OpRow row[OP_COUNT] = {
#include "tensor/ops.def"
};
#undef OP

/* The kernels there are: src/tensor/cuda */
static const bool on_cuda[OP_COUNT] = {
    [OP_norm_forward] = true,       [OP_norm_backward_input] = true, [OP_norm_backward_weight] = true,
    [OP_activation_forward] = true, [OP_activation_backward] = true, [OP_embed_backward] = true,
    [OP_xent_stats] = true,         [OP_xent_forward] = true,        [OP_xent_backward] = true,
    [OP_adamw] = true,
};

const char *op_name(int op)    { return row[op].name; }
bool        op_on_cuda(int op) { return on_cuda[op]; }

Tensor tensor_none(void)        { return (Tensor){ 0 }; }
bool   tensor_present(Tensor x) { return x.dim[0] > 0; }

uint64_t dropout_key(const StepState *step_state, uint64_t site)
{
    return random_mix(random_mix(step_state->seed, (uint64_t)step_state->step), site);
}

/* ---- what an op costs ---- */
static double op_flops(int op, const void *arguments)
{
    switch (op) {
    case OP_matmul_forward: {
        const MatmulForward *a = arguments;
        return 2.0 * (double)tensor_count(a->y_TK) * (double)a->w_KC.dim[1];
    }
    case OP_matmul_backward_input: {
        const MatmulBackwardInput *a = arguments;
        return 2.0 * (double)tensor_count(a->dy_TK) * (double)a->w_KC.dim[1];
    }
    case OP_matmul_backward_weight: {
        const MatmulBackwardWeight *a = arguments;
        return 2.0 * (double)tensor_count(a->dy_TK) * (double)a->dw_KC.dim[1];
    }
    /* two products of S x U x D a head, five backward; the whole rectangle, masked or not */
    case OP_attention_forward: {
        const AttentionForward *a = arguments;
        return 4.0 * (double)tensor_count(a->q) * (double)a->k.dim[1];
    }
    case OP_attention_backward: {
        const AttentionBackward *a = arguments;
        return 10.0 * (double)tensor_count(a->q) * (double)a->k.dim[1];
    }
    }
    return 0;                                  /* the others wait for memory, not for arithmetic */
}

void op_work(int op, const void *arguments, double *flops, double *bytes)
{
    const Tensor *x = arguments;
    *flops = op_flops(op, arguments);
    *bytes = 0;
    for (int i = 0; i < row[op].tensors; i++) *bytes += (double)tensor_bytes(x[i]);
}

/* ---- watching: the first argument is the output; the stop itself names the op ---- */
static double value_at(Tensor x, int64_t at)
{
    return x.dtype == F64 ? ((const double *)x.data)[at] : (double)((const float *)x.data)[at];
}

static bool healthy(int op, double value)
{
    if (op == OP_xent_stats && value == -INFINITY) return true;      /* the largest of no columns */
    return isfinite(value);
}

static void watch(int op, Tensor x)
{
    if (x.dtype != F64 && x.dtype != F32) return;
    const char *name = row[op].arguments + strlen("Tensor ");
    for (int64_t i = 0; i < x.dim[0]; i++)
        for (int64_t j = 0; j < x.dim[1]; j++)
            for (int64_t k = 0; k < x.dim[2]; k++)
                for (int64_t l = 0; l < x.dim[3]; l++) {
                    int64_t at = i * x.stride[0] + j * x.stride[1] + k * x.stride[2] + l * x.stride[3];
                    CHECK(healthy(op, value_at(x, at)),
                          "%.*s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is %g",
                          (int)strcspn(name, ",;"), name, i, j, k, l, value_at(x, at));
                }
}

/* ---- the wrappers ---- */
typedef struct { const char *outer; int64_t start; } Call;

static Call call_begin(const Queue *q, int op)
{
    Call call   = { thread_context()->op, q->timed ? seam.clock() : 0 };
    thread_context()->op = row[op].name;
    return call;
}

static void call_end(Queue *q, int op, const void *arguments, Call call)
{
    OpCount *count = &q->count[op];
    double   flops, bytes;
    if (q->timed) count->seconds += (double)(seam.clock() - call.start) * 1e-9;
    op_work(op, arguments, &flops, &bytes);
    count->calls += 1;
    count->flops += flops;
    count->bytes += bytes;
    if (q->watch && !q->backend->dry) watch(op, *(const Tensor *)arguments);
    thread_context()->op = call.outer;
}

#define OP(heat, name, Struct, ...)                       \
    void name(Queue *q, Struct arguments)                 \
    {                                                     \
        Call call = call_begin(q, OP_##name);             \
        q->backend->name(q, &arguments);                  \
        call_end(q, OP_##name, &arguments, call);         \
    }
#include "tensor/ops.def"
#undef OP
