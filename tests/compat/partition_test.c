/* The layers of each pipeline stage by --pp-partition-method are those of DeepSpeed's own functions (tests/oracles/partitions.py), and the
 * options that are taken for them give the same stages. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/setup/setup.h"
#include "base/log.h"
#include "compat/megatron/megatron.h"
#include "conf/value.h"
#include "parallel/stage_split.h"
static const char *why_not(void) { return fail_text(); }
#include <cmocka.h>             /* last: its fail() is a macro */

enum { STAGES = 16 };

/* What jotun makes of the words that were taken for a script's. */
static void same_stages(const int64_t *wanted, const char *method, int layers, int stages, int half)
{
    char    number[2][24];
    int64_t made[STAGES] = { 0 };
    Options o;
    Import  m;
    snprintf(number[0], sizeof number[0], "%d", layers);
    snprintf(number[1], sizeof number[1], "%d", stages);
    char *text[] = { "--num-layers", number[0], "--pipeline-model-parallel-size", number[1], "--pp-partition-method", (char *)(uintptr_t)method,
                     half ? "--bf16" : "--lr=1" };
    const char *given[sizeof text / sizeof *text];
    memcpy(given, text, sizeof given);
    TextList words = { .text = given, .count = sizeof text / sizeof *text };
    assert_int_equal(setup_parse(&o, FOR_CONFIG_COMMAND, 0, NULL), OK);
    import_open(&m, &o);
    log_mute(true);
    assert_true(partition_take(&m, &m.copy, &words, "run.sh:1", text + 4));
    log_mute(false);
    assert_int_equal(m.refused, wanted[0] ? 0 : 1);
    StageSplit    split = { .embedding = m.copy.count_embedding, .loss = m.copy.count_loss, .layout = m.copy.pipeline_layout };
    ModelConfig   model = { .layers = layers, .hidden = 64, .vocabulary = 64, .heads = 4, .sequence = 64, .ffn = 256 };
    ScheduleShape shape = { .stages = stages, .chunks = 1, .micros = stages };
    if (wanted[0] && stage_split_layers(made, &split, &model, &shape) != OK) fail_msg("%s %d %d: %s", method, layers, stages, why_not());
    if (wanted[0]) assert_memory_equal(made, wanted, (size_t)stages * sizeof *made);
    import_close(&m);
    options_close(&o);
}

static void test_deepspeeds(void **state)
{
    (void)state;
    char line[512], method[64], why[256];
    int  lines = 0, layers, stages, half, at;
    FILE *in = fopen(TESTS_DIR "/golden/partitions.txt", "r");
    assert_non_null(in);
    for (; fgets(line, sizeof line, in); lines++) {
        int64_t made[STAGES], wanted[STAGES] = { 0 };
        assert_int_equal(sscanf(line, "%63s %d %d %d%n", method, &layers, &stages, &half, &at), 4);
        char *rest = line + at;
        for (int s = 0; s < stages; s++) wanted[s] = strtoll(rest, &rest, 10);
        assert_int_equal(partition_layers(made, why, sizeof why, method, layers, stages, half), wanted[0] > 0);
        if (wanted[0]) assert_memory_equal(made, wanted, (size_t)stages * sizeof *made);
        else           assert_non_null(strstr(why, "would have no layer"));
        same_stages(wanted, method, layers, stages, half);
    }
    fclose(in);
    assert_int_equal(lines, 128);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const methods[][2] = {
        { "parameters", "can count the parameters" }, { "profile", "it has uniform, parameters and type:REGEX" }, { "type:mamba", "no module of that model" },
        { "type:(trans)?former", "with | between them" }, { "type:", "no module" } };
    int64_t layers[2];
    char why[300];
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        bool all = !strcmp(methods[i][0], "type:");                     /* an empty expression matches every name, in Python too */
        assert_int_equal(partition_layers(layers, why, sizeof why, methods[i][0], 8, 2, false), all);
        if (!all) assert_non_null(strstr(why, methods[i][1]));
    }
    assert_false(partition_layers(layers, why, sizeof why, "uniform", 0, 2, false));
    assert_false(partition_layers(layers, why, sizeof why, "uniform", 100000, 2, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_deepspeeds), cmocka_unit_test(test_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
