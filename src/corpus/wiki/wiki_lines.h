#ifndef CORPUS_WIKI_WIKI_LINES_H
#define CORPUS_WIKI_WIKI_LINES_H
/* The second step of stripping wikitext: lines whose inline markup has been removed become paragraphs. It
 * works in place, since no line becomes longer. The rules are described in wiki_text.h. */
#include <stdint.h>

/* The text must end with "\n". Returns the bytes that are left at its beginning. */
int64_t wiki_lines(char *text, int64_t bytes);
#endif
