/* Any text judged: the verdict is the first rule its figures break, words are those that a slow count finds, and where lines
 * fall the text only becomes shorter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "corpus/quality/quality.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static Quality      *all, *lines;
static QualitySpace *space;
static QualityPlan   plan;

static void open(void)
{
    QualityPlan whole;
    if (quality_plan(&whole, "gopher,repetition,c4,fineweb") != OK || quality_plan(&plan, "gopher,repetition,fineweb") != OK) abort();
    if (quality_set(&plan, "curly=on,lorem-ipsum=on,words-min=1,sentences=1,stop-words=1") != OK) abort();
    if (quality_open(&all, &plan, "sv", NULL) != OK || quality_open(&lines, &whole, "sv", NULL) != OK || quality_space_open(&space) != OK) abort();
}

static int64_t words_slowly(const uint8_t *text, int64_t bytes)
{
    int64_t count = 0;
    bool    inside = false;
    for (int64_t at = 0; at < bytes; ) {
        Rune r = rune_at(text + at, bytes - at);
        if (r.kind & SPACE) inside = false;
        else if (r.kind & (LETTER | NUMBER)) count += !inside, inside = true;
        at += r.bytes;
    }
    return count;
}

static bool broken(int r, double f)
{
    return plan.on[r] && !isnan(f) && (quality_row[r].side == QUALITY_LEAST ? f < plan.limit[r] : f > plan.limit[r]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static Buffer text;
    double figure[QUALITY_RULES];
    QualityVerdict v;
    if (!space) open();
    text.bytes = 0;
    if (buffer_add(&text, (const char *)data, (int64_t)bytes) != OK) abort();
    if (quality_figures(all, space, &text, figure) != OK || quality_check(all, space, &text, &v) != OK) abort();
    if (text.bytes != (int64_t)bytes || (bytes && memcmp(text.text, data, bytes))) abort();
    int first = 0;
    while (first < QUALITY_RULES && !broken(first, figure[first])) first++;
    if (v.rule != (first < QUALITY_RULES ? first : -1)) abort();
    if (v.rule >= 0 && v.rule != QUALITY_STOP_WORDS && v.figure != figure[v.rule]) abort();
    if ((int64_t)figure[QUALITY_WORDS_MIN] != words_slowly(data, (int64_t)bytes)) abort();
    if (quality_check(lines, space, &text, &v) != OK || text.bytes > (int64_t)bytes || v.rule >= QUALITY_RULES) abort();
    return 0;
}
