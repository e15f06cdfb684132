#ifndef CORPUS_WIKI_WIKI_WORDS_H
#define CORPUS_WIKI_WIKI_WORDS_H
/* Words that have a meaning in wikitext, in the languages of the large wikis: redirects, namespaces,
 * headings, templates. They are compared without regard to case, and _ equals a blank. */
#include <stdbool.h>
#include <stdint.h>

/* The text begins with #REDIRECT, #OMDIRIGERING ... */
bool wiki_word_redirect(const char *text, int64_t bytes);
/* Is the prefix of a link, as "Fil" of [[Fil:x]], that of a file, a category or another language? Such a
 * link is no text. */
bool wiki_word_hidden  (const char *prefix, int64_t bytes);
/* Heads a section of references, links and the like. */
bool wiki_word_end     (const char *heading, int64_t bytes);

/* A template of which text is kept: its positional arguments from `first` to `last`, joined by `between`,
 * with `before` and `after` around them. last 0: `before` replaces the template. */
typedef struct { const char *name; int first, last; const char *before, *between, *after; } WikiTemplate;
/* Special values of `last`. LAST: only the last argument. CONVERT: a number and its unit, or a range of
 * numbers. */
enum { WIKI_LAST = 99, WIKI_CONVERT = 98 };
const WikiTemplate *wiki_word_template(const char *name, int64_t bytes);  /* NULL: the template is removed */
bool wiki_word_range(const char *word, int64_t bytes);                    /* "to" of {{convert|5|to|7|km}} */
#endif
