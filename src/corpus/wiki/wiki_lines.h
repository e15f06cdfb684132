#ifndef CORPUS_WIKI_WIKI_LINES_H
#define CORPUS_WIKI_WIKI_LINES_H
/* The lines of wikitext whose inline markup is gone, to paragraphs: in place, since nothing becomes longer.
 * The text ends with "\n".                                                                                           */
#include <stdint.h>

int64_t wiki_lines(char *text, int64_t bytes);          /* returns how many bytes are left */
#endif
