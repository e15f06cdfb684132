#include "base/testing.h"

#include <stdlib.h>
#include "plan/draw.h"

static void test_draw(void **state)
{
    (void)state;
    Schedule all[2];
    for (int i = 0; i < 2; i++) assert_int_equal(schedule_make(&all[i], SCHEDULE_ZB_H1, 2, i, 1, 3), OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_draw) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
