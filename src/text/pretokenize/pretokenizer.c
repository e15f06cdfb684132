/* Splits a text by one pretokenizer step: with a scanner, by digits or marks, or by a regular expression
 * whose matches are kept, dropped or joined to a neighbour. */
#include "text/pretokenize/pretokenizer.h"
#include <string.h>
#include "text/unicode.h"

void pretokenizer_close(Pretokenizer *pretokenizer)
{
    for (int i = 0; i < pretokenizer->steps; i++) regex_close(pretokenizer->step[i].regex);
    *pretokenizer = (Pretokenizer){ 0 };
}

static bool mark_at(const uint8_t *text, int64_t bytes, int64_t at)
{
    return bytes - at >= 3 && !memcmp(text + at, "\xE2\x96\x81", 3);
}

/* The length of the piece at 0, which ends before the next mark. runs: a run of marks at the beginning is not
 * split. */
static int64_t mark_segment_bytes(const uint8_t *text, int64_t bytes, bool runs)
{
    int64_t at = 0;
    while (runs && mark_at(text, bytes, at)) at += 3;
    if (at == 0) at = 1;
    while (at < bytes && !mark_at(text, bytes, at)) at++;
    return at;
}

/* The length of the run at 0 of characters that are numbers, or are not */
static int64_t number_run_bytes(const uint8_t *text, int64_t bytes, bool numbers)
{
    int64_t at = 0;
    while (at < bytes) {
        Rune r = rune_at(text + at, bytes - at);
        if (!!(r.kind & NUMBER) != numbers) break;
        at += r.bytes;
    }
    return at;
}

static int64_t digits_bytes(const uint8_t *text, int64_t bytes, bool alone)
{
    Rune r = rune_at(text, bytes);
    return alone && r.kind & NUMBER ? r.bytes : number_run_bytes(text, bytes, r.kind & NUMBER);
}

static int64_t step_next(const PretokenizerStep *s, const uint8_t *text, int64_t bytes)
{
    switch (s->kind) {
    case SPLIT_SCAN: case SPLIT_SCAN_NO_SPACE: return pretoken_next(s->scan, text, bytes);
    case SPLIT_DIGIT: case SPLIT_DIGITS: return digits_bytes(text, bytes, s->kind == SPLIT_DIGIT);
    default:        return mark_segment_bytes(text, bytes, s->kind == SPLIT_MARKS);
    }
}

/* The end of the next part, which is a match or the text before one; with `invert` the two exchange their
 * roles. */
static Status regex_part(const PretokenizerStep *s, RegexSpace **space, const uint8_t *text, int64_t bytes,
                         int64_t at,
                      int64_t *end, bool *match)
{
    int64_t from, to;
    TRY(regex_next(s->regex, space, text, bytes, at, &from, &to));
    *end   = from > at ? from : to;
    *match = (from == at) != s->invert;
    return OK;
}

/* The piece begin .. at is not passed on until the part after it, at .. end, is known, because that may join
 * it. */
static Status regex_step(const PretokenizerStep *s, RegexSpace **space, const uint8_t *text, int64_t bytes,
                         PretokenFunction *piece,
                       void *context)
{
    bool before = false, match;
    for (int64_t begin = 0, at = 0, end; at < bytes; at = end, before = match) {
        TRY(regex_part(s, space, text, bytes, at, &end, &match));
        bool join = (s->behavior == SPLIT_CONTIGUOUS && match == before) ||
                    (s->behavior == SPLIT_WITH_PREVIOUS && match && !before) ||
                    (s->behavior == SPLIT_WITH_NEXT && before && !match);
        if (at > begin && !join && !(s->behavior == SPLIT_REMOVED && before))
            TRY(piece(context, text + begin, at - begin));
        if (!join) begin = at;
        if (end == bytes && !(s->behavior == SPLIT_REMOVED && match))
            TRY(piece(context, text + begin, end - begin));
    }
    return OK;
}

Status pretokenizer_step(const PretokenizerStep *s, RegexSpace **space, const uint8_t *text, int64_t bytes,
                         PretokenFunction *piece, void *context)
{
    if (s->kind == SPLIT_REGEX) return regex_step(s, space, text, bytes, piece, context);
    for (int64_t at = 0, count; at < bytes; at += count) {
        count = step_next(s, text + at, bytes - at);
        if (s->kind == SPLIT_SCAN_NO_SPACE && rune_at(text + at, count).kind & SPACE) continue;
        TRY(piece(context, text + at, count));
    }
    return OK;
}
