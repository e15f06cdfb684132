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
        return fail(BAD_OPTION, "--quality-rules bad-words: wants --bad-words FILE, one word a line");
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
    free(s->word), free(s->table.slot), free(s->place), free(s->gram), free(s->slot);
    free(s);
}

/* ---- judging ---- */

static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

static bool any_on(const QualityPlan *p, int from, int to)
{
    for (int r = from; r <= to; r++)
        if (p->on[r]) return true;
    return false;
}

static void gopher_figures(double *f, const QualitySurvey *s)
{
    double words = (double)s->words, worded = (double)s->worded, lines = (double)s->lines;
    f[QUALITY_WORDS_MIN]       = f[QUALITY_WORDS_MAX] = worded;
    f[QUALITY_WORD_LENGTH_MIN] = f[QUALITY_WORD_LENGTH_MAX] = share((double)s->worded_chars, worded);
    f[QUALITY_HASHES]          = share((double)s->hashes, words);
    f[QUALITY_ELLIPSES]        = share((double)s->ellipses, words);
    f[QUALITY_BULLET_LINES]    = share((double)s->bullets, lines);
    f[QUALITY_ELLIPSIS_LINES]  = share((double)s->ellipsis_ends, lines);
    f[QUALITY_ALPHABETIC]      = share((double)s->alphabetic, words);
    f[QUALITY_STOP_WORDS]      = (double)s->stops;
}

static void repeat_figures(double *f, const QualitySurvey *s)
{
    f[QUALITY_REPEATED_PARAGRAPHS]      = share((double)s->paragraph_repeats, (double)s->paragraphs);
    f[QUALITY_REPEATED_PARAGRAPH_CHARS] = share((double)s->paragraph_repeat_chars, (double)s->chars);
    f[QUALITY_REPEATED_LINES]           = share((double)s->repeats, (double)s->full);
    f[QUALITY_REPEATED_LINE_CHARS]      = share((double)s->repeat_chars, (double)s->chars);
}

static Status gram_figures(double *f, const QualitySurvey *s, QualitySpace *space)
{
    TRY(quality_grams(space, f));
    for (int r = QUALITY_TOP_2; r <= QUALITY_GRAM_10; r++) f[r] = share(f[r], (double)s->chars);
    return OK;
}

static void fineweb_figures(double *f, const QualitySurvey *s)
{
    f[QUALITY_LINE_PUNCTUATION] = share((double)s->ended, (double)s->filled);
    f[QUALITY_SHORT_LINES]      = share((double)s->shorts, (double)s->filled);
    f[QUALITY_LINE_REPEATS]     = share((double)s->filled_repeat_chars, (double)(s->chars - s->new_lines));
    f[QUALITY_NEW_LINES]        = share((double)s->new_lines, (double)s->words);
}

/* What is wanted of words: their number alone, all that a verdict asks of them, all there is */
typedef enum { NUMBER_ALONE, ENOUGH, ALL } Depth;

/* Of a text that did not change it is made once. */
static Status survey(const Quality *q, QualitySpace *space, const Buffer *text, Depth depth)
{
    int stops_most = depth == ALL ? STOP_SLOTS : (int)fmin(ceil(q->plan.limit[QUALITY_STOP_WORDS]), STOP_SLOTS);
    QualitySurvey *s = &space->survey;
    const StopWords *stops = q->plan.on[QUALITY_STOP_WORDS] ? &q->stops : NULL;
    if (space->surveyed) return OK;
    *s = (QualitySurvey){ 0 };
    TRY(masks_make(&space->masks, text->text, text->bytes));
    if (depth) TRY(survey_words(s, space, stops, stops_most, text->text, text->bytes));
    else       survey_count(s, space, text->bytes);
    TRY(survey_lines(s, space, text->text, text->bytes));
    space->surveyed = true;
    return OK;
}

static bool breaks(const QualityPlan *p, int rule, double figure)
{
    if (!p->on[rule] || isnan(figure)) return false;
    return quality_row[rule].side == QUALITY_LEAST ? figure < p->limit[rule] : figure > p->limit[rule];
}

/* The first rule of those from `from` to `to` that is broken goes into the verdict. */
static bool falls(const QualityPlan *p, const double *figure, int from, int to, QualityVerdict *v)
{
    for (int r = from; r <= to && v->rule < 0; r++) {
        if (!breaks(p, r, figure[r])) continue;
        v->rule   = r;
        v->figure = figure[r];
    }
    return v->rule >= 0;
}

enum { FIRST_LINE = QUALITY_LONG_WORD, LAST_LINE = QUALITY_POLICY };

/* What stands above the LINE rules. go_on: also where something is broken */
static Status above_lines(const Quality *q, QualitySpace *space, const Buffer *text, double *f, QualityVerdict *v, bool go_on)
{
    const QualitySurvey      *s = &space->survey;
    const QualityPlan *p = &q->plan;
    if (!any_on(p, 0, FIRST_LINE - 1)) return OK;
    TRY(survey(q, space, text, go_on ? ALL : ENOUGH));
    gopher_figures(f, s);
    repeat_figures(f, s);
    if (falls(p, f, 0, QUALITY_REPEATED_LINE_CHARS, v) && !go_on) return OK;
    if (any_on(p, QUALITY_TOP_2, QUALITY_GRAM_10)) TRY(gram_figures(f, s, space));
    falls(p, f, 0, FIRST_LINE - 1, v);
    return OK;
}

static Status below_lines(const Quality *q, QualitySpace *space, const Buffer *text, const LinesSeen *seen, double *f,
                          QualityVerdict *v, bool go_on)
{
    const QualitySurvey      *s = &space->survey;
    const QualityPlan *p = &q->plan;
    f[QUALITY_LOREM]     = seen->lorem;
    f[QUALITY_CURLY]     = seen->curly;
    f[QUALITY_SENTENCES] = (double)seen->sentences;
    if (p->on[QUALITY_BAD_WORDS]) f[QUALITY_BAD_WORDS] = (double)bad_words_count(q->bad, text->text, text->bytes);
    if (falls(p, f, LAST_LINE + 1, QUALITY_BAD_WORDS, v) && !go_on) return OK;
    if (!any_on(p, QUALITY_LINE_PUNCTUATION, QUALITY_NEW_LINES)) return OK;
    TRY(survey(q, space, text, NUMBER_ALONE));
    fineweb_figures(f, s);
    falls(p, f, LAST_LINE + 1, QUALITY_RULES - 1, v);
    return OK;
}

Status quality_judge(const Quality *q, QualitySpace *space, Buffer *text, QualityVerdict *v)
{
    double    f[QUALITY_RULES];
    LinesSeen seen = { .enough = (int64_t)fmin(ceil(q->plan.limit[QUALITY_SENTENCES]), 1e15) };
    *v = (QualityVerdict){ .rule = -1 };
    space->surveyed = false;
    TRY(above_lines(q, space, text, f, v, false));
    if (v->rule >= 0) return OK;
    int64_t before = text->bytes;
    if (any_on(&q->plan, FIRST_LINE, QUALITY_SENTENCES)) quality_lines(&q->plan, text, v, &seen);
    space->surveyed &= text->bytes == before;                   /* no change leaves as many bytes */
    return below_lines(q, space, text, &seen, f, v, false);
}

Status quality_figures(const Quality *q, QualitySpace *space, const Buffer *text, double f[QUALITY_RULES])
{
    LinesSeen      seen = { .enough = INT64_MAX };
    QualityVerdict none = { .rule = -1 };
    QualityPlan    lines_off = q->plan;
    for (int r = 0; r < QUALITY_RULES; r++) f[r] = NAN;
    space->surveyed = false;
    TRY(above_lines(q, space, text, f, &none, true));
    for (int r = FIRST_LINE; r <= LAST_LINE; r++) lines_off.on[r] = false;
    Buffer same = *text;                                        /* nothing of it changes where no line can fall */
    if (any_on(&lines_off, FIRST_LINE, QUALITY_SENTENCES)) quality_lines(&lines_off, &same, &none, &seen);
    TRY(below_lines(q, space, text, &seen, f, &none, true));
    for (int r = 0; r < QUALITY_RULES; r++)
        if (!q->plan.on[r] || quality_row[r].side == QUALITY_LINE) f[r] = NAN;
    return OK;
}
