/* Judges a document in three steps: rules above the LINE rules on the text as it is, the LINE rules, then
 * the rules below them on the text that is left. A figure is only computed when a rule that needs it is on
 * and no earlier rule was broken. */
#include "corpus/quality/quality.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/message.h"
#include "corpus/quality/quality_internal.h"

/* ---- rules, and the parsing of presets and of changes such as "words-min=30" ---- */

/* In the order of QualityRule, from the same file. */
const QualityRow quality_row[QUALITY_RULES] = {
#define RULE(rule, name, side, limit, preset, source, help) { name, preset, QUALITY_##side, limit },
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
    StopWords   stops;
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

/* Gopher, appendix A1: statistics of words and lines. */
static void gopher_figures(double *f, const QualitySurvey *s)
{
    double words = (double)s->words, alnum_words = (double)s->alnum_words, lines = (double)s->lines;
    f[QUALITY_WORDS_MIN]       = f[QUALITY_WORDS_MAX] = alnum_words;
    f[QUALITY_WORD_LENGTH_MIN] = f[QUALITY_WORD_LENGTH_MAX] = share((double)s->alnum_word_chars, alnum_words);
    f[QUALITY_HASHES]          = share((double)s->hashes, words);
    f[QUALITY_ELLIPSES]        = share((double)s->ellipses, words);
    f[QUALITY_BULLET_LINES]    = share((double)s->bullets, lines);
    f[QUALITY_ELLIPSIS_LINES]  = share((double)s->ellipsis_ends, lines);
    f[QUALITY_ALPHABETIC]      = share((double)s->alphabetic, words);
    f[QUALITY_STOP_WORDS]      = (double)s->stops;
}

/* Gopher, table A1: repeated lines and paragraphs. */
static void repeat_figures(double *f, const QualitySurvey *s)
{
    f[QUALITY_REPEATED_PARAGRAPHS]      = share((double)s->paragraph_repeats, (double)s->paragraphs);
    f[QUALITY_REPEATED_PARAGRAPH_CHARS] = share((double)s->paragraph_repeat_chars, (double)s->chars);
    f[QUALITY_REPEATED_LINES]           = share((double)s->repeats, (double)s->nonempty);
    f[QUALITY_REPEATED_LINE_CHARS]      = share((double)s->repeat_chars, (double)s->chars);
}

/* FineWeb, section 3.7. */
static void fineweb_figures(double *f, const QualitySurvey *s)
{
    f[QUALITY_LINE_PUNCTUATION] = share((double)s->punctuated, (double)s->nonblank);
    f[QUALITY_SHORT_LINES]      = share((double)s->short_lines, (double)s->nonblank);
    f[QUALITY_LINE_REPEATS]     = share((double)s->nonblank_repeat_chars, (double)(s->chars - s->new_lines));
    f[QUALITY_NEW_LINES]        = share((double)s->new_lines, (double)s->words);
}

/* The survey of the text as it is now; it is made once for each state of the text (space->surveyed). Without
 * `classify` words are only counted. */
static Status survey(const Quality *q, QualitySpace *space, const Buffer *text, bool classify)
{
    QualitySurvey   *s = &space->survey;
    const StopWords *stops = q->plan.on[QUALITY_STOP_WORDS] ? &q->stops : NULL;
    if (space->surveyed) return OK;
    *s = (QualitySurvey){ 0 };
    TRY(masks_make(&space->masks, text->text, text->bytes));
    int stops_most = (int)fmin(ceil(q->plan.limit[QUALITY_STOP_WORDS]), STOP_SLOTS);
    if (classify) TRY(survey_words(s, space, stops, stops_most, text->text, text->bytes));
    else          survey_count(s, space, text->bytes);
    TRY(survey_lines(s, space, text->text, text->bytes));
    space->surveyed = true;
    return OK;
}

/* Stores the first broken rule from `from` to `to` in the verdict, unless it has one already. A figure that
 * could not be computed, as there are too few words, is NAN and breaks no rule. */
static bool first_broken(const QualityPlan *p, const double *figure, int from, int to, QualityVerdict *v)
{
    for (int r = from; r <= to && v->rule < 0; r++) {
        bool least = quality_row[r].side == QUALITY_LEAST;
        if (!p->on[r] || !(least ? figure[r] < p->limit[r] : figure[r] > p->limit[r])) continue;
        v->rule   = r;
        v->figure = figure[r];
    }
    return v->rule >= 0;
}

enum { FIRST_LINE = QUALITY_LONG_WORD, LAST_LINE = QUALITY_POLICY };

/* The rules in rows above the LINE rules. */
static Status check_above_line_rules(const Quality *q, QualitySpace *space, const Buffer *text,
                                     QualityVerdict *v)
{
    double f[QUALITY_RULES];
    const QualityPlan *p = &q->plan;
    if (!any_on(p, 0, FIRST_LINE - 1)) return OK;
    TRY(survey(q, space, text, true));
    gopher_figures(f, &space->survey);
    repeat_figures(f, &space->survey);
    if (first_broken(p, f, 0, QUALITY_REPEATED_LINE_CHARS, v)) return OK;
    if (!any_on(p, QUALITY_TOP_2, QUALITY_GRAM_10)) return OK;
    TRY(quality_grams(space, f));
    for (int r = QUALITY_TOP_2; r <= QUALITY_GRAM_10; r++) f[r] = share(f[r], (double)space->survey.chars);
    first_broken(p, f, QUALITY_TOP_2, QUALITY_GRAM_10, v);
    return OK;
}

/* The rules in rows below the LINE rules, on what these left. A new survey is only made if they removed
 * something. */
static Status check_below_line_rules(const Quality *q, QualitySpace *space, const Buffer *text,
                                     const LinesSeen *seen, QualityVerdict *v)
{
    double f[QUALITY_RULES];
    const QualityPlan *p = &q->plan;
    f[QUALITY_LOREM]     = seen->lorem;
    f[QUALITY_CURLY]     = seen->curly;
    f[QUALITY_SENTENCES] = (double)seen->sentences;
    if (p->on[QUALITY_BAD_WORDS])
        f[QUALITY_BAD_WORDS] = (double)bad_words_count(q->bad, text->text, text->bytes);
    if (first_broken(p, f, LAST_LINE + 1, QUALITY_BAD_WORDS, v)) return OK;
    if (!any_on(p, QUALITY_LINE_PUNCTUATION, QUALITY_NEW_LINES)) return OK;
    TRY(survey(q, space, text, false));
    fineweb_figures(f, &space->survey);
    first_broken(p, f, QUALITY_LINE_PUNCTUATION, QUALITY_NEW_LINES, v);
    return OK;
}

Status quality_check(const Quality *q, QualitySpace *space, Buffer *text, QualityVerdict *v)
{
    LinesSeen seen = { .enough = (int64_t)fmin(ceil(q->plan.limit[QUALITY_SENTENCES]), 1e15) };
    *v = (QualityVerdict){ .rule = -1 };
    space->surveyed = false;
    TRY(check_above_line_rules(q, space, text, v));
    if (v->rule >= 0) return OK;
    int64_t before = text->bytes;
    if (any_on(&q->plan, FIRST_LINE, QUALITY_SENTENCES)) quality_lines(&q->plan, text, v, &seen);
    space->surveyed &= text->bytes == before;           /* every change removes bytes */
    return check_below_line_rules(q, space, text, &seen, v);
}
