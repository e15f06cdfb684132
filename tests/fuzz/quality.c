/* Any text judged: the verdict is the first rule that it breaks where each is the only one, words are those that a slow count finds, and where lines
 * fall the text only becomes shorter. */
#include <stdlib.h>
#include <string.h>
#include "corpus/quality/quality.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static Quality      *all, *lines, *one[QUALITY_RULES], *counts;
static QualitySpace *space;
static QualityPlan   plan;

static void open(void)
{
    QualityPlan whole;
    if (quality_plan(&whole, "gopher,repetition,c4,fineweb") != OK || quality_plan(&plan, "gopher,repetition,fineweb") != OK) abort();
    if (quality_set(&plan, "curly=on,lorem-ipsum=on,words-min=1,sentences=1,stop-words=1") != OK) abort();
    if (quality_open(&all, &plan, "sv", NULL) != OK || quality_open(&lines, &whole, "sv", NULL) != OK || quality_space_open(&space) != OK) abort();
    for (int r = 0; r < QUALITY_RULES; r++) {
        QualityPlan only = plan;
        for (int k = 0; k < QUALITY_RULES; k++) only.on[k] = k == r;
        if (plan.on[r] && quality_open(&one[r], &only, "sv", NULL) != OK) abort();
    }
    if (quality_plan(&whole, "none") != OK || quality_set(&whole, "words-min=1e15") != OK || quality_open(&counts, &whole, "sv", NULL) != OK) abort();
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static Buffer text;
    QualityVerdict v, single = { .rule = -1 };
    if (!space) open();
    text.bytes = 0;
    if (buffer_add(&text, (const char *)data, (int64_t)bytes) != OK) abort();
    if (quality_check(all, space, &text, &v) != OK) abort();
    for (int r = 0; r < QUALITY_RULES && single.rule < 0; r++)
        if (one[r] && quality_check(one[r], space, &text, &single) != OK) abort();
    if (text.bytes != (int64_t)bytes || (bytes && memcmp(text.text, data, bytes))) abort();
    if (v.rule != single.rule || (v.rule >= 0 && v.figure != single.figure)) abort();
    if (quality_check(counts, space, &text, &v) != OK || (int64_t)v.figure != words_slowly(data, (int64_t)bytes)) abort();
    if (quality_check(lines, space, &text, &v) != OK || text.bytes > (int64_t)bytes || v.rule >= QUALITY_RULES) abort();
    return 0;
}
