/* WANTS rows that ask a number for a least value, with rows of our own instead of those of options.def. */
#define option_wants       own_wants
#define option_wants_count own_wants_count
#define option_unmet       own_unmet
#define option_counts      own_counts
#define option_wants_text  own_wants_text
#define option_asked       own_asked
#define options_wants      own_options_wants
#define options_shape_wants own_shape_wants
#include "conf/wants.c"
#include "line.h"

const OptionWants own_wants[] = {
    { WANTS_REFUSED, OPTION_lr,         OPTION_hidden_dropout, "0.25 or more" },
    { WANTS_REFUSED, OPTION_min_lr,     OPTION_adam_eps,       "X" },
    { WANTS_REFUSED, OPTION_zero_stage, OPTION_layers,         "2 or more" },
};
const int own_wants_count = 3;

static void numbers_reach_a_value(void **state)
{
    (void)state;
    static const struct { const char *line, *says; } row[] = {
        { "--lr 1 --hidden-dropout 0.2", "--lr 1 has no effect without --hidden-dropout 0.25 or more" },
        { "--lr 1 --hidden-dropout 0.25", NULL },
        { "--lr 1 --hidden-dropout 0.5", NULL },
        { "--min-lr 1", NULL },
        { "--zero-stage 1 --num-layers 1", "--zero-stage 1 has no effect without --num-layers 2 or more" },
        { "--zero-stage 1 --num-layers 2", NULL },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        Options o;
        assert_ok(parse_line(&o, FOR_TRAIN, row[i].line));
        if (row[i].says) assert_says(own_options_wants(&o), BAD_OPTION, row[i].says);
        else assert_ok(own_options_wants(&o));
        options_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_reach_a_value) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
