/* How runs are called: by the last name of their path, or by the one before "checkpoint". */
#include "base/testing.h"

#include <stdlib.h>
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

static void apart(void **state)
{
    static const char *const path[] = { "x/a/metrics.jsonl", "x/b/metrics.jsonl", "y/b/metrics.jsonl",
                                        "metrics.jsonl", "runs/c/checkpoint", "/c", "d", "d" };
    static const char *const name[] = { "a/metrics.jsonl", "x/b/metrics.jsonl", "y/b/metrics.jsonl",
                                        "metrics.jsonl", "runs/c", "/c", "d", "d" };
    enum { PATHS = sizeof path / sizeof *path };
    char *found[PATHS];
    (void)state;
    run_names_apart(found, path, PATHS);
    for (int i = 0; i < PATHS; i++) {
        assert_string_equal(found[i], name[i]);
        free(found[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(names), cmocka_unit_test(apart) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
