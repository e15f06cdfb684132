/* The wrappers of all operations, generated from ops.def, and what they record: calls, time, flops and
 * bytes. */
#include "tensor/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/exponential.h"
#include "base/message.h"
#include "base/random.h"
#include "base/seam.h"

/* A struct of arguments begins with its tensors, one for each letter of its types. */
typedef struct { const char *name, *types, *arguments; int tensors; } OpRow;
#define OP(heat, name, Struct, types, ...) { #name, types, #__VA_ARGS__, (int)sizeof(types) - 1 },
static const OpRow row[OP_COUNT] = {
#include "tensor/ops.def"
};
#undef OP

/* The operations for which src/tensor/cuda has a kernel. */
static const bool on_cuda[OP_COUNT] = {
#define KERNEL(name, Struct) [OP_##name] = true,
#define KERNEL_WORKSPACE(name, Struct) [OP_##name] = true,
#include "tensor/cuda/kernels.def"
};

const char *op_name(int op)    { return row[op].name; }
const char *op_types(int op)   { return row[op].types; }
bool        op_on_cuda(int op) { return on_cuda[op]; }

Tensor tensor_none(void)        { return (Tensor){ 0 }; }
bool   tensor_present(Tensor x) { return x.dim[0] > 0; }

/* Two rounds of mixing, so that seed, step and site do not cancel as they could in a sum. */
double alibi_slope(int64_t head, int64_t heads)
{
    int64_t n = 1;
    while (2 * n <= heads) n *= 2;
    double power = head < n ? 8 * (double)(head + 1) : 4 * (double)(2 * (head - n) + 1);
    return natural_power(2, -power / (double)n);
}

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
    case OP_matmul_activation_forward: {
        const MatmulActivationForward *a = arguments;
        return 2.0 * (double)tensor_count(a->h_TK) * (double)a->w_KC.dim[1];
    }
    case OP_matmul_residual_forward: {
        const MatmulResidualForward *a = arguments;
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
    case OP_fp8_matmul_forward: {
        const Fp8MatmulForward *a = arguments;
        return 2.0 * (double)tensor_count(a->y_TK) * (double)a->w_KC.dim[1];
    }
    case OP_fp8_matmul_backward_input: {
        const Fp8MatmulBackwardInput *a = arguments;
        return 2.0 * (double)tensor_count(a->dy_TK) * (double)a->w_KC.dim[1];
    }
    case OP_fp8_matmul_backward_weight: {
        const Fp8MatmulBackwardWeight *a = arguments;
        return 2.0 * (double)tensor_count(a->dy_TK) * (double)a->dw_KC.dim[1];
    }
    case OP_int8_matmul_forward: {
        const Int8MatmulForward *a = arguments;
        return 2.0 * (double)tensor_count(a->y_TK) * (double)a->x_TC.dim[1];
    }
    case OP_grouped_matmul_forward: {
        const GroupedMatmulForward *a = arguments;
        return 2.0 * (double)a->rows * (double)a->w_XFC.dim[1] * (double)a->w_XFC.dim[2];
    }
    case OP_grouped_int8_matmul_forward: {
        const GroupedInt8MatmulForward *a = arguments;
        return 2.0 * (double)a->rows * (double)a->y_MF.dim[1] * (double)a->x_MC.dim[1];
    }
    case OP_grouped_matmul_backward_input: {
        const GroupedMatmulBackwardInput *a = arguments;
        return 2.0 * (double)a->rows * (double)a->w_XFC.dim[1] * (double)a->w_XFC.dim[2];
    }
    case OP_grouped_matmul_backward_weight: {
        const GroupedMatmulBackwardWeight *a = arguments;
        return 2.0 * (double)a->rows * (double)a->dw_XFC.dim[1] * (double)a->dw_XFC.dim[2];
    }
    /* Forward each head multiplies S x D by D x U and S x U by U x E; backward it does three products with D
     * and two with E. The whole rectangle is counted, also where the causal mask hides half of it. */
    case OP_attention_forward: {
        const AttentionForward *a = arguments;
        return 2.0 * (double)(tensor_count(a->q) + tensor_count(a->o)) * (double)a->k.dim[1];
    }
    /* all keys that a row of pages can hold, since how many a query sees is on the device */
    case OP_paged_attention_forward: {
        const PagedAttentionForward *a = arguments;
        double keys = (double)(a->page_i.dim[1] * a->k.dim[1]);
        return 2.0 * (double)(tensor_count(a->q) + tensor_count(a->o)) * keys;
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

/* ---- types ---- */

/* The name of tensor i: arguments begin with "Tensor y_N, x_N;" */
static const char *tensor_name(int op, int i, int *length)
{
    const char *name = row[op].arguments + strlen("Tensor ");
    for (; i > 0; i--) name += strcspn(name, ",") + 2;
    *length = (int)strcspn(name, ",;");
    return name;
}

static bool in_set(DtypeSet set, Dtype dtype) { return set >> dtype & 1; }

/* Whether a tensor of a letter of ops.def may have this type, where activations of the call have `common`. */
static bool type_allowed(const Backend *b, char letter, Dtype dtype, Dtype common)
{
    bool any = in_set(b->activation | b->state, dtype) || dtype == b->compute;
    switch (letter) {
    case 'a': case 'p':           return in_set(b->activation, dtype) && dtype == common;
    case 's': case 'g': case 'm': return dtype == b->compute;
    case 'w':
        return dtype == b->compute || (in_set(b->activation, dtype) && dtype == common);
    case 'o':                     return in_set(b->state, dtype);
    case 'x': case 'y':           return any;
    case 'q':                     return dtype == F8_E4M3;
    case 'r':                     return dtype == F8_E4M3 || dtype == F8_E5M2;
    case 'd':                     return dtype == F64;
    case 'i':                     return dtype == I32;
    case 'u':                     return dtype == U8;
    }
    return true;
}

static void check_types(const Backend *b, int op, const void *arguments)
{
    const Tensor *x = arguments;
    int common = -1, length;
    for (int i = 0; i < row[op].tensors; i++)
        if (strchr("ap", row[op].types[i]) && x[i].dim[0] > 0 && common < 0) common = (int)x[i].dtype;
    for (int i = 0; i < row[op].tensors; i++) {
        if (x[i].dim[0] <= 0 || type_allowed(b, row[op].types[i], x[i].dtype, (Dtype)common)) continue;
        const char *name = tensor_name(op, i, &length);
        CHECK(false, "%.*s is %s, which %s does not take there", length, name, dtype_name(x[i].dtype), b->name);
    }
}

/* ---- looking for NaN and infinity in an output, which is the first argument ---- */
static bool value_allowed(int op, double value)
{
    if (op == OP_xent_stats && value == -INFINITY) return true;      /* the maximum over no columns */
    return isfinite(value);
}

/* Looks through a row of elements, by pieces that the host reads. Returns the place of the first one that is
 * not allowed, and *value; -1: there is none. */
static int64_t row_finding(Queue *q, int op, const char *data, Dtype dtype, int64_t count, int64_t stride,
                           double *value)
{
    enum { PIECE = 512 };
    double raw[PIECE], read[PIECE];
    size_t width = dtype_width(dtype);
    for (int64_t at = 0, n; at < count; at += n) {
        n = stride != 1 ? 1 : count - at < PIECE ? count - at : PIECE;
        queue_read(q, raw, data + (size_t)(at * stride) * width, (size_t)n * width);
        dtype_convert(read, F64, raw, dtype, n);
        for (int64_t i = 0; i < n; i++)
            if (!value_allowed(op, *value = read[i])) return at + i;
    }
    return -1;
}

/* The first element that is not finite: its indices and its value. */
static bool tensor_finding(Queue *q, int op, Tensor x, int64_t at[4], double *value)
{
    if (!dtype_is_float(x.dtype) || !x.data || x.dim[0] <= 0) return false;
    for (at[0] = 0; at[0] < x.dim[0]; at[0]++)
        for (at[1] = 0; at[1] < x.dim[1]; at[1]++)
            for (at[2] = 0; at[2] < x.dim[2]; at[2]++) {
                int64_t row_at = at[0] * x.stride[0] + at[1] * x.stride[1] + at[2] * x.stride[2];
                const char *data = (const char *)x.data + (size_t)row_at * dtype_width(x.dtype);
                at[3] = row_finding(q, op, data, x.dtype, x.dim[3], x.stride[3], value);
                if (at[3] >= 0) return true;
            }
    return false;
}

/* "y_TK[3, 0, 0, 0] is nan", and where it is so "; not finite as well: w_KC" */
static bool finding_text(char out[240], Queue *q, int op, const void *arguments)
{
    const Tensor *x = arguments;
    int64_t at[4], other[4];
    double  value, unused;
    int length;
    if (!tensor_finding(q, op, x[0], at, &value)) return false;
    const char *name = tensor_name(op, 0, &length);
    snprintf(out, 240, "%.*s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is %g", length, name,
                    at[0], at[1], at[2], at[3], value);
    for (int i = 1, found = 0; i < row[op].tensors; i++) {
        if (!tensor_finding(q, op, x[i], other, &unused)) continue;
        name  = tensor_name(op, i, &length);
        message_add(out, 240, "%s%.*s", found++ ? ", " : "; not finite as well: ", length, name);
    }
    return true;
}

static void check_finite(Queue *q, int op, const void *arguments)
{
    char text[240];
    OpFinding *f = q->finding;
    if ((f && f->found) || !finding_text(text, q, op, arguments)) return;
    CHECK(f, "%s", text);
    *f = (OpFinding){ .found = true, .op = row[op].name, .unit = thread_context()->unit };
    memcpy(f->text, text, sizeof f->text);
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
    if (timed) queue_wait(q);                  /* of an op on a device the time is taken until it is done */
    OpCall call  = { thread_context()->op, timed ? seam.clock() : 0, 0 };
    thread_context()->op = row[op].name;
    check_types(q->backend, op, arguments);
    if (q->backend->dry && q->backend->slow && !q->count[op].slow)
        q->count[op].slow = q->backend->slow(op, arguments);
    call.mark = workspace_begin(q, op, arguments);
    return call;
}

static void call_end(Queue *q, int op, const void *arguments, OpCall call)
{
    double flops, bytes;
    op_work(op, arguments, &flops, &bytes);
    if (q->timed || thread_context()->trace) queue_wait(q);
    queue_record(q, op, call.start, flops, bytes);
    if ((q->watch || q->finding) && !q->backend->dry) check_finite(q, op, arguments);
    if (q->op_workspace_bytes > 0) arena_reset(q->workspace, call.mark);
    thread_context()->op = call.outer_op;
}

#define OP(heat, name, Struct, types, ...)                       \
    void name(Queue *q, Struct arguments)                 \
    {                                                     \
        OpCall call = call_begin(q, OP_##name, &arguments); \
        q->backend->name(q, &arguments);                  \
        call_end(q, OP_##name, &arguments, call);         \
    }
#include "tensor/ops.def"
#undef OP
