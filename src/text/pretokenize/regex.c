/* Regular expressions by PCRE2, for tokenizers whose expression has no scanner. Hugging Face's library uses
 * Oniguruma; where both engines know a construct and mean different things by it, the expression is rewritten
 * or refused. */
#include "text/pretokenize/regex.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include "base/array.h"
#include "text/unicode.h"

/* A hostile expression must not stop the program: matching fails after this many backtracking steps. */
enum { MATCH_STEPS_MAX = 10000000, JIT_STACK_MAX = 1 << 20 };
struct Regex { pcre2_code *code; char *pattern; };        /* pattern: as given */

/* ---- translation from Oniguruma's syntax to PCRE2's (Oniguruma's doc/RE) ---- */

/* Within brackets the numbers of Latin-1 are no word characters. */
#define WORD_IN_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD WORD_IN_CLASS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define HEX  "0-9a-fA-F"
#define HEX_DIGITS "0123456789abcdefABCDEF"
/* inside: within a class; NULL: inexpressible */
static const struct { char letter; const char *alone, *inside; } escapes[] = {
    { 'w', "[" WORD "]",       WORD_IN_CLASS },               { 'W', "[^" WORD "]", NULL },
    { 'h', "[" HEX "]",        HEX },                { 'H', "[^" HEX "]",  NULL },
    { 's', "\\p{White_Space}", "\\p{White_Space}" }, { 'S', "\\P{White_Space}", "\\P{White_Space}" },
    { 'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))", "\\b" },
    { 'B', "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))", NULL },
};
enum { ESCAPES = COUNT(escapes) };

/* The translation of a backslash and a letter; "": unchanged, NULL: PCRE2 cannot express it */
static const char *letter_translate(char letter, bool inside)
{
    for (int i = 0; i < ESCAPES; i++)
        if (escapes[i].letter == letter) return inside ? escapes[i].inside : escapes[i].alone;
    return "";
}

static bool has_multiline(const char *at)
{
    size_t flags = at[0] == '(' && at[1] == '?' ? strspn(at + 2, "imx-") : 0;
    return flags && memchr(at + 2, 'm', flags);
}

/* A class within a class and its `&&`, which PCRE2 takes literally, and (?m), which is Oniguruma's name for
 * PCRE2's (?s) */
static bool is_untranslatable(const char *at, bool inside)
{
    return inside ? *at == '[' || !strncmp(at, "&&", 2) : has_multiline(at);
}

static Status pattern_translate(FILE *out, const char *pattern)
{
    bool inside = false;
    for (const char *at = pattern; *at; at++) {
        const char *translated = at[0] == '\\' && at[1] ? letter_translate(at[1], inside) : "";
        if (!translated || is_untranslatable(at, inside))
            return fail(BAD_FILE,
                        "the pattern %.120s: PCRE2, which matches patterns that are not built in, cannot"
                        " express what is at byte %td, %.8s; encode with another program",
                        pattern, at - pattern, at);
        if (at[0] == '\\' && at[1] == 'u' && strspn(at + 2, HEX_DIGITS) >= 4) {         /* \uHHHH */
            fprintf(out, "\\x{%.4s}", at + 2);
            at += 5;
            continue;
        }
        if (*translated) {
            fputs(translated, out);
            at++;
            continue;
        }
        fputc(*at, out);
        if (*at == '\\' && at[1]) fputc(*++at, out);
        else if (inside)          inside = *at != ']';
        else if (*at == '[') {
            inside = true;
            if (at[1] == '^') fputc(*++at, out);
            if (at[1] == ']') fputc(*++at, out);               /* the first ] is a member of the class */
        }
    }
    return OK;
}

static Status compile(Regex **regex, const char *pattern);

Status regex_open(Regex **regex, const char *pattern)
{
    char  *translated = NULL;
    size_t bytes;
    FILE  *out = open_memstream(&translated, &bytes);
    *regex = NULL;
    if (!out) return fail(NO_MEMORY, "no memory for a pattern");
    Status status = pattern_translate(out, pattern);
    if (fclose(out) != 0 && status == OK) status = fail(NO_MEMORY, "no memory for a pattern");
    if (status == OK) status = compile(regex, translated);
    free(translated);
    if (status != OK || ((*regex)->pattern = strdup(pattern))) return status;
    regex_close(*regex);
    *regex = NULL;
    return fail(NO_MEMORY, "no memory for a pattern");
}

/* PCRE2_MULTILINE, because in Ruby's syntax ^ and $ match at lines. */
static Status compile(Regex **regex, const char *pattern)
{
    int        wrong;
    PCRE2_SIZE place;
    unsigned   flags = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_MULTILINE;
    Regex     *r = calloc(1, sizeof *r);
    *regex = r;
    if (!r) return fail(NO_MEMORY, "no memory for a pattern");
    r->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, flags, &wrong, &place, NULL);
    if (r->code) {
        pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);        /* an optimization: may fail */
        return OK;
    }
    PCRE2_UCHAR words[128];
    pcre2_get_error_message(wrong, words, sizeof words);
    regex_close(r);
    *regex = NULL;
    return fail(BAD_FILE, "the pattern %.120s is wrong at byte %zu: %s", pattern, (size_t)place,
                (char *)words);
}

const char *regex_unicode(const char *pattern, char version[24])
{
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
    while ((pattern = strchr(pattern, '\\')) && pattern[1] && !strchr("pPwWbBdDX", pattern[1])) pattern += 2;
    return pattern && pattern[1] && strncmp(version, unicode_version, strcspn(unicode_version, ".")) ? version
        : NULL;
}

void regex_close(Regex *r)
{
    if (!r) return;
    pcre2_code_free(r->code);
    free(r->pattern);
    free(r);
}

bool regex_matches_empty(const Regex *r)
{
    uint32_t empty = 0;
    pcre2_pattern_info(r->code, PCRE2_INFO_MATCHEMPTY, &empty);
    return empty;
}

const char *regex_pattern(const Regex *r) { return r->pattern; }

/* The JIT stack and match data are not shareable between threads, so each has its own. */
struct RegexSpace { pcre2_match_data *data; pcre2_match_context *limits; pcre2_jit_stack *stack; };

void regex_space_close(RegexSpace *s)
{
    if (!s) return;
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->limits);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

static Status space_open(RegexSpace **space)
{
    RegexSpace *s = calloc(1, sizeof *s);
    if (s) {
        s->data   = pcre2_match_data_create(1, NULL);
        s->limits = pcre2_match_context_create(NULL);
        s->stack  = pcre2_jit_stack_create(32768, JIT_STACK_MAX, NULL);
    }
    if (!s || !s->data || !s->limits || !s->stack) {
        regex_space_close(s);
        return fail(NO_MEMORY, "no memory for a pattern");
    }
    pcre2_set_match_limit(s->limits, MATCH_STEPS_MAX);
    pcre2_jit_stack_assign(s->limits, NULL, s->stack);
    *space = s;
    return OK;
}

Status regex_next(const Regex *r, RegexSpace **space, const uint8_t *text, int64_t bytes, int64_t at,
                  int64_t *from, int64_t *to, bool *found)
{
    *from = *to = bytes;
    *found = false;
    if (!*space) TRY(space_open(space));
    RegexSpace *s = *space;
    int matches = pcre2_match(r->code, text, (PCRE2_SIZE)bytes, (PCRE2_SIZE)at, 0, s->data, s->limits);
    if (matches == PCRE2_ERROR_NOMATCH) return OK;
    if (matches < 0)
        return fail(BAD_FILE,
                    "the tokenizer's pattern takes too many backtracking steps at byte %" PRId64, at);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->data);
    *found = true;
    *from  = (int64_t)span[0];
    *to    = (int64_t)span[1];
    return OK;
}
