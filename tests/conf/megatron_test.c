/* Every argument of Megatron-LM, with as many values as it takes there, is taken, converted, ignored with a reason, or
 * refused with a reason and a cure. docs/howto/from-megatron-lm.md promises it. */
#include "compat/dialects.h"
#include "line.h"
#include "base/log.h"

enum { TAKEN, IGNORED_ARGUMENT, REFUSED, KINDS };

/* Names that take a value here and none there. */
static bool other_arity(const char *name)
{
    static const char *const names[] = { "profile" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* Lists there of which one value is taken here. */
static bool one_value_here(const char *name)
{
    int option = option_find(name, FOR_TRAIN);
    return option >= 0 && option_rows[option].kind != KIND_LIST;
}

/* A reason alone is no help: a refusal says what to do, gives a range or the words that are known. */
static bool has_cure(const char *message)
{
    static const char *const cures[] = { "; ", "here it is", "has no effect without" };
    for (size_t i = 0; i < sizeof cures / sizeof cures[0]; i++)
        if (strstr(message, cures[i])) return true;
    return false;
}

static int judge(const char *name, const char *values, const char *sample)
{
    Options o;
    char option[160], value[64];
    char *words[8] = { option }, three[] = "3", layers[] = "--num-layers";
    int count = 1, several = strchr("+*", values[0]) ? one_value_here(name) ? 1 : 2 : values[0] - '0';
    snprintf(option, sizeof option, "--%s", name);
    snprintf(value, sizeof value, "%s", sample);
    for (int i = 0; i < several; i++) words[count++] = value;
    words[count++] = layers, words[count++] = three;
    bool ours = option_find(name, FOR_TRAIN) >= 0;
    const Dialect *row = dialect_find(dialects_understood(FOR_TRAIN), name, several ? sample : NULL);
    Status status = setup_parse(&o, FOR_TRAIN, count, words);
    if (status == OK) assert_int_equal(o.layers, 3);            /* the words after it are read as what they are */
    options_close(&o);
    if (status == OK) return ours || row->option >= 0 ? TAKEN : IGNORED_ARGUMENT;
    const char *why = fail_text();
    bool arity = strstr(why, "needs a value") || strstr(why, "takes no value") || strstr(why, "no positional argument") || strstr(why, "neither true nor false");
    bool unknown = strstr(why, "did you mean") || strstr(why, "its --help lists them");
    if (unknown || (arity && !other_arity(name)) || !has_cure(why)) {
        print_error("--%s %s: %s\n", name, sample, why);
        return -1;
    }
    return ours ? TAKEN : REFUSED;                     /* the sample is not in the range of an option of ours */
}

static void every_argument_has_an_answer(void **state)
{
    (void)state;
    char line[256], name[128], kind[32], values[8], sample[64];
    int names = 0, wrong = 0, count[KINDS] = { 0 };
    FILE *list = fopen(TESTS_DIR "/conf/megatron_arguments.txt", "r");
    assert_non_null(list);
    log_mute(true);
    while (fgets(line, sizeof line, list)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%127s %31s %7s %63s", name, kind, values, sample), 4);
        names++;
        int answer = judge(name, values, sample);
        if (answer < 0) wrong++;
        else count[answer]++;
    }
    log_mute(false);
    fclose(list);
    print_message("%d names: %d taken or converted, %d ignored, %d refused\n", names, count[TAKEN], count[IGNORED_ARGUMENT], count[REFUSED]);
    assert_int_equal(names, 878);
    assert_int_equal(wrong, 0);
}

static bool parses(const char *name, char *value)
{
    Options o;
    char option[160], *words[] = { option, value };
    snprintf(option, sizeof option, "--%s", name);
    Status status = setup_parse(&o, FOR_TRAIN, 2, words);
    options_close(&o);
    return status == OK;
}

/* A choice of which another value passes: one who writes out Megatron-LM's default asks for no more. */
static void defaults_pass_where_others_do(void **state)
{
    (void)state;
    char line[256], name[128], kind[32], values[8], sample[64], preset[128];
    int wrong = 0;
    FILE *list = fopen(TESTS_DIR "/conf/megatron_arguments.txt", "r");
    assert_non_null(list);
    log_mute(true);
    while (fgets(line, sizeof line, list)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%127s %31s %7s %63s %127s", name, kind, values, sample, preset), 5);
        if (strcmp(kind, "choice") != 0 || !strcmp(preset, "None")) continue;
        if (!parses(name, sample) || parses(name, preset)) continue;
        print_error("--%s %s: %s\n", name, preset, fail_text());
        wrong++;
    }
    log_mute(false);
    fclose(list);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_argument_has_an_answer), cmocka_unit_test(defaults_pass_where_others_do) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
