/* Judges a document in three steps: rules above the LINE rules on the text as it is, the LINE rules, then
 * the rules below them on the text that is left. A figure is only computed when a rule that needs it is on
 * and no earlier rule was broken. */
#include "corpus/quality/quality.h"

#include <math.h>
#include <stdlib.h>
#include "corpus/quality/quality_internal.h"

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

/* Gopher, table A1: repeated n-grams. */
static Status gram_figures(double *f, const QualitySurvey *s, QualitySpace *space)
{
    TRY(quality_grams(space, f));
    for (int r = QUALITY_TOP_2; r <= QUALITY_GRAM_10; r++) f[r] = share(f[r], (double)s->chars);
    return OK;
}

/* FineWeb, section 3.7. */
static void fineweb_figures(double *f, const QualitySurvey *s)
{
    f[QUALITY_LINE_PUNCTUATION] = share((double)s->punctuated, (double)s->nonblank);
    f[QUALITY_SHORT_LINES]      = share((double)s->short_lines, (double)s->nonblank);
    f[QUALITY_LINE_REPEATS]     = share((double)s->nonblank_repeat_chars, (double)(s->chars - s->new_lines));
    f[QUALITY_NEW_LINES]        = share((double)s->new_lines, (double)s->words);
}

/* How much of the words a survey looks at: only their number; as much as a verdict needs; everything. */
typedef enum { COUNT_ONLY, FOR_VERDICT, ALL_FIGURES } WordDetail;

/* The survey of the text as it is now; it is made once for each state of the text (space->surveyed). */
static Status survey(const Quality *q, QualitySpace *space, const Buffer *text, WordDetail detail)
{
    int stops_most = detail == ALL_FIGURES ? STOP_SLOTS
                                           : (int)fmin(ceil(q->plan.limit[QUALITY_STOP_WORDS]), STOP_SLOTS);
    QualitySurvey *s = &space->survey;
    const StopWords *stops = q->plan.on[QUALITY_STOP_WORDS] ? &q->stops : NULL;
    if (space->surveyed) return OK;
    *s = (QualitySurvey){ 0 };
    TRY(masks_make(&space->masks, text->text, text->bytes));
    if (detail) TRY(survey_words(s, space, stops, stops_most, text->text, text->bytes));
    else       survey_count(s, space, text->bytes);
    TRY(survey_lines(s, space, text->text, text->bytes));
    space->surveyed = true;
    return OK;
}

/* A figure that could not be computed, as there are too few words, breaks no rule. */
static bool is_broken(const QualityPlan *p, int rule, double figure)
{
    if (!p->on[rule] || isnan(figure)) return false;
    return quality_row[rule].side == QUALITY_LEAST ? figure < p->limit[rule] : figure > p->limit[rule];
}

/* Stores the first broken rule from `from` to `to` in the verdict, unless it has one already. */
static bool first_broken(const QualityPlan *p, const double *figure, int from, int to, QualityVerdict *v)
{
    for (int r = from; r <= to && v->rule < 0; r++) {
        if (!is_broken(p, r, figure[r])) continue;
        v->rule   = r;
        v->figure = figure[r];
    }
    return v->rule >= 0;
}

enum { FIRST_LINE = QUALITY_LONG_WORD, LAST_LINE = QUALITY_POLICY };

/* The rules in rows above the LINE rules. all_figures: continues after a broken rule. */
static Status check_above_line_rules(const Quality *q, QualitySpace *space, const Buffer *text, double *f,
                                     QualityVerdict *v, bool all_figures)
{
    const QualitySurvey      *s = &space->survey;
    const QualityPlan *p = &q->plan;
    if (!any_on(p, 0, FIRST_LINE - 1)) return OK;
    TRY(survey(q, space, text, all_figures ? ALL_FIGURES : FOR_VERDICT));
    gopher_figures(f, s);
    repeat_figures(f, s);
    if (first_broken(p, f, 0, QUALITY_REPEATED_LINE_CHARS, v) && !all_figures) return OK;
    if (any_on(p, QUALITY_TOP_2, QUALITY_GRAM_10)) TRY(gram_figures(f, s, space));
    first_broken(p, f, 0, FIRST_LINE - 1, v);
    return OK;
}

/* The rules in rows below the LINE rules, on what these left. A new survey is only made if they removed
 * something. */
static Status check_below_line_rules(const Quality *q, QualitySpace *space, const Buffer *text,
                                     const LinesSeen *seen, double *f, QualityVerdict *v, bool all_figures)
{
    const QualitySurvey      *s = &space->survey;
    const QualityPlan *p = &q->plan;
    f[QUALITY_LOREM]     = seen->lorem;
    f[QUALITY_CURLY]     = seen->curly;
    f[QUALITY_SENTENCES] = (double)seen->sentences;
    if (p->on[QUALITY_BAD_WORDS])
        f[QUALITY_BAD_WORDS] = (double)bad_words_count(q->bad, text->text, text->bytes);
    if (first_broken(p, f, LAST_LINE + 1, QUALITY_BAD_WORDS, v) && !all_figures) return OK;
    if (!any_on(p, QUALITY_LINE_PUNCTUATION, QUALITY_NEW_LINES)) return OK;
    TRY(survey(q, space, text, COUNT_ONLY));
    fineweb_figures(f, s);
    first_broken(p, f, LAST_LINE + 1, QUALITY_RULES - 1, v);
    return OK;
}

Status quality_check(const Quality *q, QualitySpace *space, Buffer *text, QualityVerdict *v)
{
    double    f[QUALITY_RULES];
    LinesSeen seen = { .enough = (int64_t)fmin(ceil(q->plan.limit[QUALITY_SENTENCES]), 1e15) };
    *v = (QualityVerdict){ .rule = -1 };
    space->surveyed = false;
    TRY(check_above_line_rules(q, space, text, f, v, false));
    if (v->rule >= 0) return OK;
    int64_t before = text->bytes;
    if (any_on(&q->plan, FIRST_LINE, QUALITY_SENTENCES)) quality_lines(&q->plan, text, v, &seen);
    space->surveyed &= text->bytes == before;           /* every change removes bytes */
    return check_below_line_rules(q, space, text, &seen, f, v, false);
}

Status quality_figures(const Quality *q, QualitySpace *space, const Buffer *text, double f[QUALITY_RULES])
{
    LinesSeen      seen = { .enough = INT64_MAX };
    QualityVerdict verdict = { .rule = -1 };
    QualityPlan    lines_off = q->plan;
    for (int r = 0; r < QUALITY_RULES; r++) f[r] = NAN;
    space->surveyed = false;
    TRY(check_above_line_rules(q, space, text, f, &verdict, true));
    for (int r = FIRST_LINE; r <= LAST_LINE; r++) lines_off.on[r] = false;
    Buffer copy = *text;    /* without LINE rules quality_lines changes nothing */
    if (any_on(&lines_off, FIRST_LINE, QUALITY_SENTENCES)) quality_lines(&lines_off, &copy, &verdict, &seen);
    TRY(check_below_line_rules(q, space, text, &seen, f, &verdict, true));
    for (int r = 0; r < QUALITY_RULES; r++)
        if (!q->plan.on[r] || quality_row[r].side == QUALITY_LINE) f[r] = NAN;
    return OK;
}
