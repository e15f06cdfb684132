/* The head unit: final norm, logits and vocabulary-parallel cross entropy, of which the last two also serve
 * multi-token prediction (model/mtp.c). Each tensor-parallel rank holds
 * the logits of its own columns only; instead of the logits the ranks exchange three numbers per token, as in
 * Megatron-LM (arXiv 1909.08053).
 *
 * The logits are by far the widest activation, so only those of a chunk of N tokens exist at any time. The
 * gradient of the loss needs no gradient from above, since gradients are sums over tokens; in training
 * everything is therefore computed in backward, the loss of a chunk together with its gradients, so that no
 * product is computed twice and the head saves nothing but its input. The gradient of its weights cannot be
 * deferred (unit_defers_weight).
 *
 *  t tokens held (T / tp under sequence parallelism, else T)   T tokens   N tokens of a chunk   C channels
 *  V vocabulary rows held by this rank   R tp ranks
 *
 *  x -- final norm -- enter -- logits -- cross entropy -- loss   lines with <-> communicate */
#include "model/model_internal.h"

/* A tied head multiplies with the token embedding itself. */
static Tensor head_weight(const ExecContext *ctx, const UnitParam *w)
{
    return unit_param(w, ctx->config->tied ? PARAM_EMBED_TOKEN_WEIGHT : PARAM_HEAD_WEIGHT);
}

/* Column c of this rank's logits is token id first + c. Columns from `valid` on are padding, which makes the
 * ranks' shards equally large; they take no part in the softmax. */
typedef struct { int64_t first, valid; } HeadVocabulary;

static HeadVocabulary head_vocabulary(const ExecContext *ctx)
{
    int64_t held = model_vocabulary_held(ctx->config, comm_size(ctx->tp.comm)),
        first = held * comm_rank(ctx->tp.comm);
    int64_t left = ctx->config->vocabulary - first;
    return (HeadVocabulary){ first, left < 0 ? 0 : left < held ? left : held };
}

/* ---- chunks of tokens ---- */

/* A chunk's logits take at most CHUNK_BYTES, unless those were fewer than CHUNK_TOKENS. Fewer tokens make the
 * products slow: each chunk reads the whole weight matrix twice, and reads and writes its whole gradient
 * (measured on two cores with 50,304 x 768 weights: 256 tokens as fast as 2048, 128 at 0.87 of that, 64 at
 * 0.6). */
enum { CHUNK_BYTES = 16 << 20, CHUNK_TOKENS = 256, CHUNK_MULTIPLE = 64 };
/* On a GPU so few tokens leave most of it idle: there are as few chunks of one length as keep to this. */
enum { DEVICE_CHUNK_BYTES = 1 << 30 };

/* A function of shapes and types alone: the gradient of the weights is a sum over chunks, so its rounding
 * depends on their length. */
static int64_t chunk_tokens(const ExecContext *ctx, int64_t T, int64_t V)
{
    int64_t N = CHUNK_BYTES / (V * (int64_t)dtype_width(ctx->precision.statistic));
    N = N < CHUNK_TOKENS ? CHUNK_TOKENS : N / CHUNK_MULTIPLE * CHUNK_MULTIPLE;
    if (ctx->queue->backend->device) {
        int64_t most = DEVICE_CHUNK_BYTES / (V * (int64_t)dtype_width(ctx->precision.statistic));
        if (most < CHUNK_TOKENS) most = CHUNK_TOKENS;
        int64_t chunks = (T + most - 1) / most;
        N = ((T + chunks - 1) / chunks + CHUNK_MULTIPLE - 1) / CHUNK_MULTIPLE * CHUNK_MULTIPLE;
    }
    if (ctx->head_chunk > 0) N = ctx->head_chunk;
    return N < T ? N : T;
}

/* Products on a GPU are slow (six times on an H100) where the vocabulary is no multiple of 8. There logits
 * have columns of padding up to the next multiple of COLUMNS, whose weights are zeros, in a copy of the
 * weights. */
enum { COLUMNS = 64 };

static Tensor padded_weight(const ExecContext *ctx, Tensor w_VC)
{
    Queue *q = ctx->queue;
    int64_t V = w_VC.dim[0], columns = (V + COLUMNS - 1) / COLUMNS * COLUMNS;
    if (!q->backend->device || V == columns) return w_VC;
    Tensor padded = tensor_new(ctx->scratch, "padded head weights", w_VC.dtype, columns, w_VC.dim[1]);
    copy_strided(q, (CopyStrided){ .y = tensor_slice(padded, 0, 0, V), .x = w_VC });
    fill_zero(q, (FillZero){ .y = tensor_slice(padded, 0, V, columns - V) });
    return padded;
}

/* The tokens [first, first + count) of the micro-batch, and buffers for N >= count of them. */
typedef struct {
    int64_t N, first, count;
    /* dlogits share the memory of the logits where both have the same type */
    Tensor logits_NV, dlogits_NV, stats_N3, stats_RN3;
    /* of all tokens: log-sum-exp of the logits, and loss */
    Tensor lse_T, loss_T;
    Tensor drawn_i;                   /* [N], where the run draws targets */
} HeadChunk;

static HeadChunk chunk_new(const ExecContext *ctx, int64_t T, int64_t V, bool backward)
{
    Dtype statistic = ctx->precision.statistic, activation = ctx->precision.activation;
    int64_t N = chunk_tokens(ctx, T, V), R = comm_size(ctx->tp.comm);
    HeadChunk c = { .N = N };
    c.logits_NV  = tensor_new(ctx->scratch, "logits", statistic, N, V);
    c.dlogits_NV = c.logits_NV;
    if (backward && activation != statistic)
        c.dlogits_NV = tensor_new(ctx->scratch, "logits gradient", activation, N, V);
    c.stats_N3  = tensor_new(ctx->scratch, "softmax statistics", statistic, N, 3);
    c.stats_RN3 = R > 1 ? tensor_new(ctx->scratch, "softmax statistics", statistic, R, N, 3)
                        : tensor_view(c.stats_N3, 1, N, 3);
    if (backward && ctx->draws) c.drawn_i = tensor_new(ctx->scratch, "drawn targets", I32, N);
    c.lse_T  = tensor_new(ctx->scratch, "softmax lse", statistic, T);
    c.loss_T = tensor_new(ctx->scratch, "loss", statistic, T);
    return c;
}

/* Moves on to the next tokens of T; false when there are none. */
static bool chunk_next(HeadChunk *c, int64_t T)
{
    c->first += c->count;
    c->count = T - c->first < c->N ? T - c->first : c->N;
    return c->count > 0;
}

static Tensor of_chunk(const HeadChunk *c, Tensor x_T) { return tensor_slice(x_T, 0, c->first, c->count); }
static Tensor held(const HeadChunk *c, Tensor x_N) { return tensor_slice(x_N, 0, 0, c->count); }

static void softcap(const ExecContext *ctx, Tensor logits)
{
    if (ctx->config->logit_softcap > 0)
        logit_softcap(ctx->queue, (LogitSoftcap){ .x_TV = logits, .softcap = ctx->config->logit_softcap });
}

/* logits = softcap(n wT),  loss = lse(logits) - logits[target]
 * A rank's statistics of a row are its maximum, its sum of exponentials and the target's logit. They are
 * gathered and combined in rank order on every rank, so the loss has the same bits on all of them. */
static void chunk_loss(const ExecContext *ctx, const HeadChunk *c, Tensor w_VC, Tensor n_TC, Tensor target_i)
{
    Queue *q = ctx->queue;
    HeadVocabulary columns = head_vocabulary(ctx);
    int64_t R = comm_size(ctx->tp.comm);
    Tensor logits_NV = held(c, c->logits_NV), stats_N3 = held(c, c->stats_N3);
    Tensor stats_RN3 = tensor_view(tensor_flat(c->stats_RN3, 0, R * c->count * 3), R, c->count, 3);
    matmul_forward(q, (MatmulForward){ .y_TK = logits_NV, .x_TC = of_chunk(c, n_TC), .w_KC = w_VC,
        .bias_K = tensor_none() });
    softcap(ctx, logits_NV);
    xent_stats(q, (XentStats){ .stats_T3 = stats_N3, .logits_TV = logits_NV,
        .target_i = of_chunk(c, target_i), .first = columns.first, .valid = columns.valid });
    comm_all_gather(ctx->tp.comm, q, stats_RN3, stats_N3);                  /* <-> tp: all-gather of [N, 3] */
    xent_forward(q, (XentForward){ .loss_T = of_chunk(c, c->loss_T), .lse_T = of_chunk(c, c->lse_T),
        .stats_RT3 = stats_RN3 });
}

/* The targets of a chunk: those of the text, or drawn from the softmax. */
static Tensor chunk_targets(const ExecContext *ctx, const HeadChunk *c, Tensor target_i)
{
    HeadVocabulary columns = head_vocabulary(ctx);
    int64_t R = comm_size(ctx->tp.comm);
    if (!ctx->drawn) return of_chunk(c, target_i);
    Tensor drawn_i = held(c, c->drawn_i);
    xent_draw(ctx->queue, (XentDraw){ .target_i = drawn_i, .logits_TV = held(c, c->logits_NV),
        .stats_RT3 = tensor_view(tensor_flat(c->stats_RN3, 0, R * c->count * 3), R, c->count, 3),
        .index_i = of_chunk(c, tensor_view(ctx->batch->dropout_index_i, tensor_count(target_i))),
        .rank = comm_rank(ctx->tp.comm), .first = columns.first, .valid = columns.valid,
        .site = SITE_DRAWN_TARGETS });
    return drawn_i;
}

/* Of all chunks at once, so that the sum does not depend on their length. */
static void add_loss(const ExecContext *ctx, const HeadChunk *c, const LossTargets *targets)
{
    weighted_sum(ctx->queue, (WeightedSum){ .out_2 = targets->sums_2, .x_T = c->loss_T,
        .loss_weight_T = targets->loss_weight_T });
}

static LossTargets next_token(const ExecContext *ctx)
{
    return (LossTargets){ ctx->batch->target_i, ctx->batch->loss_weight_T, ctx->sums_2 };
}

/* ---- the unit ---- */

FinalNorm final_norm_forward(const ExecContext *ctx, Tensor x_tC, Tensor gain_C, Tensor bias_C)
{
    FinalNorm norm = { .x_tC = x_tC, .gain_C = gain_C, .bias_C = bias_C };
    ExecContext run = exec_recompute(ctx);
    run.activations_wgrad = ctx->scratch;
    norm.n_tC = norm_unit_forward(&run, &norm.mean_t, &norm.rstd_t, x_tC, gain_C, bias_C);
    return norm;
}

void final_norm_backward(const ExecContext *ctx, Tensor dx_tC, Tensor dgain_C, Tensor dbias_C,
                         const FinalNorm *norm, Tensor dn_tC)
{
    norm_backward_input(ctx->queue, (NormBackwardInput){ .dx_TC = dx_tC, .dy_TC = dn_tC, .x_TC = norm->x_tC,
        .mean_T = norm->mean_t, .rstd_T = norm->rstd_t, .gain_C = norm->gain_C,
        .residual_TC = tensor_none(), .gain_offset = model_gain_offset(ctx->config) });
    norm_backward_weight(ctx->queue, (NormBackwardWeight){ .dgain_C = dgain_C, .dbias_C = dbias_C,
        .dy_TC = dn_tC, .x_TC = norm->x_tC, .mean_T = norm->mean_t, .rstd_T = norm->rstd_t });
}

/* Of the head itself. */
static FinalNorm head_norm(const ExecContext *ctx, const UnitParam *w, Tensor x_tC)
{
    return final_norm_forward(ctx, x_tC, unit_param(w, PARAM_FINAL_GAIN), unit_param(w, PARAM_FINAL_BIAS));
}

/* Generation: the logits after some of the rows. */
static void chosen_logits(const ExecContext *ctx, Tensor n_TC, Tensor w_VC)
{
    int64_t b = ctx->logits_bV.dim[0], C = n_TC.dim[1];
    Tensor n_bC = scratch_new(ctx, "head input", b, C);
    Tensor wide_bC = n_bC;                     /* in 8 bits the input has the type of the product: logits' */
    for (int64_t i = 0; i < b; i++) {
        int64_t row = n_TC.data ? ctx->logits_row[i] : 0;
        copy_strided(ctx->queue, (CopyStrided){ .y = tensor_slice(n_bC, 0, i, 1),
                                                .x = tensor_slice(n_TC, 0, row, 1) });
    }
    if (ctx->int8 && n_bC.dtype != ctx->precision.statistic) {
        wide_bC = tensor_new(ctx->scratch, "head input", ctx->precision.statistic, b, C);
        convert(ctx->queue, (Convert){ .y_N = tensor_view(wide_bC, b * C), .x_N = tensor_view(n_bC, b * C) });
    }
    product_forward(ctx, ctx->logits_bV, wide_bC, w_VC, tensor_none());
    softcap(ctx, ctx->logits_bV);
}

/* Computes the loss only where no backward will do it. Generation wants logits instead. y is for multi-token
 * prediction. */
void head_forward(const ExecContext *ctx, Tensor y_tC, const UnitParam *w, HeadSave *save, Tensor x_tC)
{
    save->x_tC = x_tC;
    if (ctx->backward_follows && !tensor_present(y_tC)) return;
    Tensor n_tC = head_norm(ctx, w, x_tC).n_tC;
    if (tensor_present(y_tC)) copy_strided(ctx->queue, (CopyStrided){ .y = y_tC, .x = n_tC });
    if (ctx->backward_follows) return;
    Tensor n_TC = tp_enter_forward(&ctx->tp, n_tC);                           /* <-> tp: - | all-gather */
    Tensor w_VC = head_weight(ctx, w);
    LossTargets targets = next_token(ctx);
    int64_t T = n_TC.dim[0];
    if (ctx->caches) {
        if (tensor_present(ctx->logits_bV)) chosen_logits(ctx, n_TC, w_VC);
        return;
    }
    w_VC = padded_weight(ctx, w_VC);
    HeadChunk c = chunk_new(ctx, T, w_VC.dim[0], false);
    while (chunk_next(&c, T)) chunk_loss(ctx, &c, w_VC, n_TC, targets.target_i);      /* <-> tp */
    add_loss(ctx, &c, &targets);
}

/* The reported loss is without the z-loss, whose gradient xent_backward adds.
 * dlogits = (softmax - [target]) weight,  dn = dlogits w,  dw += dlogitsT n */
Tensor head_loss_backward(const ExecContext *ctx, const UnitParam *w, const UnitParam *dw,
                          const LossTargets *targets, Tensor n_tC)
{
    Queue *q = ctx->queue;
    HeadVocabulary columns = head_vocabulary(ctx);
    Tensor w_VC = padded_weight(ctx, head_weight(ctx, w)), dw_VC = head_weight(ctx, dw);
    Tensor n_TC = tp_enter_forward(&ctx->tp, n_tC);                           /* <-> tp: - | all-gather */
    int64_t T = n_TC.dim[0];
    Tensor dn_TC = scratch_new(ctx, "head input gradient", T, n_TC.dim[1]);
    HeadChunk c = chunk_new(ctx, T, w_VC.dim[0], true);
    while (chunk_next(&c, T)) {
        Tensor dlogits_NV = held(&c, c.dlogits_NV);
        chunk_loss(ctx, &c, w_VC, n_TC, targets->target_i);                           /* <-> tp */
        xent_backward(q, (XentBackward){ .dlogits_TV = dlogits_NV, .logits_TV = held(&c, c.logits_NV),
            .lse_T = of_chunk(&c, c.lse_T), .target_i = chunk_targets(ctx, &c, targets->target_i),
            .loss_weight_T = of_chunk(&c, targets->loss_weight_T), .first = columns.first,
            .valid = columns.valid, .softcap = ctx->config->logit_softcap,
            .z = ctx->drawn ? 0 : ctx->config->logit_z_coefficient });
        matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = of_chunk(&c, dn_TC), .dy_TK = dlogits_NV,
            .w_KC = w_VC });
        matmul_backward_weight(q, (MatmulBackwardWeight){ .dw_KC = dw_VC,
            .dy_TK = tensor_slice(dlogits_NV, 1, 0, dw_VC.dim[0]), .x_TC = of_chunk(&c, n_TC) });
    }
    add_loss(ctx, &c, targets);
    return tp_enter_backward(&ctx->tp, dn_TC, ctx->scratch);                           /* <-> tp */
}

/* n = norm(x);  dn = that of the loss + dy;  dx = dnorm(dn),  dgain and dbias likewise */
void head_backward(const ExecContext *ctx, Tensor dx_tC, const UnitParam *w, const UnitParam *dw,
                   const HeadSave *save, Tensor dy_tC)
{
    FinalNorm norm = head_norm(ctx, w, save->x_tC);
    LossTargets targets = next_token(ctx);
    Tensor dn_tC = head_loss_backward(ctx, w, dw, &targets, norm.n_tC);              /* <-> tp */
    if (tensor_present(dy_tC)) accumulate(ctx->queue, (Accumulate){ .y = dn_tC, .x = dy_tC });
    final_norm_backward(ctx, dx_tC, unit_param(dw, PARAM_FINAL_GAIN), unit_param(dw, PARAM_FINAL_BIAS), &norm,
                        dn_tC);
}
