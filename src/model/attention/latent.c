/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1; Megatron-LM's
 * --multi-latent-attention).
 *
 *  down = n w_downT, whose columns are a latent of queries (or queries themselves), a latent of keys and
 * values,
 *  and channels of keys that RoPE rotates, the same for all heads:
 *      q = norm(query latent) query_upT,   [k, v] of a head = norm(latent) kv_upT,   k = [k, rope(rotated
 * channels)]
 *
 *  T tokens   C channels   H heads held by this rank   D channels of a query or key: N unrotated, then R
 * rotated
 *  E channels of a value   P columns of down   U = H (N + E) columns of kv_up's output   Q = H (2 D + E)
 *
 * The matrices up are column-parallel. Each tensor-parallel rank computes all of `down`; its gradient there
 * is that of its own heads, so the gradients of w_down and of the norms' gains are summed over tp once per
 * step. Attention and generation have whole keys and values, as without latents. */
#include "model/model_internal.h"

enum { QUERY, KV, KINDS };                     /* latents of queries, and of keys and values */
static const ParamId gain_id[KINDS] = { PARAM_LATENT_QUERY_GAIN, PARAM_LATENT_KV_GAIN };
static const ParamId up_id[KINDS]   = { PARAM_LATENT_QUERY_UP,   PARAM_LATENT_KV_UP };

/* column: where in down the latents begin, or the queries, and the rotated channels of keys */
typedef struct { int64_t H, D, N, R, E, P, U, rank[KINDS], column[KINDS], rotated; bool queries_down; } Sizes;

static Sizes sizes_of(const ExecContext *ctx)
{
    const LatentConfig *l = &ctx->config->latent;
    Sizes z = { .H = ctx->config->heads / comm_size(ctx->tp.comm), .D = ctx->config->head_dim,
                .R = l->rope_dim, .E = l->value_dim, .rank = { l->query_rank, l->kv_rank },
                .queries_down = l->query_rank > 0 };
    z.N = z.D - z.R;
    z.U = z.H * (z.N + z.E);
    z.P = (z.queries_down ? z.rank[QUERY] : z.H * z.D) + z.rank[KV] + z.R;
    z.column[KV]    = z.queries_down ? z.rank[QUERY] : 0;
    z.column[QUERY] = z.queries_down ? 0 : z.rank[KV] + z.R;
    z.rotated = z.column[KV] + z.rank[KV];
    return z;
}

int64_t latent_columns(const ExecContext *ctx)
{
    Sizes z = sizes_of(ctx);
    return z.H * (2 * z.D + z.E);
}

/* w_down: the query matrix without a latent of queries comes last. */
Tensor latent_down_weight(const UnitParam *w)
{
    return unit_span(w, PARAM_LATENT_QUERY_DOWN, PARAM_LATENT_QUERY_WEIGHT);
}

/* Of rows [T, ..] n heads of `width` channels, `apart` columns from one to the next: [T, n, width] */
static Tensor heads_of(Tensor x, int64_t column, int64_t n, int64_t apart, int64_t width)
{
    Tensor heads = tensor_slice(x, 1, column, width);
    heads.dim[1] = n,     heads.stride[1] = apart;
    heads.dim[2] = width, heads.stride[2] = 1;
    return heads;
}

/* Of qkv, or its gradient: queries [T, H D]; rotated channels of queries and of keys, the others of keys,
 * values */
static Tensor queries      (Sizes z, Tensor qkv) { return tensor_slice(qkv, 1, 0, z.H * z.D); }
static Tensor query_rotated(Sizes z, Tensor qkv) { return heads_of(qkv, z.N, z.H, z.D, z.R); }
static Tensor key_rotated  (Sizes z, Tensor qkv) { return heads_of(qkv, z.H * z.D + z.N, z.H, z.D, z.R); }
static Tensor key_others   (Sizes z, Tensor qkv) { return heads_of(qkv, z.H * z.D, z.H, z.D, z.N); }
static Tensor values       (Sizes z, Tensor qkv) { return heads_of(qkv, 2 * z.H * z.D, z.H, z.E, z.E); }
/* Of the output of kv_up, or its gradient */
static Tensor up_keys      (Sizes z, Tensor kv)  { return heads_of(kv, 0, z.H, z.N + z.E, z.N); }
static Tensor up_values    (Sizes z, Tensor kv)  { return heads_of(kv, z.N, z.H, z.N + z.E, z.E); }
/* Of down, or its gradient */
static Tensor latent_of(Sizes z, Tensor down, int kind)
{
    return tensor_slice(down, 1, z.column[kind], z.rank[kind]);
}
static Tensor queries_of(Sizes z, Tensor down) { return tensor_slice(down, 1, z.column[QUERY], z.H * z.D); }
static Tensor shared_key(Sizes z, Tensor down) { return heads_of(down, z.rotated, 1, z.R, z.R); }

static void copy(Queue *q, Tensor y, Tensor x) { copy_strided(q, (CopyStrided){ .y = y, .x = x }); }

/* ---- forward ---- */

/* The normalized latent times the matrix up */
static void up_forward(const ExecContext *ctx, Sizes z, const UnitParam *w, BlockSave *save, int kind,
                       Tensor y_TK)
{
    int64_t T = save->down_TP.dim[0];
    const ModelConfig *c = ctx->config;
    save->latent_TR[kind] = tensor_new(ctx->activations_wgrad, "latent", ctx->precision.activation, T,
        z.rank[kind]);
    save->latent_rstd_T[kind] = tensor_new(ctx->activations_wgrad, "latent statistics",
        ctx->precision.statistic, T);
    norm_forward(ctx->queue, (NormForward){ .y_TC = save->latent_TR[kind],
        .rstd_T = save->latent_rstd_T[kind], .x_TC = latent_of(z, save->down_TP, kind),
        .gain_C = unit_param(w, gain_id[kind]),
        .epsilon = c->latent.epsilon > 0 ? c->latent.epsilon : c->epsilon,
        .gain_offset = model_gain_offset(c) });
    product_forward(ctx, y_TK, save->latent_TR[kind], unit_param(w, up_id[kind]), tensor_none());
}

Tensor latent_forward(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save, Tensor n_TC)
{
    Queue *q = ctx->queue;
    Sizes  z = sizes_of(ctx);
    int64_t T = n_TC.dim[0];
    save->down_TP = tensor_new(ctx->activations_wgrad, "latent projections", ctx->precision.activation, T,
        z.P);
    product_forward(ctx, save->down_TP, n_TC, latent_down_weight(w), tensor_none());
    Tensor qkv_TQ = core_qkv_new(ctx, T, latent_columns(ctx));
    Tensor kv_TU  = scratch_new(ctx, "latent keys and values", T, z.U);
    if (z.queries_down) up_forward(ctx, z, w, save, QUERY, queries(z, qkv_TQ));
    else copy(q, queries(z, qkv_TQ), queries_of(z, save->down_TP));
    up_forward(ctx, z, w, save, KV, kv_TU);
    copy(q, key_others(z, qkv_TQ), up_keys(z, kv_TU));
    copy(q, values(z, qkv_TQ), up_values(z, kv_TU));

    RopeRule rule;
    Tensor shared = shared_key(z, save->down_TP);
    if (model_rope(ctx->config, layer, &rule)) {
        rope_forward(q, (RopeForward){ .x_TnD = query_rotated(z, qkv_TQ),
            .position_i = ctx->batch->position_i, .rule = rule });
        rope_forward(q, (RopeForward){ .x_TnD = shared, .position_i = ctx->batch->position_i, .rule = rule });
    }
    shared.dim[1] = z.H, shared.stride[1] = 0;                              /* the same for every head */
    copy(q, key_rotated(z, qkv_TQ), shared);
    return qkv_TQ;
}

/* ---- backward ---- */

/* The gradient of the channels that all heads share: their sum, in the compute type, rounded once */
static void shared_key_backward(const ExecContext *ctx, Sizes z, Tensor dshared, Tensor dheads)
{
    int64_t T = dheads.dim[0];
    Dtype type = ctx->precision.activation;
    Tensor parts_HTR = tensor_new(ctx->scratch, "latent key gradients of heads", type, z.H, T, z.R);
    Tensor of_heads = dheads, sum_N = tensor_new(ctx->scratch, "latent key gradient", type, T * z.R);
    of_heads.dim[0] = z.H, of_heads.stride[0] = dheads.stride[1];
    of_heads.dim[1] = T,   of_heads.stride[1] = dheads.stride[0];
    copy(ctx->queue, parts_HTR, of_heads);
    rank_sum(ctx->queue, (RankSum){ .y_N = sum_N, .x_RN = tensor_view(parts_HTR, z.H, T * z.R) });
    copy(ctx->queue, dshared, tensor_view(sum_N, T, 1, z.R));
}

/* Through the matrix up and the norm, into the latent's columns of the gradient of down */
static void up_backward(const ExecContext *ctx, Sizes z, const UnitParam *w, BlockSave *save, int kind,
                        Tensor dy_TK)
{
    save->dlatent_TR[kind] = wgrad_saved_new(ctx, "latent gradient", dy_TK.dim[0], z.rank[kind]);
    matmul_backward_input(ctx->queue, (MatmulBackwardInput){ .dx_TC = save->dlatent_TR[kind], .dy_TK = dy_TK,
        .w_KC = unit_param(w, up_id[kind]) });
    norm_backward_input(ctx->queue, (NormBackwardInput){ .dx_TC = latent_of(z, save->ddown_TP, kind),
        .dy_TC = save->dlatent_TR[kind], .x_TC = latent_of(z, save->down_TP, kind),
        .rstd_T = save->latent_rstd_T[kind], .gain_C = unit_param(w, gain_id[kind]),
        .gain_offset = model_gain_offset(ctx->config) });
}

void latent_backward_input(const ExecContext *ctx, int64_t layer, const UnitParam *w, BlockSave *save,
                           Tensor dqkv_TQ)
{
    Queue *q = ctx->queue;
    Sizes  z = sizes_of(ctx);
    int64_t T = dqkv_TQ.dim[0];
    RopeRule rule;
    save->ddown_TP = wgrad_saved_new(ctx, "latent projections gradient", T, z.P);
    save->dkv_TU   = wgrad_saved_new(ctx, "latent keys and values gradient", T, z.U);
    shared_key_backward(ctx, z, shared_key(z, save->ddown_TP), key_rotated(z, dqkv_TQ));
    if (model_rope(ctx->config, layer, &rule)) {
        rope_backward(q, (RopeBackward){ .dx_TnD = query_rotated(z, dqkv_TQ),
            .position_i = ctx->batch->position_i, .rule = rule });
        rope_backward(q, (RopeBackward){ .dx_TnD = shared_key(z, save->ddown_TP),
            .position_i = ctx->batch->position_i, .rule = rule });
    }
    copy(q, up_keys(z, save->dkv_TU), key_others(z, dqkv_TQ));
    copy(q, up_values(z, save->dkv_TU), values(z, dqkv_TQ));
    up_backward(ctx, z, w, save, KV, save->dkv_TU);
    if (z.queries_down) up_backward(ctx, z, w, save, QUERY, queries(z, dqkv_TQ));
    else copy(q, queries_of(z, save->ddown_TP), queries(z, dqkv_TQ));
}

static void up_backward_weight(const ExecContext *ctx, Sizes z, const UnitParam *dw, const BlockSave *save,
                               int kind, Tensor dy_TK)
{
    matmul_backward_weight(ctx->queue, (MatmulBackwardWeight){ .dw_KC = unit_param(dw, up_id[kind]),
        .dy_TK = dy_TK, .x_TC = save->latent_TR[kind] });
    norm_backward_weight(ctx->queue, (NormBackwardWeight){ .dgain_C = unit_param(dw, gain_id[kind]),
        .dy_TC = save->dlatent_TR[kind], .x_TC = latent_of(z, save->down_TP, kind),
        .rstd_T = save->latent_rstd_T[kind] });
}

void latent_backward_weight(const ExecContext *ctx, const UnitParam *dw, const BlockSave *save, Tensor n_TC)
{
    Sizes z = sizes_of(ctx);
    up_backward_weight(ctx, z, dw, save, KV, save->dkv_TU);
    if (z.queries_down) up_backward_weight(ctx, z, dw, save, QUERY, queries(z, save->dqkv_TQ));
    matmul_backward_weight(ctx->queue, (MatmulBackwardWeight){ .dw_KC = latent_down_weight(dw),
        .dy_TK = save->ddown_TP, .x_TC = n_TC });
}
