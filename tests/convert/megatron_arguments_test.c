/* Every argument of Megatron-LM (tests/conf/megatron_arguments.txt) is in one of the two classes of a saved checkpoint: it becomes an
 * option, or has to be at its default, or says nothing of the model. The options of `jotun train` are the other side: an argument
 * that they do not know is not taken, and one that is an option of a model or of its schedule
 * is not left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "compat/dialects.h"
#include "conf/rows.h"
#include <cmocka.h>             /* last: its fail() is a macro */

/* READ: by code of its own, which knows more values of it than jotun train */
typedef enum { TAKEN, READ, REFUSED, BESIDE, OF_A_RUN } Class;
enum { NEEDED, SAME, ABOVE, LAYERS, WINDOW, FLAG, NOT, HERE };
/* option: NULL: the name, with dashes */
typedef struct { Class class; const char *names, *option, *values; } SavedRow;
static const SavedRow rows[] = {
#define ARGUMENT(argument, kind, option, condition) { kind == HERE ? READ : TAKEN, #argument, option, "" },
#define NAMED(kind, condition, arguments)           { TAKEN, arguments, NULL, "" },
#define ONLY(argument, values, condition, ...)      { REFUSED, #argument, "", values },
#define UNDER(argument, names)                      { BESIDE, names, "", "" },
#define RUN(names)                                  { OF_A_RUN, names, "", "" },
#include "convert/megatron/megatron_args.def"
};
static const char *const above[] = {
#define UNDER(argument, names) #argument,
#include "convert/megatron/megatron_args.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool has_name(const char *names, const char *name)
{
    for (const char *a = names; *a; a += strcspn(a, " "), a += *a == ' ') {
        size_t letters = strcspn(a, " ");
        bool star = a[letters - 1] == '*';
        if (!strncmp(a, name, letters - star) && (star || !name[letters])) return true;
    }
    return false;
}

/* The row of a saved name; *several: it is in two rows that are not one argument's. */
static const SavedRow *row_of(const char *saved, bool *several)
{
    const SavedRow *found = NULL;
    *several = false;
    for (int i = 0; i < ROWS; i++)
        if (has_name(rows[i].names, saved)) {
            *several |= found && strcmp(found->names, rows[i].names) != 0;
            if (!found) found = &rows[i];
        }
    return found;
}

/* Whether a default, as Python writes it, is one of "None|0". */
static bool allows(const char *values, const char *preset)
{
    for (const char *a = values; *a; a += strcspn(a, "|"), a += *a == '|')
        if (strlen(preset) == strcspn(a, "|") && !strncmp(a, preset, strlen(preset))) return true;
    return !strcmp(preset, "None");                                        /* None is always read */
}

static int judge(const char *name, const char *saved, const char *preset)
{
    bool several;
    char named[128];
    const SavedRow *row = row_of(saved, &several);
    snprintf(named, sizeof named, "%s", row && row->option ? row->option : saved);
    for (char *c = named; row && !row->option && (c = strchr(c, '_')); ) *c = '-';
    int option = option_find(name, FOR_TRAIN);
    const Dialect *theirs = option < 0 ? dialect_find(dialects_understood(FOR_TRAIN), name, NULL) : NULL;
    const Dialect *hint   = option < 0 ? dialect_suggestion(dialects_understood(FOR_TRAIN), name) : NULL;
    if (theirs && theirs->option >= 0) option = theirs->option;
    bool unknown  = option < 0 && (theirs ? theirs->verb == VERB_REFUSE : hint && hint->verb == VERB_MISSING);
    bool of_model = option >= 0 && option_taken(option, FOR_CHECKPOINT_ARGS) && !option_taken(option, FOR_GENERATE);   /* --bf16 */
    bool of_schedule = option >= 0 && option_taken(option, FOR_SCHEDULE);
    const char *why = !row                                                        ? "is in no row of megatron_args.def"
                    : several                                                     ? "is in two rows of megatron_args.def"
                    : unknown && row->class == TAKEN                              ? "is taken, and jotun train refuses it"
                    : of_model && row->class == OF_A_RUN                          ? "is not read, and is an option of a model"
                    : of_schedule && row->class == OF_A_RUN                       ? "is not read, and is an option of the schedule"
                    : row->class == REFUSED && !allows(row->values, preset)       ? "is refused at its own default"
                    : *named && option_find(named, FOR_TRAIN) < 0      ? "becomes an option that there is not" : NULL;
    if (why) print_error("--%s, saved as %s: %s\n", name, saved, why);
    return why != NULL;
}

static void every_argument_is_in_one_class(void **state)
{
    (void)state;
    char line[256], name[128], saved[128], preset[128];
    int names = 0, wrong = 0;
    FILE *list = fopen(TESTS_DIR "/conf/megatron_arguments.txt", "r");
    assert_non_null(list);
    while (fgets(line, sizeof line, list)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%127s %*s %*s %*s %127s %127s", name, preset, saved), 3);
        names++;
        wrong += judge(name, saved, preset);
    }
    fclose(list);
    assert_int_equal(names, 878);
    assert_int_equal(wrong, 0);
}

/* What matters beside an argument alone: one that is refused, or whose other values are refused as an option. */
static void what_is_beside_others_has_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof above / sizeof above[0]; i++) {
        bool several;
        const SavedRow *row = row_of(above[i], &several);
        assert_non_null(row);
        assert_true(row->class == REFUSED || !strcmp(row->option, "position-embedding-type"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_argument_is_in_one_class), cmocka_unit_test(what_is_beside_others_has_them) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
