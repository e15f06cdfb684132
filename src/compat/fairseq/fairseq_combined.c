/* Arguments of fairseq's commands that are combined once all are read (fairseq_combined.def), because
 * several of them make one value: --batch-size and --max-tokens, --lr-scheduler and what belongs to it,
 * --arch and the options that change it. And the values that are made of them. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/log.h"
#include "compat/fairseq/fairseq_internal.h"
#include "conf/value.h"

const FairseqCombined fairseq_combined[FAIRSEQ_HELD] = {
#define HELD(kind, field, text, low, high, name, commands, help) \
    { name, text, KIND_##kind, low, high, offsetof(Fairseq, field), commands, help },
#include "compat/fairseq/fairseq_combined.def"
};
static const struct { const char *name, *other; } also[] = {
#define ALSO(name, other) { name, other },
#include "compat/fairseq/fairseq_combined.def"
};

const char *fairseq_command(const Options *o)
{
    return o->command == FOR_EVAL ? "fairseq-eval-lm" : "fairseq-train";
}

/* ---- values ---- */

Status fairseq_give(Options *o, OptionIndex option, const char *from, const char *format, ...)
{
    char name[128], value[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    snprintf(name, sizeof name, "--%s", option_rows[option].name);
    return options_set(o, option, value, option_source(SOURCE_CONFIG_FILE, name, "", from));
}

Status fairseq_give_typed(Options *o, const Fairseq *f, OptionIndex option, int argument, const char *format,
                          ...)
{
    char value[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (!f->typed[argument]) return fairseq_give(o, option, "fairseq's default", "%s", value);
    return options_set(o, option, value,
                       option_source(SOURCE_COMMAND_LINE, f->typed[argument], value, ""));
}

static Status held_number(void *field, int argument, const char *typed, const char *value)
{
    char  *end;
    double low = fairseq_combined[argument].low, high = fairseq_combined[argument].high;
    bool   whole = fairseq_combined[argument].kind == KIND_INT;
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

Status fairseq_combined_set(Fairseq *f, int argument, const char *typed, const char *value)
{
    void *field = (char *)f + fairseq_combined[argument].offset;
    if (f->typed[argument] && fairseq_combined[argument].kind != KIND_FLAG)
        log_line("%s %s replaces the one before it: the last one counts", typed, value);
    f->typed[argument] = words_hold(&f->texts, typed);
    switch (fairseq_combined[argument].kind) {
    case KIND_FLAG: *(OptionFLAG *)field = true; return OK;
    case KIND_TEXT: *(OptionTEXT *)field = words_hold(&f->texts, value); return OK;
    default:        return held_number(field, argument, typed, value);
    }
}

void fairseq_combined_defaults(Fairseq *f)
{
    for (int i = 0; i < FAIRSEQ_HELD; i++) {
        const char *text = fairseq_combined[i].text;
        void       *field = (char *)f + fairseq_combined[i].offset;
        if (fairseq_combined[i].kind == KIND_TEXT) *(OptionTEXT *)field = text;
        if (fairseq_combined[i].kind == KIND_INT)  *(OptionINT  *)field = strtoll(text, NULL, 10);
        if (fairseq_combined[i].kind == KIND_REAL) *(OptionREAL *)field = strtod(text, NULL);
    }
}

int fairseq_combined_find(const char *name)
{
    for (size_t i = 0; i < COUNT(also); i++)
        if (!strcmp(also[i].name, name)) name = also[i].other;
    for (int i = 0; i < FAIRSEQ_HELD; i++)
        if (!strcmp(fairseq_combined[i].name, name)) return i;
    return -1;
}
