/* The router of a layer of experts: logits, experts and weights of tokens (tensor/route.h), and the auxiliary
 * losses that balance experts (model/moe_config.h).
 *
 * t tokens held   C channels   E experts   K experts of a token   G groups of tokens   Lines with <->
 * communicate. */
#include "model/dispatch.h"

static Tensor bias_of(const ExecContext *ctx, int64_t layer)
{
    const MoeState *moe = ctx->moe;
    if (!tensor_present(moe->bias_nE)) return tensor_none();
    return tensor_flat(moe->bias_nE, moe->row[layer] * moe->bias_nE.dim[1], moe->bias_nE.dim[1]);
}

/* Elements [first, first + count) of the layer's row of loads; absent where nothing is trained. */
static Tensor load_of(const ExecContext *ctx, int64_t layer, int64_t first, int64_t count)
{
    const MoeState *moe = ctx->moe;
    if (!tensor_present(moe->load_nE)) return tensor_none();
    return tensor_flat(moe->load_nE, moe->row[layer] * moe->load_nE.dim[1] + first, count);
}

/* logits = n wT,   weight and expert of the K chosen */
void router_forward(const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w,
                    MoeSave *save, Tensor n_tC)
{
    Queue *q = ctx->queue;
    Dtype statistic = ctx->precision.statistic;
    Arena *a = ctx->activations;
    save->logits_tE = tensor_new(a, "router logits", statistic, z->t, z->E);
    save->weight_tK = tensor_new(a, "router weights", statistic, z->t, z->K);
    save->expert_tK = tensor_new(a, "router experts", I32, z->t, z->K);
    matmul_forward(q, (MatmulForward){ .y_TK = save->logits_tE, .x_TC = n_tC,
        .w_KC = unit_param(w, PARAM_ROUTER_WEIGHT) });
    route_forward(q, (RouteForward){ .weight_TK = save->weight_tK, .expert_TK = save->expert_tK,
        .logits_TE = save->logits_tE, .bias_E = bias_of(ctx, layer), .rule = ctx->config->moe.rule });
}

/* dlogits += the gradients of the auxiliary losses, whose sums are recorded. Every rank that holds a part of
 * a group of tokens needs the counts of all of it. */
static void balance(const ExecContext *ctx, int64_t layer, const MoeSizes *z, Tensor dlogits_tE,
                    Tensor logits_tE)
{
    Queue *q = ctx->queue;
    const MoeConfig *m = &ctx->config->moe;
    bool alone = ctx->tp.sequence_parallel || comm_rank(ctx->tp.comm) == 0,
        counted = m->balance != MOE_BALANCE_NONE;
    int64_t sequences = ctx->batch->sample_i.dim[0], T = ctx->batch->token_i.dim[0];
    int64_t groups = m->balance == MOE_BALANCE_SEQUENCE ? sequences : 1;
    int64_t first  = ctx->tp.sequence_parallel ? comm_rank(ctx->tp.comm) * z->t : 0;
    if (ctx->drawn || (!counted && m->z_coefficient == 0)) return;
    Tensor count_GE = tensor_new(ctx->scratch, "balance counts", ctx->precision.statistic, groups, z->E);
    fill_zero(q, (FillZero){ .y = count_GE });
    if (counted) {
        balance_count(q, (BalanceCount){ .count_GE = count_GE, .logits_TE = logits_tE, .topk = z->K,
            .first = first, .length = T / groups });
        comm_all_reduce(ctx->moe->sequence, q, count_GE, ctx->scratch);            /* <-> tp+cp: all-reduce */
    }
    balance_backward(q, (BalanceBackward){ .dlogits_TE = dlogits_tE, .logits_TE = logits_tE,
        .count_GE = count_GE, .loss_2 = alone ? load_of(ctx, layer, z->E + MOE_BALANCE, 2) : tensor_none(),
        .score = m->rule.score, .topk = z->K, .first = first, .length = T / groups,
        .tokens = sequences / groups * ctx->config->sequence, .coefficient = counted ? m->coefficient : 0,
        .z_coefficient = m->z_coefficient });
}

/* x in the type of statistics: itself, or a copy on scratch. The router's gradients are computed in it. */
static Tensor in_statistic(const ExecContext *ctx, Tensor x)
{
    Dtype statistic = ctx->precision.statistic;
    if (x.dtype == statistic) return x;
    Tensor y = tensor_new(ctx->scratch, "router input", statistic, x.dim[0], x.dim[1]);
    convert(ctx->queue, (Convert){ .y_N = tensor_view(y, tensor_count(y)), .x_N = tensor_view(x,
        tensor_count(x)) });
    return y;
}

/* The gate of the shared expert as a map of one output: z = n . w */
static Tensor gate_weight(const UnitParam *w)
{
    Tensor w_C = unit_param(w, PARAM_SHARED_GATE_WEIGHT);
    return tensor_view(w_C, 1, tensor_count(w_C));
}

static Tensor as_column(Tensor x_t) { return tensor_view(x_t, x_t.dim[0], 1); }

void gate_logits_forward(const ExecContext *ctx, const UnitParam *w, MoeSave *save, Tensor n_tC)
{
    save->gate_t = tensor_new(ctx->activations, "shared expert gate", ctx->precision.statistic, n_tC.dim[0]);
    matmul_forward(ctx->queue, (MatmulForward){ .y_TK = as_column(save->gate_t), .x_TC = n_tC,
        .w_KC = gate_weight(w) });
}

/* dn += dlogits w + dgate w. The loads of the step are counted here, where training is certain. */
void router_backward_input(const ExecContext *ctx, int64_t layer, const MoeSizes *z, const UnitParam *w,
                           MoeSave *save, Tensor dn_tC, Tensor dweight_tK)
{
    Queue *q = ctx->queue;
    size_t mark = arena_mark(ctx->scratch);
    route_backward(q, (RouteBackward){ .dlogits_TE = save->dlogits_tE, .dweight_TK = dweight_tK,
        .logits_TE = save->logits_tE, .expert_TK = save->expert_tK, .rule = ctx->config->moe.rule });
    balance(ctx, layer, z, save->dlogits_tE, save->logits_tE);                                 /* <-> tp+cp */
    for (int64_t c = 0; c < z->Q; c++)
        load_add(q, (LoadAdd){ .load_E1 = load_of(ctx, layer, 0, z->E + 1),
            .count_RX = moe_counts(c, save->sent_QRX), .copies = moe_order(z, c, save).dim[0] * z->K });
    Tensor d_tC = tensor_new(ctx->scratch, "router input gradient", ctx->precision.statistic, dn_tC.dim[0],
        dn_tC.dim[1]);
    matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = d_tC, .dy_TK = save->dlogits_tE,
        .w_KC = in_statistic(ctx, unit_param(w, PARAM_ROUTER_WEIGHT)) });
    accumulate(q, (Accumulate){ .y = dn_tC, .x = d_tC });
    if (ctx->config->moe.shared_gate) {
        matmul_backward_input(q, (MatmulBackwardInput){ .dx_TC = d_tC, .dy_TK = as_column(save->dgate_t),
            .w_KC = in_statistic(ctx, gate_weight(w)) });
        accumulate(q, (Accumulate){ .y = dn_tC, .x = d_tC });
    }
    arena_reset(ctx->scratch, mark);
}

/* dw += dlogitsT n, and likewise the gate's */
void router_backward_weight(const ExecContext *ctx, const UnitParam *dw, const MoeSave *save, Tensor n_tC)
{
    Tensor x_tC = in_statistic(ctx, n_tC);
    matmul_backward_weight(ctx->queue, (MatmulBackwardWeight){ .dw_KC = unit_param(dw, PARAM_ROUTER_WEIGHT),
        .dy_TK = save->dlogits_tE, .x_TC = x_tC });
    if (ctx->config->moe.shared_gate)
        matmul_backward_weight(ctx->queue, (MatmulBackwardWeight){ .dw_KC = gate_weight(dw),
            .dy_TK = as_column(save->dgate_t), .x_TC = x_tC });
}
