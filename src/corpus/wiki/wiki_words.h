#ifndef CORPUS_WIKI_WIKI_WORDS_H
#define CORPUS_WIKI_WIKI_WORDS_H
/* What wikis of different languages call the same thing: rows, compared without regard to case, with _ as a blank. */
#include <stdbool.h>
#include <stdint.h>

bool wiki_word_redirect(const char *text, int64_t bytes);       /* the text begins with #REDIRECT, #OMDIRIGERING ... */
/* Of "Fil" in [[Fil:x]]: a picture, a category, another language; such a link is not part of the text */
bool wiki_word_hidden  (const char *prefix, int64_t bytes);
bool wiki_word_end     (const char *heading, int64_t bytes);    /* a section of references, links and the like */

/* A template that carries text. Its arguments by place, from first to last, joined by `between`, with `before` and `behind`
 * around them. last 0: `before` stands for it. */
typedef struct { const char *name; int first, last; const char *before, *between, *behind; } WikiTemplate;
enum { WIKI_LAST = 99, WIKI_CONVERT = 98 };         /* as last: only the last of them; a number and its unit, or a range of it */
const WikiTemplate *wiki_word_template(const char *name, int64_t bytes);    /* NULL: it goes */
bool wiki_word_range(const char *word, int64_t bytes);                      /* "to" in {{convert|5|to|7|km}} */
#endif
