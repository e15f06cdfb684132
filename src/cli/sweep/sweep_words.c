/* The command line of `jotun sweep`: its own options, and those of jotun train, of which a number or a choice
 * may have a list of values with commas between. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli/setup/setup.h"
#include "cli/sweep/sweep.h"
#include "conf/rows.h"

/* ---- a list of values ---- */

static Status axis_sort(SweepAxis *axis)
{
    for (int i = 1; i < axis->count; i++)
        for (int j = i; j > 0 && axis->number[j] < axis->number[j - 1]; j--) {
            double number = axis->number[j];
            const char *value = axis->value[j];
            axis->number[j] = axis->number[j - 1], axis->value[j] = axis->value[j - 1];
            axis->number[j - 1] = number, axis->value[j - 1] = value;
        }
    for (int i = 0; i < axis->count; i++)
        for (int j = 0; j < i; j++)
            if (axis->number[i] == axis->number[j] || !strcmp(axis->value[i], axis->value[j]))
                return fail(BAD_OPTION, "--%s names %s twice; name each value once, and give --seed a list "
                            "for runs that differ only in the seed", axis->name, axis->value[i]);
    return OK;
}

/* list: "4,6,8" */
static Status axis_add(Sweep *sweep, const char *name, const char *list, int place)
{
    char text[256];
    if (sweep->axes == SWEEP_AXES_MAX)
        return fail(BAD_OPTION, "--%s %s: at most %d options have a list of values", name, list,
                    SWEEP_AXES_MAX);
    for (int i = 0; i < sweep->axes; i++)
        if (!strcmp(sweep->axis[i].name, name))
            return fail(BAD_OPTION, "--%s has two lists of values; give one", name);
    SweepAxis *axis = &sweep->axis[sweep->axes++];
    snprintf(axis->name, sizeof axis->name, "%s", name);
    axis->place = place;
    for (const char *at = list;; at++) {
        int letters = (int)strcspn(at, ",");
        char *end;
        if (axis->count == SWEEP_VALUES_MAX)
            return fail(BAD_OPTION, "--%s has more than %d values", name, SWEEP_VALUES_MAX);
        if (!letters || snprintf(text, sizeof text, "%.*s", letters, at) >= (int)sizeof text)
            return fail(BAD_OPTION, "--%s %s: a value of the list is empty or too long; give values with "
                        "single commas between", name, list);
        double number = strtod(text, &end);
        char *kept = strdup(text);
        CHECK(kept, "no memory for a value");
        axis->number[axis->count] = *end ? NAN : number;
        axis->value[axis->count++] = kept;
        at += letters;
        if (!*at) break;
    }
    return axis_sort(axis);
}

/* ---- whose word ---- */

static bool takes_list(OptionIndex option)
{
    OptionKind kind = option_rows[option].kind;
    return kind == KIND_INT || kind == KIND_REAL || kind == KIND_CHOICE || kind == KIND_FLAG;
}

/* Whether an option of jotun train was given, and as what */
typedef enum { NOT_GIVEN, GIVEN_VALUE, GIVEN_LIST } Given;

/* One option of jotun train from argv[i] on; i becomes the index of its last word. given: by option */
static Status train_word(Sweep *sweep, Given *given, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *equals = strchr(word, '=');
    char name[64] = "";
    if (!strncmp(word, "--", 2)) snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    int option = *name ? option_find(name, FOR_TRAIN) : -1;
    bool flag = option >= 0 && option_rows[option].kind == KIND_FLAG;
    const char *value = equals ? equals + 1 : !flag && *i + 1 < argc ? argv[*i + 1] : NULL;
    bool list = option >= 0 && takes_list((OptionIndex)option) && value && strchr(value, ',');
    if (option >= 0 && given[option] && (list || given[option] == GIVEN_LIST))
        return fail(BAD_OPTION, "--%s has a list of values and is given twice; give it once",
                    option_rows[option].name);
    if (option >= 0) given[option] = list ? GIVEN_LIST : GIVEN_VALUE;
    if (!list) {
        word_list_add(&sweep->word, "%s", word);
        return OK;
    }
    if (!equals) ++*i;
    TRY(axis_add(sweep, option_rows[option].name, value, sweep->word.count));
    word_list_add(&sweep->word, "--%s=%s", option_rows[option].name, sweep->axis[sweep->axes - 1].value[0]);
    return OK;
}

/* Puts the sweep's own words into `own`, and those of jotun train into sweep->word. */
static Status words_part(Sweep *sweep, WordList *own, int argc, char **argv)
{
    Given given[OPTIONS] = { NOT_GIVEN };
    for (int i = 0; i < argc; i++) {
        char name[64] = "";
        if (!strcmp(argv[i], "--"))
            return fail(BAD_USAGE, "--: jotun sweep takes no positional argument");
        if (!strncmp(argv[i], "--", 2))
            snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[i] + 2, "="), argv[i] + 2);
        int option = *name ? option_find(name, FOR_SWEEP) : -1;
        if (option < 0) {
            TRY(train_word(sweep, given, argc, argv, &i));
            continue;
        }
        word_list_add(own, "%s", argv[i]);
        bool alone = option_rows[option].kind == KIND_FLAG || strchr(argv[i], '=');
        if (!alone && i + 1 < argc) word_list_add(own, "%s", argv[++i]);
    }
    return OK;
}

static Status depth_axis(Sweep *sweep)
{
    if (!sweep->own->sweep_depths) return OK;
    TRY(axis_add(sweep, "depth", sweep->own->sweep_depths, -1));
    SweepAxis last = sweep->axis[sweep->axes - 1];                      /* the first in names and tables */
    memmove(&sweep->axis[1], &sweep->axis[0], (size_t)(sweep->axes - 1) * sizeof last);
    sweep->axis[0] = last;
    sweep->depth_axis = 0;
    const SweepAxis *axis = &sweep->axis[0];
    for (int i = 0; i < axis->count; i++)
        if (!(axis->number[i] >= 1 && axis->number[i] <= 65536 && axis->number[i] == floor(axis->number[i])))
            return fail(BAD_OPTION, "--depth %s: a depth is a number of layers, such as 4,6,8",
                        axis->value[i]);
    return OK;
}

/* A list of a name that jotun train does not know is no list, so that this name is said first. */
static Status no_list(const Sweep *sweep)
{
    Options o;
    Status  status = setup_parse(&o, FOR_TRAIN, sweep->word.count, sweep->word.word);
    options_close(&o);
    if (status == BAD_USAGE) return status;
    return fail(BAD_USAGE, "jotun sweep varies an option: --depth 4,6,8, or any number, choice or flag of "
                "jotun train as a list, such as --lr 1e-3,2e-3,4e-3");
}

static Status own_fit(const Sweep *sweep)
{
    const Options *own = sweep->own;
    if (!own->sweep_dir)
        return fail(BAD_USAGE, "jotun sweep needs --save DIR (a folder for each run, and the results)");
    if (!sweep->axes) return no_list(sweep);
    if (!own->sweep_check) return OK;
    int depths = sweep->axis[sweep->depth_axis].count;
    if (depths < SCALING_COEFFICIENTS)
        return fail(BAD_OPTION, "--check-depth %lld checks a law, which is fitted to three depths or more; "
                    "--depth has %d", (long long)own->sweep_check, depths);
    if (own->sweep_check <= sweep->axis[sweep->depth_axis].number[depths - 1])
        return fail(BAD_OPTION, "--check-depth %lld is no larger than the largest depth of the law, %s; "
                    "give a larger one", (long long)own->sweep_check,
                    sweep->axis[sweep->depth_axis].value[depths - 1]);
    for (int i = 0; i < sweep->axes; i++)
        if (i != sweep->depth_axis && i != sweep->seed_axis)
            return fail(BAD_OPTION, "--check-depth checks the law of one series of runs, but --%s has "
                        "several values; give one", sweep->axis[i].name);
    return OK;
}

Status sweep_words(Sweep *sweep, int argc, char **argv)
{
    WordList own = { 0 };
    *sweep = (Sweep){ .own = calloc(1, sizeof *sweep->own), .depth_axis = -1, .seed_axis = -1, .lock = -1 };
    CHECK(sweep->own, "no memory for options");
    Status status = words_part(sweep, &own, argc, argv);
    if (status == OK) status = setup_parse(sweep->own, FOR_SWEEP, own.count, own.word);
    word_list_free(&own);                                  /* options keep copies */
    TRY(status);
    TRY(options_needed(sweep->own));
    TRY(options_derive(sweep->own));
    TRY(options_validate(sweep->own));
    TRY(depth_axis(sweep));
    for (int i = 0; i < sweep->axes; i++)
        if (!strcmp(sweep->axis[i].name, "seed")) sweep->seed_axis = i;
    return own_fit(sweep);
}
