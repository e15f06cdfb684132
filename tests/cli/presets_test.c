/* Presets of --model: the numbers of parameters that Hugging Face transformers counts for their shapes, which are the
 * published ones (tests/oracles/parameter_counts.py made tests/golden/presets). Configs as publishers have them are
 * understood, and are the presets of the same models (tests/oracles/hf_configs.py made tests/golden/hf/published.json). */
#include "base/testing.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/setup/foreign.h"
#include "cli/setup/setup.h"
#include "conf/conf.h"
#include "conf/rows.h"
#include "convert/family.h"
#include "model/params.h"

static int64_t parameters_of(const char *name)
{
    char preset[64];
    char *words[] = { "--model", preset, "--dry-run" };
    Options o;
    snprintf(preset, sizeof preset, "%s", name);
    if (setup_parse(&o, FOR_TRAIN, 3, words) != OK) fail_msg("%s: %s", name, fail_text());
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
    int count_of_presets = 0;
    FILE *file = fopen(TESTS_DIR "/golden/presets/parameters.txt", "r");
    assert_non_null(file);
    for (; fscanf(file, "%63s %lld", name, &count) == 2; count_of_presets++) {
        int64_t ours = parameters_of(name);
        printf("%-16s %15lld\n", name, (long long)ours);
        if (ours != count) fail_msg("%s has %lld parameters, not %lld", name, (long long)ours, count);
    }
    assert_true(count_of_presets > 70);
    fclose(file);
}

/* The published table: shape, layout and batch of each model; and what they have to fit. */
static void test_megatron_table(void **state)
{
    (void)state;
    char    row[256], name[32], word[64];
    int     models = 0;
    int64_t heads, hidden, layers, tp, pp, dp, ranks, micro, global;
    FILE   *file = fopen(TESTS_DIR "/golden/presets/megatron_table.txt", "r");
    assert_non_null(file);
    while (fgets(row, sizeof row, file)) {
        if (*row == '#') continue;
        assert_int_equal(sscanf(row, "%31s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
                                name, &heads, &hidden, &layers, &tp, &pp, &dp, &ranks, &micro, &global), 10);
        Options o;
        char   *words[] = { "--model", word, "--dry-run" };
        snprintf(word, sizeof word, "megatron-%s", name);
        if (setup_parse(&o, FOR_TRAIN, 3, words) != OK || setup_values(&o) != OK || setup_validate(&o) != OK)
            fail_msg("%s: %s", word, fail_text());
        bool same = o.heads == heads && o.hidden == hidden && o.layers == layers && o.tensor_parallel == tp && o.pipeline_parallel == pp &&
                    options_data_parallel(&o) == dp && o.ranks == ranks && o.micro_batch == micro && o.global_batch == global;
        if (!same) fail_msg("%s is not as published: %s", word, row);
        assert_int_equal(ranks, tp * pp * dp);
        assert_int_equal(tp, tp * pp < 8 ? tp * pp : 8);                    /* tensor parallelism within a node first */
        assert_int_equal(global % (micro * dp), 0);
        options_close(&o);
        models++;
    }
    fclose(file);
    assert_int_equal(models, 10);
}

/* ---- published configs ---- */

/* The options of an imported config, as a run has them that loads its weights; the caller closes them. */
static Status config_import(Options *o, const json_t *config, const char *name)
{
    Family  family;
    json_t *options = json_object();
    Status  status = family_read(&family, options, config, name);
    char   *text = json_dumps(options, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (status == OK) status = setup_model_options(o, text, name);
    if (status == OK) status = setup_model_canonical(o);
    json_decref(options);
    free(text);
    return status;
}

/* What the weights mean, and windows. A preset has the length that a model was trained with first, so that
 * positions are compared where they are learned. */
static bool is_compared(const Options *preset, OptionIndex i)
{
    if (i == OPTION_softmax_scale) return false;                        /* 0 is what follows from other options */
    if (i == OPTION_positions) return preset->position.value == CHOICE_position_learned_absolute;
    return option_taken(i, FOR_SHAPE) || i == OPTION_window_size || i == OPTION_window_skip;
}

static int compare_with_preset(const Options *o, const char *name, const char *preset)
{
    char    word[64], ours[1024], theirs[1024];
    char   *words[] = { "--model", word, "--dry-run" };
    Options p;
    int     differ = 0;
    snprintf(word, sizeof word, "%s", preset);
    if (setup_parse(&p, FOR_TRAIN, 3, words) != OK || setup_values(&p) != OK || setup_model_canonical(&p) != OK)
        fail_msg("%s: %s", preset, fail_text());
    for (OptionIndex i = 0; i < OPTIONS; i++) {
        if (!is_compared(&p, i)) continue;
        options_value_text(ours, sizeof ours, o, i);
        options_value_text(theirs, sizeof theirs, &p, i);
        if (strcmp(ours, theirs) && ++differ)
            print_error("%s: --%s is %s, in the preset %s %s\n", name, option_rows[i].name, ours, preset, theirs);
    }
    ModelConfig imported = setup_model(o), known = setup_model(&p);
    if (model_softmax_scale(&imported) != model_softmax_scale(&known) && ++differ)
        print_error("%s: another softmax scale than in the preset %s\n", name, preset);
    options_close(&p);
    return differ;
}

/* Faults of one model; every one is printed. */
static int look_at(const char *name, const json_t *model)
{
    Options     o;
    int         faults = 0;
    Status      status = config_import(&o, json_object_get(model, "config"), name);
    const char *refused = json_string_value(json_object_get(model, "refused"));
    const char *preset  = json_string_value(json_object_get(model, "preset"));
    if (refused) {
        if (status == OK || !strstr(fail_text(), refused)) faults++, print_error("%s is not refused\n", name);
        return faults;
    }
    if (status != OK) {
        print_error("%s\n", fail_text());
        return 1;
    }
    ModelConfig config = setup_model(&o);
    json_int_t  count = json_integer_value(json_object_get(model, "parameters"));
    if (model_parameters(&config) != count) {
        print_error("%s has %lld parameters, not %lld\n", name, (long long)model_parameters(&config), (long long)count);
        faults++;
    }
    if (preset) faults += compare_with_preset(&o, name, preset);
    options_close(&o);
    return faults;
}

static json_t *published_file(void)
{
    json_error_t error;
    json_t *root = json_load_file(TESTS_DIR "/golden/hf/published.json", 0, &error);
    if (!root) fail_msg("published.json: %s", error.text);
    return root;
}

static void test_published(void **state)
{
    (void)state;
    json_t     *root = published_file(), *models = json_object_get(root, "models"), *model;
    const char *name;
    int         faults = 0;
    json_object_foreach(models, name, model) faults += look_at(name, model);
    assert_int_equal(faults, 0);
    assert_true(json_object_size(models) > 70);
    json_decref(root);
}

/* ---- what a missing key means ---- */

static bool same_options(const Options *a, const Options *b)
{
    char x[1024], y[1024];
    for (OptionIndex i = 0; i < OPTIONS; i++) {
        options_value_text(x, sizeof x, a, i);
        options_value_text(y, sizeof y, b, i);
        if (strcmp(x, y)) return print_error("--%s is %s, and then %s\n", option_rows[i].name, x, y), false;
    }
    return true;
}

/* Without a key a config means what it means with transformers' default, or is refused since it is missing. */
static int lacks_each(const char *type, const json_t *config)
{
    Options     whole, part;
    json_t     *value;
    const char *key;
    int         faults = 0;
    if (config_import(&whole, config, type) != OK) fail_msg("%s", fail_text());
    json_object_foreach((json_t *)config, key, value) {
        json_t *less = json_copy((json_t *)config);
        json_object_del(less, key);
        Status status = config_import(&part, less, type);
        bool   same = status == OK ? same_options(&whole, &part) : strstr(fail_text(), "missing") != NULL;
        if (!same) faults++, print_error("%s without %s: %s\n", type, key, status == OK ? "another model" : fail_text());
        if (status == OK) options_close(&part);
        json_decref(less);
    }
    options_close(&whole);
    return faults;
}

static void test_defaults(void **state)
{
    (void)state;
    json_t     *root = published_file(), *defaults = json_object_get(root, "defaults"), *config;
    const char *type;
    int         faults = 0;
    json_object_foreach(defaults, type, config) faults += lacks_each(type, config);
    assert_int_equal(faults, 0);
    assert_int_equal(json_object_size(defaults), FAMILIES);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts), cmocka_unit_test(test_megatron_table), cmocka_unit_test(test_published),
                                        cmocka_unit_test(test_defaults) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
