/* The rules about single lines, and those that only need to see them. They are applied in the order
 * of C4's published code, because a line is counted under one rule only: the first that removes it. */
#include "base/array.h"
#include "base/bytes16.h"
#include "corpus/quality/quality_internal.h"

static char lower(char c)    { return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c; }

/* Whether the text begins with `part`, which is in lower case; ASCII case makes no difference. */
static bool equals_folded(const char *text, const char *part, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        if (lower(text[i]) != part[i]) return false;
    return true;
}

/* Whether `part` (lower case, beginning and ending in a letter) occurs in any case. 16 positions at a time
 * are compared in their first and last letter; only where both match the rest is compared. */
static bool contains(const char *text, int64_t bytes, const char *part)
{
    int64_t length = (int64_t)strlen(part), at = 0;
    const uint8_t first = (uint8_t)part[0], last = (uint8_t)part[length - 1];
    for (; at + length + 15 <= bytes; at += 16) {
        Bytes16 a = bytes16_at(text + at) | 0x20, z = bytes16_at(text + at + length - 1) | 0x20;
        for (uint32_t bits = bytes16_bits((a == first) & (z == last)); bits; bits &= bits - 1)
            if (equals_folded(text + at + __builtin_ctz(bits), part, length)) return true;
    }
    for (; at + length <= bytes; at++)
        if (equals_folded(text + at, part, length)) return true;
    return false;
}

/* "cookie" is looked for before the phrases with it, as nearly all texts have none. */
static bool contains_policy(const char *text, int64_t bytes)
{
    static const char *const part[] = { "cookie policy", "uses cookies", "use of cookies", "use cookies" };
    if (contains(text, bytes, "terms of use") || contains(text, bytes, "privacy policy")) return true;
    if (!contains(text, bytes, "cookie")) return false;
    for (size_t i = 0; i < COUNT(part); i++)
        if (contains(text, bytes, part[i])) return true;
    return false;
}

/* The length of a citation mark such as [12], [edit] or [citation needed]; 0: there is none. */
static int64_t citation_bytes(const char *text, int64_t bytes)
{
    static const char *const named[] = { "[edit]", "[citation needed]" };
    int64_t at = 1;
    for (int i = 0; i < 2; i++)
        if (has_beginning(text, bytes, named[i])) return (int64_t)strlen(named[i]);
    while (at < bytes && text[at] >= '0' && text[at] <= '9') at++;
    return at < bytes && text[at] == ']' ? at + 1 : 0;
}

/* Removes the citation marks of a line in place, and the white space that they leave at either end.
 * Returns the new length. */
static int64_t citations_remove(char *text, int64_t bytes, int64_t *count)
{
    int64_t to = 0, before = *count;
    for (int64_t at = 0; at < bytes; ) {
        int64_t removed = text[at] == '[' ? citation_bytes(text + at, bytes - at) : 0;
        *count += removed > 0;
        at     += removed;
        if (removed || (!to && *count > before && is_blank(text[at]))) at += !removed;
        else text[to++] = text[at++];
    }
    while (*count > before && to && is_blank(text[to - 1])) to--;
    return to;
}

/* The closing quotation marks of all languages of languages.def count; three dots do not. */
static bool ends_in_punctuation(const char *text, int64_t bytes)
{
    static const char *const end[] = { ".",      "?",      "!",      "\"",     "'",     "\u201D",
                                      "\u2019", "\u201C", "\u2018", "\u00BB", "\u203A" };
    if (has_ending(text, bytes, "...")) return false;
    for (size_t i = 0; i < COUNT(end); i++)
        if (has_ending(text, bytes, end[i])) return true;
    return false;
}

/* Whether the line has at least so many words; stops reading when it has. */
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

/* Whether a word has more than `most` characters. */
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

/* The length of the marks that may follow the end of a sentence before white space. */
static int64_t closing_marks(const char *text, int64_t bytes)
{
    static const char *const mark[] = { ".",      "!",      "?",      "\"",     "'",     ")",
                                       "\u201D", "\u2019", "\u00BB", "\u203A", "\u201C" };
    int64_t at = 0;
    for (size_t i = 0; i < COUNT(mark); ) {
        bool same = has_beginning(text + at, bytes - at, mark[i]);
        at += same ? (int64_t)strlen(mark[i]) : 0;
        i   = same ? 0 : i + 1;
    }
    return at;
}

/* The number of sentences of a line: a sentence ends at . ! or ? and closing marks, if white space and no
 * lower-case letter follow; what is left at the end counts as one more. C4 uses NLTK's trained splitter;
 * this approximates it without a model. */
static int64_t sentences(const char *text, int64_t bytes)
{
    int64_t count = 0, at = 0, after = 0;
    while (at < bytes) {
        char c = text[at++];
        if (c != '.' && c != '!' && c != '?') continue;
        at += closing_marks(text + at, bytes - at);
        if (at < bytes && !is_blank(text[at])) continue;
        while (at < bytes && is_blank(text[at])) at++;
        if (at < bytes && text[at] >= 'a' && text[at] <= 'z') continue;
        count++;
        after = at;
    }
    return count + (after < bytes);
}

/* What has to be looked for in each line: what the rules ask for and the text contains at all, which most
 * texts do not. */
typedef struct { bool lorem, javascript, curly, policy; } LineSearch;

static LineSearch line_search(const QualityPlan *p, const Buffer *t)
{
    return (LineSearch){ .lorem      = p->on[QUALITY_LOREM] && contains(t->text, t->bytes, "lorem ipsum"),
                     .javascript = p->on[QUALITY_JAVASCRIPT] && contains(t->text, t->bytes, "javascript"),
                     .curly      = p->on[QUALITY_CURLY] && t->bytes && memchr(t->text, '{', (size_t)t->bytes),
                     .policy     = p->on[QUALITY_POLICY] && contains_policy(t->text, t->bytes) };
}

/* The rule that removes the line, or -1. Notes in `seen` what document rules look for. */
static int rule_against(const QualityPlan *p, LineSearch search, const char *text, int64_t bytes,
                        bool short_of_words, LinesSeen *seen)
{
    if (p->on[QUALITY_LINE_END] && !ends_in_punctuation(text, bytes)) return QUALITY_LINE_END;
    if (short_of_words) return QUALITY_LINE_WORDS;
    if (search.lorem && contains(text, bytes, "lorem ipsum")) seen->lorem = true;
    if (search.javascript && contains(text, bytes, "javascript")) return QUALITY_JAVASCRIPT;
    if (search.curly && memchr(text, '{', (size_t)bytes)) seen->curly = true;
    if (search.policy && contains_policy(text, bytes)) return QUALITY_POLICY;
    return -1;
}

/* Applies the rules to one line in place; returns the bytes that are left of it, or -1 if it is removed.
 * Words are counted before citation marks are removed, as C4 does. */
static int64_t line_apply(const QualityPlan *p, LineSearch search, char *text, int64_t bytes,
                          QualityVerdict *v, LinesSeen *seen)
{
    bool few  = p->on[QUALITY_LINE_WORDS] && !has_words(text, bytes, p->limit[QUALITY_LINE_WORDS]);
    int rule = p->on[QUALITY_LONG_WORD] && has_long_word(text, bytes, p->limit[QUALITY_LONG_WORD])
                   ? QUALITY_LONG_WORD
                   : -1;
    if (rule < 0) {
        if (p->on[QUALITY_CITATIONS] && bytes > 0 && memchr(text, '[', (size_t)bytes))
            bytes = citations_remove(text, bytes, &v->lines[QUALITY_CITATIONS]);
        rule = rule_against(p, search, text, bytes, few, seen);
    }
    if (rule >= 0) {
        v->lines[rule]++;
        return -1;
    }
    if (p->on[QUALITY_SENTENCES] && seen->sentences < seen->enough) seen->sentences += sentences(text, bytes);
    return bytes;
}

/* Lines that are kept also lose the white space around them, as in C4; without a LINE rule the text is not
 * changed at all. */
void quality_lines(const QualityPlan *p, Buffer *text, QualityVerdict *v, LinesSeen *seen)
{
    bool       change = false;
    LineSearch search = line_search(p, text);
    int64_t    to = 0, next;
    for (int r = 0; r < QUALITY_RULES; r++) change |= p->on[r] && quality_row[r].side == QUALITY_LINE;
    for (int64_t at = 0; at < text->bytes; at = next) {
        const char *found = memchr(text->text + at, '\n', (size_t)(text->bytes - at));
        int64_t end = found ? found - text->text : text->bytes;
        next = end + 1;
        while (at < end && is_blank(text->text[at]))      at++;
        while (end > at && is_blank(text->text[end - 1])) end--;
        int64_t kept = line_apply(p, search, text->text + at, end - at, v, seen);
        if (kept < 0 || !change) continue;
        if (to) text->text[to++] = '\n';
        memmove(text->text + to, text->text + at, (size_t)kept);
        to += kept;
    }
    if (change) text->bytes = to;
}
