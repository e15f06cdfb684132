#ifndef TESTS_TENSOR_OPS_OPTIMIZER_H
#define TESTS_TENSOR_OPS_OPTIMIZER_H
/* Cases of the operations at the end of a step: clipping, and the updates of the optimizers. */
#include "ops_trial.h"

static inline bool make_sums_total(Arguments *a, int variant)
{
    a->sums_total = (SumsTotal){ .total_S = sums(7), .sums_RS = sums(variant == 0 ? 1 : 5, 7) };
    for (int i = 0; i < tensor_count(a->sums_total.sums_RS); i++)
        *element(a->sums_total.sums_RS, i) = i % 11 * 1e3 + i % 3 * 1e-3;
    if (variant == 2) *element(a->sums_total.sums_RS, 8) = INFINITY;
    return variant < 3;
}

static inline bool make_sums_largest(Arguments *a, int variant)
{
    bool made = make_sums_total(a, variant);
    a->sums_largest = (SumsLargest){ .most_S = a->sums_total.total_S, .sums_RS = a->sums_total.sums_RS };
    for (int i = 0; variant == 1 && i < 35; i += 2) *element(a->sums_largest.sums_RS, i) *= -1;
    return made;
}

static inline bool make_clip_and_skip(Arguments *a, int variant)
{
    static const double sum[3] = { 2400, 330, 150 };
    a->clip_and_skip = (ClipAndSkip){ .report_4 = sums(4), .sums_3 = sums(3), .clip = variant == 0 ? 0 : 0.01 };
    for (int i = 0; i < 3; i++) *element(a->clip_and_skip.sums_3, i) = sum[i];
    if (variant == 2) *element(a->clip_and_skip.sums_3, 2) = INFINITY;
    if (variant > 0) a->clip_and_skip.scaling = (LossScaling){ true, 1, 10, 2 };
    return variant < 3;
}

/* Elements of a flat tensor: by 16 bytes in the first case, one by one in the others on a GPU. */
static int64_t flat(int variant) { return variant == 0 ? 20000 : 20001; }

/* Stochastic rounding in bf16 gives either neighbour; variant 1 has a step that is skipped. */
static bool update_case(int variant)
{
    start.skip = variant == 1;
    if (variant >= 3) roundings = 2;
    return variant < 5;
}

/* A part with gaps: 60 of 90 columns of each matrix, and 50 of 70 rows */
static const ElementPlace flat_place = { .first = 5 },
                          cut_place = { .first = 7, .offset = 11, .columns = 60, .global_columns = 90, .rows = 50,
                                        .global_rows = 70 };

static inline bool make_adamw(Arguments *a, int variant)
{
    a->adamw = (Adamw){
        .w_N = real(flat(variant)), .m_N = real(flat(variant)), .v_N = between(0, 1, flat(variant)), .g_N = real(flat(variant)),
        .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1, .coupled = variant == 2, .decoupled = variant == 2, .stochastic = variant >= 3,
        .place = variant == 4 ? cut_place : flat_place };
    if (variant >= 2) a->adamw.param_N = real(flat(variant));
    return update_case(variant);
}

static inline bool make_sgd(Arguments *a, int variant)
{
    a->sgd = (Sgd){ .w_N = real(flat(variant)), .m_N = real(flat(variant)), .g_N = real(flat(variant)), .momentum = 0.9, .decay = 0.1, .nesterov = variant == 2, .decoupled = variant == 2,
                    .stochastic = variant >= 3, .place = variant == 4 ? cut_place : flat_place };
    if (variant >= 2) a->sgd.param_N = real(flat(variant));
    return update_case(variant);
}

/* A momentum and gradients of which every seventh are 0, so that their sign is 0 too. No other step is near 0, where float and
 * double may have different signs. */
static inline bool make_lion(Arguments *a, int variant)
{
    a->lion = (Lion){ .w_N = real(flat(variant)), .m_N = between(0.5, 1, flat(variant)), .g_N = between(0.5, 1, flat(variant)), .beta1 = 0.9, .beta2 = 0.99, .decay = 0.1,
                      .decoupled = variant == 2, .stochastic = variant >= 3, .place = variant == 4 ? cut_place : flat_place };
    for (int64_t i = 0; i < flat(variant); i++) {
        *element(a->lion.m_N, i) *= i % 7 == 0 ? 0 : i % 2 ? 1 : -1;
        *element(a->lion.g_N, i) *= i % 7 == 0 ? 0 : i % 2 ? 1 : -1;
    }
    if (variant >= 2) a->lion.param_N = real(flat(variant));
    return update_case(variant);
}

/* The first update, which sets v alone, and later ones, whose directions reach their bound of 7^(1/4) */
static inline bool make_adopt(Arguments *a, int variant)
{
    start.updates = variant == 0 ? 0 : 7;
    a->adopt = (Adopt){
        .w_N = real(flat(variant)), .m_N = real(flat(variant)), .v_N = between(0, 1, flat(variant)), .g_N = real(flat(variant)), .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-2,
        .decay = 0.1, .coupled = variant == 2, .decoupled = variant == 2, .stochastic = variant >= 3, .place = variant == 4 ? cut_place : flat_place };
    if (variant >= 2) a->adopt.param_N = real(flat(variant));
    return update_case(variant);
}

static inline bool make_averaged_update(Arguments *a, int variant)
{
    start.average_share = 0.3;
    a->averaged_update = (AveragedUpdate){ .w_N = real(flat(variant)), .z_N = real(flat(variant)), .g_N = real(flat(variant)), .param_N = real(flat(variant)),
        .beta = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1, .stochastic = variant >= 3, .place = variant == 4 ? cut_place : flat_place };
    if (variant != 2) a->averaged_update.v_N = between(0, 1, flat(variant));
    return update_case(variant);
}

static inline bool make_weighted_pair(Arguments *a, int variant)
{
    a->weighted_pair = (WeightedPair){ .y_N = real(flat(variant)), .x_N = real(flat(variant)), .z_N = real(flat(variant)), .x_factor = 0.9, .z_factor = 0.1 };
    return variant < 1;
}

/* Steps below their bound and above it */
static inline bool make_sophia(Arguments *a, int variant)
{
    a->sophia = (Sophia){ .w_N = real(flat(variant)), .m_N = real(flat(variant)), .h_N = between(0, 1, flat(variant)), .g_N = real(flat(variant)), .beta1 = 0.9, .rho = 2, .decay = 0.1,
                          .decoupled = variant == 2, .stochastic = variant >= 3, .place = variant == 4 ? cut_place : flat_place };
    if (variant >= 2) a->sophia.param_N = real(flat(variant));
    return update_case(variant);
}

static inline bool make_sophia_hessian(Arguments *a, int variant)
{
    a->sophia_hessian = (SophiaHessian){ .h_N = between(0, 1, flat(variant)), .g_N = real(flat(variant)), .tokens_1 = sums(1), .beta2 = 0.99, .stochastic = variant >= 3,
                                         .place = variant == 4 ? cut_place : flat_place };
    *element(a->sophia_hessian.tokens_1, 0) = 4096;
    return update_case(variant);
}

/* Rows of 70 from the middle of one to the middle of another, of a matrix of 400 rows and 90 columns, one or 8 rows for a number */
enum { FACTOR_FIRST = 333, FACTOR_COLUMNS = 70, FACTOR_ROW0 = 40, FACTOR_COLUMN0 = 20 };
static inline bool make_factor_sums(Arguments *a, int variant)
{
    int64_t group = variant ? 8 : 1;
    a->factor_sums = (FactorSums){ .row_B = sums(400 / group), .g_N = real(flat(variant)), .first = FACTOR_FIRST, .columns = FACTOR_COLUMNS,
                                   .row0 = FACTOR_ROW0, .column0 = FACTOR_COLUMN0, .group = group };
    if (variant == 0) a->factor_sums.column_C = sums(90);
    return variant < 2;
}

static inline bool make_moment_of_sums(Arguments *a, int variant)
{
    a->moment_of_sums = (MomentOfSums){ .v_B = between(0, 1, 333), .sums_B = between(0, 1, 333), .beta = 0.9, .rate = variant == 2 ? 0.8 : 0, .count = 7 };
    start.skip = variant == 1;
    return variant < 3;
}

static inline bool make_factored_direction(Arguments *a, int variant)
{
    a->factored_direction = (FactoredDirection){ .g_N = real(flat(variant)), .row_R = between(0, 1, 400), .column_C = between(0, 1, 90), .first = FACTOR_FIRST,
        .columns = FACTOR_COLUMNS, .row0 = FACTOR_ROW0, .column0 = FACTOR_COLUMN0, .epsilon = variant == 2 ? 2 : 1e-3 };
    start.skip = variant == 1;
    return variant < 3;
}

static inline bool make_adafactor_direction(Arguments *a, int variant)
{
    a->adafactor_direction = (AdafactorDirection){ .g_N = real(flat(variant)), .v_N = between(0, 1, flat(variant)), .rate = 0.8, .epsilon = 1e-3, .stochastic = variant >= 3,
        .place = variant == 4 ? cut_place : flat_place };
    return update_case(variant);
}

static inline bool make_adafactor_update(Arguments *a, int variant)
{
    a->adafactor_update = (AdafactorUpdate){ .w_N = real(flat(variant)), .u_N = real(flat(variant)), .squares_2 = between(variant == 3 ? 1 : 4e4, 4e4, 2), .count = 20001,
        .epsilon = 1e-3, .clip = variant == 2 ? 0.1 : 2, .decay = 0.1, .decoupled = variant == 2 };
    start.skip = variant == 1;
    if (variant >= 2) a->adafactor_update.param_N = real(flat(variant));
    return variant < 4;
}

static inline bool make_block_adam(Arguments *a, int variant)
{
    int64_t group = variant == 2 ? 8 : 1;
    a->block_adam = (BlockAdam){ .w_N = real(flat(variant)), .m_N = real(flat(variant)), .g_N = real(flat(variant)), .v_B = between(0, 1, 400 / group), .beta1 = 0.9, .beta2 = 0.95,
        .epsilon = 1e-8, .decay = 0.1, .first = FACTOR_FIRST, .columns = FACTOR_COLUMNS, .row0 = FACTOR_ROW0, .group = group, .decoupled = variant == 2,
        .stochastic = variant >= 3, .place = variant == 4 ? cut_place : flat_place };
    if (variant >= 2) a->block_adam.param_N = real(flat(variant));
    return update_case(variant);
}

static inline bool make_lamb_direction(Arguments *a, int variant)
{
    a->lamb_direction = (LambDirection){ .late_correction = variant == 2,
        .w_N = real(flat(variant)), .m_N = real(flat(variant)), .v_N = between(0, 1, flat(variant)), .g_N = real(flat(variant)),
        .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .decay = 0.1, .stochastic = variant >= 3,
        .place = variant == 4 ? cut_place : flat_place };
    if (variant == 2) a->lamb_direction.w_N = tensor_none();
    return update_case(variant);
}

/* Norms of 0, ratios below and above the bounds, and one within them */
static inline bool make_lamb_update(Arguments *a, int variant)
{
    static const double squares[][2] = { { 4, 9 }, { 4, 9 }, { 0, 9 }, { 4, 0 }, { 1e-4, 9 }, { 9, 1e-4 } };
    a->lamb_update = (LambUpdate){ .w_N = real(flat(variant)), .u_N = real(flat(variant)), .squares_2 = between(1, 1, 2), .low = 0.1,
                                   .high = 3, .decoupled = variant == 2 };
    for (int i = 0; i < 2 && variant < 6; i++) *element(a->lamb_update.squares_2, i) = squares[variant][i];
    start.skip = variant == 1;
    if (variant >= 2) a->lamb_update.param_N = real(flat(variant));
    return variant < 6;
}

static inline Tensor codes(int64_t N)
{
    Tensor x = fixture_new(U8, false, DIMS(N));
    for (int64_t i = 0; i < N; i++) ((uint8_t *)x.data)[i] = (uint8_t)draw(0, 256);
    return x;
}

/* Before the freeze: ratios as of LAMB. After it: a factor within its bounds, one that its step bounds, one above the largest, and without decay */
enum { ONEBIT_CASES = 7 };
static const OnebitBounds onebit_bounds = { 0.1, 3, 0.9, 0.5, 4, 0.25 };
static inline void onebit_case(Tensor numbers_3, Tensor squares_2, Tensor *most_1, int variant)
{
    static const struct { double squares[2], factor, most; } row[ONEBIT_CASES] = {
        { { 4, 9 }, 1, 0 }, { { 4, 9 }, 1, 0 }, { { 9, 1e-4 }, 1, 0 }, { { 4, 9 }, 1, 1.1 }, { { 4, 9 }, 2, 0.3 }, { { 9, 4 }, 3.9, 7 }, { { 4, 9 }, 1, 0.9 } };
    if (variant >= ONEBIT_CASES) return;
    for (int i = 0; i < 2; i++) *element(squares_2, i) = row[variant].squares[i];
    *element(numbers_3, ONEBIT_FACTOR) = row[variant].factor;
    if (row[variant].most > 0) *most_1 = real(1), *element(*most_1, 0) = row[variant].most;
    start.skip = variant == 1;
}

static inline bool make_onebit_update(Arguments *a, int variant)
{
    a->onebit_update = (OnebitUpdate){ .w_N = real(flat(variant)), .u_N = real(flat(variant)), .numbers_3 = between(0.5, 1, 3), .squares_2 = between(1, 1, 2),
                                       .bounds = onebit_bounds, .decay = variant == 6 ? 0 : 0.1, .decoupled = variant == 2 };
    onebit_case(a->onebit_update.numbers_3, a->onebit_update.squares_2, &a->onebit_update.most_1, variant);
    if (variant >= 2) a->onebit_update.param_N = real(flat(variant));
    return variant < ONEBIT_CASES;
}

static inline bool make_onebit_numbers(Arguments *a, int variant)
{
    a->onebit_numbers = (OnebitNumbers){ .numbers_3 = between(0.5, 1, 3), .squares_2 = between(1, 1, 2), .bounds = onebit_bounds,
                                         .decay = variant == 6 ? 0 : 0.1 };
    onebit_case(a->onebit_numbers.numbers_3, a->onebit_numbers.squares_2, &a->onebit_numbers.most_1, variant);
    return variant < ONEBIT_CASES;
}

static inline bool make_onebit_direction(Arguments *a, int variant)
{
    a->onebit_direction = (OnebitDirection){ .g_N = real(flat(variant)), .m_N = real(flat(variant)), .v_N = between(0, 1, flat(variant)), .fresh_N = real(flat(variant)), .w_N = real(flat(variant)),
        .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .decay = 0.1 };
    start.skip = variant == 1;
    return variant < 2;
}

static inline bool make_onebit_momentum(Arguments *a, int variant)
{
    a->onebit_momentum = (OnebitMomentum){ .e_N = real(flat(variant)), .m_N = real(flat(variant)), .g_N = real(flat(variant)), .numbers_3 = between(2, 3, 3), .beta1 = 0.9, .workers = 3 };
    start.skip = variant == 1;
    return variant < 2;
}

/* Of a bucket's signs those of a parameter in it; every seventh element had no gradient; no signs of a worker alone; a tensor that is left out */
static inline bool make_onebit_compressed(Arguments *a, int variant)
{
    a->onebit_compressed = (OnebitCompressed){ .g_N = real(flat(variant)), .m_N = real(flat(variant)), .fresh_N = between(0, 1, flat(variant)), .v_N = between(0.1, 1, flat(variant)),
        .w_N = real(flat(variant)), .e_N = real(flat(variant)), .numbers_3 = between(2, 3, 3), .first = 13, .count = 5, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .decay = 0.1 };
    for (int64_t i = 0; i < flat(variant); i += 7) *element(a->onebit_compressed.v_N, i) = 0;
    if (variant == 3) *element(a->onebit_compressed.numbers_3, ONEBIT_SCALE) = 0;
    if (variant != 2) a->onebit_compressed.bits_B = codes(2600), a->onebit_compressed.squares_1 = between(1, 2, 1);
    start.skip = variant == 1;
    return variant < 4;
}

static inline bool make_onebit_lengths(Arguments *a, int variant)
{
    a->onebit_lengths = (OnebitLengths){ .out_1 = sums(1), .most_1 = between(0, 1, 1), .m_N = real(flat(variant)), .v_N = between(0.01, 1, flat(variant)), .fresh_N = between(0.01, 1, flat(variant)),
                                         .epsilon = 1e-3 };
    if (variant == 1) *element(a->onebit_lengths.most_1, 0) = 100;
    return variant < 2;
}

/* A scale within bounds, one that were above, and of a momentum that is 0 */
static inline bool make_onebit_scale(Arguments *a, int variant)
{
    a->onebit_scale = (OnebitScale){ .numbers_3 = real(3), .squares_1 = between(1, 2, 1), .total_1 = between(1, 2, 1), .count = 7, .tensors = 3 };
    if (variant > 0) *element(a->onebit_scale.squares_1, 0) = variant == 1 ? 1e-20 : 0;
    return variant < 3;
}

static inline bool make_add_root_mean(Arguments *a, int variant)
{
    a->add_root_mean = (AddRootMean){ .total_1 = sums(1), .squares_1 = between(1, 2, 1), .count = 7 };
    *element(a->add_root_mean.total_1, 0) = 3;
    return variant < 1;
}

static inline bool make_add_scaled(Arguments *a, int variant)
{
    a->add_scaled = (AddScaled){ .y_1 = sums(1), .x_1 = sums(1), .factor = 3 };
    *element(a->add_scaled.y_1, 0) = 5, *element(a->add_scaled.x_1, 0) = 7;
    return variant < 1;
}

/* Whole bytes, and a last one of one element before bytes of none */
static inline bool make_sign_pack(Arguments *a, int variant)
{
    int64_t N = variant == 2 ? 64 : 20001;
    a->sign_pack = (SignPack){ .bits_B = codes(variant == 2 ? 8 : 2506), .x_N = real(N), .squares_1 = between(1, 2, 1), .count = 3 };
    start.skip = variant == 1;
    return variant < 3;
}

static inline bool make_sign_mean(Arguments *a, int variant)
{
    a->sign_mean = (SignMean){ .y_N = real(flat(variant)), .bits_PB = tensor_view(codes(3 * 2501), 3, 2501), .squares_P = between(1, 2, 3), .count = 3 };
    start.skip = variant == 1;
    return variant < 2;
}

static inline bool make_muon_direction(Arguments *a, int variant)
{
    a->muon_direction = (MuonDirection){ .g_N = real(flat(variant)), .m_N = real(flat(variant)), .momentum = 0.95, .nesterov = variant % 2,
        .stochastic = variant >= 3, .place = variant == 4 ? cut_place : flat_place };
    return update_case(variant);
}

static inline bool make_muon_update(Arguments *a, int variant)
{
    a->muon_update = (MuonUpdate){ .w_N = real(flat(variant)), .o_N = real(flat(variant)), .decay = 0.1, .scale = 3, .decay_last = variant == 3, .decoupled = variant == 2 };
    start.skip = variant == 1;
    if (variant >= 2) a->muon_update.param_N = real(flat(variant));
    return variant < 4;
}

/* The norm is at least epsilon. */
static inline bool make_normalize(Arguments *a, int variant)
{
    static const double squares[] = { 7, 7, 0, 1e-6 };
    a->normalize = (Normalize){ .y_N = real(flat(variant)), .x_N = real(flat(variant)), .epsilon = 0.01,
                                .squares_1 = between(squares[variant % 4], squares[variant % 4], 1) };
    start.skip = variant == 1;
    return variant < 4;
}

static inline bool make_scaled_sum(Arguments *a, int variant)
{
    a->scaled_sum = (ScaledSum){ .y_N = real(flat(variant)), .x_N = real(flat(variant)), .y_factor = 2.5, .x_factor = -0.75 };
    return variant < 1;
}

/* In double the moments of a part of a matrix of 37 rows and 90 columns */
static const ElementPlace cut_columns = { .offset = 30, .columns = 45, .global_columns = 90 }, cut_rows = { .offset = 11 * 90 };
enum { CUT_BLOCKS = (37 * 90 + 255) / 256, CUT_COLUMNS = 37 * 45, CUT_ROWS = 13 * 90 };

/* Whole, without weights, skipped; 16 blocks and a short one */
static inline bool make_adam8bit(Arguments *a, int variant)
{
    int64_t N = 16 * 256 + 17, B = 17;
    a->adam8bit = (Adam8bit){ .g_N = real(N), .m_N = codes(N), .m_scale_B = between(0, 1, B), .v_N = codes(N),
        .v_scale_B = between(0, 1, B), .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1 };
    *element(a->adam8bit.m_scale_B, 3) = *element(a->adam8bit.v_scale_B, 3) = 0;
    for (int64_t i = 3 * 256; i < 4 * 256; i++) *element(a->adam8bit.g_N, i) = 0;
    if (variant != 1) a->adam8bit.w_N = real(N);
    if (variant == 2) a->adam8bit.param_N = real(N);
    start.skip = variant == 3;
    return variant < 4;
}

static inline bool make_adam8bit_moments(Arguments *a, int variant)
{
    int64_t N = variant % 2 ? CUT_ROWS : CUT_COLUMNS, B = CUT_BLOCKS;
    a->adam8bit_moments = (Adam8bitMoments){ .m_wide_N = real(N), .v_wide_N = real(N), .most_2B = real(2 * B), .m_N = codes(N),
        .m_scale_B = between(0, 1, B), .v_N = codes(N), .v_scale_B = between(0, 1, B), .g_N = real(N), .beta1 = 0.9, .beta2 = 0.95,
        .place = variant % 2 ? cut_rows : cut_columns };
    start.skip = variant == 3;
    return variant < 4;
}

static inline bool make_adam8bit_store(Arguments *a, int variant)
{
    int64_t N = variant % 2 ? CUT_ROWS : CUT_COLUMNS, B = CUT_BLOCKS;
    a->adam8bit_store = (Adam8bitStore){ .w_N = real(N), .m_N = codes(N), .m_scale_B = between(0, 1, B), .v_N = codes(N),
        .v_scale_B = between(0, 1, B), .m_wide_N = real(N), .v_wide_N = between(0, 1, N), .most_2B = between(1, 2, 2 * B), .beta1 = 0.9,
        .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1, .place = variant % 2 ? cut_rows : cut_columns };
    if (variant == 2) a->adam8bit_store.param_N = real(N);
    start.skip = variant == 3;
    return variant < 4;
}

/* Symmetric, by x xT / A; the last of deficient rank. The largest values are apart. */
static inline Tensor symmetric(int64_t A, int64_t rank)
{
    Tensor x = real(A, A), y = real(A, A);
    for (int64_t i = 0; i < A; i++)
        for (int64_t j = 0; j < A; j++) {
            double sum = 0;
            for (int64_t k = 0; k < rank; k++) sum += *element(x, i * A + k) * *element(x, j * A + k) / (1 + (double)k);
            *element(y, i * A + j) = sum;
        }
    round_to(drawn_as, y.data, A * A);
    return y;
}

static const int64_t square_side[] = { 1, 2, 13, 70 };

static inline bool make_symmetric_eigen(Arguments *a, int variant)
{
    int64_t A = square_side[variant % 4];
    if (variant < 4) a->symmetric_eigen = (SymmetricEigen){ .vector_AA = sums(A, A), .value_A = sums(A), .work_WA = sums(A + 5, A),
        .x_AA = symmetric(A, A), .noise = 1e-6 };
    return variant < 4;
}

/* Any orthonormal rows serve as vectors. */
static inline bool make_spectral_power(Arguments *a, int variant)
{
    int64_t A = square_side[variant % 4];
    a->spectral_power = (SpectralPower){ .y_AA = real(A, A), .work_AA = sums(A, A), .vector_AA = sums(A, A), .value_A = sums(A),
        .exponent = -0.25, .epsilon = 1e-3 };
    for (int64_t i = 0; i < A; i++) {
        *element(a->spectral_power.value_A, i) = (double)(A - i) - 1.1;
        for (int64_t j = 0; j < A; j++) *element(a->spectral_power.vector_AA, i * A + j) = draw(-1, 1);
    }
    return variant < 4;
}

static inline bool make_orthonormal_rows(Arguments *a, int variant)
{
    int64_t A = square_side[variant % 4];
    a->orthonormal_rows = (OrthonormalRows){ .y_AA = real(A, A), .work_WA = sums(2 * A + 2, A), .x_AA = real(A, A), .noise = 1e-6 };
    return variant < 4;
}

static inline bool make_row_order(Arguments *a, int variant)
{
    a->row_order = (RowOrder){ .order_A = ints(33, 0, 9), .key_A = sums(33), .x_AB = real(33, 20), .y_AB = real(33, 20) };
    return variant < 1;
}

/* Rows, columns, both, by any numbers of them */
static inline bool make_permute(Arguments *a, int variant)
{
    a->permute = (Permute){ .y_AB = real(13, 20), .x_AB = real(13, 20) };
    if (variant != 1) a->permute.row_A = ints(13, 0, 13);
    if (variant != 0) a->permute.column_B = ints(20, 0, 20);
    return variant < 3;
}

static inline bool make_graft(Arguments *a, int variant)
{
    a->graft = (Graft){ .y_N = real(flat(variant)), .from_1 = sums(1), .to_1 = between(3, 4, 1) };
    *element(a->graft.from_1, 0) = 7;
    return variant < 1;
}

static inline bool make_gradient_mean(Arguments *a, int variant)
{
    a->gradient_mean = (GradientMean){ .y_N = real(flat(variant)), .g_N = real(flat(variant)) };
    start.skip = variant == 1;
    return variant < 2;
}

static inline bool make_soap_direction(Arguments *a, int variant)
{
    a->soap_direction = (SoapDirection){ .y_N = real(flat(variant)), .v_N = between(0, 1, flat(variant)), .x_N = real(flat(variant)), .beta1 = 0.9,
        .beta2 = 0.95, .epsilon = 1e-8 };
    start.skip = variant == 1;
    return variant < 2;
}

static inline bool make_round_sums(Arguments *a, int variant)
{
    a->round_sums = (RoundSums){ .y_N = real(333), .x_N = sums(333) };
    for (int i = 0; i < 333; i++) *element(a->round_sums.x_N, i) = draw(0, 1e6);
    return variant < 1;
}
#endif
