#ifndef CORPUS_WIKI_WORDS_H
#define CORPUS_WIKI_WORDS_H
/* What wikis of different languages call the same thing: rows, compared without regard to case, with _ as a blank. */
#include <stdbool.h>
#include <stdint.h>

bool wiki_word_redirect(const char *text, int64_t bytes);       /* the text begins with #REDIRECT, #OMDIRIGERING ... */
#endif
