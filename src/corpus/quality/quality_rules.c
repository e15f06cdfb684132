/* The rows of quality.def as a table, and the parsing of presets and of changes such as "words-min=30". */
#include "corpus/quality/quality_rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/message.h"

/* In the order of QualityRule, from the same file. */
const QualityRow quality_row[QUALITY_RULES] = {
#define RULE(rule, name, side, limit, preset, source, help) { name, preset, source, help, QUALITY_##side, limit },
#include "corpus/quality/quality.def"
#undef RULE
};

static bool word_equals(const char *word, const char *text, size_t bytes)
{
    return strlen(word) == bytes && !memcmp(word, text, bytes);
}

/* Switches on the rules of one preset; false where there is none of this name. */
static bool preset_on(QualityPlan *plan, const char *name, size_t bytes)
{
    bool found = false;
    for (int r = 0; r < QUALITY_RULES; r++) {
        if (!bytes || !word_equals(quality_row[r].preset, name, bytes)) continue;
        plan->on[r] = found = true;
    }
    return found;
}

Status quality_plan(QualityPlan *plan, const char *presets)
{
    *plan = (QualityPlan){ 0 };
    for (int r = 0; r < QUALITY_RULES; r++) plan->limit[r] = quality_row[r].limit;
    if (!strcmp(presets, "none")) return OK;
    for (const char *at = presets; ; at++) {
        size_t bytes = strcspn(at, ",");
        if (!preset_on(plan, at, bytes))
            return fail(BAD_OPTION,
                        "--quality %.*s: no such preset; give none, or some of gopher,repetition,c4,fineweb",
                        (int)bytes, at);
        at += bytes;
        if (!*at) return OK;
    }
}

static Status change_refuse(const char *change, size_t bytes, const char *why)
{
    return fail(BAD_OPTION, "--quality-rules %.*s: %s", (int)bytes, change, why);
}

static int rule_find(const char *name, size_t bytes)
{
    for (int r = 0; r < QUALITY_RULES; r++)
        if (word_equals(quality_row[r].name, name, bytes)) return r;
    return -1;
}

/* Names every rule: there are too many for the help text of the option. */
static Status rule_unknown(const char *name, size_t bytes)
{
    char names[400] = "";
    for (int r = 0; r < QUALITY_RULES; r++)
        message_item(names, sizeof names, ", ", "%s", quality_row[r].name);
    return fail(BAD_OPTION, "--quality-rules %.*s: no such rule; there are %s", (int)bytes, name, names);
}

/* One change. A limit also switches its rule on, since nobody gives a limit to a rule that is off. */
static Status change_apply(QualityPlan *plan, const char *change, size_t bytes)
{
    const char *equals = memchr(change, '=', bytes), *value = equals ? equals + 1 : "";
    size_t name = equals ? (size_t)(equals - change) : bytes, left = equals ? bytes - name - 1 : 0;
    int rule = rule_find(change, name);
    if (rule < 0) return rule_unknown(change, name);
    if (!left) return change_refuse(change, bytes, "needs =on, =off or =LIMIT after the name");
    plan->on[rule] = true;
    if (word_equals("on", value, left)) return OK;
    if (word_equals("off", value, left)) {
        plan->on[rule] = false;
        return OK;
    }
    char *end;
    double limit = strtod(value, &end);
    /* The comparison is negated so that it is true for NAN too. */
    if (end != value + left || !(limit >= 0) || isinf(limit))
        return change_refuse(change, bytes, "needs =on, =off or a number >= 0");
    plan->limit[rule] = limit;
    return OK;
}

Status quality_set(QualityPlan *plan, const char *changes)
{
    for (const char *at = changes; ; at++) {
        size_t bytes = strcspn(at, ",");
        TRY(change_apply(plan, at, bytes));
        at += bytes;
        if (!*at) return OK;
    }
}
