#ifndef TEXT_PRETOKENIZE_PATTERN_H
#define TEXT_PRETOKENIZE_PATTERN_H
/* What a component of a tokenizer.json searches for: a fixed text or a regular expression. Matches are found
 * from left to right and do not overlap. They may be empty, as in Hugging Face's library: an empty match is
 * not taken where the match before it ends. */
#include "text/pretokenize/regex.h"

typedef struct {
    Regex *regex;                       /* owned; NULL: `text` */
    char  *text;                        /* owned */
    int64_t bytes;                      /* of text, which may have zeros */
} Pattern;
/* All zero before the first match of a text */
typedef struct { int64_t at, last; bool matched; } PatternSearch;

Status pattern_open_text(Pattern *pattern, const char *text, int64_t bytes);            /* NO_MEMORY */
void   pattern_close    (Pattern *pattern);
/* The next match text[*from .. *to); *found false: there is none, and both are `bytes`. Fails as
 * regex_next. */
Status pattern_next(const Pattern *pattern, RegexSpace **space, PatternSearch *search, const uint8_t *text,
                    int64_t bytes, int64_t *from, int64_t *to, bool *found);
#endif
