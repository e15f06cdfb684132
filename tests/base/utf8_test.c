/* UTF-8: every code point, and how many sequences of bytes are one, by which no others are. */
#include "base/testing.h"

#include "base/utf8.h"

static void every_code_point(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        uint8_t  text[4];
        uint32_t read;
        if (point >= 0xD800 && point < 0xE000) continue;
        int bytes = utf8_encode(text, point);
        assert_int_equal(bytes, point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4);
        assert_int_equal(utf8_decode(&read, text, bytes), bytes);
        assert_int_equal(read, point);
        for (int left = 1; left < bytes; left++) {
            assert_int_equal(utf8_decode(&read, text, left), 1);
            assert_int_equal(read, UTF8_BROKEN);
        }
    }
}

/* How many of the sequences whose bytes are in `byte` are one whole character. */
static int64_t characters(const uint8_t *byte[4], const int count[4], int length)
{
    int64_t  found = 0;
    uint32_t point;
    uint8_t  text[4];
    int      at[4] = { 0 };
    for (;;) {
        for (int i = 0; i < length; i++) text[i] = byte[i][at[i]];
        found += utf8_decode(&point, text, length) == length && point != UTF8_BROKEN;
        int i = length - 1;
        while (i >= 0 && ++at[i] == count[i]) at[i--] = 0;
        if (i < 0) return found;
    }
}

static void no_other_sequences(void **state)
{
    (void)state;
    uint8_t all[256];
    static const uint8_t edges[] = { 0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff };      /* two of them continue a character */
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    const uint8_t *byte[4] = { all, all, all, edges };
    const int      count[4] = { 256, 256, 256, sizeof edges };
    assert_int_equal(characters(byte, count, 1), 0x80);
    assert_int_equal(characters(byte, count, 2), 0x800 - 0x80);
    assert_int_equal(characters(byte, count, 3), 0x10000 - 0x800 - 0x800);      /* without surrogates */
    byte[2] = edges;
    assert_int_equal(characters(byte, (int[]){ 256, 256, sizeof edges, sizeof edges }, 4),
                     (0x110000 - 0x10000) / 64 / 64 * 2 * 2);
}

/* At every place of a text of 48 bytes, before which the check goes 16 bytes at a time. */
static void broken_bytes_are_found(void **state)
{
    (void)state;
    static const struct { const char *plain; int64_t bytes; } texts[] = {
        { "0123456789abcdef0123456789abcdef0123456789abcdef", 48 },
        { "\xc3\xa9\xc3\xa8\xd0\x96 \xc3\xa9\xc3\xa8\xd0\x96 \xc3\xa9\xc3\xa8\xd0\x96 \xc3\xa9\xc3\xa8\xd0\x96 ", 28 },
        { "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd", 24 },
    };
    static const char bad[] = { (char)0xff, 0, (char)0xc0, (char)0xf5 };
    for (int t = 0; t < 3; t++) {
        char text[64];
        assert_int_equal(utf8_broken(texts[t].plain, texts[t].bytes), -1);
        for (int64_t at = 0; at < texts[t].bytes; at++) {
            memcpy(text, texts[t].plain, (size_t)texts[t].bytes);
            int64_t begin = at;
            while (begin > 0 && ((unsigned char)text[begin] & 0xC0) == 0x80) begin--;
            text[at] = bad[at % 4];
            assert_int_equal(utf8_broken(text, texts[t].bytes), begin < at ? begin : at);
        }
    }
}

static void repair(void **state)
{
    (void)state;
    Buffer b = { 0 };
    assert_int_equal(utf8_repair(&b, "a\0\xc3\xa9\xe2\x82", 6), OK);
    assert_string_equal(buffer_string(&b), "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
    buffer_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(no_other_sequences),
        cmocka_unit_test(broken_bytes_are_found),
        cmocka_unit_test(repair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
