#ifndef TEXT_PRETOKENIZE_REGEX_H
#define TEXT_PRETOKENIZE_REGEX_H
/* Patterns that no scanner of text/pretokenize/pretoken.h knows, by PCRE2. Broken UTF-8 matches nothing. Classes of
 * characters are those of PCRE2's own Unicode tables, so characters newer than those may be cut otherwise
 * than by Hugging Face's library. */
#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct Regex Regex;
typedef struct RegexSpace RegexSpace;                                /* what a match works in: one per thread */
Status regex_open (Regex **regex, const char *pattern);              /* BAD_FILE says where it is wrong; of one that can match nothing too */
void   regex_close(Regex *regex);
/* The version of Unicode by which PCRE2 matches, where the pattern asks for classes of characters and it
 * is not the version of text/unicode.h; else NULL */
const char *regex_unicode(const char *pattern, char version[24]);
/* The first match in text[at .. bytes) that is not empty: *from and *to; where there is none both are `bytes`. BAD_FILE
 * where the pattern goes back and forth too long. Threads may share a Regex. *space: NULL at
 * first, made here                                                                                                     */
Status regex_next(const Regex *regex, RegexSpace **space, const uint8_t *text, int64_t bytes, int64_t at, int64_t *from,
                  int64_t *to);
void   regex_space_close(RegexSpace *space);
#endif
