/* Reads the arguments of fairseq's commands. Most are one option each. The rows HELD of fairseq.def are
 * combined once all are read, because several of them make one value: --batch-size and --max-tokens,
 * --lr-scheduler and what belongs to it, --arch and the options that change it. */
#include "compat/fairseq/fairseq_internal.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "conf/conf.h"
#include "compat/translate.h"
#include "conf/value.h"

static Status held_number(void *field, int argument, const char *typed, const char *value)
{
    char  *end;
    double low = fairseq_held[argument].low, high = fairseq_held[argument].high;
    bool   whole = fairseq_held[argument].kind == KIND_INT;
    errno = 0;
    double read = strtod(value, &end);
    bool   number = end != value && !*end && !isspace((unsigned char)*value) && !strpbrk(value, "xXnN");
    if (number && whole) number = read == floor(read) && !strpbrk(value, ".eE");
    if (!number || read < low || read > high)
        return fail(BAD_OPTION, "%s %s is %s; give a value from %.15g to %.15g", typed, value,
                    number  ? "out of range"
                    : whole ? "not a whole number"
                            : "not a decimal number",
                    low, high);
    if (whole) *(OptionINT *)field = (int64_t)read;
    else       *(OptionREAL *)field = read;
    return OK;
}

static Status held_set(Fairseq *f, int argument, const char *typed, const char *value)
{
    void *field = (char *)f + fairseq_held[argument].offset;
    if (f->typed[argument] && fairseq_held[argument].kind != KIND_FLAG)
        log_line("%s %s replaces the one before it: the last one counts", typed, value);
    f->typed[argument] = words_hold(&f->texts, typed);
    switch (fairseq_held[argument].kind) {
    case KIND_FLAG: *(OptionFLAG *)field = true; return OK;
    case KIND_TEXT: *(OptionTEXT *)field = words_hold(&f->texts, value); return OK;
    default:        return held_number(field, argument, typed, value);
    }
}

static void held_defaults(Fairseq *f)
{
    for (int i = 0; i < FAIRSEQ_HELD; i++) {
        const char *text = fairseq_held[i].text;
        void       *field = (char *)f + fairseq_held[i].offset;
        if (fairseq_held[i].kind == KIND_TEXT) *(OptionTEXT *)field = text;
        if (fairseq_held[i].kind == KIND_INT)  *(OptionINT  *)field = strtoll(text, NULL, 10);
        if (fairseq_held[i].kind == KIND_REAL) *(OptionREAL *)field = strtod(text, NULL);
    }
}

/* The first of its names, until the next call of this thread. */
static const char *held_name(int argument)
{
    static _Thread_local char name[64];
    const char *list = fairseq_held[argument].names;
    name_next(name, sizeof name, &list);
    return name;
}

/* HELD_..., or -1 */
static int held_find(const char *name)
{
    for (int i = 0; i < FAIRSEQ_HELD; i++)
        if (name_in(fairseq_held[i].names, name, strcmp)) return i;
    return -1;
}

/* ---- arguments ---- */

static bool is_flag(const Dialect *row)
{
    switch (row->verb) {
    case VERB_MEANS:
    case VERB_IGNORED:
    case VERB_REFUSE:  return row->values == 0;
    case VERB_SAME:    return option_rows[row->option].kind == KIND_FLAG;
    default:           return false;
    }
}

static Status unknown(const Options *o, const char *typed)
{
    char        theirs[128];
    const char *name = typed + 2;
    bool        known = dialect_nearest(theirs, sizeof theirs, DIALECT_FAIRSEQ_LINE, name, o->command);
    const char *nearest = option_nearer(name, option_nearest(name, o->command), known ? theirs : NULL);
    int letters = (int)strlen(name), near = letters < 12 ? letters / 3 : 4;
    if (nearest) near = word_distance(name, nearest);
    int held = -1;
    for (int i = 0; i < FAIRSEQ_HELD; i++)
        if (word_distance(name, held_name(i)) <= near) near = word_distance(name, held_name(i)), held = i;
    if (held >= 0) nearest = held_name(held);
    if (nearest)
        return fail(BAD_USAGE, "%s is no argument of %s; did you mean --%s?", typed, fairseq_command(o),
                    nearest);
    return fail(BAD_USAGE,
                "%s is no argument of %s, nor an option of jotun %s; docs/howto/from-fairseq.md has "
                "those that are understood",
                typed, fairseq_command(o), command_name(o->command));
}

/* The window of an evaluation is an option of its own. */
static const Dialect *row_of(const Options *o, Dialect *here, const char *name, const char *value)
{
    const Dialect *row = dialect_find(DIALECT_FAIRSEQ_LINE, name, value);
    if (!row || o->command != FOR_EVAL || row->option != OPTION_sequence) return row;
    *here = *row;
    here->option = OPTION_context;
    return here;
}

/* Arguments of training that fairseq-eval-lm takes as well say nothing there. */
static bool idle(const Options *o, const Dialect *row)
{
    return o->command == FOR_EVAL && row->option >= 0 && !option_taken((OptionIndex)row->option, o->command);
}

static Status take_own(Options *o, int count, char **word)
{
    OptionWords words = { 0 };
    words_command_line(&words, SOURCE_COMMAND_LINE, "", "", count, word);
    Status status = options_take(o, &words, NULL);
    words_close(&words);
    return status;
}

/* One argument with its value. Returns the words it has taken in *used. */
static Status take(Options *o, Fairseq *f, int *used, int count, char **word)
{
    char typed[128], name[128], *equals = strchr(word[0], '=');
    Dialect here;
    if (snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word[0], "="), word[0]) >= (int)sizeof typed)
        return fail(BAD_USAGE, "%s... is no argument of %s", typed, fairseq_command(o));
    snprintf(name, sizeof name, "%s", !strcmp(typed, "-a") ? "arch" : typed + 2);
    const char    *value = equals ? equals + 1 : count > 1 ? word[1] : NULL;
    int            argument = held_find(name);
    const Dialect *row = argument < 0 ? row_of(o, &here, name, value) : NULL;
    bool flag = argument >= 0 ? fairseq_held[argument].kind == KIND_FLAG : row && is_flag(row);
    if (argument < 0 && !row) {                                          /* an option of jotun's own */
        int option = option_find(name, o->command);
        if (option < 0) return unknown(o, typed);
        *used = equals || option_rows[option].kind == KIND_FLAG ? 1 : 2;
        return take_own(o, *used < count ? *used : count, word);
    }
    *used = equals || flag ? 1 : 2;
    if (flag && equals) return fail(BAD_OPTION, "%s takes no value in fairseq; leave =%s out", typed, value);
    if (!flag && !value) return fail(BAD_USAGE, "%s needs a value", typed);
    if (!flag && !equals && value[0] == '-' && value[1] == '-')
        return fail(BAD_USAGE, "%s needs a value, and %s follows it", typed, value);
    if (argument >= 0) return held_set(f, argument, typed, value);
    OptionSource source = option_source(SOURCE_COMMAND_LINE, typed, "", "");
    if (!idle(o, row)) return translate_name(o, row, flag ? NULL : value, source, NULL);
    log_line("%s is ignored: it is of training", typed);
    return OK;
}

/* ---- the commands ---- */

static Status folder_of(Fairseq *f, const Options *o, int words, const char *word)
{
    if (words == 0 && o->mock_data && o->command != FOR_EVAL) f->data = ".";
    else if (words != 1)
        return fail(BAD_USAGE,
                    "%s needs one folder of data, that of fairseq-preprocess --destdir, and %d are given",
                    fairseq_command(o), words);
    else f->data = word;
    const char *colon = strchr(f->data, ':');
    if (!colon || !colon[1]) return OK;
    return fail(BAD_OPTION,
                "%s: several folders, which fairseq reads in turn, one each epoch; give one: jotun data "
                "merge joins their token files",
                f->data);
}

static Status read_words(Options *o, Fairseq *f, int argc, char **argv)
{
    const char *folder = NULL;
    int words = 0;
    for (int i = 0, used; i < argc; i += used) {
        used = 1;
        if (argv[i][0] == '-' && argv[i][1]) TRY(take(o, f, &used, argc - i, argv + i));
        else words++, folder = argv[i];
    }
    return folder_of(f, o, words, folder);
}

Status fairseq_words(Fairseq **made, OptionWords *words, const Options *so_far, int argc, char **argv)
{
    Options  o;
    Fairseq *f = calloc(1, sizeof *f);
    CHECK(f, "no memory for the arguments of fairseq");
    *made = f;
    f->data = ".";
    held_defaults(f);
    options_copy(&o, so_far);
    Status status = read_words(&o, f, argc, argv);
    if (status == OK && o.command == FOR_EVAL) status = fairseq_eval_complete(&o, f);
    else if (status == OK)                     status = fairseq_train_complete(&o, f);
    if (status == OK) words_between(words, &o, so_far);
    options_close(&o);
    return status;
}

void fairseq_close(Fairseq *f)
{
    if (f) words_close(&f->texts);
    free(f);
}

bool fairseq_argument(FairseqArgument *out, int i, CommandSet command)
{
    static const char *const values[] = { [KIND_INT] = "N", [KIND_REAL] = "X", [KIND_TEXT] = "TEXT",
                                          [KIND_FLAG] = "" };
    const FairseqHeld *row = &fairseq_held[i];
    bool unset = *row->text == '-' || !strcmp(row->text, "0") || !strcmp(row->text, "false");
    *out = (FairseqArgument){ held_name(i), values[row->kind], unset ? "" : row->text, row->help };
    return (row->commands & command) == command;
}

int fairseq_arguments(void) { return FAIRSEQ_HELD; }
