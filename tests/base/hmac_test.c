/* HMAC-SHA256 against RFC 4231's test cases 1, 2, 3, 6 and 7, whose keys and texts are shorter and longer than a block. */
#include <stdio.h>
#include "base/hmac.h"
#include "base/testing.h"

static void expect_hmac(const char *key, size_t key_bytes, const char *text, size_t bytes, const char *expected)
{
    for (size_t cut = 0; cut <= bytes; cut += 7) {           /* wherever the two parts meet */
        uint8_t out[HMAC_BYTES];
        char    hex[2 * HMAC_BYTES + 1];
        hmac_sha256(out, key, key_bytes, text, cut, text + cut, bytes - cut);
        for (int i = 0; i < HMAC_BYTES; i++) sprintf(hex + 2 * i, "%02x", out[i]);
        assert_string_equal(hex, expected);
    }
}

static void test_rfc4231(void **state)
{
    char ones[20], aa[131], dd[50];
    memset(ones, 0x0b, sizeof ones);
    memset(aa, 0xaa, sizeof aa);
    memset(dd, 0xdd, sizeof dd);
    const char *larger_key = "Test Using Larger Than Block-Size Key - Hash Key First",
               *both = "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed "
                       "before being used by the HMAC algorithm.";
    (void)state;
    expect_hmac(ones, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect_hmac("Jefe", 4, "what do ya want for nothing?", 28, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    expect_hmac(aa, 20, dd, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    expect_hmac(aa, 131, larger_key, strlen(larger_key), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    expect_hmac(aa, 131, both, strlen(both), "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void test_equal(void **state)
{
    uint8_t a[HMAC_BYTES] = { 1 }, b[HMAC_BYTES] = { 1 };
    (void)state;
    assert_true(hmac_equal(a, b));
    for (int i = 0; i < HMAC_BYTES; i++) {
        b[i] ^= 0x80;
        assert_false(hmac_equal(a, b));
        b[i] ^= 0x80;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rfc4231), cmocka_unit_test(test_equal) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
