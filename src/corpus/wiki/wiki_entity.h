#ifndef CORPUS_WIKI_WIKI_ENTITY_H
#define CORPUS_WIKI_WIKI_ENTITY_H
/* Characters by name and number: those of HTML 4, and apos. */
#include <stdint.h>

uint32_t entity_number(const char *text, int64_t bytes);        /* "229", "xE5" behind "&#"; 0: no character */
/* "&name;", "&#number;" at text, and "&amp;name;", which was escaped twice. *length: its bytes; 0: it is none */
uint32_t entity_at(const char *text, int64_t bytes, int64_t *length);
#endif
