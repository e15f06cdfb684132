/* A reader of bytes: every number, range and length, and the same file cut at every byte. */
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/reader.h"

static const uint8_t file[] = { 0x0c, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'a', 'b', 0x34, 0x12 };

/* All of the file above; *value: the signed number in it */
static Status file_read(int64_t *value, ByteReader *r)
{
    int32_t        version;
    uint64_t       end;
    const uint8_t *text;
    TRY(reader_int32(&version, r, 11, 12, "the version"));
    TRY(reader_integer(value, r, 8, -5, 5, "the number"));
    TRY(reader_bytes(&text, r, 2, "the text"));
    assert_memory_equal(text, "ab", 2);
    TRY(reader_number(&end, r, 2, "the end"));
    assert_int_equal(end, 0x1234);
    return OK;
}

static void whole_file(void **state)
{
    (void)state;
    int64_t value;
    ByteReader  r = reader_open(file, sizeof file, "x.bin", NULL);
    assert_int_equal(file_read(&value, &r), OK);
    assert_int_equal(value, -2);
    assert_int_equal(reader_left(&r), 0);
    assert_int_equal(reader_offset(&r), sizeof file);
}

/* Each copy is of exactly its length, so that AddressSanitizer sees a read beyond it. */
static void every_truncated_length(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < sizeof file; bytes++) {
        char    wanted[200];
        int64_t value;
        size_t  from = bytes < 4 ? 0 : bytes < 12 ? 4 : bytes < 14 ? 12 : 14;
        uint8_t *cut = malloc(bytes + !bytes);
        memcpy(cut, file, bytes);
        ByteReader r = reader_open(cut, bytes, "x.bin", "copy it again");
        assert_int_equal(file_read(&value, &r), BAD_FILE);
        snprintf(wanted, sizeof wanted, "x.bin: byte %zu: the %s: %d bytes are expected and %zu are left; copy it again",
                 from, from == 0 ? "version" : from == 4 ? "number" : from == 12 ? "text" : "end",
                 from == 0 ? 4 : from == 4 ? 8 : 2, bytes - from);
        assert_string_equal(fail_text(), wanted);
        assert_int_equal(reader_offset(&r), from);
        free(cut);
    }
}

static void ranges(void **state)
{
    (void)state;
    static const struct { int bytes; int64_t least, most, value; } rows[] = {
        { 1, INT8_MIN, INT8_MAX, -128 }, { 2, INT16_MIN, INT16_MAX, -2 }, { 4, INT32_MIN, INT32_MAX, INT32_MIN },
        { 8, INT64_MIN, INT64_MAX, INT64_MIN }, { 8, INT64_MIN, INT64_MAX, INT64_MAX }, { 3, 0, 1 << 22, 0x123456 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value;
        uint8_t bytes[8];
        for (int b = 0; b < 8; b++) bytes[b] = (uint8_t)((uint64_t)rows[i].value >> 8 * b);
        ByteReader r = reader_open(bytes, sizeof bytes, "x", NULL), again = r;
        assert_int_equal(reader_integer(&value, &r, rows[i].bytes, rows[i].least, rows[i].most, "it"), OK);
        assert_int_equal(value, rows[i].value);
        assert_int_equal(reader_offset(&r), rows[i].bytes);
        assert_int_equal(reader_integer(&value, &again, rows[i].bytes, 1, 0, "it"), BAD_FILE);
        assert_int_equal(reader_offset(&again), 0);
    }
    int32_t version;
    ByteReader  r = reader_open(file, sizeof file, "x.bin", NULL);
    assert_int_equal(reader_int32(&version, &r, 13, 14, "the version"), BAD_FILE);
    assert_string_equal(fail_text(), "x.bin: byte 0: the version is 12, which is not one of 13 to 14");
}

/* A length from a file may be anything: it is compared with what is left, never added to a place. */
static void huge_lengths(void **state)
{
    (void)state;
    const uint8_t *piece = NULL;
    ByteReader r = reader_open(file, sizeof file, "x", NULL);
    assert_int_equal(reader_bytes(&piece, &r, UINT64_MAX, "it"), BAD_FILE);
    assert_int_equal(reader_bytes(&piece, &r, (uint64_t)INT64_MAX + 1, "it"), BAD_FILE);
    assert_int_equal(reader_bytes(&piece, &r, sizeof file + 1, "it"), BAD_FILE);
    assert_null(piece);
    assert_int_equal(reader_bytes(&piece, &r, sizeof file, "it"), OK);
    assert_int_equal(reader_bytes(&piece, &r, 0, "it"), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file),
        cmocka_unit_test(every_truncated_length),
        cmocka_unit_test(ranges),
        cmocka_unit_test(huge_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
