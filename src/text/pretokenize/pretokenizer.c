/* Splits a text by one pretokenizer step: with a scanner, by characters of a class, or by the matches of a
 * pattern, which are kept, dropped or joined to a neighbour. */
#include "text/pretokenize/pretokenizer.h"
#include <stdlib.h>
#include <string.h>
#include "text/pretokenize/characters.h"
#include "text/unicode.h"

void pretokenizer_step_close(PretokenizerStep *step)
{
    pattern_close(&step->pattern);
    normalizer_step_close(&step->change);
}

void pretokenizer_close(Pretokenizer *pretokenizer)
{
    for (int i = 0; i < pretokenizer->steps; i++) pretokenizer_step_close(&pretokenizer->step[i]);
    *pretokenizer = (Pretokenizer){ 0 };
}

void pretokenizer_space_close(PretokenizerSpace *space)
{
    for (int i = 0; i < PRETOKENIZER_STEPS_MAX; i++) free(space->changed[i].data);
    regex_space_close(space->regex);
    *space = (PretokenizerSpace){ 0 };
}

/* ---- matches, and what a behaviour makes of them ---- */

/* The parts of a text come in order, matches and the text between them. A piece begin .. end is not passed on
 * until the part after it is known, because that may join it. */
typedef struct {
    SplitBehavior behavior;
    Chars   text;
    int64_t begin, end;
    bool    some, before;               /* some: there is a piece begin .. end; before: the last part was a
                                         * match */
    PretokenFunction *piece;
    void   *context;
} Splitter;

static Status piece_put(const Splitter *s, int64_t from, int64_t to)
{
    int64_t first = s->text.first - from;
    if (from == to) return OK;
    return s->piece(s->context, (Chars){ s->text.text + from, to - from,
                                         first < 0 ? 0 : first < to - from ? first : to - from });
}

static bool joins(const Splitter *s, bool match)
{
    if (!s->some) return false;
    switch (s->behavior) {
    case SPLIT_CONTIGUOUS:    return match == s->before;
    case SPLIT_WITH_PREVIOUS: return match && !s->before;
    case SPLIT_WITH_NEXT:     return !match && s->before;
    default:                  return false;
    }
}

static Status splitter_flush(Splitter *s)
{
    Status status = s->some ? piece_put(s, s->begin, s->end) : OK;
    s->some = false;
    return status;
}

static Status part_put(Splitter *s, int64_t from, int64_t to, bool match)
{
    if (!joins(s, match)) {
        TRY(splitter_flush(s));
        s->begin = from;
        s->some  = s->behavior != SPLIT_REMOVED || !match;
    }
    s->end    = to;
    s->before = match;
    return OK;
}

static Status split_by_pattern(const PretokenizerStep *step, PretokenizerSpace *space, Splitter *s)
{
    PatternSearch search = { 0 };
    int64_t at = 0, from, to;
    bool    found = true;
    while (found) {
        TRY(pattern_next(&step->pattern, &space->regex, &search, s->text.text, s->text.bytes, &from, &to,
                         &found));
        if (from > at) TRY(part_put(s, at, from, step->invert));
        if (found) TRY(part_put(s, from, to, !step->invert));
        at = to;
    }
    return splitter_flush(s);
}

static bool is_delimiter(const PretokenizerStep *step, Rune r, const uint8_t *text)
{
    if (r.point == RUNE_BROKEN) return false;
    if (step->kind == SPLIT_PUNCTUATION) return character_is_punctuation(r.point);
    if (step->kind == SPLIT_SPACE)       return r.kind & SPACE;
    return r.bytes == step->pattern.bytes && !memcmp(text, step->pattern.text, (size_t)r.bytes);
}

/* Each delimiter is a match of its own. */
static Status split_by_character(const PretokenizerStep *step, Splitter *s)
{
    int64_t between = 0;
    for (int64_t at = 0; at < s->text.bytes; ) {
        Rune r = rune_at(s->text.text + at, s->text.bytes - at);
        if (is_delimiter(step, r, s->text.text + at)) {
            if (at > between) TRY(part_put(s, between, at, false));
            TRY(part_put(s, at, at + r.bytes, true));
            between = at + r.bytes;
        }
        at += r.bytes;
    }
    if (between < s->text.bytes) TRY(part_put(s, between, s->text.bytes, false));
    return splitter_flush(s);
}

/* ---- pieces that follow each other; each function returns the length of the one at the beginning ---- */

static bool mark_at(const uint8_t *text, int64_t bytes, int64_t at)
{
    return bytes - at >= 3 && !memcmp(text + at, "\xE2\x96\x81", 3);
}

/* It ends before the next mark. runs: a run of marks at the beginning is not split. */
static int64_t mark_segment_bytes(const uint8_t *text, int64_t bytes, bool runs)
{
    int64_t at = 0;
    while (runs && mark_at(text, bytes, at)) at += 3;
    if (at == 0) at = 1;
    while (at < bytes && !mark_at(text, bytes, at)) at++;
    return at;
}

/* The run of characters that are numbers, or are not */
static int64_t number_run_bytes(const uint8_t *text, int64_t bytes, bool numbers)
{
    int64_t at = 0;
    while (at < bytes) {
        Rune r = rune_at(text + at, bytes - at);
        if (character_is_numeric(r.point) != numbers) break;
        at += r.bytes;
    }
    return at;
}

static int64_t digits_bytes(const uint8_t *text, int64_t bytes, bool alone)
{
    Rune r = rune_at(text, bytes);
    bool number = character_is_numeric(r.point);
    return alone && number ? r.bytes : number_run_bytes(text, bytes, number);
}

enum { WORD_SPACE, WORD_LETTERS, WORD_OTHERS };
static int word_class(Rune r)
{
    if (r.point == RUNE_BROKEN)     return WORD_OTHERS;
    if (r.kind & SPACE)             return WORD_SPACE;
    return character_is_word(r.point) ? WORD_LETTERS : WORD_OTHERS;
}

static int64_t words_bytes(const uint8_t *text, int64_t bytes)
{
    Rune    r  = rune_at(text, bytes);
    int     of = word_class(r);
    int64_t at = r.bytes;
    while (at < bytes && word_class(r = rune_at(text + at, bytes - at)) == of) at += r.bytes;
    return at;
}

static int64_t length_bytes(const uint8_t *text, int64_t bytes, int64_t length)
{
    int64_t at = 0;
    while (at < bytes && length-- > 0) at += rune_at(text + at, bytes - at).bytes;
    return at;
}

/* Characters of no script belong to the piece before them. */
static int64_t script_bytes(const uint8_t *text, int64_t bytes)
{
    Rune    r  = rune_at(text, bytes);
    int     of = character_script(r.point);
    int64_t at = r.bytes;
    for (; at < bytes; at += r.bytes) {
        r = rune_at(text + at, bytes - at);
        int script = character_script(r.point);
        if (script >= 0 && script != of) break;
    }
    return at;
}

static int64_t next_bytes(const PretokenizerStep *s, const uint8_t *text, int64_t bytes)
{
    switch (s->kind) {
    case SPLIT_SCAN: case SPLIT_SCAN_NO_SPACE: return pretoken_next(s->scan, text, bytes);
    case SPLIT_DIGIT: case SPLIT_DIGITS: return digits_bytes(text, bytes, s->kind == SPLIT_DIGIT);
    case SPLIT_WORDS:   return words_bytes(text, bytes);
    case SPLIT_LENGTH:  return length_bytes(text, bytes, s->length);
    case SPLIT_SCRIPTS: return script_bytes(text, bytes);
    default:            return mark_segment_bytes(text, bytes, s->kind == SPLIT_MARKS);
    }
}

static bool is_dropped(const PretokenizerStep *s, const uint8_t *text, int64_t bytes)
{
    if (s->kind == SPLIT_SCRIPTS) return character_script(rune_at(text, bytes).point) < 0;
    return (s->kind == SPLIT_SCAN_NO_SPACE || s->kind == SPLIT_WORDS) && rune_at(text, bytes).kind & SPACE;
}

static Status split_in_turn(const PretokenizerStep *step, const Splitter *s)
{
    for (int64_t at = 0, count; at < s->text.bytes; at += count) {
        count = next_bytes(step, s->text.text + at, s->text.bytes - at);
        if (!is_dropped(step, s->text.text + at, count)) TRY(piece_put(s, at, at + count));
    }
    return OK;
}

Status pretokenizer_step(const Pretokenizer *p, int which, PretokenizerSpace *space, Chars text,
                         PretokenFunction *piece, void *context)
{
    const PretokenizerStep *step = &p->step[which];
    Splitter s = { .behavior = step->behavior, .text = text, .piece = piece, .context = context };
    switch (step->kind) {
    case SPLIT_REGEX: return split_by_pattern(step, space, &s);
    case SPLIT_CHARACTER: case SPLIT_PUNCTUATION: case SPLIT_SPACE: return split_by_character(step, &s);
    case CHANGE_PIECE:
        TRY(normalizer_step_apply(&step->change, &space->changed[which], &space->regex, &text));
        return piece(context, text);
    default: return split_in_turn(step, &s);
    }
}
