#include "text/pretokenize/pretoken.h"
#include <stdbool.h>
#include <string.h>
#include "text/unicode.h"

typedef struct { const uint8_t *at, *end; } RuneRun;

static Rune rune_of(RuneRun s, const uint8_t *p) { return rune_at(p, s.end - p); }
static bool newline(uint8_t byte) { return byte == '\n' || byte == '\r'; }

/* Past the characters of any class in `any`, or of none of them: at most `most` characters */
static const uint8_t *past(RuneRun s, const uint8_t *p, int any, int64_t most)
{
    while (p < s.end && most--) {
        Rune r = rune_of(s, p);
        if (!(r.kind & any)) break;
        p += r.bytes;
    }
    return p;
}

static const uint8_t *past_others(RuneRun s, const uint8_t *p)
{
    while (p < s.end) {
        Rune r = rune_of(s, p);
        if (r.kind & (SPACE | LETTER | NUMBER)) break;
        p += r.bytes;
    }
    return p;
}

/* 's 't 'm 'd 're 've 'll, where folded also in capitals, and with the long s: bytes, or 0 */
static int contraction(RuneRun s, const uint8_t *p, bool folded)
{
    int     fold = folded ? 0x20 : 0;
    int64_t left = s.end - p;
    if (left < 2 || *p != '\'') return 0;
    int a = p[1] | fold, b = left > 2 ? p[2] | fold : 0;
    if (p[1] >= 0x80) return folded && left > 2 && p[1] == 0xC5 && p[2] == 0xBF ? 3 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

int pretoken_contraction(const uint8_t *text) { return contraction((RuneRun){ text, text + 3 }, text, false); }

/* \s*[\r\n]+ | \s+(?!\S) | \s+  of a text that begins with white space; the first only where `lines`, and before it
 * \s+$ where `whole` */
static const uint8_t *past_spaces(RuneRun s, bool lines, bool whole)
{
    const uint8_t *p = s.at, *last = p, *line = NULL;
    while (p < s.end) {
        Rune r = rune_of(s, p);
        if (!(r.kind & SPACE)) break;
        last = p;
        p   += r.bytes;
        if (newline(*last)) line = p;
    }
    if (whole && p == s.end) return p;
    if (lines && line)       return line;
    return p == s.end || last == s.at ? p : last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static const uint8_t *next_gpt2(RuneRun s)
{
    int short_form = contraction(s, s.at, false);
    if (short_form) return s.at + short_form;
    const uint8_t *p = s.at + (*s.at == ' ' && s.end - s.at > 1);
    Rune r = rune_of(s, p);
    if (r.kind & LETTER)   return past(s, p, LETTER, INT64_MAX);
    if (r.kind & NUMBER)   return past(s, p, NUMBER, INT64_MAX);
    if (!(r.kind & SPACE)) return past_others(s, p);
    return past_spaces(s, false, true);
}

/* What cl100k, llama3, qwen2 and o200k share behind their words: numbers, others with `tail` after them, white space */
static const uint8_t *next_rest(RuneRun s, Rune first, int digits, const char *tail, bool whole)
{
    if (first.kind & NUMBER) return past(s, s.at, NUMBER, digits);
    const uint8_t *p = s.at + (*s.at == ' ');
    const uint8_t *q = past_others(s, p);
    if (q == p) return past_spaces(s, true, whole);
    while (q < s.end && *q && strchr(tail, *q)) q++;
    return q;
}

static bool may_lead(Rune r, uint8_t byte) { return !(r.kind & (LETTER | NUMBER)) && !newline(byte); }

/* (?i:'s|'t|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|... */
static const uint8_t *next_word(RuneRun s, int digits, bool whole)
{
    int short_form = contraction(s, s.at, true);
    if (short_form) return s.at + short_form;
    Rune first = rune_of(s, s.at);
    const uint8_t *p = may_lead(first, *s.at) ? s.at + first.bytes : s.at;
    const uint8_t *q = past(s, p, LETTER, INT64_MAX);
    return q > p ? q : next_rest(s, first, digits, "\r\n", whole);
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ : where no lower case follows the first run, its last
 * character of both kinds stands for it, and what comes after that is the next piece's. NULL: no match */
static const uint8_t *lower_word(RuneRun s, const uint8_t *p)
{
    const uint8_t *both = NULL;
    while (p < s.end) {
        Rune r = rune_of(s, p);
        if (!(r.kind & UPPER)) break;
        p += r.bytes;
        if (r.kind & LOWER) both = p;
    }
    const uint8_t *q = past(s, p, LOWER, INT64_MAX);
    return q > p ? q : both;
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]* */
static const uint8_t *upper_word(RuneRun s, const uint8_t *p)
{
    const uint8_t *q = past(s, p, UPPER, INT64_MAX);
    return q > p ? past(s, q, LOWER, INT64_MAX) : NULL;
}

/* A lead is tried before none, and lower_word with both before upper_word */
static const uint8_t *next_o200k(RuneRun s)
{
    Rune first = rune_of(s, s.at);
    const uint8_t *led = may_lead(first, *s.at) ? s.at + first.bytes : s.at;
    const uint8_t *q = lower_word(s, led);
    if (!q) q = lower_word(s, s.at);
    if (!q) q = upper_word(s, led);
    if (!q) q = upper_word(s, s.at);
    return q ? q + contraction(s, q, true) : next_rest(s, first, 3, "\r\n/", false);
}

int64_t pretoken_next(PretokenKind kind, const uint8_t *text, int64_t bytes)
{
    RuneRun s = { text, text + bytes };
    switch (kind) {
    case PRETOKEN_CL100K: return next_word(s, 3, true) - text;
    case PRETOKEN_LLAMA3: return next_word(s, 3, false) - text;
    case PRETOKEN_QWEN2:  return next_word(s, 1, false) - text;
    case PRETOKEN_O200K:  return next_o200k(s) - text;
    default:           return next_gpt2(s) - text;
    }
}

/* Each way of writing a pattern that is met in files */
#define SHORT_FORMS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define O200K_CASES(lead) lead "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" SHORT_FORMS "?|" \
                          lead "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" SHORT_FORMS "?|"
static const struct { PretokenKind kind; const char *pattern; } known[] = {
    { PRETOKEN_GPT2,   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_GPT2,   "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_GPT2,   "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s" },
    { PRETOKEN_CL100K, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+"
                    "|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s" },
    { PRETOKEN_LLAMA3, SHORT_FORMS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                    "|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_LLAMA3, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
                    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_QWEN2,  SHORT_FORMS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                    "|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_O200K,  O200K_CASES("[^\\r\\n\\p{L}\\p{N}]?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+"
                    "|\\s+(?!\\S)|\\s+" },
};

PretokenKind pretoken_known(const char *pattern)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].pattern, pattern)) return known[i].kind;
    return PRETOKEN_KINDS;
}
