#include "corpus/quality/quality_rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const QualityRow quality_row[QUALITY_RULES] = {
#define RULE(rule, name, side, limit, preset, source, help) { name, preset, source, help, QUALITY_##side, limit },
#include "corpus/quality/quality.def"
#undef RULE
};

static bool is_word(const char *word, const char *text, size_t bytes) { return strlen(word) == bytes && !memcmp(word, text, bytes); }

static bool preset_on(QualityPlan *plan, const char *name, size_t bytes)
{
    bool found = false;
    for (int r = 0; r < QUALITY_RULES; r++) {
        if (!bytes || !is_word(quality_row[r].preset, name, bytes)) continue;
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
            return fail(BAD_OPTION, "--quality %.*s: none such; none, or some of gopher,repetition,c4,fineweb", (int)bytes, at);
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
        if (is_word(quality_row[r].name, name, bytes)) return r;
    return -1;
}

static Status rule_unknown(const char *name, size_t bytes)
{
    char names[400] = "";
    size_t used = 0;
    for (int r = 0; r < QUALITY_RULES && used < sizeof names; r++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", r ? ", " : "", quality_row[r].name);
    return fail(BAD_OPTION, "--quality-rules %.*s: no such rule; there are %s", (int)bytes, name, names);
}

static Status change_take(QualityPlan *plan, const char *change, size_t bytes)
{
    const char *sign = memchr(change, '=', bytes), *value = sign ? sign + 1 : "";
    size_t name = sign ? (size_t)(sign - change) : bytes, left = sign ? bytes - name - 1 : 0;
    int rule = rule_find(change, name);
    if (rule < 0) return rule_unknown(change, name);
    if (!left) return change_refuse(change, bytes, "wants =on, =off or =LIMIT behind");
    plan->on[rule] = true;
    if (is_word("on", value, left)) return OK;
    if (is_word("off", value, left)) {
        plan->on[rule] = false;
        return OK;
    }
    char *end;
    double limit = strtod(value, &end);
    if (end != value + left || !(limit >= 0) || isinf(limit)) return change_refuse(change, bytes, "wants =on, =off or a number from 0 on");
    plan->limit[rule] = limit;
    return OK;
}

Status quality_set(QualityPlan *plan, const char *changes)
{
    for (const char *at = changes; ; at++) {
        size_t bytes = strcspn(at, ",");
        TRY(change_take(plan, at, bytes));
        at += bytes;
        if (!*at) return OK;
    }
}
