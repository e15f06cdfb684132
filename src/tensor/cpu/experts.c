/* Copies of tokens for experts and back, and the linear maps of experts: one matrix product for each segment
 * of rows of one expert, which gemm divides among the threads by rows and columns, so that few rows keep all
 * of them busy too. T tokens   K experts of a token   J copies for one expert   N, M rows of copies   R
 * ranks   X experts held here */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/linear.h"

static float weight_at(Tensor weight_TK, int64_t t, int64_t k)
{
    return tensor_present(weight_TK) ? row(weight_TK, t)[k] : 1;
}

static CLONES void gather_some(void *context, int64_t begin, int64_t end)
{
    const ExpertGather *a = context;
    int64_t C = a->y_NC.dim[1], K = a->K;
    TileBuffer x_tile, y_tile;
    for (int64_t n = begin; n < end; n++) {
        int64_t slot = ((const int32_t *)a->slot_N.data)[n];
        if (slot < 0) continue;
        if (!tensor_present(a->weight_TK)) {
            memcpy(tile_at(a->y_NC, n, 0), tile_at(a->x_TC, slot / K, 0),
                   (size_t)C * dtype_width(a->y_NC.dtype));
            continue;
        }
        float weight = weight_at(a->weight_TK, slot / K, slot % K);
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t count = tile_count(C, first);
            const float *x = tile_read(&x_tile, a->x_TC, slot / K, first, count);
            for (int64_t c = 0; c < count; c++) y_tile.x[c] = weight * x[c];
            tile_store(a->y_NC, n, first, y_tile.x, count);
        }
    }
}

CPU(expert_gather, ExpertGather)
{
    int64_t N = a->slot_N.dim[0], T = a->x_TC.dim[0], C = a->x_TC.dim[1];
    WANT(a->y_NC, N, C);
    WANT(a->x_TC, T, C);
    WANT(a->slot_N, N);
    if (tensor_present(a->weight_TK)) WANT(a->weight_TK, T, a->K);
    for (int64_t n = 0; n < N; n++)
        CHECK(((const int32_t *)a->slot_N.data)[n] < T * a->K, "row %lld is of no token", (long long)n);
    team_for(q->team, N, chunk_rows(C), gather_some, (void *)a);
}

static void want_rows(Tensor row_TKJ, int64_t N)
{
    const int32_t *row_of = row_TKJ.data;
    for (int64_t i = 0; i < tensor_count(row_TKJ); i++)
        CHECK(row_of[i] < N, "row %d of %lld", row_of[i], (long long)N);
}

static CLONES void combine_some(void *context, int64_t begin, int64_t end)
{
    const ExpertCombine *a = context;
    int64_t K = a->row_TKJ.dim[1], J = a->row_TKJ.dim[2], C = a->y_TC.dim[1];
    const int32_t *row_of = a->row_TKJ.data;
    TileBuffer x_tile, sum, copy;
    for (int64_t t = begin; t < end; t++)
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first);
            if (tensor_present(a->residual_TC)) tile_load(sum.x, a->residual_TC, t, first, n);
            else memset(sum.x, 0, (size_t)n * sizeof(float));
            for (int64_t k = 0; k < K; k++) {
                float weight = weight_at(a->weight_TK, t, k);
                memset(copy.x, 0, (size_t)n * sizeof(float));
                for (int64_t j = 0; j < J; j++) {
                    int64_t from = row_of[(t * K + k) * J + j];
                    if (from < 0) continue;
                    const float *x = tile_read(&x_tile, a->x_NC, from, first, n);
                    for (int64_t c = 0; c < n; c++) copy.x[c] += x[c];
                }
                for (int64_t c = 0; c < n; c++) sum.x[c] += weight * copy.x[c];
            }
            tile_store(a->y_TC, t, first, sum.x, n);
        }
}

CPU(expert_combine, ExpertCombine)
{
    int64_t T = a->row_TKJ.dim[0], K = a->row_TKJ.dim[1], N = a->x_NC.dim[0], C = a->x_NC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->x_NC, N, C);
    WANT(a->row_TKJ, T, K, a->row_TKJ.dim[2]);
    if (tensor_present(a->residual_TC)) WANT(a->residual_TC, T, C);
    if (tensor_present(a->weight_TK)) WANT(a->weight_TK, T, K);
    want_rows(a->row_TKJ, N);
    team_for(q->team, T, chunk_rows(C * K), combine_some, (void *)a);
}

static CLONES void dweight_some(void *context, int64_t begin, int64_t end)
{
    const ExpertCombineBackwardWeight *a = context;
    int64_t K = a->row_TKJ.dim[1], J = a->row_TKJ.dim[2], C = a->dy_TC.dim[1];
    const int32_t *row_of = a->row_TKJ.data;
    TileBuffer x_tile, dy_tile;
    for (int64_t i = begin * K; i < end * K; i++) {
        double sum = 0;
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first);
            const float *dy = tile_read(&dy_tile, a->dy_TC, i / K, first, n);
            for (int64_t j = 0; j < J; j++) {
                int64_t from = row_of[i * J + j], c = 0;
                if (from < 0) continue;
                const float *x = tile_read(&x_tile, a->x_NC, from, first, n);
                Doubles lanes = { 0 };
                for (; c + LANES <= n; c += LANES) lanes += doubles_of(dy + c) * doubles_of(x + c);
                sum += lanes_total(&lanes);
                for (; c < n; c++) sum += (double)dy[c] * (double)x[c];
            }
        }
        row(a->dweight_TK, i / K)[i % K] = (float)sum;
    }
}

CPU(expert_combine_backward_weight, ExpertCombineBackwardWeight)
{
    int64_t T = a->row_TKJ.dim[0], K = a->row_TKJ.dim[1], N = a->x_NC.dim[0], C = a->x_NC.dim[1];
    WANT(a->dweight_TK, T, K);
    WANT(a->dy_TC, T, C);
    WANT(a->x_NC, N, C);
    WANT(a->row_TKJ, T, K, a->row_TKJ.dim[2]);
    want_rows(a->row_TKJ, N);
    team_for(q->team, T, chunk_rows(C * K), dweight_some, (void *)a);
}

/* ---- linear maps of experts ---- */

/* The rows [first, first + count) of segment i of count_RX, and expert x. */
typedef struct { int64_t i, first, count, x; } Segment;

static bool segment_next(Segment *s, Tensor count_RX)
{
    if (s->i == tensor_count(count_RX)) return false;
    s->first += s->count;
    s->count = ((const int32_t *)count_RX.data)[s->i];
    s->x     = s->i++ % count_RX.dim[1];
    return true;
}

static Tensor rows_of(Tensor x_MC, const Segment *s) { return tensor_slice(x_MC, 0, s->first, s->count); }
static Tensor expert_of(Tensor w_XFC, int64_t x)
{
    Tensor one = w_XFC.data ? tensor_slice(w_XFC, 0, x, 1) : w_XFC;
    return (Tensor){ .data = one.data, .dim = { w_XFC.dim[1], w_XFC.dim[2], 1, 1 },
                     .stride = { w_XFC.stride[1], w_XFC.stride[2], 1, 1 }, .dtype = w_XFC.dtype };
}

static void want_grouped(Tensor y_MF, Tensor x_MC, Tensor w_XFC, Tensor count_RX)
{
    WANT(y_MF, x_MC.dim[0], w_XFC.dim[1]);
    WANT(x_MC, x_MC.dim[0], w_XFC.dim[2]);
    WANT(w_XFC, count_RX.dim[1], w_XFC.dim[1], w_XFC.dim[2]);
    WANT(count_RX, count_RX.dim[0], count_RX.dim[1]);
}

/* No segment has more rows than there are. */
static size_t workspace(const Queue *q, Gemm g) { return gemm_workspace_bytes(&g, q->threads); }

size_t cpu_grouped_matmul_forward_workspace(const Queue *q, const GroupedMatmulForward *a)
{
    return workspace(q, linear_product(a->y_MF, a->x_MC, expert_of(a->w_XFC, 0), tensor_none()));
}

/* Codes or scales of one expert */
static Tensor panels_of(Tensor x_XPB, int64_t x)
{
    Tensor one = x_XPB.data ? tensor_slice(x_XPB, 0, x, 1) : x_XPB;
    return (Tensor){ .data = one.data, .dtype = x_XPB.dtype,
                     .dim    = { x_XPB.dim[1], x_XPB.dim[2], x_XPB.dim[3], 1 },
                     .stride = { x_XPB.stride[1], x_XPB.stride[2], x_XPB.stride[3], 1 } };
}

static Int8MatmulForward int8_product(const GroupedInt8MatmulForward *a, Tensor y_MF, Tensor x_MC, int64_t x)
{
    return (Int8MatmulForward){ .y_TK = y_MF, .x_TC = x_MC, .code_PBN = panels_of(a->code_XPBN, x),
                                .scale_PBR = panels_of(a->scale_XPBR, x) };
}

size_t cpu_grouped_int8_matmul_forward_workspace(const Queue *q, const GroupedInt8MatmulForward *a)
{
    Int8MatmulForward all = int8_product(a, a->y_MF, a->x_MC, 0);
    return cpu_int8_matmul_forward_workspace(q, &all);
}

size_t cpu_grouped_matmul_backward_input_workspace(const Queue *q, const GroupedMatmulBackwardInput *a)
{
    return workspace(q, linear_input_product(a->dx_MC, a->dy_MF, expert_of(a->w_XFC, 0)));
}

size_t cpu_grouped_matmul_backward_weight_workspace(const Queue *q, const GroupedMatmulBackwardWeight *a)
{
    return workspace(q, linear_weight_product(expert_of(a->dw_XFC, 0), a->dy_MF, a->x_MC));
}

static void multiply(Queue *q, Gemm g)
{
    g.family = q->kernels;
    gemm(q->team, &g, q->op_workspace, q->op_workspace_bytes);
}

CPU(grouped_matmul_forward, GroupedMatmulForward)
{
    want_grouped(a->y_MF, a->x_MC, a->w_XFC, a->count_RX);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);)
        if (s.count > 0)
            multiply(q, linear_product(rows_of(a->y_MF, &s), rows_of(a->x_MC, &s), expert_of(a->w_XFC, s.x),
                                       tensor_none()));
}

CPU(grouped_int8_matmul_forward, GroupedInt8MatmulForward)
{
    WANT(a->count_RX, a->count_RX.dim[0], a->code_XPBN.dim[0]);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);) {
        if (s.count == 0) continue;
        Int8MatmulForward one = int8_product(a, rows_of(a->y_MF, &s), rows_of(a->x_MC, &s), s.x);
        cpu_int8_matmul_forward(q, &one);
    }
}

CPU(grouped_matmul_backward_input, GroupedMatmulBackwardInput)
{
    want_grouped(a->dy_MF, a->dx_MC, a->w_XFC, a->count_RX);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);) {
        if (s.count == 0) continue;
        Gemm g = linear_input_product(rows_of(a->dx_MC, &s), rows_of(a->dy_MF, &s), expert_of(a->w_XFC, s.x));
        g.add = a->add;
        multiply(q, g);
    }
}

CPU(grouped_matmul_backward_weight, GroupedMatmulBackwardWeight)
{
    want_grouped(a->dy_MF, a->x_MC, a->dw_XFC, a->count_RX);
    for (Segment s = { 0 }; segment_next(&s, a->count_RX);)
        if (s.count > 0)
            multiply(q, linear_weight_product(expert_of(a->dw_XFC, s.x), rows_of(a->dy_MF, &s),
                                              rows_of(a->x_MC, &s)));
}

static int64_t rows_used(Tensor count_RX)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < tensor_count(count_RX); i++) rows += ((const int32_t *)count_RX.data)[i];
    return rows;
}

CPU(grouped_activation_forward, GroupedActivationForward)
{
    int64_t rows = rows_used(a->count_RX);
    if (rows == 0) return;
    cpu_activation_forward(q, &(ActivationForward){ .y_TF = tensor_slice(a->y_MF, 0, 0, rows),
        .x_TF = tensor_slice(a->x_MF, 0, 0, rows), .kind = a->kind });
}

CPU(grouped_activation_backward, GroupedActivationBackward)
{
    int64_t rows = rows_used(a->count_RX);
    if (rows == 0) return;
    cpu_activation_backward(q, &(ActivationBackward){ .dx_TF = tensor_slice(a->dx_MF, 0, 0, rows),
        .dy_TF = tensor_slice(a->dy_MF, 0, 0, rows), .x_TF = tensor_slice(a->x_MF, 0, 0, rows),
        .kind = a->kind });
}

/* ---- the gate of a shared expert ---- */

/* y = sigmoid(z) x */
static CLONES void row_gate_forward_rows(void *context, int64_t begin, int64_t end)
{
    const RowGateForward *a = context;
    int64_t C = a->y_TC.dim[1];
    TileBuffer x_tile, y_tile;
    for (int64_t t = begin; t < end; t++) {
        float s = 1 / (1 + cpu_exp(-flat(a->z_T)[t]));
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first);
            const float *x = tile_read(&x_tile, a->x_TC, t, first, n);
            float *y = tile_begin(&y_tile, a->y_TC, t, first);
            for (int64_t c = 0; c < n; c++) y[c] = s * x[c];
            tile_end(&y_tile, a->y_TC, t, first, n);
        }
    }
}

CPU(row_gate_forward, RowGateForward)
{
    int64_t T = a->y_TC.dim[0], C = a->y_TC.dim[1];
    WANT(a->y_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->z_T, T);
    team_for(q->team, T, chunk_rows(C), row_gate_forward_rows, (void *)a);
}

/* dx = s dy,  dz = s (1 - s) (dy . x) with s = sigmoid(z) */
static CLONES void row_gate_backward_rows(void *context, int64_t begin, int64_t end)
{
    const RowGateBackward *a = context;
    int64_t C = a->dy_TC.dim[1];
    TileBuffer x_tile, dy_tile, dx_tile;
    for (int64_t t = begin; t < end; t++) {
        float s = 1 / (1 + cpu_exp(-flat(a->z_T)[t]));
        Doubles dot = { 0 };
        for (int64_t first = 0; first < C; first += TILE) {
            int64_t n = tile_count(C, first), c = 0;
            const float *x = tile_read(&x_tile, a->x_TC, t, first, n);
            const float *dy = tile_read(&dy_tile, a->dy_TC, t, first, n);
            float *dx = tile_begin(&dx_tile, a->dx_TC, t, first);
            for (; c + LANES <= n; c += LANES) dot += doubles_of(x + c) * doubles_of(dy + c);
            for (; c < n; c++) dot[c % LANES] += (double)x[c] * (double)dy[c];
            for (c = 0; c < n; c++) dx[c] = s * dy[c];
            tile_end(&dx_tile, a->dx_TC, t, first, n);
        }
        flat(a->dz_T)[t] = (float)((double)(s * (1 - s)) * lanes_total(&dot));
    }
}

CPU(row_gate_backward, RowGateBackward)
{
    int64_t T = a->dy_TC.dim[0], C = a->dy_TC.dim[1];
    WANT(a->dx_TC, T, C);
    WANT(a->dy_TC, T, C);
    WANT(a->x_TC, T, C);
    WANT(a->z_T, T);
    WANT(a->dz_T, T);
    team_for(q->team, T, chunk_rows(C), row_gate_backward_rows, (void *)a);
}
