/* The wrappers of all operations, generated from ops.def, and what they record: calls, time, flops and
 * bytes. */
#include "tensor/ops.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/random.h"
#include "base/seam.h"

/* A struct of arguments begins with its tensors. The division rounds down to their number, because the
 * scalars after them are smaller than a Tensor. */
typedef struct { const char *name, *arguments; int tensors; } OpRow;
#define OP(heat, name, Struct, ...) { #name, #__VA_ARGS__, (int)(sizeof(Struct) / sizeof(Tensor)) },
static const OpRow row[OP_COUNT] = {
#include "tensor/ops.def"
};
#undef OP

/* The operations for which src/tensor/cuda has a kernel. */
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

/* Two rounds of mixing, so that seed, step and site do not cancel as they could in a sum. */
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
    /* Forward each head multiplies S x D by D x U and S x U by U x E; backward it does three products with D
     * and two with E. The whole rectangle is counted, also where the causal mask hides half of it. */
    case OP_attention_forward: {
        const AttentionForward *a = arguments;
        return 2.0 * (double)(tensor_count(a->q) + tensor_count(a->o)) * (double)a->k.dim[1];
    }
    case OP_attention_backward: {
        const AttentionBackward *a = arguments;
        return (6.0 * (double)tensor_count(a->q) + 4.0 * (double)tensor_count(a->d_o)) * (double)a->k.dim[1];
    }
    }
    return 0;                                  /* the others are bound by memory bandwidth */
}

void op_work(int op, const void *arguments, double *flops, double *bytes)
{
    const Tensor *x = arguments;
    *flops = op_flops(op, arguments);
    *bytes = 0;
    for (int i = 0; i < row[op].tensors; i++) *bytes += (double)tensor_bytes(x[i]);
}

/* ---- checking an output for NaN and infinity: it is the first argument; the CHECK names the op ---- */
static double value_at(Tensor x, int64_t at)
{
    return x.dtype == F64 ? ((const double *)x.data)[at] : (double)((const float *)x.data)[at];
}

static bool value_allowed(int op, double value)
{
    if (op == OP_xent_stats && value == -INFINITY) return true;      /* the maximum over no columns */
    return isfinite(value);
}

/* The tensor's name comes from the row's argument list, which begins with "Tensor y, ..." or "Tensor y;
 * ...". */
static void check_finite(int op, Tensor x)
{
    if (x.dtype != F64 && x.dtype != F32) return;
    const char *name = row[op].arguments + strlen("Tensor ");
    for (int64_t i = 0; i < x.dim[0]; i++)
        for (int64_t j = 0; j < x.dim[1]; j++)
            for (int64_t k = 0; k < x.dim[2]; k++)
                for (int64_t l = 0; l < x.dim[3]; l++) {
                    int64_t at = i * x.stride[0] + j * x.stride[1] + k * x.stride[2] + l * x.stride[3];
                    CHECK(value_allowed(op, value_at(x, at)),
                          "%.*s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is %g",
                          (int)strcspn(name, ",;"), name, i, j, k, l, value_at(x, at));
                }
}

/* ---- the wrappers ---- */
/* The op's name is in the thread's context during the call, so that a CHECK in a kernel or a worker thread
 * names it. */
typedef struct { const char *outer_op; int64_t start; size_t mark; } OpCall;   /* start: nanoseconds */

/* The dry back end pushes the workspaces of the one it measures, so the arena's peak is what a run needs. */
static size_t workspace_begin(Queue *q, int op, const void *arguments)
{
    q->op_workspace_bytes = q->backend->workspace ? q->backend->workspace(q, op, arguments) : 0;
    if (q->op_workspace_bytes == 0) return 0;
    CHECK(q->workspace, "needs a workspace of %zu bytes, but the queue has none", q->op_workspace_bytes);
    size_t mark = arena_mark(q->workspace);
    q->op_workspace = arena_push(q->workspace, row[op].name, q->op_workspace_bytes);
    return mark;
}

static OpCall call_begin(Queue *q, int op, const void *arguments)
{
    bool   timed = q->timed || thread_context()->trace;
    OpCall call  = { thread_context()->op, timed ? seam.clock() : 0, 0 };
    thread_context()->op = row[op].name;
    call.mark = workspace_begin(q, op, arguments);
    return call;
}

static void call_end(Queue *q, int op, const void *arguments, OpCall call)
{
    double flops, bytes;
    op_work(op, arguments, &flops, &bytes);
    queue_record(q, op, call.start, flops, bytes);
    if (q->watch && !q->backend->dry) check_finite(op, *(const Tensor *)arguments);
    if (q->op_workspace_bytes > 0) arena_reset(q->workspace, call.mark);
    thread_context()->op = call.outer_op;
}

#define OP(heat, name, Struct, ...)                       \
    void name(Queue *q, Struct arguments)                 \
    {                                                     \
        OpCall call = call_begin(q, OP_##name, &arguments); \
        q->backend->name(q, &arguments);                  \
        call_end(q, OP_##name, &arguments, call);         \
    }
#include "tensor/ops.def"
#undef OP
