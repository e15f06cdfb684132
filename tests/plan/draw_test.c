#include "base/testing.h"

#include <stdlib.h>
#include <string.h>
#include "plan/draw.h"

static void test_draw(void **state)
{
    (void)state;
    Schedule all[2];
    const ScheduleShape shape = { SCHEDULE_ZB_H1, 2, 1, 3, .v_shaped = false };
    for (int i = 0; i < 2; i++) assert_int_equal(schedule_make(&all[i], &shape, i), OK);
    char *text = draw_schedule(all, 2), *svg = draw_schedule_svg(all, 2);
    assert_contains(text, "\n   0 01.aA2bBcC\n   1 .0a1bA2cBC\n");
    int cells = 0;
    for (const char *at = svg; (at = strstr(at, "stroke=\"white\"")); at++) cells++;
    assert_int_equal(cells, 2 * 3 * 3);
    assert_contains(svg, "</svg>\n");
    free(text);
    free(svg);
    for (int i = 0; i < 2; i++) schedule_free(&all[i]);
}

/* The drawing in schedule_order.c; with chunks a line of them below each stage */
static void test_draw_v(void **state)
{
    (void)state;
    Schedule all[3];
    const ScheduleShape shape = { SCHEDULE_ZB_V, 3, 2, 6, .v_shaped = true };
    for (int i = 0; i < 3; i++) assert_int_equal(schedule_make(&all[i], &shape, i), OK);
    char *text = draw_schedule(all, 3);
    assert_contains(text, "6 micro-batches, 2 chunks per stage");
    assert_string_equal(strchr(text, '\n') + 1,
        "   0 012340aA1bB2cC5aA3dDbB4eEcC5fFdDeEfF..\n"
        "     000001111111110001110011100111000000  \n"
        "   1 .012031aA2bB4aA3cC5bB4dDcC5eEdfeDfEFF.\n"
        "      000101111110001110001110011101000010 \n"
        "   2 ..001122aA3aA3bB4bB4cC5cC5dDdeeffDEFEF\n"
        "       010101110001110001110001110101001100\n");
    free(text);
    for (int i = 0; i < 3; i++) schedule_free(&all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_draw), cmocka_unit_test(test_draw_v) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
