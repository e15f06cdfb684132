/* The experts of a layer on the rows that ranks send each other (model/dispatch.h), chunk after chunk. While
 * the rows of one chunk are sent, the experts compute those of the chunk before:
 *
 *     forward    send n | h = n [gate, up]T,  g = act(h),  y = g downT | return y
 *     backward   send dy (and n again) | dg = dy down,  dh = act'(h) dg,  dx = dh [gate, up] | return dx
 *
 * Where tokens go in one chunk what backward reads is saved: x, h, g, of M <= J K t rows (or of as many as a
 * capacity lets in). In several (MoeSizes.chunked), as they do where experts are divided among P > 1 parts
 * and no copy is dropped, the rows of all chunks would take up to P times that. So only the sender's side is
 * saved, J K t rows that do not grow with P; backward sends the tokens again, computes h and g again (2 of
 * the 9 matrix products of a step with a gate) and the weight gradients at once.
 *
 * M rows of a chunk received   N rows sent   C channels   F hidden channels of an expert held here
 * W columns of gate and up: 2 F with a gate, else F */
#include "model/dispatch.h"

/* Buffers and messages of one chunk; those of two chunks exist at once. */
typedef struct {
    Tensor  send_NC, x_MC, y_MC;               /* tokens: sent, received; outputs of experts */
    Tensor  send_dy_NC, dy_MC, dx_MC;          /* gradients: of outputs sent, received; of inputs */
    Pending x, dy, back;
} ChunkRows;

static int64_t pair(const MoeSizes *z) { return z->Q > 1 ? 2 : 1; }
static bool    gated(const ExecContext *ctx) { return ACT_GATED(ctx->config->activation); }
/* Rows sent of a chunk, at most. */
static int64_t chunk_rows(const MoeSizes *z) { return z->chunked ? z->J * z->K * z->each : z->N; }
static int64_t width(const ExecContext *ctx, const MoeSizes *z) { return gated(ctx) ? 2 * z->F : z->F; }

/* Gate and up are the two halves of h, or up is all of it. */
static Tensor gate_half(const MoeSizes *z, Tensor h_MW) { return tensor_slice(h_MW, 1, 0, z->F); }
static Tensor up_half(const MoeSizes *z, Tensor h_MW)
{
    return tensor_slice(h_MW, 1, h_MW.dim[1] - z->F, z->F);
}

/* The arena of what backward reads: scratch where it is computed again. */
static Arena *saved_on(const ExecContext *ctx, const MoeSizes *z, unsigned modules, Arena *arena)
{
    return z->chunked ? ctx->scratch : save_arena(ctx, RECOMPUTE_MOE | modules, arena);
}

static Tensor rows_new(const ExecContext *ctx, Arena *arena, const char *what, int64_t rows, int64_t cols)
{
    return tensor_new(arena, what, ctx->precision.activation, rows, cols);
}

/* Room of one chunk for h and g. */
static void hidden_new_of(const ExecContext *ctx, const MoeSizes *z, MoeSave *save)
{
    save->h_MW = rows_new(ctx, saved_on(ctx, z, 0, ctx->activations), "experts hidden", z->M, width(ctx, z));
    save->g_MF = rows_new(ctx, saved_on(ctx, z, RECOMPUTE_MOE_ACT, ctx->activations_wgrad),
        "experts activation", z->M, z->F);
}

/* ---- linear maps of the rows of chunk q ---- */

/* h = x [gate, up]T,  g = act(h) */
static void hidden_forward(const ExecContext *ctx, const MoeSizes *z, int64_t q, const UnitParam *w,
                           const MoeSave *save, Tensor x_MC)
{
    Tensor count_RX = moe_counts(q, save->received_QRX);
    int64_t rows = moe_equal_rows(z, q);
    if (gated(ctx))
        grouped_product_forward(ctx, gate_half(z, save->h_MW), x_MC, unit_param(w, PARAM_EXPERTS_GATE_WEIGHT),
            count_RX, rows);
    grouped_product_forward(ctx, up_half(z, save->h_MW), x_MC, unit_param(w, PARAM_EXPERTS_UP_WEIGHT),
        count_RX, rows);
    grouped_activation_forward(ctx->queue, (GroupedActivationForward){ .y_MF = save->g_MF,
        .x_MF = save->h_MW, .count_RX = count_RX, .kind = ctx->config->activation });
}

/* dg = dy down,  dh = act'(h) dg,  dx = dh [gate, up] */
static void input_gradient(const ExecContext *ctx, const MoeSizes *z, int64_t q, const UnitParam *w,
                           MoeSave *save, Tensor dx_MC, Tensor dy_MC, Tensor dh_MW, Tensor dg_MF)
{
    Queue *queue = ctx->queue;
    Tensor count_RX = moe_counts(q, save->received_QRX);
    int64_t rows = moe_equal_rows(z, q);
    grouped_matmul_backward_input(queue, (GroupedMatmulBackwardInput){ .dx_MC = dg_MF, .dy_MF = dy_MC,
        .w_XFC = unit_param(w, PARAM_EXPERTS_DOWN_WEIGHT), .count_RX = count_RX, .rows = rows });
    grouped_activation_backward(queue, (GroupedActivationBackward){ .dx_MF = dh_MW, .dy_MF = dg_MF,
        .x_MF = save->h_MW, .count_RX = count_RX, .kind = ctx->config->activation });
    save->dh_MW = z->chunked ? dh_MW : activation_gradient_keep(ctx, RECOMPUTE_MOE, save->h_MW, dh_MW);
    if (gated(ctx))
        grouped_matmul_backward_input(queue, (GroupedMatmulBackwardInput){ .dx_MC = dx_MC,
            .dy_MF = gate_half(z, save->dh_MW), .w_XFC = unit_param(w, PARAM_EXPERTS_GATE_WEIGHT),
            .count_RX = count_RX, .rows = rows });
    grouped_matmul_backward_input(queue, (GroupedMatmulBackwardInput){ .dx_MC = dx_MC, .dy_MF = up_half(z,
        save->dh_MW), .w_XFC = unit_param(w, PARAM_EXPERTS_UP_WEIGHT), .count_RX = count_RX, .rows = rows,
        .add = gated(ctx) });
}

/* ddown += dyT g,  d[gate, up] += dhT x */
static void weight_gradient(const ExecContext *ctx, const MoeSizes *z, int64_t q, const UnitParam *dw,
                            const MoeSave *save, Tensor dy_MC, Tensor x_MC)
{
    Queue *queue = ctx->queue;
    Tensor count_RX = moe_counts(q, save->received_QRX);
    int64_t rows = moe_equal_rows(z, q);
    grouped_matmul_backward_weight(queue, (GroupedMatmulBackwardWeight){ .dw_XFC = unit_param(dw,
        PARAM_EXPERTS_DOWN_WEIGHT), .dy_MF = dy_MC, .x_MC = save->g_MF, .count_RX = count_RX, .rows = rows });
    if (gated(ctx))
        grouped_matmul_backward_weight(queue, (GroupedMatmulBackwardWeight){ .dw_XFC = unit_param(dw,
            PARAM_EXPERTS_GATE_WEIGHT), .dy_MF = gate_half(z, save->dh_MW), .x_MC = x_MC,
            .count_RX = count_RX, .rows = rows });
    grouped_matmul_backward_weight(queue, (GroupedMatmulBackwardWeight){ .dw_XFC = unit_param(dw,
        PARAM_EXPERTS_UP_WEIGHT), .dy_MF = up_half(z, save->dh_MW), .x_MC = x_MC, .count_RX = count_RX,
        .rows = rows });
}

/* ---- forward ---- */

static void chunks_forward_new(const ExecContext *ctx, const MoeSizes *z, MoeSave *save, ChunkRows *chunk)
{
    Arena *a = ctx->scratch;
    for (int64_t i = 0; i < pair(z); i++) {
        ChunkRows *v = &chunk[i];
        v->x_MC    = rows_new(ctx, saved_on(ctx, z, 0, ctx->activations_wgrad), "tokens of experts", z->M,
            z->C);
        v->send_NC = dispatch_other(ctx, z, a, "copies sent", chunk_rows(z), v->x_MC);
        v->y_MC    = dispatch_other(ctx, z, a, "outputs of experts", z->M, save->back_NC);
    }
    save->x_MC = chunk[0].x_MC;
}

/* Tokens of chunk q on their way to the experts. */
static void send_tokens(const ExecContext *ctx, const MoeSizes *z, int64_t q, const MoeSave *save,
                        ChunkRows *v, Tensor n_tC)
{
    Tensor slot_N = moe_rows(z, q, save->slot_N);
    Tensor rows_NC = tensor_slice(v->send_NC, 0, 0, slot_N.dim[0]);
    expert_gather(ctx->queue, (ExpertGather){ .y_NC = rows_NC, .x_TC = moe_tokens(z, q, n_tC),
        .slot_N = slot_N, .K = z->K });
    v->x = dispatch_send_begin(ctx, z, q, v->x_MC, rows_NC);                                  /* <-> etp+ep */
}

/* y = experts(x) of chunk q, on its way back */
static void outputs_return(const ExecContext *ctx, const MoeSizes *z, int64_t q, const UnitParam *w,
                           const MoeSave *save, ChunkRows *v)
{
    Comm *comm = ctx->moe->dispatch;
    comm_wait(comm, v->x);                                                                    /* <-> etp+ep */
    if (q >= 2) comm_wait(comm, v->back);                                                     /* <-> etp+ep */
    hidden_forward(ctx, z, q, w, save, v->x_MC);
    grouped_product_forward(ctx, v->y_MC, save->g_MF, unit_param(w, PARAM_EXPERTS_DOWN_WEIGHT),
        moe_counts(q, save->received_QRX), moe_equal_rows(z, q));
    v->back = dispatch_return_begin(ctx, z, q, moe_rows(z, q, save->back_NC), v->y_MC);       /* <-> etp+ep */
}

void experts_forward(const ExecContext *ctx, const MoeSizes *z, const UnitParam *w, MoeSave *save,
                     Tensor n_tC)
{
    ChunkRows chunk[2];
    save->back_NC = rows_new(ctx, save_arena(ctx, RECOMPUTE_MOE, ctx->activations), "outputs of experts",
        z->N, z->C);
    size_t mark = arena_mark(ctx->scratch);
    chunks_forward_new(ctx, z, save, chunk);
    hidden_new_of(ctx, z, save);
    dispatch_offsets(ctx, z, save);
    for (int64_t q = 0; q <= z->Q; q++) {
        if (q < z->Q) send_tokens(ctx, z, q, save, &chunk[q % 2], n_tC);                     /* <-> etp+ep */
        if (q > 0) outputs_return(ctx, z, q - 1, w, save, &chunk[(q - 1) % 2]);              /* <-> etp+ep */
    }
    for (int64_t i = 0; i < pair(z); i++) comm_wait(ctx->moe->dispatch, chunk[i].back);      /* <-> etp+ep */
    if (z->chunked) arena_reset(ctx->scratch, mark);
}

void experts_activation_forward(const ExecContext *ctx, const MoeSizes *z, MoeSave *save)
{
    if (z->chunked) return;
    save->g_MF = rows_new(ctx, ctx->activations_wgrad, "experts activation", z->M, z->F);
    grouped_activation_forward(ctx->queue, (GroupedActivationForward){ .y_MF = save->g_MF,
        .x_MF = save->h_MW, .count_RX = moe_counts(0, save->received_QRX), .kind = ctx->config->activation });
}

/* ---- backward ---- */

static void chunks_backward_new(const ExecContext *ctx, const MoeSizes *z, MoeSave *save, ChunkRows *chunk,
                                Tensor dn_NC)
{
    Arena *a = ctx->scratch;
    for (int64_t i = 0; i < pair(z); i++) {
        ChunkRows *v = &chunk[i];
        v->x_MC = save->x_MC;
        if (z->chunked) {
            v->x_MC    = rows_new(ctx, a, "tokens of experts", z->M, z->C);
            v->send_NC = dispatch_other(ctx, z, a, "copies sent", chunk_rows(z), v->x_MC);
        }
        v->dy_MC = rows_new(ctx, z->chunked ? a : ctx->wgrad_saved, "experts output gradient", z->M, z->C);
        v->send_dy_NC = dispatch_other(ctx, z, a, "copies sent", chunk_rows(z), v->dy_MC);
        v->dx_MC = dispatch_other(ctx, z, a, "experts input gradient", z->M, dn_NC);
    }
    save->dy_MC = chunk[0].dy_MC;
}

/* d(output) = weight dy of chunk q on its way to the experts, and with several chunks their input again */
static void send_gradients(const ExecContext *ctx, const MoeSizes *z, int64_t q, const MoeSave *save,
                           ChunkRows *v, Tensor n_tC, Tensor dy_tC)
{
    Tensor slot_N = moe_rows(z, q, save->slot_N);
    Tensor rows_NC = tensor_slice(v->send_dy_NC, 0, 0, slot_N.dim[0]);
    if (z->chunked) send_tokens(ctx, z, q, save, v, n_tC);                                    /* <-> etp+ep */
    expert_gather(ctx->queue, (ExpertGather){ .y_NC = rows_NC, .x_TC = moe_tokens(z, q, dy_tC),
        .weight_TK = moe_tokens(z, q, save->weight_tK), .slot_N = slot_N, .K = z->K });
    v->dy = dispatch_send_begin(ctx, z, q, v->dy_MC, rows_NC);                                /* <-> etp+ep */
}

static void gradients_return(const ExecContext *ctx, const MoeSizes *z, int64_t q, const UnitParam *w,
                             const UnitParam *dw, MoeSave *save, ChunkRows *v, Tensor dn_NC, Tensor dh_MW,
                             Tensor dg_MF)
{
    Comm *comm = ctx->moe->dispatch;
    if (q >= 2) comm_wait(comm, v->back);                                                     /* <-> etp+ep */
    if (z->chunked) {
        comm_wait(comm, v->x);                                                                /* <-> etp+ep */
        hidden_forward(ctx, z, q, w, save, v->x_MC);
    }
    comm_wait(comm, v->dy);                                                                   /* <-> etp+ep */
    input_gradient(ctx, z, q, w, save, v->dx_MC, v->dy_MC, dh_MW, dg_MF);
    v->back = dispatch_return_begin(ctx, z, q, moe_rows(z, q, dn_NC), v->dx_MC);              /* <-> etp+ep */
    if (z->chunked) weight_gradient(ctx, z, q, dw, save, v->dy_MC, v->x_MC);
}

void experts_backward_input(const ExecContext *ctx, const MoeSizes *z, const UnitParam *w,
                            const UnitParam *dw, MoeSave *save, Tensor dn_NC, Tensor n_tC, Tensor dy_tC)
{
    ChunkRows chunk[2];
    size_t mark = arena_mark(ctx->scratch);
    if (z->chunked) hidden_new_of(ctx, z, save);
    chunks_backward_new(ctx, z, save, chunk, dn_NC);
    Tensor dh_MW = z->chunked ? scratch_new(ctx, "experts hidden gradient", z->M, width(ctx, z))
        : activation_gradient_new(ctx, "experts hidden gradient", RECOMPUTE_MOE, z->M, width(ctx, z));
    Tensor dg_MF = gated(ctx) ? scratch_new(ctx, "experts activation gradient", z->M, z->F) : dh_MW;
    dispatch_offsets(ctx, z, save);
    for (int64_t q = 0; q <= z->Q; q++) {
        if (q < z->Q)                                                                         /* <-> etp+ep */
            send_gradients(ctx, z, q, save, &chunk[q % 2], n_tC, dy_tC);
        if (q > 0)                                                                            /* <-> etp+ep */
            gradients_return(ctx, z, q - 1, w, dw, save, &chunk[(q - 1) % 2], dn_NC, dh_MW, dg_MF);
    }
    for (int64_t i = 0; i < pair(z); i++) comm_wait(ctx->moe->dispatch, chunk[i].back);      /* <-> etp+ep */
    if (z->chunked) arena_reset(ctx->scratch, mark);
}

void experts_backward_weight(const ExecContext *ctx, const MoeSizes *z, const UnitParam *dw,
                             const MoeSave *save)
{
    if (!z->chunked) weight_gradient(ctx, z, 0, dw, save, save->dy_MC, save->x_MC);
}
