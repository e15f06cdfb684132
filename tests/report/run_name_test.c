/* How runs are called: by the last name of their path, or by the one before "checkpoint". */
#include "base/testing.h"

#include "report/run_record.h"

static void names(void **state)
{
    static const struct { const char *path, *name; } row[] = {
        { "run", "run" }, { "runs/run/", "run" }, { "runs/run//", "run" }, { "/run", "run" },
        { "run/checkpoint", "run" }, { "runs/run/checkpoint/", "run" }, { "run//checkpoint", "run" },
        { "run/checkpoints", "checkpoints" }, { "checkpoint", "checkpoint" }, { "/checkpoint", "checkpoint" },
        { "./checkpoint", "checkpoint" }, { "../checkpoint", "checkpoint" },
        { "runs/../checkpoint", "checkpoint" }, { "..run/checkpoint", "..run" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t bytes;
        char   name[64] = "";
        const char *at = run_name_of(&bytes, row[i].path);
        assert_true(bytes < sizeof name);
        memcpy(name, at, bytes);
        assert_string_equal(name, row[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(names) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
