/* Bytes to ids and back: all 256 of them, and the end of a document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include "text/bytes.h"
#include <cmocka.h>              /* after ours: it has a macro named fail */

static void every_byte_comes_back(void **state)
{
    (void)state;
    Tokenizer t;
    char    text[256];
    int32_t ids[256];
    assert_int_equal(tokenizer_open(&t, "bytes"), OK);
    for (int i = 0; i < 256; i++) text[i] = (char)i;
    assert_int_equal(t.encode(&t, ids, text, 256), 256);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(ids[i], i);
        TextPiece piece = t.decode(&t, ids[i]);
        assert_int_equal(piece.bytes, 1);
        assert_int_equal(piece.text[0], text[i]);
    }
    assert_int_equal(t.vocabulary, 257);
    assert_int_equal(t.eod, 256);
    assert_int_equal(t.decode(&t, t.eod).bytes, 0);
    assert_int_equal(t.encode(&t, ids, "", 0), 0);
    tokenizer_close(&t);
}

static void strangers_are_refused(void **state)
{
    (void)state;
    Tokenizer t;
    assert_int_equal(tokenizer_open(&t, "vocab.json"), BAD_OPTION);
    assert_non_null(strstr(fail_text(), "--tokenizer vocab.json"));
    assert_int_equal(tokenizer_check(&bytes_tokenizer, (int32_t[]){ 0, 256 }, 2, "f"), OK);
    assert_int_equal(tokenizer_check(&bytes_tokenizer, (int32_t[]){ 0, 257 }, 2, "f"), BAD_FILE);
    assert_non_null(strstr(fail_text(), "f: id 257 at position 1"));
    assert_int_equal(tokenizer_check(&bytes_tokenizer, (int32_t[]){ -1 }, 1, "f"), BAD_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(strangers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
