#ifndef CORPUS_WIKI_WIKI_ENTITY_H
#define CORPUS_WIKI_WIKI_ENTITY_H
/* Character references: the named entities of HTML 4 (its specification, section 24) and apos, and
 * numbers. */
#include <stdint.h>

/* The code point of what follows "&#", as "229" or "xE5"; 0: no character, or a surrogate. */
uint32_t entity_number(const char *text, int64_t bytes);
/* The code point of "&name;" or "&#number;" at text, also of "&amp;name;", which was escaped twice.
 * *length: its bytes; 0: there is no reference. */
uint32_t entity_at(const char *text, int64_t bytes, int64_t *length);
#endif
