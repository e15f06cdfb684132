/* Finds the matches of a fixed text or a regular expression, empty ones included. */
#include "text/pretokenize/pattern.h"
#include <stdlib.h>
#include <string.h>
#include "text/unicode.h"

Status pattern_open_text(Pattern *pattern, const char *text, int64_t bytes)
{
    *pattern = (Pattern){ .text = malloc((size_t)bytes + 1), .bytes = bytes };
    if (!pattern->text) return fail(NO_MEMORY, "no memory for a pattern");
    memcpy(pattern->text, text, (size_t)bytes);
    pattern->text[bytes] = 0;
    return OK;
}

void pattern_close(Pattern *pattern)
{
    regex_close(pattern->regex);
    free(pattern->text);
    *pattern = (Pattern){ 0 };
}

static Status match_at(const Pattern *p, RegexSpace **space, const uint8_t *text, int64_t bytes, int64_t at,
                       int64_t *from, int64_t *to, bool *found)
{
    if (p->regex) return regex_next(p->regex, space, text, bytes, at, from, to, found);
    const uint8_t *place = p->bytes ? memmem(text + at, (size_t)(bytes - at), p->text, (size_t)p->bytes)
                                    : text + at;
    *found = place != NULL;
    *from  = place ? place - text : bytes;
    *to    = place ? *from + p->bytes : bytes;
    return OK;
}

Status pattern_next(const Pattern *p, RegexSpace **space, PatternSearch *s, const uint8_t *text,
                    int64_t bytes, int64_t *from, int64_t *to, bool *found)
{
    for (*found = false, *from = *to = bytes; s->at <= bytes; ) {
        TRY(match_at(p, space, text, bytes, s->at, from, to, found));
        if (!*found) break;
        if (*from < *to || !s->matched || s->last != *to) {
            *s = (PatternSearch){ .at = *to, .last = *to, .matched = true };
            return OK;
        }
        s->at += s->at < bytes ? rune_at(text + s->at, bytes - s->at).bytes : 1;
    }
    s->at  = bytes + 1;
    *found = false;
    *from  = *to = bytes;
    return OK;
}
