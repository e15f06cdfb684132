/* Every row of ops.def, in every signature of types that its letters allow: cpu against ref on the same
 * numbers, and with 1, 2 and 3 threads to the bit; rows whose kernels come in families by every family that can
 * be called here. A row has a function that makes the arguments of its cases in double. */
#include "ops_attention.h"
#include "ops_optimizer.h"
#include "ops_experts.h"
#include "ops_bytes.h"
#include "ops_paged.h"

/* ---- moving and adding ---- */
/* Views of all kinds: flat, wide rows, exchanged axes, a last stride above 1, integers */
static Tensor view(int variant)
{
    switch (variant) {
    case 0:  return real(40000);
    case 1:  return matrix(7, 13, true);
    case 2:  return exchanged(real(3, 5, 2, 9), 1, 2);
    case 3:  return exchanged(real(130, 70), 0, 1);
    case 4:  return tensor_slice(real(6, 1, 4, 1), 2, 1, 2);
    case 5:  return ints(77, -9, 9);
    default: return tensor_slice(tensor_view(ints(99, -9, 9), 11, 9), 1, 4, 3);
    }
}

static Tensor alike(Tensor x)                              /* contiguous, the same shape */
{
    Tensor y = fixture_new(x.dtype, false, x.dim, 4);
    return y;
}

static bool make_zero(Arguments *a, int variant)
{
    a->fill_zero.y = view(variant);
    return variant < 7;
}

static bool make_copy(Arguments *a, int variant)
{
    Tensor x = view(variant / 2);
    a->copy_strided = variant % 2 ? (CopyStrided){ .y = x, .x = alike(x) } : (CopyStrided){ .y = alike(x), .x = x };
    return variant < 14;
}

static bool make_add(Arguments *a, int variant)
{
    Tensor x = view(variant / 2);
    a->accumulate = variant % 2 ? (Accumulate){ .y = x, .x = alike(x) } : (Accumulate){ .y = alike(x), .x = x };
    return variant < 10;
}

static bool make_rank_sum(Arguments *a, int variant)
{
    int64_t R = variant ? 5 : 1, N = variant ? 20000 : 3;
    a->rank_sum = (RankSum){ .y_N = real(N), .x_RN = matrix(R, N, true) };
    if (variant == 2) a->rank_sum.y_N = tensor_view(tensor_slice(a->rank_sum.x_RN, 0, 0, 1), N);
    return variant < 3;
}

static bool make_convert(Arguments *a, int variant)
{
    int64_t N = variant ? 40000 : 3;
    a->convert = (Convert){ .y_N = real(N), .x_N = real(N) };
    return variant < 2;
}

static bool make_rank_max(Arguments *a, int variant)
{
    int64_t R = variant ? 5 : 1, N = variant ? 20000 : 3;
    a->rank_max = (RankMax){ .y_N = real(N), .x_RN = matrix(R, N, true) };
    return variant < 2;
}

static bool make_square_sum(Arguments *a, int variant)
{
    static const int64_t N[] = { 1, 3 * 4096 + 17, 66 * 4096 + 5 };       /* the last: more than a wave */
    if (variant < 3) a->square_sum = (SquareSum){ .out_1 = sums(1), .x_N = real(N[variant]) };
    return variant < 3;
}

/* Bytes are the same on all back ends: whole numbers, of which the last are not a whole word. */
static bool make_checksum(Arguments *a, int variant)
{
    static const int64_t N[] = { 1, 2 * 4096 + 17, 600 * 1024 + 3 };
    if (variant < 3) a->checksum = (Checksum){ .sum_2 = real(2), .x_N = ints(N[variant], -1000, 1000) };
    return variant < 3;
}

/* Every third element is a zero, of either sign. */
static bool make_nonzero_count(Arguments *a, int variant)
{
    static const int64_t N[] = { 1, 3 * 4096 + 17, 66 * 4096 + 5 };
    if (variant < 3) a->nonzero_count = (NonzeroCount){ .out_1 = sums(1), .x_N = real(N[variant]) };
    for (int64_t i = 0; variant < 3 && i < N[variant]; i += 3)
        ((double *)a->nonzero_count.x_N.data)[i] = i % 2 ? -0.0 : 0.0;
    return variant < 3;
}

static bool make_weighted_sum(Arguments *a, int variant)
{
    a->weighted_sum = (WeightedSum){ .out_2 = sums(2), .x_T = real(1001), .loss_weight_T = between(0, 1, 1001) };
    *element(a->weighted_sum.out_2, 0) = 3;
    return variant < 1;
}

static bool make_init_random(Arguments *a, int variant)
{
    a->init_random = (InitRandom){
        .y_N = real(20000), .key = 77, .std = 0.02, .rows = variant % 2 ? 1000 : 550, .cols = 37, .row0 = 5,
        .col0 = 11, .global_cols = 100, .first = 123, .uniform = variant > 1 };
    return variant < 4;
}

static bool make_init_value(Arguments *a, int variant)
{
    a->init_value = (InitValue){ .y_N = real(333), .value = 1 };
    return variant < 1;
}

/* ---- linear maps ---- */
static const struct { int64_t T, K, C; } linear[] = {
    { 1, 1, 1 },    { 3, 5, 7 },     { 8, 32, 16 },    { 17, 33, 300 },
    { 9, 260, 64 }, { 270, 70, 40 }, { 33, 131, 530 },
};
enum { LINEAR = sizeof linear / sizeof *linear };

static bool make_matmul_forward(Arguments *a, int variant)
{
    int64_t T = linear[variant % LINEAR].T, K = linear[variant % LINEAR].K, C = linear[variant % LINEAR].C;
    bool wide = variant >= LINEAR;
    a->matmul_forward = (MatmulForward){ .y_TK = matrix(T, K, wide),
                                         .x_TC = matrix(T, C, wide),
                                         .w_KC = matrix(K, C, wide) };
    if (variant % 2) a->matmul_forward.bias_K = real(K);
    return variant < 2 * LINEAR;
}

/* A product is rounded before the activation or the addition of the residual. h may be off by d = the rounding of h and what its
 * sum is off by, 2e-6 of the largest. So  y = act(z), z = h + bias, by d times the largest slope between; and a gated y = act(z) v
 * by the slope d_z (|v| + d_v) + |z| d_v, since |act(z)| <= |z|. A bias as large as the product makes y small and leaves its error as
 * it is, so that no share of y bounds it. */
static double product_off(double h, double most, Dtype dtype) { return rounding_of(dtype, h) + 2e-6 * most; }

static double activation_off(const Arguments *ref, int64_t i, Dtype dtype)
{
    const MatmulActivationForward *a = &ref->matmul_activation_forward;
    static const void *of;
    static double most;
    int64_t F = a->y_TF.dim[1], t = i / F, f = i % F;
    if (i == 0 || of != a->h_TK.data) of = a->h_TK.data, most = largest(a->h_TK);
    double h = *element(a->h_TK, t * a->h_TK.dim[1] + f), d = product_off(h, most, dtype);
    double z = h + (tensor_present(a->bias_K) ? *element(a->bias_K, f) : 0);
    double slope = a->kind == ACT_SQUARED_RELU ? 2 * (fabs(z) + d) : 1.13;          /* gelu's largest */
    if (!ACT_GATED(a->kind)) return slope * d;
    double u = *element(a->h_TK, t * a->h_TK.dim[1] + F + f), du = product_off(u, most, dtype);
    double v = u + (tensor_present(a->bias_K) ? *element(a->bias_K, F + f) : 0);
    return slope * d * (fabs(v) + du) + fabs(z) * du;
}

/* The product is what y has beyond the residual and the bias, where it was not dropped. */
static double residual_off(const Arguments *ref, int64_t i, Dtype dtype)
{
    const MatmulResidualForward *a = &ref->matmul_residual_forward;
    static double most;
    if (i == 0) most = largest(a->y_TK) + largest(a->residual_TK);
    double bias = tensor_present(a->bias_K) ? fabs(*element(a->bias_K, i % a->y_TK.dim[1])) : 0;
    double kept = fabs(*element(a->y_TK, i) - *element(a->residual_TK, i));
    return product_off(kept * (1 - a->p) + bias, most, dtype) / (1 - a->p);
}

static bool make_matmul_activation_forward(Arguments *a, int variant)
{
    int64_t T = linear[variant % LINEAR].T, F = linear[variant % LINEAR].K, C = linear[variant % LINEAR].C;
    int kind = variant % ACT_KINDS;
    int64_t K = ACT_GATED(kind) ? 2 * F : F;
    a->matmul_activation_forward = (MatmulActivationForward){
        .y_TF = matrix(T, F, variant & 1), .h_TK = matrix(T, K, variant & 2), .x_TC = real(T, C), .w_KC = real(K, C),
        .kind = kind };
    if (variant % 3) a->matmul_activation_forward.bias_K = real(K);
    rounded_before = activation_off;
    return variant < 7 * ACT_KINDS;
}

static bool make_matmul_residual_forward(Arguments *a, int variant)
{
    int64_t T = linear[variant % LINEAR].T, K = linear[variant % LINEAR].K, C = linear[variant % LINEAR].C;
    a->matmul_residual_forward = (MatmulResidualForward){
        .y_TK = matrix(T, K, variant & 1), .x_TC = real(T, C), .w_KC = real(K, C), .residual_TK = matrix(T, K, true),
        .site = 9 };
    if (variant & 2) a->matmul_residual_forward.p = 0.25, a->matmul_residual_forward.dropout_index_i = ints(T, 0, 1 << 30);
    if (variant % 3) a->matmul_residual_forward.bias_K = real(K);
    rounded_before = residual_off;
    return variant < 2 * LINEAR;
}

static bool make_matmul_backward_input(Arguments *a, int variant)
{
    int64_t T = linear[variant % LINEAR].T, K = linear[variant % LINEAR].K, C = linear[variant % LINEAR].C;
    bool wide = variant >= LINEAR;
    a->matmul_backward_input = (MatmulBackwardInput){ .dx_TC = matrix(T, C, wide),
                                                      .dy_TK = matrix(T, K, wide),
                                                      .w_KC = matrix(K, C, wide) };
    return variant < 2 * LINEAR;
}

static bool make_matmul_backward_weight(Arguments *a, int variant)
{
    int64_t T = linear[variant % LINEAR].T, K = linear[variant % LINEAR].K, C = linear[variant % LINEAR].C;
    bool wide = variant >= LINEAR;
    a->matmul_backward_weight = (MatmulBackwardWeight){ .dw_KC = matrix(K, C, wide),
                                                        .dy_TK = matrix(T, K, wide),
                                                        .x_TC = matrix(T, C, wide) };
    return variant < 2 * LINEAR;
}

static bool make_bias_backward(Arguments *a, int variant)
{
    a->bias_backward = variant ? (BiasBackward){ .db_K = real(197), .dy_TK = matrix(300, 197, true) }
                               : (BiasBackward){ .db_K = real(1), .dy_TK = matrix(1, 1, false) };
    return variant < 2;
}

/* ---- norms: variants by bits: RMSNorm, bias or residual, wide rows and in place ---- */
static const struct { int64_t T, C; } rows[] = { { 1, 8 }, { 5, 33 }, { 40, 768 } };

static bool make_norm_forward(Arguments *a, int variant)
{
    int64_t T = rows[variant / 8 % 3].T, C = rows[variant / 8 % 3].C;
    bool wide = variant & 4;
    a->norm_forward = (NormForward){ .y_TC = matrix(T, C, wide), .rstd_T = real(T), .x_TC = matrix(T, C, wide),
                                     .gain_C = real(C),
                                     .epsilon = 1e-5 };
    if (!(variant & 1)) a->norm_forward.mean_T = real(T);
    if (variant & 2) a->norm_forward.bias_C = real(C);
    if (wide) a->norm_forward.y_TC = a->norm_forward.x_TC;
    if (variant % 3 == 1) a->norm_forward.gain_offset = 1;
    return variant < 24;
}

static bool make_norm_backward_input(Arguments *a, int variant)
{
    int64_t T = rows[variant / 8 % 3].T, C = rows[variant / 8 % 3].C;
    bool wide = variant & 4;
    a->norm_backward_input = (NormBackwardInput){
        .dx_TC = matrix(T, C, wide), .dy_TC = matrix(T, C, wide), .x_TC = matrix(T, C, wide),
        .rstd_T = between(0.5, 2, T), .gain_C = real(C) };
    if (!(variant & 1)) a->norm_backward_input.mean_T = between(-0.1, 0.1, T);
    if (variant & 2) a->norm_backward_input.residual_TC = wide ? a->norm_backward_input.dx_TC : real(T, C);
    if (variant % 3 == 1) a->norm_backward_input.gain_offset = 1;
    return variant < 24;
}

static bool make_norm_backward_weight(Arguments *a, int variant)
{
    int64_t T = rows[variant / 4 % 3].T, C = rows[variant / 4 % 3].C;
    a->norm_backward_weight = (NormBackwardWeight){ .dgain_C = real(C), .dy_TC = matrix(T, C, true),
                                                    .x_TC = real(T, C), .rstd_T = between(0.5, 2, T) };
    if (!(variant & 1)) a->norm_backward_weight.mean_T = between(-0.1, 0.1, T);
    if (variant & 2) a->norm_backward_weight.dbias_C = real(C);
    return variant < 12;
}

/* ---- activations: every kind, with and without bias, apart and in place; from 20 on rows of whole vectors ---- */
static bool make_activation_forward(Arguments *a, int variant)
{
    int kind = variant % ACT_KINDS, size = variant / (2 * ACT_KINDS);
    int64_t T = 3, F = size == 0 ? 5 : size == 1 ? 601 : 96, wide = ACT_GATED(kind) ? 2 * F : F;
    a->activation_forward = (ActivationForward){ .x_TF = between(-6, 6, T, wide + 8), .kind = kind };
    a->activation_forward.x_TF = tensor_slice(a->activation_forward.x_TF, 1, size < 2 ? 1 : 0, wide);
    a->activation_forward.y_TF = real(T, F);
    if (variant % 4 == 3 && !ACT_GATED(kind)) a->activation_forward.y_TF = a->activation_forward.x_TF;
    if (variant / ACT_KINDS % 2) a->activation_forward.bias_F = real(wide);
    return size < 3;
}

static bool make_activation_backward(Arguments *a, int variant)
{
    int kind = variant % ACT_KINDS, size = variant / (2 * ACT_KINDS);
    int64_t T = 3, F = size == 0 ? 5 : size == 1 ? 601 : 96, wide = ACT_GATED(kind) ? 2 * F : F;
    a->activation_backward = (ActivationBackward){
        .dx_TF = matrix(T, wide, size < 2), .dy_TF = real(T, F), .x_TF = between(-6, 6, T, wide), .kind = kind };
    if (variant % 4 == 3 && !ACT_GATED(kind)) a->activation_backward.dy_TF = a->activation_backward.dx_TF;
    if (variant / ACT_KINDS % 2) a->activation_backward.bias_F = real(wide);
    return size < 3;
}

/* ---- dropout ---- */
static bool make_dropout_forward(Arguments *a, int variant)
{
    int64_t T = 11, C = variant & 16 ? 520 : variant & 8 ? 515 : 6;
    a->dropout_forward = (DropoutForward){ .y_TC = matrix(T, C, !(variant & 16)), .x_TC = real(T, C), .site = 9 };
    if (variant & 1) a->dropout_forward.p = 0.25, a->dropout_forward.dropout_index_i = ints(T, 0, 1 << 30);
    if (variant & 2) a->dropout_forward.bias_C = real(C);
    if (variant & 4) a->dropout_forward.residual_TC = variant & 8 ? a->dropout_forward.y_TC : real(T, C);
    if (variant == 5) a->dropout_forward.y_TC = a->dropout_forward.x_TC;
    return variant < 24;
}

static bool make_dropout_backward(Arguments *a, int variant)
{
    int64_t T = 11, C = variant & 4 ? 304 : 301;
    a->dropout_backward = (DropoutBackward){ .dx_TC = matrix(T, C, !(variant & 4)), .dy_TC = real(T, C), .site = 9 };
    if (variant & 1) a->dropout_backward.p = 0.9, a->dropout_backward.dropout_index_i = ints(T, 0, 100);
    if (variant & 2) a->dropout_backward.dy_TC = a->dropout_backward.dx_TC;
    return variant < 8;
}

/* ---- embedding and cross entropy: some ids belong to other ranks ---- */
static bool make_embed_forward(Arguments *a, int variant)
{
    int64_t C = variant & 2 ? 704 : 700;
    a->embed_forward = (EmbedForward){ .y_TC = matrix(23, C, !(variant & 2)), .id_i = ints(23, 0, 60), .table_VC = matrix(31, C, !(variant & 2)),
                                       .first = 15, .add = variant & 1, .scale = variant < 4 ? 1 : 27.75 };
    return variant < 8;
}

static bool make_embed_backward(Arguments *a, int variant)
{
    a->embed_backward = (EmbedBackward){ .dtable_VC = matrix(31, 130, true), .id_i = ints(90, 0, 60), .dy_TC = matrix(90, 130, true), .first = 15, .scale = variant ? 27.75 : 1 };
    return variant < 2;
}

/* valid: all columns, some, none; then huge logits; then rows of whole vectors, of which some are padding */
static const int64_t valid[] = { 1333, 700, 0, 1333, 1333, 1344, 1333 };

static bool make_xent_stats(Arguments *a, int variant)
{
    if (variant >= 7) return false;
    double size = variant == 3 ? 1e4 : 4;
    int64_t V = variant > 3 ? 1344 : 1333;
    a->xent_stats = (XentStats){ .stats_T3 = matrix(21, 3, true), .target_i = ints(21, 300, 2000), .first = 500,
                                 .logits_TV = tensor_slice(between(-size, size, 21, V + 8), 1, V == 1333 ? 2 : 0, V),
                                 .valid = valid[variant] };
    return true;
}

static bool make_xent_forward(Arguments *a, int variant)
{
    a->xent_forward = (XentForward){ .loss_T = real(21), .lse_T = real(21), .stats_RT3 = real(3, 21, 3) };
    for (int i = 0; i < 63; i++) {
        double *stats = element(a->xent_forward.stats_RT3, 3 * i);
        stats[0] = draw(-1, 1) * (variant ? 1e4 : 5);
        stats[1] = draw(1, 100);
        if (i % 4 == 1 && i >= 21) stats[0] = -INFINITY, stats[1] = stats[2] = 0;       /* no words here */
    }
    return variant < 2;
}

static bool make_logit_softcap(Arguments *a, int variant)
{
    int64_t V = variant % 2 ? 1344 : 1333;
    a->logit_softcap = (LogitSoftcap){ .x_TV = matrix(21, V, variant % 2 == 0), .softcap = variant < 2 ? 0.3 : 5 };
    return variant < 4;
}

/* The second of three ranks, with statistics of its own logits */
static bool make_xent_draw(Arguments *a, int variant)
{
    if (!make_xent_stats(a, variant)) return false;
    XentStats f = a->xent_stats;
    a->xent_draw = (XentDraw){ .target_i = ints(21, 0, 9), .logits_TV = f.logits_TV, .stats_RT3 = real(3, 21, 3), .index_i = ints(21, 0, 1000),
                               .rank = 1, .first = f.first, .valid = f.valid, .site = 3 };
    for (int t = 0; t < 21; t++) {
        double max = -INFINITY, sum = 0;
        for (int64_t c = 0; c < f.valid; c++) max = fmax(max, *element(f.logits_TV, t * f.logits_TV.dim[1] + c));
        for (int64_t c = 0; c < f.valid; c++) sum += exp(*element(f.logits_TV, t * f.logits_TV.dim[1] + c) - max);
        for (int r = 0; r < 3; r++) {
            double *stats = element(a->xent_draw.stats_RT3, 3 * (21 * r + t));
            stats[0] = max, stats[1] = r == 1 ? sum : 0.1 * sum;
        }
    }
    return true;
}

static bool make_xent_backward(Arguments *a, int variant)
{
    int kind = variant / 7;                                /* plain; with a softcap; with a z-loss; with both */
    if (kind > 3 || !make_xent_stats(a, variant %= 7)) return false;
    XentStats f = a->xent_stats;
    /* apart in some variants, and in place in the others */
    a->xent_backward = (XentBackward){ .dlogits_TV = variant % 2 ? matrix(21, f.logits_TV.dim[1], variant == 1) : f.logits_TV,
                                       .logits_TV = f.logits_TV, .lse_T = between(4, 9, 21),
                                       .target_i = f.target_i,
                                       .loss_weight_T = between(0, 1, 21), .first = f.first, .valid = f.valid,
                                       .softcap = kind & 1 ? variant == 3 ? 1e5 : 5 : 0, .z = kind & 2 ? 0.1 : 0 };
    for (int t = 0; t < 21 && variant == 3; t++) *element(a->xent_backward.lse_T, t) = 1e4;
    if (variant == 3) loosen = 1e3;                        /* logits of 1e4 have roundings of 1e-3 */
    return true;
}

/* ---- the table: tolerances are relative to the largest element of each tensor; of_pairs where a
 * family of bf16 pairs rounds more than its output ---- */
static const struct { Make *make; double tolerance, of_pairs; } row[OP_COUNT] = {
    [OP_fill_zero] = { make_zero, 0, 0 },
    [OP_copy_strided] = { make_copy, 0, 0 },
    [OP_convert] = { make_convert, 1e-7, 0 },
    [OP_accumulate] = { make_add, 1e-7, 0 },
    [OP_rank_sum] = { make_rank_sum, 3e-7, 0 },
    [OP_square_sum] = { make_square_sum, 1e-13, 0 },
    [OP_checksum] = { make_checksum, 0, 0 },
    [OP_nonzero_count] = { make_nonzero_count, 0, 0 },
    [OP_weighted_sum] = { make_weighted_sum, 1e-15, 0 },
    [OP_init_random] = { make_init_random, 1e-7, 0 },
    [OP_init_value] = { make_init_value, 0, 0 },
    [OP_matmul_forward] = { make_matmul_forward, 2e-6, 0 },
    [OP_matmul_activation_forward] = { make_matmul_activation_forward, 2e-6, 0 },
    [OP_matmul_residual_forward] = { make_matmul_residual_forward, 2e-6, 0 },
    [OP_matmul_backward_input] = { make_matmul_backward_input, 2e-6, 0 },
    [OP_matmul_backward_weight] = { make_matmul_backward_weight, 2e-6, 0 },
    [OP_rank_max] = { make_rank_max, 0, 0 },
    [OP_fp8_amax] = { make_fp8_amax, 0, 0 },
    [OP_fp8_quantize] = { make_fp8_quantize, 0, 0 },
    [OP_fp8_scale] = { make_fp8_scale, 1e-7, 0 },
    [OP_fp8_matmul_forward] = { make_fp8_matmul_forward, 2e-6, 0 },
    [OP_fp8_matmul_backward_input] = { make_fp8_matmul_backward_input, 2e-6, 0 },
    [OP_fp8_matmul_backward_weight] = { make_fp8_matmul_backward_weight, 2e-6, 0 },
    [OP_int8_quantize] = { make_int8_quantize, 0, 0 },
    [OP_int8_dequantize] = { make_int8_dequantize, 1e-7, 0 },
    [OP_int8_matmul_forward] = { make_int8_matmul_forward, 1e-6, 0 },
    [OP_bias_backward] = { make_bias_backward, 2e-7, 0 },
    [OP_head_norm_sums] = { make_head_norm_sums, 3e-7, 0 },
    [OP_head_norm_forward] = { make_head_norm_forward, 5e-7, 0 },
    [OP_head_norm_backward_sums] = { make_head_norm_backward_sums, 1e-6, 0 },
    [OP_head_norm_backward_input] = { make_head_norm_backward_input, 1e-6, 0 },
    [OP_head_norm_backward_weight] = { make_head_norm_backward_weight, 1e-6, 0 },
    [OP_norm_forward] = { make_norm_forward, 5e-7, 0 },
    [OP_norm_backward_input] = { make_norm_backward_input, 1e-6, 0 },
    [OP_norm_backward_weight] = { make_norm_backward_weight, 3e-7, 0 },
    [OP_activation_forward] = { make_activation_forward, 3e-7, 0 },
    [OP_activation_backward] = { make_activation_backward, 2e-6, 0 },
    [OP_dropout_forward] = { make_dropout_forward, 2e-7, 0 },
    [OP_dropout_backward] = { make_dropout_backward, 2e-7, 0 },
    [OP_rope_forward] = { make_rope_forward, 3e-7, 0 },
    [OP_rope_backward] = { make_rope_backward, 3e-7, 0 },
    [OP_attention_forward] = { make_attention_forward, 2e-6, 4e-3 },
    [OP_paged_attention_forward] = { make_paged_attention_forward, 2e-6, 4e-3 },
    [OP_page_write] = { make_page_write, 0, 0 },
    [OP_attention_delta] = { make_attention_delta, 1e-6, 0 },
    [OP_attention_backward] = { make_attention_backward, 3e-6, 1e-2 },
    [OP_attention_merge] = { make_attention_merge, 1e-6, 0 },
    [OP_embed_forward] = { make_embed_forward, 1e-7, 0 },
    [OP_sinusoid_forward] = { make_sinusoid_forward, 3e-7, 0 },
    [OP_embed_backward] = { make_embed_backward, 3e-7, 0 },
    [OP_xent_stats] = { make_xent_stats, 1e-6, 0 },
    [OP_xent_forward] = { make_xent_forward, 2e-7, 0 },
    [OP_logit_softcap] = { make_logit_softcap, 1e-6, 0 },
    [OP_xent_draw] = { make_xent_draw, 0, 0 },
    [OP_xent_backward] = { make_xent_backward, 2e-6, 0 },
    [OP_route_forward] = { make_route_forward, 2e-7, 0 },
    [OP_route_backward] = { make_route_backward, 2e-7, 0 },
    [OP_balance_count] = { make_balance_count, 0, 0 },
    [OP_balance_backward] = { make_balance_backward, 5e-7, 0 },
    [OP_route_sort] = { make_route_sort, 0, 0 },
    [OP_load_add] = { make_load_add, 1e-7, 0 },
    [OP_expert_gather] = { make_expert_gather, 1e-7, 0 },
    [OP_expert_combine] = { make_expert_combine, 3e-7, 0 },
    [OP_expert_combine_backward_weight] = { make_expert_combine_backward_weight, 1e-7, 0 },
    [OP_grouped_matmul_forward] = { make_grouped_matmul_forward, 2e-6, 0 },
    [OP_grouped_int8_matmul_forward] = { make_grouped_int8_matmul_forward, 1e-6, 0 },
    [OP_grouped_matmul_backward_input] = { make_grouped_matmul_backward_input, 2e-6, 0 },
    [OP_grouped_matmul_backward_weight] = { make_grouped_matmul_backward_weight, 2e-6, 0 },
    [OP_grouped_activation_forward] = { make_grouped_activation_forward, 3e-7, 0 },
    [OP_grouped_activation_backward] = { make_grouped_activation_backward, 2e-6, 0 },
    [OP_row_gate_forward] = { make_row_gate_forward, 3e-7, 0 },
    [OP_row_gate_backward] = { make_row_gate_backward, 5e-7, 0 },
    [OP_expert_bias_update] = { make_expert_bias_update, 1e-7, 0 },
    [OP_load_summary] = { make_load_summary, 2e-7, 0 },
#include "ops_optimizer.def"
};

static void test_no_row_is_untested(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++)
        if (!row[op].make) fail_msg("%s of ops.def has no case here", op_name(op));
}

static void test_cpu_equals_ref(void **state)
{
    (void)state;
    Signature s;
    for (int op = 0; op < OP_COUNT; op++)
        for (int i = 0; signature_at(op, i, &s); i++)
            for (int variant = 0;; variant++) {
#ifdef OPS_CUDA
                if (!device_takes(op, &s)) break;
#endif
                if (left_out(i, variant, &s)) break;
                Arguments a;
                memset(&a, 0, sizeof a), memset(&start, 0, sizeof start);
                start.seed = 5, start.step = 3, start.updates = 2, start.lr = 1e-2, start.decoupled_lr = 3e-2, start.weight_decay = 0.7, start.factor = 0.37;
                start.gradient_scale = 4, start.token_scale = 64;
                start.loss = (LossScale){ .scale = 256, .growth = 3, .hysteresis = 1 };
                loosen = roundings = 1;
                rounded_before = NULL;
                drawn_fp8 = s.r;
                drawn_as = s.a;                            /* what a case computes from them holds in cpu */
                drawn  = random_mix(random_key(0, op_name(op)), (uint64_t)variant);          /* not changed by other rows */
                bool more = row[op].make && row[op].make(&a, variant);
                bool done = more && one_case(op, variant, &a, &s, row[op].tolerance, row[op].of_pairs);
                fixture_reset();
                assert_true(done || i > 0 || !more);
                if (!more) break;
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_row_is_untested),
        cmocka_unit_test(test_cpu_equals_ref),
    };
    static StepState step_state = { .seed = 5, .step = 3 };
    if (queue_open(&ref_queue, "ref", 1, &step_state) != OK) return 1;
    if (arena_open(&trial_workspace, "workspace", 16 << 20) != OK) return 1;
#ifdef OPS_CUDA
    if (!device_open()) {
        print_message("skipped: %s\n", fail_text());
        return 77;
    }
#endif
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
#ifdef OPS_CUDA
    device_close();
#endif
    arena_close(&trial_workspace);
    queue_close(&ref_queue);
    return failed;
}
