/* The rules that look at lines, in the order of C4's code, since one line is judged by one rule alone. */
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "corpus/quality/quality_internal.h"

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static char lower(char c)    { return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c; }

/* Does it stand there, with capitals or without? part: in small letters */
static bool is_part(const char *text, const char *part, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        if (lower(text[i]) != part[i]) return false;
    return true;
}

/* Asked for where both its ends are letters that fit, which is seen of 16 places at once */
static bool says(const char *text, int64_t bytes, const char *part)
{
    int64_t length = (int64_t)strlen(part), at = 0;
#ifdef __SSE2__
    const __m128i first = _mm_set1_epi8(part[0]), last = _mm_set1_epi8(part[length - 1]), small = _mm_set1_epi8(0x20);
    for (; at + length + 15 <= bytes; at += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(text + at));
        __m128i z = _mm_loadu_si128((const __m128i *)(const void *)(text + at + length - 1));
        __m128i both = _mm_and_si128(_mm_cmpeq_epi8(_mm_or_si128(a, small), first), _mm_cmpeq_epi8(_mm_or_si128(z, small), last));
        for (uint32_t bits = (uint32_t)_mm_movemask_epi8(both); bits; bits &= bits - 1)
            if (is_part(text + at + __builtin_ctz(bits), part, length)) return true;
    }
#endif
    for (; at + length <= bytes; at++)
        if (is_part(text + at, part, length)) return true;
    return false;
}

static bool says_policy(const char *text, int64_t bytes)
{
    static const char *const part[] = { "cookie policy", "uses cookies", "use of cookies", "use cookies" };
    if (says(text, bytes, "terms of use") || says(text, bytes, "privacy policy")) return true;
    if (!says(text, bytes, "cookie")) return false;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (says(text, bytes, part[i])) return true;
    return false;
}

/* How many bytes a note such as [12], [edit], [citation needed] takes; 0: none */
static int64_t citation(const char *text, int64_t bytes)
{
    static const char *const named[] = { "[edit]", "[citation needed]" };
    int64_t at = 1;
    for (int i = 0; i < 2; i++) {
        int64_t length = (int64_t)strlen(named[i]);
        if (bytes >= length && !memcmp(text, named[i], (size_t)length)) return length;
    }
    while (at < bytes && text[at] >= '0' && text[at] <= '9') at++;
    return at < bytes && text[at] == ']' ? at + 1 : 0;
}

/* Blanks which they leave at either end go as well. */
static int64_t citations_drop(char *text, int64_t bytes, int64_t *count)
{
    int64_t to = 0, before = *count;
    for (int64_t at = 0; at < bytes; ) {
        int64_t gone = text[at] == '[' ? citation(text + at, bytes - at) : 0;
        *count += gone > 0;
        at     += gone;
        if (gone || (!to && *count > before && is_blank(text[at]))) at += !gone;
        else text[to++] = text[at++];
    }
    while (*count > before && to && is_blank(text[to - 1])) to--;
    return to;
}

static bool ends_well(const char *text, int64_t bytes)
{
    static const char *const end[] = { ".", "?", "!", "\"", "'", "\u201D", "\u2019", "\u201C", "\u2018", "\u00BB", "\u203A" };
    if (bytes >= 3 && !memcmp(text + bytes - 3, "...", 3)) return false;
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        int64_t length = (int64_t)strlen(end[i]);
        if (bytes >= length && !memcmp(text + bytes - length, end[i], (size_t)length)) return true;
    }
    return false;
}

/* Are there at least so many words? */
static bool has_words(const char *text, int64_t bytes, double least)
{
    double words = 0;
    for (int64_t at = 0; at < bytes && words < least; ) {
        while (at < bytes && is_blank(text[at])) at++;
        words += at < bytes;
        while (at < bytes && !is_blank(text[at])) at++;
    }
    return words >= least;
}

/* A word of more characters? */
static bool has_long_word(const char *text, int64_t bytes, double most)
{
    double chars = 0;
    if ((double)bytes <= most) return false;
    for (int64_t at = 0; at < bytes; at++) {
        if (is_blank(text[at])) chars = 0;
        else if ((text[at] & 0xC0) != 0x80 && ++chars > most) return true;
    }
    return false;
}

/* Marks that may stand behind the end of a sentence, before the blank */
static int64_t closers(const char *text, int64_t bytes)
{
    static const char *const mark[] = { ".", "!", "?", "\"", "'", ")", "\u201D", "\u2019", "\u00BB", "\u203A", "\u201C" };
    int64_t at = 0;
    for (size_t i = 0; i < sizeof mark / sizeof *mark; ) {
        int64_t length = (int64_t)strlen(mark[i]);
        bool    same   = bytes - at >= length && !memcmp(text + at, mark[i], (size_t)length);
        at += same ? length : 0;
        i   = same ? 0 : i + 1;
    }
    return at;
}

/* Sentences of a line: ends of them with a blank behind and no small letter after that, and what is left */
static int64_t sentences(const char *text, int64_t bytes)
{
    int64_t count = 0, at = 0, behind = 0;
    while (at < bytes) {
        char c = text[at++];
        if (c != '.' && c != '!' && c != '?') continue;
        at += closers(text + at, bytes - at);
        if (at < bytes && !is_blank(text[at])) continue;
        while (at < bytes && is_blank(text[at])) at++;
        if (at < bytes && text[at] >= 'a' && text[at] <= 'z') continue;
        count++;
        behind = at;
    }
    return count + (behind < bytes);
}

/* What to look for in lines: what the rules want and the text says at all */
typedef struct { bool lorem, javascript, curly, policy; } Wanted;

static Wanted wanted(const QualityPlan *p, const Buffer *t)
{
    return (Wanted){ .lorem      = p->on[QUALITY_LOREM] && says(t->text, t->bytes, "lorem ipsum"),
                     .javascript = p->on[QUALITY_JAVASCRIPT] && says(t->text, t->bytes, "javascript"),
                     .curly      = p->on[QUALITY_CURLY] && t->bytes && memchr(t->text, '{', (size_t)t->bytes),
                     .policy     = p->on[QUALITY_POLICY] && says_policy(t->text, t->bytes) };
}

/* The rule that takes the line, or -1 */
static int line_falls(const QualityPlan *p, Wanted want, const char *text, int64_t bytes, bool short_of_words, LinesSeen *seen)
{
    if (p->on[QUALITY_LINE_END] && !ends_well(text, bytes)) return QUALITY_LINE_END;
    if (short_of_words) return QUALITY_LINE_WORDS;
    if (want.lorem && says(text, bytes, "lorem ipsum")) seen->lorem = true;
    if (want.javascript && says(text, bytes, "javascript")) return QUALITY_JAVASCRIPT;
    if (want.curly && memchr(text, '{', (size_t)bytes)) seen->curly = true;
    if (want.policy && says_policy(text, bytes)) return QUALITY_POLICY;
    return -1;
}

/* One line, judged where it stands; returns the bytes that stay of it, or -1. Words are counted before notes go. */
static int64_t line_judge(const QualityPlan *p, Wanted want, char *text, int64_t bytes, QualityVerdict *v, LinesSeen *seen)
{
    bool few  = p->on[QUALITY_LINE_WORDS] && !has_words(text, bytes, p->limit[QUALITY_LINE_WORDS]);
    int  rule = p->on[QUALITY_LONG_WORD] && has_long_word(text, bytes, p->limit[QUALITY_LONG_WORD]) ? QUALITY_LONG_WORD : -1;
    if (rule < 0) {
        if (p->on[QUALITY_CITATIONS] && bytes > 0 && memchr(text, '[', (size_t)bytes))
            bytes = citations_drop(text, bytes, &v->lines[QUALITY_CITATIONS]);
        rule = line_falls(p, want, text, bytes, few, seen);
    }
    if (rule >= 0) {
        v->lines[rule]++;
        return -1;
    }
    if (p->on[QUALITY_SENTENCES] && seen->sentences < seen->enough) seen->sentences += sentences(text, bytes);
    return bytes;
}

static bool any_line_rule(const QualityPlan *p)
{
    for (int r = 0; r < QUALITY_RULES; r++)
        if (p->on[r] && quality_row[r].side == QUALITY_LINE) return true;
    return false;
}

/* Where lines can fall they also lose the blanks around them; where none can, all stays as it is. */
void quality_lines(const QualityPlan *p, Buffer *text, QualityVerdict *v, LinesSeen *seen)
{
    bool    change = any_line_rule(p);
    Wanted  want   = wanted(p, text);
    int64_t to = 0, next;
    for (int64_t at = 0; at < text->bytes; at = next) {
        const char *found = memchr(text->text + at, '\n', (size_t)(text->bytes - at));
        int64_t end = found ? found - text->text : text->bytes;
        next = end + 1;
        while (at < end && is_blank(text->text[at]))      at++;
        while (end > at && is_blank(text->text[end - 1])) end--;
        int64_t kept = line_judge(p, want, text->text + at, end - at, v, seen);
        if (kept < 0 || !change) continue;
        if (to) text->text[to++] = '\n';
        memmove(text->text + to, text->text + at, (size_t)kept);
        to += kept;
    }
    if (change) text->bytes = to;
}
