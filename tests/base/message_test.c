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
    assert_string_equal(message_shape(text, sizeof text, (int64_t[]){ 3, 1099511627776 }, 2), "[3, 1099511627776]");
    assert_string_equal(message_shape(text, sizeof text, NULL, 0), "[]");
}

/* Every size up to that of the whole text: what is behind the array stays as it is. */
static void what_does_not_fit_is_cut(void **state)
{
    (void)state;
    static const char whole[] = "one, two, three";
    for (size_t size = 1; size <= sizeof whole; size++) {
        char text[sizeof whole + 1];
        memset(text, 'x', sizeof text);
        *text = 0;
        bool all = message_item(text, size, ", ", "one");
        all &= message_item(text, size, ", ", "two");
        all &= message_item(text, size, ", ", "three");
        assert_int_equal(all, size == sizeof whole);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, whole, size - 1);
        assert_int_equal(text[size], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(what_does_not_fit_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
