/* Arrays that grow: for every type of room, at its limits, and where there is no memory. */
#include "base/testing.h"

#include <stdlib.h>
#include "base/array.h"

static void items_stay(void **state)
{
    (void)state;
    struct { int64_t *item; int32_t count, room; } a = { 0 };
    int moves = 0;
    for (int i = 0; i < 100000; i++) {
        int32_t before = a.room;
        assert_int_equal(ARRAY_RESERVE(a.item, a.room, a.count + 1), OK);
        moves += a.room != before;
        assert_true(a.room > a.count);
        a.item[a.count++] = (int64_t)i << 32;
    }
    for (int i = 0; i < a.count; i++) assert_true(a.item[i] == (int64_t)i << 32);
    assert_in_range(moves, 5, 40);                              /* a constant factor each time */
    free(a.item);
}

static void any_integer_is_a_room(void **state)
{
    (void)state;
    char    *text[4] = { 0 };
    int      whole   = 0;
    uint32_t natural = 0;
    int64_t  wide    = 0;
    size_t   size    = 0;
    assert_int_equal(ARRAY_RESERVE(text[0], whole, 1000), OK);
    assert_int_equal(ARRAY_RESERVE(text[1], natural, 1000), OK);
    assert_int_equal(ARRAY_RESERVE(text[2], wide, 1000), OK);
    assert_int_equal(ARRAY_RESERVE(text[3], size, 1000), OK);
    assert_true(whole >= 1000 && natural >= 1000 && wide >= 1000 && size >= 1000);
    for (int i = 0; i < COUNT(text); i++) memset(text[i], i, 1000), free(text[i]);
}

/* An array of 2^31 items does not fit its count, one of 2^62 bytes not the machine, a negative count nothing. */
static void what_is_refused_changes_nothing(void **state)
{
    (void)state;
    uint8_t *item = NULL;
    struct { char name[48]; } *entry = NULL;
    int32_t  room = 0;
    int64_t  wide = 0, none = -1;
    assert_int_equal(ARRAY_RESERVE(item, room, (int64_t)INT32_MAX + 1), NO_MEMORY);
    assert_int_equal(ARRAY_RESERVE(item, room, none), NO_MEMORY);
    assert_int_equal(ARRAY_RESERVE(entry, wide, INT64_MAX / 4), NO_MEMORY);
    assert_string_equal(fail_text(), "no memory for 2305843009213693951 items of 48 bytes");
    assert_int_equal(ARRAY_RESERVE(item, room, 9), OK);
    memcpy(item, "unchanged", 9);
    assert_int_equal(ARRAY_RESERVE(item, room, none), NO_MEMORY);
    assert_memory_equal(item, "unchanged", 9);
    assert_true(room >= 9 && room < 100);
    free(item);
}

static void asks_too_much(void *context)
{
    int64_t *item = context;
    int64_t  room = 0;
    ARRAY_RESERVE_OR_STOP(item, room, INT64_MAX);
}

static void no_memory_stops(void **state)
{
    (void)state;
    Ended ended = run_in_child(asks_too_much, NULL);
    assert_int_equal(ended.exit_code, 3);
    assert_contains(ended.text, "no memory for 9223372036854775807 items of 8 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stay),
        cmocka_unit_test(any_integer_is_a_room),
        cmocka_unit_test(what_is_refused_changes_nothing),
        cmocka_unit_test(no_memory_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
