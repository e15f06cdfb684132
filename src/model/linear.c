/* The linear maps of a block: query, key and value; attention's output; the MLP's first and second matrix. In
 * the activation type, or with inputs of 8 bits as NVIDIA Transformer Engine has them (arXiv 2209.05433):
 *
 *     forward           x and w in E4M3       y  = x wT
 *     backward_input    dy in E5M2 or E4M3    dx = dy w
 *     backward_weight                         dw += dyT x
 *
 * An input is rounded where it is used. The scale of a tensor does not change between its uses, so that x has
 * in backward the 8 bits that it had in forward, though only its 16-bit form is saved.
 *
 * Whatever the layout, a tensor has one scale: amax is the maximum over the ranks that hold parts of it, here
 * for current scaling, at the end of a step for delayed scaling (train/trainer_fp8.c).
 *
 *  T tokens   C channels in   K channels out                  lines with <-> communicate with other ranks */
#include "model/model_internal.h"
#include "tensor/int8.h"

static Tensor row_of(Tensor x, int row) { return tensor_view(tensor_slice(x, 0, row, 1), FP8_TENSORS); }

Fp8Scales linear_scales(const ExecContext *ctx, int64_t layer)
{
    Fp8Scales scales = { tensor_none(), tensor_none() };
    const Fp8State *fp8 = ctx->fp8;
    if (!fp8 || !fp8_has_block(&ctx->precision.fp8, layer, ctx->config->layers)) return scales;
    if (ctx->precision.fp8.recipe == FP8_CURRENT) {
        scales.scale = tensor_new(ctx->activations_wgrad, "fp8 scales", F32, FP8_TENSORS);
    } else {
        scales.scale = row_of(fp8->scale, fp8->row[layer]);
        scales.amax  = row_of(fp8->amax, fp8->row[layer]);
    }
    return scales;
}

/* scale = largest number of the format / amax of x over all ranks that hold parts of it */
static void scale_now(const ExecContext *ctx, Tensor scale_1, Tensor x, Dtype format)
{
    Tensor amax_1 = tensor_new(ctx->scratch, "fp8 amax", F32, 1);
    fill_zero(ctx->queue, (FillZero){ .y = amax_1 });
    fp8_amax(ctx->queue, (Fp8Amax){ .amax_1 = amax_1, .x_TC = x });
    comm_all_reduce_max(ctx->fp8->amax_comm, ctx->queue, amax_1, ctx->scratch);  /* <-> tp+cp: all-reduce */
    fp8_scale(ctx->queue, (Fp8Scale){ .scale_NK = tensor_view(scale_1, 1, 1),
        .amax_NK = tensor_view(amax_1, 1, 1), .format = format });
}

static int    number_of(LinearId id, Fp8Kind kind) { return id * FP8_KINDS + kind; }
static Tensor scale_of(const BlockSave *save, LinearId id, Fp8Kind kind)
{
    return tensor_flat(save->fp8.scale, number_of(id, kind), 1);
}

/* An input in 8 bits, on scratch, and its scale. */
typedef struct { Tensor q, scale_1; } Quantized;

/* first: in its first use, which determines its scale, or records its amax for later steps. */
static Quantized quantized(const ExecContext *ctx, const BlockSave *save, LinearId id, Fp8Kind kind, Tensor x,
                           bool first)
{
    const Fp8Choice *choice = &ctx->precision.fp8;
    Dtype  format = kind == FP8_DY && choice->hybrid ? F8_E5M2 : F8_E4M3;
    Tensor amax_1 = tensor_none();
    Quantized y = { tensor_new(ctx->scratch, "fp8 input", format, x.dim[0], x.dim[1]),
                    scale_of(save, id, kind) };
    if (first && tensor_present(save->fp8.amax))
        amax_1 = tensor_flat(save->fp8.amax, number_of(id, kind), 1);
    if (first && choice->recipe == FP8_CURRENT) scale_now(ctx, y.scale_1, x, format);      /* <-> tp+cp */
    fp8_quantize(ctx->queue, (Fp8Quantize){ .q_TC = y.q, .amax_1 = amax_1, .x_TC = x,
        .scale_1 = y.scale_1 });
    return y;
}

static bool is_fp8(const BlockSave *save) { return tensor_present(save->fp8.scale); }

/* Of a matrix [K, C], or with r = 1 of experts [X, K, C]. They are asked for in their order, over and over,
 * so that the next one is mostly the one behind the last. */
static const Int8Matrix *int8_of(const ExecContext *ctx, Tensor w, int r)
{
    Int8Weights *all = ctx->int8;
    for (int64_t i = 1; all && i <= all->count; i++) {
        int64_t at = (all->found + i) % all->count;
        const Int8Matrix *m = &all->matrix[at];
        bool fits = m->code.dim[r] == int8_panels(w.dim[r]) && m->code.dim[r + 1] == int8_blocks(w.dim[r + 1])
            && m->code.dim[r + 2] == INT8_BYTES && (r == 0 || m->code.dim[0] == w.dim[0]);
        if (fits && m->w == w.data) return all->found = at, m;
    }
    return NULL;
}

void product_forward(const ExecContext *ctx, Tensor y_TK, Tensor x_TC, Tensor w_KC, Tensor bias_K)
{
    const Int8Matrix *m = int8_of(ctx, w_KC, 0);
    if (m) int8_matmul_forward(ctx->queue, (Int8MatmulForward){ .y_TK = y_TK, .x_TC = x_TC,
        .code_PBN = m->code, .scale_PBR = m->scale, .bias_K = bias_K });
    else matmul_forward(ctx->queue, (MatmulForward){ .y_TK = y_TK, .x_TC = x_TC, .w_KC = w_KC,
        .bias_K = bias_K });
}

void grouped_product_forward(const ExecContext *ctx, Tensor y_MF, Tensor x_MC, Tensor w_XFC, Tensor count_RX,
                             int64_t rows)
{
    const Int8Matrix *m = int8_of(ctx, w_XFC, 1);
    if (m) grouped_int8_matmul_forward(ctx->queue, (GroupedInt8MatmulForward){ .y_MF = y_MF, .x_MC = x_MC,
        .code_XPBN = m->code, .scale_XPBR = m->scale, .count_RX = count_RX, .rows = rows });
    else grouped_matmul_forward(ctx->queue, (GroupedMatmulForward){ .y_MF = y_MF, .x_MC = x_MC,
        .w_XFC = w_XFC, .count_RX = count_RX, .rows = rows });
}

/* y = x wT (+ bias) */
void linear_forward(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor y_TK, Tensor x_TC,
                    Tensor w_KC, Tensor bias_K)
{
    size_t mark = arena_mark(ctx->scratch);
    if (!is_fp8(save)) {
        product_forward(ctx, y_TK, x_TC, w_KC, bias_K);
        return;
    }
    Quantized x = quantized(ctx, save, id, FP8_X, x_TC, true);                             /* <-> tp+cp */
    Quantized w = quantized(ctx, save, id, FP8_W, w_KC, true);                             /* <-> tp+cp */
    fp8_matmul_forward(ctx->queue, (Fp8MatmulForward){ .y_TK = y_TK, .x_TC = x.q, .w_KC = w.q,
        .bias_K = bias_K, .x_scale_1 = x.scale_1, .w_scale_1 = w.scale_1 });
    arena_reset(ctx->scratch, mark);
}

/* What linear_forward leaves for backward besides y. Delayed scaling has recorded amax and has its scales. */
void linear_forward_scales(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor x_TC,
                           Tensor w_KC)
{
    size_t mark = arena_mark(ctx->scratch);
    if (!is_fp8(save) || ctx->precision.fp8.recipe != FP8_CURRENT) return;
    scale_now(ctx, scale_of(save, id, FP8_X), x_TC, F8_E4M3);                              /* <-> tp+cp */
    scale_now(ctx, scale_of(save, id, FP8_W), w_KC, F8_E4M3);                              /* <-> tp+cp */
    arena_reset(ctx->scratch, mark);
}

void linear_activation_forward(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor y_TF,
                               Tensor h_TK, Tensor x_TC, Tensor w_KC, Tensor bias_K)
{
    int kind = ctx->config->activation;
    if (!is_fp8(save) && !ctx->int8) {
        matmul_activation_forward(ctx->queue, (MatmulActivationForward){ .y_TF = y_TF, .h_TK = h_TK,
            .x_TC = x_TC, .w_KC = w_KC, .bias_K = bias_K, .kind = kind });
        return;
    }
    linear_forward(ctx, save, id, h_TK, x_TC, w_KC, tensor_none());                        /* <-> tp+cp */
    activation_forward(ctx->queue, (ActivationForward){ .y_TF = y_TF, .x_TF = h_TK, .bias_F = bias_K,
        .kind = kind });
}

void linear_residual_forward(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor x_TC,
                             Tensor w_KC, DropoutForward end)
{
    if (!is_fp8(save) && !ctx->int8 && comm_size(ctx->tp.comm) == 1) {
        matmul_residual_forward(ctx->queue, (MatmulResidualForward){ .y_TK = end.y_TC, .x_TC = x_TC,
            .w_KC = w_KC, .residual_TK = end.residual_TC, .bias_K = end.bias_C,
            .dropout_index_i = end.dropout_index_i, .p = end.p, .site = end.site });
        return;
    }
    Tensor y_TK = scratch_new(ctx, "branch output", x_TC.dim[0], w_KC.dim[0]);
    linear_forward(ctx, save, id, y_TK, x_TC, w_KC, tensor_none());                        /* <-> tp+cp */
    end.x_TC = tp_leave_forward(&ctx->tp, y_TK);                     /* <-> tp: all-reduce | reduce-scatter */
    dropout_forward(ctx->queue, end);
}

void linear_leave_forward(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor y_tK,
                          Tensor x_TC, Tensor w_KC, Tensor bias_K)
{
    size_t mark = arena_mark(ctx->scratch);
    if (comm_size(ctx->tp.comm) == 1) {
        linear_forward(ctx, save, id, y_tK, x_TC, w_KC, bias_K);                           /* <-> tp+cp */
        return;
    }
    Tensor y_TK = scratch_new(ctx, "branch output", x_TC.dim[0], w_KC.dim[0]);
    linear_forward(ctx, save, id, y_TK, x_TC, w_KC, tensor_none());                        /* <-> tp+cp */
    Tensor sum_tK = tp_leave_forward(&ctx->tp, y_TK);                /* <-> tp: all-reduce | reduce-scatter */
    dropout_forward(ctx->queue, (DropoutForward){ .y_TC = y_tK, .x_TC = sum_tK, .bias_C = bias_K,
        .dropout_index_i = tp_rows(&ctx->tp, ctx->batch->dropout_index_i) });
    arena_reset(ctx->scratch, mark);
}

/* dx = dy w */
void linear_backward_input(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor dx_TC,
                           Tensor dy_TK, Tensor w_KC)
{
    size_t mark = arena_mark(ctx->scratch);
    if (!is_fp8(save)) {
        matmul_backward_input(ctx->queue, (MatmulBackwardInput){ .dx_TC = dx_TC, .dy_TK = dy_TK,
            .w_KC = w_KC });
        return;
    }
    Quantized dy = quantized(ctx, save, id, FP8_DY, dy_TK, true);                          /* <-> tp+cp */
    Quantized w  = quantized(ctx, save, id, FP8_W, w_KC, false);
    fp8_matmul_backward_input(ctx->queue, (Fp8MatmulBackwardInput){ .dx_TC = dx_TC, .dy_TK = dy.q,
        .w_KC = w.q, .dy_scale_1 = dy.scale_1, .w_scale_1 = w.scale_1 });
    arena_reset(ctx->scratch, mark);
}

/* dw += dyT x */
void linear_backward_weight(const ExecContext *ctx, const BlockSave *save, LinearId id, Tensor dw_KC,
                            Tensor dy_TK, Tensor x_TC)
{
    size_t mark = arena_mark(ctx->scratch);
    if (!is_fp8(save) || ctx->precision.fp8.bf16_weight_gradient) {
        matmul_backward_weight(ctx->queue, (MatmulBackwardWeight){ .dw_KC = dw_KC, .dy_TK = dy_TK,
            .x_TC = x_TC });
        return;
    }
    Quantized dy = quantized(ctx, save, id, FP8_DY, dy_TK, false);
    Quantized x  = quantized(ctx, save, id, FP8_X, x_TC, false);
    fp8_matmul_backward_weight(ctx->queue, (Fp8MatmulBackwardWeight){ .dw_KC = dw_KC, .dy_TK = dy.q,
        .x_TC = x.q, .dy_scale_1 = dy.scale_1, .x_scale_1 = x.scale_1 });
    arena_reset(ctx->scratch, mark);
}
