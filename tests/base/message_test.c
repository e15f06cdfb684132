/* Texts of fixed size: lists, shapes, and what happens where one is full. */
#include "base/testing.h"

#include "base/message.h"

static void lists(void **state)
{
    (void)state;
    char text[64] = "";
    static const int numbers[] = { 1, 2, 4 };
    for (int count = 1; count <= 3; count++) {
        *text = 0;
        for (int i = 0; i < count; i++) assert_true(message_choice(text, sizeof text, i, count, "%d", numbers[i]));
        assert_string_equal(text, count == 1 ? "1" : count == 2 ? "1 or 2" : "1, 2 or 4");
    }
    *text = 0;
    for (int i = 0; i < 3; i++) assert_true(message_item(text, sizeof text, "; ", "n%d", numbers[i]));
    assert_true(message_add(text, sizeof text, " and %s", "more"));
    assert_string_equal(text, "n1; n2; n4 and more");
    *text = 0;
    assert_string_equal(message_shape(text, sizeof text, (int64_t[]){ 3, 1099511627776 }, 2), "[3, 1099511627776]");
    strcpy(text, "of shape ");
    assert_string_equal(message_shape(text, sizeof text, NULL, 0), "of shape []");
}

/* Every size up to that of the whole text: what is behind the array stays as it is. */
static void a_text_is_cut(void **state)
{
    (void)state;
    static const char whole[] = "one, two, three";
    for (size_t size = 1; size <= sizeof whole; size++) {
        char text[sizeof whole + 1];
        memset(text, 'x', sizeof text);
        *text = 0;
        bool all = message_add(text, size, "%s, ", "one");
        all &= message_add(text, size, "two, %s", "three");
        assert_int_equal(all, size == sizeof whole);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, whole, size - 1);
        assert_int_equal(text[size], 'x');
    }
}

static void an_item_is_left_out(void **state)
{
    (void)state;
    static const char *const items[] = { "one", "two", "three" };
    for (size_t size = 1; size <= 17; size++) {
        char text[17];
        int  fit = 0;
        memset(text, 'x', sizeof text);
        *text = 0;
        while (fit < 3 && message_item(text, size, ", ", "%s", items[fit])) fit++;
        assert_string_equal(text, size > 15 ? "one, two, three" : size > 8 ? "one, two" : size > 3 ? "one" : "");
        assert_int_equal(fit, size > 15 ? 3 : size > 8 ? 2 : size > 3 ? 1 : 0);
        if (size < 17) assert_int_equal(text[size], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(a_text_is_cut),
        cmocka_unit_test(an_item_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
