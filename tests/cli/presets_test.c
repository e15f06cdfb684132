/* Presets of --model: the numbers of parameters that Hugging Face transformers counts for their shapes, which are the
 * published ones (tests/oracles/parameter_counts.py made tests/golden/presets). */
#include "base/testing.h"
#include <stdio.h>
#include <string.h>
#include "cli/setup/setup.h"
#include "conf/conf.h"
#include "model/params.h"

static int64_t parameters_of(const char *name)
{
    char preset[64];
    char *words[] = { "--model", preset, "--dry-run" };
    Options o;
    snprintf(preset, sizeof preset, "%s", name);
    if (options_parse(&o, FOR_TRAIN, 3, words) != OK) fail_msg("%s: %s", name, fail_text());
    if (setup_values(&o) != OK || setup_validate(&o) != OK) fail_msg("%s: %s", name, fail_text());
    ModelConfig model = setup_model(&o);
    options_close(&o);
    return model_parameters(&model);
}

static void test_counts(void **state)
{
    (void)state;
    char name[64];
    long long count;
    int presets = 0;
    FILE *file = fopen(TESTS_DIR "/golden/presets/parameters.txt", "r");
    assert_non_null(file);
    for (; fscanf(file, "%63s %lld", name, &count) == 2; presets++) {
        int64_t ours = parameters_of(name);
        printf("%-16s %15lld\n", name, (long long)ours);
        if (ours != count) fail_msg("%s has %lld parameters, not %lld", name, (long long)ours, count);
    }
    assert_true(presets > 70);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
