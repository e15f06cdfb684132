/* Layers divided among virtual stages: evenly, by options of Megatron-LM, by a layout, and with the head weighed
 * in; what is refused. Under every division each unit is on one stage. */
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "parallel/stage.h"

static ModelConfig model_of(int64_t layers, int64_t vocabulary)
{
    return (ModelConfig){ .layers = layers, .hidden = 64, .ffn = 256, .heads = 4, .groups = 4, .head_dim = 16,
                          .vocabulary = vocabulary, .positions = 16, .sequence = 16 };
}

/* The layers of all virtual stages, in order: "E2 3 3 2L" */
static void expect(const ModelConfig *config, StageSplit split, ScheduleShape shape, const char *expected)
{
    int virtuals = shape.stages * shape.chunks, used = 0;
    int64_t unit = 0;
    char text[512] = "";
    for (int v = 0; v < virtuals; v++) {
        Stage stage;
        SchedulePlace at = schedule_place(&shape, v);
        if (stage_make(&stage, config, &split, &shape, at.stage) != OK) fail_msg("%s: %s", expected, fail_text());
        int64_t first = stage.first[at.chunk], count = stage.count[at.chunk];
        assert_int_equal(first, unit);                     /* no unit is left out, none is held twice */
        assert_int_equal(stage_is_first(&stage, at.chunk), v == 0);
        assert_int_equal(stage_is_last(&stage, at.chunk), v == virtuals - 1);
        assert_true(stage_holds(&stage, first) && count > 0);
        unit += count;
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s%d%s", v ? " " : "", v ? "" : "E",
                         (int)(count - (v == 0) - (v == virtuals - 1)), v == virtuals - 1 ? "L" : "");
    }
    assert_int_equal(unit, model_units(config));
    assert_string_equal(text, expected);
}

static void refuse(const ModelConfig *config, StageSplit split, ScheduleShape shape, const char *words)
{
    Stage stage;
    assert_int_equal(stage_make(&stage, config, &split, &shape, 0), BAD_OPTION);
    assert_contains(fail_text(), words);
}

static const ScheduleShape pp4 = { .stages = 4, .chunks = 1 }, pp2x2 = { .stages = 2, .chunks = 2 },
                           v2 = { .kind = SCHEDULE_ZB_V, .stages = 2, .chunks = 2, .v_shaped = true };

static void test_even(void **state)
{
    (void)state;
    ModelConfig twelve = model_of(12, 100);
    expect(&twelve, (StageSplit){ 0 }, pp4, "E3 3 3 3L");
    expect(&twelve, (StageSplit){ 0 }, pp2x2, "E3 3 3 3L");
    expect(&twelve, (StageSplit){ 0 }, v2, "E3 3 3 3L");
    ModelConfig three = model_of(3, 100);
    refuse(&three, (StageSplit){ 0 }, pp4, "3 blocks cannot fill 4 stages of 1 chunks");
}

/* A layer here has 64 (4 64 + 8 64) + 64 16 multiplications a token, 784 words of the vocabulary as many. Where layers
 * do not divide, a head of h layers takes the place of h in the last stage. */
static void test_weighed(void **state)
{
    (void)state;
    ModelConfig light = model_of(13, 10), one = model_of(13, 784), three = model_of(14, 3 * 784), heavy = model_of(13, 20000);
    expect(&light, (StageSplit){ 0 }, pp4, "E3 3 4 3L");
    expect(&one, (StageSplit){ 0 }, pp4, "E3 3 4 3L");
    expect(&three, (StageSplit){ 0 }, pp4, "E4 4 4 2L");
    expect(&heavy, (StageSplit){ 0 }, pp4, "E4 4 4 1L");
    ModelConfig seven = model_of(7, 10);
    expect(&seven, (StageSplit){ 0 }, v2, "E2 2 2 1L");
}

static void test_ends(void **state)
{
    (void)state;
    ModelConfig config = model_of(12, 100);
    expect(&config, (StageSplit){ .first = 2, .last = 2 }, pp4, "E2 4 4 2L");
    expect(&config, (StageSplit){ .last = 3 }, pp4, "E3 3 3 3L");
    expect(&config, (StageSplit){ .first = 4, .last = 8 }, pp2x2, "E2 4 2 4L");
    refuse(&config, (StageSplit){ .first = 2 }, pp4, "10 layers do not divide into 3 other stages; 9 or 12 would");
    refuse(&config, (StageSplit){ .first = 3, .last = 9 }, pp2x2, "3 layers do not divide into 2 chunks of a stage");
    refuse(&config, (StageSplit){ .first = 11 }, pp4, "1 of 12 layers are left for 3 other stages");
    refuse(&config, (StageSplit){ .first = 4, .last = 7 }, (ScheduleShape){ .stages = 2, .chunks = 1 },
           "1 of 12 layers are left for 0 other stages");
    refuse(&config, (StageSplit){ .first = 4 }, v2, "first and last virtual stage are on one stage");
}

static void test_counted(void **state)
{
    (void)state;
    ModelConfig ten = model_of(10, 100), eleven = model_of(11, 100), two = model_of(2, 100);
    expect(&ten, (StageSplit){ .embedding = true, .loss = true }, pp4, "E2 3 3 2L");
    expect(&eleven, (StageSplit){ .loss = true }, pp2x2, "E3 3 3 2L");
    expect(&eleven, (StageSplit){ .embedding = true }, v2, "E2 3 3 3L");
    expect(&two, (StageSplit){ .embedding = true, .loss = true }, pp4, "E0 1 1 0L");
    refuse(&ten, (StageSplit){ .embedding = true }, pp4, "11 layers do not divide into 4 virtual stages");
    refuse(&ten, (StageSplit){ .embedding = true, .first = 2 }, pp4, "leave two of the three out");
}

static void expect_layout(int64_t layers, const char *layout, ScheduleShape shape, const char *expected)
{
    ModelConfig config = model_of(layers, 100);
    assert_int_equal(stage_layout_virtuals(layout), shape.stages * shape.chunks);
    expect(&config, (StageSplit){ .layout = layout }, shape, expected);
}

static void refuse_layout(int64_t layers, const char *layout, const char *words)
{
    ModelConfig config = model_of(layers, 100);
    refuse(&config, (StageSplit){ .layout = layout }, pp4, words);
}

static void test_layouts(void **state)
{
    (void)state;
    expect_layout(6, "E|t*3|tt|tL", pp4, "E0 3 2 1L");
    expect_layout(6, "E,t | (tt|)*2, tL", pp4, "E1 2 2 1L");
    expect_layout(4, "E|(t*2|)*2L", pp4, "E0 2 2 0L");
    expect_layout(5, "Et|tt|t|tL", v2, "E1 2 1 1L");
    expect_layout(30, "E|(t|)*30L", (ScheduleShape){ .stages = 8, .chunks = 4 },
                  "E0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0L");
    refuse_layout(6, "E|t*3|tt|t", "begins with its only E and ends with its only L");
    refuse_layout(6, "t|t*3|tt|L", "begins with its only E");
    refuse_layout(6, "E|t*3|ttE|tL", "begins with its only E");
    refuse_layout(6, "E|t*3|ttL|tL", "begins with its only E");
    refuse_layout(6, "E|t*3|tt|tLt", "ends with its only L");
    refuse_layout(6, "E|t*3|tttL", "has 3 virtual stages, and stages x chunks are 4");
    refuse_layout(6, "E|t*3|tt|L", "has 5 layers (t), and --num-layers is 6");
    refuse_layout(6, "E|t*3||tttL", "virtual stage 2 is empty");
    refuse_layout(6, "E|t*3|ttt|mL", "m) 1 times, and --mtp-num-layers is 0");
    refuse_layout(6, "E|t*|ttt|L", "after * comes a number");
    refuse_layout(6, "E|t*0|ttt|L", "after * comes a number");
    refuse_layout(6, "E|(t|ttt|L", "a ( has no )");
    refuse_layout(6, "E|x|ttt|L", "\"x\" is none of");
    assert_int_equal(stage_layout_virtuals("E|t"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_even),   cmocka_unit_test(test_weighed), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_counted), cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
