/* Checksums against their published check values, and the wire format of Protocol Buffers against the examples
 * of its description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "logs/checksum.h"
#include "logs/log_record.h"
#include "logs/protobuf.h"

/* The check values of the catalogues are of the text 123456789; 32 zeros, and 32 of 0xff: RFC 3720, B.4. */
static void test_checksums(void **state)
{
    uint8_t bytes[32];
    (void)state;
    assert_int_equal(crc32_zlib(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(crc32_zlib(crc32_zlib(0, "1234", 4), "56789", 5), 0xcbf43926);
    assert_int_equal(crc32_castagnoli(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32_castagnoli(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32_castagnoli(0, bytes, 32), 0x62a8ab43);
    uint32_t c = crc32_castagnoli(0, bytes, 32);
    assert_int_equal(crc32_masked(bytes, 32), (uint32_t)((c >> 15 | c << 17) + 0xa282ead8u));
}

/* The examples: 150 is 96 01; field 1 with 150 is 08 96 01; field 2 with "testing"; a message in field 3;
 * -2 takes ten bytes. */
static void test_wire_format(void **state)
{
    static const uint8_t wanted[] = { 0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g',
        0x1a, 0x03, 0x08, 0x96, 0x01, 0x20, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        0x2d, 0x00, 0x00, 0xc0, 0x3f, 0x31, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f };
    Bytes out = { 0 };
    ProtobufField f;
    size_t at = 0;
    (void)state;
    protobuf_integer(&out, 1, 150);
    protobuf_text(&out, 2, "testing");
    size_t begin = protobuf_begin(&out);
    protobuf_integer(&out, 1, 150);
    protobuf_end(&out, 3, begin);
    protobuf_integer(&out, 4, -2);
    protobuf_float(&out, 5, 1.5f);
    protobuf_double(&out, 6, 1.5);
    assert_int_equal(out.size, sizeof wanted);
    assert_memory_equal(out.data, wanted, sizeof wanted);
    for (int field = 1; field <= 6; field++) {
        assert_true(protobuf_next(&f, out.data, out.size, &at));
        assert_int_equal(f.field, field);
        if (field == 1) assert_int_equal(f.number, 150);
        if (field == 2) assert_memory_equal(f.data, "testing", 7);
        if (field == 3) assert_int_equal(f.size, 3);
        if (field == 4) assert_true((int64_t)f.number == -2);
        if (field == 5) assert_int_equal(f.number, 0x3fc00000);
    }
    assert_false(protobuf_next(&f, out.data, out.size, &at));
    assert_int_equal(at, out.size);
    bytes_free(&out);
}

/* Every beginning of a message, and every byte changed, is read without leaving it. */
static void test_damaged(void **state)
{
    uint8_t data[64];
    Bytes out = { 0 };
    (void)state;
    for (int i = 1; i < 5; i++) protobuf_text(&out, i, "text");
    protobuf_integer(&out, 5, INT64_MAX);
    for (size_t size = 0; size <= out.size; size++)
        for (int change = 0; change < 256; change++) {
            ProtobufField f;
            memcpy(data, out.data, size);
            if (size > 0) data[(size_t)change % size] ^= (uint8_t)change;
            for (size_t at = 0; protobuf_next(&f, data, size, &at);) {
                assert_true(at <= size);
                if (f.kind == 2) assert_true(f.data + f.size <= data + size);
            }
        }
    bytes_free(&out);
}

static void test_numbers(void **state)
{
    char out[40];
    (void)state;
    assert_string_equal(log_number(out, LOG_EXACT, 0.1, "null"), "0.10000000000000001");
    assert_string_equal(log_number(out, LOG_COUNT, 1e15, "null"), "1000000000000000");
    assert_string_equal(log_number(out, LOG_MICRO, 1.5, "null"), "1.500000");
    assert_string_equal(log_number(out, LOG_TENTH, 12.34, "null"), "12.3");
    assert_string_equal(log_number(out, LOG_SHORT, 1234567, "null"), "1.23457e+06");
    assert_string_equal(log_number(out, LOG_TRUE, 1, "null"), "true");
    assert_string_equal(log_number(out, LOG_COUNT, 0.0 / 0.0, "nan"), "nan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums), cmocka_unit_test(test_wire_format), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
