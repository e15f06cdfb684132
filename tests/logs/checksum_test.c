/* Checksums against their published check values, and numbers as the log files write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#undef fail                                /* ours is in base/status.h */
#include "logs/event_file.h"

/* The check values of the catalogues are of the text 123456789; 32 zeros, and 32 of 0xff: RFC 3720, B.4. */
static void test_checksums(void **state)
{
    uint8_t bytes[32];
    (void)state;
    assert_int_equal(crc32_castagnoli("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32_castagnoli(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32_castagnoli(bytes, 32), 0x62a8ab43);
    uint32_t c = crc32_castagnoli(bytes, 32);
    assert_int_equal(crc32_masked(bytes, 32), (uint32_t)((c >> 15 | c << 17) + 0xa282ead8u));
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
        cmocka_unit_test(test_checksums), cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
