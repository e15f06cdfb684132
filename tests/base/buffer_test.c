/* Buffers: bytes, formatted text, and the escapes of JSON and HTML, whose expected texts were written by Python's
 * json.dumps(..., ensure_ascii=False) and html.escape. */
#include "base/testing.h"

#include "base/buffer.h"
#include "base/json_text.h"

static void bytes_are_appended(void **state)
{
    (void)state;
    Buffer b = { 0 };
    for (int i = 0; i < 70000; i++) assert_int_equal(buffer_add(&b, &(char){ (char)(i % 251) }, 1), OK);
    assert_int_equal(b.bytes, 70000);
    for (int i = 0; i < 70000; i++) assert_int_equal((unsigned char)b.text[i], i % 251);
    assert_int_equal(buffer_add(&b, NULL, 0), OK);
    assert_int_equal(buffer_reserve(&b, INT64_MAX), NO_MEMORY);
    assert_int_equal(b.bytes, 70000);
    buffer_free(&b);
    assert_null(b.text);
    assert_int_equal(buffer_add_number(&b, 0x0102030405060708, 8), OK);
    assert_int_equal(buffer_add_number(&b, 0xfffefd, 2), OK);
    assert_memory_equal(b.text, "\x08\x07\x06\x05\x04\x03\x02\x01\xfd\xfe", 10);
    buffer_free(&b);
}

/* Around the end of the memory that is there, whose last byte printf takes for its NUL. */
static void formats_of_any_length(void **state)
{
    (void)state;
    for (int before = 4000; before < 4200; before++) {
        Buffer b = { 0 };
        assert_int_equal(buffer_format(&b, "%*d", before, 7), OK);
        assert_int_equal(b.bytes, before);
        assert_int_equal(buffer_format(&b, "%s", ""), OK);
        assert_int_equal(buffer_format(&b, "-%d", 12), OK);
        assert_int_equal(b.bytes, before + 3);
        assert_string_equal(buffer_string(&b) + before - 1, "7-12");
        buffer_free(&b);
    }
}

static void json_strings(void **state)
{
    (void)state;
    static const char text[] = "q\"b\\s\n\t\r\x01\x1f\xc3\xa9/\x7f";
    Buffer b = { 0 };
    assert_int_equal(json_text_string(&b, json_text_of(text, sizeof text - 1)), OK);
    assert_string_equal(buffer_string(&b), "\"q\\\"b\\\\s\\n\\t\\r\\u0001\\u001f\xc3\xa9/\x7f\"");
    b.bytes = 0;
    assert_int_equal(json_text_member(&b, "a", json_text_of(NULL, 0)), OK);
    assert_int_equal(json_text_path(&b, "b", "x\xff"), OK);
    assert_string_equal(buffer_string(&b), ", \"b\": \"x\xef\xbf\xbd\"");
    buffer_free(&b);
}

static void html_text(void **state)
{
    (void)state;
    static const struct { const char *text, *html; } rows[] = {
        { "a<b>&\"c\" \xc3\xa9 \t\n", "a&lt;b&gt;&amp;&quot;c&quot; \xc3\xa9 \t\n" },
        { "'", "&#39;" },
        { "\xf0\x9f\x98\x80\xe2\x82\xac", "\xf0\x9f\x98\x80\xe2\x82\xac" },
        { "\xff<\xc3", "\xef\xbf\xbd&lt;\xef\xbf\xbd" },                                        /* no UTF-8 */
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },                             /* a surrogate */
        { "\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },     /* U+FFFE, U+FFFF */
        { "\xc2\x9b\xc2\xa0", "\xef\xbf\xbd\xc2\xa0" },                                         /* C1 */
        { "\x1b[\x7f\x01", "\xe2\x90\x9b[\xe2\x90\xa1\xe2\x90\x81" },                           /* C0: pictures */
    };
    Buffer b = { 0 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        b.bytes = 0;
        assert_int_equal(buffer_add_html(&b, rows[i].text, (int64_t)strlen(rows[i].text)), OK);
        assert_string_equal(buffer_string(&b), rows[i].html);
    }
    buffer_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_appended),
        cmocka_unit_test(formats_of_any_length),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(html_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
