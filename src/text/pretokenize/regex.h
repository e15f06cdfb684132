#ifndef TEXT_PRETOKENIZE_REGEX_H
#define TEXT_PRETOKENIZE_REGEX_H
/* Regular expressions that have no scanner in text/pretokenize/pretoken.h, matched by PCRE2. They are written
 * for Oniguruma, the engine of Hugging Face's library, and translated where both engines know a construct and
 * mean different things. Invalid UTF-8 matches nothing. Character classes are those of PCRE2's Unicode
 * tables, so a character newer than these may be split differently than by Hugging Face's library. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct Regex Regex;                                          /* a compiled expression; threads may
                                                                      * share it */
typedef struct RegexSpace RegexSpace;                                /* the working memory of a match: one
                                                                      * per thread */
/* BAD_FILE with the position of the error; also for a construct that PCRE2 cannot express. The caller closes
 * *regex, which is NULL after a failure. */
Status regex_open (Regex **regex, const char *pattern);
void   regex_close(Regex *regex);
bool   regex_matches_empty(const Regex *regex);                      /* it may match the empty text */
/* As it was given to regex_open; it belongs to the expression. */
const char *regex_pattern(const Regex *regex);
/* PCRE2's Unicode version, written to `version`, where the pattern uses character classes and that version is
 * not the one of text/unicode.h; otherwise NULL. */
const char *regex_unicode(const char *pattern, char version[24]);
/* The first match in text[at .. bytes], which may be empty, as byte offsets text[*from .. *to). *found false:
 * there is none, and both are `bytes`. BAD_FILE where matching exceeds its limit of backtracking steps.
 * *space is NULL at first and is allocated here. */
Status regex_next(const Regex *regex, RegexSpace **space, const uint8_t *text, int64_t bytes, int64_t at,
                  int64_t *from, int64_t *to, bool *found);
void   regex_space_close(RegexSpace *space);
#endif
