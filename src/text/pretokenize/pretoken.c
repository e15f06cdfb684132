/* Hand-written scanners for the regular expressions of well-known tokenizers. The expression, or its part, is
 * above each function; alternatives of a regular expression are tried in order, and the scanners follow that
 * order. */
#include "text/pretokenize/pretoken.h"
#include <stdbool.h>
#include <string.h>
#include "base/array.h"
#include "text/unicode.h"

typedef struct { const uint8_t *at, *end; } RuneRun;            /* the text that remains */

static Rune rune_of(RuneRun s, const uint8_t *p) { return rune_at(p, s.end - p); }
static bool is_newline(uint8_t byte) { return byte == '\n' || byte == '\r'; }

/* The end of the run from p on of at most `most` characters of a class in `any` */
static const uint8_t *skip_class(RuneRun s, const uint8_t *p, int any, int64_t most)
{
    while (p < s.end && most--) {
        Rune r = rune_of(s, p);
        if (!(r.kind & any)) break;
        p += r.bytes;
    }
    return p;
}

/* The end of the run from p on of characters that are no white space, letters or numbers */
static const uint8_t *skip_others(RuneRun s, const uint8_t *p)
{
    while (p < s.end) {
        Rune r = rune_of(s, p);
        if (r.kind & (SPACE | LETTER | NUMBER)) break;
        p += r.bytes;
    }
    return p;
}

/* The length of 's 't 'm 'd 're 've 'll at p, or 0. folded: case-insensitive, which includes the long s
 * U+017F. */
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

int pretoken_contraction(const uint8_t *text)
{
    return contraction((RuneRun){ text, text + 3 }, text, false);
}

/* \s*[\r\n]+ | \s+(?!\S) | \s+  for a text that begins with white space. The first alternative only where
 * `lines`; where `whole`, \s+$ is tried before it. The second leaves the last white space to the word after
 * it. */
static const uint8_t *spaces_end(RuneRun s, bool lines, bool whole)
{
    const uint8_t *p = s.at, *last = p, *line = NULL;
    while (p < s.end) {
        Rune r = rune_of(s, p);
        if (!(r.kind & SPACE)) break;
        last = p;
        p   += r.bytes;
        if (is_newline(*last)) line = p;
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
    if (r.kind & LETTER)   return skip_class(s, p, LETTER, INT64_MAX);
    if (r.kind & NUMBER)   return skip_class(s, p, NUMBER, INT64_MAX);
    if (!(r.kind & SPACE)) return skip_others(s, p);
    return spaces_end(s, false, true);
}

/* The alternatives that cl100k, llama3, qwen2 and o200k share after words: \p{N}{1,digits}, then
 *  ?[^\s\p{L}\p{N}]+[tail]*, then white space */
static const uint8_t *next_rest(RuneRun s, Rune first, int digits, const char *tail, bool whole)
{
    if (first.kind & NUMBER) return skip_class(s, s.at, NUMBER, digits);
    const uint8_t *p = s.at + (*s.at == ' ');
    const uint8_t *q = skip_others(s, p);
    if (q == p) return spaces_end(s, true, whole);
    while (q < s.end && *q && strchr(tail, *q)) q++;
    return q;
}

/* [^\r\n\p{L}\p{N}]?, the optional character before the letters of a word */
static bool is_prefix(Rune r, uint8_t byte) { return !(r.kind & (LETTER | NUMBER)) && !is_newline(byte); }

/* (?i:'s|'t|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|... */
static const uint8_t *next_word(RuneRun s, int digits, bool whole)
{
    int short_form = contraction(s, s.at, true);
    if (short_form) return s.at + short_form;
    Rune first = rune_of(s, s.at);
    const uint8_t *p = is_prefix(first, *s.at) ? s.at + first.bytes : s.at;
    const uint8_t *q = skip_class(s, p, LETTER, INT64_MAX);
    return q > p ? q : next_rest(s, first, digits, "\r\n", whole);
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+  NULL: no match. Where no lower case follows the
 * first run, the expression backtracks to the last character that is in both classes, so the match ends after
 * it. */
static const uint8_t *lower_word(RuneRun s, const uint8_t *p)
{
    const uint8_t *both = NULL;
    while (p < s.end) {
        Rune r = rune_of(s, p);
        if (!(r.kind & UPPER)) break;
        p += r.bytes;
        if (r.kind & LOWER) both = p;
    }
    const uint8_t *q = skip_class(s, p, LOWER, INT64_MAX);
    return q > p ? q : both;
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]* */
static const uint8_t *upper_word(RuneRun s, const uint8_t *p)
{
    const uint8_t *q = skip_class(s, p, UPPER, INT64_MAX);
    return q > p ? skip_class(s, q, LOWER, INT64_MAX) : NULL;
}

/* The optional prefix is greedy, so each of the two word forms is tried with it first, and lower_word before
 * upper_word. */
static const uint8_t *next_o200k(RuneRun s, int digits, bool short_forms)
{
    Rune first = rune_of(s, s.at);
    const uint8_t *prefixed = is_prefix(first, *s.at) ? s.at + first.bytes : s.at;
    const uint8_t *q = lower_word(s, prefixed);
    if (!q) q = lower_word(s, s.at);
    if (!q) q = upper_word(s, prefixed);
    if (!q) q = upper_word(s, s.at);
    if (!q) return next_rest(s, first, digits, "\r\n/", false);
    return short_forms ? q + contraction(s, q, true) : q;
}

/* [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
 * ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ The end of the match that begins at p; NULL: none does */
static const uint8_t *match_deepseek(RuneRun s, const uint8_t *p)
{
    enum { LETTER_OR_MARK = LETTER | UPPER | LOWER };
    Rune first = rune_of(s, p), r;
    bool symbol = unicode_is_symbol(first.point);
    const uint8_t *q = p + 1;
    while (symbol && *p < 0x80 && q < s.end && (*q | 0x20) >= 'a' && (*q | 0x20) <= 'z') q++;
    if (q > p + 1) return q;
    const uint8_t *prefixed = symbol || first.kind & LETTER || is_newline(*p) ? p : p + first.bytes;
    if ((q = skip_class(s, prefixed, LETTER_OR_MARK, INT64_MAX)) > prefixed) return q;
    if ((q = skip_class(s, p,   LETTER_OR_MARK, INT64_MAX)) > p)   return q;
    const uint8_t *from = q = p + (*p == ' ');
    while (q < s.end && unicode_is_symbol((r = rune_of(s, q)).point)) q += r.bytes;
    if (q == from) return first.kind & SPACE ? spaces_end((RuneRun){ p, s.end }, true, false) : NULL;
    while (q < s.end && is_newline(*q)) q++;
    return q;
}

/* A match, or else the text up to the next one */
static const uint8_t *next_deepseek(RuneRun s)
{
    const uint8_t *p = s.at, *q = match_deepseek(s, p);
    if (q) return q;
    do p += rune_of(s, p).bytes; while (p < s.end && !match_deepseek(s, p));
    return p;
}

/* \p{N}{1,3}, and the text between such numbers */
static const uint8_t *next_numbers(RuneRun s)
{
    const uint8_t *p = skip_class(s, s.at, NUMBER, 3);
    if (p > s.at) return p;
    for (Rune r; p < s.end && !((r = rune_of(s, p)).kind & NUMBER); ) p += r.bytes;
    return p;
}

/* 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+, and runs of white space, which the caller
 * drops */
static const uint8_t *next_clip(RuneRun s)
{
    int short_form = contraction(s, s.at, false), kind = rune_of(s, s.at).kind & (LETTER | NUMBER | SPACE);
    if (short_form) return s.at + short_form;
    return kind ? skip_class(s, s.at, kind, kind == NUMBER ? 1 : INT64_MAX) : skip_others(s, s.at);
}

/* In Oniguruma's `[^(\s|[.,!?...])]` the inner brackets are a nested class, so it means: none of ( white
 * space | . , ! ? ... ). word: the end of the run of such characters; else of the run of all others. */
static const uint8_t *skip_bloom(RuneRun s, const uint8_t *p, bool word)
{
    static const uint32_t ends[] = { '(', '|', '.', ',', '!', '?', 0x2026, 0x3002, 0xFF0C, 0x3001, 0x964,
                                     0x6D4, 0x60C, ')' };
    while (p < s.end) {
        Rune r = rune_of(s, p);
        bool part = !(r.kind & SPACE);
        for (size_t i = 0; i < COUNT(ends); i++) part &= r.point != ends[i];
        if (part != word) break;
        p += r.bytes;
    }
    return p;
}

/*  ?[^(\s|[.,!?...])]+, and the text between matches, without the space that belongs to the next match */
static const uint8_t *next_bloom(RuneRun s)
{
    const uint8_t *p = s.at + (*s.at == ' '), *q = skip_bloom(s, p, true);
    if (q > p) return q;
    q = skip_bloom(s, s.at, false);
    return q < s.end && q[-1] == ' ' ? q - 1 : q;
}

int64_t pretoken_next(PretokenKind kind, const uint8_t *text, int64_t bytes)
{
    RuneRun s = { text, text + bytes };
    switch (kind) {
    case PRETOKEN_CL100K: return next_word(s, 3, true) - text;
    case PRETOKEN_LLAMA3: return next_word(s, 3, false) - text;
    case PRETOKEN_QWEN2:  return next_word(s, 1, false) - text;
    case PRETOKEN_O200K:    return next_o200k(s, 3, true) - text;
    case PRETOKEN_TEKKEN:   return next_o200k(s, 1, false) - text;
    case PRETOKEN_DEEPSEEK: return next_deepseek(s) - text;
    case PRETOKEN_NUMBERS:  return next_numbers(s) - text;
    case PRETOKEN_CLIP:     return next_clip(s) - text;
    case PRETOKEN_BLOOM:    return next_bloom(s) - text;
    default:           return next_gpt2(s) - text;
    }
}

/* The expressions by which tokenizer files name a scanner, in each spelling that published files have */
#define SHORT_FORMS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define CASES(forms) LEAD "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" forms "|" \
                     LEAD "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" forms "|"
static const struct { PretokenKind kind; const char *pattern; } known[] = {
    { PRETOKEN_GPT2,   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_GPT2,   "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_GPT2,   "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s" },
    { PRETOKEN_CL100K, SHORT_FORMS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+\\z"
                    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s" },
    { PRETOKEN_CL100K, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+"
                    "|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s" },
    { PRETOKEN_LLAMA3, SHORT_FORMS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                    "|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_LLAMA3, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
                    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_QWEN2,  SHORT_FORMS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                    "|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_O200K,  CASES(SHORT_FORMS "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_TEKKEN, CASES("") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_DEEPSEEK, "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                      "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
    { PRETOKEN_NUMBERS, "\\p{N}{1,3}" },
    { PRETOKEN_CLIP,   "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+" },
    { PRETOKEN_BLOOM,  " ?[^(\\s|[.,!?…。，、।۔،])]+" },
};

/* Some files have the characters CR and LF themselves where the table has \r and \n. */
static bool same_pattern(const char *known_one, const char *given)
{
    for (; *given; given++) {
        if (*given == '\n' || *given == '\r') {
            if (*known_one++ != '\\') return false;
            if (*known_one++ != (*given == '\n' ? 'n' : 'r')) return false;
        } else if (*known_one++ != *given) return false;
    }
    return !*known_one;
}

const char *pretoken_pattern(PretokenKind kind)
{
    for (size_t i = 0; i < COUNT(known); i++)
        if (known[i].kind == kind) return known[i].pattern;
    return NULL;
}

PretokenKind pretoken_of_pattern(const char *pattern)
{
    for (size_t i = 0; i < COUNT(known); i++)
        if (same_pattern(known[i].pattern, pattern)) return known[i].kind;
    return PRETOKEN_KINDS;
}
