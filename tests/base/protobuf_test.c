/* Protocol Buffers against bytes that others wrote: those of protobuf.dev's page on encoding, and numbers that
 * Python's struct packed. */
#include "base/testing.h"

#include <stdlib.h>
#include "base/protobuf.h"

static void assert_bytes(const Buffer *b, const char *bytes, int64_t count)
{
    assert_int_equal(b->bytes, count);
    assert_memory_equal(b->text, bytes, (size_t)count);
}

static void writes_known_bytes(void **state)
{
    (void)state;
    Buffer b = { 0 };
    protobuf_integer(&b, 1, 150);
    assert_bytes(&b, "\x08\x96\x01", 3);                                        /* message Test1 { int32 a = 1; } */
    b.bytes = 0;
    protobuf_text(&b, 2, "testing");
    assert_bytes(&b, "\x12\x07testing", 9);                                     /* Test2 { string b = 2; } */
    b.bytes = 0;
    int64_t inner = protobuf_begin(&b);
    protobuf_integer(&b, 1, 150);
    protobuf_end(&b, 3, inner);
    assert_bytes(&b, "\x1a\x03\x08\x96\x01", 5);                                /* Test3 { Test1 c = 3; } */
    b.bytes = 0;
    protobuf_integer(&b, 1, -2);
    assert_bytes(&b, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    b.bytes = 0;
    protobuf_double(&b, 1, 1.5);                                                /* struct.pack("<d", 1.5) */
    protobuf_float(&b, 2, -0.1f);                                               /* struct.pack("<f", -0.1) */
    protobuf_varint(&b, UINT64_MAX);
    assert_bytes(&b, "\x09\0\0\0\0\0\0\xf8\x3f\x15\xcd\xcc\xcc\xbd\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 24);
    buffer_free(&b);
}

/* A message of 300 bytes in one in one: lengths of two bytes each */
static void nests(void **state)
{
    (void)state;
    Buffer b = { 0 };
    ProtobufField f, g;
    int64_t outer = protobuf_begin(&b), inner = protobuf_begin(&b);
    for (int i = 0; i < 300; i++) protobuf_varint(&b, 7);
    protobuf_end(&b, 15, inner);
    protobuf_end(&b, 16, outer);
    ByteReader r = reader_open(b.text, (size_t)b.bytes, "x", NULL);
    assert_int_equal(protobuf_next(&f, &r), OK);
    assert_int_equal(f.field, 16);
    assert_int_equal(reader_left(&r), 0);
    assert_int_equal(protobuf_next(&g, &f.bytes), OK);
    assert_int_equal(g.field, 15);
    assert_int_equal(reader_left(&g.bytes), 300);
    assert_int_equal(reader_offset(&g.bytes), 2 + 2 + 1 + 2);
    buffer_free(&b);
}

static const char message[] = "\x08\x96\x01" "\x12\x07testing" "\x1d\xcd\xcc\xcc\xbd" "\x21\0\0\0\0\0\0\xf8\x3f";

static Status all_read(ProtobufField field[4], ByteReader r, int *count)
{
    for (*count = 0; reader_left(&r); ++*count) TRY(protobuf_next(&field[*count], &r));
    return OK;
}

static void every_truncated_length(void **state)
{
    (void)state;
    ProtobufField f[4];
    int count;
    for (size_t bytes = 0; bytes < sizeof message; bytes++) {
        uint8_t *cut = malloc(bytes + !bytes);
        memcpy(cut, message, bytes);
        Status status = all_read(f, reader_open(cut, bytes, "x.model", NULL), &count);
        bool   whole  = bytes == 0 || bytes == 3 || bytes == 12 || bytes == 17 || bytes == 26;
        assert_int_equal(status, whole ? OK : BAD_FILE);
        assert_int_equal(count, bytes < 3 ? 0 : bytes < 12 ? 1 : bytes < 17 ? 2 : bytes < 26 ? 3 : 4);
        if (!whole) assert_contains(fail_text(), "x.model: byte ");
        free(cut);
    }
    assert_int_equal(all_read(f, reader_open(message, sizeof message - 1, "x", NULL), &count), OK);
    assert_true(f[0].kind == PROTOBUF_VARINT && f[0].number == 150);
    assert_true(f[1].kind == PROTOBUF_BYTES && reader_left(&f[1].bytes) == 7);
    assert_memory_equal(f[1].bytes.at, "testing", 7);
    assert_true(f[2].kind == PROTOBUF_32 && protobuf_float_of(&f[2]) == -0.1f);
    assert_true(f[3].kind == PROTOBUF_64 && f[3].number == 0x3ff8000000000000);
}

/* Every byte changed in every way: what is read stays inside. */
static void every_changed_byte(void **state)
{
    (void)state;
    char data[sizeof message];
    for (size_t place = 0; place + 1 < sizeof message; place++)
        for (int change = 1; change < 256; change++) {
            ProtobufField f;
            memcpy(data, message, sizeof message);
            data[place] = (char)(data[place] ^ change);
            ByteReader r = reader_open(data, sizeof message - 1, "x", NULL);
            while (protobuf_has_next(&f, &r)) assert_true(f.bytes.at <= f.bytes.end && f.bytes.end <= r.end);
        }
}

static void what_is_no_field(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t count; const char *why; } rows[] = {
        { "\x00\x01", 2, "byte 1: a field without a valid number" },
        { "\x80\x80\x80\x80\x10\x01", 6, "byte 5: a field without a valid number" },        /* 2^29 */
        { "\x0b", 1, "byte 1: an unknown wire type" },                                      /* a group */
        { "\x0f", 1, "byte 1: an unknown wire type" },
        { "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "byte 11: a number of more than 64 bits" },
        { "\x08\x80", 2, "byte 2: a number has no end" },
        { "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11,
          "byte 11: a field: 18446744073709551615 bytes are expected and 0 are left" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ProtobufField f;
        ByteReader r = reader_open(rows[i].bytes, rows[i].count, "x", NULL);
        assert_int_equal(protobuf_next(&f, &r), BAD_FILE);
        assert_contains(fail_text(), rows[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_known_bytes),
        cmocka_unit_test(nests),
        cmocka_unit_test(every_truncated_length),
        cmocka_unit_test(every_changed_byte),
        cmocka_unit_test(what_is_no_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
