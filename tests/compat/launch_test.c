/* What a launch script gives to its program: bash's own words, where they are written, and which of them depend on what this machine
 * answers; in both ways of shutting it in. */
#include "launch.h"

static const LaunchWay ways[] = { LAUNCH_NAMESPACES, LAUNCH_LANDLOCK };
static const char *const way_names[] = { "", "namespaces", "Landlock" };

/* Ways that this machine does not allow are left out, with a word; one has to be there. */
static bool allowed(LaunchWay way)
{
    static int known[3];
    LaunchRecord r;
    if (!known[way]) {
        known[way] = launch(&r, way, "python t.py --a 1\n", 0, NULL) == OK ? 1 : -1;
        if (known[way] < 0) print_message("%s: not tested, %s\n", way_names[way], fail_text());
        launch_close(&r);
    }
    return known[way] > 0;
}

#define EACH_WAY(way) for (size_t w_ = 0; w_ < 2; w_++) for (LaunchWay way = ways[w_], once_ = way; once_ && allowed(way); once_ = 0)

static void scripts_give_words(void **state)
{
    (void)state;
    static const struct { const char *script, *words; } row[] = {
        { "python t.py --a 1", "--a|1" },
        { "A=3\npython t.py --a $A --b ${A} --c \"$A x\" '$A'", "--a|3|--b|3|--c|3 x|$A" },
        { "P=${1:-none}; python t.py $P $2 \"$@\"", "one|two|one|two" },
    };
    static const char *const given[] = { "one", "two" };
    EACH_WAY(way)
        for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
            LaunchRecord r;
            assert_ok(launch(&r, way, row[i].script, 2, given));
            assert_string_equal(words_of(&r.call[r.calls - 1]), row[i].words);
            launch_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scripts_give_words) };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(test_folder());
    return status;
}
