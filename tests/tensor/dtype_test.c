/* Conversions between floating-point types: against ml_dtypes' (tests/oracles/dtype_golden.py), and every
 * neighbouring pair of numbers of the small types by the definition of rounding. */
#include "base/testing.h"

#include <math.h>
#include <string.h>
#include "tensor/dtype.h"
#include "tensor/fp8.h"

static const Dtype small[] = { BF16, F16, F8_E4M3, F8_E5M2 };
enum { SMALL = sizeof small / sizeof *small };

static uint32_t encoded(Dtype dtype, double x)
{
    uint32_t bits = 0;
    dtype_convert(&bits, dtype, &x, F64, 1);
    return bits;
}

static double decoded(Dtype dtype, uint32_t bits)
{
    double x;
    dtype_convert(&x, F64, &bits, dtype, 1);
    return x;
}

static void bit_patterns(void **state)
{
    (void)state;
    static const struct { Dtype dtype; uint64_t hash; } golden[] = {
        { BF16, 0x5e93c8468f9404d5 },
        { F16, 0xfe87bb782adb2fc5 },
        { F8_E4M3, 0x4d4ded90c4f5d9b5 },
        { F8_E5M2, 0x61a099e723174195 },
    };
    for (int t = 0; t < SMALL; t++) {
        uint64_t hash = 0xcbf29ce484222325;
        assert_int_equal(golden[t].dtype, small[t]);
        for (uint32_t bits = 0; bits >> (8 * dtype_width(small[t])) == 0; bits++) {
            double   x = decoded(small[t], bits);
            uint64_t y;
            memcpy(&y, &x, 8);
            if (isnan(x)) y = 0x7ff8000000000000;
            for (int i = 0; i < 8; i++) hash = (hash ^ (y >> 8 * i & 255)) * 0x100000001b3;
        }
        if (hash != golden[t].hash) fail_msg("%s is decoded otherwise", dtype_name(small[t]));
    }
}

/* Directly and in blocks, from addresses that are not aligned: the same numbers and signs as one at a time. */
static void to_single(void **state)
{
    (void)state;
    static uint8_t from[2 * 65536 + 1];
    static float   to[65536];
    for (int t = 0; t < SMALL; t++) {
        int width = (int)dtype_width(small[t]), count = 1 << 8 * width;
        for (int bits = 0; bits < count; bits++) memcpy(from + 1 + width * bits, &bits, (size_t)width);
        dtype_convert(to, F32, from + 1, small[t], count);
        for (int bits = 0; bits < count; bits++) {
            double one = decoded(small[t], (uint32_t)bits);
            assert_int_equal(signbit(to[bits]) != 0, bits >> (8 * width - 1));
            assert_int_equal(signbit(one) != 0, bits >> (8 * width - 1));
            assert_true(isnan(one) ? isnan(to[bits]) : (double)to[bits] == one);
        }
    }
}

static void numbers(void **state)
{
    (void)state;
    static const struct { double x; uint32_t bits[SMALL]; } golden[] = {
        { 0x1p0, { 0x3f80, 0x3c00, 0x38, 0x3c } },
        { -0x1p0, { 0xbf80, 0xbc00, 0xb8, 0xbc } },
        { 0x1.999999999999ap-4, { 0x3dcd, 0x2e66, 0x1d, 0x2e } },
        { 0x1.921fb54442d18p1, { 0x4049, 0x4248, 0x45, 0x42 } },
        { 0x1.bfp8, { 0x43e0, 0x5efc, 0x7e, 0x5f } },
        { 0x1.cfp8, { 0x43e8, 0x5f3c, 0x7e, 0x5f } },
        { 0x1.d1p8, { 0x43e8, 0x5f44, 0x7f, 0x5f } },
        { -0x1.dp8, { 0xc3e8, 0xdf40, 0xfe, 0xdf } },
        { 0x1.ffcp15, { 0x4780, 0x7bff, 0x7f, 0x7c } },
        { 0x1.ffep15, { 0x4780, 0x7c00, 0x7f, 0x7c } },
        { 0x1.ffdffep15, { 0x4780, 0x7bff, 0x7f, 0x7c } },
        { 0x1.dp15, { 0x4768, 0x7b40, 0x7f, 0x7b } },
        { 0x1.efffp15, { 0x4778, 0x7bc0, 0x7f, 0x7c } },
        { 0x1.fp15, { 0x4778, 0x7bc0, 0x7f, 0x7c } },
        { 0x1p-24, { 0x3380, 0x1, 0x0, 0x0 } },
        { 0x1p-25, { 0x3300, 0x0, 0x0, 0x0 } },
        { 0x1.000002p-25, { 0x3300, 0x1, 0x0, 0x0 } },
        { 0x1.8p-24, { 0x33c0, 0x2, 0x0, 0x0 } },
        { 0x1p-10, { 0x3a80, 0x1400, 0x0, 0x14 } },
        { 0x1.8p-10, { 0x3ac0, 0x1600, 0x1, 0x16 } },
        { 0x1.8p-9, { 0x3b40, 0x1a00, 0x2, 0x1a } },
        { 0x1p-17, { 0x3700, 0x80, 0x0, 0x0 } },
        { 0x1.8p-16, { 0x37c0, 0x180, 0x0, 0x2 } },
        { 0x1p-133, { 0x1, 0x0, 0x0, 0x0 } },
        { 0x1p-134, { 0x0, 0x0, 0x0, 0x0 } },
        { 0x1.8p-133, { 0x2, 0x0, 0x0, 0x0 } },
        { 0x1.fffp127, { 0x7f80, 0x7c00, 0x7f, 0x7c } },
        { INFINITY, { 0x7f80, 0x7c00, 0x7f, 0x7c } },
        { -INFINITY, { 0xff80, 0xfc00, 0xff, 0xfc } },
        { -0x0p0, { 0x8000, 0x8000, 0x80, 0x80 } },
        { 0x1p-140, { 0x0, 0x0, 0x0, 0x0 } },
    };
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        for (int t = 0; t < SMALL; t++)
            if (encoded(small[t], golden[i].x) != golden[i].bits[t])
                fail_msg("%a becomes 0x%x as %s, not 0x%x", golden[i].x, encoded(small[t], golden[i].x),
                         dtype_name(small[t]), golden[i].bits[t]);
}

/* Between two neighbours a and b the midpoint goes to the one with an even bit pattern, and what is a little
 * nearer to one of them goes to that one. F32 is rounded to BF16 by other code than F64. */
static void check_neighbours(Dtype dtype, uint32_t bits)
{
    double a = decoded(dtype, bits), b = decoded(dtype, bits + 1), middle = a + (b - a) / 2;
    if (!isfinite(a) || !isfinite(b)) return;
    const struct { double x; uint32_t bits; } want[] = {
        { a, bits }, { nextafter(middle, a), bits }, { middle, bits & 1 ? bits + 1 : bits },
        { nextafter(middle, b), bits + 1 }, { b, bits + 1 },
    };
    for (int i = 0; i < 5; i++)
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t with_sign = want[i].bits | sign << (8 * dtype_width(dtype) - 1);
            if (encoded(dtype, sign ? -want[i].x : want[i].x) != with_sign)
                fail_msg("%a is not rounded to the nearest %s", want[i].x, dtype_name(dtype));
        }
    float    single[3] = { nextafterf((float)middle, (float)a), (float)middle, nextafterf((float)middle, (float)b) };
    uint16_t half[3];
    if (dtype != BF16) return;
    dtype_convert(half, BF16, single, F32, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(half[i], want[i + 1].bits);
}

static void neighbours(void **state)
{
    (void)state;
    for (int t = 0; t < SMALL; t++)
        for (uint32_t bits = 0; bits + 1 < 1u << (8 * dtype_width(small[t]) - 1); bits++)
            check_neighbours(small[t], bits);
}

/* Types of all widths in both directions, at an odd address, more numbers than a block; the number after
 * the last one stays. */
static void many(void **state)
{
    (void)state;
    enum { N = 1000 };
    static uint8_t from[8 * N + 9], to[8 * N + 9], back[8 * N + 9];
    for (int a = F64; a <= F8_E5M2; a++)
        for (int b = F64; b <= F8_E5M2; b++) {
            Dtype narrow = dtype_width((Dtype)a) < dtype_width((Dtype)b) ? (Dtype)a : (Dtype)b;
            if ((a == BF16 && b == F16) || (a == F16 && b == BF16) || (a != b && narrow >= F8_E4M3 && (a >= BF16 && b >= BF16)))
                continue;                             /* neither holds all numbers of the other */
            memset(to, 0xa5, sizeof to);
            for (int i = 0; i < N; i++) {
                double x = ldexp(i % 7 - 3, i % 5 - 2);   /* every type holds it */
                dtype_convert(from + 1 + (size_t)i * dtype_width((Dtype)a), (Dtype)a, &x, F64, 1);
            }
            dtype_convert(to + 1, (Dtype)b, from + 1, (Dtype)a, N);
            assert_int_equal(to[1 + N * dtype_width((Dtype)b)], 0xa5);
            dtype_convert(back + 1, (Dtype)a, to + 1, (Dtype)b, N);
            assert_memory_equal(back + 1, from + 1, N * dtype_width((Dtype)a));
        }
}

static void not_numbers(void **state)
{
    (void)state;
    for (int t = 0; t < SMALL; t++) {
        assert_true(isnan(decoded(small[t], encoded(small[t], NAN))));
        assert_true(signbit(decoded(small[t], encoded(small[t], -NAN))));
        assert_true(decoded(small[t], encoded(small[t], dtype_max(small[t]))) == dtype_max(small[t]));
    }
    float    single = NAN;
    uint16_t half;
    dtype_convert(&half, BF16, &single, F32, 1);
    assert_true(isnan(decoded(BF16, half)));
}

static void misuse(void *context)
{
    (void)context;
    int32_t i = 1;
    float   x;
    dtype_convert(&x, F32, &i, I32, 1);
}

static void integers(void **state)
{
    (void)state;
    Ended run = run_in_child(misuse, NULL);
    assert_int_equal(run.exit_code, 3);
    assert_contains(run.text, "I32 cannot be converted to F32");
}

/* Saturated encoders, of floats around every number of 16 bits: as dtype_convert, but for what is too large. */
static void saturated(void **state)
{
    (void)state;
    static const uint32_t lower[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
    for (uint32_t upper = 0; upper < 65536; upper++)
        for (size_t l = 0; l < sizeof lower / sizeof *lower; l++) {
            float   x = half_float(upper << 16 | lower[l]);
            double  as[2];
            uint8_t mine[] = { e4m3_encode(x), e5m2_encode(x) };
            for (int t = 0; t < 2; t++) {
                Dtype type = t ? F8_E5M2 : F8_E4M3;
                double largest = dtype_max(type), one = (double)x;
                as[t] = one > largest ? largest : one < -largest ? -largest : one;
                if (encoded(type, as[t]) != mine[t])
                    fail_msg("%s of %a is %02x, not %02x", dtype_name(type), one, mine[t], encoded(type, as[t]));
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bit_patterns), cmocka_unit_test(to_single), cmocka_unit_test(saturated), cmocka_unit_test(numbers), cmocka_unit_test(neighbours),
        cmocka_unit_test(many), cmocka_unit_test(not_numbers), cmocka_unit_test(integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
