/* Judges a document in three steps: rules above the LINE rules on the text as it is, the LINE rules, then
 * the rules below them on the text that is left. Facts are only made when a rule that needs them is on and
 * no earlier rule was broken. */
#include "corpus/quality/quality.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/message.h"
#include "corpus/quality/quality_internal.h"

/* ---- rules, and the parsing of presets and of changes such as "words-min=30" ---- */

/* In the order of QualityRule, from the same file. */
const QualityRow quality_row[QUALITY_RULES] = {
#define RULE(rule, name, side, limit, preset, source, facts, figure, help) \
    { name, preset, QUALITY_##side, limit },
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

struct Quality {
    QualityPlan plan;
    GramTable   stops;
    BadWords   *bad;
};

/* ---- opening ---- */

Status quality_open(Quality **quality, const QualityPlan *plan, const char *language, const char *bad_words)
{
    *quality = NULL;
    if (plan->on[QUALITY_BAD_WORDS] && !bad_words)
        return fail(BAD_OPTION, "--quality-rules bad-words: needs --bad-words FILE, one word a line");
    Quality *q = calloc(1, sizeof *q);
    if (!q) return fail(NO_MEMORY, "no memory for rules of quality");
    q->plan = *plan;
    q->plan.on[QUALITY_BAD_WORDS] = bad_words != NULL;
    Status status = plan->on[QUALITY_STOP_WORDS] ? stop_words_find(&q->stops, language) : OK;
    if (status == OK && bad_words) status = bad_words_open(&q->bad, bad_words);
    if (status == OK) *quality = q;
    else              quality_close(q);
    return status;
}

void quality_close(Quality *q)
{
    if (!q) return;
    bad_words_close(q->bad);
    free(q->stops.slot);
    free(q);
}

Status quality_space_open(QualitySpace **space)
{
    *space = calloc(1, sizeof **space);
    return *space ? OK : fail(NO_MEMORY, "no memory for rules of quality");
}

void quality_space_close(QualitySpace *s)
{
    if (!s) return;
    masks_free(&s->masks);
    free(s->word), free(s->table.slot), free(s->position), free(s->gram), free(s->slot);
    free(s);
}

/* ---- judging ---- */

/* 0 of nothing, so that an empty document has defined figures. */
static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

static bool any_on(const QualityPlan *p, int from, int to)
{
    for (int r = from; r <= to; r++)
        if (p->on[r]) return true;
    return false;
}

/* From what the figure of each rule is computed. */
static const QualityFacts facts_of[QUALITY_RULES] = {
#define RULE(rule, name, side, limit, preset, source, facts, figure, help) FACTS_##facts,
#include "corpus/quality/quality.def"
#undef RULE
};

/* NAN where it could not be computed, as there are too few words: that breaks no rule. */
static double figure_of(int rule, const QualitySpace *space)
{
    const QualitySurvey *s    = &space->survey;
    const LinesSeen     *seen = &space->seen;
    switch ((QualityRule)rule) {
#define RULE(rule, name, side, limit, preset, source, facts, figure, help) \
    case QUALITY_##rule: return (double)(figure);
#include "corpus/quality/quality.def"
#undef RULE
    case QUALITY_RULES: break;
    }
    return NAN;
}

/* With FACTS_COUNTS words are only counted; a survey that also classified them serves as well. */
static Status survey(const Quality *q, QualitySpace *space, const Buffer *text, QualityFacts facts)
{
    QualitySurvey   *s = &space->survey;
    const GramTable *stops = q->plan.on[QUALITY_STOP_WORDS] ? &q->stops : NULL;
    if (space->made & 1u << FACTS_WORDS) return OK;
    *s = (QualitySurvey){ 0 };
    TRY(masks_make(&space->masks, text->text, text->bytes));
    int stops_most = (int)fmin(ceil(q->plan.limit[QUALITY_STOP_WORDS]), STOP_WORDS_MOST);
    if (facts == FACTS_WORDS) TRY(survey_words(s, space, stops, stops_most, text->text, text->bytes));
    else                      survey_count(s, space, text->bytes);
    return survey_lines(s, space, text->text, text->bytes);
}

/* Makes what is not known yet of the text as it is now. */
static Status facts_make(const Quality *q, QualitySpace *space, const Buffer *text, QualityFacts facts)
{
    if (space->made & 1u << facts) return OK;
    switch (facts) {
    case FACTS_GRAMS:     TRY(facts_make(q, space, text, FACTS_WORDS)); TRY(quality_grams(space)); break;
    case FACTS_BAD_WORDS: space->bad_words = bad_words_count(q->bad, text->text, text->bytes);     break;
    case FACTS_LINES:     break;                            /* by quality_lines */
    default:              TRY(survey(q, space, text, facts));
    }
    space->made |= 1u << facts;
    return OK;
}

/* Stores the first broken rule of [from, to) in the verdict. */
static Status rules_apply(const Quality *q, QualitySpace *space, const Buffer *text, int from, int to,
                          QualityVerdict *v)
{
    for (int r = from; r < to && v->rule < 0; r++) {
        if (!q->plan.on[r]) continue;
        TRY(facts_make(q, space, text, facts_of[r]));
        double figure = figure_of(r, space), limit = q->plan.limit[r];
        if (!(quality_row[r].side == QUALITY_LEAST ? figure < limit : figure > limit)) continue;
        v->rule   = r;
        v->figure = figure;
    }
    return OK;
}

enum { FIRST_LINE = QUALITY_LONG_WORD, LAST_LINE = QUALITY_POLICY };

/* The rules below the LINE rules apply to the remaining text, whose facts are new if it has changed. */
Status quality_check(const Quality *q, QualitySpace *space, Buffer *text, QualityVerdict *v)
{
    *v = (QualityVerdict){ .rule = -1 };
    space->made = 0;
    space->seen = (LinesSeen){ .enough = (int64_t)fmin(ceil(q->plan.limit[QUALITY_SENTENCES]), 1e15) };
    TRY(rules_apply(q, space, text, 0, FIRST_LINE, v));
    if (v->rule >= 0) return OK;
    int64_t before = text->bytes;
    if (any_on(&q->plan, FIRST_LINE, QUALITY_SENTENCES)) quality_lines(&q->plan, text, v, &space->seen);
    if (text->bytes != before) space->made = 0;
    return rules_apply(q, space, text, LAST_LINE + 1, QUALITY_RULES, v);
}
