#ifndef TEXT_LINES_H
#define TEXT_LINES_H
/* Lines and words of a text as Python's str has them: a line ends with \n, \r\n or \r; words are divided by
 * the characters of which str.isspace() is true. */
#include <stdbool.h>
#include <stdint.h>

typedef struct { const char *text; int64_t bytes; } TextSpan;

/* The next line without its end, which `rest` loses. false: there is none. */
bool     text_line_next(TextSpan *rest, TextSpan *line);
/* Without the blanks at both ends. */
TextSpan text_strip    (TextSpan text);
/* The next word, which `rest` loses. false: there is none. */
bool     text_word_next(TextSpan *rest, TextSpan *word);
#endif
